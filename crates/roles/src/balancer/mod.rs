//! The stateless load balancer: a proxy of RFC 3261 section 16.11 in front of the cluster's stateful proxies.
//!
//! A request without a route goes to the owner of its Call-ID: a weighted rendezvous choice under a key that all
//! balancers of the cluster share. A request inside a dialog follows its Route to the proxy that put itself there.
//! Responses follow their Via. Nothing is remembered between two messages, so balancers can share a port, be restarted
//! or be added, and what is retransmitted goes where it went before.
//!
//! **Across a membership change** a transaction must stay where it began. The [`Membership`] therefore carries the
//! epochs that came before it. When they place a Call-ID at different members, the request goes to the oldest of those
//! owners that still serve, and the balancer's own Via names the others in order, the present owner last:
//! `;next="192.0.2.2:5060,192.0.2.3:5060"`. A proxy that has the transaction keeps the request; another passes it on,
//! unchanged but for that parameter, to the next one; the last takes it. So only the calls whose owner moved make another
//! hop, and only while the earlier epoch is alive. While nobody is ready, the owners of earlier epochs that still serve get
//! even what is new: the balancer cannot tell it from what they have, and they can answer it.
//!
//! Invariants: one datagram in, at most one out, and none to the balancer itself; no allocation for a forwarded message;
//! every message is counted as forwarded, answered or dropped, with the reason.
//!
//! Trust: a datagram from the address of a member may go wherever its next hop points (UDP to numeric addresses); one
//! from elsewhere only ever goes to a member. The network has to keep others from using the members' addresses.
//!
//! Deliberately absent: DNS, streams, timers, transactions. What is wrong with a request and of no consequence for its
//! way is left to the proxy to answer, and so is Proxy-Require.

mod membership;
mod reply;
mod request;
mod response;
mod stats;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

use busyhour_engine::{Flow, HashSeed, Instant, Node, Sink};
use busyhour_sip::{Edits, Message, ParseError, StartLine, Writer};

pub use membership::{Change, EPOCHS_MAX, Epoch, Limits, Member, Membership, Refused, State};
pub use stats::{Answered, Counts, Drop, MemberStats, Stats};
use table::Table;

/// When the balancer puts itself into the Path of a REGISTER (RFC 3327), so that requests to the registered user agent
/// leave the cluster through it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PathPolicy {
    /// Never.
    Never,
    /// When the user agent says that it supports `path`, as RFC 3327 section 5.2 advises for foreign registrars.
    WhenSupported,
    /// Always. Right when the registrar behind accepts a Path without that (section 5.3 lets it): user agents behind a
    /// NAT are reached only the way they came, whether they know of Path or not.
    Always,
}

/// What a balancer is told at the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where others reach it: in its Via, Record-Route and Path. An IPv4 address means an IPv4 socket.
    pub address: SocketAddr,
    /// Whether it stays in the way of dialogs.
    pub record_route: bool,
    /// When it stays in the way to a registered user agent.
    pub path: PathPolicy,
    /// The Max-Forwards that a request without one gets (RFC 3261 section 16.6 step 3 says 70).
    pub max_forwards: u8,
    /// The secret that all balancers of the cluster share. It places the calls and names the branches: balancers that
    /// share it can stand in for each other.
    pub key: HashSeed,
    /// The least Retry-After of a 503, in seconds. Callers get up to twice as much, spread by Call-ID.
    pub retry_after_s: u32,
    /// How large a table of members it accepts.
    pub limits: Limits,
}

impl Config {
    /// A balancer that stays in the way, with the usual limits.
    pub fn new(address: SocketAddr, key: HashSeed) -> Self {
        Config {
            address,
            record_route: true,
            path: PathPolicy::Always,
            max_forwards: 70,
            key,
            retry_after_s: 2,
            limits: Limits::default(),
        }
    }
}

/// What a balancer is ordered to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Use this table from now on. Answered with [`Event::Table`].
    Members(Membership),
    /// Tell what was counted. Answered with [`Event::Report`].
    Report,
}

/// What a balancer tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// What became of a table.
    Table {
        /// The version that was sent.
        version: u64,
        /// Whether it is in force. A table that is refused changes nothing.
        outcome: Result<(), Refused>,
    },
    /// The counters.
    Report(Box<Stats>),
}

/// The balancer: see the module.
pub struct Balancer {
    config: Config,
    seeds: Seeds,
    texts: Texts,
    table: Table,
    counts: Counts,
    events: VecDeque<Event>,
}

