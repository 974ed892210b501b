//! Calls between SIPp and SIPp through the balancer and a proxy.

use std::net::SocketAddr;

use crate::place::socket;
use crate::sipp::{Sipp, user_line};
use crate::tool::needs;
use crate::up::Up;
use crate::wire::{PATIENCE, Phone, register};

/// A cluster with registered callees 0100 to 0149 at one address, and a caller's address.
pub(crate) struct Exchange {
    pub(crate) up: Up,
    pub(crate) caller: SocketAddr,
    pub(crate) callee: SocketAddr,
}

const CALLEES: std::ops::Range<u32> = 100..150;

impl Exchange {
    pub(crate) fn start(more: &[&str]) -> Self {
        let up = Up::start(&[&["--provision", "0000-0199"], more].concat());
        let (caller, callee) = (socket(5060), socket(5060));
        let phone = Phone::at(SocketAddr::new(callee.ip(), 5999));
        for user in CALLEES {
            register(&phone, up.balancer, &format!("{user:04}"), &format!("<sip:{user:04}@{callee}>"));
        }
        Exchange { up, caller, callee }
    }

    /// SIPp as the callee.
    pub(crate) fn callee(&self, scenario: &str) -> Sipp {
        // It sends requests only along dialogs; where to is in the Record-Route, and SIPp wants to be told besides.
        Sipp::new(scenario, self.callee, self.up.balancer)
    }

    /// SIPp as a callee that checks which way requests have come.
    pub(crate) fn watchful(&self, scenario: &str) -> Sipp {
        self.callee(scenario).with("CLUSTER", &self.up.balancer.ip().to_string())
    }

    /// SIPp as the caller: 0000 calls 0100, 0001 calls 0101 and so on.
    pub(crate) fn caller(&self, scenario: &str) -> Sipp {
        let lines = CALLEES.map(|callee| {
            let caller = format!("{:04}", callee - 100);
            user_line(&caller, &format!("pw{caller}"), &format!("{callee:04}"))
        });
        Sipp::new(scenario, self.caller, self.up.balancer).table(lines)
    }

    /// Ends the test: the cluster has to stop as it should.
    pub(crate) fn stop(self) {
        self.up.stop();
    }
}

#[test]
fn calls_complete_and_every_request_goes_through_a_proxy() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    let callee = x.watchful("answer").with("RING", "200").calls(200).start();
    x.caller("call").with("HOLD", "200").calls(200).rate(50).run();
    callee.finish();
    x.stop();
}

#[test]
fn calls_complete_though_datagrams_are_lost() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    // The caller loses one in twenty of what it sends; all is made good by retransmissions, its own and the callee's: five
    // of them within the eight seconds that a lost ACK has. (SIPp does not repeat the last message of a scenario, so the
    // callee has to get everything out.)
    let callee = x.watchful("answer").with("RING", "0").calls(50).start();
    x.caller("call").with("HOLD", "8000").calls(50).rate(25).option("-lost").option("5").run();
    callee.finish();
    x.stop();
}

#[test]
fn requests_inside_a_dialog_go_both_ways() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    let callee = x.watchful("dialog_answer").calls(20).start();
    x.caller("dialog").calls(20).rate(10).run();
    callee.finish();
    x.stop();
}

#[test]
fn a_caller_who_gives_up_gets_487() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    let callee = x.callee("cancelled").calls(20).start();
    x.caller("cancel").calls(20).rate(10).run();
    callee.finish();
    x.stop();
}

#[test]
fn a_busy_callee_is_busy_for_the_caller() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    for status in ["486", "603", "302"] {
        let callee = x.callee("refuse").with("STATUS", status).calls(5).start();
        x.caller("refused").with("STATUS", status).calls(5).run();
        callee.finish();
    }
    x.stop();
}

#[test]
fn a_callee_who_does_not_answer_in_time_is_given_up() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&["--set", "proxy.timer_c=2s"]);
    // Timer C ends the ringing: the callee gets a CANCEL (RFC 3261 section 16.8), the caller the 487 that this brings.
    let callee = x.callee("cancelled").calls(5).start();
    x.caller("refused").with("STATUS", "487").calls(5).run();
    callee.finish();
    // Nobody is at the address at all any more: as if it had answered with 408.
    x.caller("refused").with("STATUS", "408").calls(1).run();
    x.stop();
}

