//! Every arrow of RFC 3261 figure 8 as RFC 4320 and RFC 6026 leave it, every timer, and every state against every event.

use super::super::tests::{at, run};
use super::{NonInviteServer, Reliability, ServerAction, Timers};
use NonInviteServer::{Completed, Proceeding, Terminated, Trying};
use Reliability::{Reliable, Unreliable};

const NONE: ServerAction = ServerAction::NONE;
const SEND: ServerAction = ServerAction { send: true, ..NONE };
const RESEND: ServerAction = ServerAction { resend: true, ..NONE };
const TRYING: ServerAction = ServerAction { trying: true, ..NONE };
const FAILED: ServerAction = ServerAction { failed: true, ..NONE };
const ABSORBED: ServerAction = ServerAction { absorbed: true, ..NONE };

fn started() -> NonInviteServer {
    NonInviteServer::start(at(0), &Timers::default())
}

fn respond(
    tx: NonInviteServer,
    ms: u64,
    reliability: Reliability,
    status: u16,
) -> (NonInviteServer, ServerAction) {
    tx.respond(at(ms), &Timers::default(), reliability, status)
}

/// RFC 4320 section 4.1: 100 (Trying) when the client's Timer E has been set to T2, on any transport, and then never a
/// 408: no timer ends `Proceeding` (section 4.2).
#[test]
fn trying_sends_100_after_3500_ms() {
    for reliability in [Unreliable, Reliable] {
        assert_eq!(run(started(), reliability), (Proceeding, vec![(3500, TRYING)]));
    }
}

/// Figure 8, Trying: the request again is discarded (RFC 3261 section 17.2.2).
#[test]
fn trying_request_is_absorbed() {
    assert_eq!(started().on_request(at(500)), (started(), ABSORBED));
}

/// Figure 8, Trying → Proceeding on 1xx of the TU, which RFC 4320 section 4.1 leaves to 100 over reliable transports,
/// and to 100 that is due over the others.
#[test]
fn trying_100_of_the_tu_is_sent_when_it_is_allowed() {
    assert_eq!(respond(started(), 0, Reliable, 100), (Proceeding, SEND));
    assert_eq!(respond(started(), 3499, Unreliable, 100), (started(), NONE));
    assert_eq!(respond(started(), 3500, Unreliable, 100), (Proceeding, SEND));
}

/// RFC 4320 section 4.1: no provisional response but 100, on any transport, at any time.
#[test]
fn other_provisional_responses_are_refused() {
    for (reliability, status) in [(Unreliable, 101), (Reliable, 180), (Reliable, 199)] {
        assert_eq!(respond(started(), 5000, reliability, status), (started(), NONE));
        assert_eq!(respond(Proceeding, 5000, reliability, status), (Proceeding, NONE));
    }
}

/// Figure 8, Trying → Completed on 200–699 of the TU; Timer J is 64·T1.
#[test]
fn trying_final_response_goes_to_completed() {
    for status in [200, 302, 404, 503, 699] {
        assert_eq!(respond(started(), 100, Unreliable, status), (Completed { j_at: at(32_100) }, SEND));
    }
}

/// RFC 3261 section 17.2.2: Timer J is zero on a reliable transport, so that `Completed` has no duration.
#[test]
fn final_response_on_a_reliable_transport_ends_at_once() {
    assert_eq!(respond(started(), 100, Reliable, 200), (Terminated, SEND));
    assert_eq!(respond(Proceeding, 100, Reliable, 200), (Terminated, SEND));
}

/// Figure 8, Proceeding: 1xx of the TU is sent (RFC 4320 leaves the 100).
#[test]
fn proceeding_100_of_the_tu_is_sent() {
    assert_eq!(respond(Proceeding, 4000, Unreliable, 100), (Proceeding, SEND));
}

