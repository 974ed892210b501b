//! What a forwarded request looks like and where it goes (RFC 3261 sections 16.4 to 16.6, RFC 3327, RFC 5393).

use super::kit::*;

/// Puts a placeholder for the branch that the proxy made.
fn without_branch(text: &str) -> String {
    text.replacen(branch(text), "BRANCH", 1)
}

/// RFC 3261 section 16.6: what the proxy has no business with leaves byte for byte as it came.
#[test]
fn only_what_a_proxy_must_change_changes() {
    let mut lab = Lab::with_bob();
    let request = "INVITE sip:bob@example.com SIP/2.0\r\n\
        v: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK1;rport , SIP/2.0/TCP a.example;branch=z9hG4bK0\r\n\
        X-Odd:   \"quoted, \\\" \u{e4}\u{f6}\"  ;p=1\r\n\
        f: \"Alice\" <sip:alice@example.com>;tag=f1\r\nmax-forwards:  70\r\n\
        t: <sip:bob@example.com>\r\ni: call-1\r\nCSeq:  1   INVITE\r\n\
        Subject: folded\r\n\t  line\r\nm: <sip:alice@198.51.100.7:5062>\r\n\
        Date: not a date at all\r\nl: 7\r\n\r\n\u{0}\u{ff}body\r"
        .chars()
        .map(|c| c as u8)
        .collect::<Vec<_>>();
    let request = [&request[..], b"rest of the datagram"].concat();
    let sent = lab.receive_bytes(UAC, &request);
    let expected = "INVITE sip:bob@203.0.113.9:5064 SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.10:5060;branch=BRANCH\r\n\
        v: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK1;rport=5062;received=198.51.100.7 , SIP/2.0/TCP a.example;branch=z9hG4bK0\r\n\
        Record-Route: <sip:192.0.2.10:5060;lr;bh=COOKIE>\r\n\
        X-Odd:   \"quoted, \\\" \u{e4}\u{f6}\"  ;p=1\r\n\
        f: \"Alice\" <sip:alice@example.com>;tag=f1\r\nmax-forwards:  69\r\n\
        t: <sip:bob@example.com>\r\ni: call-1\r\nCSeq:  1   INVITE\r\n\
        Subject: folded\r\n\t  line\r\nm: <sip:alice@198.51.100.7:5062>\r\n\
        Date: not a date at all\r\nl: 7\r\nMax-Breadth: 60\r\n\r\n\u{0}\u{ff}body\r";
    let text = without_branch(&sent[0].text);
    let cookie = value(&text, "Record-Route").split("bh=").nth(1).unwrap().trim_end_matches('>').to_owned();
    assert_eq!(text.replace(&cookie, "COOKIE"), expected);
}

/// RFC 3261 section 16.6 step 8 and RFC 5393 section 4.2: the magic cookie, a unique part, and a part for loop detection.
#[test]
fn every_copy_has_a_branch_of_its_own() {
    let mut lab = Lab::new(config(), &[BOB_BOUND, CAROL_BOUND]);
    let mut seen = std::collections::BTreeSet::new();
    for call in 0..10 {
        for copy in lab.receive(UAC, &Request::invite().call_id(&format!("call-{call}")).text()) {
            assert!(branch(&copy.text).starts_with("z9hG4bK"));
            assert!(seen.insert(branch(&copy.text).to_owned()), "{}", copy.text);
        }
    }
    assert_eq!(seen.len(), 20);
}

/// RFC 3261 section 16.6 step 3.
#[test]
fn max_forwards_is_added_when_it_is_missing() {
    let mut lab = Lab::with_bob();
    let sent = lab.pass(UAC, &Request::invite().max_forwards(None).text());
    assert_eq!(values(&sent.text, "Max-Forwards"), ["70"]);
}

