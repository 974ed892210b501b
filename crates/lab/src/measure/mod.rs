//! Collecting what a run tells — calls, registrations, proxies, the generator — into totals and a time series.
//!
//! A [`Recorder`] owns all figures of a run. It is fed records in any order; calls and registrations count in the
//! interval that they were *planned* in (open loop), completions also in the interval that they happened in. What was
//! planned before the warm-up is over is in the series and not in the totals. Recorders merge without loss, because
//! they keep histograms and counts, never percentiles or rates.
//!
//! Memory: an interval costs a few hundred histogram entries, and there are at most [`INTERVALS_MAX`] intervals; a
//! longer run gets longer ones. It does not grow with the number of calls.
//!
//! Deliberately absent: clocks (every time is handed in), and any file or picture (`report`).

mod counts;
mod delays;
mod generator;
mod interval;
mod metrics;
mod proxies;
mod series;
mod snapshot;

use std::time::Duration;

use busyhour_engine::Instant;
use busyhour_roles::ua::{CallRecord, Outcome, RegisterRecord};

pub use counts::{CallCounts, RegisterCounts, cause_code, cause_label, status_label};
pub use delays::{DELAY_MAX, Delays, Quantiles};
pub use generator::{GeneratorSample, Limits, Reason, Validity};
pub use interval::Delay;
pub use metrics::{METRICS, Metric, Unit, is_metric};
pub use proxies::{ProxySample, ProxyWork};
pub use series::Point;
pub use snapshot::Snapshot;

use generator::Generator;
use interval::{Interval, Totals};
use proxies::Proxies;
use snapshot::Recent;

/// A series has at most this many intervals; a run that goes on longer doubles their length.
pub const INTERVALS_MAX: usize = 2048;

/// The interval lengths to begin with, in seconds; the first with which the load fits [`INTERVALS_PLANNED`].
const INTERVALS_S: [u64; 11] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 900, 3600];

/// Leaves room for the calls that end after the load.
const INTERVALS_PLANNED: u64 = 1900;

/// What a recorder has to know of its run.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct RecorderConfig {
    /// When the load begins. All times in series and windows count from here.
    pub origin: Instant,
    /// How long calls are planned for.
    pub duration: Duration,
    /// How much of that is left out of the totals.
    pub warmup: Duration,
    /// How many seconds of the scenario one second of the run stands for (`--speed`). It is told in reports and
    /// changes no figure: every delay and rate is that of the run.
    pub speed: f64,
    /// When the generator is too slow to be trusted.
    pub limits: Limits,
}

impl RecorderConfig {
    /// A run without warm-up, at its own speed, with the usual limits.
    pub fn new(origin: Instant, duration: Duration) -> Self {
        RecorderConfig { origin, duration, warmup: Duration::ZERO, speed: 1.0, limits: Limits::default() }
    }
}

/// Why two recorders cannot be merged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// Their runs differ in duration, warm-up, speed or limits.
    DifferentRuns,
}

impl std::fmt::Display for MergeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the runs differ in duration, warm-up, speed or limits, so that their figures cannot be merged",
        )
    }
}

impl std::error::Error for MergeError {}

/// All figures of a run.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: RecorderConfig,
    interval_s: u64,
    intervals: Vec<Interval>,
    totals: Totals,
    setup: Totals,
    proxies: Proxies,
    generator: Generator,
    recent: Recent,
    /// Calls that were never sent, those of the warm-up included.
    not_started: u64,
    before_origin: u64,
    runs: u32,
    /// The worst 99th percentile of the lag of any recorder that was merged, so that a good one cannot hide a bad one.
    lag_p99_worst_s: Option<f64>,
    /// Repetitions that were merged and had measured nothing.
    empty_runs: u32,
}

impl Recorder {
    /// An empty recorder for one run.
    pub fn new(config: RecorderConfig) -> Self {
        let load_s = config.duration.as_secs();
        let fits = |s: &&u64| load_s / **s <= INTERVALS_PLANNED;
        let interval_s = INTERVALS_S.iter().find(fits).copied().unwrap_or(3600);
        Recorder {
            config,
            interval_s,
            intervals: Vec::new(),
            totals: Totals::default(),
            setup: Totals::default(),
            proxies: Proxies::default(),
            generator: Generator::default(),
            recent: Recent::default(),
            not_started: 0,
            before_origin: 0,
            runs: 1,
            lag_p99_worst_s: None,
            empty_runs: 0,
        }
    }

