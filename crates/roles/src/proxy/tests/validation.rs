//! Requests that are refused (RFC 3261 section 16.3), and answers without a transaction (sections 8.2.7, 18.2).

use busyhour_sip::Defect;

use super::kit::*;
use crate::proxy::Drop;

/// RFC 3261 section 16.3 step 1, and RFC 4475 section 3 for the statuses.
#[test]
fn a_malformed_request_is_answered() {
    let mut lab = Lab::with_bob();
    let good = Request::invite().text();
    for (from, to, status) in [
        ("CSeq: 1 INVITE", "CSeq: 1 BYE", 400),
        ("CSeq: 1 INVITE", "CSeq: 9876543210 INVITE", 400),
        ("Call-ID: call-1\r\n", "", 400),
        ("From: <sip:alice@example.com>;tag=f1\r\n", "", 400),
        ("To: <sip:bob@example.com>\r\n", "", 400),
        ("To: <sip:bob@example.com>", "To: <sip:bob@example.com", 400),
        ("Max-Forwards: 70", "Max-Forwards: 300", 400),
        ("Content-Length: 0", "Content-Length: 1", 400),
        ("INVITE sip:bob@example.com SIP", "INVITE  sip:bob@example.com SIP", 400),
        ("INVITE sip:bob@example.com SIP/2.0", "INVITE sip:bob@example.com SIP/7.0", 505),
        ("INVITE sip:", "NEWMETHOD sip:", 501),
        ("INVITE sip:bob@example.com", "INVITE sip:bob@example.com?x=y", 400),
        ("INVITE sip:bob@example.com", "INVITE sip:bob@exa[mple.com", 400),
        ("INVITE sip:bob@example.com", "INVITE mailto:bob@example.com", 416),
        ("INVITE sip:bob@example.com", "INVITE sips:bob@example.com", 416),
        ("Contact:", "Max-Breadth: x\r\nContact:", 400),
        ("Contact:", "Route: sip\r\nContact:", 400),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from} is there");
        let reply = lab.answer(UAC, &bad, status);
        assert_eq!(reply.text.contains("Call-ID: "), bad.contains("Call-ID: "), "{}", reply.text);
    }
    assert!(lab.stats().defects > 10);
    lab.assert_no_leak();
}