/// RFC 3261 section 16.6 step 4, RFC 3515 section 2.4.4, RFC 6665 section 4.3.
#[test]
fn record_route_where_a_dialog_may_begin() {
    for (method, tag, expected) in [
        ("INVITE", "", true),
        ("REFER", "", true),
        ("SUBSCRIBE", "", true),
        ("NOTIFY", "b", true),
        ("SUBSCRIBE", "b", true),
        ("INVITE", "b", false),
        ("BYE", "b", false),
        ("UPDATE", "b", false),
        ("MESSAGE", "", false),
        ("OPTIONS", "", false),
        ("PUBLISH", "", false),
        ("FOO", "", false),
    ] {
        let mut request =
            Request::new(method, "sip:bob@example.com").header("Record-Route: <sip:198.51.100.1;lr>");
        if !tag.is_empty() {
            request = request.tagged(tag);
        }
        let mut lab = Lab::with_bob();
        let sent = lab.pass(UAC, &request.text());
        let routes = values(&sent.text, "Record-Route");
        assert_eq!(routes.len(), 1 + usize::from(expected), "{method} {tag}: {}", sent.text);
        assert_eq!(routes[0].starts_with("<sip:192.0.2.10:5060;lr;"), expected, "on top: {}", sent.text);
        let mut aloof = config();
        aloof.record_route = false;
        let sent = Lab::new(aloof, &[BOB_BOUND]).pass(UAC, &request.text());
        assert_eq!(values(&sent.text, "Record-Route").len(), 1);
    }
}

/// RFC 3261 section 16.4 and 16.6 steps 6 and 7: what names this proxy goes, what is left is followed, and the
/// Request-URI stays.
#[test]
fn a_route_is_followed() {
    for (routes, to, left) in [
        (&["<sip:192.0.2.10;lr>"][..], BOB, &[][..]),
        (&["<sip:192.0.2.10:5060;lr>, <sip:203.0.113.20;lr>"], CAROL, &["<sip:203.0.113.20;lr>"]),
        (
            &["<sip:192.0.2.10;lr>", "<sip:192.0.2.10;lr>", "<sip:203.0.113.20;lr>;x"],
            CAROL,
            &["<sip:203.0.113.20;lr>;x"],
        ),
        (&["<sip:example.com;lr>", "<sip:203.0.113.20;lr>"], CAROL, &["<sip:203.0.113.20;lr>"]),
        (
            &["<sip:203.0.113.20;lr>", "<sip:192.0.2.10;lr>"],
            CAROL,
            &["<sip:203.0.113.20;lr>", "<sip:192.0.2.10;lr>"],
        ),
        (&["<sip:192.0.2.10:5070;lr>"], "192.0.2.10:5070", &["<sip:192.0.2.10:5070;lr>"]),
    ] {
        let mut lab = Lab::with_bob();
        let request = routes.iter().fold(Request::invite(), |r, route| r.header(&format!("Route: {route}")));
        let sent = lab.pass(UAC, &request.text());
        assert_eq!((sent.to, values(&sent.text, "Route").as_slice()), (addr(to), left), "{routes:?}");
        let uri = if to == BOB { "sip:bob@203.0.113.9:5064" } else { "sip:bob@example.com" };
        assert_eq!(sent.first_line(), format!("INVITE {uri} SIP/2.0"));
    }
    let mut lab = Lab::with_bob();
    lab.answer(UAC, &Request::invite().header("Route: <sip:host.invalid;lr>").text(), 500);
    lab.answer(UAC, &Request::invite().header("Route: <sip:203.0.113.20;lr;transport=tcp>").text(), 500);
    lab.answer(UAC, &Request::invite().header("Route: <tel:1234>").text(), 400);
}

