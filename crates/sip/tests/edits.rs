//! Edits and replies that once went wrong, or easily would.

use busyhour_sip::{Edits, HeaderName, Message, Reply, TooLong};

fn edited(message: &str, edit: impl FnOnce(&mut Edits<'_, '_>)) -> String {
    let message = Message::parse(message.as_bytes()).expect("a message");
    let mut edits = Edits::new(&message);
    edit(&mut edits);
    let text = edits.to_vec().expect("it fits");
    assert_eq!(text.len(), edits.len().expect("it fits"));
    String::from_utf8(text).expect("ASCII")
}

const START: &str = "OPTIONS sip:h SIP/2.0\r\n";

fn with_headers(headers: &str) -> String {
    format!("{START}{headers}\r\n")
}

fn headers_of(message: &str) -> &str {
    message.strip_prefix(START).and_then(|m| m.strip_suffix("\r\n")).expect("the same start and end")
}

fn check(before: &str, after: &str, edit: impl FnOnce(&mut Edits<'_, '_>)) {
    assert_eq!(headers_of(&edited(&with_headers(before), edit)), after);
}

#[test]
fn elements_are_popped_one_by_one_and_then_the_line() {
    let before = "Route: ,<sip:a>,\r\n <sip:b> , <sip:c>\r\nRoute: <sip:d>\r\nX: y\r\n";
    let after = [
        "Route: <sip:b> , <sip:c>\r\nRoute: <sip:d>\r\nX: y\r\n",
        "Route: <sip:c>\r\nRoute: <sip:d>\r\nX: y\r\n",
        "Route: <sip:d>\r\nX: y\r\n",
        "X: y\r\n",
        "X: y\r\n",
    ];
    for (i, after) in after.iter().enumerate() {
        check(before, after, |e| (0..=i).for_each(|_| e.pop_route()));
    }
}

#[test]
fn routes_are_taken_from_both_ends() {
    let before = "Route: <sip:a>, <sip:b>, <sip:c>\r\n";
    check(before, "Route: <sip:a>, <sip:b>\r\n", |e| e.remove_last_route());
    check(before, "Route: <sip:a>\r\n", |e| (0..2).for_each(|_| e.remove_last_route()));
    check(before, "", |e| (0..4).for_each(|_| e.remove_last_route()));
    check(before, "Route: <sip:b>\r\n", |e| {
        e.remove_last_route();
        e.pop_route();
    });
    check(before, "", |e| {
        e.remove_last_route();
        e.pop_route();
        e.pop_route();
        e.pop_route();
    });
    check(before, "", |e| {
        e.pop_route();
        e.pop_route();
        e.remove_last_route();
    });
}

/// A Route that goes in where the last Via line ends stays when that line goes.
#[test]
fn what_is_put_behind_a_line_survives_it() {
    check("Via: SIP/2.0/UDP a, SIP/2.0/UDP b\r\nX: y\r\n", "Route: <sip:r>\r\nX: y\r\n", |e| {
        e.push_route(&[b"<sip:", b"r>"]);
        e.pop_via();
        e.pop_via();
    });
}

#[test]
fn pushed_lines_lie_on_top_and_added_ones_in_order_at_the_end() {
    check(
        "Via: SIP/2.0/UDP a\r\nRoute: <sip:a>\r\n",
        "Via: 2\r\nVia: 1\r\nVia: SIP/2.0/UDP a\r\nRoute: 2\r\nRoute: 1\r\nRoute: <sip:a>\r\nA: 1\r\nB: 2\r\n",
        |e| {
            e.push_via(&[b"1"]);
            e.push_via(&[b"2"]);
            e.push_route(&[b"1"]);
            e.push_route(&[b"2"]);
            e.add_header(b"A", &[b"1"]);
            e.add_header(b"B", &[b"2"]);
        },
    );
}

#[test]
fn a_message_without_headers_gets_them_before_its_empty_line() {
    check("", "Via: v\r\nX: y\r\n", |e| {
        e.push_via(&[b"v"]);
        e.add_header(b"X", &[b"y"]);
    });
}

#[test]
fn a_message_that_ends_in_its_headers_gets_whole_lines() {
    let after = edited("OPTIONS sip:h SIP/2.0\r\nX: y", |e| e.add_header(b"Z", &[b"1"]));
    assert_eq!(after, "OPTIONS sip:h SIP/2.0\r\nX: y\r\nZ: 1\r\n");
    let after = edited("OPTIONS sip:h SIP/2.0", |e| e.push_via(&[b"v"]));
    assert_eq!(after, "OPTIONS sip:h SIP/2.0\r\nVia: v\r\n");
}

