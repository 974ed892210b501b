//! Challenges and credentials between two proxies of a cluster, and what must not pass.

use busyhour_sip::Writer;

use super::*;

const REALM: &str = "example.com";
const KEY: HashSeed = HashSeed(1, 2);

struct Alice;

impl Subscribers for Alice {
    fn ha1(&self, username: &[u8]) -> Option<Ha1> {
        (username == b"alice").then(|| Ha1::of("alice", REALM, "secret"))
    }
}

fn proxy(key: HashSeed, unix_offset_nanos: u64) -> Authenticator {
    let nonce_lifetime = Duration::from_secs(300);
    Authenticator::new(
        Config { realm: REALM.into(), key, nonce_lifetime, unix_offset_nanos },
        Box::new(Alice),
    )
}

fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

const KINDS: [Kind; 2] = [Kind::Www, Kind::Proxy];

/// The headers of a challenge, and the challenges in them.
fn challenge(by: &Authenticator, now: Instant, kind: Kind, stale: bool) -> Vec<String> {
    let mut buf = vec![0; by.challenge_len_max()];
    let mut w = Writer::new(&mut buf);
    by.write_challenge(now, kind, stale, &mut w);
    let len = w.finish().expect("it fits into challenge_len_max");
    let text = String::from_utf8(buf[..len].to_vec()).unwrap();
    let name = format!("{}: ", kind.challenge().as_str());
    text.lines().map(|line| line.strip_prefix(&name).expect("the right header").to_owned()).collect()
}

/// The credentials that a client makes from a challenge.
fn answer(challenge: &str, user: &str, password: &str) -> String {
    let challenge = Challenge::parse(challenge.as_bytes()).expect("a challenge");
    let mut buf = [0; 1024];
    let mut w = Writer::new(&mut buf);
    let ha1 = Ha1::of(user, REALM, password);
    challenge.write_credentials(&mut w, user.as_bytes(), &ha1, b"REGISTER", b"sip:example.com", 1, 42);
    let len = w.finish().unwrap();
    String::from_utf8(buf[..len].to_vec()).unwrap()
}

fn check(by: &Authenticator, now: Instant, kind: Kind, credentials: &[&str]) -> Result<String, bool> {
    let mut text = "REGISTER sip:example.com SIP/2.0\r\n".to_owned();
    for line in credentials {
        text.push_str(&format!("{}: {line}\r\n", kind.credentials().as_str()));
    }
    text.push_str("\r\n");
    let message = Message::parse(text.as_bytes()).unwrap();
    match by.check(now, &message, Method::Register, kind) {
        Verdict::Granted(user) => Ok(String::from_utf8(user.to_vec()).unwrap()),
        Verdict::Challenge => Err(false),
        Verdict::Stale => Err(true),
    }
}

const GRANTED: Result<&str, bool> = Ok("alice");
const CHALLENGED: Result<&str, bool> = Err(false);
const STALE: Result<&str, bool> = Err(true);

#[track_caller]
fn assert_verdict(got: Result<String, bool>, want: Result<&str, bool>) {
    assert_eq!(got, want.map(str::to_owned));
}

#[test]
fn a_challenge_of_one_proxy_is_answered_at_another() {
    let first = proxy(KEY, 1_000_000_000_000_000_000);
    let second = proxy(KEY, 1_000_000_000_000_000_000 - 7_000_000_000);
    for kind in KINDS {
        let challenges = challenge(&first, ms(10_000), kind, false);
        assert_eq!(challenges.len(), Algorithm::ALL.len());
        assert!(challenges[0].contains("SHA-256") && challenges[1].contains("MD5"), "{challenges:?}");
        for one in &challenges {
            assert_verdict(check(&second, ms(18_000), kind, &[&answer(one, "alice", "secret")]), GRANTED);
            assert_verdict(check(&second, ms(18_000), kind, &[&answer(one, "alice", "wrong")]), CHALLENGED);
        }
    }
}

