//! Credentials (RFC 3261 section 22, RFC 8760), and who needs none.

use super::kit::*;

fn lab() -> Lab {
    let mut config = config();
    config.authenticate = vec!["INVITE".to_owned(), "REGISTER".to_owned()];
    Lab::new(config, &[BOB_BOUND])
}

fn challenged() -> (Lab, String) {
    let mut lab = lab();
    let reply = lab.answer(UAC, &Request::invite().text(), 407);
    (lab, reply.text)
}

fn with_credentials(challenge: &str, index: usize, user: &str) -> Request {
    let value = credentials(challenge, index, user, "INVITE", "sip:bob@example.com");
    Request::invite().header(&format!("Proxy-Authorization: {value}"))
}

/// RFC 3261 section 22.3 and RFC 8760 section 2.4: 407, one challenge for each algorithm, the preferred one first.
#[test]
fn an_invite_without_credentials_is_challenged() {
    let (mut lab, reply) = challenged();
    let challenges = values(&reply, "Proxy-Authenticate");
    assert_eq!(challenges.len(), 2);
    assert!(
        challenges[0].contains("algorithm=SHA-256") && challenges[1].contains("algorithm=MD5"),
        "{reply}"
    );
    for challenge in challenges {
        assert!(
            challenge.contains("realm=\"example.com\"") && challenge.contains("qop=\"auth\""),
            "{challenge}"
        );
        assert!(!challenge.contains("stale"), "{challenge}");
    }
    lab.absorb(UAC, &Request::invite().ack(&reply).text());
    assert_eq!(lab.stats().challenged, 1);
    lab.assert_no_leak();
}

/// RFC 3261 section 22.3: our credentials are consumed, those for another realm are left in place.
#[test]
fn good_credentials_let_an_invite_through_and_stay_here() {
    for index in [0, 1] {
        let (mut lab, challenge) = challenged();
        let other = "Proxy-Authorization: Digest username=\"a\", realm=\"other\", nonce=\"n\",\r\n uri=\"u\", response=\"r\"";
        let request = with_credentials(&challenge, index, "alice").header(other);
        let sent = lab.pass(UAC, &request.text());
        assert_eq!(sent.to, addr(BOB));
        assert!(sent.text.contains(&format!("\r\n{other}\r\n")), "{}", sent.text);
        assert_eq!(values(&sent.text, "Proxy-Authorization").len(), 1, "{}", sent.text);
    }
}

/// RFC 3261 section 22.4 and RFC 7616 section 3.3: wrong credentials are challenged as if there were none; right ones with
/// an old nonce with stale=true.
#[test]
fn wrong_and_stale_credentials_are_challenged() {
    let (mut lab, challenge) = challenged();
    let good = with_credentials(&challenge, 0, "alice").text();
    let at = good.find("response=\"").unwrap() + 10;
    let mut wrong = good.clone();
    wrong.replace_range(at..at + 4, if &good[at..at + 4] == "0000" { "1111" } else { "0000" });
    let nonce = good.find("nonce=\"").unwrap() + 7;
    let mut forged = good.clone();
    forged.replace_range(nonce..nonce + 2, "ff");
    for bad in [wrong.replace("username=\"alice\"", "username=\"nobody\""), wrong, forged] {
        assert!(!lab.answer(UAC, &bad, 407).text.contains("stale"), "{bad}");
    }
    lab.wait(s(61));
    let stale = lab.answer(UAC, &good, 407);
    assert!(
        values(&stale.text, "Proxy-Authenticate").iter().all(|c| c.contains("stale=true")),
        "{}",
        stale.text
    );
    assert_eq!(lab.pass(UAC, &with_credentials(&stale.text, 0, "alice").text()).to, addr(BOB));
}

/// Nobody calls in the name of another user of this domain; a foreign name is not ours to protect.
#[test]
fn from_must_be_who_has_the_credentials() {
    let (mut lab, challenge) = challenged();
    lab.answer(UAC, &with_credentials(&challenge, 0, "bob").text(), 403);
    let mut foreign = with_credentials(&challenge, 0, "bob");
    foreign.from = "<sip:alice@elsewhere.example>;tag=f1".to_owned();
    assert_eq!(lab.pass(UAC, &foreign.text()).to, addr(BOB));
    let mut escaped = with_credentials(&challenge, 0, "alice").call_id("call-2");
    escaped.from = "<sip:%61lice@EXAMPLE.com>;tag=f1".to_owned();
    assert_eq!(lab.pass(UAC, &escaped.text()).to, addr(BOB), "section 19.1.4: the same user");
}

/// RFC 3261 section 10.3 steps 3 to 5: 401, then 200; 403 for the binding of another user, 404 for another domain.
#[test]
fn a_register_is_challenged_by_the_registrar() {
    let mut lab = lab();
    let mut register =
        Request::new("REGISTER", "sip:example.com").header("Contact: <sip:alice@198.51.100.7:5062>");
    register.to = "<sip:alice@example.com>".to_owned();
    let challenge = lab.answer(UAC, &register.text(), 401);
    assert_eq!(values(&challenge.text, "WWW-Authenticate").len(), 2);
    for index in [0, 1] {
        let value = credentials(&challenge.text, index, "alice", "REGISTER", "sip:example.com");
        let authorized = register.clone().header(&format!("Authorization: {value}"));
        let reply = lab.answer(UAC, &authorized.text(), 200);
        assert!(value_of_contact(&reply.text).contains("sip:alice@198.51.100.7:5062"), "{}", reply.text);
        for (to, status) in [("<sip:bob@example.com>", 403), ("<sip:alice@elsewhere.example>", 404)] {
            let mut other = authorized.clone();
            other.to = to.to_owned();
            lab.answer(UAC, &other.text(), status);
        }
    }
    let mut call = Request::new("MESSAGE", "sip:alice@example.com");
    call.cseq = 2;
    assert_eq!(lab.pass(BOB, &call.text()).to, addr(UAC), "the binding is there");
}

