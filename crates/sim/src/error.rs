//! What an experiment is refused, sorted by whose fault it is.

use std::fmt;
use std::net::SocketAddr;

use busyhour_engine::Instant;

use crate::sim::NodeId;

/// The experiment needs more than its [`Limits`](crate::Limits) allow: it runs away, or the limit is too low for it.
/// The simulation cannot go on after that; everything asked of it later has the same answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Too many datagrams on their way at once.
    InFlight {
        /// The limit.
        max: usize,
    },
    /// Too many commands and faults scheduled at once.
    Scheduled {
        /// The limit.
        max: usize,
    },
    /// Too many commands waiting for one node.
    Commands {
        /// Which node.
        node: NodeId,
        /// The limit.
        max: usize,
    },
    /// Too many events that nobody polled.
    Events {
        /// The limit.
        max: usize,
    },
    /// Too many nodes, or hosts, counting those that were removed.
    Nodes {
        /// The limit.
        max: usize,
    },
    /// Too many partitions at once.
    Partitions {
        /// The limit, in directions: a partition both ways counts as two.
        max: usize,
    },
    /// Too much happened at the same instant: time does not go on.
    Standstill {
        /// When.
        at: Instant,
        /// The limit, in steps.
        max: u64,
    },
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the simulation ran out of capacity: ")?;
        match self {
            Capacity::InFlight { max } => write!(f, "more than in_flight_max = {max} datagrams on their way"),
            Capacity::Scheduled { max } => {
                write!(f, "more than scheduled_max = {max} commands and faults scheduled")
            }
            Capacity::Commands { node, max } => {
                write!(f, "more than commands_max = {max} commands waiting for node {}", node.number())
            }
            Capacity::Events { max } => write!(f, "more than events_max = {max} events were not polled"),
            Capacity::Nodes { max } => write!(f, "more than nodes_max = {max} nodes or hosts"),
            Capacity::Partitions { max } => write!(f, "more than {max} directions of partitions at once"),
            Capacity::Standstill { at, max } => {
                write!(
                    f,
                    "more than steps_per_instant_max = {max} steps at {at:?}; do nodes without delay answer each other for ever?"
                )
            }
        }
    }
}

impl std::error::Error for Capacity {}

/// Why a node was not added.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another node has that address.
    AddressInUse(SocketAddr),
    /// There is no room.
    Capacity(Capacity),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::AddressInUse(address) => write!(f, "the address {address} belongs to another node"),
            Refused::Capacity(capacity) => capacity.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Capacity> for Refused {
    fn from(capacity: Capacity) -> Refused {
        Refused::Capacity(capacity)
    }
}
