//! When calls are made: a [`Load`] says what is offered, a [`Schedule`] is that load laid out over the time of one run,
//! [`Arrivals`] are its calls one by one, and [`Pairs`] picks caller and callee where the load does not name them.
//!
//! Pure and seeded: the same load and the same seed give the same calls, on any machine. Calls are computed one at a
//! time and never stored. The n-th evenly spaced call comes when the integral of the rate reaches n, so there is no
//! drift; Poisson arrivals are a unit-rate Poisson process run through the inverse of that integral, which is exact for
//! any rate. Both hold however the rate changes.
//!
//! *Speed* compresses the time of the scenario and leaves its rates as they are: at a speed of 20, steps of five
//! minutes last 15 s, and 12 to 42 calls per second are still offered. Of a scenario file, every 20th row is kept.

mod lines;
mod pairs;
mod rate;
mod scenario;
mod shape;

use std::sync::Arc;
use std::time::Duration;

use busyhour_engine::Rng;

pub use pairs::{Pairing, Pairs};
pub use rate::{Piece, Rate};
pub use scenario::{Ids, ROWS_MAX, Scenario};
pub use shape::{Interpolation, POINTS_MAX, Shape};

use rate::Inverse;

/// What is offered, in the time and the words of the experiment file.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// The same rate for as long as the experiment lasts.
    Constant {
        /// Calls per second.
        rate_per_s: f64,
    },
    /// A staircase.
    Step {
        /// Calls per second of the first step.
        start_per_s: f64,
        /// What every further step adds; negative to come down.
        increment_per_s: f64,
        /// How long each step lasts.
        interval: Duration,
        /// How many there are; `None` for as many as the experiment's duration takes.
        steps: Option<u32>,
    },
    /// Every call by itself, from a scenario file.
    Csv {
        /// The file, as the experiment names it.
        file: String,
        /// What it holds.
        scenario: Arc<Scenario>,
    },
    /// A curve from a shape file.
    Shape {
        /// The file, as the experiment names it.
        file: String,
        /// What it holds, with its attribution.
        shape: Arc<Shape>,
        /// The highest rate in the window, in calls per second.
        peak_per_s: f64,
        /// How many times faster than in the file it runs.
        compress: f64,
        /// The part of the curve that is used, in the file's time.
        window: (Duration, Duration),
        /// What the load is between two points.
        interpolation: Interpolation,
    },
}

/// How calls lie along the rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// One whenever the integral of the rate reaches the next whole number.
    Even,
    /// A (non-homogeneous) Poisson process.
    Poisson,
}

/// A part of a run: from `from` up to, but not including, `to`, counted from the start of the load.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
}

/// One call that is due.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, since the start of the load.
    pub at: Duration,
    /// The caller as an index into the fleet's users, when the load names it.
    pub caller: Option<u32>,
    /// The callee, likewise.
    pub callee: Option<u32>,
}

impl Window {
    /// How long it is.
    pub fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// Whether `t` lies in it.
    pub fn contains(self, t: Duration) -> bool {
        self.from <= t && t < self.to
    }
}

