//! REGISTERs and their answers, by the sections of RFC 3261 that they are about.

use std::time::Duration;

use busyhour_sip::{Defect, Reply};

use crate::location::{Limits, Table};

use super::*;

const SEED: HashSeed = HashSeed(5, 6);
const AOR: &[u8] = b"alice@example.com";

struct Fixture {
    registrar: Registrar,
    table: Table,
    now: Instant,
    cseq: u32,
}

/// An answer, taken apart.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    reason: String,
    headers: Vec<String>,
}

impl Answer {
    fn all(&self, name: &str) -> Vec<&str> {
        let prefix = format!("{name}: ");
        self.headers.iter().filter_map(|h| h.strip_prefix(&prefix)).collect()
    }

    #[track_caller]
    fn contacts(&self, expected: &[&str]) {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.all("Contact"), expected, "{self:?}");
    }

    #[track_caller]
    fn refused(&self, status: u16, reason: &str) {
        assert_eq!((self.status, self.reason.as_str()), (status, reason), "{self:?}");
        assert!(self.all("Contact").is_empty() && self.all("Path").is_empty(), "{self:?}");
    }
}

fn fixture() -> Fixture {
    with_limits(Limits { contacts_per_aor_max: 3, uri_len_max: 100, ..Limits::default() })
}

fn with_limits(limits: Limits) -> Fixture {
    let config = Config { unix_offset_nanos: 1_289_690_900_000_000_000, ..Config::default() };
    Fixture {
        registrar: Registrar::new(config, SEED),
        table: Table::new(limits, SEED),
        now: Instant::from_nanos(40_000_000_000),
        cseq: 0,
    }
}

impl Fixture {
    /// A REGISTER with these header lines and the next CSeq.
    fn register(&mut self, headers: &[&str]) -> Answer {
        self.cseq += 1;
        let (cseq, branch) = (self.cseq, format!("b{}", self.cseq));
        self.send(&request("call", cseq, &branch, headers))
    }

