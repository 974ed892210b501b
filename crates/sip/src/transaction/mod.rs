//! The transaction state machines: RFC 3261 section 17, as corrected by RFC 6026 (INVITE) and RFC 4320 (non-INVITE).
//!
//! Each machine is a small `Copy` value: an enum of its states with the instants of its timers inside. An event consumes
//! the state and returns the next one together with what the owner has to do ([`ClientAction`], [`ServerAction`]). What
//! to send again lives with the owner: no machine holds a message, a transport or a key to match messages with.
//!
//! Rules that hold for all four:
//! - The owner carries out the action before it drops a machine that has reached `Terminated`.
//! - `deadline()` is when `on_timeout` wants to be called. A call before that changes nothing; a call after it does all
//!   that is due, and leaves a deadline later than `now`. When several retransmissions are due at once, because the
//!   owner was late, one is made: a paused host does not come back with a burst.
//! - A timer that is zero on a reliable transport does not exist: the machine passes straight to the next state.
//! - `Terminated` absorbs every event.
//! - A status outside 100–699 is not an event.
//!
//! States that no timer ends are those that wait for the transaction user (TU): `Proceeding` of the INVITE client (a
//! proxy has Timer C, RFC 3261 section 16.6 step 11; a UAC gives up 64·T1 after its CANCEL, section 9.1), `Proceeding` of
//! the INVITE server, and `Proceeding` of the non-INVITE server. The TU ends them by an answer, or by dropping the machine.

mod invite_client;
mod invite_server;
mod non_invite_client;
mod non_invite_server;
#[cfg(test)]
mod tests;
mod timers;

use std::time::Duration;

use busyhour_engine::Instant;

pub use invite_client::InviteClient;
pub use invite_server::InviteServer;
pub use non_invite_client::NonInviteClient;
pub use non_invite_server::NonInviteServer;
pub use timers::{Timers, TimersError};

/// Whether the transport of a transaction retransmits by itself (RFC 3261 section 17: TCP, TLS, SCTP) or not (UDP).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reliability {
    /// The transaction retransmits, and waits for late retransmissions of its peer.
    Unreliable,
    /// Only the timers that guard against a silent peer run.
    Reliable,
}

/// What the owner must do after an event of a client transaction. [`ClientAction::NONE`] as the outcome of
/// `on_response` means that the response was absorbed (a late or repeated one).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a transaction only says what to do; its owner does it"]
pub struct ClientAction {
    /// Send the request again.
    pub retransmit: bool,
    /// Send the ACK to this non-2xx response, for the first time or again (INVITE only, RFC 3261 section 17.1.1.3).
    pub ack: bool,
    /// Hand this response to the TU.
    pub deliver: bool,
    /// Tell the TU that nobody answered: Timer B or F. For an INVITE it counts as a 408 (RFC 3261 section 16.8); for any
    /// other request no 408 may be made of it (RFC 4320 section 4.2).
    pub timed_out: bool,
    /// Tell the TU that the transport failed (RFC 3261 section 17.1.4). It counts as a 503 (section 8.1.3.1).
    pub failed: bool,
}

impl ClientAction {
    /// Nothing to do.
    pub const NONE: ClientAction =
        ClientAction { retransmit: false, ack: false, deliver: false, timed_out: false, failed: false };
    const RETRANSMIT: ClientAction = ClientAction { retransmit: true, ..ClientAction::NONE };
    const ACK: ClientAction = ClientAction { ack: true, ..ClientAction::NONE };
    const DELIVER: ClientAction = ClientAction { deliver: true, ..ClientAction::NONE };
    const ACK_AND_DELIVER: ClientAction = ClientAction { ack: true, deliver: true, ..ClientAction::NONE };
    const TIMED_OUT: ClientAction = ClientAction { timed_out: true, ..ClientAction::NONE };
    const FAILED: ClientAction = ClientAction { failed: true, ..ClientAction::NONE };
}

/// What the owner must do after an event of a server transaction. [`ServerAction::NONE`] as the outcome of `respond`
/// means that the response was refused: it came too late, or is not allowed here.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a transaction only says what to do; its owner does it"]
pub struct ServerAction {
    /// Send the response that was given to `respond`, and keep it as the last one.
    pub send: bool,
    /// Send the last response again.
    pub resend: bool,
    /// Generate 100 (Trying), send it, and keep it as the last response.
    pub trying: bool,
    /// Hand this ACK to the TU: it acknowledges a 2xx (RFC 6026 section 7.1).
    pub deliver: bool,
    /// Tell the TU that no ACK came: Timer H.
    pub timed_out: bool,
    /// Tell the TU that the transport failed. The state stays (RFC 6026 section 8.8).
    pub failed: bool,
    /// The request or ACK was a repeated or late one, and nothing is to be done about it.
    pub absorbed: bool,
}

impl ServerAction {
    /// Nothing to do.
    pub const NONE: ServerAction = ServerAction {
        send: false,
        resend: false,
        trying: false,
        deliver: false,
        timed_out: false,
        failed: false,
        absorbed: false,
    };
    const SEND: ServerAction = ServerAction { send: true, ..ServerAction::NONE };
    const RESEND: ServerAction = ServerAction { resend: true, ..ServerAction::NONE };
    const TRYING: ServerAction = ServerAction { trying: true, ..ServerAction::NONE };
    const DELIVER: ServerAction = ServerAction { deliver: true, ..ServerAction::NONE };
    const TIMED_OUT: ServerAction = ServerAction { timed_out: true, ..ServerAction::NONE };
    const FAILED: ServerAction = ServerAction { failed: true, ..ServerAction::NONE };
    const ABSORBED: ServerAction = ServerAction { absorbed: true, ..ServerAction::NONE };
}

/// The three kinds of response that the machines tell apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Class {
    /// 100–199.
    Provisional,
    /// 200–299.
    Success,
    /// 300–699.
    Failure,
}

impl Class {
    /// The class of `status`; `None` for what is no SIP status (RFC 3261 section 7.2).
    const fn of(status: u16) -> Option<Class> {
        match status {
            100..=199 => Some(Class::Provisional),
            200..=299 => Some(Class::Success),
            300..=699 => Some(Class::Failure),
            0..=99 | 700..=u16::MAX => None,
        }
    }
}

/// When a retransmission timer that was `due` and is handled at `now` fires next: an interval after it was due, so that
/// the granularity of the owner's clock does not add up; an interval after `now` when less than half of that is left.
///
/// # Panics
/// When `interval` is zero: it would be due for ever. [`Timers::check`] refuses the values that lead here.
fn fires_next(due: Instant, now: Instant, interval: Duration) -> Instant {
    assert!(!interval.is_zero(), "T1 and T2 are positive: Timers::check was not heeded");
    let next = due + interval;
    if next > now + interval / 2 { next } else { now + interval }
}

/// The earlier of a retransmission timer, which only exists on unreliable transports, and the timer that ends it.
fn earlier(retransmit_at: Option<Instant>, end_at: Instant) -> Instant {
    retransmit_at.map_or(end_at, |at| at.min(end_at))
}
