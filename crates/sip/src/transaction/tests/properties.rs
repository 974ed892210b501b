//! Random timers, random events at random times, for each machine: nothing panics, no timer fires early, what is handled
//! is no longer due, and once the input stops each machine ends or waits for its TU.

use std::mem::discriminant;

use proptest::prelude::*;

use super::*;

/// What can happen to a machine from outside; a machine ignores what is not for its side.
#[derive(Copy, Clone, Debug)]
enum Event {
    /// A response: received by a client, given by the TU to a server.
    Response(u16),
    Request,
    Ack,
    TransportError,
}

/// A machine, and what the RFCs say about how long its states last, written down independently of its code.
trait Subject: Machine {
    fn start(now: Instant, timers: &Timers, reliability: Reliability) -> Self;
    fn event(
        self,
        now: Instant,
        timers: &Timers,
        reliability: Reliability,
        event: Event,
    ) -> (Self, Self::Action);
    fn resends(action: Self::Action) -> bool;
    fn over(&self) -> bool;
    /// When timers alone end the present state, given when the transaction and when the state began. `None` for a state
    /// that only the TU ends.
    fn ends_at(&self, born: Instant, entered: Instant, timers: &Timers) -> Option<Instant>;
}

macro_rules! client {
    ($machine:ty, $ends_at:expr) => {
        impl Subject for $machine {
            fn start(now: Instant, timers: &Timers, reliability: Reliability) -> Self {
                <$machine>::start(now, timers, reliability)
            }
            fn event(self, now: Instant, t: &Timers, r: Reliability, event: Event) -> (Self, ClientAction) {
                match event {
                    Event::Response(status) => self.on_response(now, t, r, status),
                    Event::TransportError => self.on_transport_error(),
                    Event::Request | Event::Ack => (self, ClientAction::NONE),
                }
            }
            fn resends(action: ClientAction) -> bool {
                action.retransmit
            }
            fn over(&self) -> bool {
                self.is_terminated()
            }
            fn ends_at(&self, born: Instant, entered: Instant, timers: &Timers) -> Option<Instant> {
                $ends_at(self, born, entered, timers)
            }
        }
    };
}

client!(InviteClient, |tx: &InviteClient, born: Instant, entered: Instant, t: &Timers| match tx {
    InviteClient::Calling { .. } => Some(born + t.t1 * 64),
    InviteClient::Accepted { .. } => Some(entered + t.t1 * 64),
    InviteClient::Completed { .. } => Some(entered + t.d),
    InviteClient::Proceeding | InviteClient::Terminated => None,
});
client!(NonInviteClient, |tx: &NonInviteClient, born: Instant, entered: Instant, t: &Timers| match tx {
    NonInviteClient::Trying { .. } | NonInviteClient::Proceeding { .. } => Some(born + t.t1 * 64),
    NonInviteClient::Completed { .. } => Some(entered + t.t4),
    NonInviteClient::Terminated => None,
});

impl Subject for InviteServer {
    fn start(now: Instant, timers: &Timers, _: Reliability) -> Self {
        InviteServer::start(now, timers)
    }
    fn event(self, now: Instant, t: &Timers, r: Reliability, event: Event) -> (Self, ServerAction) {
        match event {
            Event::Response(status) => self.respond(now, t, r, status),
            Event::Request => self.on_request(now),
            Event::Ack => self.on_ack(now, t, r),
            Event::TransportError => self.on_transport_error(),
        }
    }
    fn resends(action: ServerAction) -> bool {
        action.resend
    }
    fn over(&self) -> bool {
        self.is_terminated()
    }
    fn ends_at(&self, _: Instant, entered: Instant, t: &Timers) -> Option<Instant> {
        match self {
            InviteServer::Completed { .. } | InviteServer::Accepted { .. } => Some(entered + t.t1 * 64),
            InviteServer::Confirmed { .. } => Some(entered + t.t4),
            InviteServer::Proceeding { .. } | InviteServer::Terminated => None,
        }
    }
}

impl Subject for NonInviteServer {
    fn start(now: Instant, timers: &Timers, _: Reliability) -> Self {
        NonInviteServer::start(now, timers)
    }
    fn event(self, now: Instant, t: &Timers, r: Reliability, event: Event) -> (Self, ServerAction) {
        match event {
            Event::Response(status) => self.respond(now, t, r, status),
            Event::Request => self.on_request(now),
            Event::Ack => (self, ServerAction::NONE),
            Event::TransportError => self.on_transport_error(),
        }
    }
    fn resends(action: ServerAction) -> bool {
        action.resend
    }
    fn over(&self) -> bool {
        self.is_terminated()
    }
    fn ends_at(&self, born: Instant, entered: Instant, t: &Timers) -> Option<Instant> {
        match self {
            NonInviteServer::Trying { .. } => Some(born + t.non_invite_trying_after()),
            NonInviteServer::Completed { .. } => Some(entered + t.t1 * 64),
            NonInviteServer::Proceeding | NonInviteServer::Terminated => None,
        }
    }
}

/// One transaction under test, with what the oracle needs to know of its past.
struct Life<'a, M> {
    tx: M,
    timers: &'a Timers,
    reliability: Reliability,
    born: Instant,
    entered: Instant,
    resent_at: Option<Instant>,
    resent: u32,
}