    fn send(&mut self, text: &str) -> Answer {
        let message = Message::parse(text.as_bytes()).unwrap();
        let essentials = Essentials::of(&message).unwrap();
        let outcome = self.registrar.handle(self.now, &message, &essentials, AOR, &mut self.table);
        let mut buf = vec![0; text.len() + 200 + outcome.headers_len()];
        let reply = Reply::new(&message, outcome.status).reason(outcome.reason).to_tag(b"t");
        let len = reply.write(&mut buf, |w| outcome.write_headers(w)).expect("it fits");
        let text = std::str::from_utf8(&buf[..len]).unwrap();
        let parsed = Message::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.defect(), None, "{text}");
        let mut lines = text.lines();
        let start = lines.next().unwrap();
        Answer {
            status: parsed.status().unwrap(),
            reason: start["SIP/2.0 200 ".len()..].to_owned(),
            headers: lines.map(str::to_owned).collect(),
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

fn request(call_id: &str, cseq: u32, branch: &str, headers: &[&str]) -> String {
    let headers: String = headers.iter().map(|h| format!("{h}\r\n")).collect();
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKlb\r\n\
         Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\r\nFrom: <sip:alice@example.com>;tag=1\r\n\
         To: <sip:alice@example.com>\r\nCall-ID: {call_id}\r\nCSeq: {cseq} REGISTER\r\n{headers}\r\n"
    )
}

#[test]
fn a_binding_is_made_shown_refreshed_and_removed() {
    let mut f = fixture();
    f.register(&["Contact: <sip:alice@192.0.2.1:5070>;expires=600"])
        .contacts(&["<sip:alice@192.0.2.1:5070>;expires=600"]);
    f.pass(100);
    f.register(&[]).contacts(&["<sip:alice@192.0.2.1:5070>;expires=500"]);
    f.register(&["m: sip:alice@192.0.2.1:5070", "Expires: 700"])
        .contacts(&["<sip:alice@192.0.2.1:5070>;expires=700"]);
    f.register(&["Contact: <sip:alice@192.0.2.1:5070>", "Expires: 0"]).contacts(&[]);
    let Stats { changes, queries, .. } = f.registrar.stats();
    assert_eq!((changes, queries), (3, 1));
}

#[test]
fn the_answer_carries_date_and_supported() {
    let answer = fixture().register(&[]);
    assert_eq!(answer.all("Date"), ["Sat, 13 Nov 2010 23:29:00 GMT"]);
    assert_eq!(answer.all("Supported"), ["path"]);
}

/// Sections 10.2.1.1 and 10.3 step 7; section 20.10 for malformed values.
#[test]
fn the_expiration_is_chosen_as_the_rfc_says() {
    for (headers, granted) in [
        (["Contact: <sip:a@h>;expires=90", "Expires: 300"], 90),
        (["Contact: <sip:a@h>", "Expires: 300"], 300),
        (["Contact: <sip:a@h>", "Max-Forwards: 70"], 3600),
        (["Contact: <sip:a@h>", "Expires: 86400"], 7200),
        (["Contact: <sip:a@h>;expires=99999999999999999999", "Expires: 300"], 7200),
        (["Contact: <sip:a@h>;expires=4294967295", "Expires: 300"], 7200),
        (["Contact: <sip:a@h>;expires=abc", "Expires: 300"], 3600),
        (["Contact: <sip:a@h>;expires", "Expires: 300"], 3600),
        (["Contact: <sip:a@h>", "Expires: tomorrow"], 3600),
        (["Contact: <sip:a@h>;expires=60", "Expires: 1"], 60),
    ] {
        fixture().register(&headers).contacts(&[&format!("<sip:a@h>;expires={granted}")]);
    }
}

#[test]
fn too_short_an_expiration_is_423() {
    let mut f = fixture();
    for headers in [
        &["Contact: <sip:a@h>;expires=59"][..],
        &["Contact: <sip:a@h>", "Expires: 1"],
        &["Contact: <sip:good@h>;expires=600", "Contact: <sip:a@h>;expires=59"],
    ] {
        let answer = f.register(headers);
        answer.refused(423, "Interval Too Brief");
        assert_eq!(answer.all("Min-Expires"), ["60"]);
    }
    assert_eq!((f.table.len(), f.registrar.stats().too_brief), (0, 3));
    // An hour is never too brief, whatever the minimum is.
    let config = Config { min_expires_s: 7200, default_expires_s: 7200, ..Config::default() };
    f.registrar = Registrar::new(config, SEED);
    f.register(&["Contact: <sip:a@h>;expires=3600"]).contacts(&["<sip:a@h>;expires=3600"]);
    f.register(&["Contact: <sip:a@h>;expires=3599"]).refused(423, "Interval Too Brief");
}

#[test]
fn a_fraction_of_a_second_is_not_shown() {
    let mut f = fixture();
    f.now = Instant::from_nanos(40_500_000_000);
    f.register(&["Contact: <sip:a@h>;expires=60"]).contacts(&["<sip:a@h>;expires=60"]);
    f.now += Duration::from_millis(60_400);
    f.register(&[]).contacts(&["<sip:a@h>;expires=1"]);
    f.now += Duration::from_millis(100);
    f.register(&[]).contacts(&[]);
}

/// Section 10.2.2 and section 10.3 step 6.
#[test]
fn the_wildcard_stands_alone_and_removes_all() {
    let mut f = fixture();
    f.register(&["Contact: <sip:a@h>, <sip:b@h>"]);
    for headers in [
        &["Contact: *"][..],
        &["Contact: *", "Expires: 1"],
        &["Contact: *", "Expires: never"],
        &["Contact: *, <sip:c@h>", "Expires: 0"],
        &["Contact: *;expires=0"],
        &["Contact: <sip:c@h>", "Contact: *", "Expires: 0"],
    ] {
        assert_eq!(f.register(headers).status, 400, "{headers:?}");
    }
    assert_eq!((f.table.len(), f.registrar.stats().malformed), (2, 6));
    let late = request("call", 1, "x", &["Contact: *", "Expires: 0"]);
    f.send(&late).refused(500, "REGISTER Out Of Order");
    f.register(&["Contact: *", "Expires: 0"]).contacts(&[]);
    assert_eq!(f.table.len(), 0);
    f.register(&["Contact: *", "Expires: 0"]).contacts(&[]);
}

#[test]
fn preferences_are_read_and_shown() {
    let mut f = fixture();
    let three = "Contact: <sip:c@h>;q=0.05, <sip:a@h>;q=1.0, \"B, b\" <sip:b@h>;q=0.125;expires=60";
    f.register(&[three]).contacts(&[
        "<sip:a@h>;expires=3600",
        "<sip:b@h>;expires=60;q=0.125",
        "<sip:c@h>;expires=3600;q=0.05",
    ]);
    f.register(&["Contact: <sip:a@h>;q=0"]);
    assert_eq!(f.register(&[]).all("Contact").last(), Some(&"<sip:a@h>;expires=3600;q=0.0"));
    for q in ["1.5", "x", "", "0.1234"] {
        assert_eq!(f.register(&[&format!("Contact: <sip:d@h>;q={q}")]).status, 400, "q={q}");
    }
    f.register(&["Contact: <sip:d@h>;q"]).refused(400, "Bad Contact Q");
}

#[test]
fn contacts_may_be_any_uri() {
    for uri in ["tel:+358-555-1234567", "mailto:a@h", "sip:192.0.2.4", "sips:a@[2001:db8::1]:5061;x=y"] {
        let shown = format!("<{uri}>;expires=3600");
        fixture().register(&[&format!("Contact: <{uri}>")]).contacts(&[&shown]);
    }
    for bad in ["<sip:a b@h>", "<sip:>", "<nothing>", "\"open <sip:a@h>", "<sip:a@h> x", ""] {
        fixture().register(&[&format!("Contact: {bad}")]).refused(400, "Bad Contact");
    }
}

/// The REGISTERs of RFC 4475: sections 3.1.2.13 (regbadct), 3.3.14 (regescrt) and 3.3.12, 3.3.13 (cparam01, cparam02).
/// insuf (section 3.3.1) is refused before it can get here.
#[test]
fn the_registers_of_rfc_4475() {
    let mut f = fixture();
    f.register(&["Contact: sip:user@example.com?Route=%3Csip:sip.example.com%3E"])
        .refused(400, "Bad Contact");
    f.register(&["M: <sip:user@example.com?Route=%3Csip:sip.example.com%3E>"])
        .contacts(&["<sip:user@example.com?Route=%3Csip:sip.example.com%3E>;expires=3600"]);
    fixture()
        .register(&["Contact: sip:+19725552222@gw1.example.net;unknownparam"])
        .contacts(&["<sip:+19725552222@gw1.example.net>;expires=3600"]);
    fixture()
        .register(&["Contact: <sip:+19725552222@gw1.example.net;unknownparam>"])
        .contacts(&["<sip:+19725552222@gw1.example.net;unknownparam>;expires=3600"]);
    let insuf = "REGISTER sip:example.com SIP/2.0\r\nCSeq: 193942 REGISTER\r\n\
                 Via: SIP/2.0/UDP 192.0.2.95;branch=z9hG4bKkdj.insuf\r\n\r\n";
    let message = Message::parse(insuf.as_bytes()).unwrap();
    assert_eq!(Essentials::of(&message).unwrap_err(), Defect::Missing(HeaderName::From));
}

/// Section 8.2.2.3.
#[test]
fn what_is_required_and_not_supported_is_420() {
    let mut f = fixture();
    let answer = f.register(&["Require: path, gruu", "Require: outbound", "Contact: <sip:a@h>"]);
    answer.refused(420, "Bad Extension");
    assert_eq!(answer.all("Unsupported"), ["gruu, outbound"]);
    assert_eq!((f.table.len(), f.registrar.stats().bad_extension), (0, 1));
    f.register(&["Require: PATH", "Contact: <sip:a@h>"]).contacts(&["<sip:a@h>;expires=3600"]);
}

/// RFC 3327 section 5.3.
#[test]
fn the_path_is_stored_and_repeated() {
    let mut f = fixture();
    let path_of = |f: &Fixture| {
        let mut paths = Vec::new();
        f.table.lookup(f.now, AOR, &mut |c| paths.push(String::from_utf8(c.path.to_vec()).unwrap()));
        paths
    };
    let answer = f.register(&[
        "Supported: path",
        "Path: <sip:p2.example.net;lr>,\r\n <sip:p1.example.com;lr>;x=\"a,b\"",
        "Path: <sip:p0.example.com;lr>",
        "Contact: <sip:a@h>",
    ]);
    let all = "<sip:p2.example.net;lr>,<sip:p1.example.com;lr>;x=\"a,b\",<sip:p0.example.com;lr>";
    assert_eq!(answer.all("Path"), [all]);
    assert_eq!(path_of(&f), [all]);
    // Without `path` in Supported it is stored as well; a refresh replaces it.
    f.register(&["Path: <sip:p3.example.com;lr>", "Contact: <sip:a@h>"]);
    assert_eq!(path_of(&f), ["<sip:p3.example.com;lr>"]);
    let query = f.register(&["Path: <sip:p4.example.com;lr>"]);
    assert!(query.all("Path").is_empty(), "a query stores none");
    f.register(&["Contact: <sip:a@h>"]);
    assert_eq!(path_of(&f), [""]);
    for bad in ["sip:p1.example.com;lr", "<tel:1>", "<sip:p1", "x <>"] {
        f.register(&[&format!("Path: {bad}"), "Contact: <sip:a@h>"]).refused(400, "Bad Path");
    }
    // A display name may be folded; what is stored is one line.
    let answer = f.register(&["Path: A\r\n B <sip:p5.example.com;lr>", "Contact: <sip:a@h>"]);
    assert_eq!(answer.all("Path"), ["A   B <sip:p5.example.com;lr>"]);
}

#[test]
fn order_is_kept_and_retransmissions_are_answered_alike() {
    let mut f = fixture();
    let contact = ["Contact: <sip:a@h>;expires=600"];
    f.send(&request("call", 5, "one", &contact)).contacts(&["<sip:a@h>;expires=600"]);
    f.pass(2);
    f.send(&request("call", 5, "one", &contact)).contacts(&["<sip:a@h>;expires=598"]);
    // The same request by way of another balancer: the user agent's own branch tells.
    let elsewhere = request("call", 5, "one", &contact).replace("z9hG4bKlb", "z9hG4bKotherlb");
    f.send(&elsewhere).contacts(&["<sip:a@h>;expires=598"]);
    f.send(&request("call", 5, "two", &contact)).refused(500, "REGISTER Out Of Order");
    f.send(&request("call", 4, "three", &contact)).refused(500, "REGISTER Out Of Order");
    f.send(&request("other", 1, "four", &contact)).contacts(&["<sip:a@h>;expires=600"]);
    assert_eq!(f.registrar.stats().out_of_order, 2);
}

#[test]
fn limits_have_answers_of_their_own() {
    let mut f = fixture();
    f.register(&["Contact: <sip:1@h>,<sip:2@h>,<sip:3@h>,<sip:4@h>"]).refused(403, "Too Many Contacts");
    let many: Vec<String> = (0..33).map(|i| format!("Contact: <sip:{i}@h>;expires=0")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    f.register(&many[..32]).contacts(&[]);
    f.register(&many).refused(400, "Too Many Contacts In Request");
    f.register(&[&format!("Contact: <sip:{}@h>", "a".repeat(100))]).refused(400, "Contact Or Path Too Long");
    let mut f = with_limits(Limits { aors_max: 1, ..Limits::default() });
    let other = Origin { call_id: b"c", cseq: 1, branch: 1, path: b"" };
    let change = [ContactChange { uri: b"sip:b@h", q: 1000, expires_s: 600 }];
    f.table.register(f.now, b"bob@example.com", &other, Change::Contacts(&change), &mut |_| ()).unwrap();
    f.register(&["Contact: <sip:a@h>"]).refused(500, "Location Table Full");
    assert_eq!(f.registrar.stats().full, 1);
}

#[test]
#[should_panic(expected = "does not hold")]
fn contradictory_expirations_are_a_bug() {
    Registrar::new(Config { min_expires_s: 600, max_expires_s: 300, ..Config::default() }, SEED);
}

#[test]
fn a_refresh_allocates_nothing() {
    let mut f = fixture();
    let headers = [
        "Path: <sip:127.0.0.1:5060;lr>",
        "Contact: <sip:alice@192.0.2.1:5070;transport=udp>;q=0.7",
        "Expires: 600",
    ];
    let refresh = |f: &mut Fixture, cseq| {
        let text = request("call", cseq, "b", &headers);
        let message = Message::parse(text.as_bytes()).unwrap();
        let essentials = Essentials::of(&message).unwrap();
        let mut status = 0;
        let counted = allocation_counter::measure(|| {
            status = f.registrar.handle(f.now, &message, &essentials, AOR, &mut f.table).status;
        });
        assert_eq!(status, 200);
        counted.count_total
    };
    refresh(&mut f, 1);
    f.pass(300);
    refresh(&mut f, 2);
    for cseq in 3..20 {
        f.pass(300);
        assert_eq!(refresh(&mut f, cseq), 0, "CSeq {cseq}");
    }
}
