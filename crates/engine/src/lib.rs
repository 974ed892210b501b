//! What every role stands on: [`Instant`], the timer [`Wheel`], [`Sink`], [`Node`], [`pump`], a seeded [`Rng`]
//! and seeded hashing.
//!
//! A *node* is a sans-IO state machine: messages and time go in, messages and events come out. A *driver*
//! (real sockets, or the simulator) owns clocks, sockets and threads and feeds nodes through [`pump`].
//! This crate knows no SIP and does no I/O.
#![forbid(unsafe_code)]

mod hash;
mod node;
mod rng;
mod time;
mod wheel;

pub use hash::{HashSeed, PrehashedMap, PrehashedSet};
pub use node::{Flow, Full, Input, Message, Node, Sink, pump};
pub use rng::Rng;
pub use time::Instant;
pub use wheel::{TimerId, Wheel};