impl Load {
    /// The name by which an experiment file calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Load::Constant { .. } => "constant",
            Load::Step { .. } => "step",
            Load::Csv { .. } => "csv",
            Load::Shape { .. } => "shape",
        }
    }

    /// How long it is by itself, in the time of the experiment file; `None` when it goes on for as long as it is let.
    pub fn length(&self) -> Option<Duration> {
        match self {
            Load::Constant { .. } => None,
            Load::Step { interval, steps, .. } => steps.map(|n| *interval * n),
            Load::Csv { scenario, .. } => Some(scenario.length()),
            Load::Shape { compress, window, .. } => Some((window.1 - window.0).div_f64(*compress)),
        }
    }

    /// Lays it out: its first `length` (in the time of the experiment file), compressed in time by `speed`.
    ///
    /// # Panics
    /// When a step would have a negative rate, or a shape no load in its window: whoever reads them checks that first.
    pub fn schedule(&self, spacing: Spacing, length: Duration, speed: f64) -> Schedule {
        let steps = match self {
            Load::Step { interval, .. } => steps_in(*interval, length),
            Load::Constant { .. } | Load::Csv { .. } | Load::Shape { .. } => 0,
        };
        let calls = match self {
            Load::Csv { scenario, .. } => {
                let rows = scenario.index_at(length);
                Calls::Rows { scenario: Arc::clone(scenario), speed, rows }
            }
            Load::Constant { rate_per_s } => level(*rate_per_s, length).spaced(spacing, speed),
            Load::Step { start_per_s, increment_per_s, interval, .. } => {
                let piece = |n: u32| {
                    let rate = start_per_s + increment_per_s * f64::from(n);
                    Piece {
                        length: (length - *interval * n).min(*interval),
                        from_per_s: rate,
                        to_per_s: rate,
                    }
                };
                Rate::new((0..steps).map(piece)).spaced(spacing, speed)
            }
            Load::Shape { shape, peak_per_s, compress, window, interpolation, .. } => shape
                .rate(*window, *interpolation, *compress, *peak_per_s)
                .expect("a shape with load in its window")
                .slice(Duration::ZERO, length)
                .spaced(spacing, speed),
        };
        let step = |n: u32| match self {
            Load::Step { interval, .. } => Window {
                from: (*interval * n).div_f64(speed),
                to: (*interval * (n + 1)).min(length).div_f64(speed),
            },
            Load::Constant { .. } | Load::Csv { .. } | Load::Shape { .. } => {
                unreachable!("only a step load has steps")
            }
        };
        Schedule { calls, total: length.div_f64(speed), steps: (0..steps).map(step).collect() }
    }
}

/// How many steps of `interval` it takes to fill `length`; the last one may be cut short.
pub fn steps_in(interval: Duration, length: Duration) -> u32 {
    u32::try_from(length.as_nanos().div_ceil(interval.as_nanos().max(1))).unwrap_or(u32::MAX)
}

fn level(rate_per_s: f64, length: Duration) -> Rate {
    Rate::new([Piece { length, from_per_s: rate_per_s, to_per_s: rate_per_s }])
}

impl Rate {
    fn spaced(self, spacing: Spacing, speed: f64) -> Calls {
        Calls::Rate { rate: Arc::new(self.compressed(speed)), spacing }
    }
}

/// A load laid out over the time of one run.
#[derive(Clone, Debug)]
pub struct Schedule {
    calls: Calls,
    total: Duration,
    steps: Vec<Window>,
}

#[derive(Clone, Debug)]
enum Calls {
    Rate { rate: Arc<Rate>, spacing: Spacing },
    Rows { scenario: Arc<Scenario>, speed: f64, rows: usize },
}

impl Schedule {
    /// How long it lasts.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Calls per second at `t`, for charts. Of a scenario file: counted over ten seconds of it.
    pub fn rate_at(&self, t: Duration) -> f64 {
        match &self.calls {
            Calls::Rate { rate, .. } => rate.at(t),
            Calls::Rows { scenario, speed, .. } if t < self.total => scenario.rate_at(t.mul_f64(*speed)),
            Calls::Rows { .. } => 0.0,
        }
    }

    /// The highest rate, in calls per second.
    pub fn peak_per_s(&self) -> f64 {
        match &self.calls {
            Calls::Rate { rate, .. } => rate.peak_per_s(),
            Calls::Rows { scenario, .. } => scenario.peak_per_s(),
        }
    }

    /// How many calls there are; for Poisson arrivals their mean.
    pub fn calls_expected(&self) -> f64 {
        match &self.calls {
            Calls::Rate { rate, .. } => rate.calls(),
            Calls::Rows { speed, rows, .. } => (*rows as f64 / speed).floor(),
        }
    }

    /// Whether the number of calls in an interval is random.
    pub fn is_random(&self) -> bool {
        matches!(self.calls, Calls::Rate { spacing: Spacing::Poisson, .. })
    }

    /// The steps of a step load, in order; none of any other.
    pub fn steps(&self) -> &[Window] {
        &self.steps
    }

    /// The calls, in order of time. `rng` is drawn from only for Poisson arrivals.
    pub fn arrivals(&self, rng: Rng) -> Arrivals {
        match &self.calls {
            Calls::Rate { rate, spacing } => Arrivals(Source::Rate {
                rate: Arc::clone(rate),
                inverse: Inverse::new(),
                rng: (*spacing == Spacing::Poisson).then_some(rng),
                calls: None,
            }),
            Calls::Rows { scenario, speed, rows } => {
                Arrivals(Source::Rows { scenario: Arc::clone(scenario), speed: *speed, rows: *rows, next: 0 })
            }
        }
    }
}

