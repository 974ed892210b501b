//! What each proxy did, from the cumulative counters that it tells every second.

use std::collections::BTreeMap;
use std::time::Duration;

/// The counters of one proxy at some moment. Counts and CPU time are cumulative since the proxy started.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxySample {
    /// The proxy, by the name that the configuration gives it.
    pub name: String,
    /// Requests that it took, of any method, retransmissions left out.
    pub requests: u64,
    /// INVITEs among them.
    pub invites: u64,
    /// REGISTERs among them.
    pub registers: u64,
    /// Requests that it refused because of overload.
    pub refused: u64,
    /// CPU time that it used, in seconds; None where the driver cannot tell.
    pub cpu_seconds: Option<f64>,
}

/// What one proxy did in some stretch of time.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct ProxyWork {
    /// Requests that it took.
    pub requests: u64,
    /// INVITEs among them.
    pub invites: u64,
    /// REGISTERs among them.
    pub registers: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// CPU time that it used, in seconds.
    pub cpu_s: f64,
    /// How long the CPU time was watched, in seconds; zero when the driver cannot tell.
    pub watched_s: f64,
}

impl ProxyWork {
    /// The share of one core that it used; None where that is not known.
    pub fn cpu_share(&self) -> Option<f64> {
        (self.watched_s > 0.0).then(|| self.cpu_s / self.watched_s)
    }

    fn add(&mut self, other: &ProxyWork) {
        self.requests += other.requests;
        self.invites += other.invites;
        self.registers += other.registers;
        self.refused += other.refused;
        self.cpu_s += other.cpu_s;
        self.watched_s += other.watched_s;
    }

    /// What happened between two samples. A counter that went back belongs to a proxy that started again, whose
    /// whole count is new.
    fn between(before: &ProxySample, after: &ProxySample, apart: Duration) -> ProxyWork {
        let restarted = after.requests < before.requests;
        let since = |before: u64, after: u64| if restarted { after } else { after.saturating_sub(before) };
        let cpu = match (before.cpu_seconds, after.cpu_seconds) {
            (Some(before), Some(after)) if after >= before && !restarted => Some(after - before),
            (_, Some(after)) if restarted => Some(after),
            _ => None,
        };
        ProxyWork {
            requests: since(before.requests, after.requests),
            invites: since(before.invites, after.invites),
            registers: since(before.registers, after.registers),
            refused: since(before.refused, after.refused),
            cpu_s: cpu.unwrap_or(0.0),
            watched_s: cpu.map_or(0.0, |_| apart.as_secs_f64()),
        }
    }
}

/// One proxy over the run.
#[derive(Clone, Debug, Default)]
struct Track {
    last: Option<(Duration, ProxySample)>,
    intervals: BTreeMap<usize, ProxyWork>,
    /// What it did after the warm-up; None when it was not there then.
    total: Option<ProxyWork>,
}

/// All proxies over the run. Invariant: every interval that a proxy was sampled in has an entry, also when it did
/// nothing, so that "idle" and "not there" differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies {
    tracks: BTreeMap<String, Track>,
    not_tracked: u64,
}

/// More proxies than this are counted as refused and not tracked.
const PROXIES_MAX: usize = 4096;

impl Proxies {
    /// Takes one sample made `at` after the start of the run. The first sample of a proxy at the start is its
    /// baseline; a proxy that shows up later counts from zero.
    pub(super) fn record(&mut self, at: Duration, interval: usize, warm: bool, sample: &ProxySample) {
        if !self.tracks.contains_key(&sample.name) && self.tracks.len() >= PROXIES_MAX {
            self.not_tracked += 1;
            return;
        }
        let track = self.tracks.entry(sample.name.clone()).or_default();
        let work = match &track.last {
            Some((before_at, before)) => {
                Some(ProxyWork::between(before, sample, at.saturating_sub(*before_at)))
            }
            None if at.is_zero() => None,
            None => Some(ProxyWork {
                requests: sample.requests,
                invites: sample.invites,
                registers: sample.registers,
                refused: sample.refused,
                cpu_s: 0.0,
                watched_s: 0.0,
            }),
        };
        track.last = Some((at, sample.clone()));
        let Some(work) = work else { return };
        track.intervals.entry(interval).or_default().add(&work);
        if warm {
            track.total.get_or_insert_default().add(&work);
        }
    }

