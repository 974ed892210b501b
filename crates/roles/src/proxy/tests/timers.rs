//! INVITE transactions on the wire: exact times, matching, limits (RFC 3261 section 17, RFC 6026).

use super::kit::*;
use crate::proxy::Drop;

fn called() -> (Lab, Request, Out) {
    let mut lab = Lab::with_bob();
    let request = Request::invite();
    let sent = lab.pass(UAC, &request.text());
    (lab, request, sent)
}

fn times(sent: &[Out], to: &str, what: &str) -> Vec<u64> {
    let chosen = sent.iter().filter(|o| o.to == addr(to) && o.first_line().contains(what));
    chosen.map(|o| o.at.as_millis() as u64).collect()
}

/// Section 17.2.1: 100 (Trying) after 200 ms, unless there has been another response; it is repeated with the request.
#[test]
fn trying_comes_after_200_ms() {
    let (mut lab, request, _) = called();
    lab.absorb(UAC, &request.text());
    assert!(lab.wait(ms(199)).is_empty());
    let trying = lab.wait(ms(1)).remove(0);
    assert_eq!((trying.status(), trying.to), (100, addr(UAC)));
    assert_eq!(
        value(&trying.text, "Via"),
        format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-INVITE-1;rport=5062;received=198.51.100.7")
    );
    assert_eq!(lab.pass(UAC, &request.text()).text, trying.text);

    let (mut lab, request, sent) = called();
    let ringing = lab.pass(BOB, &reply(&sent.text, 180, "b"));
    assert!(lab.wait(s(10)).is_empty());
    assert_eq!(lab.pass(UAC, &request.text()).text, ringing.text);
}

/// Sections 17.1.1.2 (Timers A and B) and 17.2.1 (Timers G and H).
#[test]
fn an_invite_that_nobody_answers_and_a_408_that_nobody_acknowledges() {
    let (mut lab, _, first) = called();
    let sent = lab.wait(s(100));
    assert_eq!(times(&sent, BOB, "INVITE"), [500, 1500, 3500, 7500, 15_500, 31_500]);
    assert!(sent.iter().filter(|o| o.to == addr(BOB)).all(|o| o.text == first.text));
    let g: Vec<u64> =
        [0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500].map(|t| 32_000 + t).into();
    assert_eq!(times(&sent, UAC, " 408 "), g);
    assert_eq!(lab.stats().transactions.unacknowledged, 1);
    lab.assert_no_leak();
}

/// Section 17.1.1.2: a provisional response ends the retransmissions.
#[test]
fn a_provisional_response_ends_retransmission() {
    let (mut lab, _, sent) = called();
    lab.wait(ms(700));
    lab.absorb(BOB, &reply(&sent.text, 100, ""));
    assert!(lab.wait(s(100)).is_empty());
}

/// Section 17.1.1.3: the ACK to a refusal has the Request-URI, the one Via, From, Call-ID, CSeq number and Route of the
/// INVITE, and To of the response.
#[test]
fn the_ack_to_a_refusal_is_made_from_the_invite() {
    let mut lab = Lab::with_bob();
    let request = Request::invite()
        .header("Route: <sip:203.0.113.20;lr>,<sip:203.0.113.30;lr>")
        .header("Route: <sip:b;lr>");
    let sent = lab.pass(UAC, &request.text());
    let both = lab.receive(CAROL, &reply(&sent.text, 404, "carol"));
    let ack = &both[0];
    assert_eq!((ack.to, ack.first_line()), (addr(CAROL), "ACK sip:bob@example.com SIP/2.0"));
    assert_eq!(values(&ack.text, "Via"), [value(&sent.text, "Via")]);
    assert_eq!(values(&ack.text, "Route"), values(&sent.text, "Route"));
    assert_eq!(value(&ack.text, "To"), "<sip:bob@example.com>;tag=carol");
    assert_eq!((value(&ack.text, "CSeq"), value(&ack.text, "From")), ("1 ACK", value(&sent.text, "From")));
    assert_eq!(value(&ack.text, "Content-Length"), "0");
    // Timer D: for 32 s the same ACK answers the same refusal.
    lab.wait(s(31));
    let again = lab.receive(CAROL, &reply(&sent.text, 404, "carol"));
    assert_eq!((again.len(), &again[0].text), (1, &ack.text));
}

/// Section 17.2.1: an ACK that comes again, and an INVITE that comes again after the ACK, are absorbed (Timer I).
#[test]
fn the_end_of_a_refused_call_is_quiet() {
    let (mut lab, request, sent) = called();
    let up = lab.refuse(BOB, &sent.text, 486).remove(0);
    assert_eq!(lab.pass(UAC, &request.text()).text, up.text, "the INVITE again: the refusal again");
    for _ in 0..2 {
        lab.absorb(UAC, &request.ack(&up.text).text());
        lab.absorb(UAC, &request.text());
    }
    assert!(lab.wait(s(4)).is_empty());
    lab.assert_no_leak();
}

