//! Every arrow of RFC 3261 figure 6, every timer, and every state against every event.

use super::super::tests::{at, run};
use super::{ClientAction, NonInviteClient, Reliability, Timers};
use NonInviteClient::{Completed, Proceeding, Terminated, Trying};
use Reliability::{Reliable, Unreliable};

const NONE: ClientAction = ClientAction::NONE;
const RETRANSMIT: ClientAction = ClientAction { retransmit: true, ..NONE };
const DELIVER: ClientAction = ClientAction { deliver: true, ..NONE };
const TIMED_OUT: ClientAction = ClientAction { timed_out: true, ..NONE };
const FAILED: ClientAction = ClientAction { failed: true, ..NONE };

fn trying(reliability: Reliability) -> NonInviteClient {
    NonInviteClient::start(at(0), &Timers::default(), reliability)
}

fn respond(
    to: NonInviteClient,
    ms: u64,
    reliability: Reliability,
    status: u16,
) -> (NonInviteClient, ClientAction) {
    to.on_response(at(ms), &Timers::default(), reliability, status)
}

/// RFC 3261 section 17.1.2.2: Timer E is T1 and doubles up to T2, Timer F is 64·T1; eleven requests in all.
#[test]
fn trying_timer_e_doubles_up_to_t2_until_timer_f() {
    let (end, seen) = run(trying(Unreliable), Unreliable);
    let resent = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    assert_eq!(seen, [&resent.map(|ms| (ms, RETRANSMIT))[..], &[(32_000, TIMED_OUT)]].concat());
    assert_eq!(end, Terminated);
}

/// RFC 3261 section 17.1.2.2: no Timer E on a reliable transport, Timer F all the same.
#[test]
fn a_reliable_transport_has_only_timer_f() {
    assert_eq!(run(trying(Reliable), Reliable), (Terminated, vec![(32_000, TIMED_OUT)]));
    let (proceeding, _) = respond(trying(Reliable), 100, Reliable, 100);
    assert_eq!(run(proceeding, Reliable), (Terminated, vec![(32_000, TIMED_OUT)]));
}

/// Figure 6, Trying → Proceeding on 1xx. RFC 3261 section 17.1.2.2: Timer E runs out as it was set, then for T2 each
/// time; Timer F still counts from the first request.
#[test]
fn trying_1xx_slows_timer_e_to_t2() {
    let (tx, action) = respond(trying(Unreliable), 100, Unreliable, 100);
    assert_eq!((tx, action), (Proceeding { e_at: Some(at(500)), f_at: at(32_000) }, DELIVER));
    let (end, seen) = run(tx, Unreliable);
    let resent = [500, 4500, 8500, 12_500, 16_500, 20_500, 24_500, 28_500];
    assert_eq!(seen, [&resent.map(|ms| (ms, RETRANSMIT))[..], &[(32_000, TIMED_OUT)]].concat());
    assert_eq!(end, Terminated);
}

/// Figure 6, Trying → Completed on 200–699; Timer K is T4 on an unreliable transport.
#[test]
fn trying_final_response_goes_to_completed() {
    for status in [200, 302, 404, 503, 699] {
        let expected = (Completed { k_at: at(5100) }, DELIVER);
        assert_eq!(respond(trying(Unreliable), 100, Unreliable, status), expected);
    }
}

/// RFC 3261 section 17.1.2.2: Timer K is zero on a reliable transport, so that `Completed` has no duration.
#[test]
fn final_response_on_a_reliable_transport_ends_at_once() {
    assert_eq!(respond(trying(Reliable), 100, Reliable, 200), (Terminated, DELIVER));
    let (proceeding, _) = respond(trying(Reliable), 100, Reliable, 100);
    assert_eq!(respond(proceeding, 200, Reliable, 500), (Terminated, DELIVER));
}

/// Figure 6, Trying → Terminated on a transport error (RFC 3261 section 17.1.4).
#[test]
fn trying_transport_error_ends() {
    assert_eq!(trying(Unreliable).on_transport_error(), (Terminated, FAILED));
}

/// Figure 6, Proceeding: each 1xx goes to the TU and leaves the timers alone.
#[test]
fn proceeding_1xx_is_delivered() {
    let proceeding = Proceeding { e_at: Some(at(500)), f_at: at(32_000) };
    assert_eq!(respond(proceeding, 100, Unreliable, 100), (proceeding, DELIVER));
}

