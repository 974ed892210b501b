//! Figures by name, for the expectations of an experiment.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use super::Recorder;
use super::delays::Delays;
use super::interval::{Delay, Totals};
use super::proxies::ProxyWork;

/// What a figure is counted in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Per second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// A share of a whole, 0 to 1.
    Share,
}

/// A figure that [`Recorder::metric`] can tell.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name. In a name that ends with a dot stands `p50`, `p90`, `p99`, `p999`, `mean`, `max` or `count` behind it.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// What it tells.
    pub meaning: &'static str,
}

const fn metric(name: &'static str, unit: Unit, meaning: &'static str) -> Metric {
    Metric { name, unit, meaning }
}

/// All names that [`Recorder::metric`] knows, besides `calls.refused.STATUS` (as in `calls.refused.503`).
pub const METRICS: [Metric; 45] = [
    metric("calls.offered", Unit::Count, "calls planned"),
    metric("calls.started", Unit::Count, "calls whose INVITE was sent"),
    metric("calls.answered", Unit::Count, "calls that got a 200"),
    metric("calls.completed", Unit::Count, "calls answered, held and ended with an answered BYE"),
    metric("calls.failed", Unit::Count, "calls refused, timed out or not ended properly"),
    metric("calls.refused", Unit::Count, "calls whose INVITE got 300 to 699"),
    metric("calls.timeout", Unit::Count, "calls whose INVITE or BYE got no final response"),
    metric("calls.unfinished", Unit::Count, "calls cut off by the end of the run"),
    metric("calls.not_started", Unit::Count, "calls never sent by the generator"),
    metric("calls.retransmissions", Unit::Count, "INVITEs and BYEs sent again by callers"),
    metric("load", Unit::PerSecond, "calls planned per second"),
    metric("goodput", Unit::PerSecond, "calls completed per second, by when they ended"),
    metric("srd.", Unit::Seconds, "session request delay of answered calls (RFC 6076 section 4.3.1)"),
    metric("srd_failed.", Unit::Seconds, "session request delay of failed calls (RFC 6076 section 4.3.2)"),
    metric("rrd.", Unit::Seconds, "registration request delay (RFC 6076 section 4.1)"),
    metric("sdd.", Unit::Seconds, "session disconnect delay (RFC 6076 section 4.4)"),
    metric("registrations.offered", Unit::Count, "registrations planned"),
    metric("registrations.completed", Unit::Count, "registrations with a 2xx"),
    metric("registrations.failed", Unit::Count, "registrations without a 2xx"),
    metric("ser", Unit::Share, "session establishment ratio (RFC 6076 section 4.6)"),
    metric("seer", Unit::Share, "session establishment effectiveness ratio (RFC 6076 section 4.7)"),
    metric("isa", Unit::Share, "ineffective session attempts (RFC 6076 section 4.8)"),
    metric("scr", Unit::Share, "session completion ratio (RFC 6076 section 4.9)"),
    metric("ira", Unit::Share, "ineffective registration attempts (RFC 6076 section 4.2)"),
    metric("proxy.count", Unit::Count, "proxies that were there"),
    metric("proxy.share.min", Unit::Share, "share of all requests that the least used proxy took"),
    metric("proxy.share.max", Unit::Share, "share of all requests that the most used proxy took"),
    metric("proxy.requests", Unit::Count, "requests that the proxies took"),
    metric("proxy.refused", Unit::Count, "requests that the proxies refused because of overload"),
    metric("proxy.cpu.min", Unit::Share, "share of a core that the least busy proxy used"),
    metric("proxy.cpu.mean", Unit::Share, "share of a core that the proxies used on average"),
    metric("proxy.cpu.max", Unit::Share, "share of a core that the busiest proxy used"),
    metric("proxy.cpu.std", Unit::Share, "standard deviation over the proxies of the share of a core"),
    metric("generator.lag.", Unit::Seconds, "how late the generator sent INVITEs"),
    metric("generator.cpu.max", Unit::Share, "share of a core that the busiest generator thread used"),
    metric(
        "generator.dropped",
        Unit::Count,
        "messages that the generator could not send, over the whole run",
    ),
    metric("setup.registrations.offered", Unit::Count, "registrations before the load"),
    metric("setup.registrations.completed", Unit::Count, "registrations before the load with a 2xx"),
    metric("setup.registrations.failed", Unit::Count, "registrations before the load without a 2xx"),
    metric("setup.rrd.", Unit::Seconds, "registration request delay before the load"),
    metric("runs", Unit::Count, "repetitions"),
    metric("duration", Unit::Seconds, "how long calls were planned for"),
    metric("warmup", Unit::Seconds, "how much of the duration is left out"),
    metric("window", Unit::Seconds, "how long the stretch is that the figures are of"),
    metric("speed", Unit::Count, "seconds of the scenario per second of the run"),
];

