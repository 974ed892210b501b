//! 500 random clusters under random faults: see `busyhour_lab::swarm`.
//!
//! `BUSYHOUR_SWARM_SEEDS` says how many, `BUSYHOUR_SWARM_FROM` with which seed to begin.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use busyhour_lab::callflow::CallFlow;
use busyhour_lab::swarm::{self, Failure, Outcome, Weather};

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, found {text:?}")),
        Err(_) => default,
    }
}

/// Runs seeds on all cores; outcomes by seed, and failures.
fn run_all(seeds: std::ops::Range<u64>) -> (Vec<(u64, Outcome)>, Vec<Failure>) {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new((Vec::new(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = swarm::run(seed, None);
                    let (outcomes, failures) = &mut *results.lock().unwrap();
                    match result {
                        Ok(outcome) => outcomes.push((seed, outcome)),
                        Err(failure) => failures.push(failure),
                    }
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn random_clusters_are_safe_and_recover() {
    let from = number("BUSYHOUR_SWARM_FROM", 0);
    let count = number("BUSYHOUR_SWARM_SEEDS", 500);
    let (outcomes, failures) = run_all(from..from + count);
    for failure in &failures {
        eprintln!("{failure}\n");
    }
    assert!(failures.is_empty(), "{} of {count} seeds fail", failures.len());
    if count < 100 {
        return;
    }
    // That nothing bad happened says something only when much happened.
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(|(_, outcome)| of(outcome)).sum::<u64>();
    let weather = |w| outcomes.iter().filter(|(_, outcome)| outcome.weather == w).count() as u64;
    assert!(weather(Weather::Calm) > count / 6 && weather(Weather::Storm) > count / 4);
    assert!(sum(|o| o.completed as u64) > 10 * count, "calls complete");
    assert!(sum(|o| (o.calls - o.completed) as u64) > 2 * count, "and calls fail");
    assert!(sum(|o| o.passed_on) > count, "messages go to earlier owners");
    assert!(sum(|o| o.removed as u64) > count / 10, "proxies are removed");
    assert!(sum(|o| o.second_answers) > count / 10, "two phones answer");
}

/// The same seed gives the same trace, with and without somebody who watches.
#[test]
fn a_seed_has_one_trace() {
    let hash = |seed, flow| swarm::run(seed, flow).map(|outcome| outcome.trace_hash).unwrap();
    let hashes: Vec<u64> = (0..8).map(|seed| hash(seed, None)).collect();
    let again: Vec<u64> =
        (0..8).map(|seed| hash(seed, Some(CallFlow::new(Box::new(std::io::sink()))))).collect();
    assert_eq!(hashes, again);
    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
}
