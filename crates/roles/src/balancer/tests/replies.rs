//! What the balancer answers itself, and what it drops.

use super::*;

const BOB: &str = "sip:bob@example.com";

/// RFC 3261 section 16.3 step 3.
#[test]
fn a_spent_max_forwards_is_483() {
    let mut lab = Lab::new();
    let spent = |method: &str| request(method, BOB, &[]).replace("Max-Forwards: 70", "Max-Forwards: 0");
    let reply = lab.answers(UAC, &spent("INVITE"), 483, Answered::TooManyHops);
    // Section 8.2.6: copied headers, a To tag, the source filled into the top Via.
    assert_eq!(values(&reply, "Call-ID"), ["call-1"]);
    assert_eq!(values(&reply, "CSeq"), ["1 INVITE"]);
    assert!(values(&reply, "To")[0].starts_with("<sip:b@example.com>;tag=bh-lb-"));
    assert!(values(&reply, "Via")[0].ends_with(";rport=5062;received=198.51.100.7"));
    // Section 8.2.7: the same request gets the same To tag; ACK and CANCEL get nothing.
    assert_eq!(lab.answers(UAC, &spent("INVITE"), 483, Answered::TooManyHops), reply);
    lab.drops(UAC, &spent("ACK"), Drop::Unanswerable);
    lab.drops(UAC, &spent("CANCEL"), Drop::Unanswerable);
}

/// RFC 3261 section 11: whether the cluster takes calls. Section 11.2 also says what a proxy's answer holds.
#[test]
fn options_for_the_balancer_tells_readiness() {
    let mut lab = Lab::new();
    let own = format!("sip:{LB}");
    for uri in [&own, "sip:192.0.2.1", "sip:192.0.2.1;transport=udp"] {
        let reply = lab.answers(UAC, &request("OPTIONS", uri, &[]), 200, Answered::Options);
        for name in ["Accept", "Accept-Encoding", "Accept-Language", "Supported"] {
            assert_eq!(values(&reply, name).len(), 1, "{name}");
        }
        assert!(values(&reply, "Allow").is_empty(), "a proxy passes any method");
    }
    let spent = request("OPTIONS", &own, &[]).replace("Max-Forwards: 70", "Max-Forwards: 0");
    lab.answers(UAC, &spent, 200, Answered::Options);
    // With a user part, or for somebody else, it is a request like others.
    assert_eq!(lab.pass(UAC, &request("OPTIONS", &format!("sip:bob@{LB}"), &[])).0, addr(P1));
    assert_eq!(lab.pass(UAC, &request("OPTIONS", "sip:example.com", &[])).0, addr(P1));
    // Section 8.2.2.3.
    let require = ["Require: 100rel", "Require: gruu"];
    let reply = lab.answers(UAC, &request("OPTIONS", &own, &require), 420, Answered::Extension);
    assert_eq!(values(&reply, "Unsupported"), ["100rel,gruu"]);
    // However many there are, and however tightly they stand, the answer has room for them.
    let many = format!("Require: {}", vec!["a"; 2000].join(","));
    let reply = lab.answers(UAC, &request("OPTIONS", &own, &[&many]), 420, Answered::Extension);
    assert_eq!(values(&reply, "Unsupported")[0].split(',').count(), 2000);

    lab.members(table(2, &[member("p1", P1, State::Draining)])).unwrap();
    let reply = lab.answers(UAC, &request("OPTIONS", &own, &[]), 503, Answered::OptionsUnready);
    assert_eq!(values(&reply, "Retry-After").len(), 1);
}

