//! The calling side (RFC 3261 sections 9.1, 13.2, 15 and 22.2), and the times of RFC 6076.

use super::kit::{Lab, Out, accept, addr, challenge, config, ms, only, reply, reply_with, s, times, value};
use crate::ua::{Command, Outcome, PlannedCall};

#[test]
fn a_call_is_acknowledged_held_and_hung_up_along_its_route() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    assert!(invite.text.starts_with("INVITE sip:bob@example.com SIP/2.0\r\n"), "{}", invite.text);
    assert_eq!(invite.to, addr("192.0.2.1:5060"));
    lab.wait(ms(100));
    lab.receive(&reply(&invite.text, 100, ""));
    lab.wait(ms(100));
    lab.receive(&reply(&invite.text, 180, "bob-1"));
    lab.wait(ms(800));
    let ack = only(lab.receive(&accept(&invite.text, "bob-1")), "ACK");
    // Section 12.2.1.1: remote target, route set, tags, Call-ID; section 13.2.2.4: the CSeq of the INVITE.
    assert!(ack.text.starts_with("ACK sip:bob-1@203.0.113.9 SIP/2.0\r\n"), "{}", ack.text);
    assert_eq!(ack.value("Route"), "<sip:192.0.2.1;lr>");
    assert_eq!(ack.value("CSeq"), "1 ACK");
    for name in ["Call-ID", "From"] {
        assert_eq!(ack.value(name), invite.value(name));
    }
    assert!(ack.value("To").ends_with(";tag=bob-1"));
    assert!(ack.value("Via") != invite.value("Via"), "the ACK to a 2xx is a transaction of its own");

    let bye = only(lab.wait(s(5)), "BYE");
    assert_eq!((bye.at, bye.value("CSeq"), bye.value("Route")), (s(6), "2 BYE", "<sip:192.0.2.1;lr>"));
    assert_eq!(lab.ended_if_any(), None);
    lab.wait(ms(30));
    assert!(lab.receive(&reply(&bye.text, 200, "")).is_empty());
    let record = lab.ended();
    assert_eq!(record.outcome, Outcome::Completed);
    // RFC 6076 section 4.3.1: 100 (Trying) is no status of the request.
    assert_eq!((record.srd, record.answered, record.sdd), (Some(ms(200)), Some(s(1)), Some(ms(30))));
    assert_eq!((record.ended, record.retransmissions), (lab.at(ms(6030)), 0));
    lab.wait(s(70));
    let stats = lab.stats();
    assert_eq!((stats.calls, stats.live, lab.ended_if_any()), (0, (0, 0), None));
}

/// RFC 6076 section 4.3.1: any provisional response but 100, or else the 200.
#[test]
fn the_session_request_delay_ends_with_the_first_status() {
    for (status, srd) in [(Some(100), s(2)), (Some(183), s(1)), (Some(181), s(1)), (None, s(2))] {
        let mut lab = Lab::new(config());
        let invite = lab.call();
        lab.wait(s(1));
        if let Some(status) = status {
            lab.receive(&reply(&invite.text, status, "bob-1"));
        }
        lab.wait(s(1));
        lab.receive(&accept(&invite.text, "bob-1"));
        let bye = lab.wait(s(6)).into_iter().find(|out| out.kind() == "BYE").unwrap();
        lab.receive(&reply(&bye.text, 200, ""));
        assert_eq!(lab.ended().srd, Some(srd), "{status:?}");
    }
}

/// Section 22.2; the delay that the caller sees includes the challenge.
#[test]
fn a_challenge_is_answered_once() {
    let mut lab = Lab::new(config());
    let first = lab.call();
    lab.wait(ms(50));
    let sent = lab.receive(&challenge(&first.text, 407, ""));
    assert_eq!(sent.iter().map(Out::kind).collect::<Vec<_>>(), ["ACK", "INVITE"]);
    let second = &sent[1];
    let credentials = second.value("Proxy-Authorization");
    for part in
        ["username=\"alice\"", "realm=\"example.com\"", "nonce=\"n\"", "algorithm=SHA-256", "qop=auth"]
    {
        assert!(credentials.contains(part), "{part} in {credentials}");
    }
    assert_eq!(second.value("CSeq"), "2 INVITE");
    assert_eq!(
        (second.value("Call-ID"), second.value("From")),
        (first.value("Call-ID"), first.value("From"))
    );
    lab.wait(ms(50));
    only(lab.receive(&challenge(&second.text, 407, "")), "ACK");
    let record = lab.ended();
    assert_eq!((record.outcome, record.srd), (Outcome::Refused(407), Some(ms(100))));
}

#[test]
fn a_challenge_that_nobody_understands_ends_the_call() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    let line = "Proxy-Authenticate: Digest realm=\"example.com\", nonce=\"n\", algorithm=SHA-512-256\r\n";
    only(lab.receive(&reply_with(&invite.text, 407, "p", line)), "ACK");
    assert_eq!(lab.ended().outcome, Outcome::Refused(407));
}

