//! One small experiment, on sockets and in the simulator: the same calls come out of both.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use busyhour_lab::Driver;
use busyhour_lab::experiment::{Experiment, Judgement, Overrides};
use busyhour_lab::report::{Report, Status};
use busyhour_lab::run::{Options, run};

const EXPERIMENT: &str = r#"
name = "test/small"
title = "A few calls through two proxies"
seed = 3
duration = "2s"
[topology]
balancers = 1
proxies = 2
[users]
range = "0000-0019"
register_rate = "200/s"
[call]
hold = "200ms"
ring = "50ms"
[load]
kind = "constant"
rate = "20/s"
arrivals = "poisson"
pairing = "random"
[policy]
dispatch = "call-id-hash"
overload = "none"
[[expect]]
that = "calls.failed == 0"
"#;

fn report(driver: Driver) -> Report {
    let experiment =
        Experiment::parse(EXPERIMENT, "small.toml", Path::new(""), &Overrides::default()).expect("valid");
    let stop = AtomicBool::new(false);
    run(&experiment, &Options { driver, tty: false, stop: &stop }).expect("it can be run")
}

/// Requests that a proxy takes in for one call: INVITE, ACK to the 407, INVITE, ACK to the 200, BYE.
const REQUESTS_PER_CALL: u64 = 5;

fn check(report: &Report) {
    assert_eq!(report.count(Judgement::Pass), 1, "{:?}", report.verdicts);
    let calls = report.recorder.calls();
    assert!(calls.offered > 20, "{} calls", calls.offered);
    assert_eq!(calls.completed(), calls.offered);
    let (registered, _) = report.recorder.setup();
    assert_eq!((registered.offered, registered.completed), (20, 20));
    let proxies = report.recorder.proxies();
    assert_eq!(proxies.len(), 2);
    // What the proxies did before the load, the registrations above all, is not theirs of the run.
    assert_eq!(proxies.iter().map(|(_, work)| work.registers).sum::<u64>(), 0);
    let requests = proxies.iter().map(|(_, work)| work.requests).sum::<u64>();
    // On a busy machine some of them are sent again.
    assert!(requests >= REQUESTS_PER_CALL * calls.offered, "{requests}");
}

#[test]
fn on_sockets_and_in_the_simulator_the_same_calls_are_made() {
    let (sockets, simulated) = (report(Driver::Sockets), report(Driver::Simulator));
    check(&sockets);
    check(&simulated);
    assert_eq!(simulated.status(), Status::Pass, "{:?}", simulated.validity);
    assert_eq!(sockets.recorder.calls().offered, simulated.recorder.calls().offered);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |report: &Report| {
        let notes = &report.environment.notes;
        notes.iter().find(|(name, _)| name == "trace hash").map(|(_, hash)| hash.clone()).expect("a hash")
    };
    assert_eq!(hash(&report(Driver::Simulator)), hash(&report(Driver::Simulator)));
}