/// RFC 3261 section 21.5.4.
#[test]
fn without_a_member_it_is_503() {
    let mut lab = Lab::with(Config::new(addr(LB), KEY), table(1, &[member("p1", P1, State::Starting)]));
    let mut waits = Vec::new();
    for n in 0..40 {
        let text = request_of(&format!("call-{n}"), "INVITE", BOB, &[]);
        let reply = lab.answers(UAC, &text, 503, Answered::NoMember);
        waits.push(values(&reply, "Retry-After")[0].parse::<u32>().unwrap());
    }
    waits.sort_unstable();
    waits.dedup();
    assert_eq!(waits, [2, 3, 4], "between once and twice the least, spread over the callers");
    lab.drops(UAC, &request("ACK", BOB, &[]), Drop::Unanswerable);
    lab.drops(UAC, &request("CANCEL", BOB, &[]), Drop::Unanswerable);
    // A fresh balancer knows no table at all.
    let mut fresh =
        Lab { lb: Balancer::new(Config::new(addr(LB), KEY)), local: addr(LB), out: Sent::default() };
    fresh.answers(UAC, &request("INVITE", BOB, &[]), 503, Answered::NoMember);
}

/// The ACK to a response of the balancer ends at the balancer; another ACK does not.
#[test]
fn an_ack_to_an_own_response_is_absorbed() {
    let mut lab = Lab::new();
    let spent = request("INVITE", BOB, &[]).replace("Max-Forwards: 70", "Max-Forwards: 0");
    let reply = lab.answers(UAC, &spent, 483, Answered::TooManyHops);
    let to = format!("To: {}", values(&reply, "To")[0]);
    let ack = request("ACK", BOB, &[]).replace("To: <sip:b@example.com>", &to);
    lab.drops(UAC, &ack, Drop::OwnAck);
    assert_eq!(lab.pass(UAC, &ack.replace("call-1", "call-2")).0, addr(P1), "the tag is of another call");
    assert_eq!(lab.pass(UAC, &request("ACK", BOB, &[])).0, addr(P1));
}

/// RFC 3261 sections 8.1.1, 16.3 step 1 and 21.5.6.
#[test]
fn what_is_malformed_where_it_matters_is_answered() {
    let mut lab = Lab::new();
    let good = request("INVITE", BOB, &[]);
    for (from, to, status) in [
        ("SIP/2.0\r\nVia", "SIP/3.0\r\nVia", 505),
        ("INVITE sip:bob@example.com SIP", "INVITE  sip:bob@example.com SIP", 400),
        ("INVITE sip:bob@example.com SIP", "INVITE sip:bob@exa@mple SIP", 400),
        ("Call-ID: call-1\r\n", "", 400),
        ("Call-ID: call-1", "Call-ID:", 400),
        ("Max-Forwards: 70", "Max-Forwards: 256", 400),
        ("Max-Forwards: 70", "Max-Forwards: -1", 400),
        ("Max-Forwards: 70", "Max-Forwards:", 400),
        ("Max-Forwards: 70", "Route: <sip:192.0.2.1;lr", 400),
        ("Max-Forwards: 70", "no header", 400),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        lab.answers(UAC, &bad, status, Answered::Malformed);
        lab.drops(UAC, &bad.replace("INVITE", "ACK"), Drop::Unanswerable);
    }
    // What does not matter for the way is for the proxy to answer.
    for (from, to) in [("CSeq: 1 INVITE", "CSeq: x"), ("From: <sip:a@example.com>;tag=f1\r\n", "")] {
        assert_eq!(lab.pass(UAC, &good.replace(from, to)).0, addr(P1));
    }
}