#[test]
fn a_refusal_ends_the_call_and_is_its_delay() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    lab.wait(ms(100));
    lab.receive(&reply(&invite.text, 180, "bob-1"));
    lab.wait(ms(300));
    let ack = only(lab.receive(&reply(&invite.text, 486, "bob-1")), "ACK");
    assert_eq!(ack.value("Via"), invite.value("Via"), "section 17.1.1.3: the ACK is part of the transaction");
    let record = lab.ended();
    assert_eq!((record.outcome, record.srd, record.answered), (Outcome::Refused(486), Some(ms(400)), None));
    only(lab.receive(&reply(&invite.text, 486, "bob-1")), "ACK");
    assert_eq!(lab.ended_if_any(), None, "it is told once");
}

/// Section 17.1.1.2: at T1, doubling, until Timer B.
#[test]
fn an_invite_that_nobody_answers_is_repeated_and_given_up() {
    let mut lab = Lab::new(crate::ua::Config { patience: s(100), ..config() });
    lab.call();
    let sent = lab.wait(s(40));
    let expected = [500, 1500, 3500, 7500, 15_500, 31_500].map(|at| (at, "INVITE"));
    assert_eq!(times(&sent), expected);
    let record = lab.ended();
    assert_eq!((record.outcome, record.srd, record.retransmissions), (Outcome::InviteTimeout, None, 6));
    assert_eq!(record.ended, lab.at(s(32)));
}

/// Section 9.1: no CANCEL before a provisional response.
#[test]
fn an_impatient_caller_cancels_as_soon_as_that_is_allowed() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    let sent = lab.wait(s(25));
    assert!(sent.iter().all(|out| out.kind() == "INVITE"), "{:?}", times(&sent));
    let cancel = only(lab.receive(&reply(&invite.text, 100, "")), "CANCEL");
    assert_eq!(cancel.value("Via"), invite.value("Via"));
    assert_eq!((cancel.value("CSeq"), cancel.value("Call-ID")), ("1 CANCEL", invite.value("Call-ID")));
    assert!(lab.receive(&reply(&invite.text, 180, "bob-1")).is_empty(), "one CANCEL is enough");
    lab.receive(&reply(&cancel.text, 200, "bob-1"));
    assert_eq!(lab.ended_if_any(), None, "what becomes of the INVITE counts");
    only(lab.receive(&reply(&invite.text, 487, "bob-1")), "ACK");
    let record = lab.ended();
    assert_eq!((record.outcome, record.srd), (Outcome::InviteTimeout, Some(s(25))), "it rang");
}

/// Section 9.1: without a final response, the INVITE ends 64·T1 after its CANCEL.
#[test]
fn a_cancelled_invite_without_an_end_is_given_up() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    lab.receive(&reply(&invite.text, 180, "bob-1"));
    let cancel = only(lab.wait(s(20)), "CANCEL");
    lab.receive(&reply(&cancel.text, 200, "bob-1"));
    assert!(lab.wait(s(32)).is_empty());
    assert_eq!((lab.ended().outcome, lab.stats().calls), (Outcome::InviteTimeout, 0));
    assert!(lab.receive(&accept(&invite.text, "bob-1")).is_empty());
    assert_eq!(lab.stats().stray, 1);
}

/// Section 9.1: a 2xx that crosses the CANCEL begins the call all the same; who has given up hangs up.
#[test]
fn an_answer_that_crosses_the_cancel_is_hung_up_on_and_told_once() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    lab.receive(&reply(&invite.text, 180, "bob-1"));
    only(lab.wait(s(20)), "CANCEL");
    only(lab.receive(&accept(&invite.text, "bob-1")), "ACK");
    let bye = lab.wait(ms(5)).into_iter().find(|out| out.kind() == "BYE").unwrap();
    lab.receive(&reply(&bye.text, 200, ""));
    assert_eq!(lab.ended().outcome, Outcome::Completed);
    lab.wait(s(70));
    assert_eq!(lab.ended_if_any(), None, "the alarm of the CANCEL means nothing any more");
}

/// Section 13.2.2.4: every repetition of the 200 gets the ACK again, also after the call.
#[test]
fn a_lost_ack_is_sent_again() {
    let mut lab = Lab::new(config());
    let (answer, ack) = lab.talk();
    let again = only(lab.receive(&answer), "ACK");
    assert_eq!((again.to, again.value("CSeq"), again.value("To")), (ack.to, "1 ACK", ack.value("To")));
    let bye = only(lab.wait(s(5)), "BYE");
    lab.receive(&reply(&bye.text, 200, ""));
    lab.ended();
    only(lab.receive(&answer), "ACK");
    assert_eq!(lab.stats().second_answers, 0);
    lab.wait(s(70));
    assert!(lab.receive(&answer).is_empty(), "64·T1 are over");
}

