//! Registrations: by SIPp with digest, and what RFC 3261 section 10.3 and RFC 3327 ask for besides.

use std::time::Duration;

use crate::place::{address, socket, wait_for};
use crate::sipp::{Sipp, user_line};
use crate::tool::needs;
use crate::up::{Up, busyhour};
use crate::wire::{Phone, sha256_credentials};

#[test]
fn two_hundred_users_register_with_md5() {
    needs!("sipp" of "sip-tester");
    let up = Up::start(&["--provision", "0000-0199"]);
    let lines = (0..200).map(|n| user_line(&format!("{n:04}"), &format!("pw{n:04}"), "127.0.0.1:5062"));
    Sipp::new("register", socket(5060), up.balancer).calls(200).rate(100).table(lines).run();
    up.stop();
}

#[test]
fn a_wrong_password_is_challenged_again() {
    needs!("sipp" of "sip-tester");
    let up = Up::start(&["--provision", "0000-0001"]);
    let register = |user, password| {
        let line = user_line(user, password, "127.0.0.1:5062");
        Sipp::new("register_refused", socket(5060), up.balancer).table([line]).run();
    };
    register("0001", "pw0002");
    register("nobody", "pw0001");
    up.stop();
}

#[test]
fn sha256_is_offered_beside_md5_and_good_at_every_proxy() {
    let up = Up::start(&["--provision", "0000-0001"]);
    let phone = Phone::at(socket(5060));
    let contact = format!("Contact: <sip:0001@{}>\r\n", phone.address);
    let challenge = phone.ask(up.balancer, &phone.register("0001", "sha", 1, &contact));
    assert_eq!(challenge.status(), Some(401));
    let offered = challenge.headers("WWW-Authenticate");
    assert_eq!(offered.len(), 2, "{}", challenge.0);
    assert!(offered.iter().any(|c| c.contains("algorithm=MD5")), "{offered:?}");
    let offer = *offered.iter().find(|c| c.contains("algorithm=SHA-256")).expect("both are offered");
    let uri = "sip:test.example";
    for (cseq, password, status) in [(2, "pw0000", 401), (3, "pw0001", 200)] {
        let given = sha256_credentials(offer, "0001", password, "REGISTER", uri);
        let more = format!("{contact}Authorization: {given}\r\n");
        let answer = phone.ask(up.balancer, &phone.register("0001", "sha", cseq, &more));
        assert_eq!(answer.status(), Some(status), "{}", answer.0);
    }
    // The nonce of one proxy is good at the other, and at each when asked directly.
    for number in [1, 2] {
        let given = sha256_credentials(offer, "0001", "pw0001", "REGISTER", uri);
        let register =
            phone.register("0001", "sha", 3 + u32::from(number), &format!("Authorization: {given}\r\n"));
        let answer = phone.ask(up.proxy(number), &register);
        assert_eq!(answer.status(), Some(200), "{}", answer.0);
        assert_eq!(
            answer.headers("Contact").len(),
            1,
            "a REGISTER handled by one proxy is seen by all: {}",
            answer.0
        );
    }
    // Who they say they are in To is who they must be.
    let given = sha256_credentials(offer, "0001", "pw0001", "REGISTER", uri);
    let other = phone.register("0000", "other", 1, &format!("{contact}Authorization: {given}\r\n"));
    assert_eq!(phone.ask(up.balancer, &other).status(), Some(403));
    up.stop();
}

