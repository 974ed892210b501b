//! The proxy: transaction-stateful, with a registrar for its domains (RFC 3261 sections 10 and 16).
//!
//! What comes in is sorted here; `request` decides what becomes of a new request, `forward` sends it on, `answer` refuses
//! it, `response` takes the answers of others. Transactions do the repeating, the location service knows where users are,
//! the authenticator who they are.
//!
//! Invariants: every forwarded INVITE gets exactly one final response, or any number of 2xx (RFC 6026); no other request
//! is ever answered with 408 (RFC 4320); a message of another owner's transaction is passed on unchanged, never acted on.
//! Lacks: DNS (next hops are addresses), streams, dialogs (a Record-Route carries what is needed of them).

mod answer;
mod config;
mod context;
mod forward;
mod request;
mod response;
mod route;
mod stats;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use busyhour_engine::{Flow, HashSeed, Instant, Message, Node, Rng, Sink};
use busyhour_sip as sip;
use busyhour_sip::Writer;

use crate::auth::Authenticator;
use crate::location::Location;
use crate::registrar::Registrar;
use crate::transactions::{Signal, Transactions};

pub use config::{Config, Domain};
use context::{Branch, Context};
pub use stats::{Drop, Stats};
use targets::Targets;

/// What the rest of the system orders a proxy to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Tell load balancers that no new calls are wanted (OPTIONS gets 503). Calls that come are served all the same: they
    /// were sent before the balancers knew.
    Drain,
    /// The whole cluster ends: in addition, INVITEs outside a dialog get 503.
    Close,
    /// Take new calls again.
    Resume,
    /// The membership has changed.
    Members {
        /// Transactions count under this epoch once everything has arrived that was sent to this proxy before; 0 says
        /// nothing about it.
        epoch: u64,
        /// Balancers and proxies of the cluster, in place of those named before.
        trusted: Vec<std::net::SocketAddr>,
    },
    /// Send an [`Event::Report`].
    Report,
}

/// What a proxy tells the rest of the system.
#[derive(Clone, Debug)]
pub enum Event {
    /// The answer to [`Command::Report`].
    Report(Box<Stats>),
}

/// A proxy and registrar.
pub struct Proxy {
    config: Config,
    auth: Authenticator,
    registrar: Registrar,
    location: Box<dyn Location + Send>,
    transactions: Transactions<Context, Branch>,
    rng: Rng,
    /// Shared by the cluster: stateless To tags, dialog cookies, loop hashes.
    key: HashSeed,
    draining: bool,
    closing: bool,
    epoch: u64,
    /// Later epochs, and from when on transactions count under them.
    coming: VecDeque<(Instant, u64)>,
    live_by_epoch: VecDeque<(u64, usize)>,
    next_sweep: Option<Instant>,
    /// The targets of the request in hand.
    targets: Targets,
    stats: Stats,
    events: VecDeque<Event>,
}

/// The most epochs that are waited for; of more, the last two become one.
const COMING_MAX: usize = 16;

/// How often expired bindings are looked for, at the least.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The pause between two parts of a long sweep, in which messages have their turn.
const SWEEP_INTERVAL_MIN: Duration = Duration::from_millis(1);

impl Proxy {
    /// A proxy with these settings. `key` is the cluster's, the same on every proxy and unknown to others; `seed` is
    /// this node's own.
    pub fn new(
        mut config: Config,
        auth: Authenticator,
        registrar: Registrar,
        location: Box<dyn Location + Send>,
        key: HashSeed,
        seed: u64,
    ) -> Self {
        config.trusted.sort_unstable();
        let mut rng = Rng::from_seed(seed);
        let transactions = Transactions::new(config.transactions, rng.hash_seed());
        Proxy {
            config,
            auth,
            registrar,
            location,
            transactions,
            rng,
            key,
            draining: false,
            closing: false,
            epoch: 0,
            coming: VecDeque::new(),
            live_by_epoch: VecDeque::new(),
            next_sweep: None,
            targets: Targets::default(),
            stats: Stats::default(),
            events: VecDeque::new(),
        }
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.transactions = self.transactions.stats();
        stats.live = self.transactions.len();
        stats.open = self.transactions.open();
        stats.epoch = self.epoch;
        stats.live_by_epoch = self.live_by_epoch.iter().copied().collect();
        stats
    }

