use std::time::Duration;

use busyhour_engine::Rng;

use super::fixtures::{ORIGIN, call, completed, ms, registration};
use super::*;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn recorder(duration_s: u64, warmup_s: u64) -> Recorder {
    Recorder::new(RecorderConfig { warmup: secs(warmup_s), ..RecorderConfig::new(ORIGIN, secs(duration_s)) })
}

fn window(from: u64, to: u64) -> Option<(Duration, Duration)> {
    Some((secs(from), secs(to)))
}

fn proxy(name: &str, requests: u64, cpu: Option<f64>) -> ProxySample {
    ProxySample {
        name: name.to_owned(),
        requests,
        invites: requests,
        registers: 0,
        refused: 0,
        cpu_seconds: cpu,
    }
}

#[test]
fn warm_up_is_in_the_series_and_not_in_the_totals() {
    let mut r = recorder(10, 4);
    for s in 0..10 {
        r.record_call(&completed(s * 1000, if s < 4 { 900 } else { 10 }));
    }
    assert_eq!(r.metric("calls.offered", None), Some(6.0));
    let max = r.metric("srd.max", None).unwrap();
    assert!((max - 0.010).abs() < 1e-5, "{max}");
    let points = r.series(usize::MAX);
    assert_eq!(points.iter().map(|p| p.calls.offered).sum::<u64>(), 10);
    assert!(points[0].delays(Delay::Srd).unwrap().p50_s > 0.89);
    assert_eq!(r.metric("load", None), Some(1.0));
}

#[test]
fn calls_count_when_planned_and_completions_when_they_happen() {
    let mut r = recorder(10, 0);
    r.record_call(&call(500, 20, 3000, Outcome::Completed));
    let points = r.series(usize::MAX);
    assert_eq!((points[0].calls.offered, points[0].calls.completed(), points[0].completed_by_end), (1, 1, 0));
    assert_eq!((points[3].calls.offered, points[3].completed_by_end), (0, 1));
    assert_eq!(r.metric("goodput", window(0, 2)), Some(0.0));
    assert_eq!(r.metric("goodput", window(2, 4)), Some(0.5));
    assert_eq!(r.metric("goodput", None), Some(0.1));
}

#[test]
fn completions_after_the_load_are_no_goodput_of_the_load() {
    let mut r = recorder(10, 0);
    r.record_call(&call(9500, 20, 2000, Outcome::Completed));
    assert_eq!(r.metric("calls.completed", None), Some(1.0));
    assert_eq!(r.metric("goodput", None), Some(0.0));
    let last = r.series(usize::MAX).pop().unwrap();
    assert_eq!((last.planned_per_s(0), last.per_s(last.completed_by_end)), (None, 1.0));
}

#[test]
fn a_window_takes_the_intervals_that_begin_in_it() {
    let mut r = recorder(100, 0);
    for s in 0..100 {
        r.record_call(&completed(s * 1000 + 999, 10 + s));
    }
    assert_eq!(r.metric("calls.offered", window(10, 20)), Some(10.0));
    assert_eq!(r.metric("calls.offered", window(0, 100)), r.metric("calls.offered", None));
    let half = Some((ms(10_500), ms(12_500)));
    assert_eq!(r.metric("calls.offered", half), Some(2.0));
    let p50 = r.metric("srd.p50", window(10, 11)).unwrap();
    assert!((p50 - 0.020).abs() < 1e-4, "{p50}");
    assert_eq!(r.metric("srd.p50", window(200, 300)), None);
    assert_eq!(r.metric("calls.offered", window(20, 10)), Some(0.0));
}

#[test]
fn failed_calls_do_not_colour_the_delay_of_answered_ones() {
    let mut r = recorder(10, 0);
    r.record_call(&completed(0, 10));
    r.record_call(&call(0, 5000, 5000, Outcome::Refused(503)));
    r.record_call(&call(0, 7000, 7000, Outcome::Refused(302)));
    r.record_call(&call(0, 6000, 6000, Outcome::Refused(407)));
    r.record_call(&call(0, 0, 32_000, Outcome::InviteTimeout));
    assert_eq!(r.metric("srd.count", None), Some(1.0));
    assert_eq!(r.metric("srd_failed.count", None), Some(1.0));
    assert!(r.metric("srd.max", None).unwrap() < 0.011);
    assert_eq!(r.metric("calls.refused.503", None), Some(1.0));
    assert_eq!(r.metric("calls.timeout", None), Some(1.0));
    assert_eq!(r.metric("ser", None), Some(0.25));
}

#[test]
fn registrations_before_the_load_are_told_apart() {
    let mut r = recorder(10, 0);
    r.record_registration(&registration(-5000, 30, Some(200)));
    r.record_registration(&registration(1000, 20, Some(200)));
    r.record_registration(&registration(2000, 20, None));
    assert_eq!(r.metric("setup.registrations.completed", None), Some(1.0));
    assert_eq!(r.metric("registrations.offered", None), Some(2.0));
    assert_eq!(r.metric("registrations.failed", None), Some(1.0));
    assert_eq!(r.metric("rrd.count", None), Some(1.0));
    assert_eq!(r.metric("ira", None), Some(0.5));
}

