//! The transaction layer of a stateful role: matches messages to transactions, runs their machines, keeps what may have
//! to be sent again, and retransmits it. The role above is the *transaction user* (TU) of RFC 3261 section 17.
//!
//! Owns: every live transaction, its retained bytes and its timer. Each transaction has at most one entry in the wheel:
//! a deadline that moves away leaves the entry where it is, and it is armed anew when it fires.
//! Lacks: the messages' meaning. What a request asks for and where it goes is the TU's business.

mod buffers;
mod client;
mod derived;
mod key;
mod machine;
mod server;

use std::collections::VecDeque;

use busyhour_engine::{Flow, HashSeed, Instant, PrehashedMap, Sink, TimerId, Wheel};
use busyhour_sip::transaction::Timers;
use slotmap::{SlotMap, new_key_type};

use buffers::Buffers;

pub use key::{client_key, server_key};
use machine::{ClientMachine, ServerMachine};

new_key_type! {
    /// Names a server transaction; stale once that has ended.
    pub struct ServerId;
    /// Names a client transaction; stale once that has ended.
    pub struct ClientId;
}

/// Limits and timers of a transaction layer.
#[derive(Copy, Clone, Debug)]
pub struct Config {
    /// Durations of the timers.
    pub timers: Timers,
    /// The most server transactions at once.
    pub servers_max: usize,
    /// The most client transactions at once. CANCELs are not refused, so that no phone rings on because there were too
    /// many calls: each has its INVITE here, so there are never more than twice as many in all.
    pub clients_max: usize,
}

/// What the layer has counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Server transactions begun.
    pub servers: u64,
    /// Client transactions begun.
    pub clients: u64,
    /// Requests sent again.
    pub request_retransmissions: u64,
    /// Responses sent again, by a timer or because the request came again.
    pub response_retransmissions: u64,
    /// Requests and ACKs that came again.
    pub absorbed: u64,
    /// Client transactions that nobody answered (Timers B and F).
    pub timeouts: u64,
    /// INVITEs whose non-2xx response nobody acknowledged (Timer H).
    pub unacknowledged: u64,
    /// Transactions refused because there were too many.
    pub refused: u64,
    /// Messages that the driver had no room for.
    pub unsent: u64,
}

/// What a timer has to tell the TU. The transaction is over except after an `Alarm`.
#[derive(Debug)]
pub enum Signal<S, C> {
    /// Nobody answered: Timer B or F. With how often the request was sent again.
    ClientTimedOut(ClientId, C, u16),
    /// An alarm that the TU set has gone off.
    Alarm(ClientId),
    /// A server transaction is over; this is what the TU kept with it.
    ServerEnded(ServerId, S),
}

struct Server<S> {
    machine: ServerMachine,
    key: u64,
    reply_to: Flow,
    request: Vec<u8>,
    last_response: Vec<u8>,
    timer: Option<(TimerId, Instant)>,
    /// When it ends without a final response; `None` while one may come.
    abandoned_until: Option<Instant>,
    /// Counted in `Transactions::open`.
    open: bool,
    data: S,
}

struct Client<C> {
    machine: ClientMachine,
    key: u64,
    to: Flow,
    /// The request; once a final response has come, the ACK to it.
    request: Vec<u8>,
    timer: Option<(TimerId, Instant)>,
    alarm: Option<TimerId>,
    retransmissions: u16,
    data: C,
}

#[derive(Copy, Clone)]
enum Due {
    Server(ServerId),
    Client(ClientId),
    Alarm(ClientId),
}

/// The transactions of one node. `S` and `C` are what the TU keeps with each server and client transaction.
pub struct Transactions<S, C> {
    config: Config,
    seed: HashSeed,
    servers: SlotMap<ServerId, Server<S>>,
    clients: SlotMap<ClientId, Client<C>>,
    server_index: PrehashedMap<ServerId>,
    client_index: PrehashedMap<ClientId>,
    /// Server transactions that wait for a final response.
    open: usize,
    wheel: Wheel<Due>,
    signals: VecDeque<Signal<S, C>>,
    buffers: Buffers,
    stats: Stats,
}

impl<S, C> Transactions<S, C> {
    /// No transactions. `seed` must not be known to peers.
    pub fn new(config: Config, seed: HashSeed) -> Self {
        Transactions {
            config,
            seed,
            servers: SlotMap::with_key(),
            clients: SlotMap::with_key(),
            server_index: PrehashedMap::default(),
            client_index: PrehashedMap::default(),
            open: 0,
            wheel: Wheel::new(),
            signals: VecDeque::new(),
            buffers: Buffers::default(),
            stats: Stats::default(),
        }
    }

    /// The secret that transaction keys are hashed with.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// What has been counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How many server and client transactions there are.
    pub fn len(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// How many server transactions wait for a final response.
    pub fn open(&self) -> usize {
        self.open
    }

    /// How many timers are armed.
    pub fn timers(&self) -> usize {
        self.wheel.len()
    }

    /// True when there is no transaction at all.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.clients.is_empty()
    }

    // Time.

    /// When [`Transactions::handle_timeout`] wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Does all that is due; [`Transactions::poll_signal`] tells the TU about it.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink) {
        while let Some(due) = self.wheel.pop_expired(now) {
            match due {
                Due::Server(id) => self.server_timeout(now, id, out),
                Due::Client(id) => self.client_timeout(now, id, out),
                Due::Alarm(id) => {
                    if let Some(client) = self.clients.get_mut(id) {
                        client.alarm = None;
                        self.signals.push_back(Signal::Alarm(id));
                    }
                }
            }
        }
    }

    /// What the last timeouts have to tell the TU, oldest first.
    pub fn poll_signal(&mut self) -> Option<Signal<S, C>> {
        self.signals.pop_front()
    }
}

/// Makes sure that the wheel wakes the transaction at its deadline or before.
fn rearm(
    wheel: &mut Wheel<Due>,
    timer: &mut Option<(TimerId, Instant)>,
    deadline: Option<Instant>,
    due: Due,
) {
    let Some(deadline) = deadline else { return };
    if let Some((id, at)) = *timer {
        if at <= deadline {
            return;
        }
        wheel.cancel(id);
    }
    *timer = Some((wheel.insert(deadline, due), deadline));
}