#[test]
fn algorithms_are_offered_in_the_order_that_is_wanted_and_others_refused() {
    let all = proxy(KEY, 0);
    let swapped = proxy(KEY, 0).offering(&[Algorithm::Md5, Algorithm::Sha256]);
    let challenges = challenge(&swapped, ms(1000), Kind::Www, false);
    assert!(challenges[0].contains("MD5") && challenges[1].contains("SHA-256"), "{challenges:?}");
    let only = proxy(KEY, 0).offering(&[Algorithm::Sha256]);
    assert_eq!(challenge(&only, ms(1000), Kind::Proxy, true).len(), 1);
    for (one, verdict) in challenge(&all, ms(1000), Kind::Www, false).iter().zip([GRANTED, CHALLENGED]) {
        assert_verdict(check(&only, ms(1000), Kind::Www, &[&answer(one, "alice", "secret")]), verdict);
    }
}

#[test]
fn a_nonce_of_another_key_or_realm_is_worth_nothing() {
    let (ours, theirs) = (proxy(KEY, 0), proxy(HashSeed(1, 3), 0));
    let one = &challenge(&theirs, ms(1000), Kind::Www, false)[0];
    assert_verdict(check(&ours, ms(1000), Kind::Www, &[&answer(one, "alice", "secret")]), CHALLENGED);
    assert_ne!(nonce_of(KEY, b"a", 1), nonce_of(KEY, b"b", 1));
}

#[test]
fn an_old_nonce_is_stale_only_to_who_knows_the_password() {
    let p = proxy(KEY, 5_000_000_000);
    let one = &challenge(&p, ms(1000), Kind::Proxy, false)[1];
    let (good, bad) = (answer(one, "alice", "secret"), answer(one, "alice", "wrong"));
    assert_verdict(check(&p, ms(301_000), Kind::Proxy, &[&good]), GRANTED);
    assert_verdict(check(&p, ms(301_001), Kind::Proxy, &[&good]), STALE);
    assert_verdict(check(&p, ms(301_001), Kind::Proxy, &[&bad]), CHALLENGED);
    assert!(challenge(&p, ms(302_000), Kind::Proxy, true).iter().all(|c| c.contains("stale=true")));
}

#[test]
fn a_nonce_from_the_future_is_refused_but_for_a_difference_of_clocks() {
    let (ahead, behind) = (proxy(KEY, 20_000_000_000), proxy(KEY, 15_000_000_000));
    let one = &challenge(&ahead, ms(1000), Kind::Www, false)[0];
    let good = answer(one, "alice", "secret");
    assert_verdict(check(&behind, ms(1000), Kind::Www, &[&good]), GRANTED);
    assert_verdict(check(&behind, ms(999), Kind::Www, &[&good]), CHALLENGED);
}

#[test]
fn every_character_of_a_nonce_counts() {
    let p = proxy(KEY, 1_000_000_000_000_000_000);
    let made = p.nonce(ms(1000));
    assert_eq!(p.nonce_age(ms(2500), &made), Some(Duration::from_millis(1500)));
    for at in 0..NONCE_LEN {
        let mut other = made;
        other[at] = if other[at] == b'0' { b'1' } else { b'0' };
        assert_eq!(p.nonce_age(ms(2500), &other), None, "character {at}");
    }
    let upper = made.to_ascii_uppercase();
    for other in
        [&b""[..], &made[..NONCE_LEN - 1], &[&made[..], b"0"].concat(), b"+00000000000", b"\xff\xff", &upper]
    {
        assert_eq!(p.nonce_age(ms(2500), other), None, "{other:?}");
    }
}