#[test]
fn who_is_not_registered_is_not_found() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    let lines = ["0199", "nobody"].map(|callee| user_line("0001", "pw0001", callee));
    Sipp::new("refused", x.caller, x.up.balancer).with("STATUS", "404").table(lines).calls(2).run();
    x.stop();
}

#[test]
fn a_caller_with_a_wrong_password_or_a_false_name_gets_no_further() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    for (name, user, password, status) in
        [("0001", "0001", "pw0002", "407"), ("0002", "0001", "pw0001", "403"), ("x", "nobody", "pw", "407")]
    {
        let line = format!("{name};[authentication username={user} password={password}];0100");
        Sipp::new("refused", x.caller, x.up.balancer).with("STATUS", status).table([line]).run();
    }
    x.stop();
}

#[test]
fn other_methods_are_proxied_whatever_they_are() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    for method in ["MESSAGE", "SUBSCRIBE", "NOTIFY", "INFO", "UPDATE", "PRACK", "REFER", "PUBLISH", "OPTIONS"]
    {
        let callee = x.watchful("accept").with("METHOD", method).calls(3).start();
        x.caller("request").with("METHOD", method).calls(3).run();
        callee.finish();
    }
    x.stop();
}

#[test]
fn a_method_that_nobody_knows_is_proxied_too() {
    let up = Up::start(&["--provision", "0000-0001"]);
    let (caller, callee) = (Phone::at(socket(5060)), Phone::at(socket(5060)));
    register(&callee, up.balancer, "0001", &format!("<sip:0001@{}>", callee.address));
    caller.send(up.balancer, caller.request("FROBNICATE", "sip:0001@test.example", "unknown", 1, ""));
    let heard = callee.hear_that("FROBNICATE", |h| h.method() == Some("FROBNICATE"));
    callee.reply(up.balancer, &heard, 299, "");
    caller.hear_that("299", |h| h.status() == Some(299));
    up.stop();
}

#[test]
fn the_first_of_two_phones_to_answer_has_the_call_and_the_other_is_cancelled() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    let other = socket(5060);
    let phone = Phone::at(SocketAddr::new(other.ip(), 5998));
    for user in CALLEES.take(10) {
        register(&phone, x.up.balancer, &format!("{user:04}"), &format!("<sip:{user:04}@{other}>"));
    }
    let answers = x.watchful("answer").with("RING", "500").calls(10).start();
    let loses = Sipp::new("cancelled", other, x.up.balancer).calls(10).start();
    x.caller("call").with("HOLD", "200").calls(10).rate(10).run();
    answers.finish();
    loses.finish();
    x.stop();
}

#[test]
fn a_repeated_request_is_absorbed_and_its_answer_repeated() {
    let up = Up::start(&["--provision", "0000-0001", "--set", "proxy.authenticate=REGISTER"]);
    let (caller, callee) = (Phone::at(socket(5060)), Phone::at(socket(5060)));
    register(&callee, up.balancer, "0001", &format!("<sip:0001@{}>", callee.address));
    let invite = caller.request("INVITE", "sip:0001@test.example", "again", 1, "");
    for _ in 0..5 {
        caller.send(up.balancer, &invite);
    }
    let heard = callee.hear_that("INVITE", |h| h.method() == Some("INVITE"));
    let branch = heard.headers("Via")[0].to_owned();
    callee.reply(up.balancer, &heard, 180, "");
    caller.hear_that("180", |h| h.status() == Some(180));
    caller.send(up.balancer, &invite);
    // A repeated INVITE is answered with the 180 again, and goes no further.
    caller.hear_that("180 again", |h| h.status() == Some(180));
    callee.reply(up.balancer, &heard, 486, "");
    let refused = caller.hear_that("486", |h| h.status() == Some(486));
    caller.send(up.balancer, &invite);
    caller.hear_that("486 again", |h| h.status() == Some(486));
    let to = format!("To: {}\r\n", refused.header("To").expect("To"));
    let ack = caller.request("ACK", "sip:0001@test.example", "again", 1, &to);
    caller.send(up.balancer, ack);
    // What the callee has heard besides is at most its own transaction repeated, and the ACK to its 486.
    let ack = callee.hear_that("ACK", |h| {
        assert!(h.method() == Some("ACK") || h.headers("Via")[0] == branch, "a second transaction: {}", h.0);
        h.method() == Some("ACK")
    });
    assert_eq!(ack.headers("Via").len(), 2, "the proxy makes the ACK, the balancer forwards it: {}", ack.0);
    up.stop();
}

