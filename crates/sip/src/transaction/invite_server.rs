//! The INVITE server transaction: RFC 3261 section 17.2.1 and figure 7, as replaced by RFC 6026 sections 7.1 and 8.7.

#[cfg(test)]
mod tests;

use busyhour_engine::Instant;

use super::{Class, Reliability, ServerAction, Timers, earlier, fires_next};

/// State of an INVITE that was received. The names are those of the figure; `_at` fields are when a timer fires.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum InviteServer {
    /// The TU has not given a final response.
    Proceeding {
        /// When 100 (Trying) is due; `None` once a provisional response has been sent.
        trying_at: Option<Instant>,
    },
    /// A 300–699 was sent and is repeated until the ACK comes.
    Completed {
        /// Timer G, the next retransmission of the response; `None` on reliable transports.
        g_at: Option<Instant>,
        /// How often Timer G has fired.
        g_fired: u8,
        /// Timer H, when the wait for the ACK is given up.
        h_at: Instant,
    },
    /// The ACK came; further ones are absorbed.
    Confirmed {
        /// Timer I, when no further ACK is expected.
        i_at: Instant,
    },
    /// A 2xx was sent. The TU repeats it until it has the ACK; INVITEs are absorbed so that none starts a second call.
    Accepted {
        /// Timer L, when no further 2xx of the TU is expected.
        l_at: Instant,
    },
    /// Over; to be dropped.
    Terminated,
}

impl InviteServer {
    /// An INVITE was received. 100 (Trying) is due after [`Timers::trying_after`] unless the TU answers first; a TU that
    /// knows that it will take longer answers with 100 at once.
    #[must_use]
    pub fn start(now: Instant, timers: &Timers) -> Self {
        InviteServer::Proceeding { trying_at: Some(now + timers.trying_after) }
    }

    /// The INVITE was received again. Before any provisional response was sent there is none to repeat (RFC 3261 section
    /// 17.2.1), and 100 (Trying) is not brought forward: such a copy is a duplicate of the network, younger than the
    /// client's T1. In `Accepted` it is absorbed because only the TU repeats a 2xx (RFC 6026 section 7.1).
    pub fn on_request(self, _now: Instant) -> (Self, ServerAction) {
        let action = match self {
            InviteServer::Proceeding { trying_at: None } | InviteServer::Completed { .. } => {
                ServerAction::RESEND
            }
            InviteServer::Proceeding { trying_at: Some(_) }
            | InviteServer::Confirmed { .. }
            | InviteServer::Accepted { .. }
            | InviteServer::Terminated => ServerAction::ABSORBED,
        };
        (self, action)
    }

    /// An ACK that matches this transaction came: the one to a non-2xx, or in `Accepted` one to a 2xx whose sender reused
    /// the branch.
    pub fn on_ack(self, now: Instant, timers: &Timers, reliability: Reliability) -> (Self, ServerAction) {
        match self {
            InviteServer::Completed { .. } => {
                let i = timers.i(reliability);
                let next = if i.is_zero() {
                    InviteServer::Terminated
                } else {
                    InviteServer::Confirmed { i_at: now + i }
                };
                (next, ServerAction::NONE)
            }
            InviteServer::Accepted { .. } => (self, ServerAction::DELIVER),
            InviteServer::Proceeding { .. } | InviteServer::Confirmed { .. } | InviteServer::Terminated => {
                (self, ServerAction::ABSORBED)
            }
        }
    }

    /// The TU gives a response. After a 2xx only further 2xx are sent, after a 300–699 none: the outcome is then
    /// [`ServerAction::NONE`].
    pub fn respond(
        self,
        now: Instant,
        timers: &Timers,
        reliability: Reliability,
        status: u16,
    ) -> (Self, ServerAction) {
        use InviteServer::{Accepted, Completed, Confirmed, Proceeding, Terminated};
        let Some(class) = Class::of(status) else { return (self, ServerAction::NONE) };
        match (self, class) {
            (Proceeding { .. }, Class::Provisional) => (Proceeding { trying_at: None }, ServerAction::SEND),
            (Proceeding { .. }, Class::Success) => (Accepted { l_at: now + timers.l() }, ServerAction::SEND),
            (Proceeding { .. }, Class::Failure) => {
                let g_at = match reliability {
                    Reliability::Unreliable => Some(now + timers.g(0)),
                    Reliability::Reliable => None,
                };
                (Completed { g_at, g_fired: 0, h_at: now + timers.h() }, ServerAction::SEND)
            }
            (Accepted { .. }, Class::Success) => (self, ServerAction::SEND),
            (Accepted { .. }, Class::Provisional | Class::Failure)
            | (
                Completed { .. } | Confirmed { .. } | Terminated,
                Class::Provisional | Class::Success | Class::Failure,
            ) => (self, ServerAction::NONE),
        }
    }

    /// Does what is due at `now`. Timer H goes before Timer G: a response that is given up is not sent once more.
    pub fn on_timeout(
        self,
        now: Instant,
        timers: &Timers,
        _reliability: Reliability,
    ) -> (Self, ServerAction) {
        match self {
            InviteServer::Proceeding { trying_at: Some(due) } if due <= now => {
                (InviteServer::Proceeding { trying_at: None }, ServerAction::TRYING)
            }
            InviteServer::Completed { h_at, .. } if h_at <= now => {
                (InviteServer::Terminated, ServerAction::TIMED_OUT)
            }
            InviteServer::Completed { g_at: Some(due), g_fired, h_at } if due <= now => {
                let g_fired = g_fired.saturating_add(1);
                let g_at = Some(fires_next(due, now, timers.g(g_fired)));
                (InviteServer::Completed { g_at, g_fired, h_at }, ServerAction::RESEND)
            }
            InviteServer::Confirmed { i_at: end_at } | InviteServer::Accepted { l_at: end_at }
                if end_at <= now =>
            {
                (InviteServer::Terminated, ServerAction::NONE)
            }
            InviteServer::Proceeding { .. }
            | InviteServer::Completed { .. }
            | InviteServer::Confirmed { .. }
            | InviteServer::Accepted { .. }
            | InviteServer::Terminated => (self, ServerAction::NONE),
        }
    }

    /// The transport could not deliver a response. The TU is told and the state stays, so that retransmissions of the
    /// INVITE are not taken for new ones (RFC 6026 sections 7.1 and 8.8). `Confirmed` sends nothing.
    pub fn on_transport_error(self) -> (Self, ServerAction) {
        let action = match self {
            InviteServer::Proceeding { .. }
            | InviteServer::Completed { .. }
            | InviteServer::Accepted { .. } => ServerAction::FAILED,
            InviteServer::Confirmed { .. } | InviteServer::Terminated => ServerAction::NONE,
        };
        (self, action)
    }

    /// When [`InviteServer::on_timeout`] is to be called; `None` when no timer runs.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match *self {
            InviteServer::Proceeding { trying_at } => trying_at,
            InviteServer::Completed { g_at, h_at, .. } => Some(earlier(g_at, h_at)),
            InviteServer::Confirmed { i_at } => Some(i_at),
            InviteServer::Accepted { l_at } => Some(l_at),
            InviteServer::Terminated => None,
        }
    }

    /// True when the transaction is over and can be dropped.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        matches!(self, InviteServer::Terminated)
    }
}
