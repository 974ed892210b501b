//! CANCEL (RFC 3261 sections 9 and 16.10) and Timer C (sections 16.6 step 11, 16.7 step 2, 16.8).

use super::kit::*;

fn called() -> (Lab, Request, String) {
    let mut lab = Lab::with_bob();
    let request = Request::invite().header("X-Header: x");
    let sent = lab.pass(UAC, &request.text());
    (lab, request, sent.text)
}

fn ringing() -> (Lab, Request, String) {
    let (mut lab, request, sent) = called();
    assert_eq!(lab.pass(BOB, &reply(&sent, 180, "b")).status(), 180);
    (lab, request, sent)
}

fn to_caller(sent: Vec<Out>) -> Vec<(std::time::Duration, u16)> {
    sent.into_iter().filter(|o| o.to == addr(UAC)).map(|o| (o.at, o.status())).collect()
}

/// Sections 9.1, 9.2 and 16.10: 200 at once, a CANCEL to the branch that rings, and the 487 of the callee goes on.
#[test]
fn a_ringing_call_is_cancelled() {
    let (mut lab, request, sent) = ringing();
    let both = lab.receive(UAC, &request.cancel().text());
    assert_eq!(both.len(), 2, "{both:#?}");
    let (ok, cancel) = (&both[0], &both[1]);
    assert_eq!((ok.status(), ok.to, value(&ok.text, "CSeq")), (200, addr(UAC), "1 CANCEL"));
    assert!(tag(&ok.text, "To").is_some());
    // Section 9.1: Request-URI, Call-ID, To, CSeq number, From, Route as in the request, and its topmost Via alone.
    assert_eq!((cancel.to, cancel.first_line()), (addr(BOB), "CANCEL sip:bob@203.0.113.9:5064 SIP/2.0"));
    assert_eq!(values(&cancel.text, "Via"), [value(&sent, "Via")]);
    for name in ["Call-ID", "To", "From"] {
        assert_eq!(value(&cancel.text, name), value(&sent, name));
    }
    assert_eq!((value(&cancel.text, "CSeq"), values(&cancel.text, "X-Header").len()), ("1 CANCEL", 0));
    assert_eq!(value(&cancel.text, "Max-Forwards"), "70");
    lab.absorb(BOB, &reply(&cancel.text, 200, "b"));
    let up = lab.refuse(BOB, &sent, 487);
    assert_eq!((up.len(), up[0].status(), value(&up[0].text, "CSeq")), (1, 487, "1 INVITE"));
    lab.absorb(UAC, &request.ack(&up[0].text).text());
    lab.assert_no_leak();
}

/// Sections 9.2 and 17.2.2: CANCEL has a transaction of its own; one that comes again is answered from it.
#[test]
fn a_repeated_cancel_is_answered_by_its_transaction() {
    let (mut lab, request, _) = ringing();
    let first = lab.receive(UAC, &request.cancel().text());
    assert_eq!(lab.stats().live.0, 2, "the INVITE's and the CANCEL's");
    let again = lab.pass(UAC, &request.cancel().text());
    assert_eq!(again.text, first[0].text);
    assert_eq!(lab.stats().transactions.servers, 2);
}

/// Section 9.1: no CANCEL before a provisional response; a 100 is one. It is repeated until it is answered (Timer E).
#[test]
fn a_cancel_waits_for_a_provisional_response() {
    let (mut lab, request, sent) = called();
    lab.answer(UAC, &request.cancel().text(), 200);
    let repeated = lab.wait(s(1));
    assert!(repeated.iter().all(|o| o.method() != "CANCEL"), "{repeated:#?}");
    let cancel = lab.pass(BOB, &reply(&sent, 100, ""));
    assert_eq!((cancel.method(), cancel.to), ("CANCEL", addr(BOB)));
    let start = lab.elapsed();
    let times: Vec<_> =
        lab.wait(s(4)).iter().filter(|o| o.method() == "CANCEL").map(|o| o.at - start).collect();
    assert_eq!(times, [ms(500), ms(1500), ms(3500)]);
    lab.absorb(BOB, &reply(&cancel.text, 481, "b"));
    assert!(lab.wait(s(10)).iter().all(|o| o.method() != "CANCEL"));
    assert_eq!(lab.refuse(BOB, &sent, 487).len(), 1);
    lab.assert_no_leak();
}

