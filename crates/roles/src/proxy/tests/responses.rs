//! Responses on their way back (RFC 3261 section 16.7, RFC 6026), one branch.

use super::kit::*;
use crate::proxy::Drop;

fn called() -> (Lab, Request, Out) {
    let mut lab = Lab::with_bob();
    let request = Request::invite().header("Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK0");
    let sent = lab.pass(UAC, &request.text());
    (lab, request, sent)
}

/// RFC 3261 section 16.7 steps 3 and 5: 100 ends here, other provisional responses go on at once, less our Via.
#[test]
fn provisional_responses_go_on_except_100() {
    let (mut lab, _, sent) = called();
    lab.absorb(BOB, &reply(&sent.text, 100, ""));
    let body = "v=0\r\n\u{1}";
    let progress = reply_with(&sent.text, 183, "b", "X-Odd:  a , \"b\"\r\n")
        .replace("Content-Length: 0\r\n\r\n", &format!("l: {}\r\n\r\n{body}trailing", body.len()));
    let up = lab.pass(BOB, &progress);
    let our_via = format!("Via: {}\r\n", value(&sent.text, "Via"));
    let expected = progress.replacen(&our_via, "", 1);
    assert_eq!((up.to, up.text.as_str()), (addr(UAC), expected.strip_suffix("trailing").unwrap()));
    let again = lab.pass(BOB, &progress);
    assert_eq!(again.text, up.text, "a repeated provisional response goes on, too");
}

/// RFC 3261 section 16.7 step 3: just one Via goes, also when several share a line.
#[test]
fn one_via_is_popped_from_a_shared_line() {
    let (mut lab, _, sent) = called();
    let vias = values(&sent.text, "Via");
    assert_eq!(vias.len(), 3);
    let lines: String = vias.iter().map(|v| format!("Via: {v}\r\n")).collect();
    let ringing = reply(&sent.text, 180, "b");
    let up = lab.pass(BOB, &ringing.replace(&lines, &format!("v: {}\r\n", vias.join(" , "))));
    assert_eq!(value_line(&up.text), format!("v: {} , {}", vias[1], vias[2]));
}

fn value_line(text: &str) -> &str {
    text.lines().nth(1).unwrap()
}

/// RFC 3261 section 16.7 step 5 and RFC 6026 sections 7.1 and 7.2: every 2xx goes on, as often as it comes, for 64·T1.
#[test]
fn a_2xx_goes_on_as_often_as_it_comes() {
    let (mut lab, request, sent) = called();
    let ok = reply(&sent.text, 200, "b");
    for _ in 0..3 {
        let up = lab.pass(BOB, &ok);
        assert_eq!((up.status(), up.to), (200, addr(UAC)));
        assert!(lab.wait(s(4)).is_empty(), "the UAS repeats it, not the proxy");
    }
    lab.absorb(UAC, &request.text());
    lab.absorb(BOB, &reply(&sent.text, 180, "b"));
    lab.absorb(BOB, &reply(&sent.text, 486, "b"));
    lab.wait(s(19));
    assert_eq!(lab.pass(BOB, &ok).status(), 200, "31 s after the first");
    lab.wait(s(2));
    lab.absorb(BOB, &ok);
    assert_eq!(lab.stats().drops[Drop::StrayResponse as usize], 1, "RFC 6026 section 8.9: not forwarded");
    lab.assert_no_leak();
}

/// RFC 3261 section 13.2.2.4: the ACK to a 2xx is a request of its own; it is forwarded along the route without state.
#[test]
fn the_ack_to_a_2xx_is_forwarded() {
    let (mut lab, _, sent) = called();
    let up = lab.pass(BOB, &reply(&sent.text, 200, "b"));
    let route = value(&up.text, "Record-Route").to_owned();
    let ack = Request::new("ACK", "sip:bob@203.0.113.9:5064").tagged("b").header(&format!("Route: {route}"));
    let first = lab.pass(UAC, &ack.text());
    assert_eq!((first.to, first.first_line()), (addr(BOB), "ACK sip:bob@203.0.113.9:5064 SIP/2.0"));
    assert_eq!((values(&first.text, "Route").len(), value(&first.text, "Max-Forwards")), (0, "69"));
    assert_eq!(values(&first.text, "Record-Route").len(), 0);
    let second = lab.pass(UAC, &ack.text());
    assert_eq!(first.text, second.text, "section 16.11: the same branch when it comes again");
    assert_ne!(branch(&first.text), branch(&sent.text));
    assert_eq!(lab.stats().live, (1, 1), "the INVITE's only");
}

/// RFC 3261 sections 16.7 step 6 and 17.1.1.3: the refusal of the only branch goes on as it is; a 503 as a 500.
#[test]
fn the_refusal_of_the_only_branch_goes_on() {
    for (status, up_status) in [
        (302, 302),
        (404, 404),
        (407, 407),
        (408, 408),
        (486, 486),
        (487, 487),
        (500, 500),
        (503, 500),
        (603, 603),
    ] {
        let (mut lab, request, sent) = called();
        let up = lab.refuse(BOB, &sent.text, status);
        assert_eq!((up.len(), up[0].status(), up[0].to), (1, up_status, addr(UAC)), "{status}");
        assert_eq!(values(&up[0].text, "Via").len(), 2);
        assert!(tag(&up[0].text, "To").is_some());
        assert_eq!(
            lab.refuse(BOB, &sent.text, status).len(),
            0,
            "a repeated one is acknowledged, not forwarded"
        );
        lab.absorb(BOB, &reply(&sent.text, 180, "b"));
        lab.absorb(BOB, &reply(&sent.text, 200, "b"));
        lab.absorb(UAC, &request.ack(&up[0].text).text());
        assert!(lab.wait(s(3)).is_empty(), "{status}: the ACK ends it");
        lab.assert_no_leak();
    }
}

/// RFC 6026 section 8.9 and RFC 3261 sections 16.7 step 3, 18.1.2, 18.3: what belongs to no transaction, or is malformed,
/// goes nowhere and changes nothing.
#[test]
fn stray_and_malformed_responses_are_dropped() {
    let (mut lab, _, sent) = called();
    let ok = reply(&sent.text, 200, "b");
    let vias = values(&sent.text, "Via");
    let only_ours =
        vias[1..].iter().fold(ok.clone(), |text, via| text.replace(&format!("Via: {via}\r\n"), ""));
    let other_branch = ok.replacen(branch(&ok), "z9hG4bKother", 1);
    for (text, why) in [
        (ok.replacen("192.0.2.10:5060", "192.0.2.99:5060", 1), Drop::Malformed),
        (ok.replacen("192.0.2.10:5060", "192.0.2.10:5061", 1), Drop::Malformed),
        (only_ours, Drop::Malformed),
        (ok.replace("\r\nTo: ", "\r\nX-To: "), Drop::Malformed),
        (ok.replace("Content-Length: 0", "Content-Length: 5"), Drop::Malformed),
        (ok.replace("CSeq: 1 INVITE", "CSeq: INVITE"), Drop::Malformed),
        (other_branch, Drop::StrayResponse),
        (ok.replace("CSeq: 1 INVITE", "CSeq: 1 BYE"), Drop::StrayResponse),
    ] {
        let before = lab.stats().drops[why as usize];
        lab.absorb(BOB, &text);
        assert_eq!(lab.stats().drops[why as usize], before + 1, "{text}");
    }
    let refused = reply(&sent.text, 486, "b").replace("\r\nTo: ", "\r\nX-To: ");
    lab.absorb(BOB, &refused);
    assert_eq!(lab.pass(BOB, &ok).status(), 200, "the transaction still waits");
}
