//! Every arrow of RFC 6026 section 8.7's figure 7, every timer, and every state against every event.

use super::super::tests::{at, run};
use super::{InviteServer, Reliability, ServerAction, Timers};
use InviteServer::{Accepted, Completed, Confirmed, Proceeding, Terminated};
use Reliability::{Reliable, Unreliable};

const NONE: ServerAction = ServerAction::NONE;
const SEND: ServerAction = ServerAction { send: true, ..NONE };
const RESEND: ServerAction = ServerAction { resend: true, ..NONE };
const TRYING: ServerAction = ServerAction { trying: true, ..NONE };
const DELIVER: ServerAction = ServerAction { deliver: true, ..NONE };
const TIMED_OUT: ServerAction = ServerAction { timed_out: true, ..NONE };
const FAILED: ServerAction = ServerAction { failed: true, ..NONE };
const ABSORBED: ServerAction = ServerAction { absorbed: true, ..NONE };

const ANSWERED: InviteServer = Proceeding { trying_at: None };

fn started() -> InviteServer {
    InviteServer::start(at(0), &Timers::default())
}

fn respond(tx: InviteServer, ms: u64, reliability: Reliability, status: u16) -> (InviteServer, ServerAction) {
    tx.respond(at(ms), &Timers::default(), reliability, status)
}

fn ack(tx: InviteServer, ms: u64, reliability: Reliability) -> (InviteServer, ServerAction) {
    tx.on_ack(at(ms), &Timers::default(), reliability)
}

fn completed(ms: u64) -> InviteServer {
    Completed { g_at: Some(at(ms + 500)), g_fired: 0, h_at: at(ms + 32_000) }
}

/// RFC 3261 section 17.2.1: 100 (Trying) after 200 ms when the TU has not answered; then no timer runs, because
/// provisional responses are not retransmitted and only the TU ends the wait.
#[test]
fn proceeding_sends_trying_once_after_200_ms() {
    for reliability in [Unreliable, Reliable] {
        assert_eq!(run(started(), reliability), (ANSWERED, vec![(200, TRYING)]));
    }
}

/// Figure 7, Proceeding: each 1xx of the TU is sent, and makes the 100 (Trying) unnecessary.
#[test]
fn proceeding_1xx_of_the_tu_is_sent() {
    for status in [100, 180, 183, 199] {
        assert_eq!(respond(started(), 100, Unreliable, status), (ANSWERED, SEND));
        assert_eq!(respond(ANSWERED, 300, Unreliable, status), (ANSWERED, SEND));
    }
    assert_eq!(run(ANSWERED, Unreliable), (ANSWERED, vec![]));
}

/// Figure 7, Proceeding: the INVITE again gets the last provisional response again; before there is one, nothing.
#[test]
fn proceeding_invite_gets_the_last_provisional_response() {
    assert_eq!(started().on_request(at(100)), (started(), ABSORBED));
    assert_eq!(ANSWERED.on_request(at(500)), (ANSWERED, RESEND));
}

/// RFC 6026 section 7.1: Proceeding → Accepted on 2xx of the TU, with Timer L on any transport.
#[test]
fn proceeding_2xx_goes_to_accepted() {
    for (reliability, tx) in [(Unreliable, started()), (Reliable, started()), (Unreliable, ANSWERED)] {
        assert_eq!(respond(tx, 100, reliability, 200), (Accepted { l_at: at(32_100) }, SEND));
    }
}

/// Figure 7, Proceeding → Completed on 300–699 of the TU.
#[test]
fn proceeding_300_to_699_goes_to_completed() {
    for status in [300, 486, 699] {
        assert_eq!(respond(started(), 100, Unreliable, status), (completed(100), SEND));
        assert_eq!(respond(ANSWERED, 100, Unreliable, status), (completed(100), SEND));
    }
}

/// RFC 6026 section 8.8: a transport error is told to the TU, and the state stays.
#[test]
fn transport_errors_do_not_end_the_transaction() {
    for tx in [started(), ANSWERED, completed(0), Accepted { l_at: at(32_000) }] {
        assert_eq!(tx.on_transport_error(), (tx, FAILED));
    }
}

/// RFC 3261 section 17.2.1: Timer G is T1 and doubles up to T2; Timer H, 64·T1, ends the wait for the ACK and is told.
#[test]
fn completed_timer_g_doubles_up_to_t2_until_timer_h() {
    let (tx, _) = respond(started(), 0, Unreliable, 486);
    let (end, seen) = run(tx, Unreliable);
    let resent = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    assert_eq!(seen, [&resent.map(|ms| (ms, RESEND))[..], &[(32_000, TIMED_OUT)]].concat());
    assert_eq!(end, Terminated);
}

/// RFC 3261 section 17.2.1: no Timer G on a reliable transport, Timer H all the same.
#[test]
fn completed_on_a_reliable_transport_has_only_timer_h() {
    let (tx, action) = respond(started(), 100, Reliable, 486);
    assert_eq!((tx, action), (Completed { g_at: None, g_fired: 0, h_at: at(32_100) }, SEND));
    assert_eq!(run(tx, Reliable), (Terminated, vec![(32_100, TIMED_OUT)]));
}

/// Figure 7, Completed: the INVITE again gets the final response again, and Timer G keeps its rhythm.
#[test]
fn completed_invite_gets_the_final_response_again() {
    assert_eq!(completed(0).on_request(at(400)), (completed(0), RESEND));
}