/// Section 9.2: a CANCEL that matches nothing is answered with 481.
#[test]
fn a_cancel_of_nothing_is_answered_with_481() {
    let (mut lab, request, _) = ringing();
    let mut other = request.cancel();
    other.vias = vec![format!("SIP/2.0/UDP {UAC};branch=z9hG4bKother;rport")];
    lab.answer(UAC, &other.text(), 481);
    let mut other_host = request.cancel();
    other_host.vias = vec![request.vias[0].replace(UAC, "198.51.100.8:5062")];
    lab.answer(UAC, &other_host.text(), 481);
    assert_eq!(lab.stats().live, (1, 1));
}

/// Section 9.2: after a final response a CANCEL has no effect, but is answered with 200 all the same.
#[test]
fn a_cancel_after_the_end_changes_nothing() {
    let (mut lab, request, sent) = ringing();
    lab.receive(BOB, &reply(&sent, 200, "b"));
    lab.answer(UAC, &request.cancel().text(), 200);
    assert_eq!(lab.pass(BOB, &reply(&sent, 200, "b")).status(), 200);
    lab.assert_no_leak();

    let (mut lab, request, sent) = ringing();
    lab.refuse(BOB, &sent, 486);
    lab.answer(UAC, &request.cancel().text(), 200);
    lab.assert_no_leak();
}

/// Section 9.1: a CANCEL may come too late at the callee: its 200 to the INVITE goes on.
#[test]
fn an_answer_that_crosses_the_cancel_goes_on() {
    let (mut lab, request, sent) = ringing();
    lab.receive(UAC, &request.cancel().text());
    assert_eq!(lab.pass(BOB, &reply(&sent, 200, "b")).status(), 200);
    lab.assert_no_leak();
}

/// Section 9.2: the To tag of the answer to CANCEL is that of the answer to the INVITE, as far as the proxy makes both.
/// Nobody answers here: the INVITE is given up with Timer B.
#[test]
fn a_cancelled_call_that_nobody_answers_ends_with_487() {
    let (mut lab, request, _) = called();
    let ok = lab.answer(UAC, &request.cancel().text(), 200);
    let sent = lab.wait(s(32));
    let last = sent.iter().rfind(|o| o.to == addr(UAC)).unwrap();
    assert_eq!((last.status(), last.at), (487, s(32)));
    assert_eq!(tag(&last.text, "To"), tag(&ok.text, "To"));
    lab.absorb(UAC, &request.ack(&last.text).text());
    lab.assert_no_leak();
}

/// Section 9.1: 64·T1 after a CANCEL without a final response, the call counts as cancelled; what comes later is stray.
#[test]
fn a_callee_that_ignores_the_cancel_is_given_up() {
    let (mut lab, request, sent) = ringing();
    lab.wait(s(5));
    lab.receive(UAC, &request.cancel().text());
    let up = to_caller(lab.wait(s(33)));
    assert_eq!(up[0], (s(37), 487));
    lab.absorb(BOB, &reply(&sent, 200, "b"));
    lab.assert_no_leak();
}

/// Section 9.1 for a request with nothing but compact headers and no Content-Length: its CANCEL is the longer message.
#[test]
fn a_terse_invite_can_be_cancelled() {
    let mut lab = Lab::with_bob();
    let invite = "INVITE sip:bob@example.com SIP/2.0\r\nv: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK1\r\n\
        f: sip:a@h;tag=1\r\nt: sip:b@h\r\ni: x\r\nCSeq: 1 INVITE\r\nMax-Forwards: 9\r\nMax-Breadth: 1\r\n\r\n";
    let sent = lab.pass(UAC, invite);
    let long = [("\nv:", "\nVia:"), ("\nf:", "\nFrom:"), ("\nt:", "\nTo:"), ("\ni:", "\nCall-ID:")];
    let long = long.iter().fold(sent.text, |text, (short, long)| text.replace(short, long));
    assert_eq!(lab.pass(BOB, &reply(&long, 180, "b")).status(), 180);
    let cancel = invite.replace("INVITE", "CANCEL");
    let both = lab.receive(UAC, &cancel);
    assert_eq!((both.len(), both[1].method(), both[1].to), (2, "CANCEL", addr(BOB)));
    assert!(both[1].text.ends_with("Content-Length: 0\r\n\r\n"), "{}", both[1].text);
}

