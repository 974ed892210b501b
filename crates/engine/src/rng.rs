//! The one source of randomness of a node: seeded, and the same on every machine.

use std::time::Duration;

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::HashSeed;

/// A seeded generator (xoshiro256++). Production seeds it from the operating system, tests and the simulator from a number.
/// Not for secrets: a key that must not be guessed is made by the driver and handed in as configuration.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator that `seed` stands for.
    pub fn from_seed(seed: u64) -> Self {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `n` − 1, each as likely (to within 2⁻⁶⁴·n).
    ///
    /// # Panics
    /// When `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number from 0.0 up to, but not including, 1.0.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p` (0 to 1).
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// An exponentially distributed duration. Computed with a portable logarithm, so equal on every machine.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((mean.as_nanos() as f64 * -libm::log(1.0 - self.unit())) as u64)
    }

    /// A duration from `lo` to `hi`, uniformly; `lo` when the range is empty.
    pub fn between(&mut self, lo: Duration, hi: Duration) -> Duration {
        let span = hi.saturating_sub(lo).as_nanos() as u64;
        lo + Duration::from_nanos(if span == 0 { 0 } else { self.below(span + 1) })
    }

    /// A seed for a hash.
    pub fn hash_seed(&mut self) -> HashSeed {
        HashSeed(self.next_u64(), self.next_u64())
    }

    /// A generator of its own for a part of the node, so that one part's draws do not shift another's.
    pub fn split(&mut self) -> Rng {
        Rng::from_seed(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_fixed_for_ever() {
        let mut rng = Rng::from_seed(1);
        let got = [rng.next_u64(), rng.next_u64(), rng.below(100)];
        assert_eq!(got, [14971601782005023387, 13781649495232077965, 10]);
    }

    #[test]
    fn the_exponential_has_its_mean() {
        let mut rng = Rng::from_seed(7);
        let n = 100_000;
        let total: Duration = (0..n).map(|_| rng.exponential(Duration::from_millis(10))).sum();
        let mean_us = total.as_micros() as f64 / f64::from(n);
        assert!((9_900.0..10_100.0).contains(&mean_us), "mean {mean_us} us");
    }
}