/// The calls of a [`Schedule`], one by one.
#[derive(Clone, Debug)]
pub struct Arrivals(Source);

#[derive(Clone, Debug)]
enum Source {
    /// `calls` is the value of the integral at the call before; `rng` is there for Poisson arrivals.
    Rate {
        rate: Arc<Rate>,
        inverse: Inverse,
        rng: Option<Rng>,
        calls: Option<f64>,
    },
    Rows {
        scenario: Arc<Scenario>,
        speed: f64,
        rows: usize,
        next: usize,
    },
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        match &mut self.0 {
            Source::Rate { rate, inverse, rng, calls } => {
                let target = match (rng, *calls) {
                    (Some(rng), before) => {
                        // In units of calls, a second is one: the gap has nine digits after the point.
                        before.unwrap_or(0.0) + rng.exponential(Duration::from_secs(1)).as_secs_f64()
                    }
                    (None, None) => 0.0,
                    (None, Some(before)) => before + 1.0,
                };
                *calls = Some(target);
                Some(Arrival { at: inverse.find(rate, target)?, caller: None, callee: None })
            }
            Source::Rows { scenario, speed, rows, next } => loop {
                let index = *next;
                if index >= *rows {
                    return None;
                }
                *next += 1;
                let kept = |n: usize| (n as f64 / *speed).floor();
                if kept(index + 1) > kept(index) {
                    let row = scenario.row(index)?;
                    let at = Duration::from_nanos(row.at_ns).div_f64(*speed);
                    return Some(Arrival { at, caller: Some(row.caller), callee: Some(row.callee) });
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use busyhour_engine::Rng;
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn staircase() -> Load {
        Load::Step { start_per_s: 12.0, increment_per_s: 6.0, interval: 5 * MINUTE, steps: Some(6) }
    }

    fn times(schedule: &Schedule, seed: u64) -> Vec<Duration> {
        schedule.arrivals(Rng::from_seed(seed)).map(|a| a.at).collect()
    }

    #[test]
    fn the_staircase_of_cnf() {
        let schedule = staircase().schedule(Spacing::Even, 30 * MINUTE, 1.0);
        assert_eq!(schedule.total(), 30 * MINUTE);
        assert_eq!(schedule.peak_per_s(), 42.0);
        assert_eq!(schedule.calls_expected(), 300.0 * (12 + 18 + 24 + 30 + 36 + 42) as f64);
        assert_eq!(schedule.rate_at(7 * MINUTE), 18.0);
        assert_eq!(schedule.steps()[2], Window { from: 10 * MINUTE, to: 15 * MINUTE });
        let times = times(&schedule, 1);
        assert_eq!(times.len(), 48_600);
        assert_eq!(times[1], Duration::from_nanos(83_333_333));
        for (step, rate) in schedule.steps().iter().zip([12, 18, 24, 30, 36, 42]) {
            assert_eq!(times.iter().filter(|t| step.contains(**t)).count(), 300 * rate);
        }
    }

    #[test]
    fn speed_shortens_the_steps_and_keeps_the_rates() {
        let schedule = staircase().schedule(Spacing::Even, 30 * MINUTE, 20.0);
        assert_eq!(schedule.total(), Duration::from_secs(90));
        assert_eq!(schedule.rate_at(Duration::from_secs(16)), 18.0);
        assert_eq!(schedule.peak_per_s(), 42.0);
        assert_eq!(
            schedule.steps()[5],
            Window { from: Duration::from_secs(75), to: Duration::from_secs(90) }
        );
        assert_eq!(times(&schedule, 1).len(), 2430);
    }

    #[test]
    fn the_last_step_may_be_cut_short() {
        let schedule = staircase().schedule(Spacing::Even, 7 * MINUTE, 1.0);
        assert_eq!(
            schedule.steps(),
            [Window { from: Duration::ZERO, to: 5 * MINUTE }, Window { from: 5 * MINUTE, to: 7 * MINUTE }]
        );
        assert_eq!(schedule.calls_expected(), 300.0 * 12.0 + 120.0 * 18.0);
    }

    #[test]
    fn a_scenario_at_speed_keeps_every_nth_row() {
        let rows: String = (0..100).map(|i| format!("0000;0100;100;{};10\n", i / 10)).collect();
        let text =
            format!("caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s\n{rows}");
        let scenario = Scenario::read(text.as_bytes(), "s.csv", Ids { first: 0, count: 200 }).unwrap();
        let load = Load::Csv { file: "s.csv".to_owned(), scenario: Arc::new(scenario) };
        let schedule = load.schedule(Spacing::Even, load.length().unwrap(), 1.0);
        assert_eq!(times(&schedule, 1).len(), 100);
        let fast = load.schedule(Spacing::Even, load.length().unwrap(), 5.0);
        assert_eq!((fast.total(), fast.calls_expected()), (Duration::from_secs(2), 20.0));
        assert_eq!(times(&fast, 1).len(), 20);
        assert_eq!(fast.rate_at(Duration::from_secs(1)), 10.0);
        let first = fast.arrivals(Rng::from_seed(1)).next().unwrap();
        assert_eq!((first.caller, first.callee), (Some(0), Some(100)));
        let half = load.schedule(Spacing::Even, Duration::from_secs(5), 1.0);
        assert_eq!(times(&half, 1).len(), 50);
    }

    /// The numbers of calls per second of a Poisson process have the rate as mean and as variance, also where the
    /// rate changes; over 200 fixed seeds both estimates lie within four standard errors.
    #[test]
    fn poisson_counts_have_equal_mean_and_variance() {
        let load = Load::Step {
            start_per_s: 5.0,
            increment_per_s: 15.0,
            interval: Duration::from_secs(10),
            steps: Some(2),
        };
        let schedule = load.schedule(Spacing::Poisson, Duration::from_secs(20), 1.0);
        let mut bins = [Vec::new(), Vec::new()];
        for seed in 0..200 {
            let mut counts = [0u32; 20];
            for at in times(&schedule, seed) {
                counts[at.as_secs() as usize] += 1;
            }
            bins[0].extend_from_slice(&counts[..10]);
            bins[1].extend_from_slice(&counts[10..]);
        }
        for (counts, rate) in bins.iter().zip([5.0, 20.0f64]) {
            let n = counts.len() as f64;
            let mean = counts.iter().copied().map(f64::from).sum::<f64>() / n;
            let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / (n - 1.0);
            assert!((mean - rate).abs() < 4.0 * (rate / n).sqrt(), "mean {mean} at rate {rate}");
            // The variance of a Poisson sample variance is (λ + 2λ²)/n.
            let error = ((rate + 2.0 * rate * rate) / n).sqrt();
            assert!((variance - rate).abs() < 4.0 * error, "variance {variance} at rate {rate}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_calls_and_another_does_not() {
        let schedule = staircase().schedule(Spacing::Poisson, 30 * MINUTE, 20.0);
        assert_eq!(times(&schedule, 3), times(&schedule, 3));
        assert_ne!(times(&schedule, 3), times(&schedule, 4));
    }

    proptest! {
        /// Evenly spaced calls: as many as the integral of the rate up to any time, within one; in order; before the end.
        #[test]
        fn the_count_is_the_integral_within_one(
            start in 0.0f64..60.0, increment in 0.0f64..20.0, interval_ms in 500u64..20_000,
            steps in 1u32..8, speed in 1.0f64..4.0, share in 0.0f64..1.0,
        ) {
            let interval = Duration::from_millis(interval_ms);
            let load = Load::Step { start_per_s: start, increment_per_s: increment, interval, steps: Some(steps) };
            let schedule = load.schedule(Spacing::Even, interval * steps, speed);
            let times = times(&schedule, 0);
            prop_assert!((times.len() as f64 - schedule.calls_expected()).abs() <= 1.0);
            prop_assert!(times.is_sorted());
            prop_assert!(times.iter().all(|t| *t <= schedule.total()));
            let Calls::Rate { rate, .. } = &schedule.calls else { unreachable!() };
            let until = schedule.total().mul_f64(share);
            let before = times.iter().filter(|t| **t < until).count() as f64;
            prop_assert!((before - rate.calls_before(until)).abs() <= 1.0 + 1e-3);
        }
    }
}
