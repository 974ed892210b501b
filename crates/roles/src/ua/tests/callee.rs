//! The answering side (RFC 3261 sections 8.2, 9.2, 13.3 and 15.1.2).

use super::kit::{Lab, Out, config, ms, only, request, s, times};
use crate::ua::{Answering, Config};

fn lab(ring_after: Option<std::time::Duration>, answer_after: std::time::Duration) -> Lab {
    let answer = Answering { ring_after, answer_after, busy_share: 0.0 };
    Lab::new(Config { answer, tell_answers: true, ..config() })
}

fn tag(out: &Out) -> &str {
    out.value("To").split(";tag=").nth(1).expect("a To tag")
}

#[test]
fn a_call_rings_is_answered_and_hung_up() {
    let mut lab = lab(Some(ms(500)), s(2));
    assert!(lab.receive(&request("INVITE", "1", "a", 1, "")).is_empty());
    let sent = lab.wait(s(2));
    let ends: Vec<_> = times(&sent).into_iter().filter(|(_, kind)| *kind != "100").collect();
    assert_eq!(ends, [(500, "180"), (2000, "200")]);
    let answer = sent.last().unwrap().clone();
    // Section 12.1.1: Record-Route as it came, a Contact, one To tag for the dialog.
    assert_eq!(answer.value("Record-Route"), "<sip:192.0.2.1;lr>");
    assert_eq!(answer.value("Contact"), "<sip:bob@198.51.100.7:5062>");
    assert!(answer.text.contains("\r\nContent-Type: application/sdp\r\n"));
    let ringing = sent.iter().find(|out| out.kind() == "180").unwrap();
    assert_eq!(tag(ringing), tag(&answer));
    assert!(lab.answered().is_some());
    assert!(lab.receive(&request("ACK", "1", "b", 1, tag(&answer))).is_empty());
    assert!(lab.wait(s(40)).is_empty(), "acknowledged, so not repeated");
    assert_eq!(lab.stats().legs, 1);
    only(lab.receive(&request("BYE", "1", "c", 2, tag(&answer))), "200");
    assert_eq!(lab.stats().legs, 0);
    only(lab.receive(&request("BYE", "1", "d", 3, tag(&answer))), "481");
    lab.wait(s(70));
    assert_eq!((lab.stats().live, lab.answered()), ((0, 0), None));
}

#[test]
fn an_answer_may_come_at_once_with_or_without_ringing() {
    let sent = lab(Some(ms(0)), ms(0)).receive(&request("INVITE", "1", "a", 1, ""));
    assert_eq!(times(&sent), [(0, "180"), (0, "200")]);
    only(lab(None, ms(0)).receive(&request("INVITE", "1", "a", 1, "")), "200");
}

/// Section 13.3.1.4: until the ACK comes, at T1, doubling up to T2, for 64·T1.
#[test]
fn an_answer_is_repeated_until_its_ack_comes() {
    let mut lab = lab(None, ms(0));
    lab.receive(&request("INVITE", "1", "a", 1, ""));
    let expected = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    assert_eq!(times(&lab.wait(s(40))), expected.map(|at| (at, "200")));
    let stats = lab.stats();
    assert_eq!((stats.legs, stats.unacknowledged, stats.answer_retransmissions), (0, 1, 10));

    lab.receive(&request("INVITE", "2", "b", 1, ""));
    assert_eq!(lab.wait(s(2)).len(), 2);
    lab.receive(&request("ACK", "2", "c", 1, "x"));
    assert!(lab.wait(s(40)).is_empty());
}

/// RFC 6026 section 7.1: an INVITE that comes again after its 2xx is absorbed; the 2xx has its own timer.
#[test]
fn a_repeated_invite_is_answered_from_its_transaction() {
    let mut lab = lab(Some(ms(0)), s(1));
    let invite = request("INVITE", "1", "a", 1, "");
    only(lab.receive(&invite), "180");
    only(lab.receive(&invite), "180");
    only(lab.wait(s(1)), "200");
    assert!(lab.receive(&invite).is_empty());
    assert_eq!(lab.stats().legs, 1);
}