    /// Counts one call that has ended. Calls planned before the origin are left out and counted as such.
    pub fn record_call(&mut self, call: &CallRecord) {
        let origin = self.config.origin;
        if call.plan.at < origin {
            self.before_origin += 1;
            return;
        }
        let planned = call.plan.at.since(origin);
        let warm = planned >= self.config.warmup;
        self.not_started += u64::from(call.outcome == Outcome::NotStarted);
        self.recent.record(call.ended.since(origin), call);
        let interval = self.interval_at(planned);
        interval.calls.record(call);
        for (kind, delay) in Delay::of_call(call).into_iter().flatten() {
            interval.record_delay(kind, delay);
        }
        if warm {
            self.totals.calls.record(call);
            for (kind, delay) in Delay::of_call(call).into_iter().flatten() {
                self.totals.record_delay(kind, delay);
            }
        }
        if call.outcome == Outcome::Completed {
            let ended = call.ended.since(origin);
            self.interval_at(ended).completed_by_end += 1;
            let measured = self.config.warmup <= ended && ended < self.config.duration;
            self.totals.completed_by_end += u64::from(measured);
        }
    }

    /// Counts one registration that has ended. Those planned before the origin belong to the set-up of the fleet and
    /// are told apart from those of the run.
    pub fn record_registration(&mut self, registration: &RegisterRecord) {
        let origin = self.config.origin;
        let delay = Delay::of_registration(registration);
        let into = |totals: &mut Totals| {
            totals.registrations.record(registration);
            if let Some(delay) = delay {
                totals.record_delay(Delay::Rrd, delay);
            }
        };
        if registration.at < origin {
            into(&mut self.setup);
            return;
        }
        let planned = registration.at.since(origin);
        if planned >= self.config.warmup {
            into(&mut self.totals);
        }
        let interval = self.interval_at(planned);
        interval.registrations.record(registration);
        if let Some(delay) = delay {
            interval.record_delay(Delay::Rrd, delay);
        }
    }

    /// Takes the counters of the proxies, best once a second and once at the origin: what a proxy did before its
    /// sample at the origin is not counted. Samples before the origin are ignored.
    pub fn record_proxies(&mut self, now: Instant, samples: &[ProxySample]) {
        if now < self.config.origin {
            return;
        }
        let at = now.since(self.config.origin);
        let index = self.sampled_index(at);
        for sample in samples {
            self.proxies.record(at, index, at > self.config.warmup, sample);
        }
    }

    /// Takes the state of the generator, best once a second.
    pub fn record_generator(&mut self, now: Instant, sample: &GeneratorSample) {
        let at = now.since(self.config.origin);
        let index = self.sampled_index(at);
        self.generator.record(index, at > self.config.warmup, &self.config.limits, sample);
    }

    /// Adds the figures of another recorder of the *same* run, as of a second fleet: rates add up. Only one of them
    /// may have been fed the proxies and the generator's CPU share is that of the busier one.
    pub fn merge_parallel(&mut self, other: &Recorder) -> Result<(), MergeError> {
        self.merge(other)
    }

    /// Adds the figures of another repetition: counts add up, rates become those of the average run, percentiles
    /// those of all calls.
    pub fn merge_repetition(&mut self, other: &Recorder) -> Result<(), MergeError> {
        let empty = u32::from(self.is_empty()) + u32::from(other.is_empty());
        self.merge(other)?;
        self.runs += other.runs;
        self.empty_runs += empty + other.empty_runs;
        Ok(())
    }

    fn merge(&mut self, other: &Recorder) -> Result<(), MergeError> {
        let same = RecorderConfig { origin: self.config.origin, ..other.config };
        if same != self.config {
            return Err(MergeError::DifferentRuns);
        }
        self.lag_p99_worst_s = self.lag_p99_s().into_iter().chain(other.lag_p99_s()).reduce(f64::max);
        let mut other = other.clone();
        while self.interval_s < other.interval_s {
            self.coarsen();
        }
        while other.interval_s < self.interval_s {
            other.coarsen();
        }
        if self.intervals.len() < other.intervals.len() {
            self.intervals.resize_with(other.intervals.len(), Interval::default);
        }
        for (ours, theirs) in self.intervals.iter_mut().zip(&other.intervals) {
            ours.merge(theirs);
        }
        self.totals.merge(&other.totals);
        self.setup.merge(&other.setup);
        self.proxies.merge(&other.proxies);
        self.generator.merge(&other.generator);
        self.recent.merge(&other.recent);
        self.not_started += other.not_started;
        self.before_origin += other.before_origin;
        Ok(())
    }