impl<M: Subject> Life<'_, M> {
    fn enter(&mut self, now: Instant, next: M) {
        if discriminant(&next) != discriminant(&self.tx) {
            self.entered = now;
        }
        self.tx = next;
    }

    /// Calls `on_timeout` at `now`. `punctual` says that the owner has never been late.
    fn timeout(&mut self, now: Instant, punctual: bool) {
        let due = self.tx.next_deadline();
        let (next, action) = self.tx.timeout(now, self.timers, self.reliability);
        assert!(next.next_deadline().is_none_or(|d| d > now), "{next:?} is still due at {now:?}");
        if due.is_none_or(|due| due > now) {
            assert_eq!((next, action), (self.tx, M::Action::default()), "acted before it was due");
        }
        if discriminant(&next) != discriminant(&self.tx) {
            let ends_at = self.tx.ends_at(self.born, self.entered, self.timers);
            assert!(ends_at.is_some_and(|at| at <= now), "{:?} ended at {now:?}, not {ends_at:?}", self.tx);
            assert!(!punctual || ends_at == Some(now), "{:?} ended at {now:?}, not {ends_at:?}", self.tx);
        }
        if M::resends(action) {
            assert_eq!(
                self.reliability,
                Reliability::Unreliable,
                "a reliable transport needs no retransmission"
            );
            let gap = self.resent_at.map_or(Duration::MAX, |before| now - before);
            let least = if punctual { self.timers.t1 } else { self.timers.t1 / 2 };
            assert!(gap >= least, "retransmitted again after {gap:?}");
            self.resent_at = Some(now);
            self.resent += 1;
            assert!(self.resent <= 128, "64·T1 has room for no more, even if each gap is T1 / 2");
        }
        self.enter(now, next);
    }

    /// Calls `on_timeout` exactly when it is due, as long as that is not later than `until`.
    fn pass(&mut self, until: Instant, punctual: bool) {
        while let Some(due) = self.tx.next_deadline().filter(|due| *due <= until) {
            self.timeout(due, punctual);
        }
    }

    fn event(&mut self, now: Instant, event: Event) {
        let (next, action) = self.tx.event(now, self.timers, self.reliability, event);
        if self.tx.over() {
            assert_eq!(next, self.tx, "a terminated transaction stays so");
            assert!(!M::resends(action));
        }
        self.enter(now, next);
    }
}

fn live<M: Subject>(timers: &Timers, reliability: Reliability, punctual: bool, script: &[(Duration, Event)]) {
    timers.check().expect("the strategy makes timers that go together");
    let born = at(0);
    let tx = M::start(born, timers, reliability);
    let mut life = Life { tx, timers, reliability, born, entered: born, resent_at: None, resent: 0 };
    let mut now = born;
    for (gap, event) in script {
        now += *gap;
        if punctual {
            life.pass(now, true);
        } else {
            life.timeout(now, false);
        }
        life.event(now, *event);
    }
    // The input stops: whatever state this is, no more than the longest timer still runs.
    let longest = [timers.t1 * 64, timers.d, timers.t4, timers.trying_after].into_iter().max();
    life.timeout(now, punctual);
    life.pass(now + longest.expect("four durations"), punctual);
    let waits_for_tu = life.tx.ends_at(born, life.entered, timers).is_none();
    assert!(waits_for_tu && life.tx.next_deadline().is_none(), "{:?} goes on", life.tx);
}

fn timers() -> impl Strategy<Value = Timers> {
    let nanos = |max: u64| (0..=max).prop_map(Duration::from_nanos);
    let t1 = (1..=2_000_000_000u64).prop_map(Duration::from_nanos);
    (t1, 1..=20u32, nanos(10_000_000_000), nanos(10_000_000_000), nanos(1_000_000_000)).prop_map(
        |(t1, times, t4, more, trying_after)| Timers {
            t1,
            t2: t1 * times,
            t4,
            d: t1 * 64 + more,
            trying_after,
        },
    )
}

/// Gaps from nothing to most of a Timer B; events of every kind, statuses of every class and of none.
fn script(t1: Duration) -> impl Strategy<Value = Vec<(Duration, Event)>> {
    let event = (0..11u8, any::<u16>()).prop_map(|(kind, n)| match kind {
        0..=1 => Event::Response(100 + n % 100),
        2 => Event::Response(200 + n % 100),
        3 => Event::Response(300 + n % 400),
        4 => Event::Response(n),
        5..=7 => Event::Request,
        8..=9 => Event::Ack,
        10.. => Event::TransportError,
    });
    // Half of the gaps are of the order of T1, half of the order of Timer B.
    let gap = (any::<bool>(), 0..=200u32)
        .prop_map(move |(long, hundredths)| t1 * hundredths * if long { 20 } else { 1 } / 100);
    proptest::collection::vec((gap, event), 0..24)
}

proptest! {
    #[test]
    fn any_life_ends_in_time_and_no_timer_is_early(
        (timers, script) in timers().prop_flat_map(|t| (Just(t), script(t.t1))),
        reliable in any::<bool>(),
        punctual in any::<bool>(),
    ) {
        let reliability = if reliable { Reliability::Reliable } else { Reliability::Unreliable };
        live::<InviteClient>(&timers, reliability, punctual, &script);
        live::<NonInviteClient>(&timers, reliability, punctual, &script);
        live::<InviteServer>(&timers, reliability, punctual, &script);
        live::<NonInviteServer>(&timers, reliability, punctual, &script);
    }
}
