//! Driver 1: runs a [`Node`](busyhour_engine::Node) over a real UDP socket. Linux only.
//!
//! **The problem.** A signalling role is a state machine that knows neither sockets nor clocks. Something has to
//! bring it datagrams, orders and time, take its datagrams and events away, and cost next to nothing beside the
//! kernel's own work per datagram.
//!
//! **Overview.** [`UdpSocket::bind`] opens a socket; [`Worker::spawn`] gives it, with a node, to a thread of its own;
//! the [`Handle`] orders, observes and stops that thread. A [`Clock`] is shared by all workers of a process, so that
//! their instants compare.
//!
//! **The order contract.** One turn of a worker is, in this order:
//! 1. receive a batch of datagrams;
//! 2. drain the command channel and pump the commands;
//! 3. pump the messages of the batch (or the timeout, when there was no other input and a deadline has passed);
//! 4. poll all events and hand each to `on_event`;
//! 5. send what the node queued.
//!
//! So what `on_event` tells another worker through its [`Commander`] is known to that worker before it sees any
//! datagram by which a peer reacted to the messages of this turn. Steps 4 and 5 also run in the midst of a large batch,
//! between two messages; never 5 without 4, and never within one input of the node.
//!
//! **Decisions.**
//! - *One node, one thread, one socket.* The packet path shares nothing and takes no lock. Workers that serve one port
//!   set `reuse_port`.
//! - *Batches grow with the load.* A worker asks the kernel for a few datagrams, then for twice as many while its
//!   requests are met in full. It never waits for a batch to fill: at low load each datagram is handled and answered
//!   alone.
//! - *One copy.* Nodes read the receive buffer in place and write straight into the send arena that `sendmmsg` reads.
//! - *The send arena is bounded, not flushed, within one input.* Flushing there would break the order contract. What
//!   does not fit is refused to the node as [`Full`](busyhour_engine::Full) and counted.
//! - *Receive slots take the largest datagram.* They lie in one mapping of which only the touched pages are resident,
//!   so a slot costs a page or two until somebody does send 64 KiB.
//! - *IP_PKTINFO only on wildcard sockets.* A socket bound to one address knows its local address without asking.
//! - *IPv6 sockets carry IPv6 only*, so that no IPv4-mapped address ever reaches a SIP header.
//! - *Idle costs nothing.* Without traffic, commands or a deadline the thread sleeps in `ppoll`. A command writes the
//!   wake-up eventfd only when the worker may be asleep.
//! - *Kernel drops and CPU time are read when somebody asks* for [`Handle::stats`], by the asking thread: neither costs
//!   the packet path anything, and both are exact (`SO_MEMINFO`, which unlike `SO_RXQ_OVFL` needs no later datagram to
//!   report a drop).
//!
//! **Deliberately absent:** TCP and TLS, an async runtime, connected sockets.
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("busyhour-net stands on recvmmsg, sendmmsg, eventfd and SO_MEMINFO: it is for Linux only");

mod clock;
mod inbox;
#[allow(unsafe_code)]
mod mmsg;
mod outbox;
mod receive;
mod socket;
mod stats;
mod worker;

pub use clock::Clock;
pub use inbox::{CommandRefused, Commander, Inbox};
pub use socket::{BindError, SocketOptions, UdpSocket};
pub use stats::DriverStats;
pub use worker::{Handle, SpawnError, Worker, WorkerOptions};
