//! Driver 2: nodes in virtual time, over links with faults, on hosts whose CPU is not free. Knows no SIP.
//!
//! # The problem
//!
//! A protocol that retransmits behaves well until it is overloaded, and what it does then depends on delays, queues
//! and timers more than on code paths. To see that in a laptop's time, and to see the same thing twice, the nodes that
//! run on sockets run here unchanged: [`Sim`] feeds them through [`busyhour_engine::pump`], in virtual time. What comes
//! out is worth as much as what is between the nodes and under them is true, so this crate is mostly that: the link
//! ([`Link`]), the CPU with its quota ([`CpuClock`]), the receive queue ([`datagram_memory`]).
//!
//! # Overview
//!
//! ```text
//!  Sim ── agenda: commands and faults by time
//!   ├── network ── addresses, partitions, links, datagrams under way
//!   ├── hosts ──── CPU quota and speed, shared by the nodes of a host
//!   └── slots ──── per node: the node, its receive queue, its commands, what its core is doing
//! ```
//!
//! A step is the earliest of: an action of the agenda, an arrival, a node's own moment. A node has one moment at most:
//! while it works, the end of that stage of work; while it is idle, its next deadline.
//!
//! # Decisions
//!
//! - **A node is a single server.** It takes the next input when its core is free: commands first, then datagrams in
//!   the order of arrival; `pump` does what timers are due before either. There are as many cores as nodes, one each,
//!   as there is one thread per worker on sockets; what nodes of a host share is the quota.
//! - **`now` is when the receiving work is done.** A message is taken at *t*, costs `receive`, and the node runs with
//!   `now = t + receive`; what it sends costs `send` each and leaves together when all of that is done. A node on
//!   sockets reads its clock before it works, so its `now` is earlier by its own service time, which is microseconds.
//!   Here the later reading is right: state must not change before the work that changes it has been done, or what
//!   another node learns of it at that instant (through events and commands) would be the future. Events carry the
//!   same `now`.
//! - **Timers are late when the core is busy.** A deadline that passes meanwhile is seen when the next input is
//!   handled, and costs `timeout` then.
//! - **A command at an instant goes before arrivals at that instant.** An event can be answered with a command to
//!   another node before any peer can react to the messages that were sent with the event: what drivers promise
//!   (see [`Node::poll_event`](busyhour_engine::Node::poll_event)).
//! - **Links join hosts**, in directions, so nodes of a host share its links' rate and order. A datagram meets
//!   partitions when it is sent; what is under way arrives.
//! - **Everything random has its own generator**, seeded by the seed and the names of what draws (the two hosts of a
//!   link, the host of a CPU), so that new traffic on one link does not change the losses of another.
//! - **Ties are broken by order of insertion** and by node numbers, never by addresses in memory or hash maps. Floating
//!   point is used in single IEEE operations only (a probability against a draw, a speed into an integer scale).
//!   So a seed has one [`Sim::trace_hash`], on every machine.
//! - **Remote input cannot fail a simulation; a runaway experiment does.** Queues overflow and are counted
//!   ([`Totals`]). Passing one of [`Limits`] is an error, [`Capacity`].
//! - **Memory follows the number of datagrams under way**, not simulated time; no message allocates
//!   once the peak was reached.
//!
//! Deliberately absent: streams, ICMP errors (a datagram to nobody vanishes), several nodes behind one address
//! (SO_REUSEPORT), receive batches: the kernel's queue and the node's hands are all that holds a datagram.
//!
//! # Use
//!
//! ```
//! # use busyhour_engine::{Instant, Message, Node, Sink};
//! # use busyhour_sim::{Config, FreeCpu, HostConfig, LinkModel, Progress, Sim};
//! # use std::time::Duration;
//! # struct Counter(u32);
//! # impl Node for Counter {
//! #     type Command = ();
//! #     type Event = u32;
//! #     fn handle_message(&mut self, _: Instant, _: Message<'_>, _: &mut impl Sink) {}
//! #     fn handle_command(&mut self, _: Instant, (): (), _: &mut impl Sink) { self.0 += 1; }
//! #     fn handle_timeout(&mut self, _: Instant, _: &mut impl Sink) {}
//! #     fn next_deadline(&self) -> Option<Instant> { None }
//! #     fn poll_event(&mut self) -> Option<u32> { std::mem::take(&mut self.0).checked_sub(1) }
//! # }
//! let config = Config { link: LinkModel::with_delay(Duration::from_millis(5)), ..Config::default() };
//! let mut sim = Sim::new(42, config, FreeCpu);
//! let host = sim.add_host(HostConfig::default())?;
//! let node = sim.add_node(host, "10.0.0.1:5060".parse()?, Counter(0))?;
//! sim.command_at(Instant::EPOCH + Duration::from_secs(1), node, ())?;
//! let end = Instant::EPOCH + Duration::from_secs(60);
//! while sim.run_until(end)? == Progress::Events {
//!     while let Some((at, whose, _event)) = sim.poll_event() {
//!         assert_eq!((at.as_secs(), whose), (1, node));
//!         // Here another node may be told, with `sim.command`.
//!     }
//! }
//! assert!(sim.now() == end && sim.totals().is_balanced());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod agenda;
mod cost;
mod counters;
mod cpu;
mod error;
mod fault;
mod flight;
mod host;
mod link;
mod network;
mod outbox;
mod queue;
mod run;
mod sim;
mod trace;

pub use cost::{CostModel, FixedCost, FreeCpu};
pub use counters::{DropReason, Drops, LinkCounters, NodeCounters, Totals};
pub use cpu::{Charge, Cpu, CpuClock, InvalidCpu, Quota};
pub use error::{Capacity, Refused};
pub use fault::{Fault, FaultNote};
pub use flight::DATAGRAM_BYTES_MAX;
pub use host::HostConfig;
pub use link::{HEADER_BYTES, InvalidLink, Link, LinkModel, Passage};
pub use queue::{DEFAULT_RECEIVE_BYTES, datagram_memory};
pub use sim::{Config, HostId, Limits, NodeId, Progress, Sim};
pub use trace::{Datagram, Happening, Observer};
