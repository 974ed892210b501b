//! Responses: RFC 3261 sections 16.11 and 18.1.2.

use super::*;

/// A response with these Via values, each on its line.
fn response(vias: &[&str]) -> String {
    let vias: String = vias.iter().map(|via| format!("Via: {via}\r\n")).collect();
    format!(
        "SIP/2.0 180 Ringing\r\n{vias}From: <sip:a@example.com>;tag=f\r\nTo: <sip:b@example.com>;tag=t\r\n\
         Call-ID: call-1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
    )
}

fn own_via() -> String {
    format!("SIP/2.0/UDP {LB};branch=z9hG4bK0123456789abcdef")
}

/// RFC 3261 section 18.2.2 and RFC 3581 section 4.
#[test]
fn a_response_goes_where_the_next_via_says() {
    let mut lab = Lab::new();
    for (via, to) in [
        ("SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bKa", "198.51.100.7:5062"),
        ("SIP/2.0/UDP 198.51.100.7;branch=z9hG4bKa", "198.51.100.7:5060"),
        ("SIP/2.0/UDP 10.0.0.1:5062;branch=z9hG4bKa;received=198.51.100.7", "198.51.100.7:5062"),
        ("SIP/2.0/UDP phone.example:5062;rport=1024;received=198.51.100.7", "198.51.100.7:1024"),
        ("SIP/2.0/UDP 10.0.0.1:5062;maddr=198.51.100.8;received=198.51.100.7", "198.51.100.8:5062"),
        // A proxy that put two values on one line.
        ("SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bKa, SIP/2.0/UDP 10.0.0.2", "198.51.100.7:5062"),
    ] {
        let (at, got) = lab.pass(P1, &response(&[&own_via(), via]));
        assert_eq!(at, addr(to), "{via}");
        assert_eq!(got, response(&[via]), "only the own Via is gone");
    }
    assert_eq!(lab.lb.stats().counts.responses, 6);
}

#[test]
fn an_own_via_is_known_in_whatever_form_it_comes_back() {
    let mut lab = Lab::new();
    let uac = format!("SIP/2.0/UDP {UAC};branch=z9hG4bKa");
    for own in [
        "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1".to_owned(),
        "SIP / 2.0 / UDP 192.0.2.1 : 5060 ; branch=z9hG4bK1".to_owned(),
        format!("{};next=\"{P1},{P2}\"", own_via()),
        format!("{};passed;received=192.0.2.1", own_via()),
    ] {
        let (to, got) = lab.pass(P1, &response(&[&own, &uac]));
        assert_eq!((to, values(&got, "Via")), (addr(UAC), vec![uac.as_str()]), "{own}");
        // Both on one line.
        let (to, got) = lab.pass(P1, &response(&[&format!("{own} , {uac}")]));
        assert_eq!((to, values(&got, "Via")), (addr(UAC), vec![uac.as_str()]), "{own}");
    }
}

#[test]
fn what_is_not_ours_or_leads_nowhere_is_dropped() {
    let mut lab = Lab::new();
    let own = own_via();
    let uac = format!("SIP/2.0/UDP {UAC};branch=z9hG4bKa");
    for (vias, why) in [
        (vec![uac.as_str(), own.as_str()], Drop::ResponseForeign),
        (vec!["SIP/2.0/UDP 192.0.2.1:5061;branch=z9hG4bKa", &uac], Drop::ResponseForeign),
        (vec!["SIP/2.0/UDP lb.example.com;branch=z9hG4bKa", &uac], Drop::ResponseForeign),
        (vec![own.as_str()], Drop::ResponseNoNext),
        (vec![], Drop::ResponseDefect),
        (vec!["", &uac], Drop::ResponseDefect),
        (vec![own.as_str(), "SIP/2.0/UDP"], Drop::ResponseDefect),
        (vec![own.as_str(), "SIP/2.0/UDP phone.example"], Drop::ResponseAddress),
        (vec![own.as_str(), "SIP/2.0/UDP 198.51.100.7:0"], Drop::ResponseAddress),
        (vec![own.as_str(), "SIP/2.0/UDP 0.0.0.0:5060"], Drop::ResponseAddress),
        (vec![own.as_str(), "SIP/2.0/UDP 224.0.1.75"], Drop::ResponseAddress),
        (vec![own.as_str(), "SIP/2.0/UDP 255.255.255.255"], Drop::ResponseAddress),
        (vec![own.as_str(), "SIP/2.0/UDP [2001:db8::1]"], Drop::ResponseAddress),
        // A forged tower of own Vias would make the balancer talk to itself.
        (vec![own.as_str(), own.as_str(), &uac], Drop::ResponseAddress),
    ] {
        lab.drops(UAS, &response(&vias), why);
    }
    lab.drops(UAS, &response(&[&own, &uac]).replace("\r\n\r\n", "\r\n"), Drop::ResponseDefect);
    assert_eq!(lab.lb.stats().counts.responses, 0);
}

/// What went in comes back the way it came: request through, response made from it, response back.
#[test]
fn the_response_to_a_forwarded_request_returns_to_its_sender() {
    let mut lab = Lab::new();
    let from = "198.51.100.200:40000";
    let (_, at_proxy) = lab.pass(from, &request("INVITE", "sip:bob@example.com", &[]));
    let m = busyhour_sip::Message::parse(at_proxy.as_bytes()).unwrap();
    let mut buf = [0u8; 2048];
    let len =
        busyhour_sip::Reply::new(&m, 200).to_tag(b"t").source(addr(LB)).write(&mut buf, |_| {}).unwrap();
    let (to, got) = lab.pass(P1, std::str::from_utf8(&buf[..len]).unwrap());
    assert_eq!((to, values(&got, "Via").len()), (addr(from), 1));
}