const DISTRIBUTIONS: [(&str, Delay); 5] = [
    ("srd.", Delay::Srd),
    ("srd_failed.", Delay::SrdFailed),
    ("rrd.", Delay::Rrd),
    ("sdd.", Delay::Sdd),
    ("generator.lag.", Delay::Lag),
];

/// Whether [`Recorder::metric`] knows a name, so that an experiment can be refused before it runs.
pub fn is_metric(name: &str) -> bool {
    let known = |m: &Metric| match name.strip_prefix(m.name) {
        Some("") => !m.name.ends_with('.'),
        Some(rest) => m.name.ends_with('.') && STATISTICS.contains(&rest),
        None => false,
    };
    refused_status(name).is_some() || METRICS.iter().any(known)
}

const STATISTICS: [&str; 7] = ["p50", "p90", "p99", "p999", "mean", "max", "count"];

fn statistic(delays: &Delays, name: &str) -> Option<f64> {
    match name {
        "p50" => delays.quantile(0.5),
        "p90" => delays.quantile(0.9),
        "p99" => delays.quantile(0.99),
        "p999" => delays.quantile(0.999),
        "mean" => delays.mean(),
        "max" => delays.max(),
        "count" => Some(delays.count() as f64),
        _ => None,
    }
}

fn refused_status(name: &str) -> Option<u16> {
    let status = name.strip_prefix("calls.refused.")?.parse().ok()?;
    (300..=699).contains(&status).then_some(status)
}

