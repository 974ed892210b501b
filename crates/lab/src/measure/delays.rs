//! Distributions of delays: HDR histograms in microseconds, and the sparse form in which an interval keeps one.
//!
//! Both forms have the same buckets (three significant digits, 1 µs to 1 h), so that moving counts from one to the
//! other and merging any number of them loses nothing. Percentiles only ever come from merged counts.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest delay that is told apart; longer ones count as this one.
pub const DELAY_MAX: Duration = Duration::from_secs(3600);

const US_MAX: u64 = 3_600_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Buckets below 2^11 are one microsecond wide, which gives three significant digits everywhere above.
const LINEAR_BITS: u32 = 11;

/// A distribution of delays. Units: recorded in whole microseconds, told in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays(Histogram<u64>);

impl Default for Delays {
    fn default() -> Self {
        Delays::new()
    }
}

impl Delays {
    /// An empty distribution.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, US_MAX, SIGNIFICANT_DIGITS);
        Delays(histogram.expect("the bounds are constants that hdrhistogram accepts"))
    }

    /// Counts one delay, held to 1 µs … [`DELAY_MAX`].
    pub fn record(&mut self, delay: Duration) {
        self.record_us(micros(delay), 1);
    }

    fn record_us(&mut self, us: u64, n: u64) {
        self.0.record_n(us, n).expect("the value is held within the bounds of the histogram");
    }

    /// Adds everything that `other` has counted.
    pub fn add(&mut self, other: &Delays) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many delays were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The delay in seconds that the share `q` (0 to 1) of all delays does not exceed; None when nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        (!self.is_empty()).then(|| seconds(self.0.value_at_quantile(q)))
    }

    /// The mean delay in seconds; None when nothing was counted.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.0.mean() / 1e6)
    }

    /// The longest delay in seconds, to three digits; None when nothing was counted.
    pub fn max(&self) -> Option<f64> {
        (!self.is_empty()).then(|| seconds(self.0.max()))
    }

    /// The figures that reports show; None when nothing was counted.
    pub fn quantiles(&self) -> Option<Quantiles> {
        Some(Quantiles {
            count: self.count(),
            mean_s: self.mean()?,
            p50_s: self.quantile(0.5)?,
            p90_s: self.quantile(0.9)?,
            p99_s: self.quantile(0.99)?,
            p999_s: self.quantile(0.999)?,
            max_s: self.max()?,
        })
    }
}

/// The figures of one distribution that reports show, in seconds.
#[derive(Copy, Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Quantiles {
    /// How many delays were counted.
    pub count: u64,
    /// Their mean.
    pub mean_s: f64,
    /// Their median.
    pub p50_s: f64,
    /// The 90th percentile.
    pub p90_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The 99.9th percentile.
    pub p999_s: f64,
    /// The longest.
    pub max_s: f64,
}

/// The distribution of one interval. It holds an entry per bucket that is in use, so its memory follows how many
/// different delays there were and never how many calls: at most some 23,000 entries, usually a few hundred.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sparse(BTreeMap<u32, u64>);

impl Sparse {
    pub(super) fn record(&mut self, delay: Duration) {
        *self.0.entry(bucket(micros(delay))).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Sparse) {
        for (&bucket, &n) in &other.0 {
            *self.0.entry(bucket).or_default() += n;
        }
    }

    pub(super) fn add_to(&self, delays: &mut Delays) {
        for (&bucket, &n) in &self.0 {
            delays.record_us(u64::from(bucket), n);
        }
    }
}

/// Whole microseconds within the bounds of the histograms.
fn micros(delay: Duration) -> u64 {
    u64::try_from(delay.as_micros()).unwrap_or(u64::MAX).clamp(1, US_MAX)
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// The lowest value of the histogram bucket that `us` falls into.
fn bucket(us: u64) -> u32 {
    let bits = u64::BITS - us.leading_zeros();
    let shift = bits.saturating_sub(LINEAR_BITS);
    u32::try_from(us >> shift << shift).expect("an hour of microseconds fits 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_engine::Rng;

    /// The value with rank ceil(q·n), straight from the sorted values.
    fn exact(sorted: &[u64], q: f64) -> u64 {
        let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank.min(sorted.len()) - 1]
    }

    #[test]
    fn percentiles_agree_with_exact_ones_to_three_digits() {
        let seed = 7;
        let mut rng = Rng::from_seed(seed);
        for n in [1_usize, 2, 10, 999, 20_000] {
            let mut delays = Delays::new();
            let mut values = Vec::new();
            for _ in 0..n {
                let d = rng.exponential(Duration::from_millis(40)) + Duration::from_micros(1);
                values.push(micros(d));
                delays.record(d);
            }
            values.sort_unstable();
            for q in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let want = exact(&values, q) as f64 / 1e6;
                let got = delays.quantile(q).unwrap();
                assert!(
                    (got - want).abs() <= want * 0.001 + 1e-6,
                    "seed {seed} n {n} q {q}: {got} for {want}"
                );
            }
        }
    }

    #[test]
    fn merging_is_the_same_as_recording_into_one() {
        let mut rng = Rng::from_seed(11);
        let (mut a, mut b, mut all) = (Delays::new(), Delays::new(), Delays::new());
        for i in 0..5000 {
            let d = rng.exponential(Duration::from_millis(if i % 2 == 0 { 3 } else { 300 }));
            if i % 2 == 0 {
                a.record(d)
            } else {
                b.record(d)
            }
            all.record(d);
        }
        a.add(&b);
        assert_eq!(a, all);
        // The mean of the two medians would have been far away from the median of both.
        assert_eq!(a.quantile(0.5), all.quantile(0.5));
    }

    #[test]
    fn the_sparse_form_loses_nothing() {
        let mut rng = Rng::from_seed(3);
        let (mut sparse, mut dense) = (Sparse::default(), Delays::new());
        let edges =
            [0, 1, 2047, 2048, 2049, 4095, 4096, 999_999, 3_599_999_999, 3_600_000_000, u64::MAX / 2000];
        let mut draw = || {
            let bits = 1 + rng.below(33);
            rng.below(1 << bits)
        };
        let drawn: Vec<u64> = (0..20_000).map(|_| draw()).collect();
        for us in edges.into_iter().chain(drawn) {
            let d = Duration::from_micros(us);
            sparse.record(d);
            dense.record(d);
            let us = micros(d);
            assert_eq!(u64::from(bucket(us)), dense.0.lowest_equivalent(us), "bucket of {us}");
        }
        let mut back = Delays::new();
        sparse.add_to(&mut back);
        for q in 0..=1000 {
            let q = f64::from(q) / 1000.0;
            assert_eq!(back.quantile(q), dense.quantile(q));
        }
        assert_eq!(back.count(), dense.count());
    }

    #[test]
    fn nothing_counted_has_no_figures() {
        assert_eq!(Delays::new().quantiles(), None);
        assert_eq!(Delays::new().quantile(0.5), None);
    }

    #[test]
    fn delays_beyond_the_bounds_are_held() {
        let mut delays = Delays::new();
        delays.record(Duration::ZERO);
        delays.record(Duration::from_secs(86_400));
        assert_eq!(delays.quantile(0.0), Some(0.000_001));
        let max = delays.max().unwrap();
        assert!((3599.0..3610.0).contains(&max), "{max}");
    }
}