    /// A new epoch has begun at the balancers. What they sent here before is still under way or in the receive queue, and
    /// belongs to the epoch before: it has T4 to arrive, the longest time that a message stays in the network (RFC 3261
    /// section 17.1.2.2). To a proxy that has just started, nothing was sent before.
    fn enter_epoch(&mut self, now: Instant, epoch: u64) {
        let latest = self.coming.back().map_or(self.epoch, |&(_, epoch)| epoch);
        if self.epoch == 0 {
            self.epoch = epoch;
        } else if epoch > latest {
            if self.coming.len() == COMING_MAX {
                self.coming.pop_back();
            }
            self.coming.push_back((now + self.config.transactions.timers.t4, epoch));
        }
    }

    fn advance_epoch(&mut self, now: Instant) {
        while let Some(&(_, epoch)) = self.coming.front().filter(|(at, _)| *at <= now) {
            self.epoch = epoch;
            self.coming.pop_front();
        }
    }

    /// Counts a server transaction that has begun under the current epoch.
    fn begun(&mut self) {
        match self.live_by_epoch.back_mut() {
            Some((epoch, count)) if *epoch == self.epoch => *count += 1,
            Some(_) | None => self.live_by_epoch.push_back((self.epoch, 1)),
        }
    }

    /// Counts a server transaction that is over.
    fn ended(&mut self, context: &Context) {
        let (_, count) = self
            .live_by_epoch
            .iter_mut()
            .find(|(epoch, _)| *epoch == context.epoch)
            .expect("every transaction is counted under its epoch");
        *count -= 1;
        if *count == 0 {
            self.live_by_epoch.retain(|&(_, count)| count > 0);
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self.next_sweep.is_some_and(|at| at <= now) {
            self.location.expire(now);
            // One call does a bounded part of what is due; the table says when it wants the next one.
            let wanted = self.location.next_expiry();
            let soonest = now + SWEEP_INTERVAL_MIN;
            self.next_sweep = wanted.map(|at| at.clamp(soonest, now + SWEEP_INTERVAL));
        } else if self.next_sweep.is_none() && !self.location.is_empty() {
            self.next_sweep = Some(now + SWEEP_INTERVAL);
        }
    }
}

impl Node for Proxy {
    type Command = Command;
    type Event = Event;

    fn handle_message(&mut self, now: Instant, message: Message<'_>, out: &mut impl Sink) {
        self.advance_epoch(now);
        match sip::Message::parse(message.bytes) {
            Ok(parsed) if parsed.method().is_some() => self.handle_request(now, &parsed, message.flow, out),
            Ok(parsed) => self.handle_response(now, &parsed, out),
            Err(error) => self.stats.drop_for(error.into()),
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command, _out: &mut impl Sink) {
        self.advance_epoch(now);
        match command {
            Command::Drain => self.draining = true,
            Command::Close => (self.draining, self.closing) = (true, true),
            Command::Resume => (self.draining, self.closing) = (false, false),
            Command::Members { epoch, mut trusted } => {
                self.enter_epoch(now, epoch);
                trusted.sort_unstable();
                self.config.trusted = trusted;
            }
            Command::Report => self.events.push_back(Event::Report(Box::new(self.stats()))),
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink) {
        self.transactions.handle_timeout(now, out);
        while let Some(signal) = self.transactions.poll_signal() {
            match signal {
                Signal::ClientTimedOut(id, branch, _) => self.branch_timed_out(now, id, branch, out),
                Signal::Alarm(id) => self.alarm(now, id, out),
                Signal::ServerEnded(_, context) => self.ended(&context),
            }
        }
        self.sweep(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        match (self.transactions.next_deadline(), self.next_sweep) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

fn hex(n: u64) -> [u8; 16] {
    let mut text = [0; 16];
    Writer::new(&mut text).put_hex(n);
    text
}

/// A request on its way through the proxy.
#[derive(Copy, Clone)]
struct Incoming<'a, 'm> {
    message: &'m sip::Message<'a>,
    essentials: sip::Essentials<'a>,
    flow: Flow,
    /// Where answers go.
    reply_to: Flow,
    /// Another member passed it on: the topmost Via is that of the balancer before it, and was right when it was put there.
    passed: bool,
    /// The source is a member of the cluster.
    trusted: bool,
}

impl<'a> Incoming<'a, '_> {
    /// What the topmost Via is stamped with, if it is.
    fn stamp(&self) -> Option<std::net::SocketAddr> {
        (!self.passed).then_some(self.flow.peer)
    }

    /// The members that may have the transaction if this one has not: what a trusted Via says, and where it says so.
    fn other_owners(&self) -> Option<(sip::value::Param<'a>, &'a [u8])> {
        let param = self.essentials.via.params.get("next").filter(|_| self.trusted)?;
        let owners = sip::value::quoted_text(param.value?)?;
        (!owners.is_empty()).then_some((param, owners))
    }
}