/// RFC 3261 section 16.4 (a strict router before us), section 16.6 step 6 (one behind us), and both.
#[test]
fn strict_routers_are_served() {
    let ours = "sip:192.0.2.10:5060;lr";
    for (uri, routes, to, sent_uri, left) in [
        (ours, &["<sip:bob@203.0.113.9:5064>"][..], BOB, "sip:bob@203.0.113.9:5064", &[][..]),
        (
            ours,
            &["<sip:203.0.113.20;lr>", "<sip:bob@203.0.113.9:5064>"],
            CAROL,
            "sip:bob@203.0.113.9:5064",
            &["<sip:203.0.113.20;lr>"],
        ),
        (
            "sip:bob@203.0.113.9:5064",
            &["<sip:192.0.2.10;lr>, <sip:203.0.113.20>", "<sip:203.0.113.30;lr>"],
            CAROL,
            "sip:203.0.113.20",
            &["<sip:203.0.113.30;lr>", "<sip:bob@203.0.113.9:5064>"],
        ),
        (
            ours,
            &["<sip:203.0.113.20;x=1>", "<sip:203.0.113.30;lr>", "<sip:bob@203.0.113.9:5064>"],
            CAROL,
            "sip:203.0.113.20;x=1",
            &["<sip:203.0.113.30;lr>", "<sip:bob@203.0.113.9:5064>"],
        ),
    ] {
        let mut lab = Lab::with_bob();
        let request = Request::new("BYE", uri).tagged("b");
        let request = routes.iter().fold(request, |r, route| r.header(&format!("Route: {route}")));
        let sent = lab.pass(UAC, &request.text());
        assert_eq!(sent.first_line(), format!("BYE {sent_uri} SIP/2.0"), "{routes:?}");
        assert_eq!((sent.to, values(&sent.text, "Route").as_slice()), (addr(to), left), "{routes:?}");
    }
}

/// RFC 3327 section 5.4: the Path of a binding is the route to it, before any that is left; RFC 3261 section 16.6 step 6
/// when it starts with a strict router.
#[test]
fn a_path_becomes_the_route() {
    for (path, to, uri, routes) in [
        ("<sip:192.0.2.1;lr>", LB, "sip:bob@10.0.0.9", &["<sip:192.0.2.1;lr>"][..]),
        (
            "<sip:192.0.2.1;lr>,<sip:198.51.100.1;lr;ob>",
            LB,
            "sip:bob@10.0.0.9",
            &["<sip:192.0.2.1;lr>,<sip:198.51.100.1;lr;ob>"],
        ),
        (
            "<sip:192.0.2.1>,<sip:198.51.100.1;lr>,<sip:198.51.100.2;lr>",
            LB,
            "sip:192.0.2.1",
            &["<sip:198.51.100.1;lr>", "<sip:198.51.100.2;lr>", "<sip:bob@10.0.0.9>"],
        ),
    ] {
        let mut lab = Lab::new(config(), &[("bob", "sip:bob@10.0.0.9", 1000, path)]);
        let sent = lab.pass(UAC, &Request::invite().header("Route: <sip:192.0.2.10;lr>").text());
        assert_eq!(sent.first_line(), format!("INVITE {uri} SIP/2.0"));
        assert_eq!((sent.to, values(&sent.text, "Route").as_slice()), (addr(to), routes));
    }
}

/// RFC 5393 section 5.3.3: parallel branches share Max-Breadth, what may not go out at once goes out later, and none at
/// all is answered with 440.
#[test]
fn max_breadth_is_shared_out() {
    let two = [BOB_BOUND, CAROL_BOUND];
    for (bindings, given, shares) in [
        (&two[..1], "", &["60"][..]),
        (&two[..1], "5", &["5"]),
        (&two[..1], "4294967296", &["60"]),
        (&two, "", &["30", "30"]),
        (&two, "5", &["2", "2"]),
        (&two, "1", &["1"]),
    ] {
        let mut lab = Lab::new(config(), bindings);
        let mut request = Request::invite();
        if !given.is_empty() {
            request = request.header(&format!("Max-Breadth: {given}"));
        }
        let sent = lab.receive(UAC, &request.text());
        let got: Vec<_> = sent.iter().map(|copy| values(&copy.text, "Max-Breadth")).collect();
        assert_eq!(got, shares.iter().map(|s| vec![*s]).collect::<Vec<_>>(), "{given}");
        if (bindings.len(), given) == (2, "1") {
            let first = sent[0].clone();
            let next = lab.refuse(&first.to.to_string(), &first.text, 486);
            assert_eq!((next.len(), value(&next[0].text, "Max-Breadth")), (1, "1"), "the other one's turn");
            assert_ne!(next[0].to, first.to);
        }
    }
    Lab::with_bob().answer(UAC, &Request::invite().header("Max-Breadth: 0").text(), 440);
}