#[test]
fn a_subscriber_who_is_added_while_it_runs_can_register_and_one_who_is_removed_cannot() {
    let up = Up::start(&[]);
    let phone = Phone::at(socket(5060));
    let mut cseq = 0;
    let mut register = || {
        cseq += 1;
        let challenge = phone.ask(up.balancer, &phone.register("alice", "added", cseq, ""));
        let offered = challenge.header("WWW-Authenticate").expect("a challenge").to_owned();
        cseq += 1;
        let given = sha256_credentials(&offered, "alice", "wonder land", "REGISTER", "sip:test.example");
        let more = format!("Authorization: {given}\r\n");
        phone.ask(up.balancer, &phone.register("alice", "added", cseq, &more)).status().expect("a response")
    };
    assert_eq!(register(), 401);
    let data = up.server.data();
    let data = data.to_str().expect("UTF-8");
    let user = |line: &[&str]| {
        let output =
            busyhour(&[&["user"], line, &["--data", data, "--domain", "test.example"]].concat(), None);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    user(&["add", "alice", "--password", "wonder land"]);
    wait_for("alice to be known", Duration::from_secs(10), || (register() == 200).then_some(()));
    user(&["remove", "alice"]);
    wait_for("alice to be forgotten", Duration::from_secs(10), || (register() == 401).then_some(()));
    up.stop();
}

/// The bindings that an answer shows, without their expirations, sorted.
fn bindings(answer: &crate::wire::Heard) -> Vec<String> {
    let mut all: Vec<String> = answer
        .headers("Contact")
        .iter()
        .map(|c| c.split_once(";expires=").map_or(*c, |(uri, _)| uri).to_owned())
        .collect();
    all.sort();
    all
}

#[test]
fn bindings_follow_section_10_3() {
    let up = Up::start(&["--set", "proxy.authenticate=", "--set", "proxy.min_expires=60s"]);
    let phone = Phone::at(socket(5060));
    let ask =
        |call_id: &str, cseq, more: &str| phone.ask(up.balancer, &phone.register("u", call_id, cseq, more));

    let none = ask("a", 1, "");
    assert_eq!((none.status(), bindings(&none)), (Some(200), vec![]), "{}", none.0);

    let several = "Contact: <sip:u@192.0.2.1>;q=0.5, <sip:u@192.0.2.2>;expires=120\r\nm: sip:u@192.0.2.3\r\nExpires: 300\r\n";
    let stored = ask("a", 2, several);
    let three = ["<sip:u@192.0.2.1>", "<sip:u@192.0.2.2>", "<sip:u@192.0.2.3>"];
    assert_eq!(
        (stored.status(), bindings(&stored)),
        (Some(200), three.map(String::from).to_vec()),
        "{}",
        stored.0
    );
    let expiry = |host: &str| {
        let line =
            stored.headers("Contact").into_iter().find(|c| c.contains(host)).expect("listed").to_owned();
        let digits = line.split_once("expires=").expect("an expiration").1;
        digits.split(';').next().expect("one").parse::<u32>().expect("a number")
    };
    assert!(
        (110..=120).contains(&expiry("192.0.2.2")) && (290..=300).contains(&expiry("192.0.2.1")),
        "{}",
        stored.0
    );

    let brief = ask("a", 3, "Contact: <sip:u@192.0.2.4>;expires=10\r\n");
    assert_eq!((brief.status(), brief.header("Min-Expires")), (Some(423), Some("60")), "{}", brief.0);

    // Only what comes later in the same Call-ID counts; a retransmission is answered as before.
    let old =
        ask("a", 2, "Contact: <sip:u@192.0.2.1>;expires=0\r\nVia: SIP/2.0/UDP other;branch=z9hG4bKother\r\n");
    assert_eq!(old.status(), Some(500), "{}", old.0);
    assert_eq!(ask("a", 2, several).status(), Some(200));

    for wrong in
        ["Contact: *\r\n", "Contact: *\r\nExpires: 60\r\n", "Contact: *, <sip:u@192.0.2.1>\r\nExpires: 0\r\n"]
    {
        assert_eq!(ask("a", 4, wrong).status(), Some(400), "{wrong}");
    }
    let one_less = ask("a", 5, "Contact: <sip:u@192.0.2.1>;expires=0\r\n");
    assert_eq!(bindings(&one_less).len(), 2, "{}", one_less.0);
    let fetched = ask("b", 1, "");
    assert_eq!(bindings(&fetched), three[1..]);
    let all_gone = ask("a", 6, "Contact: *\r\nExpires: 0\r\n");
    assert_eq!((all_gone.status(), bindings(&all_gone)), (Some(200), vec![]), "{}", all_gone.0);

    let required = ask("c", 1, "Contact: <sip:u@192.0.2.1>\r\nRequire: gruu\r\n");
    assert_eq!(
        (required.status(), required.header("Unsupported")),
        (Some(420), Some("gruu")),
        "{}",
        required.0
    );
    up.stop();
}

#[test]
fn contacts_of_a_user_have_a_limit_and_paths_are_kept() {
    let up = Up::start(&["--set", "proxy.authenticate=", "--set", "proxy.contacts_max=2"]);
    let phone = Phone::at(socket(5060));
    let ask = |cseq, more: &str| phone.ask(up.balancer, &phone.register("u", "limit", cseq, more));
    let stored = ask(1, "Contact: <sip:u@192.0.2.1>\r\nContact: <sip:u@192.0.2.2>\r\nSupported: path\r\n");
    assert_eq!(stored.status(), Some(200), "{}", stored.0);
    let path = stored.header("Path").expect("the balancer is in the path");
    assert!(path.contains(&up.balancer.to_string()), "{path}");
    assert_eq!(ask(2, "Contact: <sip:u@192.0.2.3>\r\n").status(), Some(403));
    assert_eq!(bindings(&ask(3, "")).len(), 2, "nothing of a refused request is carried out");
    up.stop();
}

#[test]
fn foreign_domains_and_addresses_are_not_registered_here() {
    let up = Up::start(&["--set", "proxy.authenticate="]);
    let phone = Phone::at(socket(5060));
    let to = format!("To: <sip:u@{}>\r\nContact: <sip:u@192.0.2.1>\r\n", address());
    let request = phone.request("REGISTER", "sip:test.example", "foreign", 1, &to);
    let answer = phone.ask(up.balancer, &request);
    assert_eq!(answer.status(), Some(404), "{}", answer.0);
    up.stop();
}
