//! Where requests go, and what is changed in them.

use super::*;

const BOB: &str = "sip:bob@example.com";

/// RFC 3261 section 16.6: everything that is not the balancer's business leaves as it came.
#[test]
fn an_invite_leaves_with_just_the_edits_of_a_proxy() {
    let mut lab = Lab::new();
    let (to, got) = lab.pass(UAC, &request("INVITE", BOB, &["X-Unknown:  as is"]));
    assert_eq!(to, addr(P1));
    let branch = branch(&got).to_owned();
    assert_eq!(branch.len(), "z9hG4bK".len() + 16);
    assert_eq!(
        got,
        format!(
            "INVITE {BOB} SIP/2.0\r\nVia: SIP/2.0/UDP {LB};branch={branch}\r\n\
             Via: SIP/2.0/UDP {UAC};branch=z9hG4bK-call-1-1;rport=5062;received=198.51.100.7\r\n\
             Record-Route: <sip:{LB};lr>\r\n\
             Max-Forwards: 69\r\nX-Unknown:  as is\r\nFrom: <sip:a@example.com>;tag=f1\r\n\
             To: <sip:b@example.com>\r\nCall-ID: call-1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        )
    );
    let stats = lab.lb.stats();
    assert_eq!((stats.counts.requests, stats.members[0].requests), (1, 1));
}

/// RFC 3261 section 18.2.1 and RFC 3581 section 4: `received` when the source differs or `rport` is asked for.
#[test]
fn the_top_via_is_stamped_with_the_source() {
    let mut lab = Lab::new();
    let plain = request("OPTIONS", BOB, &[]).replace(";rport", "");
    let via = |got: &str| values(got, "Via")[1].to_owned();
    let (_, got) = lab.pass(UAC, &plain);
    assert_eq!(via(&got), format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-call-1-1"));
    let (_, got) = lab.pass("198.51.100.99:9", &plain);
    assert_eq!(via(&got), format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-call-1-1;received=198.51.100.99"));
    let (_, got) = lab.pass("198.51.100.99:9", &request("OPTIONS", BOB, &[]));
    let stamp = "rport=9;received=198.51.100.99";
    assert_eq!(via(&got), format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-call-1-1;{stamp}"));
}

/// RFC 3261 section 16.6 step 3.
#[test]
fn max_forwards_is_decremented_or_set() {
    let mut lab = Lab::new();
    let with = |line: &str| request("INVITE", BOB, &[]).replace("Max-Forwards: 70\r\n", line);
    for (line, left) in [("Max-Forwards: 1\r\n", "0"), ("", "70"), ("Max-Forwards: 255\r\n", "254")] {
        let (_, got) = lab.pass(UAC, &with(line));
        assert_eq!(values(&got, "Max-Forwards"), [left]);
    }
}

/// RFC 3261 section 16.6 step 4, RFC 3515, RFC 6665 section 4.3, RFC 3327 section 5.2.
#[test]
fn record_route_and_path_go_where_they_belong() {
    let mut lab = Lab::new();
    let own = format!("<sip:{LB};lr>");
    let tagged = |method: &str| request(method, BOB, &[]).replace("To: <sip:b@example.com>", "$&;tag=t");
    let tagged = |method: &str| tagged(method).replace("$&", "To: <sip:b@example.com>");
    for (text, record_route, path) in [
        (request("INVITE", BOB, &[]), true, false),
        (tagged("INVITE"), false, false),
        (request("REFER", BOB, &[]), true, false),
        (tagged("REFER"), false, false),
        (request("SUBSCRIBE", BOB, &[]), true, false),
        (tagged("SUBSCRIBE"), true, false),
        (tagged("NOTIFY"), true, false),
        (request("MESSAGE", BOB, &[]), false, false),
        (request("OPTIONS", BOB, &[]), false, false),
        (request("PUBLISH", BOB, &[]), false, false),
        (request("WHATEVER", BOB, &[]), false, false),
        (request("REGISTER", "sip:example.com", &[]), false, true),
    ] {
        let (_, got) = lab.pass(UAC, &text);
        assert_eq!(values(&got, "Record-Route") == [&own], record_route, "{got}");
        assert_eq!(values(&got, "Path") == [&own], path, "{got}");
    }
}

#[test]
fn record_route_and_path_come_on_top_of_those_that_are_there() {
    let mut lab = Lab::new();
    let other = "<sip:192.0.2.99;lr>";
    let (_, got) = lab.pass(UAC, &request("INVITE", BOB, &[&format!("Record-Route: {other}")]));
    assert_eq!(values(&got, "Record-Route"), [&format!("<sip:{LB};lr>"), other]);
    let (_, got) = lab.pass(UAC, &request("REGISTER", "sip:example.com", &[&format!("Path: {other}")]));
    assert_eq!(values(&got, "Path"), [&format!("<sip:{LB};lr>"), other]);
}

#[test]
fn record_route_and_path_are_left_out_when_so_configured() {
    for (policy, supported, expected) in [
        (PathPolicy::Never, "Supported: path", 0),
        (PathPolicy::WhenSupported, "Supported: gruu, PATH", 1),
        (PathPolicy::WhenSupported, "Supported: gruu", 0),
        (PathPolicy::Always, "Supported: gruu", 1),
    ] {
        let config = Config { record_route: false, path: policy, ..Config::new(addr(LB), KEY) };
        let mut lab = Lab::with(config, table(1, &[member("p1", P1, State::Ready)]));
        let (_, got) = lab.pass(UAC, &request("REGISTER", "sip:example.com", &[supported]));
        assert_eq!(values(&got, "Path").len(), expected, "{policy:?} with {supported}");
        let (_, got) = lab.pass(UAC, &request("INVITE", BOB, &[]));
        assert!(values(&got, "Record-Route").is_empty());
    }
}

/// RFC 3261 section 16.4: values that name the balancer go; the member named next gets the request.
#[test]
fn a_route_is_followed_to_its_member() {
    let mut lab = Lab::with(
        Config::new(addr(LB), KEY),
        table(1, &[member("p1", P1, State::Draining), member("p2", P2, State::Ready)]),
    );
    let contact = format!("sip:bob@{UAS}");
    for (routes, to, left) in [
        (vec![format!("<sip:{LB};lr>, <sip:{P1};lr>")], P1, vec![format!("<sip:{P1};lr>")]),
        (vec![format!("<sip:{LB};lr>"), format!("<sip:{P2};lr>")], P2, vec![format!("<sip:{P2};lr>")]),
        // Without port and with other parameters, it is still the balancer's address.
        (
            vec![format!("\"x, y\" <sip:lb@192.0.2.1;transport=udp;lr>;a=b, <sip:{P1};lr>")],
            P1,
            vec![format!("<sip:{P1};lr>")],
        ),
        // A spiral that no proxy between put itself into: two values in a row.
        (
            vec![format!("<sip:{LB};lr>,<sip:{LB};lr>"), format!("<sip:{P1};lr>")],
            P1,
            vec![format!("<sip:{P1};lr>")],
        ),
        // The second value of a spiral stays for the way back.
        (
            vec![format!("<sip:{LB};lr>, <sip:{P1};lr>, <sip:{LB};lr>")],
            P1,
            vec![format!("<sip:{P1};lr>, <sip:{LB};lr>")],
        ),
    ] {
        let lines: Vec<String> = routes.iter().map(|r| format!("Route: {r}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (at, got) = lab.pass(UAC, &request("BYE", &contact, &lines));
        assert_eq!((at, values(&got, "Route")), (addr(to), left.iter().map(String::as_str).collect()));
        assert!(got.starts_with(&format!("BYE {contact} SIP/2.0")));
    }
}

/// RFC 3261 section 16.4: a strict router put the balancer's URI into the Request-URI and the target at the end.
#[test]
fn the_work_of_a_strict_router_is_undone() {
    let mut lab = Lab::new();
    let own = format!("sip:{LB};lr");
    let line = format!("Route: <sip:{P1};lr>, <sip:bob@{UAS}>");
    let (to, got) = lab.pass(UAC, &request("BYE", &own, &[&line]));
    assert_eq!(to, addr(P1));
    assert!(got.starts_with(&format!("BYE sip:bob@{UAS} SIP/2.0\r\n")), "{got}");
    assert_eq!(values(&got, "Route"), [format!("<sip:{P1};lr>")]);
    // With the balancer's own value before the target, nothing is left.
    let line = format!("Route: <sip:{LB};lr>, <sip:bob@{UAS}>");
    let (to, got) = lab.pass(P1, &request("BYE", &own, &[&line]));
    assert_eq!((to, values(&got, "Route").len()), (addr(UAS), 0));
    assert!(got.starts_with(&format!("BYE sip:bob@{UAS} SIP/2.0\r\n")), "{got}");
}

/// A dialog outlives its proxy: the owner of the Call-ID stands in, without the Route that names the one that is gone.
#[test]
fn a_route_to_a_member_that_is_gone_is_taken_by_the_owner() {
    let limits = Limits::default();
    let both = table(1, &[member("p1", P1, State::Ready), member("p2", P2, State::Ready)]);
    let gone = both.next(&Change::Remove("p1".to_owned()), &limits).unwrap();
    let suspect = both.next(&Change::SetState("p1".to_owned(), State::Suspect), &limits).unwrap();
    let routes = format!("Route: <sip:{LB};lr>, <sip:{P1};lr>, <sip:{LB};lr>");
    for membership in [gone, suspect] {
        let mut lab = Lab::with(Config::new(addr(LB), KEY), membership);
        let (to, got) = lab.pass(UAC, &request("BYE", &format!("sip:bob@{UAS}"), &[&routes]));
        assert_eq!((to, values(&got, "Route")), (addr(P2), vec![format!("<sip:{LB};lr>").as_str()]));
    }
}

/// No open relay: what others than members send only goes to members, whatever it names.
#[test]
fn a_foreign_route_or_target_goes_to_the_owner_unless_a_member_sends_it() {
    let mut lab = Lab::new();
    let foreign = format!("Route: <sip:{LB};lr>, <sip:{UAS};lr>");
    let to_uas = format!("sip:bob@{UAS}");
    let (to, got) = lab.pass(UAC, &request("INVITE", BOB, &[&foreign]));
    assert_eq!((to, values(&got, "Route")), (addr(P1), vec![format!("<sip:{UAS};lr>").as_str()]));
    assert_eq!(lab.pass(UAC, &request("INVITE", &to_uas, &[])).0, addr(P1));

    let (to, got) = lab.pass(P1, &request("INVITE", BOB, &[&foreign]));
    assert_eq!((to, values(&got, "Route")), (addr(UAS), vec![format!("<sip:{UAS};lr>").as_str()]));
    assert_eq!(lab.pass(P1, &request("INVITE", &to_uas, &[])).0, addr(UAS));
    // The balancer as a Path of the target (RFC 3327 section 5.4): the value goes, the Request-URI decides.
    let path = format!("Route: <sip:{LB};lr>");
    let (to, got) = lab.pass(P1, &request("INVITE", &to_uas, &[&path]));
    assert_eq!((to, values(&got, "Route").len()), (addr(UAS), 0));
    assert_eq!(lab.lb.stats().counts.requests_outward, 3);
    // `maddr` comes before the host (section 19.1.1).
    assert_eq!(
        lab.pass(P1, &request("INVITE", "sip:bob@example.com:5064;maddr=203.0.113.9", &[])).0,
        addr(UAS)
    );
}

#[test]
fn a_request_uri_that_names_a_member_goes_there() {
    let members = [member("p1", P1, State::Ready), member("p2", P2, State::Draining)];
    let mut lab = Lab::with(Config::new(addr(LB), KEY), table(1, &members));
    for from in [UAC, P1] {
        assert_eq!(lab.pass(from, &request("MESSAGE", &format!("sip:x@{P2}"), &[])).0, addr(P2));
    }
    // Unless nothing is sent to that member: then the owner of the Call-ID stands in.
    lab.members(table(2, &[member("p1", P1, State::Ready), member("p2", P2, State::Suspect)])).unwrap();
    for from in [UAC, P1] {
        assert_eq!(lab.pass(from, &request("MESSAGE", &format!("sip:x@{P2}"), &[])).0, addr(P1));
    }
}

/// A request for the cluster's own address comes back in, also from a member: it never goes to the balancer itself.
#[test]
fn the_balancers_own_address_stands_for_the_cluster() {
    let mut lab = Lab::new();
    for from in [UAC, P1] {
        assert_eq!(lab.pass(from, &request("INVITE", &format!("sip:bob@{LB}"), &[])).0, addr(P1));
        assert_eq!(lab.pass(from, &request("REGISTER", &format!("sip:{LB}"), &[])).0, addr(P1));
    }
    // More own values in a row than are taken off at once.
    let many = format!("Route: {}", vec![format!("<sip:{LB};lr>"); 7].join(","));
    let (to, got) = lab.pass(P1, &request("INVITE", &format!("sip:bob@{UAS}"), &[&many]));
    assert_eq!((to, values(&got, "Route")[0].matches("lr").count()), (addr(P1), 3));
}

/// RFC 3261 section 16.11: the branch is a function of the branch before, so that everything that belongs to one
/// transaction of the hop before belongs to one here, and a spiral does not.
#[test]
fn what_belongs_to_an_invite_has_its_branch() {
    let mut lab = Lab::new();
    let invite = request("INVITE", BOB, &[]);
    let (_, first) = lab.pass(UAC, &invite);
    let own = branch(&first).to_owned();
    for again in [
        invite.clone(),
        invite.replace("INVITE", "CANCEL"),
        invite.replace("INVITE", "ACK").replace("To: <sip:b@example.com>", "To: <sip:b@example.com>;tag=t"),
    ] {
        assert_eq!(branch(&lab.pass(UAC, &again).1), own, "{again}");
    }
    let other = invite.replace("z9hG4bK-call-1-1", "z9hG4bK-call-1-2");
    assert_ne!(branch(&lab.pass(UAC, &other).1), own, "an ACK to a 2xx is a transaction of its own");
    assert_ne!(branch(&lab.pass(UAC, &invite.replace(":5062", ":5063")).1), own, "another sent-by");
    let spiral = first.replace(BOB, &format!("sip:bob@{UAS}"));
    let (to, spiral) = lab.pass(P1, &spiral);
    assert_eq!(to, addr(UAS));
    assert_ne!(branch(&spiral), own, "a spiral");
    // Another balancer with the same key does alike, one with another key does not.
    assert_eq!(branch(&Lab::new().pass(UAC, &invite).1), own);
    let members = table(1, &[member("p1", P1, State::Ready)]);
    let mut stranger = Lab::with(Config::new(addr(LB), HashSeed(1, 3)), members);
    assert_ne!(branch(&stranger.pass(UAC, &invite).1), own);
}

/// RFC 3261 section 17.2.3 for elements of RFC 2543, whose branch names no transaction.
#[test]
fn without_the_cookie_the_branch_comes_from_what_names_the_transaction() {
    let mut lab = Lab::new();
    let invite = request("INVITE", BOB, &[]).replace(";branch=z9hG4bK-call-1-1", "");
    let own = branch(&lab.pass(UAC, &invite).1).to_owned();
    let ack =
        invite.replace("INVITE", "ACK").replace("To: <sip:b@example.com>", "To: <sip:b@example.com>;tag=t");
    for same in [invite.clone(), invite.replace("INVITE", "CANCEL"), ack] {
        assert_eq!(branch(&lab.pass(UAC, &same).1), own, "{same}");
    }
    for (from, to) in [
        ("Call-ID: call-1", "Call-ID: call-2"),
        ("CSeq: 1 ", "CSeq: 2 "),
        ("tag=f1", "tag=f2"),
        (BOB, "sip:c@example.com"),
        (":5062", ":5063"),
    ] {
        assert_ne!(branch(&lab.pass(UAC, &invite.replace(from, to)).1), own, "{to}");
    }
}

#[test]
fn ipv6_all_the_way() {
    let lb = "[2001:db8::1]:5060";
    let p1 = "[2001:db8::11]:5070";
    let mut lab = Lab::with(Config::new(addr(lb), KEY), table(1, &[member("p1", p1, State::Ready)]));
    let uac = "[2001:db8::7]:5062";
    let invite = request("INVITE", BOB, &[]).replace(UAC, uac);
    let (to, got) = lab.pass(uac, &invite);
    assert_eq!(to, addr(p1));
    assert!(values(&got, "Via")[0].starts_with("SIP/2.0/UDP [2001:db8::1]:5060;branch=z9hG4bK"));
    assert!(values(&got, "Via")[1].ends_with(";rport=5062;received=2001:db8::7"));
    assert_eq!(values(&got, "Record-Route"), ["<sip:[2001:db8::1]:5060;lr>"]);
    let (to, _) = lab.pass(p1, &request("BYE", "sip:b@[2001:db8::9]", &["Route: <sip:[2001:db8:0::1];lr>"]));
    assert_eq!(to, addr("[2001:db8::9]:5060"));
    let response = got.replacen(&format!("INVITE {BOB} SIP/2.0"), "SIP/2.0 200 OK", 1);
    assert_eq!(lab.pass(p1, &response).0, addr(uac));
    lab.answers(p1, &request("BYE", "sip:b@192.0.2.9", &[]).replace(UAC, p1), 500, Answered::Unroutable);
}

#[test]
fn what_the_driver_has_no_room_for_is_counted_as_dropped_only() {
    let mut lab = Lab::new();
    lab.out.is_full = true;
    lab.drops(UAC, &request("INVITE", BOB, &[]), Drop::Full);
    lab.drops(UAC, &request("OPTIONS", &format!("sip:{LB}"), &[]), Drop::Full);
    let counts = lab.lb.stats().counts;
    assert_eq!((counts.requests, counts.answered_total(), counts.dropped_total()), (0, 0, 2));
    assert_eq!(lab.lb.stats().members[0].requests, 0);
}