#[test]
fn shares_of_proxies() {
    let mut r = recorder(10, 0);
    r.record_proxies(ORIGIN, &[proxy("a", 100, Some(1.0)), proxy("b", 100, Some(1.0))]);
    r.record_proxies(ORIGIN + secs(2), &[proxy("a", 130, Some(1.5)), proxy("b", 110, Some(1.25))]);
    assert_eq!(r.metric("proxy.share.max", None), Some(0.75));
    assert_eq!(r.metric("proxy.share.min", None), Some(0.25));
    assert_eq!(r.metric("proxy.cpu.max", None), Some(0.25));
    assert_eq!(r.metric("proxy.cpu.std", None), Some(0.0625));
    assert_eq!(r.metric("proxy.count", window(1, 2)), Some(2.0));
    assert_eq!(r.metric("proxy.count", window(5, 6)), Some(0.0));
    assert_eq!(r.metric("proxy.share.max", window(5, 6)), None);
}

#[test]
fn merging_loses_nothing_and_repetitions_keep_their_rate() {
    let mut rng = Rng::from_seed(5);
    let (mut a, mut b, mut all) = (recorder(60, 10), recorder(60, 10), recorder(60, 10));
    for i in 0..4000 {
        let at = rng.below(60_000);
        let record = match rng.below(10) {
            0 => call(at, 40, 40, Outcome::Refused(503)),
            _ => completed(at, 1 + rng.below(800)),
        };
        if i % 3 == 0 {
            a.record_call(&record)
        } else {
            b.record_call(&record)
        }
        all.record_call(&record);
    }
    let mut fleets = a.clone();
    fleets.merge_parallel(&b).unwrap();
    let mut repeated = a.clone();
    repeated.merge_repetition(&b).unwrap();
    for name in
        ["calls.offered", "srd.p50", "srd.p99", "srd.p999", "srd.mean", "goodput", "load", "ser", "isa"]
    {
        for w in [None, window(0, 7), window(20, 40)] {
            assert_eq!(fleets.metric(name, w), all.metric(name, w), "{name} in {w:?}");
        }
    }
    assert_eq!(fleets.series(100), all.series(100));
    assert_eq!(repeated.runs(), 2);
    assert_eq!(repeated.metric("calls.offered", None), all.metric("calls.offered", None));
    assert_eq!(repeated.metric("load", None), all.metric("load", None).map(|x| x / 2.0));
    assert_eq!(a.merge_parallel(&recorder(61, 10)), Err(MergeError::DifferentRuns));
}

#[test]
fn a_long_run_gets_longer_intervals_and_loses_nothing() {
    let mut r = recorder(600, 0);
    assert_eq!(r.interval(), secs(1));
    let mut reference = Delays::new();
    for s in 0..20_000 {
        r.record_call(&completed(s * 1000, 1 + s % 700));
        reference.record(ms(1 + s % 700));
    }
    r.record_proxies(ORIGIN + secs(20_000), &[proxy("late", 5, None)]);
    assert_eq!(r.interval(), secs(16));
    let points = r.series(usize::MAX);
    assert!(points.len() <= INTERVALS_MAX, "{}", points.len());
    assert_eq!(points.iter().map(|p| p.calls.offered).sum::<u64>(), 20_000);
    assert_eq!(r.metric("srd.p99", window(0, 40_000)), reference.quantile(0.99));
    assert_eq!(points.last().unwrap().proxies.len(), 1);
    let mut short = recorder(600, 0);
    short.record_call(&completed(0, 5));
    short.merge_parallel(&r).unwrap();
    assert_eq!(short.metric("calls.offered", None), Some(20_001.0));
    assert_eq!(short.interval(), secs(16));
}

#[test]
fn series_of_few_points_add_up() {
    let mut r = recorder(100, 0);
    for s in 0..100 {
        r.record_call(&completed(s * 1000, 10));
    }
    let points = r.series(7);
    assert!(points.len() <= 7);
    assert_eq!(points.iter().map(|p| p.calls.offered).sum::<u64>(), 100);
    assert!(points.iter().all(|p| p.planned_per_s(p.calls.offered).is_none_or(|x| (x - 1.0).abs() < 1e-9)));
    assert_eq!(recorder(48 * 3600, 0).interval(), secs(120));
}

