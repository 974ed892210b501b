//! What happened in one interval of the run, and in any stretch of it.

use busyhour_roles::ua::{CallRecord, Outcome, RegisterRecord};

use super::counts::{CallCounts, RegisterCounts, is_answered, is_failure_status, is_registered};
use super::delays::{Delays, Sparse};

/// Which distribution a delay belongs to. RFC 6076 section 4.3 forbids mixing the delays of successful and failed
/// session requests.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delay {
    /// Session request delay of answered calls.
    Srd,
    /// Session request delay of calls that got a failure response.
    SrdFailed,
    /// Registration request delay of successful registrations.
    Rrd,
    /// Session disconnect delay of completed calls.
    Sdd,
    /// How late the generator sent an INVITE.
    Lag,
}

impl Delay {
    /// All of them, in the order that files list them.
    pub const ALL: [Delay; 5] = [Delay::Srd, Delay::SrdFailed, Delay::Rrd, Delay::Sdd, Delay::Lag];

    /// The name in metrics and files.
    pub fn name(self) -> &'static str {
        match self {
            Delay::Srd => "srd",
            Delay::SrdFailed => "srd_failed",
            Delay::Rrd => "rrd",
            Delay::Sdd => "sdd",
            Delay::Lag => "lag",
        }
    }

    /// The delays that a call tells.
    pub(super) fn of_call(call: &CallRecord) -> [Option<(Delay, std::time::Duration)>; 3] {
        let srd = match call.outcome {
            _ if is_answered(call) => call.srd.map(|d| (Delay::Srd, d)),
            Outcome::Refused(status) if is_failure_status(status) => call.srd.map(|d| (Delay::SrdFailed, d)),
            Outcome::InviteTimeout => call.srd.map(|d| (Delay::SrdFailed, d)),
            Outcome::Refused(_)
            | Outcome::Completed
            | Outcome::ByeTimeout
            | Outcome::ByeRefused(_)
            | Outcome::Unfinished
            | Outcome::NotStarted => None,
        };
        let sdd = call.sdd.filter(|_| call.outcome == Outcome::Completed).map(|d| (Delay::Sdd, d));
        let sent = call.outcome != Outcome::NotStarted;
        let lag = sent.then(|| (Delay::Lag, call.sent.since(call.plan.at)));
        [srd, sdd, lag]
    }

    /// The delay that a registration tells.
    pub(super) fn of_registration(r: &RegisterRecord) -> Option<std::time::Duration> {
        r.rrd.filter(|_| is_registered(r))
    }
}

/// One interval. Calls and registrations belong to the interval that they were planned in; only `completed_by_end`
/// belongs to the one that they ended in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Interval {
    pub(super) calls: CallCounts,
    pub(super) completed_by_end: u64,
    pub(super) registrations: RegisterCounts,
    delays: [Sparse; 5],
}

impl Interval {
    pub(super) fn record_delay(&mut self, kind: Delay, delay: std::time::Duration) {
        self.delays[kind as usize].record(delay);
    }

    pub(super) fn merge(&mut self, other: &Interval) {
        self.calls.merge(&other.calls);
        self.completed_by_end += other.completed_by_end;
        self.registrations.merge(&other.registrations);
        for (ours, theirs) in self.delays.iter_mut().zip(&other.delays) {
            ours.merge(theirs);
        }
    }

    pub(super) fn add_delays_to(&self, kind: Delay, delays: &mut Delays) {
        self.delays[kind as usize].add_to(delays);
    }
}

/// A stretch of the run, with whole histograms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) calls: CallCounts,
    pub(super) completed_by_end: u64,
    pub(super) registrations: RegisterCounts,
    delays: [Delays; 5],
}

impl Totals {
    pub(super) fn delays(&self, kind: Delay) -> &Delays {
        &self.delays[kind as usize]
    }

    pub(super) fn record_delay(&mut self, kind: Delay, delay: std::time::Duration) {
        self.delays[kind as usize].record(delay);
    }

    pub(super) fn add_interval(&mut self, interval: &Interval) {
        self.calls.merge(&interval.calls);
        self.completed_by_end += interval.completed_by_end;
        self.registrations.merge(&interval.registrations);
        for kind in Delay::ALL {
            interval.add_delays_to(kind, &mut self.delays[kind as usize]);
        }
    }

    pub(super) fn merge(&mut self, other: &Totals) {
        self.calls.merge(&other.calls);
        self.completed_by_end += other.completed_by_end;
        self.registrations.merge(&other.registrations);
        for (ours, theirs) in self.delays.iter_mut().zip(&other.delays) {
            ours.add(theirs);
        }
    }
}
