//! Drives a proxy with a script of any bytes: datagrams, broken or nearly right, answers to what it sent, and time.

use std::time::Duration;

use super::{LB, PHONE, Rig, UAC, addr, proxy};

const PIECES: [&[u8]; 32] = [
    b"\r\n",
    b"\r\n ",
    b"\0",
    b",",
    b";",
    b"\"",
    b"<",
    b">",
    b"@",
    b"%4",
    b"[::1]",
    b"*",
    b"\xff",
    b";rport",
    b";received=1.2.3.4",
    b";maddr=192.0.2.10",
    b";lr",
    b";next=\"192.0.2.11:5060\"",
    b";passed",
    b"\r\nRoute: <sip:192.0.2.10;lr>",
    b"\r\nRoute: <sip:203.0.113.9>,<sip:203.0.113.9;lr>",
    b"\r\nRecord-Route: <sip:a>",
    b"\r\nMax-Breadth: 1",
    b"\r\nMax-Forwards: 0",
    b"\r\nProxy-Require: a",
    b"\r\nVia: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK0123456789abcdef.0123456789abcdef",
    b"\r\nContent-Length: 3",
    b"\r\n\r\n",
    b";tag=x",
    b";transport=tcp",
    b"65536",
    b"\r\nProxy-Authorization: Digest a=b",
];

const WAITS_MS: [u64; 8] = [1, 100, 200, 501, 4_000, 10_000, 32_000, 181_000];

const METHODS: [&str; 12] = [
    "INVITE",
    "INVITE",
    "INVITE",
    "ACK",
    "CANCEL",
    "BYE",
    "MESSAGE",
    "OPTIONS",
    "REGISTER",
    "SUBSCRIBE",
    "FOO",
    "PUBLISH",
];

const URIS: [&str; 10] = [
    "sip:bob@example.com",
    "sip:bob@example.com",
    "sip:bob@192.0.2.10",
    "sip:example.com",
    "sip:192.0.2.10:5060;lr",
    "sip:nobody@example.com",
    "sip:x@203.0.113.9",
    "sip:x@192.0.2.10:5060",
    "sip:x@host.invalid;maddr=203.0.113.9",
    "sip:bob@example.com;maddr=192.0.2.10",
];

const STATUSES: [u16; 12] = [100, 180, 183, 200, 202, 302, 401, 407, 408, 486, 503, 603];

/// The script, byte by byte; zeros when it has ended.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }
}

/// Runs one script against a fresh proxy. Afterwards, when everything has had time to end, nothing may be left.
///
/// # Panics
/// When the proxy does, spins, sends without end, or keeps anything.
pub fn exercise(script: &[u8]) {
    let transactions_max = if script.first().is_some_and(|b| b & 1 == 1) { 3 } else { 1000 };
    let bindings =
        [("sip:bob@203.0.113.9", 1000), ("sip:bob@203.0.113.8", 1000), ("sip:bob@192.0.2.10", 500)];
    let bound = script.first().map_or(3, |b| usize::from(b >> 1) % 4);
    let mut rig = Rig::new(proxy(&bindings[..bound], transactions_max));
    let mut script = Script(script.get(1..).unwrap_or(b""));
    let mut inputs = 0;
    while !script.0.is_empty() && inputs < 200 {
        inputs += 1;
        step(&mut rig, &mut script);
    }
    rig.wait(Duration::from_secs(1200));
    let stats = rig.proxy.stats();
    assert_eq!((stats.live, stats.open, stats.live_by_epoch.len()), ((0, 0), 0, 0), "something is left");
    // Of a message and its timers come at most: 3 branches, 11 copies each way, CANCELs, ACKs; a loop once more of all.
    assert!(rig.out.sent <= 200 * (inputs + 1), "{} messages for {inputs} inputs", rig.out.sent);
}

fn step(rig: &mut Rig, script: &mut Script<'_>) {
    let from = addr(script.pick(&[UAC, LB, PHONE, "203.0.113.8:5060", super::PROXY]));
    match script.byte() % 8 {
        0 => rig.wait(Duration::from_millis(script.pick(&WAITS_MS))),
        1 => {
            let len = usize::from(script.byte()).min(script.0.len());
            let (bytes, rest) = script.0.split_at(len);
            script.0 = rest;
            rig.receive(from, bytes);
        }
        2 | 3 => {
            let bytes = mutated(request(script), script);
            rig.receive(from, &bytes);
        }
        4 => {
            // What it sent comes back, from whom it went to or from anybody.
            let bytes = mutated(rig.out.text().to_vec(), script);
            let back = if script.byte() & 1 == 0 { rig.out.to } else { from };
            rig.receive(back, &bytes);
        }
        _ => {
            let status = script.pick(&STATUSES);
            let bytes = mutated(response(rig.out.text(), status), script);
            let to = rig.out.to;
            rig.receive(to, &bytes);
        }
    }
}

fn request(script: &mut Script<'_>) -> Vec<u8> {
    let (method, uri, call, to_tag) =
        (script.pick(&METHODS), script.pick(&URIS), script.byte() % 4, script.byte());
    let to_tag = if to_tag % 4 == 0 { ";tag=t" } else { "" };
    let contact = if method == "REGISTER" { "Contact: <sip:bob@203.0.113.7>;expires=60\r\n" } else { "" };
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK{call}\r\nMax-Forwards: 5\r\n\
         From: <sip:alice@example.com>;tag=f\r\nTo: <sip:bob@example.com>{to_tag}\r\nCall-ID: call-{call}\r\n\
         CSeq: 1 {method}\r\n{contact}Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// What a user agent answers to a request; anything else becomes nothing sensible.
fn response(request: &[u8], status: u16) -> Vec<u8> {
    let line_end = request.iter().position(|&b| b == b'\n').map_or(request.len(), |i| i + 1);
    let mut bytes = format!("SIP/2.0 {status} X\r\n").into_bytes();
    bytes.extend_from_slice(&request[line_end..]);
    bytes
}

fn mutated(mut bytes: Vec<u8>, script: &mut Script<'_>) -> Vec<u8> {
    // Most messages are left alone, so that scripts get somewhere.
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 4][usize::from(script.byte() % 8)] {
        let at = (usize::from(script.byte()) << 3 | usize::from(script.byte() & 7)) % (bytes.len() + 1);
        match script.byte() % 6 {
            0 if at < bytes.len() => bytes[at] = script.byte(),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..(at + 1 + usize::from(script.byte() % 32)).min(bytes.len()).max(at))),
            // Before a line end, where parameters and headers go.
            3 | 4 => {
                let at = bytes[at..].windows(2).position(|two| two == b"\r\n").map_or(at, |end| at + end);
                let piece = PIECES[usize::from(script.byte()) % PIECES.len()];
                drop(bytes.splice(at..at, piece.iter().copied()));
            }
            _ => {
                let piece = PIECES[usize::from(script.byte()) % PIECES.len()];
                drop(bytes.splice(at..at, piece.iter().copied()));
            }
        }
    }
    bytes
}
