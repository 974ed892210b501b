//! The torture messages of RFC 4475 and RFC 5118 on the wire, and worse, while calls go on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::calls::Exchange;
use crate::place::{address, socket};
use crate::tool::needs;
use crate::up::Up;
use crate::wire::{Heard, PATIENCE, Phone};

/// What a cluster that serves example.com and example.net, challenges INVITEs and has no DNS, does with a message.
enum Fate {
    /// A final response with this status.
    Answered(u16),
    /// No response: a response that belongs to nothing, or a request that cannot be answered.
    Dropped,
    /// Forwarded, to where nobody is: no response within Timer F (RFC 4320).
    Forwarded,
}
use Fate::{Answered, Dropped, Forwarded};

/// Every message: the port that its topmost Via names, and its fate. 407 and 404 mean that a message was accepted: the
/// caller is not known, or the user of our domain is not; 500 that it goes to a host whose name cannot be looked up.
const RFC_4475: [(&str, u16, Fate); 49] = [
    // Section 3.1.1, valid messages.
    ("wsinv", 5060, Answered(407)),
    ("intmeth", 5060, Answered(404)),
    ("esc01", 5060, Answered(407)),
    ("escnull", 5060, Answered(200)),
    ("esc02", 5060, Answered(500)),
    ("lwsdisp", 5060, Answered(404)),
    ("longreq", 5060, Answered(407)),
    ("dblreq", 5060, Answered(200)),
    ("semiuri", 5060, Answered(404)),
    ("transports", 5060, Answered(404)),
    ("mpart01", 5070, Forwarded),
    ("unreason", 5060, Dropped),
    ("noreason", 5060, Dropped),
    // Section 3.1.2, invalid messages.
    ("badinv01", 5060, Answered(400)),
    ("clerr", 5060, Answered(400)),
    ("ncl", 5060, Answered(400)),
    ("scalar02", 5060, Answered(400)),
    ("scalarlg", 5060, Dropped),
    ("quotbal", 5050, Answered(400)),
    ("ltgtruri", 5060, Answered(400)),
    ("lwsruri", 5060, Answered(400)),
    ("lwsstart", 5060, Answered(400)),
    ("trws", 5060, Answered(400)),
    ("escruri", 5060, Answered(400)),
    ("baddate", 5060, Answered(407)),
    ("regbadct", 5060, Answered(400)),
    ("badaspec", 5060, Answered(400)),
    ("baddn", 5060, Answered(400)),
    ("badvers", 5060, Answered(505)),
    ("mismatch01", 5060, Answered(400)),
    ("mismatch02", 5060, Answered(501)),
    ("bigcode", 5060, Dropped),
    // Section 3.2, transaction layer.
    ("badbranch", 5060, Answered(404)),
    // Section 3.3, application layer.
    ("insuf", 5060, Answered(400)),
    ("unkscm", 5060, Answered(416)),
    ("novelsc", 5060, Answered(416)),
    ("unksm2", 5060, Answered(400)),
    ("bext01", 5061, Answered(420)),
    ("invut", 5060, Answered(407)),
    ("regaut01", 5060, Answered(200)),
    ("multi01", 5060, Answered(400)),
    ("mcl01", 5060, Answered(400)),
    ("bcast", 5060, Dropped),
    ("zeromf", 5060, Answered(483)),
    ("cparam01", 5060, Answered(200)),
    ("cparam02", 5060, Answered(200)),
    ("regescrt", 5060, Answered(200)),
    ("sdp01", 5060, Answered(407)),
    // Section 3.4, backward compatibility.
    ("inv2543", 5060, Answered(407)),
];

const RFC_5118: [(&str, u16, Fate); 12] = [
    ("ipv6-good", 5060, Answered(500)),
    ("ipv6-bad", 5060, Answered(400)),
    ("port-ambiguous", 5060, Answered(500)),
    ("port-unambiguous", 5060, Answered(500)),
    ("via-received-param-with-delim", 5060, Answered(500)),
    ("via-received-param-no-delim", 5060, Answered(500)),
    ("ipv6-in-sdp", 5060, Answered(400)),
    ("mult-ip-in-sdp", 5060, Answered(407)),
    ("mult-ip-in-header", 6050, Answered(500)),
    ("ipv4-mapped-ipv6", 19823, Answered(407)),
    ("ipv6-bug-abnf-3-colons", 5060, Answered(500)),
    ("ipv6-correct-abnf-2-colons", 5060, Answered(500)),
];