/// Figure 7, Completed → Confirmed on ACK; Timer I is T4.
#[test]
fn completed_ack_goes_to_confirmed() {
    assert_eq!(ack(completed(0), 100, Unreliable), (Confirmed { i_at: at(5100) }, NONE));
}

/// RFC 3261 section 17.2.1: Timer I is zero on a reliable transport, so that `Confirmed` has no duration.
#[test]
fn completed_ack_on_a_reliable_transport_ends_at_once() {
    let (tx, _) = respond(started(), 0, Reliable, 486);
    assert_eq!(ack(tx, 100, Reliable), (Terminated, NONE));
}

/// RFC 3261 section 17.2.1: Confirmed absorbs ACKs until Timer I, T4 after the first.
#[test]
fn confirmed_absorbs_until_timer_i() {
    let confirmed = Confirmed { i_at: at(5100) };
    assert_eq!(ack(confirmed, 4000, Unreliable), (confirmed, ABSORBED));
    assert_eq!(run(confirmed, Unreliable), (Terminated, vec![(5100, NONE)]));
}

/// RFC 6026 section 7.1: in Accepted the INVITE is absorbed, each 2xx of the TU sent, each ACK handed to the TU.
#[test]
fn accepted_passes_on_what_belongs_to_the_2xx() {
    let accepted = Accepted { l_at: at(32_000) };
    assert_eq!(accepted.on_request(at(500)), (accepted, ABSORBED));
    assert_eq!(respond(accepted, 500, Unreliable, 200), (accepted, SEND));
    assert_eq!(ack(accepted, 500, Unreliable), (accepted, DELIVER));
    assert_eq!(ack(accepted, 600, Reliable), (accepted, DELIVER));
}

/// RFC 6026 section 7.1: Timer L, 64·T1 after the first 2xx.
#[test]
fn accepted_ends_with_timer_l() {
    for reliability in [Unreliable, Reliable] {
        let (accepted, _) = respond(started(), 150, reliability, 200);
        assert_eq!(run(accepted, reliability), (Terminated, vec![(32_150, NONE)]));
    }
}

/// An owner that comes late sends once for all that it missed, and gives up when Timer H has passed too.
#[test]
fn late_timeouts_do_not_burst() {
    let timers = Timers::default();
    let (tx, action) = completed(0).on_timeout(at(10_000), &timers, Unreliable);
    assert_eq!((tx.deadline(), action), (Some(at(11_000)), RESEND));
    assert_eq!(tx.on_timeout(at(10_000), &timers, Unreliable), (tx, NONE));
    assert_eq!(completed(0).on_timeout(at(32_000), &timers, Unreliable), (Terminated, TIMED_OUT));
}

/// Every state against every event, 100 ms after the start and before any timer is due.
#[test]
fn every_state_and_every_event() {
    let statuses = [0, 99, 100, 199, 200, 299, 300, 486, 699, 700];
    let (started, completed_before) = (started(), completed(0));
    let (confirmed, accepted) = (Confirmed { i_at: at(5000) }, Accepted { l_at: at(32_000) });
    let (ringing, taken) = ((ANSWERED, SEND), (Accepted { l_at: at(32_100) }, SEND));
    let refused = (completed(100), SEND);
    let open = |tx| {
        let no = (tx, NONE);
        [no, no, ringing, ringing, taken, taken, refused, refused, refused, no]
    };
    let only_2xx = [NONE, NONE, NONE, NONE, SEND, SEND, NONE, NONE, NONE, NONE].map(|a| (accepted, a));
    let to_confirmed = (Confirmed { i_at: at(5100) }, NONE);
    // One row per state: the TU's responses in the order of `statuses`; INVITE, ACK, transport error.
    let table = [
        (started, open(started), [(started, ABSORBED), (started, ABSORBED), (started, FAILED)]),
        (ANSWERED, open(ANSWERED), [(ANSWERED, RESEND), (ANSWERED, ABSORBED), (ANSWERED, FAILED)]),
        (
            completed_before,
            [(completed_before, NONE); 10],
            [(completed_before, RESEND), to_confirmed, (completed_before, FAILED)],
        ),
        (
            confirmed,
            [(confirmed, NONE); 10],
            [(confirmed, ABSORBED), (confirmed, ABSORBED), (confirmed, NONE)],
        ),
        (accepted, only_2xx, [(accepted, ABSORBED), (accepted, DELIVER), (accepted, FAILED)]),
        (Terminated, [(Terminated, NONE); 10], [ABSORBED, ABSORBED, NONE].map(|a| (Terminated, a))),
    ];
    for (state, responses, others) in table {
        for (status, expected) in statuses.into_iter().zip(responses) {
            assert_eq!(respond(state, 100, Unreliable, status), expected, "{state:?} given {status}");
        }
        let seen = [state.on_request(at(100)), ack(state, 100, Unreliable), state.on_transport_error()];
        assert_eq!(seen, others, "{state:?} on INVITE, ACK, transport error");
        let early = state.on_timeout(at(100), &Timers::default(), Unreliable);
        assert_eq!(early, (state, NONE), "{state:?} on an early timeout");
        assert_eq!(state.is_terminated(), state == Terminated);
        assert_eq!(state.deadline().is_none(), state == ANSWERED || state == Terminated);
    }
}
