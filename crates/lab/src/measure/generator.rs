//! What the load generator told about itself, and whether its run can be trusted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The state of the generator at some moment.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct GeneratorSample {
    /// The share of one core that its busiest thread used since the sample before (0 to 1); None where the driver
    /// cannot tell, as in the simulator, where generating costs nothing.
    pub cpu_share: Option<f64>,
    /// Messages that it had to send and could not, cumulative: the send buffer or a table was full.
    pub dropped: u64,
}

/// When a generator is too slow to be trusted.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Limits {
    /// The 99th percentile of the lag (INVITE sent after the planned time) may not be above this.
    pub lag_p99_max: Duration,
    /// A generator thread that uses this share of a core is out of CPU.
    pub cpu_share_max: f64,
}

impl Default for Limits {
    /// 50 ms of lag, a tenth of Timer T1; 95 % of a core.
    fn default() -> Self {
        Limits { lag_p99_max: Duration::from_millis(50), cpu_share_max: 0.95 }
    }
}

/// Samples with the CPU above its limit that make a run invalid. One alone may be the scheduler's doing.
const BUSY_SAMPLES_MAX: u64 = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Generator {
    last_dropped: u64,
    pub(super) dropped: u64,
    pub(super) cpu_max: Option<f64>,
    pub(super) samples: u64,
    pub(super) busy: u64,
    cpu: BTreeMap<usize, f64>,
}

impl Generator {
    pub(super) fn record(&mut self, interval: usize, warm: bool, limits: &Limits, sample: &GeneratorSample) {
        let restarted = sample.dropped < self.last_dropped;
        self.dropped += if restarted { sample.dropped } else { sample.dropped - self.last_dropped };
        self.last_dropped = sample.dropped;
        let Some(share) = sample.cpu_share else { return };
        let slot = self.cpu.entry(interval).or_default();
        *slot = slot.max(share);
        if warm {
            self.samples += 1;
            self.busy += u64::from(share >= limits.cpu_share_max);
            self.cpu_max = Some(self.cpu_max.unwrap_or(0.0).max(share));
        }
    }

    pub(super) fn coarsen(&mut self, by: usize) {
        let mut coarse: BTreeMap<usize, f64> = BTreeMap::new();
        for (i, &share) in &self.cpu {
            let slot = coarse.entry(i / by).or_default();
            *slot = slot.max(share);
        }
        self.cpu = coarse;
    }

    pub(super) fn merge(&mut self, other: &Generator) {
        self.dropped += other.dropped;
        // The busier one counts: samples of an idle generator cannot make up for those of a busy one.
        if other.busy > self.busy || self.samples == 0 {
            (self.busy, self.samples) = (other.busy, other.samples);
        }
        self.cpu_max = match (self.cpu_max, other.cpu_max) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        for (&i, &share) in &other.cpu {
            let slot = self.cpu.entry(i).or_default();
            *slot = slot.max(share);
        }
    }

    /// The highest CPU share in a range of intervals.
    pub(super) fn cpu_within(&self, range: std::ops::Range<usize>) -> Option<f64> {
        self.cpu.range(range).map(|(_, share)| *share).reduce(f64::max)
    }

    /// The reason when the generator was out of CPU.
    pub(super) fn out_of_cpu(&self, limits: &Limits) -> Option<Reason> {
        (self.busy > BUSY_SAMPLES_MAX).then_some(Reason::OutOfCpu {
            busy: self.busy,
            samples: self.samples,
            share_max: limits.cpu_share_max,
        })
    }
}

/// Whether a run measured the server, or its own generator.
#[derive(Clone, Debug, PartialEq)]
pub enum Validity {
    /// The load was what the plan said.
    Valid,
    /// The figures may not be used, for each of these reasons.
    Invalid(Vec<Reason>),
}

impl Validity {
    pub(super) fn from_reasons(reasons: Vec<Reason>) -> Self {
        if reasons.is_empty() { Validity::Valid } else { Validity::Invalid(reasons) }
    }

    /// True when the figures may be used.
    pub fn is_valid(&self) -> bool {
        matches!(self, Validity::Valid)
    }