fn value_of_contact(text: &str) -> &str {
    value(text, "Contact")
}

/// A dialog that began with credentials: what goes along it by our Record-Route needs none.
#[test]
fn requests_along_a_dialog_are_not_challenged() {
    let (mut lab, challenge) = challenged();
    let sent = lab.pass(UAC, &with_credentials(&challenge, 0, "alice").text());
    let route = value(&sent.text, "Record-Route").to_owned();
    assert!(route.starts_with("<sip:192.0.2.10:5060;lr;"), "{route}");
    let along = |call_id: &str, tag: bool, route: &str| {
        let mut r = Request::new("INVITE", "sip:bob@203.0.113.9:5064").call_id(call_id);
        if tag {
            r = r.tagged("b");
        }
        r.cseq = 2;
        r.header(&format!("Route: {route}")).text()
    };
    let sent = lab.pass(UAC, &along("call-1", true, &route));
    assert_eq!((sent.to, values(&sent.text, "Route").len()), (addr(BOB), 0));
    let mut forged = route.clone();
    let digit = forged.find("bh=").unwrap() + 3;
    forged.replace_range(digit..=digit, if &route[digit..=digit] == "0" { "1" } else { "0" });
    lab.answer(UAC, &along("call-3", true, &forged), 407);
    lab.answer(UAC, &along("call-1", true, &forged).replace("z9hG4bK", "z9hG4bKx"), 407);
    lab.answer(UAC, &along("call-1", true, "<sip:192.0.2.10:5060;lr>").replace("z9hG4bK", "z9hG4bKy"), 407);
    lab.answer(UAC, &along("call-4", true, &route), 407);
    lab.answer(UAC, &along("call-1", false, &route).replace("z9hG4bK", "z9hG4bKz"), 407);
}

/// A dialog that began with a request which needs no credentials opens no way for one that does.
#[test]
fn a_subscription_does_not_open_the_relay() {
    let mut lab = lab();
    let sent = lab.pass(UAC, &Request::new("SUBSCRIBE", "sip:bob@example.com").text());
    let route = value(&sent.text, "Record-Route").to_owned();
    let invite = Request::new("INVITE", "sip:x@203.0.113.77").tagged("b").header(&format!("Route: {route}"));
    lab.answer(UAC, &invite.text(), 407);
    let notify = Request::new("NOTIFY", "sip:x@203.0.113.77").tagged("b").header(&format!("Route: {route}"));
    assert_eq!(lab.pass(UAC, &notify.text()).to, addr("203.0.113.77:5060"));
}

/// RFC 3261 section 16.3: a proxy passes methods that it knows nothing about.
#[test]
fn other_methods_are_proxied_without_credentials_unless_listed() {
    let methods = [
        "MESSAGE",
        "SUBSCRIBE",
        "NOTIFY",
        "INFO",
        "UPDATE",
        "PRACK",
        "REFER",
        "PUBLISH",
        "FOO",
        "BYE",
        "OPTIONS",
    ];
    let mut open = lab();
    let mut config = config();
    config.authenticate = methods.iter().map(|m| (*m).to_owned()).collect();
    let mut closed = Lab::new(config, &[BOB_BOUND]);
    for method in methods {
        let request = Request::new(method, "sip:bob@example.com").text();
        let sent = open.pass(UAC, &request);
        assert_eq!((sent.to, sent.method()), (addr(BOB), method));
        assert_eq!(open.pass(BOB, &reply(&sent.text, 200, "b")).status(), 200);
        closed.answer(UAC, &request, 407);
    }
    assert_eq!(closed.pass(UAC, &Request::invite().text()).to, addr(BOB));
}

/// RFC 3261 section 16.3: a contact in our own domain brings the request back. Its credentials stayed here the first time,
/// so the Via of that time speaks for it, but only for this request and this URI.
#[test]
fn a_spiral_is_not_challenged_again() {
    let mut config = config();
    config.authenticate = vec!["INVITE".to_owned()];
    let forwarded = ("erin", "sip:bob@example.com", 1000, "<sip:192.0.2.1:5060;lr>");
    let mut lab = Lab::new(config, &[BOB_BOUND, forwarded]);
    let invite = || Request::new("INVITE", "sip:erin@example.com");
    let challenge = lab.answer(UAC, &invite().text(), 407).text;
    let given = credentials(&challenge, 0, "alice", "INVITE", "sip:erin@example.com");
    let back = lab.pass(UAC, &invite().header(&format!("Proxy-Authorization: {given}")).text());
    assert_eq!(back.to, addr(PROXY), "{}", back.text);
    assert!(back.text.starts_with("INVITE sip:bob@example.com SIP/2.0\r\n"), "{}", back.text);
    let elsewhere = back.text.replace("INVITE sip:bob@", "INVITE sip:erin@").replace("z9hG4bK", "z9hG4bKx");
    lab.answer(PROXY, &elsewhere, 407);
    let on = lab.pass(PROXY, &back.text);
    assert_eq!(on.to, addr(BOB), "{}", on.text);
    // The answer takes the whole way back.
    let busy = lab.receive(BOB, &reply(&on.text, 486, "b"));
    assert!(busy.iter().any(|o| o.to == addr(PROXY) && o.status() == 486), "{busy:?}");
}
