//! Registrations (RFC 3261 sections 10.2 and 22.2).

use std::time::Duration;

use super::kit::{Lab, Out, challenge, config, ms, only, reply, reply_with, s};
use crate::ua::{Command, Config};

fn granted(request: &str, contacts: &str) -> String {
    reply_with(request, 200, "registrar", &format!("Contact: {contacts}\r\n"))
}

const OURS: &str = "<sip:alice@198.51.100.7:5062>;expires=60";

fn refreshing() -> Lab {
    Lab::new(Config { refresh_after: Some(s(3600)), ..config() })
}

fn register(lab: &mut Lab) -> Out {
    let at = lab.at(ms(0));
    only(lab.command(Command::Register { user: 0, at }), "REGISTER")
}

#[test]
fn a_registration_answers_its_challenge() {
    let mut lab = Lab::new(config());
    let first = register(&mut lab);
    assert!(first.text.starts_with("REGISTER sip:example.com SIP/2.0\r\n"), "{}", first.text);
    assert_eq!((first.value("Contact"), first.value("Expires")), ("<sip:alice@198.51.100.7:5062>", "600"));
    assert_eq!((first.value("Supported"), first.value("CSeq")), ("path", "1 REGISTER"));
    lab.wait(ms(20));
    let second = only(lab.receive(&challenge(&first.text, 401, "")), "REGISTER");
    assert_eq!((second.value("CSeq"), second.value("Call-ID")), ("2 REGISTER", first.value("Call-ID")));
    assert!(second.value("Authorization").contains("username=\"alice\""));
    lab.wait(ms(20));
    lab.receive(&granted(&second.text, OURS));
    let record = lab.registered();
    // The delay that the user sees includes the challenge.
    assert_eq!((record.user, record.status, record.rrd), (0, Some(200), Some(ms(40))));
    assert_eq!((record.at, record.ended), (lab.at(ms(0)), lab.at(ms(40))));
    assert!(lab.wait(s(3600)).is_empty(), "it is not to be refreshed");
}

#[test]
fn a_wrong_password_is_told() {
    let mut lab = Lab::new(config());
    let first = register(&mut lab);
    let second = only(lab.receive(&challenge(&first.text, 401, "")), "REGISTER");
    assert!(lab.receive(&challenge(&second.text, 401, "")).is_empty());
    let record = lab.registered();
    assert_eq!((record.status, record.rrd), (Some(401), None));
}

#[test]
fn a_registration_that_nobody_answers_times_out() {
    let mut lab = refreshing();
    let at = lab.at(s(1));
    assert!(lab.command(Command::Register { user: 1, at }).is_empty());
    let sent = lab.wait(s(40));
    assert_eq!((sent[0].at, sent.len()), (s(1), 11));
    let record = lab.registered();
    assert_eq!((record.user, record.at, record.status, record.rrd), (1, at, None, None));
    assert!(lab.wait(s(3600)).is_empty(), "what never was is not refreshed");
}

/// Five sixths of what was granted to this fleet's contact, whatever other phones have.
#[test]
fn a_registration_is_refreshed_in_time() {
    let mut lab = refreshing();
    let first = register(&mut lab);
    lab.receive(&granted(&first.text, &format!("<sip:alice@203.0.113.9>;expires=3000, {OURS}")));
    lab.registered();
    let again = only(lab.wait(s(50)), "REGISTER");
    assert_eq!((again.at, again.value("CSeq")), (s(50), "2 REGISTER"));
    assert_eq!(again.value("Call-ID"), first.value("Call-ID"), "section 10.2: the same Call-ID");
    lab.receive(&granted(&again.text, OURS));
    assert_eq!(lab.registered().at, lab.at(s(50)));
}

#[test]
fn an_experiment_may_ask_for_earlier_refreshes() {
    let mut lab = Lab::new(Config { refresh_after: Some(s(7)), ..config() });
    let first = register(&mut lab);
    lab.receive(&granted(&first.text, OURS));
    assert_eq!(only(lab.wait(s(7)), "REGISTER").at, s(7));
}

/// RFC 5626 section 4.5 has 30 s as the base time.
#[test]
fn a_refresh_that_fails_is_tried_again() {
    let mut lab = refreshing();
    let first = register(&mut lab);
    lab.receive(&granted(&first.text, OURS));
    let refresh = only(lab.wait(s(50)), "REGISTER");
    lab.receive(&reply(&refresh.text, 503, "lb"));
    assert_eq!((lab.registered().status, lab.registered().status), (Some(200), Some(503)));
    assert_eq!(only(lab.wait(s(30)), "REGISTER").at, s(80));
}

#[test]
fn registering_again_does_not_double_the_refreshes() {
    let mut lab = refreshing();
    for _ in 0..3 {
        let request = register(&mut lab);
        lab.receive(&granted(&request.text, OURS));
        lab.wait(Duration::from_secs(1));
    }
    assert_eq!(only(lab.wait(s(49)), "REGISTER").at, s(52));
}
