//! Settings of a fleet.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_sip::value::Ha1;

use crate::transactions;

/// One user of a fleet.
#[derive(Clone, Debug)]
pub struct User {
    /// The user part of its address-of-record, and its name for digest authentication.
    pub name: String,
    /// What it answers challenges with.
    pub ha1: Ha1,
}

/// Settings of a fleet of user agents behind one address.
#[derive(Clone, Debug)]
pub struct Config {
    /// The fleet's own address: every user's contact is `sip:user@address`.
    pub address: SocketAddr,
    /// Where requests go first: the balancers. A user always takes the same one, as a phone does that resolved a name.
    pub outbound: Vec<SocketAddr>,
    /// The users' domain.
    pub domain: String,
    /// The users; planned calls and registrations name them by their index.
    pub users: Vec<User>,
    /// The `expires` that registrations ask for, in seconds.
    pub register_expires_s: u32,
    /// How long after a registration it is refreshed, but never later than five sixths of what was granted; `None`:
    /// never.
    pub refresh_after: Option<Duration>,
    /// How calls are answered.
    pub answer: Answering,
    /// How long a caller lets it ring before it sends CANCEL.
    pub patience: Duration,
    /// How long an answered call is kept whose BYE does not come: it was lost, or its caller is gone.
    pub bye_within: Duration,
    /// The most calls (made and answered) at once; more are not started, and told as such.
    pub calls_max: usize,
    /// Limits and timers of the transaction layer.
    pub transactions: transactions::Config,
    /// Whether every answered call is told: for tests that look for calls answered twice.
    pub tell_answers: bool,
}

/// How a fleet answers calls.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Answering {
    /// From the INVITE to the 180; `None`: no 180.
    pub ring_after: Option<Duration>,
    /// From the INVITE to the 200.
    pub answer_after: Duration,
    /// The share of calls (0 to 1) that get 486 instead.
    pub busy_share: f64,
}

impl Default for Answering {
    /// 180 and 200, both at once.
    fn default() -> Self {
        Answering { ring_after: Some(Duration::ZERO), answer_after: Duration::ZERO, busy_share: 0.0 }
    }
}
