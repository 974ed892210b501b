//! The table against a model that keeps everything in sorted maps, and what a model cannot show.

mod model;

use std::time::Duration;

use busyhour_engine::{HashSeed, Instant};

use super::*;

const SEED: HashSeed = HashSeed(3, 4);

fn s(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn table() -> Table {
    Table::new(Limits::default(), SEED)
}

fn origin(call_id: &str, cseq: u32) -> Origin<'_> {
    Origin { call_id: call_id.as_bytes(), cseq, branch: cseq, path: b"" }
}

fn contact(uri: &str, expires_s: u32) -> ContactChange<'_> {
    ContactChange { uri: uri.as_bytes(), q: 1000, expires_s }
}

fn put(
    table: &mut Table,
    now: Instant,
    aor: &str,
    from: &Origin<'_>,
    changes: &[ContactChange<'_>],
) -> Result<(), RegisterError> {
    table.register(now, aor.as_bytes(), from, Change::Contacts(changes), &mut |_| ())
}

fn uris(table: &Table, now: Instant, aor: &str) -> Vec<String> {
    let mut shown = Vec::new();
    table.lookup(now, aor.as_bytes(), &mut |c| shown.push(String::from_utf8(c.uri.to_vec()).unwrap()));
    shown
}

/// Sweeps until nothing is due at `now`.
fn sweep(table: &mut Table, now: Instant) {
    let mut at = now;
    for _ in 0..100_000 {
        table.expire(at);
        match table.next_expiry() {
            Some(next) if next <= now + Duration::from_secs(60) => at = next,
            Some(_) | None => return,
        }
    }
    panic!("sweeping does not end");
}

#[test]
fn a_binding_lasts_as_long_as_granted_and_is_not_shown_afterwards() {
    let mut t = table();
    let now = Instant::from_nanos(10_300_000_000);
    put(&mut t, now, "a@h", &origin("c", 1), &[contact("sip:a@1.2.3.4", 60)]).unwrap();
    let mut ends = None;
    t.lookup(now, b"a@h", &mut |c| ends = Some(c.expires_at));
    assert_eq!(ends, Some(s(71)), "from the next full second");
    assert_eq!(uris(&t, Instant::from_nanos(70_999_999_999), "a@h").len(), 1);
    assert!(uris(&t, s(71), "a@h").is_empty());
    assert_eq!(t.len(), 1, "ended, but not swept");
    assert!(t.next_expiry().expect("something will expire") <= s(79));
    sweep(&mut t, s(79));
    assert_eq!((t.len(), t.aors(), t.next_expiry()), (0, 0, None));
    assert_eq!(t.stats().expired, 1);
}

#[test]
fn order_is_by_preference_then_latest_first() {
    let mut t = table();
    let change = |uri, q| ContactChange { uri, q, expires_s: 60 };
    put(&mut t, s(1), "a@h", &origin("c", 1), &[change(b"sip:low@h", 100), change(b"sip:one@h", 500)])
        .unwrap();
    put(&mut t, s(1), "a@h", &origin("c", 2), &[change(b"sip:two@h", 500), change(b"sip:three@h", 500)])
        .unwrap();
    put(&mut t, s(1), "a@h", &origin("c", 3), &[change(b"sip:top@h", 501)]).unwrap();
    let order = ["sip:top@h", "sip:two@h", "sip:three@h", "sip:one@h", "sip:low@h"];
    assert_eq!(uris(&t, s(1), "a@h"), order);
    put(&mut t, s(1), "a@h", &origin("c", 4), &[change(b"sip:one@h", 500)]).unwrap();
    let order = ["sip:top@h", "sip:one@h", "sip:two@h", "sip:three@h", "sip:low@h"];
    assert_eq!(uris(&t, s(1), "a@h"), order, "a refresh is a registration");
}

/// RFC 3261 section 10.3 step 7.
#[test]
fn late_requests_change_nothing() {
    let mut t = table();
    let uri = "sip:a@1.2.3.4";
    put(&mut t, s(1), "a@h", &origin("c", 5), &[contact(uri, 60)]).unwrap();
    let other = Origin { branch: 99, ..origin("c", 5) };
    assert_eq!(put(&mut t, s(1), "a@h", &other, &[contact(uri, 0)]), Err(RegisterError::OutOfOrder));
    let both = [contact("sip:new@1.2.3.4", 60), contact(uri, 0)];
    assert_eq!(put(&mut t, s(1), "a@h", &origin("c", 4), &both), Err(RegisterError::OutOfOrder));
    assert_eq!(uris(&t, s(1), "a@h"), [uri], "all or nothing");
    let all = t.register(s(1), b"a@h", &origin("c", 5), Change::RemoveAll, &mut |_| ());
    assert_eq!(all, Err(RegisterError::OutOfOrder));
    put(&mut t, s(1), "a@h", &origin("another", 1), &[contact(uri, 90)]).unwrap();
    put(&mut t, s(1), "a@h", &origin("another", 2), &[contact(uri, 0)]).unwrap();
    assert!(uris(&t, s(1), "a@h").is_empty());
    assert_eq!((t.stats().out_of_order, t.stats().removed), (3, 1));
}

#[test]
fn a_retransmission_changes_nothing_and_shows_the_bindings() {
    let mut t = table();
    let first = [contact("sip:a@1.2.3.4", 60)];
    put(&mut t, s(1), "a@h", &origin("c", 5), &first).unwrap();
    let mut shown = Vec::new();
    let again = [contact("sip:a@1.2.3.4", 60)];
    t.register(s(30), b"a@h", &origin("c", 5), Change::Contacts(&again), &mut |c| shown.push(c.expires_at))
        .unwrap();
    assert_eq!(shown, [s(61)]);
    assert_eq!(t.stats().retransmissions, 1);
}

#[test]
fn limits_hold_and_are_counted() {
    let limits = Limits { aors_max: 2, contacts_per_aor_max: 2, uri_len_max: 20, path_len_max: 12 };
    let mut t = Table::new(limits, SEED);
    let three = [contact("sip:1@h", 60), contact("sip:2@h", 60), contact("sip:3@h", 60)];
    assert_eq!(put(&mut t, s(1), "a@h", &origin("c", 1), &three), Err(RegisterError::TooManyContacts));
    assert_eq!(t.len(), 0);
    put(&mut t, s(1), "a@h", &origin("c", 1), &three[..2]).unwrap();
    let swap = [contact("sip:1@h", 0), contact("sip:3@h", 60)];
    put(&mut t, s(1), "a@h", &origin("c", 2), &swap).unwrap();
    assert_eq!(uris(&t, s(1), "a@h"), ["sip:3@h", "sip:2@h"], "one goes, one comes");
    put(&mut t, s(1), "b@h", &origin("c", 1), &three[..1]).unwrap();
    assert_eq!(put(&mut t, s(1), "c@h", &origin("c", 1), &three[..1]), Err(RegisterError::Full));
    let long = [contact("sip:12345678901234567@h", 60)];
    assert_eq!(put(&mut t, s(1), "b@h", &origin("c", 2), &long), Err(RegisterError::TooLong));
    let path = Origin { path: b"<sip:h:5060;lr>", ..origin("c", 2) };
    assert_eq!(put(&mut t, s(1), "b@h", &path, &three[..1]), Err(RegisterError::TooLong));
    let many = vec![contact("sip:1@h", 60); CHANGES_MAX + 1];
    assert_eq!(put(&mut t, s(1), "b@h", &origin("c", 2), &many), Err(RegisterError::TooManyContacts));
    let Stats { too_many_contacts, too_long, full, .. } = t.stats();
    assert_eq!((too_many_contacts, too_long, full), (2, 2, 1));
    sweep(&mut t, s(100));
    put(&mut t, s(100), "c@h", &origin("c", 1), &three[..1]).unwrap();
    assert_eq!((t.len(), t.aors()), (1, 1));
}

/// Growth through many splits, shrinking through expiry, with several contacts and Paths each.
#[test]
fn tens_of_thousands_come_and_go() {
    let mut t = table();
    let count = 30_000u32;
    for i in 0..count {
        let path = format!("<sip:10.0.0.{};lr>", i % 3);
        let own = format!("<sip:edge-{i}@10.0.0.1;lr>");
        let from =
            Origin { path: if i % 10 == 0 { own.as_bytes() } else { path.as_bytes() }, ..origin("c", 1) };
        let (a, b) = (format!("sip:u{i}@192.0.2.1:5060"), format!("sip:u{i}@192.0.2.2:5060"));
        let expires_s = if i % 2 == 0 { 100 } else { 10_000 };
        let changes = [contact(&a, expires_s), contact(&b, 10_000)];
        put(&mut t, s(1), &format!("u{i}@h"), &from, &changes[..1 + i as usize % 2]).unwrap();
    }
    let check = |t: &Table, now, i: u32, alive: bool| {
        let mut paths = Vec::new();
        t.lookup(now, format!("u{i}@h").as_bytes(), &mut |c| {
            paths.push(String::from_utf8(c.path.to_vec()).unwrap())
        });
        let path = if i.is_multiple_of(10) {
            format!("<sip:edge-{i}@10.0.0.1;lr>")
        } else {
            format!("<sip:10.0.0.{};lr>", i % 3)
        };
        assert_eq!(paths, vec![path; if alive { 1 + i as usize % 2 } else { 0 }], "user {i}");
    };
    (0..count).for_each(|i| check(&t, s(50), i, true));
    assert_eq!((t.len(), t.aors()), (45_000, 30_000));
    sweep(&mut t, s(200));
    (0..count).for_each(|i| check(&t, s(200), i, i % 2 == 1));
    assert_eq!((t.len(), t.aors()), (30_000, 15_000));
    sweep(&mut t, s(20_000));
    assert_eq!((t.len(), t.aors(), t.next_expiry()), (0, 0, None));
}

/// The contract with `pump`: nothing is due any more at the instant of an `expire`, and a call does a bounded part.
#[test]
fn expire_leaves_no_deadline_behind() {
    let mut t = table();
    for i in 0..50_000u32 {
        put(&mut t, s(1), &format!("u{i}@h"), &origin("c", 1), &[contact("sip:a@192.0.2.1", 60)]).unwrap();
    }
    let (mut calls, mut removed_max) = (0, 0);
    let mut now = s(100);
    while let Some(at) = t.next_expiry() {
        now = now.max(at);
        let before = t.len();
        t.expire(now);
        removed_max = removed_max.max(before - t.len());
        assert!(t.next_expiry().is_none_or(|next| next > now));
        calls += 1;
        assert!(calls < 1000, "no progress");
    }
    assert_eq!(t.len(), 0);
    // Looking at a binding is one unit of work, removing it four; the last segment, of up to 1024, may overdraw.
    assert!(removed_max <= SWEEP_WORK / 5 + 1024, "{removed_max} in one call");
}

#[test]
fn an_emptied_table_has_given_its_memory_back() {
    let mut t = table();
    for i in 0..20_000u32 {
        let uri = format!("sip:u{i}@192.0.2.1:5060");
        put(&mut t, s(1), &format!("u{i}@h"), &origin("c", 1), &[contact(&uri, 60)]).unwrap();
    }
    let full = t.heap_bytes();
    sweep(&mut t, s(100));
    let empty = t.heap_bytes();
    assert!(empty * 10 < full, "{empty} bytes of {full} are left");
}
