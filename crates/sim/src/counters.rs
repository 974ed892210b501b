//! What is counted: per node, per direction of a link, and in total.

use std::time::Duration;

/// Why a datagram did not arrive.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The link lost it.
    Lost,
    /// The queue before the link's wire was full.
    LinkOverflow,
    /// A partition lay between the two hosts when it was sent.
    Partitioned,
    /// No node has that address, or the one that had it was removed.
    UnknownDestination,
    /// The node's receive queue was full.
    ReceiveOverflow,
    /// The node was down when it arrived, or crashed before handling it.
    Down,
    /// The simulation ran out of capacity and is over.
    OverCapacity,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [DropReason; 7] = [
        DropReason::Lost,
        DropReason::LinkOverflow,
        DropReason::Partitioned,
        DropReason::UnknownDestination,
        DropReason::ReceiveOverflow,
        DropReason::Down,
        DropReason::OverCapacity,
    ];
}

/// Datagrams dropped, by reason.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// How many were dropped for this reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// How many were dropped.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// What one node did. Kept over crashes and restarts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Datagrams that left it.
    pub sent: u64,
    /// Datagrams that it handled.
    pub delivered: u64,
    /// Datagrams that it sent in answer to one input beyond `sends_per_input_max`, or that were longer than a
    /// datagram can be. They count nowhere else.
    pub send_refused: u64,
    /// Datagrams that it had made when it crashed or was removed, but not yet sent. They count nowhere else.
    pub unsent: u64,
    /// Datagrams that found its receive queue full.
    pub receive_overflow: u64,
    /// Datagrams that arrived while it was down, or that it held when it crashed or was removed.
    pub down: u64,
    /// Calls of `handle_timeout`.
    pub timeouts: u64,
    /// Commands carried out.
    pub commands: u64,
    /// Commands to it while it was down, and those that it had not carried out when it crashed or was removed.
    pub commands_lost: u64,
    /// CPU time used, or reserved by work that is under way.
    pub busy: Duration,
    /// Time during which it had work but its host's quota was used up.
    pub throttled: Duration,
    /// The largest number of datagrams that ever waited in its receive queue.
    pub queue_len_peak: usize,
}

/// What happened on one direction of a link, that is, from one host to another.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Datagrams put on it.
    pub sent: u64,
    /// Payload bytes put on it.
    pub sent_bytes: u64,
    /// Copies that it made.
    pub duplicated: u64,
    /// Datagrams that it lost.
    pub lost: u64,
    /// Datagrams that found the queue before its wire full.
    pub overflow: u64,
    /// Datagrams that ran into a partition.
    pub partitioned: u64,
    /// Datagrams that were held back so that others may overtake them.
    pub reordered: u64,
    /// Datagrams and copies that reached its other end.
    pub arrived: u64,
}

/// The account of all datagrams of a simulation.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Datagrams that left a node.
    pub sent: u64,
    /// Copies that links made.
    pub duplicated: u64,
    /// Datagrams that links held back. They count elsewhere too.
    pub reordered: u64,
    /// Datagrams that a node handled.
    pub delivered: u64,
    /// Those that came to another end.
    pub drops: Drops,
    /// On a link at this moment.
    pub on_links: u64,
    /// In a receive queue, or in the hands of a node that has not finished with them, at this moment.
    pub queued: u64,
}

impl Totals {
    /// Whether every datagram is accounted for: sent + duplicated = delivered + dropped + on links + queued.
    pub fn is_balanced(&self) -> bool {
        self.sent + self.duplicated == self.delivered + self.drops.total() + self.on_links + self.queued
    }
}