fn message(rfc: &str, name: &str) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sip/tests/torture").join(rfc).join(name);
    std::fs::read(file.with_extension("dat")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The bytes of every message.
fn all_messages() -> Vec<Vec<u8>> {
    let named = |rfc: &'static str| move |(name, ..): &(&str, u16, Fate)| message(rfc, name);
    let mut all: Vec<_> = RFC_4475.iter().map(named("rfc4475")).collect();
    all.extend(RFC_5118.iter().map(named("rfc5118")));
    // Not of the RFC's table: it came with the others, and breaks off in its first line.
    all.push(message("rfc4475", "test"));
    all
}

/// A cluster that serves the domains of the messages besides its own, with registered callees.
fn exchange() -> Exchange {
    Exchange::start(&[
        "--domain",
        "example.com",
        "--domain",
        "example.net",
        "--set",
        "proxy.authenticate=INVITE",
    ])
}

/// Senders at one address with a socket for each port that a Via names: that is where answers go.
struct Senders(BTreeMap<u16, Phone>);

impl Senders {
    fn new() -> Self {
        let ip = address();
        let ports: BTreeSet<u16> = RFC_4475.iter().chain(&RFC_5118).map(|(_, port, _)| *port).collect();
        Senders(ports.into_iter().map(|port| (port, Phone::at(SocketAddr::new(ip, port)))).collect())
    }

    /// Sends a message and returns the final response to it; `None` when none comes for a while.
    fn outcome(&self, to: SocketAddr, port: u16, bytes: &[u8], patience: Duration) -> Option<Heard> {
        let phone = &self.0[&port];
        // What is late belongs to the message before.
        while phone.hear(Duration::from_millis(1)).is_some() {}
        phone.send(to, bytes);
        let until = Instant::now() + patience;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Some(heard) = phone.hear(left).filter(|h| h.status() > Some(199)) {
                return Some(heard);
            }
        }
        None
    }
}

/// Sends every message of a table and lists those whose fate is another than the table says.
fn surprises(senders: &Senders, to: SocketAddr, rfc: &str, table: &[(&str, u16, Fate)]) -> Vec<String> {
    let mut surprises = Vec::new();
    for (name, port, fate) in table {
        let patience = if matches!(fate, Answered(_)) { PATIENCE } else { Duration::from_millis(200) };
        let heard = senders.outcome(to, *port, &message(rfc, name), patience);
        let as_stated = match fate {
            Answered(status) => heard.as_ref().and_then(Heard::status) == Some(*status),
            Dropped | Forwarded => heard.is_none(),
        };
        if !as_stated {
            surprises.push(format!("{name}: {:?}", heard.as_ref().map(Heard::first_line)));
        }
        if let ("bext01", Some(heard)) = (*name, &heard) {
            assert_eq!(
                heard.headers("Unsupported").join(", "),
                "noProxiesSupportThis, norDoAnyProxiesSupportThis"
            );
        }
        if let ("escnull", Some(heard)) = (*name, &heard) {
            assert_eq!(heard.headers("Contact").len(), 2, "escaped NULs are distinct: {}", heard.0);
        }
    }
    surprises
}