#[test]
fn what_cannot_be_answered_is_dropped_and_counted() {
    let mut lab = Lab::new();
    let good = request("INVITE", BOB, &[]);
    for (text, why) in [
        ("\r\n\r\n".to_owned(), Drop::KeepAlive),
        ("\r\n".to_owned(), Drop::KeepAlive),
        (String::new(), Drop::KeepAlive),
        ("hello\r\n\r\n".to_owned(), Drop::NotSip),
        ("SIP/2.0 99 Low\r\n\r\n".to_owned(), Drop::NotSip),
        (format!("INVITE {BOB} SIP/2.0\r\nCall-ID: 1\r\n\r\n"), Drop::RequestVia),
    ] {
        lab.drops(UAC, &text, why);
    }
    // A Via that does not say where to: the answer goes where the request came from (RFC 4475 section 3.1.2.1).
    for (from, to) in [("SIP/2.0/UDP 198", "SIP/2.0 198"), (";branch", ";;,;,,;branch")] {
        let (to, reply) = lab.pass(UAC, &good.replace(from, to));
        assert_eq!(to, addr(UAC));
        assert!(reply.starts_with("SIP/2.0 400 Bad Via\r\n"), "{reply}");
    }
    // An answer is due, but the Via leads to the balancer itself, or to a name.
    let spent = good.replace("Max-Forwards: 70", "Max-Forwards: 0");
    for maddr in ["192.0.2.1", "example.com", "224.0.1.75"] {
        let text = spent.replace(";rport", &format!(";maddr={maddr}")).replace(":5062;", ":5060;");
        lab.drops(UAC, &text, Drop::ReplyAddress);
    }
}

/// RFC 3261 section 18.2.2: without `rport`, the answer goes to the port of sent-by at the source address.
#[test]
fn an_answer_follows_the_via() {
    let mut lab = Lab::new();
    let spent = request("INVITE", BOB, &[]).replace("Max-Forwards: 70", "Max-Forwards: 0");
    let (to, reply) = lab.pass("198.51.100.99:4444", &spent.replace(";rport", ""));
    assert_eq!(to, addr("198.51.100.99:5062"));
    assert!(values(&reply, "Via")[0].ends_with(";received=198.51.100.99"));
    let (to, _) = lab.pass("198.51.100.99:4444", &spent);
    assert_eq!(to, addr("198.51.100.99:4444"));
    let (to, _) = lab.pass("198.51.100.99:4444", &spent.replace(";rport", ";maddr=198.51.100.50"));
    assert_eq!(to, addr("198.51.100.50:5062"));
}

/// A member sends something outward that UDP without DNS cannot carry (RFC 3261 sections 16.9, 16.7 step 6, 21.4.5,
/// 21.4.14; RFC 5630 for `sips`).
#[test]
fn a_next_hop_out_of_reach_is_told_to_the_member() {
    let mut lab = Lab::new();
    let at_p1 = |uri: &str, more: &[&str]| request("INVITE", uri, more).replace(UAC, P1);
    for (uri, status, what) in [
        ("sip:bob@example.com", 404, Answered::UnknownHost),
        ("tel:+358555123", 416, Answered::Scheme),
        ("sips:bob@203.0.113.9", 416, Answered::Scheme),
        ("sip:bob@203.0.113.9;transport=tcp", 500, Answered::Unroutable),
        ("sip:bob@203.0.113.9:0", 500, Answered::Unroutable),
        ("sip:bob@[2001:db8::9]", 500, Answered::Unroutable),
    ] {
        lab.answers(P1, &at_p1(uri, &[]), status, what);
    }
    lab.answers(P1, &at_p1(BOB, &["Route: <sip:edge.example.com;lr>"]), 500, Answered::Unroutable);
}

/// RFC 3261 section 21.5.7: what would not fit a datagram after the edits.
#[test]
fn what_grows_too_long_is_answered_or_dropped() {
    let mut lab = Lab::new();
    let good = request("INVITE", BOB, &[]);
    let padded = |len: usize| {
        let filler = "x".repeat(len - good.len() - "X: \r\n".len());
        request("INVITE", BOB, &[&format!("X: {filler}")])
    };
    assert_eq!(lab.pass(UAC, &padded(65_000)).0, addr(P1));
    lab.answers(UAC, &padded(65_500), 513, Answered::TooLong);
    lab.drops(UAC, &padded(65_508), Drop::NotSip);
    // What would have to be copied into the answer is too long itself.
    let long_to = good.replace("To: ", &format!("To: {}", "x".repeat(65_500 - good.len())));
    lab.drops(UAC, &long_to, Drop::TooLong);
}
