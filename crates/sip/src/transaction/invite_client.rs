//! The INVITE client transaction: RFC 3261 section 17.1.1 and figure 5, as replaced by RFC 6026 sections 7.2 and 8.4.

#[cfg(test)]
mod tests;

use busyhour_engine::Instant;

use super::{Class, ClientAction, Reliability, Timers, earlier, fires_next};

/// State of an INVITE that was sent. The names are those of the figure; `_at` fields are when a timer fires.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum InviteClient {
    /// Sent, and no response yet.
    Calling {
        /// Timer A, the next retransmission; `None` on reliable transports.
        a_at: Option<Instant>,
        /// How often Timer A has fired.
        a_fired: u8,
        /// Timer B, when the INVITE is given up.
        b_at: Instant,
    },
    /// A provisional response came. No timer runs: the TU limits the wait (Timer C of a proxy).
    Proceeding,
    /// A 2xx came; further ones go to the TU, which acknowledges them itself.
    Accepted {
        /// Timer M, when no further 2xx is expected.
        m_at: Instant,
    },
    /// A 300–699 came and was acknowledged; its retransmissions are acknowledged again.
    Completed {
        /// Timer D, when no retransmission of the response is expected any more.
        d_at: Instant,
    },
    /// Over; to be dropped.
    Terminated,
}

impl InviteClient {
    /// The INVITE has just been sent for the first time.
    #[must_use]
    pub fn start(now: Instant, timers: &Timers, reliability: Reliability) -> Self {
        let a_at = match reliability {
            Reliability::Unreliable => Some(now + timers.a(0)),
            Reliability::Reliable => None,
        };
        InviteClient::Calling { a_at, a_fired: 0, b_at: now + timers.b() }
    }

    /// A response to this INVITE came.
    pub fn on_response(
        self,
        now: Instant,
        timers: &Timers,
        reliability: Reliability,
        status: u16,
    ) -> (Self, ClientAction) {
        use InviteClient::{Accepted, Calling, Completed, Proceeding, Terminated};
        let Some(class) = Class::of(status) else { return (self, ClientAction::NONE) };
        match (self, class) {
            (Calling { .. } | Proceeding, Class::Provisional) => (Proceeding, ClientAction::DELIVER),
            (Calling { .. } | Proceeding, Class::Success) => {
                (Accepted { m_at: now + timers.m() }, ClientAction::DELIVER)
            }
            (Calling { .. } | Proceeding, Class::Failure) => {
                let d = timers.d(reliability);
                let next = if d.is_zero() { Terminated } else { Completed { d_at: now + d } };
                (next, ClientAction::ACK_AND_DELIVER)
            }
            (Accepted { .. }, Class::Success) => (self, ClientAction::DELIVER),
            (Completed { .. }, Class::Failure) => (self, ClientAction::ACK),
            (Accepted { .. }, Class::Provisional | Class::Failure)
            | (Completed { .. }, Class::Provisional | Class::Success)
            | (Terminated, Class::Provisional | Class::Success | Class::Failure) => {
                (self, ClientAction::NONE)
            }
        }
    }

    /// Does what is due at `now`. Timer B goes before Timer A: an INVITE that is given up is not sent once more.
    pub fn on_timeout(
        self,
        now: Instant,
        timers: &Timers,
        _reliability: Reliability,
    ) -> (Self, ClientAction) {
        match self {
            InviteClient::Calling { b_at, .. } if b_at <= now => {
                (InviteClient::Terminated, ClientAction::TIMED_OUT)
            }
            InviteClient::Calling { a_at: Some(due), a_fired, b_at } if due <= now => {
                let a_fired = a_fired.saturating_add(1);
                let a_at = Some(fires_next(due, now, timers.a(a_fired)));
                (InviteClient::Calling { a_at, a_fired, b_at }, ClientAction::RETRANSMIT)
            }
            InviteClient::Accepted { m_at: end_at } | InviteClient::Completed { d_at: end_at }
                if end_at <= now =>
            {
                (InviteClient::Terminated, ClientAction::NONE)
            }
            InviteClient::Calling { .. }
            | InviteClient::Proceeding
            | InviteClient::Accepted { .. }
            | InviteClient::Completed { .. }
            | InviteClient::Terminated => (self, ClientAction::NONE),
        }
    }

    /// The transport could not deliver the INVITE (`Calling`) or its ACK (`Completed`). The other states have nothing
    /// under way of their own, so that a late error report does not end them (figure 5 has no such arrow).
    pub fn on_transport_error(self) -> (Self, ClientAction) {
        match self {
            InviteClient::Calling { .. } | InviteClient::Completed { .. } => {
                (InviteClient::Terminated, ClientAction::FAILED)
            }
            InviteClient::Proceeding | InviteClient::Accepted { .. } | InviteClient::Terminated => {
                (self, ClientAction::NONE)
            }
        }
    }

    /// When [`InviteClient::on_timeout`] is to be called; `None` when no timer runs.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match *self {
            InviteClient::Calling { a_at, b_at, .. } => Some(earlier(a_at, b_at)),
            InviteClient::Accepted { m_at } => Some(m_at),
            InviteClient::Completed { d_at } => Some(d_at),
            InviteClient::Proceeding | InviteClient::Terminated => None,
        }
    }

    /// True when the transaction is over and can be dropped.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        matches!(self, InviteClient::Terminated)
    }
}
