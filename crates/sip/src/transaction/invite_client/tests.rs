//! Every arrow of RFC 6026 section 8.4's figure 5, every timer, and every state against every event.

use std::time::Duration;

use super::super::tests::{at, run};
use super::{ClientAction, InviteClient, Reliability, Timers};
use InviteClient::{Accepted, Completed, Proceeding, Terminated};
use Reliability::{Reliable, Unreliable};

const NONE: ClientAction = ClientAction::NONE;
const RETRANSMIT: ClientAction = ClientAction { retransmit: true, ..NONE };
const DELIVER: ClientAction = ClientAction { deliver: true, ..NONE };
const ACK: ClientAction = ClientAction { ack: true, ..NONE };
const ACK_AND_DELIVER: ClientAction = ClientAction { ack: true, deliver: true, ..NONE };
const TIMED_OUT: ClientAction = ClientAction { timed_out: true, ..NONE };
const FAILED: ClientAction = ClientAction { failed: true, ..NONE };

fn calling(reliability: Reliability) -> InviteClient {
    InviteClient::start(at(0), &Timers::default(), reliability)
}

fn respond(to: InviteClient, ms: u64, reliability: Reliability, status: u16) -> (InviteClient, ClientAction) {
    to.on_response(at(ms), &Timers::default(), reliability, status)
}

/// RFC 3261 section 17.1.1.2: Timer A is T1 and doubles, Timer B is 64·T1; seven INVITEs in all, then the TU is told.
#[test]
fn calling_timer_a_doubles_until_timer_b() {
    let (end, seen) = run(calling(Unreliable), Unreliable);
    let resent = [500, 1500, 3500, 7500, 15_500, 31_500].map(|ms| (ms, RETRANSMIT));
    assert_eq!(seen, [&resent[..], &[(32_000, TIMED_OUT)]].concat());
    assert_eq!(end, Terminated);
}

/// RFC 3261 section 17.1.1.2: no Timer A on a reliable transport, Timer B all the same.
#[test]
fn calling_on_a_reliable_transport_has_only_timer_b() {
    assert_eq!(run(calling(Reliable), Reliable), (Terminated, vec![(32_000, TIMED_OUT)]));
}

/// RFC 3261 section 17.1.1.2: all intervals follow T1.
#[test]
fn calling_follows_t1() {
    let timers = Timers { t1: Duration::from_millis(10), ..Timers::default() };
    let tx = InviteClient::start(at(0), &timers, Unreliable);
    assert_eq!(tx.deadline(), Some(at(10)));
    let (tx, action) = tx.on_timeout(at(10), &timers, Unreliable);
    assert_eq!((tx.deadline(), action), (Some(at(30)), RETRANSMIT));
    assert_eq!(tx.on_timeout(at(640), &timers, Unreliable), (Terminated, TIMED_OUT));
}

/// Figure 5, Calling → Proceeding on 1xx, handed to the TU. RFC 3261 section 17.1.1.2: no more retransmissions.
#[test]
fn calling_1xx_stops_the_timers() {
    for reliability in [Unreliable, Reliable] {
        assert_eq!(respond(calling(reliability), 100, reliability, 100), (Proceeding, DELIVER));
    }
    assert_eq!(run(Proceeding, Unreliable), (Proceeding, vec![]), "waits for the TU (Timer C of a proxy)");
}

/// RFC 6026 section 7.2: Calling → Accepted on 2xx, handed to the TU, no ACK of this layer; Timer M on any transport.
#[test]
fn calling_2xx_goes_to_accepted() {
    for reliability in [Unreliable, Reliable] {
        let expected = (Accepted { m_at: at(32_100) }, DELIVER);
        assert_eq!(respond(calling(reliability), 100, reliability, 200), expected);
    }
}

/// Figure 5, Calling → Completed on 300–699: ACK, and the response to the TU.
#[test]
fn calling_300_to_699_is_acknowledged() {
    for status in [300, 486, 699] {
        let expected = (Completed { d_at: at(32_100) }, ACK_AND_DELIVER);
        assert_eq!(respond(calling(Unreliable), 100, Unreliable, status), expected);
    }
}

/// RFC 3261 section 17.1.1.2: Timer D is zero on a reliable transport, so that `Completed` has no duration.
#[test]
fn final_response_on_a_reliable_transport_ends_at_once() {
    assert_eq!(respond(calling(Reliable), 100, Reliable, 486), (Terminated, ACK_AND_DELIVER));
    assert_eq!(respond(Proceeding, 100, Reliable, 486), (Terminated, ACK_AND_DELIVER));
}

/// Figure 5, Calling → Terminated on a transport error (RFC 3261 section 17.1.4).
#[test]
fn calling_transport_error_ends() {
    assert_eq!(calling(Unreliable).on_transport_error(), (Terminated, FAILED));
}

/// Figure 5, Proceeding: each 1xx goes to the TU.
#[test]
fn proceeding_1xx_is_delivered() {
    for status in [100, 180, 183, 199] {
        assert_eq!(respond(Proceeding, 100, Unreliable, status), (Proceeding, DELIVER));
    }
}

