//! Whatever comes: no panic, at most one message out, none to the balancer itself, and everything counted.
#![allow(clippy::disallowed_types, reason = "proptest's prop_oneof! shares strategies in an Arc")]

use proptest::prelude::*;

use super::*;

/// Members, epochs and departed addresses of every kind.
fn lab() -> Lab {
    let limits = Limits::default();
    let one = table(1, &[member("p1", P1, State::Ready), member("p2", P2, State::Ready)]);
    let two = one.next(&Change::Add(member("p3", P3, State::Ready)), &limits).unwrap();
    let three = two.next(&Change::SetState("p1".to_owned(), State::Draining), &limits).unwrap();
    let four = three.next(&Change::Add(member("p4", "192.0.2.14:5060", State::Suspect)), &limits).unwrap();
    let gone = Membership { departed: vec![addr("192.0.2.19:5060")], ..four };
    Lab::with(Config { path: PathPolicy::WhenSupported, ..Config::new(addr(LB), KEY) }, gone)
}

fn uri() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec![
        LB,
        P1,
        P2,
        P3,
        "192.0.2.1",
        "192.0.2.14:5060",
        "192.0.2.19:5060",
        UAS,
        "example.com",
        "[2001:db8::1]:5060",
        "0.0.0.0",
        "224.0.1.1",
        "192.0.2.1:",
        "[::1",
        "",
        "192.0.2.1:0",
    ]);
    let scheme =
        prop::sample::select(vec!["sip:", "sip:", "sip:", "sip:b@", "sips:", "tel:", "SIP:x:y@", ""]);
    let params = prop::sample::select(vec![
        "",
        ";lr",
        ";lr",
        ";maddr=192.0.2.1",
        ";maddr=203.0.113.9",
        ";transport=tcp",
        ";x=%4",
        "?a=b",
    ]);
    (scheme, host, params).prop_map(|(s, h, p)| format!("{s}{h}{p}"))
}

fn line() -> impl Strategy<Value = String> {
    let route = prop::collection::vec(uri(), 1..4).prop_map(|uris| {
        let values: Vec<String> = uris.iter().map(|uri| format!("<{uri}>")).collect();
        format!("Route: {}", values.join(", "))
    });
    let separators = prop::sample::select(vec![", ", ",", ",,", " , ,"]);
    let own = (1usize..4, separators, any::<bool>()).prop_map(|(n, sep, lead)| {
        format!("Route: {}{}", if lead { sep } else { "" }, vec![format!("<sip:{LB};lr>"); n].join(sep))
    });
    let host = prop::sample::select(vec![
        LB,
        P1,
        UAC,
        "192.0.2.1",
        "phone.example",
        "[2001:db8::1]",
        "10.0.0.1:5062",
    ]);
    let params = prop::sample::select(vec![
        "",
        ";",
        ";branch=z9hG4bKx",
        ";branch=z9hG4bKx;rport",
        ";rport=1;received=1.2.3.4;branch=1",
        ";maddr=192.0.2.1",
        ";received",
        ";rport;rport",
        ";branch=z9hG4bK;next=\"a,b\"",
        ";received=x, SIP/2.0/UDP 10.0.0.9",
    ]);
    let via = (host, params).prop_map(|(h, p)| format!("Via: SIP/2.0/UDP {h}{p}"));
    let other = prop::sample::select(vec![
        "Max-Forwards: 0",
        "Max-Forwards: 70",
        "Max-Forwards:",
        "Max-Forwards: 999",
        "Call-ID: a",
        "i:b",
        "Call-ID:",
        "From: <sip:a@b>;tag=1",
        "From: x",
        "To: <sip:a@b>;tag=bh-lb-0000000000000000",
        "To: <sip:a@b>",
        "CSeq: 1 INVITE",
        "CSeq: x",
        "Require: a, b",
        "Require:",
        "Supported: path",
        "Content-Length: 0",
        "Content-Length: 99",
        " folded",
        "bad",
        "Record-Route: <sip:x;lr>",
        "Path: <sip:x;lr>",
        ":",
    ]);
    prop_oneof![3 => route, 1 => own, 4 => via, 6 => other.prop_map(str::to_owned)]
}

fn soup() -> impl Strategy<Value = String> {
    let method =
        prop::sample::select(vec!["INVITE", "ACK", "CANCEL", "REGISTER", "OPTIONS", "SUBSCRIBE", "X"]);
    let request = (method, uri()).prop_map(|(m, u)| format!("{m} {u} SIP/2.0"));
    let status =
        prop::sample::select(vec!["SIP/2.0 200 OK", "SIP/2.0 100", "SIP/2.0 99 x"]).prop_map(str::to_owned);
    let first = prop_oneof![5 => request, 1 => status];
    let vias = format!("Via: SIP/2.0/UDP {LB};branch=z9hG4bKa");
    let end = prop::sample::select(vec!["\r\n\r\n", "\r\n\r\n", "\r\n\r\nbody", "\n\n", ""]);
    (first, any::<bool>(), prop::collection::vec(line(), 0..9), end).prop_map(
        move |(first, own, lines, end)| {
            let own = if own { format!("\r\n{vias}") } else { String::new() };
            format!("{first}{own}\r\n{}{end}", lines.join("\r\n"))
        },
    )
}

/// Hands one datagram in and checks what must hold for any.
fn check(lab: &mut Lab, from: &str, bytes: &[u8]) -> Result<(), TestCaseError> {
    let total = |c: &Counts| c.requests + c.responses + c.answered_total() + c.dropped_total();
    let before = lab.lb.stats().counts;
    lab.receive(from, bytes);
    let after = lab.lb.stats().counts;
    prop_assert_eq!(total(&after), total(&before) + 1, "counted once");
    let sent = std::mem::take(&mut lab.out.messages);
    prop_assert_eq!(sent.len() as u64, 1 - (after.dropped_total() - before.dropped_total()));
    for (flow, message) in sent {
        prop_assert_ne!(flow.peer, addr(LB));
        let m = busyhour_sip::Message::parse(&message).expect("what is sent is SIP");
        prop_assert_eq!(
            m.defect(),
            None,
            "what is sent is well-formed: {}",
            String::from_utf8_lossy(&message)
        );
        if after.requests > before.requests {
            let via = m.top_via().expect("the own Via is on top");
            prop_assert_eq!(via.sent_by, LB.as_bytes());
            let outward = after.requests_outward > before.requests_outward;
            prop_assert_eq!(lab.lb.table.is_member(flow.peer), !outward);
            prop_assert!(!outward || lab.lb.table.is_member(addr(from)), "no open relay");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&mut lab(), UAC, &bytes)?;
    }

    #[test]
    fn arbitrary_headers(texts in prop::collection::vec(soup(), 1..8), from in prop::sample::select(vec![UAC, P1, P3, "192.0.2.14:5060"])) {
        let mut lab = lab();
        for text in &texts {
            check(&mut lab, from, text.as_bytes())?;
        }
    }

    /// A good message with bytes flipped, cut or doubled.
    #[test]
    fn damaged_messages(cut in 0usize..400, at in 0usize..400, byte: u8, method in prop::sample::select(vec!["INVITE", "OPTIONS", "ACK"])) {
        let route = format!("Route: <sip:{LB};lr>, <sip:{P1};lr>");
        let good = request(method, &format!("sip:{LB}"), &[&route, "Require: x", "Record-Route: <sip:x;lr>"]);
        let mut bytes = good.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let mut lab = lab();
        check(&mut lab, P1, &bytes)?;
        bytes.truncate(cut);
        check(&mut lab, P1, &bytes)?;
    }
}