/// What cannot be answered is dropped, and counted by reason.
#[test]
fn what_cannot_be_answered_is_counted() {
    let mut lab = Lab::with_bob();
    let good = Request::invite().text();
    let no_via = good.replace("Via: ", "X-Via: ");
    let port_zero = good.replace(UAC, "198.51.100.7:0").replace(";rport", "");
    let broadcast = good.replace(";rport", ";maddr=255.255.255.255");
    let broken_ack = Request::new("ACK", "sip:bob@example.com").text().replace("CSeq: 1 ACK", "CSeq: ACK");
    for (bytes, why) in [
        (b"\r\n\r\n".as_slice(), Drop::KeepAlive),
        (b"\0\0\0\0", Drop::KeepAlive),
        (b"GET / HTTP/1.1\r\n\r\n", Drop::NotSip),
        (b"SIP/2.0 99 Odd\r\n\r\n", Drop::NotSip),
        (no_via.as_bytes(), Drop::Malformed),
        (port_zero.as_bytes(), Drop::Malformed),
        (broadcast.as_bytes(), Drop::Malformed),
        (broken_ack.as_bytes(), Drop::Malformed),
        (b"SIP/2.0 200 OK\r\n\r\n", Drop::Malformed),
    ] {
        let before = lab.stats().drops[why as usize];
        assert!(lab.receive_bytes(UAC, bytes).is_empty(), "{:?}", String::from_utf8_lossy(bytes));
        assert_eq!(
            lab.stats().drops[why as usize],
            before + 1,
            "{why:?}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
    assert_eq!(lab.stats().last_defect, Some(Defect::Value(busyhour_sip::HeaderName::CSeq)));
}

/// RFC 3261 section 16.3 step 3: 483; an OPTIONS for the proxy itself and a REGISTER for it are answered all the same.
#[test]
fn max_forwards_zero_ends_the_way() {
    let mut lab = Lab::with_bob();
    lab.answer(UAC, &Request::invite().max_forwards(Some(0)).text(), 483);
    let other = Request::new("REGISTER", "sip:example.com").header("Route: <sip:203.0.113.9;lr>");
    lab.answer(UAC, &other.max_forwards(Some(0)).text(), 483);
    lab.answer(UAC, &Request::new("OPTIONS", "sip:example.com").max_forwards(Some(0)).text(), 200);
    lab.answer(UAC, &Request::new("REGISTER", "sip:example.com").max_forwards(Some(0)).text(), 200);
    let sent = lab.pass(UAC, &Request::invite().max_forwards(Some(1)).text());
    assert_eq!(value(&sent.text, "Max-Forwards"), "0");
}

/// RFC 3261 sections 16.3 step 5 and 20.29: 420 with all that is not supported.
#[test]
fn proxy_require_is_refused_with_what_is_not_supported() {
    let mut lab = Lab::with_bob();
    let request = Request::invite().header("Proxy-Require: foo, bar").header("Proxy-Require: baz");
    let reply = lab.answer(UAC, &request.text(), 420);
    assert_eq!(values(&reply.text, "Unsupported"), ["foo, bar", "baz"]);
    let many = "a,".repeat(10_000);
    lab.answer(UAC, &Request::invite().header(&format!("Proxy-Require: {many}b")).text(), 420);
    assert_eq!(
        lab.pass(UAC, &Request::invite().header("Require: foo").text()).to,
        addr(BOB),
        "is the UAS's business"
    );
}

/// RFC 3261 sections 11.2 and 8.2.2.3: the proxy as the target of an OPTIONS is a UAS.
#[test]
fn options_to_the_proxy_itself() {
    let mut lab = Lab::with_bob();
    for uri in ["sip:example.com", "sip:192.0.2.10", "sip:192.0.2.10:5060;transport=udp"] {
        let reply = lab.answer(UAC, &Request::new("OPTIONS", uri).text(), 200);
        assert_eq!(value(&reply.text, "Supported"), "path");
        assert!(tag(&reply.text, "To").is_some());
    }
    let with_route = Request::new("OPTIONS", "sip:example.com").header("Route: <sip:192.0.2.10;lr>");
    lab.answer(UAC, &with_route.text(), 200);
    let reply =
        lab.answer(UAC, &Request::new("OPTIONS", "sip:example.com").header("Require: foo").text(), 420);
    assert_eq!(value(&reply.text, "Unsupported"), "foo");
    assert_eq!(lab.pass(UAC, &Request::new("OPTIONS", "sip:bob@example.com").text()).to, addr(BOB));
}

/// RFC 5393 section 4.2 and RFC 3261 section 16.3 step 4: a request that comes back as it left is a loop (482); one whose
/// Request-URI or Route is another is a spiral.
#[test]
fn a_loop_is_told_from_a_spiral() {
    let mut lab = Lab::new(config(), &[BOB_BOUND, ("x", "sip:bob@192.0.2.10", 1000, "")]);
    let routed = Request::invite()
        .header("Route: <sip:192.0.2.10;lr>")
        .header("Route: <sip:203.0.113.20;lr>")
        .header("Route: <sip:192.0.2.10;lr>");
    let first = lab.pass(UAC, &routed.text());
    assert_eq!(first.to, addr(CAROL));
    // Carol's proxy takes itself out of the Route: the Request-URI is the same, the Route is not.
    let back = first.text.replace("Route: <sip:203.0.113.20;lr>\r\n", "");
    let second = lab
        .pass(CAROL, &back.replacen("Via: ", "Via: SIP/2.0/UDP 203.0.113.20;branch=z9hG4bKc1\r\nVia: ", 1));
    assert_eq!(second.to, addr(BOB), "a spiral: {}", second.text);

    let mut x = Request::invite().call_id("call-2");
    x.uri = "sip:x@example.com".to_owned();
    let first = lab.pass(UAC, &x.text());
    assert_eq!(first.to, addr(PROXY));
    let second = lab.pass(PROXY, &first.text);
    assert_eq!(second.to, addr(BOB), "retargeted: a spiral");

    // Bob's side sends the request back without any change: the Request-URI of then leads where it led.
    let looped = second.text.replacen("sip:bob@203.0.113.9:5064", "sip:bob@192.0.2.10", 1);
    let mut vias = values(&looped, "Via").len();
    let looped = looped.replacen("Via: ", "Via: SIP/2.0/UDP 203.0.113.9:5064;branch=z9hG4bKb1\r\nVia: ", 1);
    let reply = lab.answer(BOB, &looped, 482);
    vias += 1;
    assert_eq!(values(&reply.text, "Via").len(), vias, "all Vias are in the answer");
}

/// RFC 3581 section 4 and RFC 3261 sections 18.2.1 and 18.2.2.
#[test]
fn answers_go_where_the_via_and_the_source_say() {
    let mut lab = Lab::with_bob();
    for (via, to, stamped) in [
        (
            "SIP/2.0/UDP 10.0.0.1:5070;rport;branch=z9hG4bK1",
            UAC,
            "SIP/2.0/UDP 10.0.0.1:5070;rport=5062;branch=z9hG4bK1;received=198.51.100.7",
        ),
        (
            "SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bK2",
            "198.51.100.7:5070",
            "SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bK2;received=198.51.100.7",
        ),
        (
            "SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK3",
            "198.51.100.7:5060",
            "SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK3",
        ),
        (
            "SIP/2.0/UDP h.example;branch=z9hG4bK4;received=1.2.3.4",
            "198.51.100.7:5060",
            "SIP/2.0/UDP h.example;branch=z9hG4bK4;received=198.51.100.7",
        ),
        (
            "SIP/2.0/UDP 10.0.0.1;maddr=198.51.100.99;branch=z9hG4bK5",
            "198.51.100.99:5060",
            "SIP/2.0/UDP 10.0.0.1;maddr=198.51.100.99;branch=z9hG4bK5;received=198.51.100.7",
        ),
    ] {
        let mut nobody = Request::invite().via(via);
        nobody.uri = "sip:nobody@example.com".to_owned();
        let reply = lab.pass(UAC, &nobody.text());
        assert_eq!((reply.status(), reply.to, value(&reply.text, "Via")), (404, addr(to), stamped));
        let forwarded = lab.pass(UAC, &Request::invite().via(via).text());
        assert_eq!(values(&forwarded.text, "Via")[1], stamped, "the same in what is sent on");
        let ringing = lab.pass(BOB, &reply_text(&forwarded.text));
        assert_eq!((ringing.status(), ringing.to), (180, addr(to)), "and through a transaction");
    }
}

fn reply_text(request: &str) -> String {
    reply(request, 180, "b")
}

/// RFC 3261 section 8.2.7: a stateless UAS gives the same tag to the same request; section 17.1.1.3: an ACK to it comes,
/// and ends here. Also when the INVITE was malformed.
#[test]
fn answers_without_a_transaction_are_alike_and_their_ack_is_absorbed() {
    let mut lab = Lab::with_bob();
    let mut nobody = Request::invite();
    nobody.uri = "sip:nobody@example.com".to_owned();
    let first = lab.answer(UAC, &nobody.text(), 404);
    let second = lab.answer(UAC, &nobody.text(), 404);
    assert_eq!(first.text, second.text);
    assert!(
        tag(&first.text, "To").is_some_and(|t| t.len() >= 8),
        "section 19.3: 32 bits of randomness at least"
    );
    lab.absorb(UAC, &nobody.ack(&first.text).text());
    let other = lab.answer(UAC, &nobody.clone().call_id("call-2").text(), 404);
    assert_ne!(tag(&first.text, "To"), tag(&other.text, "To"));

    let bad = Request::invite().header("Max-Breadth: x");
    let refused = lab.answer(UAC, &bad.text(), 400);
    lab.absorb(UAC, &bad.ack(&refused.text).text());
    let cut = Request::invite().call_id("call-3");
    let refused = lab.answer(UAC, &cut.text().replace("Content-Length: 0", "Content-Length: 9"), 400);
    lab.absorb(UAC, &cut.ack(&refused.text).text());
    assert_eq!(lab.stats().forwarded, 0);
    assert_eq!(lab.stats().drops.iter().sum::<u64>(), 0);
}

/// RFC 3261 section 17: an ACK is never answered, whatever is wrong with it.
#[test]
fn an_ack_is_never_answered() {
    let mut lab = Lab::with_bob();
    for ack in [
        Request::new("ACK", "sip:nobody@example.com"),
        Request::new("ACK", "mailto:x@example.com"),
        Request::new("ACK", "sip:bob@example.com").max_forwards(Some(0)),
        Request::new("ACK", "sip:bob@host.invalid").tagged("x"),
    ] {
        lab.absorb(UAC, &ack.text());
    }
    assert_eq!(lab.stats().drops[Drop::StrayAck as usize], 4);
}