    /// Why not; empty when they may.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Validity::Valid => &[],
            Validity::Invalid(reasons) => reasons,
        }
    }

    /// Adds a reason.
    #[must_use]
    pub fn with(self, reason: Reason) -> Self {
        let mut reasons = self.reasons().to_vec();
        reasons.push(reason);
        Validity::Invalid(reasons)
    }
}

/// Why the figures of a run may not be used. Displayed as a sentence with what was expected and what to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// INVITEs left later than planned.
    Lagged {
        /// The 99th percentile of the lag, in seconds.
        p99_s: f64,
        /// The limit, in seconds.
        max_s: f64,
    },
    /// Calls of the plan were never sent.
    NotStarted(u64),
    /// Messages could not be sent.
    Dropped(u64),
    /// A generator thread used a whole core.
    OutOfCpu {
        /// Samples in which it did.
        busy: u64,
        /// Samples in all.
        samples: u64,
        /// The share of a core that counts as whole.
        share_max: f64,
    },
    /// There was neither a call nor a registration.
    NothingMeasured,
    /// The recorder was at a limit or was fed something outside the run.
    NotRecorded {
        /// How many things it left out.
        n: u64,
        /// What they were.
        what: &'static str,
    },
    /// Something that only the runner can see.
    Other(String),
}

impl Reason {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Lagged { .. } => "generator-lag",
            Reason::NotStarted(_) => "calls-not-started",
            Reason::Dropped(_) => "messages-dropped",
            Reason::OutOfCpu { .. } => "generator-cpu",
            Reason::NothingMeasured => "nothing-measured",
            Reason::NotRecorded { .. } => "not-recorded",
            Reason::Other(_) => "other",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Lagged { p99_s, max_s } => write!(
                f,
                "the generator sent its INVITEs late: 99 % within {:.1} ms of the plan, expected within {:.1} ms. \
                 Offer less, or give the generator more cores.",
                p99_s * 1e3,
                max_s * 1e3
            ),
            Reason::NotStarted(n) => write!(
                f,
                "the generator never sent {n} of the planned calls, expected none: it was at its limit of calls in \
                 progress. Raise the limit or shorten the calls."
            ),
            Reason::Dropped(n) => write!(
                f,
                "the generator could not send {n} messages, expected none. Offer less, or raise its socket buffers."
            ),
            Reason::OutOfCpu { busy, samples, share_max } => write!(
                f,
                "a generator thread used {:.0} % of a core or more in {busy} of {samples} samples, expected at most \
                 {BUSY_SAMPLES_MAX}. Offer less, or use more generator threads.",
                share_max * 100.0
            ),
            Reason::NothingMeasured => {
                write!(f, "nothing was measured: no call and no registration was made. Check the load.")
            }
            Reason::NotRecorded { n, what } => {
                write!(f, "{n} {what} were left out of the figures, expected none.")
            }
            Reason::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_busy_second_is_no_reason_and_three_are() {
        let limits = Limits::default();
        let mut g = Generator::default();
        for i in 0..BUSY_SAMPLES_MAX as usize {
            g.record(i, true, &limits, &GeneratorSample { cpu_share: Some(1.0), dropped: 0 });
        }
        assert_eq!(g.out_of_cpu(&limits), None);
        g.record(9, true, &limits, &GeneratorSample { cpu_share: Some(0.95), dropped: 0 });
        let reason = g.out_of_cpu(&limits).unwrap();
        assert_eq!(reason, Reason::OutOfCpu { busy: 3, samples: 3, share_max: 0.95 });
        assert_eq!(reason.code(), "generator-cpu");
    }

    #[test]
    fn dropped_messages_are_cumulative() {
        let mut g = Generator::default();
        for dropped in [0, 2, 5, 5, 1] {
            g.record(0, true, &Limits::default(), &GeneratorSample { cpu_share: None, dropped });
        }
        assert_eq!(g.dropped, 6);
    }

    #[test]
    fn reasons_add_up() {
        let v = Validity::Valid.with(Reason::NotStarted(3)).with(Reason::Dropped(1));
        assert_eq!(v.reasons().len(), 2);
        assert!(!v.is_valid());
        assert!(v.reasons()[0].to_string().contains("never sent 3"));
    }
}
