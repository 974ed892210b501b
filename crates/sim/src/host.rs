//! Hosts and the nodes on them: what each is doing, and what waits for it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Instant, Node};

use crate::counters::NodeCounters;
use crate::cpu::{Cpu, CpuClock};
use crate::flight::FlightId;
use crate::queue::{DEFAULT_RECEIVE_BYTES, ReceiveQueue};

/// What a host is given. Every node on it has a core and a receive queue to itself; a CPU quota is shared.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Speed and quota.
    pub cpu: Cpu,
    /// Kernel memory, in bytes, that each node's receive queue may take; see [`datagram_memory`](crate::datagram_memory)
    /// for what a datagram takes. It is what `getsockopt(SO_RCVBUF)` says, twice what was asked of `setsockopt`.
    pub receive_queue_bytes_max: u64,
    /// How many datagrams each node's receive queue may hold.
    pub receive_queue_len_max: usize,
}

impl Default for HostConfig {
    /// A host of speed 1 without a quota, and Linux's default receive buffer.
    fn default() -> HostConfig {
        HostConfig {
            cpu: Cpu::default(),
            receive_queue_bytes_max: DEFAULT_RECEIVE_BYTES,
            receive_queue_len_max: usize::MAX,
        }
    }
}

pub(crate) struct Host {
    pub(crate) config: HostConfig,
    pub(crate) clock: CpuClock,
    /// Where its quota periods begin.
    pub(crate) phase: Duration,
    /// Whether its CPU is not the configured one.
    pub(crate) disturbed: bool,
}

impl Host {
    /// Puts another CPU in, or the configured one.
    pub(crate) fn set_cpu(&mut self, cpu: Option<Cpu>) {
        self.disturbed = cpu.is_some();
        self.clock = CpuClock::new(cpu.unwrap_or(self.config.cpu), self.phase);
    }
}

/// Whether a node is there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Up,
    /// Stands still; what is left of the work that it was doing.
    Paused {
        left: Option<Duration>,
    },
    Down,
    Removed,
}

/// What a node's core is doing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Idle,
    /// Working towards the moment at which the node changes its state and makes its messages.
    Before(Work),
    /// Working towards the moment at which those messages leave.
    After,
}

/// What a node works on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Timeout,
    /// The command is in the slot's `command`.
    Command,
    Message(FlightId),
}

/// A node's place: it stays when the node crashes, and keeps its number when the node is removed.
pub(crate) struct Slot<N: Node> {
    /// `None` while it is down, and for ever once it is removed.
    pub(crate) node: Option<N>,
    pub(crate) host: usize,
    pub(crate) life: Life,
    pub(crate) stage: Stage,
    pub(crate) queue: ReceiveQueue,
    pub(crate) commands: VecDeque<N::Command>,
    pub(crate) command: Option<N::Command>,
    /// Messages that leave when the work is done.
    pub(crate) unsent: Vec<(SocketAddr, FlightId)>,
    /// What `next_deadline` said last.
    pub(crate) deadline: Option<Instant>,
    pub(crate) counters: NodeCounters,
}

impl<N: Node> Slot<N> {
    pub(crate) fn new(node: N, host: usize, config: &HostConfig) -> Slot<N> {
        Slot {
            deadline: node.next_deadline(),
            node: Some(node),
            host,
            life: Life::Up,
            stage: Stage::Idle,
            queue: ReceiveQueue::new(config.receive_queue_bytes_max, config.receive_queue_len_max),
            commands: VecDeque::new(),
            command: None,
            unsent: Vec::new(),
            counters: NodeCounters::default(),
        }
    }

    /// Datagrams that wait, and the one that it is working on.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len() + usize::from(matches!(self.stage, Stage::Before(Work::Message(_))))
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|at| at <= now)
    }
}
