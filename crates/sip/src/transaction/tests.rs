//! What the tests of the four machines share, and the properties that hold for each of them.

mod properties;

use std::fmt::Debug;
use std::time::Duration;

use busyhour_engine::Instant;

use super::{
    Class, ClientAction, InviteClient, InviteServer, NonInviteClient, NonInviteServer, Reliability,
    ServerAction, Timers, fires_next,
};

/// The moment `ms` milliseconds into a test.
pub(super) fn at(ms: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000) + Duration::from_millis(ms)
}

/// What a test can do with any of the machines.
pub(super) trait Machine: Copy + Debug + PartialEq {
    type Action: Copy + Debug + PartialEq + Default;
    fn timeout(self, now: Instant, timers: &Timers, reliability: Reliability) -> (Self, Self::Action);
    fn next_deadline(&self) -> Option<Instant>;
}

macro_rules! machine {
    ($machine:ty, $action:ty) => {
        impl Machine for $machine {
            type Action = $action;
            fn timeout(self, now: Instant, timers: &Timers, reliability: Reliability) -> (Self, $action) {
                self.on_timeout(now, timers, reliability)
            }
            fn next_deadline(&self) -> Option<Instant> {
                self.deadline()
            }
        }
    };
}
machine!(InviteClient, ClientAction);
machine!(NonInviteClient, ClientAction);
machine!(InviteServer, ServerAction);
machine!(NonInviteServer, ServerAction);

/// Lets virtual time pass until no timer runs any more: the state that is left, and what the timers asked for at which
/// millisecond. A timer that ends a state without asking for anything is listed with the empty action. Each timer is
/// tried a nanosecond early first, which must change nothing.
pub(super) fn run<M: Machine>(mut machine: M, reliability: Reliability) -> (M, Vec<(u64, M::Action)>) {
    let timers = Timers::default();
    let mut seen = Vec::new();
    while let Some(due) = machine.next_deadline() {
        assert!(seen.len() < 100, "does not end: {machine:?}");
        let early = machine.timeout(due - Duration::from_nanos(1), &timers, reliability);
        assert_eq!(early, (machine, M::Action::default()), "a timer fired early");
        let (next, action) = machine.timeout(due, &timers, reliability);
        assert!(next.next_deadline().is_none_or(|d| d > due), "{next:?} is still due at {due:?}");
        let since_start = due - at(0);
        assert_eq!(since_start.subsec_nanos() % 1_000_000, 0, "timers of whole milliseconds stay whole");
        seen.push((since_start.as_millis() as u64, action));
        machine = next;
    }
    (machine, seen)
}

/// They sit in slabs by the hundred thousand.
#[test]
fn machines_are_small() {
    assert_eq!(size_of::<InviteClient>(), 24);
    assert_eq!(size_of::<InviteServer>(), 24);
    assert_eq!(size_of::<NonInviteClient>(), 24);
    assert_eq!(size_of::<NonInviteServer>(), 16);
}

/// RFC 3261 section 7.2: six classes of status codes.
#[test]
fn every_status_has_its_class() {
    for status in 0..=u16::MAX {
        let expected = match status / 100 {
            1 => Some(Class::Provisional),
            2 => Some(Class::Success),
            3..=6 => Some(Class::Failure),
            _ => None,
        };
        assert_eq!(Class::of(status), expected, "{status}");
    }
}

#[test]
fn a_retransmission_timer_keeps_its_rhythm_unless_it_is_far_behind() {
    let second = Duration::from_secs(1);
    assert_eq!(fires_next(at(500), at(500), second), at(1500));
    assert_eq!(fires_next(at(500), at(501), second), at(1500), "a late tick does not shift what follows");
    assert_eq!(fires_next(at(500), at(999), second), at(1500));
    assert_eq!(fires_next(at(500), at(1000), second), at(2000), "two do not follow close upon each other");
    assert_eq!(fires_next(at(500), at(1500), second), at(2500), "what was missed is not made up for");
    assert_eq!(fires_next(at(500), at(9000), second), at(10_000));
}

/// A zero interval would be due for ever; the configuration is to be refused before.
#[test]
#[should_panic(expected = "Timers::check was not heeded")]
fn a_zero_t1_is_a_broken_invariant() {
    let timers = Timers { t1: Duration::ZERO, d: Duration::ZERO, ..Timers::default() };
    let stuck = InviteServer::Completed { g_at: Some(at(0)), g_fired: 0, h_at: at(1) };
    let _ = stuck.on_timeout(at(0), &timers, Reliability::Unreliable);
}