/// Figure 8, Proceeding: the request again gets the 100 again.
#[test]
fn proceeding_request_gets_the_last_response() {
    assert_eq!(Proceeding.on_request(at(7500)), (Proceeding, RESEND));
}

/// Figure 8, Proceeding → Completed on 200–699 of the TU.
#[test]
fn proceeding_final_response_goes_to_completed() {
    assert_eq!(respond(Proceeding, 4000, Unreliable, 200), (Completed { j_at: at(36_000) }, SEND));
}

/// RFC 6026 section 8.8 replaces figure 8's arrows to `Terminated`: a transport error is told, and the state stays.
#[test]
fn transport_errors_do_not_end_the_transaction() {
    for tx in [Proceeding, Completed { j_at: at(32_000) }] {
        assert_eq!(tx.on_transport_error(), (tx, FAILED));
    }
}

/// Figure 8, Completed: the request again gets the final response again, which does not extend Timer J.
#[test]
fn completed_request_gets_the_final_response() {
    let completed = Completed { j_at: at(32_000) };
    assert_eq!(completed.on_request(at(500)), (completed, RESEND));
}

/// RFC 3261 section 17.2.2: any other final response of the TU is discarded.
#[test]
fn completed_refuses_a_second_final_response() {
    let completed = Completed { j_at: at(32_000) };
    assert_eq!(respond(completed, 500, Unreliable, 500), (completed, NONE));
}

/// RFC 3261 section 17.2.2: Timer J, 64·T1 after the final response.
#[test]
fn completed_ends_with_timer_j() {
    let (completed, _) = respond(started(), 700, Unreliable, 200);
    assert_eq!(run(completed, Unreliable), (Terminated, vec![(32_700, NONE)]));
}

/// Every state against every event, 100 ms after the start and before any timer is due.
#[test]
fn every_state_and_every_event() {
    let statuses = [0, 99, 100, 101, 199, 200, 299, 300, 699, 700];
    let (trying, completed) = (Trying { trying_at: at(3500) }, Completed { j_at: at(32_000) });
    assert_eq!(trying, started());
    let (done, over) = ((Completed { j_at: at(32_100) }, SEND), (Terminated, SEND));
    let (no, wait) = ((trying, NONE), (Proceeding, NONE));
    let sent = (Proceeding, SEND);
    // One row per state: the TU's responses in the order of `statuses` over unreliable and over reliable transports;
    // the request again, a transport error.
    let table = [
        (
            trying,
            [no, no, no, no, no, done, done, done, done, no],
            [no, no, sent, no, no, over, over, over, over, no],
            [(trying, ABSORBED), (trying, NONE)],
        ),
        (
            Proceeding,
            [wait, wait, sent, wait, wait, done, done, done, done, wait],
            [wait, wait, sent, wait, wait, over, over, over, over, wait],
            [(Proceeding, RESEND), (Proceeding, FAILED)],
        ),
        (
            completed,
            [(completed, NONE); 10],
            [(completed, NONE); 10],
            [(completed, RESEND), (completed, FAILED)],
        ),
        (
            Terminated,
            [(Terminated, NONE); 10],
            [(Terminated, NONE); 10],
            [(Terminated, ABSORBED), (Terminated, NONE)],
        ),
    ];
    for (state, unreliable, reliable, others) in table {
        for (reliability, expected) in [(Unreliable, unreliable), (Reliable, reliable)] {
            let seen = statuses.map(|status| respond(state, 100, reliability, status));
            assert_eq!(seen, expected, "{state:?} over {reliability:?}");
        }
        assert_eq!([state.on_request(at(100)), state.on_transport_error()], others, "{state:?}");
        let early = state.on_timeout(at(100), &Timers::default(), Unreliable);
        assert_eq!(early, (state, NONE), "{state:?} on an early timeout");
        assert_eq!(state.is_terminated(), state == Terminated);
        assert_eq!(state.deadline().is_none(), matches!(state, Proceeding | Terminated));
    }
}
