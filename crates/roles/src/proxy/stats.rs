//! What a proxy counts. Written by its own thread only; others get copies.

use busyhour_sip::{Defect, ParseError};

use crate::transactions;

/// Why a message was dropped without an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Drop {
    /// Line ends only: a keep-alive, not an error.
    KeepAlive,
    /// Not SIP at all.
    NotSip,
    /// A response with something wrong, or a request so broken that it cannot be answered.
    Malformed,
    /// A response that belongs to no transaction (RFC 6026 section 8.9 forbids forwarding it).
    StrayResponse,
    /// An ACK that belongs to no transaction and has nowhere to go.
    StrayAck,
    /// The driver had no room for the answer.
    NoRoom,
    /// An edit made the message longer than a datagram can be.
    TooLong,
}

impl Drop {
    /// How many there are.
    pub const COUNT: usize = Drop::TooLong as usize + 1;
    /// All of them, in order.
    pub const ALL: [Drop; Drop::COUNT] = [
        Drop::KeepAlive,
        Drop::NotSip,
        Drop::Malformed,
        Drop::StrayResponse,
        Drop::StrayAck,
        Drop::NoRoom,
        Drop::TooLong,
    ];

    /// A short name for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Drop::KeepAlive => "keep-alive",
            Drop::NotSip => "not SIP",
            Drop::Malformed => "malformed",
            Drop::StrayResponse => "response without transaction",
            Drop::StrayAck => "ACK without transaction",
            Drop::NoRoom => "no room to send",
            Drop::TooLong => "too long",
        }
    }
}

impl From<ParseError> for Drop {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::KeepAlive => Drop::KeepAlive,
            ParseError::TooLarge
            | ParseError::StartLine
            | ParseError::Status
            | ParseError::TooManyHeaders => Drop::NotSip,
        }
    }
}

/// Counters of a proxy since its start.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Requests received, retransmissions included.
    pub requests: u64,
    /// INVITEs among them that began a transaction or were answered without one.
    pub invites: u64,
    /// REGISTERs answered.
    pub registers: u64,
    /// Responses received.
    pub responses: u64,
    /// Requests challenged with 401 or 407.
    pub challenged: u64,
    /// Requests sent on, a fork counted once per branch.
    pub forwarded: u64,
    /// Datagrams passed on to the member that owned the call before.
    pub passed_on: u64,
    /// Locally made answers by status class: 1xx to 6xx.
    pub answers: [u64; 6],
    /// The defects found in requests that were answered with 400 or the like.
    pub defects: u64,
    /// The last of them.
    pub last_defect: Option<Defect>,
    /// Messages dropped, by reason.
    pub drops: [u64; Drop::COUNT],
    /// What the transaction layer counted.
    pub transactions: transactions::Stats,
    /// Server and client transactions alive.
    pub live: (usize, usize),
    /// Server transactions that wait for a final response.
    pub open: usize,
    /// The membership epoch in force.
    pub epoch: u64,
    /// Server transactions alive by membership epoch, oldest first: `(epoch, count)`.
    pub live_by_epoch: Vec<(u64, usize)>,
}

impl Stats {
    pub(super) fn drop_for(&mut self, reason: Drop) {
        self.drops[reason as usize] += 1;
    }

    pub(super) fn count_answer(&mut self, status: u16) {
        self.answers[usize::from(status / 100 - 1)] += 1;
    }
}