#[test]
fn a_call_may_come_back_to_the_proxy_but_not_run_in_circles() {
    let up = Up::start(&["--provision", "0000-0003", "--set", "proxy.authenticate=REGISTER"]);
    let (caller, callee) = (Phone::at(socket(5060)), Phone::at(socket(5060)));
    // 0001 has its calls forwarded to 0002, who has a phone: a spiral.
    register(&callee, up.balancer, "0001", &format!("<sip:0002@{}>", up.balancer));
    register(&callee, up.balancer, "0002", &format!("<sip:0002@{}>", callee.address));
    caller.send(up.balancer, caller.request("INVITE", "sip:0001@test.example", "spiral", 1, ""));
    let heard = callee.hear_that("INVITE", |h| h.method() == Some("INVITE"));
    assert!(heard.headers("Via").len() >= 4, "twice through a proxy: {}", heard.0);
    callee.reply(up.balancer, &heard, 486, "");
    caller.hear_that("486", |h| h.status() == Some(486));
    // 0003 and 0000 forward to each other: a loop.
    register(&callee, up.balancer, "0003", &format!("<sip:0000@{}>", up.balancer));
    register(&callee, up.balancer, "0000", &format!("<sip:0003@{}>", up.balancer));
    caller.send(up.balancer, caller.request("INVITE", "sip:0000@test.example", "loop", 1, ""));
    let refused = caller.hear_that("a refusal", |h| h.status().is_some_and(|s| s >= 300));
    assert!(matches!(refused.status(), Some(482 | 483)), "{}", refused.0);
    caller.send(up.balancer, caller.request("MESSAGE", "sip:0000@test.example", "few", 1, ""));
    let refused =
        caller.hear_that("a refusal", |h| h.header("Call-ID") == Some("few") && h.status() > Some(199));
    assert!(matches!(refused.status(), Some(482 | 483)), "{}", refused.0);
    up.stop();
}

#[test]
fn a_request_without_hops_left_is_not_forwarded() {
    let up = Up::start(&["--set", "proxy.authenticate="]);
    let phone = Phone::at(socket(5060));
    let request = phone.request("MESSAGE", "sip:u@test.example", "hops", 1, "");
    let request = request.replace("Max-Forwards: 70", "Max-Forwards: 0");
    assert_eq!(phone.ask(up.balancer, &request).status(), Some(483));
    assert_eq!(phone.ask(up.proxy(1), &request).status(), Some(483));
    assert!(phone.hear(PATIENCE / 100).is_none(), "one answer for each");
    up.stop();
}

#[test]
fn a_call_that_is_forwarded_to_another_user_needs_no_second_password() {
    needs!("sipp" of "sip-tester");
    let x = Exchange::start(&[]);
    // 0150 and 0151 have calls forwarded to 0100: one by the address of the cluster, one by its name.
    let phone = Phone::at(SocketAddr::new(x.callee.ip(), 5997));
    for (user, host) in [("0150", x.up.balancer.to_string()), ("0151", crate::up::DOMAIN.to_owned())] {
        register(&phone, x.up.balancer, user, &format!("<sip:0100@{host}>"));
    }
    for user in ["0150", "0151"] {
        let callee = x.watchful("answer").with("RING", "0").start();
        let line = user_line("0001", "pw0001", user);
        Sipp::new("call", x.caller, x.up.balancer).with("HOLD", "100").table([line]).run();
        callee.finish();
    }
    x.stop();
}