/// Section 13.2.2.4: a second phone that answers is acknowledged and hung up on, once.
#[test]
fn a_second_answer_is_hung_up_on() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    only(lab.receive(&accept(&invite.text, "bob-1")), "ACK");
    let second = accept(&invite.text, "bob-2");
    let sent = lab.receive(&second);
    assert_eq!(sent.iter().map(Out::kind).collect::<Vec<_>>(), ["ACK", "BYE"]);
    for out in &sent {
        assert!(
            out.value("To").ends_with(";tag=bob-2") && out.text.contains(" sip:bob-2@203.0.113.9 SIP/2.0")
        );
    }
    only(lab.receive(&second), "ACK");
    lab.receive(&reply(&sent[1].text, 200, ""));
    assert_eq!((lab.stats().second_answers, lab.stats().calls, lab.ended_if_any()), (1, 1, None));
    let bye = only(lab.wait(s(5)), "BYE");
    assert!(bye.value("To").ends_with(";tag=bob-1"));
    lab.receive(&reply(&bye.text, 200, ""));
    assert_eq!(lab.ended().outcome, Outcome::Completed);
    let third = accept(&invite.text, "bob-3");
    assert_eq!(
        lab.receive(&third).iter().map(Out::kind).collect::<Vec<_>>(),
        ["ACK", "BYE"],
        "after the call, too"
    );
    only(lab.receive(&third), "ACK");
    assert_eq!(lab.stats().second_answers, 2);
}

/// A 2xx without a To tag or a Contact begins no dialog.
#[test]
fn an_answer_without_a_dialog_is_waited_out() {
    let mut lab = Lab::new(config());
    let invite = lab.call();
    assert!(lab.receive(&reply(&invite.text, 200, "bob-1")).is_empty());
    lab.wait(s(21));
    let stats = lab.stats();
    assert_eq!((lab.ended().outcome, stats.calls, stats.malformed), (Outcome::InviteTimeout, 0, 1));
}

/// Section 17.1.2.2: at T1, doubling up to T2, until Timer F.
#[test]
fn a_bye_that_nobody_answers_ends_the_call() {
    let mut lab = Lab::new(config());
    lab.talk();
    let sent = lab.wait(s(40));
    let expected = [0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    assert_eq!(times(&sent), expected.map(|at| (5000 + at, "BYE")));
    let record = lab.ended();
    assert_eq!((record.outcome, record.sdd, record.retransmissions), (Outcome::ByeTimeout, None, 10));
}

#[test]
fn a_bye_may_be_refused() {
    let mut lab = Lab::new(config());
    lab.talk();
    let bye = only(lab.wait(s(5)), "BYE");
    lab.receive(&reply(&bye.text, 100, ""));
    lab.receive(&reply(&bye.text, 481, ""));
    let record = lab.ended();
    assert_eq!((record.outcome, record.sdd), (Outcome::ByeRefused(481), Some(ms(0))));
}

/// What a fleet cannot begin it tells at once, and does not begin later.
#[test]
fn a_fleet_has_limits() {
    let mut lab = Lab::new(crate::ua::Config { calls_max: 1, ..config() });
    lab.call();
    let plan = PlannedCall { at: lab.at(s(1)), caller: 1, callee: 0, hold: s(1) };
    lab.command(Command::Call(vec![plan]));
    assert_eq!(lab.stats().planned, 1);
    let sent = lab.wait(s(2));
    let ours = value(&sent[0].text, "From").to_owned();
    assert!(sent.iter().all(|out| out.value("From") == ours), "only the first call is on the wire");
    let record = lab.ended();
    assert_eq!((record.outcome, record.plan, record.ended), (Outcome::NotStarted, plan, lab.at(s(1))));
}

/// Open loop: a call that starts late is late from its planned time on.
#[test]
fn delays_count_from_the_planned_time() {
    let mut lab = Lab::new(config());
    let plan = |lab: &Lab, at| PlannedCall { at: lab.at(at), caller: 0, callee: 1, hold: s(5) };
    let calls = vec![plan(&lab, s(2)), plan(&lab, s(1))];
    assert!(lab.command(Command::Call(calls)).is_empty());
    lab.stand_still(s(3));
    let sent = lab.wait(ms(0));
    assert_eq!(times(&sent), [(3000, "INVITE"), (3000, "INVITE")]);
    lab.wait(ms(100));
    lab.receive(&reply(&sent[0].text, 486, "b"));
    let record = lab.ended();
    assert_eq!((record.plan.at, record.sent), (lab.at(s(1)), lab.at(s(3))), "the earliest first");
    assert_eq!(record.srd, Some(ms(2100)));
}

#[test]
fn stop_ends_what_goes_on_and_forgets_what_is_planned() {
    let mut lab = Lab::new(config());
    lab.talk();
    let plan = PlannedCall { at: lab.at(s(60)), caller: 1, callee: 0, hold: s(1) };
    lab.command(Command::Call(vec![plan]));
    lab.command(Command::Stop);
    let record = lab.ended();
    assert_eq!((record.outcome, record.answered), (Outcome::Unfinished, Some(ms(0))));
    assert!(lab.wait(s(100)).is_empty());
    assert_eq!((lab.ended_if_any(), lab.stats().planned), (None, 0));
}