/// RFC 6026 section 7.2: Proceeding → Accepted on 2xx.
#[test]
fn proceeding_2xx_goes_to_accepted() {
    assert_eq!(respond(Proceeding, 60_000, Unreliable, 200), (Accepted { m_at: at(92_000) }, DELIVER));
}

/// Figure 5, Proceeding → Completed on 300–699.
#[test]
fn proceeding_300_to_699_is_acknowledged() {
    let expected = (Completed { d_at: at(92_000) }, ACK_AND_DELIVER);
    assert_eq!(respond(Proceeding, 60_000, Unreliable, 603), expected);
}

/// RFC 6026 section 7.2: in Accepted each further 2xx goes to the TU, and does not extend Timer M.
#[test]
fn accepted_2xx_is_delivered() {
    let accepted = Accepted { m_at: at(32_000) };
    assert_eq!(respond(accepted, 20_000, Unreliable, 200), (accepted, DELIVER));
}

/// RFC 6026 section 7.2: Timer M, 64·T1 after the first 2xx.
#[test]
fn accepted_ends_with_timer_m() {
    let (accepted, _) = respond(calling(Unreliable), 700, Unreliable, 200);
    assert_eq!(run(accepted, Unreliable), (Terminated, vec![(32_700, NONE)]));
}

/// Figure 5, Completed: a repeated 300–699 is acknowledged again, not delivered, and does not extend Timer D.
#[test]
fn completed_300_to_699_is_acknowledged_again() {
    let completed = Completed { d_at: at(32_000) };
    assert_eq!(respond(completed, 500, Unreliable, 486), (completed, ACK));
}

/// Figure 5, Completed → Terminated when the ACK cannot be sent.
#[test]
fn completed_transport_error_ends() {
    assert_eq!(Completed { d_at: at(32_000) }.on_transport_error(), (Terminated, FAILED));
}

/// RFC 3261 section 17.1.1.2: Timer D, 32 s after the final response.
#[test]
fn completed_ends_with_timer_d() {
    let (completed, _) = respond(calling(Unreliable), 100, Unreliable, 404);
    assert_eq!(run(completed, Unreliable), (Terminated, vec![(32_100, NONE)]));
}

/// An owner that comes late sends once for all that it missed, and gives up when Timer B has passed too.
#[test]
fn late_timeouts_do_not_burst() {
    let timers = Timers::default();
    let (tx, action) = calling(Unreliable).on_timeout(at(10_000), &timers, Unreliable);
    assert_eq!((tx.deadline(), action), (Some(at(11_000)), RETRANSMIT));
    assert_eq!(tx.on_timeout(at(10_000), &timers, Unreliable), (tx, NONE));
    assert_eq!(calling(Unreliable).on_timeout(at(40_000), &timers, Unreliable), (Terminated, TIMED_OUT));
}

/// Every state against every event, 100 ms after the start and before any timer is due.
#[test]
fn every_state_and_every_event() {
    let statuses = [0, 99, 100, 199, 200, 299, 300, 486, 699, 700];
    let (calling, accepted) = (calling(Unreliable), Accepted { m_at: at(32_000) });
    let completed = Completed { d_at: at(32_000) };
    let to_accepted = (Accepted { m_at: at(32_100) }, DELIVER);
    let to_completed = (Completed { d_at: at(32_100) }, ACK_AND_DELIVER);
    let ringing = (Proceeding, DELIVER);
    // One row per state: its responses in the order of `statuses`, then a transport error.
    let stay = |tx: InviteClient, action| (tx, action);
    let first = |tx| {
        [stay(tx, NONE), stay(tx, NONE), ringing, ringing, to_accepted, to_accepted]
            .into_iter()
            .chain([to_completed, to_completed, to_completed, stay(tx, NONE)])
            .collect::<Vec<_>>()
    };
    let absorb = |tx, two_hundreds, failures| {
        [NONE, NONE, NONE, NONE, two_hundreds, two_hundreds, failures, failures, failures, NONE]
            .map(|action| stay(tx, action))
            .to_vec()
    };
    let table = [
        (calling, first(calling), (Terminated, FAILED)),
        (Proceeding, first(Proceeding), (Proceeding, NONE)),
        (accepted, absorb(accepted, DELIVER, NONE), (accepted, NONE)),
        (completed, absorb(completed, NONE, ACK), (Terminated, FAILED)),
        (Terminated, absorb(Terminated, NONE, NONE), (Terminated, NONE)),
    ];
    for (state, responses, transport_error) in table {
        assert_eq!(responses.len(), statuses.len());
        for (status, expected) in statuses.into_iter().zip(responses) {
            assert_eq!(respond(state, 100, Unreliable, status), expected, "{state:?} on {status}");
        }
        assert_eq!(state.on_transport_error(), transport_error, "{state:?} on a transport error");
        let early = state.on_timeout(at(100), &Timers::default(), Unreliable);
        assert_eq!(early, (state, NONE), "{state:?} on an early timeout");
        assert_eq!(state.is_terminated(), state == Terminated);
        assert_eq!(state.deadline().is_none(), matches!(state, Proceeding | Terminated));
    }
}
