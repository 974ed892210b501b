//! Mutates the torture messages and holds the results to the same oracle as the fuzz target (`fuzz/`), with nothing
//! but stable Rust. `BUSYHOUR_FUZZ_SECONDS` makes it run longer than its fixed number of rounds, with another seed each
//! time; `BUSYHOUR_FUZZ_SEED` replays one.

#![allow(clippy::print_stdout, reason = "a random test prints its seed")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test may read files and run for a given time"
)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds of a run without `BUSYHOUR_FUZZ_SECONDS`: a few seconds unoptimised.
const ROUNDS: u64 = 20_000;
const SEED: u64 = 0x4475_5118;

/// What breaks parsers, to be put in anywhere.
const PIECES: [&[u8]; 40] = [
    b"\r\n",
    b"\r\n ",
    b"\r\n\t\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b",",
    b",,",
    b";",
    b";;",
    b":",
    b"=",
    b"\"",
    b"\\",
    b"\\\"",
    b"<",
    b">",
    b"<>",
    b"@",
    b"?",
    b"%",
    b"%00",
    b"[",
    b"]",
    b"[::1]",
    b"*",
    b"/",
    b"\xc3\xa9",
    b"\xff",
    b";received=",
    b";rport",
    b"65536",
    b"4294967296",
    b"18446744073709551616",
    b"\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx",
    b"\r\nRoute: <sip:h;lr>,<sip:i>",
    b"\r\nContent-Length: 1",
    b"\r\n\r\n",
];

/// SplitMix64 (Steele, Lea, Flood 2014): tests need no better.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let torture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture");
    let mut files: Vec<_> = ["rfc4475", "rfc5118"]
        .iter()
        .flat_map(|rfc| torture.join(rfc).read_dir().expect("the corpus").map(|e| e.expect("a file").path()))
        .collect();
    files.sort();
    assert_eq!(files.len(), 62);
    files.iter().map(|f| std::fs::read(f).expect("readable")).collect()
}

fn mutate(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[rng.below(corpus.len())].clone();
    for _ in 0..rng.below(6) {
        let (at, other) = (rng.below(bytes.len() + 1), &corpus[rng.below(corpus.len())]);
        match rng.below(7) {
            0 if at < bytes.len() => bytes[at] = rng.next() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            2 => drop(bytes.drain(at..(at + 1 + rng.below(40)).min(bytes.len()).max(at))),
            3 => {
                let from = rng.below(other.len());
                let piece = &other[from..(from + 1 + rng.below(120)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            4 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, PIECES[rng.below(PIECES.len())].iter().copied())),
        }
    }
    bytes
}

fn round(seed: u64, corpus: &[Vec<u8>]) {
    let mut rng = Rng(seed);
    let bytes = mutate(&mut rng, corpus);
    let script: Vec<u8> = (0..rng.below(12)).map(|_| rng.next() as u8).collect();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| common::exercise(&bytes, &script))) {
        println!("BUSYHOUR_FUZZ_SEED={seed} script {script:?} message {:?}", String::from_utf8_lossy(&bytes));
        resume_unwind(panic);
    }
}

#[test]
fn mutated_torture_messages_do_no_harm() {
    let corpus = corpus();
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().expect(name));
    if let Some(seed) = number("BUSYHOUR_FUZZ_SEED") {
        return round(seed, &corpus);
    }
    let mut seeds = Rng(SEED);
    (0..ROUNDS).for_each(|_| round(seeds.next(), &corpus));
    if let Some(seconds) = number("BUSYHOUR_FUZZ_SECONDS") {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let first = since_epoch.expect("a clock past 1970").as_nanos() as u64;
        println!("first seed {first}");
        let (mut seeds, end, mut rounds) = (Rng(first), Instant::now() + Duration::from_secs(seconds), 0u64);
        while Instant::now() < end {
            round(seeds.next(), &corpus);
            rounds += 1;
        }
        println!("{rounds} more rounds");
    }
}

/// The longest messages there are, each hard on one loop: one that went over its input again for every element would
/// take minutes here.
#[test]
fn the_longest_messages_do_no_harm() {
    let head = "REGISTER sip:h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\r\nFrom: <sip:a@h>;tag=1\r\nTo: <sip:a@h>\r\n\
        Call-ID: x\r\nCSeq: 1 REGISTER\r\n";
    let pieces = [
        ("Route: ", ","),
        ("Route: ", ",a"),
        ("Via: ", ",SIP/2.0/UDP h"),
        ("Contact: ", "<,"),
        ("Contact: ", "\"\\,"),
        ("Contact: <sip:a@h>", ";a"),
        ("Contact: <sip:a@h", ";a=b"),
        ("Contact: <sip:a@h?", "a=b&"),
        ("Subject:", "\r\n "),
        ("Path: ", "<a>,\r\n\t"),
        ("Authorization: Digest ", "a=b,"),
        ("X", "X"),
        ("\r\n", "\r\n"),
        ("Via: SIP/2.0/UDP h;", ";"),
        ("Via: SIP/2.0/UDP h;a=\"", "\\\""),
        ("Content-Length: ", "9"),
        ("To: ", "%4"),
        ("Route: <sip:", "@"),
    ];
    for (start, piece) in pieces {
        let room = busyhour_sip::MESSAGE_BYTES_MAX - head.len() - start.len() - 4;
        let text = format!("{head}{start}{}\r\n\r\n", piece.repeat(room / piece.len()));
        common::exercise(text.as_bytes(), &[7, 1, 3, 4, 4, 3, 0, 2, 5, 6, 9, 11]);
        // And with the same at the place where it is looked at first.
        let first = format!("INVITE sip:h SIP/2.0\r\n{start}{}\r\n\r\n", piece.repeat(room / piece.len()));
        common::exercise(first.as_bytes(), &[1, 3, 4]);
    }
    let longest = format!("{head}\r\n{}", "x".repeat(busyhour_sip::MESSAGE_BYTES_MAX - head.len() - 2));
    assert_eq!(longest.len(), busyhour_sip::MESSAGE_BYTES_MAX);
    common::exercise(longest.as_bytes(), &[1]);
    assert_eq!(
        busyhour_sip::Message::parse(&[longest.as_bytes(), b"x"].concat()).unwrap_err(),
        busyhour_sip::ParseError::TooLarge
    );
}
