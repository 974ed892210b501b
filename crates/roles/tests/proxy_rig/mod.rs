//! A proxy for tests from outside the crate: Bob at two phones, no authentication but for PUBLISH, a trusted balancer.
#![allow(dead_code, unreachable_pub, reason = "each user of the rig uses a part of it")]

pub mod fuzz;

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Flow, Full, HashSeed, Input, Instant, Message, Node, Sink, pump};
use busyhour_roles::auth::{self, Authenticator, Subscribers};
use busyhour_roles::location::{Change, ContactChange, Limits, Location, Origin, Table};
use busyhour_roles::proxy::{Config, Domain, Proxy};
use busyhour_roles::registrar::{self, Registrar};
use busyhour_roles::transactions;
use busyhour_sip::transaction::Timers;
use busyhour_sip::value::Ha1;

pub const PROXY: &str = "192.0.2.10:5060";
pub const LB: &str = "192.0.2.1:5060";
pub const UAC: &str = "198.51.100.7:5062";
pub const PHONE: &str = "203.0.113.9:5060";

pub fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

struct Alice;

impl Subscribers for Alice {
    fn ha1(&self, username: &[u8]) -> Option<Ha1> {
        (username == b"alice").then(|| Ha1::of("alice", "example.com", "secret"))
    }
}

/// Keeps the last message that was sent, and counts. Nothing is allocated once the buffers are there.
pub struct Last {
    pub bytes: Vec<u8>,
    pub len: usize,
    pub to: SocketAddr,
    pub sent: u64,
}

impl Default for Last {
    fn default() -> Self {
        Last { bytes: vec![0; busyhour_sip::MESSAGE_BYTES_MAX], len: 0, to: addr(PROXY), sent: 0 }
    }
}

impl Last {
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Sink for Last {
    fn send(&mut self, to: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full> {
        // No driver can send more than a datagram holds.
        let room = self.bytes.get_mut(..len_max).ok_or(Full)?;
        let len = fill(room);
        assert!(len <= len_max && len > 0, "{len} of {len_max} bytes");
        (self.len, self.to) = (len, to.peer);
        self.sent += 1;
        Ok(())
    }
}

pub fn proxy(bindings: &[(&str, u16)], transactions_max: usize) -> Proxy {
    let mut table = Table::new(Limits::default(), HashSeed(3, 4));
    for (index, &(uri, q)) in bindings.iter().enumerate() {
        let origin = Origin { call_id: &[index as u8], cseq: 1, branch: 1, path: b"" };
        let contacts = [ContactChange { uri: uri.as_bytes(), q, expires_s: 3600 }];
        let change = Change::Contacts(&contacts);
        table.register(start(), b"bob@example.com", &origin, change, &mut |_| ()).expect("room in the table");
    }
    let key = HashSeed(1, 2);
    let auth = auth::Config {
        realm: "example.com".to_owned(),
        key,
        nonce_lifetime: Duration::from_secs(60),
        unix_offset_nanos: 0,
    };
    let config = Config {
        address: addr(PROXY),
        domains: vec![Domain::Name("example.com".to_owned())],
        record_route: true,
        authenticate: vec!["PUBLISH".to_owned()],
        next_hop: None,
        trusted: vec![addr(LB)],
        max_forwards: 70,
        max_breadth: 60,
        timer_c: Duration::from_secs(181),
        transactions: transactions::Config {
            timers: Timers::default(),
            servers_max: transactions_max,
            clients_max: transactions_max,
        },
    };
    let registrar = Registrar::new(registrar::Config::default(), HashSeed(5, 6));
    Proxy::new(config, Authenticator::new(auth, Box::new(Alice)), registrar, Box::new(table), key, 7)
}

pub fn start() -> Instant {
    Instant::from_nanos(1_000_000_000_000)
}

/// A proxy, the time, and what it sent last.
pub struct Rig {
    pub proxy: Proxy,
    pub now: Instant,
    pub out: Last,
}

impl Rig {
    pub fn new(proxy: Proxy) -> Self {
        Rig { proxy, now: start(), out: Last::default() }
    }

    pub fn receive(&mut self, peer: SocketAddr, bytes: &[u8]) {
        let flow = Flow { local: addr(PROXY), peer };
        pump(&mut self.proxy, self.now, Input::Message(Message { flow, bytes }), &mut self.out);
    }

    /// Time passes, timer by timer.
    ///
    /// # Panics
    /// When there are more timers than any number of transactions could have: it spins.
    pub fn wait(&mut self, d: Duration) {
        let end = self.now + d;
        for _ in 0..2_000_000 {
            match self.proxy.next_deadline() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    pump(&mut self.proxy, self.now, Input::Timeout, &mut self.out);
                }
                Some(_) | None => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("timers fire without end");
    }
}
