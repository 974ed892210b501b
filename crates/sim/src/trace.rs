//! What happened, for two readers: a hash, to compare runs, and an observer, to show one to a person.
//!
//! The hash takes in every datagram sent, dropped, copied and delivered with its bytes, every timeout, command and
//! fault, each with its time and its nodes. It is made of integer arithmetic on defined byte orders only, so the same
//! seed gives the same hash on every machine. Commands and events are values of the user's own types: their moment
//! is hashed, what is in them shows in what the nodes do.

use std::net::{IpAddr, SocketAddr};

use busyhour_engine::Instant;

use crate::counters::DropReason;
use crate::fault::FaultNote;
use crate::sim::NodeId;

/// One thing that happened.
#[derive(Copy, Clone, Debug)]
pub enum Happening<'a> {
    /// A datagram left its node.
    Sent(Datagram<'a>),
    /// A link made a copy of a datagram.
    Duplicated(Datagram<'a>),
    /// A datagram came to an end without being handled.
    Dropped(Datagram<'a>, DropReason),
    /// A node was given a datagram.
    Delivered(Datagram<'a>),
    /// A node was told that its deadline has passed.
    Timeout(NodeId),
    /// A node was given a command.
    Command(NodeId),
    /// A fault, or its end.
    Fault(FaultNote),
}

/// A datagram and its two ends.
#[derive(Copy, Clone, Debug)]
pub struct Datagram<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// Where it was sent.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// Sees everything that happens, in order. It cannot change anything.
pub trait Observer {
    /// `what` happened at `at`.
    fn observe(&mut self, at: Instant, what: Happening<'_>);
}

impl<F: FnMut(Instant, Happening<'_>)> Observer for F {
    fn observe(&mut self, at: Instant, what: Happening<'_>) {
        self(at, what);
    }
}

/// The running hash and the observer.
pub(crate) struct Trace {
    hash: u64,
    observer: Option<Box<dyn Observer>>,
}

/// What happens to a datagram, as the hash sees it.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Fate {
    Sent,
    Duplicated,
    Delivered,
    Dropped(DropReason),
}

impl Trace {
    /// The seed takes no part: two seeds differ when what happens differs.
    pub(crate) fn new() -> Trace {
        Trace { hash: 0x6275_7379_686f_7572, observer: None }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn set_observer(&mut self, observer: Option<Box<dyn Observer>>) {
        self.observer = observer;
    }

    /// Something happened to a datagram. `ends` are the numbers of the two nodes, `payload` the hash of its bytes.
    pub(crate) fn datagram(
        &mut self,
        now: Instant,
        fate: Fate,
        ends: (u32, u32),
        payload: u64,
        details: impl FnOnce() -> (SocketAddr, SocketAddr),
        bytes: &[u8],
    ) {
        let code = match fate {
            Fate::Sent => 1,
            Fate::Duplicated => 2,
            Fate::Delivered => 3,
            Fate::Dropped(reason) => 16 + reason as u64,
        };
        self.note(now, code, u64::from(ends.0) << 32 | u64::from(ends.1));
        self.hash = mix(self.hash, payload);
        if let Some(observer) = &mut self.observer {
            let (from, to) = details();
            let datagram = Datagram { from, to, bytes };
            observer.observe(
                now,
                match fate {
                    Fate::Sent => Happening::Sent(datagram),
                    Fate::Duplicated => Happening::Duplicated(datagram),
                    Fate::Delivered => Happening::Delivered(datagram),
                    Fate::Dropped(reason) => Happening::Dropped(datagram, reason),
                },
            );
        }
    }

    /// An address that belongs to no node takes part in the hash itself; nodes do by their number.
    pub(crate) fn stranger(&mut self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => u128::from(u32::from(ip)),
            IpAddr::V6(ip) => u128::from(ip),
        };
        self.hash = mix(mix(self.hash, ip as u64), (ip >> 64) as u64 ^ u64::from(address.port()));
    }

    pub(crate) fn timeout(&mut self, now: Instant, node: NodeId) {
        self.note(now, 4, node.number().into());
        self.tell(now, Happening::Timeout(node));
    }

    pub(crate) fn command(&mut self, now: Instant, node: NodeId) {
        self.note(now, 5, node.number().into());
        self.tell(now, Happening::Command(node));
    }

    pub(crate) fn fault(&mut self, now: Instant, fault: FaultNote) {
        let (code, detail) = fault.code();
        self.note(now, 32 + code, detail);
        self.tell(now, Happening::Fault(fault));
    }

    fn note(&mut self, now: Instant, code: u64, detail: u64) {
        self.hash = mix(mix(self.hash ^ code, now.as_nanos()), detail);
    }

    fn tell(&mut self, now: Instant, what: Happening<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.observe(now, what);
        }
    }
}

/// Folds a word into the hash: the two halves of a 128-bit product, combined. Not for secrets.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word.rotate_left(29)) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ ((product >> 64) as u64) ^ word
}
