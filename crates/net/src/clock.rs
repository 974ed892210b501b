//! The one clock of a process.

use busyhour_engine::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC, counted from when the clock was started. Copies share the epoch: start one per process (or
/// cluster in one process) and give every worker a copy, so that their instants compare.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    monotonic_at_epoch_nanos: u64,
    unix_at_epoch_nanos: u64,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn start() -> Self {
        Clock {
            monotonic_at_epoch_nanos: nanos(clock_gettime(ClockId::Monotonic)),
            unix_at_epoch_nanos: nanos(clock_gettime(ClockId::Realtime)),
        }
    }

    /// The time since the epoch; at least one nanosecond.
    pub fn now(&self) -> Instant {
        let monotonic = nanos(clock_gettime(ClockId::Monotonic));
        Instant::from_nanos(monotonic.saturating_sub(self.monotonic_at_epoch_nanos))
    }

    /// The wall-clock time of the epoch in nanoseconds since 1970-01-01 00:00 UTC, as it was known when the clock was
    /// started: `unix_offset_nanos() + instant.as_nanos()` is the wall-clock time of an instant. Later steps of the
    /// wall clock do not show.
    pub fn unix_offset_nanos(&self) -> u64 {
        self.unix_at_epoch_nanos
    }
}

/// A kernel time as nanoseconds; times before its zero count as zero.
pub(crate) fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_after_zero_and_never_goes_back() {
        let clock = Clock::start();
        let copy = clock;
        let mut last = clock.now();
        assert!(last >= Instant::EPOCH);
        for _ in 0..10_000 {
            let now = copy.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn wall_time_is_offset_plus_instant() {
        let wall = || nanos(clock_gettime(ClockId::Realtime));
        let before = wall();
        let clock = Clock::start();
        let after = wall();
        assert!((before..=after).contains(&clock.unix_offset_nanos()));
    }
}