/// One seed for each use of the cluster's key, so that what is public of one says nothing about another.
struct Seeds {
    owner: HashSeed,
    branch: HashSeed,
    tag: HashSeed,
}

impl Seeds {
    fn new(key: HashSeed) -> Self {
        let seed = |use_: &[u8]| HashSeed(key.hash(&[use_, b"0"]), key.hash(&[use_, b"1"]));
        Seeds { owner: seed(b"owner"), branch: seed(b"branch"), tag: seed(b"tag") }
    }
}

/// What the balancer writes into messages, made once.
struct Texts {
    /// `SIP/2.0/UDP host:port;branch=z9hG4bK`: the start of its Via.
    via: Vec<u8>,
    /// `sip:host:port;lr`: its Record-Route URI.
    uri: Vec<u8>,
    /// The same in angle brackets: its Record-Route and Path.
    route: Vec<u8>,
}

impl Texts {
    fn new(address: SocketAddr) -> Self {
        let address = address_text(address);
        Texts {
            via: [b"SIP/2.0/UDP ", &address[..], b";branch=z9hG4bK"].concat(),
            uri: [b"sip:", &address[..], b";lr"].concat(),
            route: [b"<sip:", &address[..], b";lr>"].concat(),
        }
    }
}

/// What happens to a message that is not forwarded.
enum Refusal {
    Drop(Drop),
    Answer(reply::Answer),
}

impl Balancer {
    /// A balancer without members: it answers 503 until the first table comes.
    pub fn new(config: Config) -> Self {
        Balancer {
            seeds: Seeds::new(config.key),
            texts: Texts::new(config.address),
            table: Table::default(),
            counts: Counts::default(),
            events: VecDeque::new(),
            config,
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        Stats { version: self.table.version, counts: self.counts, members: self.table.report() }
    }

    /// Sends an edited message; false, and counted, when it could not be.
    fn send(&mut self, to: Flow, edits: &Edits<'_, '_>, len: usize, out: &mut impl Sink) -> bool {
        let sent = out.send(to, len, |buf| edits.write(buf)).is_ok();
        if !sent {
            self.counts.drop(Drop::Full);
        }
        sent
    }

    /// Whether an address is this balancer's own.
    fn is_own(&self, address: SocketAddr, flow: Flow) -> bool {
        address == self.config.address || address == flow.local
    }

    fn apply(&mut self, membership: Membership) -> Result<(), Refused> {
        let known = self.table.version;
        if membership.version < known {
            self.counts.tables_stale += 1;
            return Err(Refused::Stale { known });
        }
        // The same version again is a repeated delivery, and already in force.
        if membership.version == known && self.counts.tables > 0 {
            return Ok(());
        }
        match Table::build(membership, &self.config.limits, self.config.address) {
            Ok((table, no_room)) => {
                let before = std::mem::replace(&mut self.table, table);
                self.counts.requests_departed += self.table.inherit(before);
                self.counts.departed_refused += no_room;
                self.counts.tables += 1;
                Ok(())
            }
            Err(why) => {
                self.counts.tables_refused += 1;
                Err(why)
            }
        }
    }
}

impl Node for Balancer {
    type Command = Command;
    type Event = Event;

    fn handle_message(&mut self, _: Instant, message: busyhour_engine::Message<'_>, out: &mut impl Sink) {
        match Message::parse(message.bytes) {
            Ok(m) => match m.start() {
                StartLine::Request { method, .. } => self.handle_request(&m, method, message.flow, out),
                StartLine::Response { .. } => self.handle_response(&m, message.flow, out),
            },
            Err(ParseError::KeepAlive) => self.counts.drop(Drop::KeepAlive),
            Err(
                ParseError::TooLarge
                | ParseError::StartLine
                | ParseError::Status
                | ParseError::TooManyHeaders,
            ) => self.counts.drop(Drop::NotSip),
        }
    }

    fn handle_command(&mut self, _: Instant, command: Command, _: &mut impl Sink) {
        let event = match command {
            Command::Members(membership) => {
                Event::Table { version: membership.version, outcome: self.apply(membership) }
            }
            Command::Report => Event::Report(Box::new(self.stats())),
        };
        self.events.push_back(event);
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut impl Sink) {}

    /// A balancer has no timers.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// `host:port` as in a Via and in URIs.
fn address_text(address: SocketAddr) -> Vec<u8> {
    let mut buf = [0u8; 64];
    let len = Writer::new(&mut buf).put_addr(address).finish().expect("an address has at most 47 characters");
    buf[..len].to_vec()
}
