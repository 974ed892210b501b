//! The run as it looks at one moment, for live progress.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use busyhour_engine::Instant;
use busyhour_roles::ua::{CallRecord, Outcome};

use super::Recorder;
use super::counts::CallCounts;
use super::delays::{Delays, Sparse};
use super::interval::Delay;

/// How many of the last seconds the percentiles of a snapshot are of.
const RECENT_S: u64 = 5;

/// A run at one moment. Counts are cumulative, the warm-up included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Time since the load began.
    pub elapsed: Duration,
    /// Calls that were planned until this moment, whether they have ended or not.
    pub offered: u64,
    /// Calls that were completed.
    pub completed: u64,
    /// Failures by cause, most frequent first.
    pub failures: Vec<(Outcome, u64)>,
    /// Calls that were sent and have not ended.
    pub in_progress: u64,
    /// The median session request delay of the answered calls that ended in the last seconds, in seconds.
    pub srd_p50_s: Option<f64>,
    /// Its 99th percentile, in seconds.
    pub srd_p99_s: Option<f64>,
}

/// What has ended so far, and the delays of the last seconds by when the calls ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    ended: CallCounts,
    seconds: VecDeque<(u64, Sparse)>,
}

impl Recent {
    pub(super) fn record(&mut self, ended: Duration, call: &CallRecord) {
        self.ended.record(call);
        let [Some((Delay::Srd, srd)), ..] = Delay::of_call(call) else { return };
        let second = ended.as_secs();
        let newest = self.seconds.back().map_or(0, |(s, _)| *s).max(second);
        self.seconds.retain(|(s, _)| s + RECENT_S >= newest);
        match self.seconds.iter_mut().find(|(s, _)| *s == second) {
            Some((_, delays)) => delays.record(srd),
            None if second + RECENT_S >= newest => {
                let at = self.seconds.partition_point(|(s, _)| *s < second);
                let mut delays = Sparse::default();
                delays.record(srd);
                self.seconds.insert(at, (second, delays));
            }
            None => {}
        }
    }

    pub(super) fn merge(&mut self, other: &Recent) {
        self.ended.merge(&other.ended);
        let mut all: BTreeMap<u64, Sparse> = self.seconds.drain(..).collect();
        for (second, delays) in &other.seconds {
            all.entry(*second).or_default().merge(delays);
        }
        self.seconds = all.into_iter().collect();
    }
}

impl Recorder {
    /// The run at this moment. What has not ended is not in the recorder, so the runner tells it: how many calls were
    /// planned until `now`, and how many are in progress.
    pub fn snapshot(&self, now: Instant, offered: u64, in_progress: u64) -> Snapshot {
        let elapsed = now.since(self.config.origin);
        let mut delays = Delays::new();
        for (second, sparse) in &self.recent.seconds {
            if second + RECENT_S >= elapsed.as_secs() {
                sparse.add_to(&mut delays);
            }
        }
        Snapshot {
            elapsed,
            offered,
            completed: self.recent.ended.completed(),
            failures: self.recent.ended.failures(),
            in_progress,
            srd_p50_s: delays.quantile(0.5),
            srd_p99_s: delays.quantile(0.99),
        }
    }
}