    pub(super) fn coarsen(&mut self, by: usize) {
        for track in self.tracks.values_mut() {
            let mut coarse: BTreeMap<usize, ProxyWork> = BTreeMap::new();
            for (i, work) in &track.intervals {
                coarse.entry(i / by).or_default().add(work);
            }
            track.intervals = coarse;
        }
    }

    pub(super) fn merge(&mut self, other: &Proxies) {
        for (name, theirs) in &other.tracks {
            let ours = self.tracks.entry(name.clone()).or_default();
            for (&i, work) in &theirs.intervals {
                ours.intervals.entry(i).or_default().add(work);
            }
            if let Some(total) = &theirs.total {
                ours.total.get_or_insert_default().add(total);
            }
        }
        self.not_tracked += other.not_tracked;
    }

    pub(super) fn not_tracked(&self) -> u64 {
        self.not_tracked
    }

    /// What each proxy that was there after the warm-up did then, by name.
    pub(super) fn totals(&self) -> Vec<(&str, ProxyWork)> {
        self.tracks.iter().filter_map(|(name, t)| t.total.map(|total| (name.as_str(), total))).collect()
    }

    /// What each proxy did in a range of intervals; a proxy that was not there is left out.
    pub(super) fn within(&self, range: std::ops::Range<usize>) -> Vec<(&str, ProxyWork)> {
        let work = |t: &Track| {
            let mut sum = ProxyWork::default();
            let mut there = false;
            for (_, w) in t.intervals.range(range.clone()) {
                sum.add(w);
                there = true;
            }
            there.then_some(sum)
        };
        self.tracks.iter().filter_map(|(name, t)| work(t).map(|w| (name.as_str(), w))).collect()
    }

    /// One past the last interval that any proxy was sampled in.
    pub(super) fn end(&self) -> usize {
        self.tracks.values().filter_map(|t| t.intervals.keys().next_back()).max().map_or(0, |i| i + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(requests: u64, cpu: Option<f64>) -> ProxySample {
        ProxySample {
            name: "p1".to_owned(),
            requests,
            invites: requests / 2,
            registers: 0,
            refused: 0,
            cpu_seconds: cpu,
        }
    }

    #[test]
    fn cumulative_counters_become_work_per_interval() {
        let mut p = Proxies::default();
        p.record(Duration::ZERO, 0, false, &sample(1000, Some(5.0)));
        p.record(Duration::from_secs(1), 0, true, &sample(1010, Some(5.25)));
        p.record(Duration::from_secs(2), 1, true, &sample(1030, Some(5.75)));
        let work = p.within(0..1)[0].1;
        assert_eq!((work.requests, work.invites, work.cpu_share()), (10, 5, Some(0.25)));
        let work = p.totals()[0].1;
        assert_eq!((work.requests, work.cpu_share()), (30, Some(0.375)));
    }

    #[test]
    fn a_proxy_that_started_again_counts_from_zero() {
        let mut p = Proxies::default();
        p.record(Duration::ZERO, 0, false, &sample(1000, None));
        p.record(Duration::from_secs(1), 0, true, &sample(40, None));
        assert_eq!(p.totals()[0].1.requests, 40);
        assert_eq!(p.totals()[0].1.cpu_share(), None);
    }

    #[test]
    fn a_late_proxy_counts_from_zero_and_an_idle_one_is_there() {
        let mut p = Proxies::default();
        p.record(Duration::from_secs(9), 8, true, &sample(40, None));
        p.record(Duration::from_secs(10), 9, true, &sample(40, None));
        assert_eq!(p.totals()[0].1.requests, 40);
        assert_eq!(p.within(9..10).len(), 1);
        assert!(p.within(0..8).is_empty());
    }
}