/// At the limit of transactions new requests get 503 with Retry-After (section 21.5.4), without a transaction; what is
/// there goes on, and nothing is left of what was refused.
#[test]
fn too_many_transactions_are_refused_with_503() {
    for (servers_max, clients_max) in [(2, 1000), (1000, 2)] {
        let mut small = config();
        (small.transactions.servers_max, small.transactions.clients_max) = (servers_max, clients_max);
        let mut lab = Lab::new(small, &[BOB_BOUND]);
        let sent: Vec<_> =
            [1, 2].map(|n| lab.pass(UAC, &Request::invite().call_id(&format!("call-{n}")).text())).into();
        for n in 3..6 {
            let request = Request::invite().call_id(&format!("call-{n}"));
            let refused = lab.answer(UAC, &request.text(), 503);
            assert!(value(&refused.text, "Retry-After").parse::<u32>().is_ok_and(|s| s > 0));
            lab.absorb(UAC, &request.ack(&refused.text).text());
        }
        assert_eq!((lab.stats().live, lab.stats().transactions.refused), ((2, 2), 3));
        for one in sent {
            assert_eq!(lab.pass(BOB, &reply(&one.text, 200, "b")).status(), 200);
        }
        lab.assert_no_leak();
        assert_eq!(lab.pass(UAC, &Request::invite().call_id("call-9").text()).to, addr(BOB));
    }
}

/// The same for a fork: all branches or none.
#[test]
fn a_fork_that_does_not_fit_is_refused_as_a_whole() {
    let mut small = config();
    small.transactions.clients_max = 1;
    let mut lab = Lab::new(small, &[BOB_BOUND, CAROL_BOUND]);
    lab.answer(UAC, &Request::invite().text(), 503);
    assert_eq!(lab.stats().live, (0, 0));
}

/// When the driver has no room for a datagram, the timers send it again: nothing hangs.
#[test]
fn a_full_driver_delays_and_loses_nothing() {
    let mut lab = Lab::with_bob();
    lab.block(true);
    lab.absorb(UAC, &Request::invite().text());
    lab.block(false);
    let sent = lab.wait(ms(600));
    assert_eq!(times(&sent, BOB, "INVITE"), [500]);
    let invite = sent.iter().find(|o| o.to == addr(BOB)).unwrap();
    lab.block(true);
    lab.absorb(BOB, &reply(&invite.text, 486, "b"));
    lab.block(false);
    assert_eq!(times(&lab.wait(s(1)), UAC, " 486 "), [1100], "Timer G");
    assert_eq!(lab.stats().transactions.unsent, 3);
    lab.assert_no_leak();
}

/// Section 17.2.3 for a client of RFC 2543, whose branch says nothing: its INVITE, the retransmission, the CANCEL and the
/// ACK belong together, and another call's do not.
#[test]
fn clients_of_rfc_2543_are_matched() {
    for via in ["SIP/2.0/UDP 198.51.100.7:5062", "SIP/2.0/UDP 198.51.100.7:5062;branch=1"] {
        let mut lab = Lab::with_bob();
        let request = Request::invite().via(via);
        let sent = lab.pass(UAC, &request.text());
        lab.absorb(UAC, &request.text());
        let other = Request { call_id: "call-2".to_owned(), ..request.clone() };
        assert_eq!(lab.pass(UAC, &other.text()).to, addr(BOB));
        lab.pass(BOB, &reply(&sent.text, 180, "b"));
        lab.answer(UAC, &Request { cseq: 2, ..request.cancel() }.text(), 481);
        let both = lab.receive(UAC, &request.cancel().text());
        assert_eq!((both[0].status(), both[1].method()), (200, "CANCEL"));
        let up = lab.refuse(BOB, &sent.text, 487).remove(0);
        lab.absorb(UAC, &request.ack(&up.text).text());
        assert!(lab.wait(ms(100)).is_empty(), "the ACK ends the retransmissions");
        assert_eq!(lab.stats().drops, [0; Drop::COUNT]);
        lab.assert_no_leak();
    }
}

/// An ACK to a 2xx whose sender reuses branch or has none belongs to the INVITE's transaction, and goes on all the same
/// (RFC 6026 section 7.1).
#[test]
fn an_ack_to_a_2xx_with_the_branch_of_its_invite_goes_on() {
    let (mut lab, request, sent) = called();
    let ok = lab.pass(BOB, &reply(&sent.text, 200, "b"));
    let ack = request.ack(&ok.text);
    assert_eq!(lab.pass(UAC, &ack.text()).to, addr(BOB));
    assert_eq!(lab.pass(UAC, &ack.text()).to, addr(BOB));
}