/// Figure 6, Proceeding → Completed on 200–699.
#[test]
fn proceeding_final_response_goes_to_completed() {
    let proceeding = Proceeding { e_at: Some(at(4500)), f_at: at(32_000) };
    assert_eq!(respond(proceeding, 4000, Unreliable, 486), (Completed { k_at: at(9000) }, DELIVER));
}

/// Figure 6, Proceeding → Terminated on a transport error.
#[test]
fn proceeding_transport_error_ends() {
    let proceeding = Proceeding { e_at: Some(at(500)), f_at: at(32_000) };
    assert_eq!(proceeding.on_transport_error(), (Terminated, FAILED));
}

/// Figure 6, Completed: repeated responses are absorbed until Timer K, T4 after the first.
#[test]
fn completed_absorbs_until_timer_k() {
    let (completed, _) = respond(trying(Unreliable), 700, Unreliable, 200);
    assert_eq!(respond(completed, 1200, Unreliable, 200), (completed, NONE));
    assert_eq!(run(completed, Unreliable), (Terminated, vec![(5700, NONE)]));
}

/// An owner that comes late sends once for all that it missed, and gives up when Timer F has passed too.
#[test]
fn late_timeouts_do_not_burst() {
    let timers = Timers::default();
    let (tx, action) = trying(Unreliable).on_timeout(at(10_000), &timers, Unreliable);
    assert_eq!((tx.deadline(), action), (Some(at(11_000)), RETRANSMIT));
    let proceeding = Proceeding { e_at: Some(at(500)), f_at: at(32_000) };
    let (tx, action) = proceeding.on_timeout(at(10_000), &timers, Unreliable);
    assert_eq!((tx.deadline(), action), (Some(at(14_000)), RETRANSMIT));
    assert_eq!(tx.on_timeout(at(10_000), &timers, Unreliable), (tx, NONE));
    assert_eq!(proceeding.on_timeout(at(32_000), &timers, Unreliable), (Terminated, TIMED_OUT));
}

/// Every state against every event, 100 ms after the start and before any timer is due.
#[test]
fn every_state_and_every_event() {
    let statuses = [0, 99, 100, 199, 200, 299, 300, 486, 699, 700];
    let (trying, completed) = (trying(Unreliable), Completed { k_at: at(5000) });
    let proceeding = Proceeding { e_at: Some(at(500)), f_at: at(32_000) };
    let (informed, done) = ((proceeding, DELIVER), (Completed { k_at: at(5100) }, DELIVER));
    // One row per state: its responses in the order of `statuses`, then a transport error.
    let waiting = |tx| [(tx, NONE), (tx, NONE), informed, informed, done, done, done, done, done, (tx, NONE)];
    let table = [
        (trying, waiting(trying), (Terminated, FAILED)),
        (proceeding, waiting(proceeding), (Terminated, FAILED)),
        (completed, [(completed, NONE); 10], (completed, NONE)),
        (Terminated, [(Terminated, NONE); 10], (Terminated, NONE)),
    ];
    for (state, responses, transport_error) in table {
        for (status, expected) in statuses.into_iter().zip(responses) {
            assert_eq!(respond(state, 100, Unreliable, status), expected, "{state:?} on {status}");
        }
        assert_eq!(state.on_transport_error(), transport_error, "{state:?} on a transport error");
        let early = state.on_timeout(at(100), &Timers::default(), Unreliable);
        assert_eq!(early, (state, NONE), "{state:?} on an early timeout");
        assert_eq!(state.is_terminated(), state == Terminated);
        assert_eq!(state.deadline().is_none(), state == Terminated);
    }
}

/// `Trying` hands its timers to `Proceeding` unchanged, wherever Timer E stands.
#[test]
fn proceeding_inherits_a_doubled_timer_e() {
    let trying = Trying { e_at: Some(at(7500)), e_fired: 3, f_at: at(32_000) };
    let (tx, _) = respond(trying, 7000, Unreliable, 100);
    assert_eq!(tx, Proceeding { e_at: Some(at(7500)), f_at: at(32_000) });
}