#[test]
fn a_generator_that_lags_drops_or_stops_makes_the_run_invalid() {
    let codes = |r: &Recorder| r.validity().reasons().iter().map(Reason::code).collect::<Vec<_>>();
    let mut good = recorder(10, 0);
    for s in 0..10 {
        good.record_call(&completed(s * 1000, 10));
    }
    assert!(good.validity().is_valid());

    let mut late = good.clone();
    let mut record = completed(5000, 300);
    record.sent = record.plan.at + ms(200);
    late.record_call(&record);
    assert_eq!(codes(&late), ["generator-lag"]);
    assert!(late.metric("generator.lag.max", None).unwrap() > 0.199);

    let mut full = good.clone();
    full.record_call(&call(10, 0, 0, Outcome::NotStarted));
    full.record_generator(ORIGIN + secs(1), &GeneratorSample { cpu_share: None, dropped: 2 });
    assert_eq!(codes(&full), ["calls-not-started", "messages-dropped"]);
    assert_eq!(full.metric("generator.lag.count", None), Some(10.0));

    let mut hot = good.clone();
    for s in 1..=10 {
        hot.record_generator(ORIGIN + secs(s), &GeneratorSample { cpu_share: Some(1.0), dropped: 0 });
    }
    assert_eq!(codes(&hot), ["generator-cpu"]);
    assert_eq!(codes(&recorder(10, 0)), ["nothing-measured"]);

    let mut early = good.clone();
    let mut record = completed(0, 10);
    record.plan.at = ORIGIN - secs(1);
    early.record_call(&record);
    assert_eq!(codes(&early), ["not-recorded"]);
}

#[test]
fn a_good_repetition_hides_no_bad_one() {
    let mut good = recorder(10, 0);
    for i in 0..1000 {
        good.record_call(&completed(i * 10, 10));
    }
    let mut late = recorder(10, 0);
    let mut record = completed(5000, 300);
    record.sent = record.plan.at + ms(200);
    late.record_call(&record);
    for (first, second) in [(&good, &late), (&late, &good)] {
        let mut both = first.clone();
        both.merge_repetition(second).unwrap();
        both.merge_repetition(&good).unwrap();
        assert!(both.metric("generator.lag.p99", None).unwrap() < 0.05, "the percentile of all calls is low");
        assert!(matches!(both.validity().reasons(), [Reason::Lagged { .. }]));
    }
    let mut with_nothing = good.clone();
    with_nothing.merge_repetition(&recorder(10, 0)).unwrap();
    assert_eq!(with_nothing.validity().reasons(), [Reason::NothingMeasured]);
    let mut from_nothing = recorder(10, 0);
    from_nothing.merge_parallel(&good).unwrap();
    assert!(from_nothing.validity().is_valid(), "a fleet without calls of its own is no repetition");
}

/// A recorder with something of everything.
fn full() -> Recorder {
    let mut r = recorder(10, 0);
    r.record_registration(&registration(-5000, 30, Some(200)));
    r.record_registration(&registration(1000, 20, Some(200)));
    r.record_call(&completed(0, 10));
    r.record_call(&call(0, 20, 20, Outcome::Refused(486)));
    r.record_proxies(ORIGIN, &[proxy("a", 100, Some(1.0))]);
    r.record_proxies(ORIGIN + secs(1), &[proxy("a", 130, Some(1.5))]);
    r.record_generator(ORIGIN + secs(1), &GeneratorSample { cpu_share: Some(0.25), dropped: 0 });
    r
}

#[test]
fn every_listed_metric_has_a_value_and_no_other_name_does() {
    let r = full();
    for m in METRICS {
        let names: Vec<String> = if m.name.ends_with('.') {
            ["p50", "p90", "p99", "p999", "mean", "max", "count"].map(|s| format!("{}{s}", m.name)).to_vec()
        } else {
            vec![m.name.to_owned()]
        };
        for name in names {
            assert!(is_metric(&name), "{name}");
            for w in [None, window(0, 10)] {
                assert!(r.metric(&name, w).is_some(), "{name} in {w:?}");
            }
        }
    }
    assert!(is_metric("calls.refused.503") && !is_metric("calls.refused.200"));
    for name in
        ["", "srd", "srd.", "srd.p98", "calls", "calls.nonsense", "proxy.share", "generator.lag", "serr"]
    {
        assert!(!is_metric(name), "{name}");
        assert_eq!(r.metric(name, None), None, "{name}");
    }
}

#[test]
fn a_snapshot_tells_the_last_seconds() {
    let mut r = recorder(100, 0);
    for s in 0..20 {
        r.record_call(&completed(s * 1000, if s < 10 { 500 } else { 10 }));
    }
    r.record_call(&call(19_000, 5, 5, Outcome::Refused(503)));
    let snapshot = r.snapshot(ORIGIN + secs(20), 25, 4);
    assert_eq!((snapshot.offered, snapshot.completed, snapshot.in_progress), (25, 20, 4));
    assert_eq!(snapshot.failures, vec![(Outcome::Refused(503), 1)]);
    assert!(snapshot.srd_p99_s.unwrap() < 0.011);
    let later = r.snapshot(ORIGIN + secs(60), 25, 4);
    assert_eq!(later.srd_p50_s, None);
}