impl Recorder {
    /// A figure by name; see [`METRICS`] for the names and units.
    ///
    /// Without a window it is of everything planned after the warm-up. A window is a stretch `[from, to)` of the run,
    /// counted from its origin, and is held to whole intervals: it takes every interval that begins in it. `setup.…`
    /// and `generator.dropped` are of the whole run in any case. Counts of merged repetitions are sums over all of
    /// them, rates those of the average one.
    ///
    /// None when the name is unknown ([`is_metric`] tells) or when there is nothing to compute it from: a percentile
    /// of no calls, a ratio of nothing.
    pub fn metric(&self, name: &str, window: Option<(Duration, Duration)>) -> Option<f64> {
        if let Some(value) = self.run_metric(name) {
            return value;
        }
        if let Some(rest) = name.strip_prefix("proxy.") {
            return proxy_metric(rest, &self.proxies_of(window));
        }
        let totals = self.totals_of(window);
        for (prefix, kind) in DISTRIBUTIONS {
            if let Some(rest) = name.strip_prefix(prefix) {
                return statistic(totals.delays(kind), rest);
            }
        }
        let seconds = self.window_s(window);
        let per_s = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds / f64::from(self.runs));
        let (calls, registrations) = (&totals.calls, &totals.registrations);
        let count = match name {
            "load" => return per_s(calls.offered),
            "goodput" => return per_s(totals.completed_by_end),
            "ser" => return calls.ser(),
            "seer" => return calls.seer(),
            "isa" => return calls.isa(),
            "scr" => return calls.scr(),
            "ira" => return registrations.ira(),
            "window" => return Some(seconds),
            "generator.cpu.max" => {
                return window.map_or(self.generator.cpu_max, |w| self.generator.cpu_within(self.range(w)));
            }
            "registrations.offered" => registrations.offered,
            "registrations.completed" => registrations.completed,
            "registrations.failed" => registrations.failed(),
            _ => call_count(name, totals.as_ref())?,
        };
        Some(count as f64)
    }

    /// Figures that are of the whole run whatever the window: Some(None) is a known figure without a value.
    fn run_metric(&self, name: &str) -> Option<Option<f64>> {
        let registrations = &self.setup.registrations;
        if let Some(rest) = name.strip_prefix("setup.rrd.") {
            return Some(statistic(self.setup.delays(Delay::Rrd), rest));
        }
        let value = match name {
            "setup.registrations.offered" => registrations.offered as f64,
            "setup.registrations.completed" => registrations.completed as f64,
            "setup.registrations.failed" => registrations.failed() as f64,
            "generator.dropped" => self.generator.dropped as f64,
            "runs" => f64::from(self.runs),
            "duration" => self.config.duration.as_secs_f64(),
            "warmup" => self.config.warmup.as_secs_f64(),
            "speed" => self.config.speed,
            _ => return None,
        };
        Some(Some(value))
    }

    /// The intervals that begin in a window.
    fn range(&self, (from, to): (Duration, Duration)) -> Range<usize> {
        let first = |t: Duration| {
            let interval = u128::from(self.interval_s) * 1_000_000_000;
            usize::try_from(t.as_nanos().div_ceil(interval)).unwrap_or(usize::MAX)
        };
        first(from)..first(to).max(first(from))
    }

    /// The length of a window after it was held to intervals, in seconds.
    fn window_s(&self, window: Option<(Duration, Duration)>) -> f64 {
        match window {
            None => self.config.duration.saturating_sub(self.config.warmup).as_secs_f64(),
            Some(window) => self.range(window).len() as f64 * self.interval_s as f64,
        }
    }

    fn totals_of(&self, window: Option<(Duration, Duration)>) -> Cow<'_, Totals> {
        let Some(window) = window else { return Cow::Borrowed(&self.totals) };
        let range = self.range(window);
        let mut totals = Totals::default();
        for interval in self.intervals.iter().take(range.end).skip(range.start) {
            totals.add_interval(interval);
        }
        Cow::Owned(totals)
    }

    fn proxies_of(&self, window: Option<(Duration, Duration)>) -> Vec<ProxyWork> {
        let all = match window {
            None => self.proxies.totals(),
            Some(window) => self.proxies.within(self.range(window)),
        };
        all.into_iter().map(|(_, work)| work).collect()
    }
}

fn call_count(name: &str, totals: &Totals) -> Option<u64> {
    use busyhour_roles::ua::Outcome;
    let calls = &totals.calls;
    if let Some(status) = refused_status(name) {
        return Some(calls.with(Outcome::Refused(status)));
    }
    Some(match name {
        "calls.offered" => calls.offered,
        "calls.started" => calls.started,
        "calls.answered" => calls.answered,
        "calls.completed" => calls.completed(),
        "calls.failed" => calls.failed(),
        "calls.refused" => calls.refused(),
        "calls.timeout" => calls.timeout(),
        "calls.unfinished" => calls.with(Outcome::Unfinished),
        "calls.not_started" => calls.with(Outcome::NotStarted),
        "calls.retransmissions" => calls.retransmissions,
        _ => return None,
    })
}

fn proxy_metric(name: &str, proxies: &[ProxyWork]) -> Option<f64> {
    let requests: u64 = proxies.iter().map(|p| p.requests).sum();
    let share = |n: u64| (requests > 0).then(|| n as f64 / requests as f64);
    let cpu: Vec<f64> = proxies.iter().filter_map(ProxyWork::cpu_share).collect();
    let mean = (!cpu.is_empty()).then(|| cpu.iter().sum::<f64>() / cpu.len() as f64);
    match name {
        "count" => Some(proxies.len() as f64),
        "requests" => Some(requests as f64),
        "refused" => Some(proxies.iter().map(|p| p.refused).sum::<u64>() as f64),
        "share.min" => share(proxies.iter().map(|p| p.requests).min()?),
        "share.max" => share(proxies.iter().map(|p| p.requests).max()?),
        "cpu.min" => cpu.iter().copied().reduce(f64::min),
        "cpu.max" => cpu.iter().copied().reduce(f64::max),
        "cpu.mean" => mean,
        "cpu.std" => {
            let mean = mean?;
            Some((cpu.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / cpu.len() as f64).sqrt())
        }
        _ => None,
    }
}