/// A limit on client transactions holds no CANCEL back: phones would ring on because there were too many calls.
#[test]
fn a_cancel_goes_out_at_the_limit() {
    let mut small = config();
    small.transactions.clients_max = 1;
    let mut lab = Lab::new(small, &[BOB_BOUND]);
    let sent = lab.pass(UAC, &Request::invite().text());
    lab.receive(BOB, &reply(&sent.text, 180, "b"));
    let both = lab.receive(UAC, &Request::invite().cancel().text());
    assert_eq!((both.len(), both[1].method()), (2, "CANCEL"));
    assert_eq!(lab.refuse(BOB, &sent.text, 487).len(), 1);
    lab.assert_no_leak();
}

/// Sections 16.6 step 11, 16.7 step 2 and 16.8: an INVITE that rings for longer than Timer C is cancelled. 101 to 199
/// start it anew, 100 does not.
#[test]
fn timer_c_ends_a_call_that_rings_for_ever() {
    let (mut lab, request, sent) = ringing();
    for _ in 0..3 {
        assert!(lab.wait(s(180)).is_empty());
        assert_eq!(lab.pass(BOB, &reply(&sent, 183, "b")).status(), 183);
    }
    assert!(lab.wait(s(100)).is_empty());
    lab.absorb(BOB, &reply(&sent, 100, ""));
    let fired = lab.wait(s(81));
    assert_eq!((fired.len(), fired[0].method(), fired[0].at), (1, "CANCEL", s(3 * 180 + 181)));
    let up = lab.refuse(BOB, &sent, 487);
    assert_eq!((up.len(), up[0].status()), (1, 487));
    lab.absorb(UAC, &request.ack(&up[0].text).text());
    lab.assert_no_leak();
}

/// Section 16.8: when the callee does not even answer the CANCEL, the caller gets a 408.
#[test]
fn timer_c_and_silence_end_with_408() {
    let (mut lab, _, _) = ringing();
    let up = to_caller(lab.wait(s(181 + 33)));
    assert_eq!(up[0], (s(181 + 32), 408));
    lab.assert_no_leak();
}

/// Section 16.8: without any provisional response, Timer C counts as a 408, and no CANCEL is sent.
#[test]
fn timer_c_before_any_response_is_a_408() {
    let mut short = config();
    short.timer_c = s(10);
    let mut lab = Lab::new(short, &[BOB_BOUND]);
    lab.pass(UAC, &Request::invite().text());
    let sent = lab.wait(s(10));
    assert!(sent.iter().all(|o| o.method() != "CANCEL"));
    assert_eq!(to_caller(sent), [(ms(200), 100), (s(10), 408)]);
    lab.assert_no_leak();
}

/// The same while other contacts are left: they are tried.
#[test]
fn timer_c_moves_on_to_the_next_contact() {
    let mut lab = Lab::new(config(), &[BOB_BOUND, ("bob", "sip:bob@203.0.113.20", 500, "")]);
    let sent = lab.pass(UAC, &Request::invite().text());
    lab.receive(BOB, &reply(&sent.text, 180, "b"));
    assert_eq!(lab.wait(s(181)).pop().unwrap().method(), "CANCEL");
    let next = lab.refuse(BOB, &sent.text, 487);
    assert_eq!((next.len(), next[0].to, next[0].method()), (1, addr(CAROL), "INVITE"));
    assert_eq!(lab.pass(CAROL, &reply(&next[0].text, 200, "c")).status(), 200);
    lab.assert_no_leak();
}