#[test]
fn users_that_do_not_exist_look_like_wrong_passwords() {
    let p = proxy(KEY, 0);
    let one = &challenge(&p, ms(1000), Kind::Www, false)[0];
    assert_verdict(check(&p, ms(1000), Kind::Www, &[&answer(one, "bob", "secret")]), CHALLENGED);
    assert_verdict(check(&p, ms(900_000), Kind::Www, &[&answer(one, "bob", "secret")]), CHALLENGED);
    // Not even who proves to know what stands in for the missing hash.
    let challenge = Challenge::parse(one.as_bytes()).unwrap();
    let mut buf = [0; 1024];
    let mut w = Writer::new(&mut buf);
    challenge.write_credentials(&mut w, b"bob", &NOBODY, b"REGISTER", b"sip:example.com", 1, 42);
    let len = w.finish().unwrap();
    let forged = std::str::from_utf8(&buf[..len]).unwrap();
    assert_verdict(check(&p, ms(1000), Kind::Www, &[forged]), CHALLENGED);
}

#[test]
fn only_credentials_for_the_own_realm_count() {
    let p = proxy(KEY, 0);
    let one = &challenge(&p, ms(1000), Kind::Www, false)[0];
    let good = answer(one, "alice", "secret");
    let elsewhere = good.replace("realm=\"example.com\"", "realm=\"example.org\"");
    assert_verdict(check(&p, ms(1000), Kind::Www, &[]), CHALLENGED);
    assert_verdict(check(&p, ms(1000), Kind::Www, &[&elsewhere]), CHALLENGED);
    assert_verdict(
        check(&p, ms(1000), Kind::Www, &[&elsewhere, "Basic YTpi", &elsewhere, &elsewhere, &good]),
        GRANTED,
    );
    assert_verdict(check(&p, ms(1000), Kind::Proxy, &[]), CHALLENGED);
}

#[test]
fn of_several_credentials_the_good_one_counts_up_to_a_limit() {
    let p = proxy(KEY, 0);
    let both = challenge(&p, ms(1000), Kind::Proxy, false);
    let (bad, good) = (answer(&both[0], "alice", "wrong"), answer(&both[1], "alice", "secret"));
    assert_verdict(check(&p, ms(1000), Kind::Proxy, &[&bad, &good]), GRANTED);
    assert_verdict(check(&p, ms(1000), Kind::Proxy, &[&bad, &bad, &bad, &good]), CHALLENGED);
    assert_verdict(check(&p, ms(400_000), Kind::Proxy, &[&bad, &good, &bad]), STALE);
}

/// RFC 4475 section 3.3.7 (regaut01) has a scheme that nobody knows; `-sess` algorithms are not offered.
#[test]
fn unknown_schemes_and_algorithms_are_challenged() {
    let p = proxy(KEY, 0);
    let one = &challenge(&p, ms(1000), Kind::Www, false)[1];
    let good = answer(one, "alice", "secret");
    assert_verdict(check(&p, ms(1000), Kind::Www, &["NoOneKnowsThisScheme opaque-data=here"]), CHALLENGED);
    for algorithm in ["MD5-sess", "SHA-256-sess", "SHA-512-256", "\"\""] {
        let other = good.replace("algorithm=MD5", &format!("algorithm={algorithm}"));
        assert_ne!(other, good);
        assert_verdict(check(&p, ms(1000), Kind::Www, &[&other]), CHALLENGED);
    }
    assert_verdict(check(&p, ms(1000), Kind::Www, &[&good]), GRANTED);
}

#[test]
fn credentials_are_for_one_method() {
    let p = proxy(KEY, 0);
    let one = &challenge(&p, ms(1000), Kind::Www, false)[0];
    let text = format!(
        "INVITE sip:b@example.com SIP/2.0\r\nAuthorization: {}\r\n\r\n",
        answer(one, "alice", "secret")
    );
    let message = Message::parse(text.as_bytes()).unwrap();
    assert_eq!(p.check(ms(1000), &message, Method::Invite, Kind::Www), Verdict::Challenge);
    assert_eq!(p.check(ms(1000), &message, Method::Register, Kind::Www), Verdict::Granted(b"alice"));
}

#[test]
fn the_key_is_not_printed() {
    let config = Config { key: HashSeed(0xabcd, 0xef01), ..proxy(KEY, 0).config };
    let text = format!("{config:?}");
    assert!(!text.contains(&0xabcd.to_string()) && !text.contains("key"), "{text}");
}
