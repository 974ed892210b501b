//! The non-INVITE server transaction: RFC 3261 section 17.2.2 and figure 8, with the 100 (Trying) of RFC 4320.

#[cfg(test)]
mod tests;

use busyhour_engine::Instant;

use super::{Class, Reliability, ServerAction, Timers};

/// State of a request other than INVITE and ACK that was received. `_at` fields are when a timer fires.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum NonInviteServer {
    /// No response has been sent.
    Trying {
        /// When 100 (Trying) is due (RFC 4320 section 4.1).
        trying_at: Instant,
    },
    /// 100 (Trying) was sent. No timer runs: a TU without a final response drops the transaction and answers nothing,
    /// because a late 408 is forbidden (RFC 4320 section 4.2).
    Proceeding,
    /// The final response was sent, and is repeated when the request is.
    Completed {
        /// Timer J, when no retransmission of the request is expected any more.
        j_at: Instant,
    },
    /// Over; to be dropped.
    Terminated,
}

impl NonInviteServer {
    /// A request was received. 100 (Trying) is due after [`Timers::non_invite_trying_after`] unless the TU answers first.
    #[must_use]
    pub fn start(now: Instant, timers: &Timers) -> Self {
        NonInviteServer::Trying { trying_at: now + timers.non_invite_trying_after() }
    }

    /// The request was received again.
    pub fn on_request(self, _now: Instant) -> (Self, ServerAction) {
        let action = match self {
            NonInviteServer::Proceeding | NonInviteServer::Completed { .. } => ServerAction::RESEND,
            NonInviteServer::Trying { .. } | NonInviteServer::Terminated => ServerAction::ABSORBED,
        };
        (self, action)
    }

    /// The TU gives a response. The outcome is [`ServerAction::NONE`] after a final response, and for what RFC 4320
    /// section 4.1 forbids: a provisional response other than 100, and 100 over an unreliable transport before it is due.
    pub fn respond(
        self,
        now: Instant,
        timers: &Timers,
        reliability: Reliability,
        status: u16,
    ) -> (Self, ServerAction) {
        use NonInviteServer::{Completed, Proceeding, Terminated, Trying};
        let Some(class) = Class::of(status) else { return (self, ServerAction::NONE) };
        match (self, class) {
            (Trying { trying_at }, Class::Provisional) => {
                let in_time = match reliability {
                    Reliability::Reliable => true,
                    Reliability::Unreliable => trying_at <= now,
                };
                if status == 100 && in_time {
                    (Proceeding, ServerAction::SEND)
                } else {
                    (self, ServerAction::NONE)
                }
            }
            (Proceeding, Class::Provisional) => {
                (self, if status == 100 { ServerAction::SEND } else { ServerAction::NONE })
            }
            (Trying { .. } | Proceeding, Class::Success | Class::Failure) => {
                let j = timers.j(reliability);
                let next = if j.is_zero() { Terminated } else { Completed { j_at: now + j } };
                (next, ServerAction::SEND)
            }
            (Completed { .. } | Terminated, Class::Provisional | Class::Success | Class::Failure) => {
                (self, ServerAction::NONE)
            }
        }
    }

    /// Does what is due at `now`.
    pub fn on_timeout(
        self,
        now: Instant,
        _timers: &Timers,
        _reliability: Reliability,
    ) -> (Self, ServerAction) {
        match self {
            NonInviteServer::Trying { trying_at } if trying_at <= now => {
                (NonInviteServer::Proceeding, ServerAction::TRYING)
            }
            NonInviteServer::Completed { j_at } if j_at <= now => {
                (NonInviteServer::Terminated, ServerAction::NONE)
            }
            NonInviteServer::Trying { .. }
            | NonInviteServer::Proceeding
            | NonInviteServer::Completed { .. }
            | NonInviteServer::Terminated => (self, ServerAction::NONE),
        }
    }

    /// The transport could not deliver a response. The TU is told and the state stays: RFC 6026 section 8.8 takes the
    /// arrows to `Terminated` out of RFC 3261 section 17.2.4, which figure 8 still shows. `Trying` has sent nothing.
    pub fn on_transport_error(self) -> (Self, ServerAction) {
        let action = match self {
            NonInviteServer::Proceeding | NonInviteServer::Completed { .. } => ServerAction::FAILED,
            NonInviteServer::Trying { .. } | NonInviteServer::Terminated => ServerAction::NONE,
        };
        (self, action)
    }

    /// When [`NonInviteServer::on_timeout`] is to be called; `None` when no timer runs.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match *self {
            NonInviteServer::Trying { trying_at } => Some(trying_at),
            NonInviteServer::Completed { j_at } => Some(j_at),
            NonInviteServer::Proceeding | NonInviteServer::Terminated => None,
        }
    }

    /// True when the transaction is over and can be dropped.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        matches!(self, NonInviteServer::Terminated)
    }
}
