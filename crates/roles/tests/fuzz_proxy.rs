//! Random scripts against the proxy, with nothing but stable Rust; the fuzz target `proxy` runs the same driver.
//! `BUSYHOUR_FUZZ_SECONDS` makes it run longer than its fixed number of scripts, with another seed each time;
//! `BUSYHOUR_FUZZ_SEED` replays one.

#![allow(clippy::print_stdout, reason = "a random test prints its seed")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may run for a given time")]

mod proxy_rig;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use busyhour_engine::Rng;

/// Scripts of a run without `BUSYHOUR_FUZZ_SECONDS`: a few seconds.
const SCRIPTS: u64 = 3_000;
const SEED: u64 = 0x3261_6026;
const SCRIPT_BYTES_MAX: u64 = 700;

fn round(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let script: Vec<u8> = (0..rng.below(SCRIPT_BYTES_MAX)).map(|_| rng.next_u64() as u8).collect();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| proxy_rig::fuzz::exercise(&script))) {
        println!("BUSYHOUR_FUZZ_SEED={seed} script {script:?}");
        resume_unwind(panic);
    }
}

#[test]
fn nothing_that_comes_harms_the_proxy() {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().expect(name));
    if let Some(seed) = number("BUSYHOUR_FUZZ_SEED") {
        return round(seed);
    }
    let mut seeds = Rng::from_seed(SEED);
    (0..SCRIPTS).for_each(|_| round(seeds.next_u64()));
    if let Some(seconds) = number("BUSYHOUR_FUZZ_SECONDS") {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let first = since_epoch.expect("a clock past 1970").as_nanos() as u64;
        println!("first seed {first}");
        let (mut seeds, end, mut rounds) =
            (Rng::from_seed(first), Instant::now() + Duration::from_secs(seconds), 0u64);
        while Instant::now() < end {
            round(seeds.next_u64());
            rounds += 1;
        }
        println!("{rounds} more scripts");
    }
}

/// The longest messages, each hard on one loop or on a reckoning of room.
#[test]
fn the_longest_messages_do_no_harm() {
    let head = |method: &str| {
        format!(
            "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bKa\r\n\
             From: <sip:a@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: x\r\nCSeq: 1 {method}\r\n"
        )
    };
    for method in ["INVITE", "OPTIONS", "REGISTER", "MESSAGE"] {
        for (start, piece) in [
            ("Route: ", "<sip:192.0.2.10;lr>,"),
            ("Route: ", ",a"),
            ("Via: ", "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK0123456789abcdef.0123456789abcdef,"),
            ("Contact: ", "<sip:a@203.0.113.9>,"),
            ("Proxy-Require: ", "a,"),
            ("Require: ", "a,"),
            ("Path: ", "<sip:203.0.113.9;lr>,"),
            ("Proxy-Authorization: Digest ", "a=b,"),
            ("Max-Breadth: ", "9"),
            ("X: ", "x"),
            ("\r\n", "body"),
        ] {
            for room in [60_000, busyhour_sip::MESSAGE_BYTES_MAX] {
                let head = head(method);
                let times = (room - head.len() - start.len() - 5) / piece.len();
                let text = format!("{head}{start}{}\r\n\r\n", piece.repeat(times));
                let mut rig = proxy_rig::Rig::new(proxy_rig::proxy(&[("sip:bob@203.0.113.9", 1000)], 10));
                rig.receive(proxy_rig::addr(proxy_rig::UAC), text.as_bytes());
                rig.wait(Duration::from_secs(1200));
                assert_eq!(rig.proxy.stats().live, (0, 0));
            }
        }
    }
}