    /// What the recorder was told of its run.
    pub fn config(&self) -> &RecorderConfig {
        &self.config
    }

    /// How many repetitions are merged in it.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// The length of an interval.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_s)
    }

    /// The calls planned after the warm-up.
    pub fn calls(&self) -> &CallCounts {
        &self.totals.calls
    }

    /// The registrations planned after the warm-up.
    pub fn registrations(&self) -> &RegisterCounts {
        &self.totals.registrations
    }

    /// The registrations before the origin, and their delays.
    pub fn setup(&self) -> (&RegisterCounts, &Delays) {
        (&self.setup.registrations, self.setup.delays(Delay::Rrd))
    }

    /// The delays of what was planned after the warm-up.
    pub fn delays(&self, kind: Delay) -> &Delays {
        self.totals.delays(kind)
    }

    /// What each proxy did after the warm-up, sorted by name.
    pub fn proxies(&self) -> Vec<(&str, ProxyWork)> {
        self.proxies.totals()
    }

    /// Messages that the generator could not send.
    pub fn generator_dropped(&self) -> u64 {
        self.generator.dropped
    }

    /// The highest share of a core that a generator thread used after the warm-up; None where that is not known.
    pub fn generator_cpu_max(&self) -> Option<f64> {
        self.generator.cpu_max
    }

    /// True when there was neither a call nor a registration, not even in the warm-up or the set-up.
    pub fn is_empty(&self) -> bool {
        let nothing = |i: &Interval| i.calls.offered == 0 && i.registrations.offered == 0;
        self.setup.registrations.offered == 0 && self.intervals.iter().all(nothing)
    }

    /// The 99th percentile of the lag, in seconds, of the worst recorder that was merged into this one.
    fn lag_p99_s(&self) -> Option<f64> {
        let own = self.delays(Delay::Lag).quantile(0.99);
        own.into_iter().chain(self.lag_p99_worst_s).reduce(f64::max)
    }

    /// Whether the figures may be used: those of every recorder that was merged into this one.
    pub fn validity(&self) -> Validity {
        let limits = &self.config.limits;
        let mut reasons = Vec::new();
        if self.is_empty() || self.empty_runs > 0 {
            reasons.push(Reason::NothingMeasured);
        }
        let max_s = limits.lag_p99_max.as_secs_f64();
        if let Some(p99_s) = self.lag_p99_s().filter(|p99| *p99 > max_s) {
            reasons.push(Reason::Lagged { p99_s, max_s });
        }
        if self.not_started > 0 {
            reasons.push(Reason::NotStarted(self.not_started));
        }
        if self.generator.dropped > 0 {
            reasons.push(Reason::Dropped(self.generator.dropped));
        }
        reasons.extend(self.generator.out_of_cpu(limits));
        if self.before_origin > 0 {
            reasons
                .push(Reason::NotRecorded { n: self.before_origin, what: "calls planned before the origin" });
        }
        if self.proxies.not_tracked() > 0 {
            reasons.push(Reason::NotRecorded { n: self.proxies.not_tracked(), what: "samples of proxies" });
        }
        Validity::from_reasons(reasons)
    }

    /// The interval that `at` falls into, made when it is not there yet.
    fn interval_at(&mut self, at: Duration) -> &mut Interval {
        let index = self.index(at);
        if self.intervals.len() <= index {
            self.intervals.resize_with(index + 1, Interval::default);
        }
        &mut self.intervals[index]
    }

    /// The index of the interval that a sample taken at `at` describes the end of.
    fn sampled_index(&mut self, at: Duration) -> usize {
        self.index(at.saturating_sub(Duration::from_nanos(1)))
    }

    fn index(&mut self, at: Duration) -> usize {
        while at.as_secs() / self.interval_s >= INTERVALS_MAX as u64 {
            self.coarsen();
        }
        usize::try_from(at.as_secs() / self.interval_s).expect("less than INTERVALS_MAX")
    }

    /// Makes intervals twice as long.
    fn coarsen(&mut self) {
        let mut coarse: Vec<Interval> = Vec::with_capacity(self.intervals.len() / 2 + 1);
        for (i, interval) in self.intervals.drain(..).enumerate() {
            match coarse.last_mut().filter(|_| i % 2 == 1) {
                Some(last) => last.merge(&interval),
                None => coarse.push(interval),
            }
        }
        self.intervals = coarse;
        self.proxies.coarsen(2);
        self.generator.coarsen(2);
        self.interval_s *= 2;
    }
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