/// RFC 3261 section 16.5: targets by the domain of the Request-URI; RFC 3263 section 4 less DNS.
#[test]
fn the_request_uri_decides_where_it_goes() {
    let mut lab = Lab::with_bob();
    for (uri, to) in [
        ("sip:x@203.0.113.77:5088;transport=udp", "203.0.113.77:5088"),
        ("sip:203.0.113.77", "203.0.113.77:5060"),
        ("sip:x@host.invalid;maddr=203.0.113.77", "203.0.113.77:5060"),
        ("sip:bob@example.com;maddr=203.0.113.77", "203.0.113.77:5060"),
    ] {
        let mut request = Request::invite().call_id(uri);
        request.uri = uri.to_owned();
        let sent = lab.pass(UAC, &request.text());
        assert_eq!((sent.to, sent.first_line()), (addr(to), format!("INVITE {uri} SIP/2.0").as_str()));
    }
    for (uri, sent_uri, to) in [
        ("sip:%62ob@EXAMPLE.com.:5070", "sip:bob@203.0.113.9:5064", BOB),
        ("sip:bob@192.0.2.10", "sip:bob@203.0.113.9:5064", BOB),
        ("sip:bob@example.com;maddr=192.0.2.10", "sip:bob@203.0.113.9:5064", BOB),
        ("sip:x@203.0.113.77:5060;maddr=192.0.2.10;y", "sip:x@203.0.113.77;y", "203.0.113.77:5060"),
    ] {
        let mut request = Request::invite().call_id(uri);
        request.uri = uri.to_owned();
        let sent = lab.pass(UAC, &request.text());
        assert_eq!((sent.to, sent.first_line()), (addr(to), format!("INVITE {sent_uri} SIP/2.0").as_str()));
    }
    for (uri, status) in [
        ("sip:nobody@example.com", 404),
        ("sip:example.com", 404),
        ("sip:x@host.invalid", 500),
        ("sip:x@203.0.113.77;transport=tcp", 500),
        ("sip:x@255.255.255.255", 500),
        ("sip:x@203.0.113.77:0", 500),
    ] {
        let mut request = Request::invite().call_id(uri);
        request.uri = uri.to_owned();
        lab.answer(UAC, &request.text(), status);
    }
}

/// A fixed next hop takes what is for nobody here, but neither what has a binding nor what has a Route.
#[test]
fn a_fixed_next_hop_takes_the_rest() {
    let mut fixed = config();
    fixed.next_hop = Some(addr(DAVE));
    let mut lab = Lab::new(fixed, &[BOB_BOUND]);
    for (uri, route, to) in [
        ("sip:bob@example.com", "", BOB),
        ("sip:nobody@example.com", "", DAVE),
        ("sip:x@host.invalid", "", DAVE),
        ("sip:x@203.0.113.77", "", DAVE),
        ("sip:x@host.invalid", "Route: <sip:203.0.113.20;lr>", CAROL),
    ] {
        let mut request = Request::invite().call_id(&format!("{uri}{}", route.len()));
        request.uri = uri.to_owned();
        if !route.is_empty() {
            request = request.header(route);
        }
        assert_eq!(lab.pass(UAC, &request.text()).to, addr(to), "{uri} {route}");
    }
}

/// RFC 3261 section 16.6 step 2: what may not stand in a Request-URI is taken off a contact; section 21.4.18: 480 for a
/// user whose bindings cannot be reached.
#[test]
fn contacts_are_used_as_far_as_they_can_be() {
    let mut lab =
        Lab::new(config(), &[("bob", "sip:bob@203.0.113.9:5064;ob;method=BYE?Subject=x", 1000, "")]);
    assert_eq!(
        lab.pass(UAC, &Request::invite().text()).first_line(),
        "INVITE sip:bob@203.0.113.9:5064;ob SIP/2.0"
    );
    let unreachable = [
        ("bob", "sip:bob@phone.invalid", 1000, ""),
        ("bob", "sip:bob@203.0.113.9;transport=tcp", 1000, ""),
        ("bob", "mailto:bob@example.com", 1000, ""),
        ("bob", "sip:bob@203.0.113.9", 1000, "<sip:proxy.invalid;lr>"),
    ];
    Lab::new(config(), &unreachable).answer(UAC, &Request::invite().text(), 480);
}
