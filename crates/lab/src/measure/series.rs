//! The run over time, as points of a chart or rows of a file.

use super::Recorder;
use super::counts::{CallCounts, RegisterCounts};
use super::delays::{Delays, Quantiles};
use super::interval::{Delay, Interval};
use super::proxies::ProxyWork;

/// One or several intervals of the run. Calls and registrations are those planned in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where it begins, in seconds since the load began.
    pub start_s: f64,
    /// How long it is, in seconds.
    pub width_s: f64,
    /// How much of it calls were planned for, in seconds: zero after the load.
    pub load_s: f64,
    /// The number of repetitions that its counts are of.
    pub runs: u32,
    /// The calls planned in it.
    pub calls: CallCounts,
    /// The calls that were completed in it, whenever they were planned.
    pub completed_by_end: u64,
    /// The registrations planned in it.
    pub registrations: RegisterCounts,
    delays: [Option<Quantiles>; 5],
    /// The highest share of a core that a generator thread used; None where that is not known.
    pub generator_cpu: Option<f64>,
    /// What each proxy did, by name; one that was not there is left out.
    pub proxies: Vec<(String, ProxyWork)>,
}

impl Point {
    /// The middle of the point, in seconds.
    pub fn middle_s(&self) -> f64 {
        self.start_s + self.width_s / 2.0
    }

    /// Planned things per second, of one repetition; None after the load.
    pub fn planned_per_s(&self, n: u64) -> Option<f64> {
        (self.load_s > 0.0).then(|| n as f64 / self.load_s / f64::from(self.runs))
    }

    /// Things that happened per second, of one repetition.
    pub fn per_s(&self, n: u64) -> f64 {
        n as f64 / self.width_s / f64::from(self.runs)
    }

    /// The delays of what was planned in it; None when there were none.
    pub fn delays(&self, kind: Delay) -> Option<&Quantiles> {
        self.delays[kind as usize].as_ref()
    }
}

/// The first of 1, 2, 5, 10, 15, 20, 30, 60, 120, … that is not less than `n`.
fn round_up(n: usize) -> usize {
    let round = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800];
    round.into_iter().find(|r| *r >= n).unwrap_or(n)
}

impl Recorder {
    /// The run over time, in at most `points_max` points of the same length (the last may be shorter), which is a
    /// round number of intervals.
    pub fn series(&self, points_max: usize) -> Vec<Point> {
        let end = self.intervals.len().max(self.proxies.end());
        let per_point = round_up(end.div_ceil(points_max.max(1)).max(1));
        let mut scratch = Delays::new();
        let mut points = Vec::with_capacity(end.div_ceil(per_point));
        for start in (0..end).step_by(per_point) {
            points.push(self.point(start..(start + per_point).min(end), &mut scratch));
        }
        points
    }

    fn point(&self, range: std::ops::Range<usize>, scratch: &mut Delays) -> Point {
        let recorded = range.start.min(self.intervals.len())..range.end.min(self.intervals.len());
        let mut sum = Interval::default();
        for interval in &self.intervals[recorded.clone()] {
            sum.merge(interval);
        }
        let delays = Delay::ALL.map(|kind| {
            scratch.clear();
            sum.add_delays_to(kind, scratch);
            scratch.quantiles()
        });
        let interval_s = self.interval_s as f64;
        let (start_s, width_s) = (range.start as f64 * interval_s, range.len() as f64 * interval_s);
        let load_end_s = self.config.duration.as_secs_f64();
        let own = |(name, work): (&str, ProxyWork)| (name.to_owned(), work);
        Point {
            start_s,
            width_s,
            load_s: (load_end_s.min(start_s + width_s) - start_s).max(0.0),
            runs: self.runs,
            calls: sum.calls,
            completed_by_end: sum.completed_by_end,
            registrations: sum.registrations,
            delays,
            generator_cpu: self.generator.cpu_within(range.clone()),
            proxies: self.proxies.within(range).into_iter().map(own).collect(),
        }
    }
}