#[test]
fn torture_messages_meet_their_fate_while_calls_go_on() {
    needs!("sipp" of "sip-tester");
    let x = exchange();
    let callee = x.watchful("answer").with("RING", "100").calls(100).start();
    let caller = x.caller("call").with("HOLD", "100").calls(100).rate(20).start();
    let senders = Senders::new();
    let mut wrong = surprises(&senders, x.up.balancer, "rfc4475", &RFC_4475);
    wrong.extend(surprises(&senders, x.up.balancer, "rfc5118", &RFC_5118));
    assert_eq!(
        senders.outcome(x.up.balancer, 5060, &message("rfc4475", "test"), PATIENCE / 50).map(|h| h.0),
        None
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A proxy that is asked directly crashes no more than one behind a balancer.
    for bytes in all_messages() {
        senders.0[&5060].send(x.up.proxy(1), bytes);
    }
    caller.finish();
    callee.finish();
    x.stop();
}

#[test]
fn an_unacceptable_authorization_scheme_is_challenged() {
    let up = Up::start(&["--domain", "example.com"]);
    let senders = Senders::new();
    let heard =
        senders.outcome(up.balancer, 5060, &message("rfc4475", "regaut01"), PATIENCE).expect("a response");
    assert_eq!((heard.status(), heard.headers("WWW-Authenticate").len()), (Some(401), 2), "{}", heard.0);
    up.stop();
}

/// RFC 4475 section 3.1.1.13: header parts of a Contact URI are never carried over into a Request-URI.
#[test]
fn header_parts_of_a_contact_are_kept_to_the_registrar() {
    let up = Up::start(&["--set", "proxy.authenticate="]);
    let (caller, callee) = (Phone::at(socket(5060)), Phone::at(socket(5060)));
    let contact = format!("<sip:u@{}?Route=%3Csip:sip.example.com%3E>", callee.address);
    let stored =
        callee.ask(up.balancer, &callee.register("u", "parts", 1, &format!("Contact: {contact}\r\n")));
    assert!(stored.header("Contact").is_some_and(|c| c.starts_with(&contact)), "{}", stored.0);
    caller.send(up.balancer, caller.request("MESSAGE", "sip:u@test.example", "to-parts", 1, ""));
    let heard = callee.hear_that("MESSAGE", |h| h.method() == Some("MESSAGE"));
    assert_eq!(heard.first_line(), format!("MESSAGE sip:u@{} SIP/2.0", callee.address));
    assert!(!heard.0.contains("sip.example.com"), "{}", heard.0);
    callee.reply(up.balancer, &heard, 200, "");
    caller.hear_that("200", |h| h.status() == Some(200));
    up.stop();
}

/// Numbers that look random and are the same every time (xorshift64*, Vigna 2016).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// The most that an IPv4 datagram can carry.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Datagrams that no user agent sends.
fn rubbish(noise: &mut Noise, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = messages[noise.below(messages.len())].clone();
    match noise.below(8) {
        0 => {
            let len = noise.below(2000);
            noise.bytes(len)
        }
        1 => noise.bytes(DATAGRAM_BYTES_MAX),
        2 | 3 => {
            bytes.truncate(noise.below(bytes.len()));
            bytes
        }
        4 | 5 => {
            for _ in 0..=noise.below(8) {
                let at = noise.below(bytes.len());
                bytes[at] = noise.next() as u8;
            }
            bytes
        }
        6 => {
            // A message that is right but for its size.
            let at = bytes.windows(2).position(|w| w == b"\r\n").map_or(0, |at| at + 2);
            let filler = format!("X: {}\r\n", "x".repeat(DATAGRAM_BYTES_MAX - bytes.len() - 5));
            bytes.splice(at..at, filler.into_bytes());
            bytes
        }
        _ => b"Via: SIP/2.0/UDP h\r\n".repeat(noise.below(DATAGRAM_BYTES_MAX / 20)),
    }
}

#[test]
fn noise_harms_no_call() {
    needs!("sipp" of "sip-tester");
    let x = exchange();
    let callee = x.watchful("answer").with("RING", "100").calls(100).start();
    let caller = x.caller("call").with("HOLD", "100").calls(100).rate(20).start();
    let (phone, messages, mut noise) = (Phone::at(socket(5060)), all_messages(), Noise(4475));
    for round in 0..3000 {
        let to = [x.up.balancer, x.up.proxy(1), x.up.proxy(2)][round % 3];
        phone.send(to, rubbish(&mut noise, &messages));
        // Two thousand in a second: more than callers send, less than would fill the socket's buffer.
        std::thread::sleep(Duration::from_micros(500));
    }
    caller.finish();
    callee.finish();
    let stdout = x.up.server.finish();
    assert!(stdout.contains("dropped: "), "what was dropped is told: {stdout}");
}
