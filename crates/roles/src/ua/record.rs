//! What a fleet is told to do and what it tells about it. Names of times follow RFC 6076.

use std::time::Duration;

use busyhour_engine::Instant;

/// One call that a fleet is to make.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// When the INVITE is meant to be sent. Every delay counts from here, not from when it was sent (open loop).
    pub at: Instant,
    /// The calling user, as an index into the fleet's users.
    pub caller: u32,
    /// The called user, as an index into the users of the fleet that answers.
    pub callee: u32,
    /// How long the caller stays in the call between its ACK and its BYE.
    pub hold: Duration,
}

/// How a call went, told once when it has ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The plan that it carried out.
    pub plan: PlannedCall,
    /// When the first INVITE really left.
    pub sent: Instant,
    /// Session request delay (RFC 6076 section 4.3): planned INVITE to the first 180 or 200 (successful) or to the
    /// final failure response (failed). None when nothing came. A 401 or 407 that is answered is part of the delay.
    pub srd: Option<Duration>,
    /// Planned INVITE to the 200.
    pub answered: Option<Duration>,
    /// Session disconnect delay (RFC 6076 section 4.4): BYE to its final response.
    pub sdd: Option<Duration>,
    /// When the last transaction of the call was over.
    pub ended: Instant,
    /// INVITEs and BYEs that the caller had to send again.
    pub retransmissions: u16,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Answered, held, and its BYE answered with 2xx.
    Completed,
    /// The INVITE got this final response (300 to 699).
    Refused(u16),
    /// The INVITE got no final response: Timer B, or no answer before the caller gave up.
    InviteTimeout,
    /// Established, but its BYE got no final response (Timer F).
    ByeTimeout,
    /// Established, but its BYE got this failure response.
    ByeRefused(u16),
    /// Cut off by the end of the run.
    Unfinished,
    /// Never sent: the fleet was at its limit of calls. A run in which this happens is invalid.
    NotStarted,
}

/// How one REGISTER (with its challenge) went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RegisterRecord {
    /// The user, as an index into the fleet's users.
    pub user: u32,
    /// When it was meant to be sent.
    pub at: Instant,
    /// When the fleet learned how it ended.
    pub ended: Instant,
    /// Registration request delay (RFC 6076 section 4.1): planned REGISTER to the final 200, challenge included.
    pub rrd: Option<Duration>,
    /// The final status; None after a timeout.
    pub status: Option<u16>,
}