#[test]
fn a_number_replaces_whatever_value_there_is() {
    check("Max-Forwards:\r\nX: y\r\n", "Max-Forwards:69\r\nX: y\r\n", |e| {
        e.set_number(HeaderName::MaxForwards, 69)
    });
    check("max-forwards \t:\r\n \r\n 0070\r\n", "max-forwards \t:\r\n \r\n 69\r\n", |e| {
        e.set_number(HeaderName::MaxForwards, 1);
        e.set_number(HeaderName::MaxForwards, 69);
    });
    check("X: y\r\n", "X: y\r\nMax-Forwards: 70\r\n", |e| e.set_number(HeaderName::MaxForwards, 70));
}

/// RFC 3261 section 18.3: what is behind the body is not part of the message.
#[test]
fn octets_behind_the_body_stay_behind() {
    let after = edited("OPTIONS sip:h SIP/2.0\r\nContent-Length: 2\r\n\r\nabcdef", |_| {});
    assert_eq!(after, "OPTIONS sip:h SIP/2.0\r\nContent-Length: 2\r\n\r\nab");
}

#[test]
fn a_request_line_without_uri_can_be_given_one() {
    let after = edited("OPTIONS SIP/2.0\r\n\r\n", |e| e.set_request_uri(b"X"));
    assert_eq!(after, "OPTIONSX SIP/2.0\r\n\r\n", "such a message is refused; it only must not do harm");
}

#[test]
fn stamping_replaces_what_the_message_brought_along() {
    let source = "192.0.2.9:1234".parse().expect("an address");
    for (before, after) in [
        ("h", "h;received=192.0.2.9"),
        ("192.0.2.9", "192.0.2.9"),
        ("192.0.2.9;rport", "192.0.2.9;rport=1234;received=192.0.2.9"),
        ("h ; RPORT = \"x;\" ; branch=b", "h ; rport=1234 ; branch=b;received=192.0.2.9"),
        ("192.0.2.9;received=\r\n 10.0.0.1;x", "192.0.2.9;received=192.0.2.9;x"),
        ("[::1]\t:5060;received=10.0.0.1;rport=", ""),
    ] {
        let line = |v: &str| format!("v:SIP/2.0/UDP {v}\r\n");
        let text = with_headers(&line(before));
        let message = Message::parse(text.as_bytes()).expect("a message");
        let Ok(via) = message.top_via() else {
            assert_eq!(after, "", "a malformed Via is not stamped");
            continue;
        };
        let mut edits = Edits::new(&message);
        edits.stamp_via(&via, source);
        edits.stamp_via(&via, source);
        let stamped = String::from_utf8(edits.to_vec().expect("it fits")).expect("ASCII");
        assert_eq!(headers_of(&stamped), line(after));
    }
}

#[test]
fn every_line_of_the_longest_list_can_go() {
    let mut before = String::new();
    for i in 0..busyhour_sip::HEADERS_MAX / 2 {
        before += &format!("Route: <sip:{i}>\r\nX: {i}\r\n");
    }
    let text = edited(&with_headers(&before), |e| e.remove_all(HeaderName::Route));
    assert_eq!(headers_of(&text).lines().filter(|l| l.starts_with("X: ")).count(), 64);
    assert!(!text.contains("Route"));
}

#[test]
fn too_much_is_said_and_not_written() {
    let text = with_headers("X: y\r\n");
    let message = Message::parse(text.as_bytes()).expect("a message");
    let mut edits = Edits::new(&message);
    edits.add_header(b"Z", &[&[b'z'; 4096]]);
    assert_eq!((edits.len(), edits.to_vec()), (Err(TooLong), Err(TooLong)));
}

/// A header line without elements may stand before the topmost Via.
#[test]
fn a_reply_stamps_the_topmost_via_wherever_it_is() {
    let text = with_headers("Via:\r\nVia: SIP/2.0/UDP h\r\nVia: SIP/2.0/UDP i\r\n");
    let message = Message::parse(text.as_bytes()).expect("a message");
    let mut buf = [0; 512];
    let reply = Reply::new(&message, 400).source("192.0.2.9:1234".parse().expect("an address"));
    let len = reply.write(&mut buf, |_| {}).expect("it fits");
    let vias = "Via:\r\nVia: SIP/2.0/UDP h;received=192.0.2.9\r\nVia: SIP/2.0/UDP i\r\n";
    assert_eq!(
        std::str::from_utf8(&buf[..len]).expect("ASCII"),
        format!("SIP/2.0 400 Bad Request\r\n{vias}Content-Length: 0\r\n\r\n")
    );
}

/// The lines after a bad one are not folds of the header before it.
#[test]
fn a_bad_line_does_not_travel_in_a_reply() {
    let text = with_headers("Via: SIP/2.0/UDP h\r\nno header\r\n folded\r\nCall-ID: x\r\n");
    let message = Message::parse(text.as_bytes()).expect("a message");
    let mut buf = [0; 512];
    let len = Reply::new(&message, 400).write(&mut buf, |_| {}).expect("it fits");
    let expected = "SIP/2.0 400 Bad Request\r\nVia: SIP/2.0/UDP h\r\nCall-ID: x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(std::str::from_utf8(&buf[..len]).expect("ASCII"), expected);
}
