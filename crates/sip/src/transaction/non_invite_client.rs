//! The non-INVITE client transaction: RFC 3261 section 17.1.2 and figure 6.

#[cfg(test)]
mod tests;

use busyhour_engine::Instant;

use super::{Class, ClientAction, Reliability, Timers, earlier, fires_next};

/// State of a request other than INVITE and ACK that was sent. `_at` fields are when a timer fires.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum NonInviteClient {
    /// Sent, and no response yet.
    Trying {
        /// Timer E, the next retransmission; `None` on reliable transports.
        e_at: Option<Instant>,
        /// How often Timer E has fired.
        e_fired: u8,
        /// Timer F, when the request is given up.
        f_at: Instant,
    },
    /// A provisional response came; the request is still retransmitted, every T2.
    Proceeding {
        /// Timer E, the next retransmission; `None` on reliable transports.
        e_at: Option<Instant>,
        /// Timer F, when the request is given up.
        f_at: Instant,
    },
    /// The final response came; its retransmissions are absorbed.
    Completed {
        /// Timer K, when no retransmission of the response is expected any more.
        k_at: Instant,
    },
    /// Over; to be dropped.
    Terminated,
}

impl NonInviteClient {
    /// The request has just been sent for the first time.
    #[must_use]
    pub fn start(now: Instant, timers: &Timers, reliability: Reliability) -> Self {
        let e_at = match reliability {
            Reliability::Unreliable => Some(now + timers.e(0)),
            Reliability::Reliable => None,
        };
        NonInviteClient::Trying { e_at, e_fired: 0, f_at: now + timers.f() }
    }

    /// A response to this request came. A first provisional response leaves Timer E as it is set; only when it has
    /// fired does it run for T2 (RFC 3261 section 17.1.2.2).
    pub fn on_response(
        self,
        now: Instant,
        timers: &Timers,
        reliability: Reliability,
        status: u16,
    ) -> (Self, ClientAction) {
        use NonInviteClient::{Completed, Proceeding, Terminated, Trying};
        let Some(class) = Class::of(status) else { return (self, ClientAction::NONE) };
        match (self, class) {
            (Trying { e_at, f_at, .. } | Proceeding { e_at, f_at }, Class::Provisional) => {
                (Proceeding { e_at, f_at }, ClientAction::DELIVER)
            }
            (Trying { .. } | Proceeding { .. }, Class::Success | Class::Failure) => {
                let k = timers.k(reliability);
                let next = if k.is_zero() { Terminated } else { Completed { k_at: now + k } };
                (next, ClientAction::DELIVER)
            }
            (Completed { .. } | Terminated, Class::Provisional | Class::Success | Class::Failure) => {
                (self, ClientAction::NONE)
            }
        }
    }

    /// Does what is due at `now`. Timer F goes before Timer E: a request that is given up is not sent once more.
    pub fn on_timeout(
        self,
        now: Instant,
        timers: &Timers,
        _reliability: Reliability,
    ) -> (Self, ClientAction) {
        match self {
            NonInviteClient::Trying { f_at, .. } | NonInviteClient::Proceeding { f_at, .. }
                if f_at <= now =>
            {
                (NonInviteClient::Terminated, ClientAction::TIMED_OUT)
            }
            NonInviteClient::Trying { e_at: Some(due), e_fired, f_at } if due <= now => {
                let e_fired = e_fired.saturating_add(1);
                let e_at = Some(fires_next(due, now, timers.e(e_fired)));
                (NonInviteClient::Trying { e_at, e_fired, f_at }, ClientAction::RETRANSMIT)
            }
            NonInviteClient::Proceeding { e_at: Some(due), f_at } if due <= now => {
                let e_at = Some(fires_next(due, now, timers.t2));
                (NonInviteClient::Proceeding { e_at, f_at }, ClientAction::RETRANSMIT)
            }
            NonInviteClient::Completed { k_at } if k_at <= now => {
                (NonInviteClient::Terminated, ClientAction::NONE)
            }
            NonInviteClient::Trying { .. }
            | NonInviteClient::Proceeding { .. }
            | NonInviteClient::Completed { .. }
            | NonInviteClient::Terminated => (self, ClientAction::NONE),
        }
    }

    /// The transport could not deliver the request (RFC 3261 section 17.1.4). `Completed` sends nothing.
    pub fn on_transport_error(self) -> (Self, ClientAction) {
        match self {
            NonInviteClient::Trying { .. } | NonInviteClient::Proceeding { .. } => {
                (NonInviteClient::Terminated, ClientAction::FAILED)
            }
            NonInviteClient::Completed { .. } | NonInviteClient::Terminated => (self, ClientAction::NONE),
        }
    }

    /// When [`NonInviteClient::on_timeout`] is to be called; `None` when no timer runs.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match *self {
            NonInviteClient::Trying { e_at, f_at, .. } | NonInviteClient::Proceeding { e_at, f_at } => {
                Some(earlier(e_at, f_at))
            }
            NonInviteClient::Completed { k_at } => Some(k_at),
            NonInviteClient::Terminated => None,
        }
    }

    /// True when the transaction is over and can be dropped.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        matches!(self, NonInviteClient::Terminated)
    }
}