/// Section 8.2.2.2: the same call by another branch.
#[test]
fn a_merged_request_is_refused() {
    let mut lab = lab(None, s(1));
    lab.receive(&request("INVITE", "1", "a", 1, ""));
    only(lab.receive(&request("INVITE", "1", "b", 1, "")), "482");
    assert_eq!(lab.stats().legs, 1);
}

/// Section 9.2.
#[test]
fn a_cancelled_call_is_not_answered() {
    let mut lab = lab(Some(ms(0)), s(5));
    only(lab.receive(&request("INVITE", "1", "a", 1, "")), "180");
    let sent = lab.receive(&request("CANCEL", "1", "a", 1, ""));
    assert_eq!(times(&sent), [(0, "200"), (0, "487")]);
    assert_eq!((sent[0].value("CSeq"), sent[1].value("CSeq")), ("1 CANCEL", "1 INVITE"));
    assert_eq!(tag(&sent[0]), tag(&sent[1]));
    lab.receive(&request("ACK", "1", "a", 1, tag(&sent[1])));
    assert!(lab.wait(s(10)).is_empty());
    assert_eq!((lab.stats().legs, lab.answered()), (0, None));
    only(lab.receive(&request("CANCEL", "2", "z", 1, "")), "481");
}

#[test]
fn a_cancel_after_the_answer_changes_nothing() {
    let mut lab = lab(None, ms(0));
    let answer = only(lab.receive(&request("INVITE", "1", "a", 1, "")), "200");
    lab.receive(&request("ACK", "1", "b", 1, tag(&answer)));
    only(lab.receive(&request("CANCEL", "1", "a", 1, "")), "200");
    assert_eq!(lab.stats().legs, 1);
}

/// Section 17.2.1: a 486 is repeated at T1, doubling up to T2, until its ACK comes.
#[test]
fn a_busy_phone_says_so_until_it_is_acknowledged() {
    let answer = Answering { busy_share: 1.0, ..Answering::default() };
    let mut lab = Lab::new(Config { answer, ..config() });
    let busy = only(lab.receive(&request("INVITE", "1", "a", 1, "")), "486");
    assert_eq!(times(&lab.wait(s(2))), [(500, "486"), (1500, "486")]);
    lab.receive(&request("ACK", "1", "a", 1, tag(&busy)));
    assert!(lab.wait(s(40)).is_empty());
    assert_eq!((lab.stats().legs, lab.stats().live), (0, (0, 0)));
}

#[test]
fn a_fleet_at_its_limit_is_busy() {
    let mut lab = Lab::new(Config { calls_max: 1, ..config() });
    lab.receive(&request("INVITE", "1", "a", 1, ""));
    only(lab.receive(&request("INVITE", "2", "b", 1, "")), "486");
    assert_eq!(lab.stats().legs, 1);
}

/// A lost BYE must not take a line away for ever.
#[test]
fn a_call_whose_bye_never_comes_is_given_up() {
    let mut lab = Lab::new(Config { bye_within: s(60), ..config() });
    let answer = lab.receive(&request("INVITE", "1", "a", 1, "")).pop().expect("an answer");
    lab.receive(&request("ACK", "1", "b", 1, tag(&answer)));
    lab.wait(s(59));
    assert_eq!((lab.stats().legs, lab.stats().abandoned), (1, 0));
    lab.wait(s(2));
    assert_eq!((lab.stats().legs, lab.stats().abandoned), (0, 1));
}

#[test]
fn other_requests_are_answered_and_garbage_is_counted() {
    let mut lab = Lab::new(config());
    only(lab.receive(&request("OPTIONS", "1", "a", 1, "")), "200");
    only(lab.receive(&request("MESSAGE", "2", "b", 1, "")), "200");
    assert!(lab.receive(&request("ACK", "3", "c", 1, "x")).is_empty());
    assert!(lab.receive("HELO example.com\r\n\r\n").is_empty());
    assert!(
        lab.receive("OPTIONS sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1\r\n\r\n").is_empty()
    );
    assert!(lab.receive("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1\r\n\r\n").is_empty());
    assert_eq!((lab.stats().malformed, lab.stats().stray), (3, 0));
}
