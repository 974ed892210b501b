use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::expect::{At, Constants, Over, parse_at, parse_claim, parse_quantity};
use super::*;
use crate::arrivals::Window;

const SMALL: &str = r#"name = "test/small"
title = "A small experiment"
duration = "10m"
warmup = "1m"

[topology]
proxies = 2

[users]
range = "0100-0299"

[load]
kind = "constant"
rate = "5/s"
"#;

fn read(text: &str, overrides: &Overrides) -> Result<Experiment, String> {
    Experiment::parse(text, "x.toml", Path::new("."), overrides).map_err(|e| e.to_string())
}

fn wrong(text: &str) -> String {
    read(text, &Overrides::default()).map(|e| e.name).unwrap_err()
}

/// The small experiment with one line replaced.
fn with(line: &str, replacement: &str) -> String {
    assert!(SMALL.contains(line), "{line}");
    SMALL.replace(line, replacement)
}

fn shipped() -> Vec<PathBuf> {
    fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                collect(&path, out);
            } else if path.extension().is_some_and(|e| e == "toml") {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments"), &mut out);
    out
}

#[test]
fn every_shipped_experiment_loads_under_its_own_name_and_at_speed() {
    let files = shipped();
    assert!(files.len() >= 3, "{files:?}");
    for path in files {
        let experiment = Experiment::open(&path, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
        let end = format!("{}.toml", experiment.name);
        assert!(path.ends_with(&end), "{} is not {end}", path.display());
        assert!(!experiment.expectations.is_empty() && experiment.source.is_some(), "{end}");
        let fast = Overrides { speed: Some(20.0), ..Overrides::default() };
        let fast = Experiment::open(&path, &fast).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(fast.schedule.peak_per_s(), experiment.schedule.peak_per_s(), "{end}");
        assert_eq!(fast.duration(), experiment.duration().div_f64(20.0), "{end}");
        let count = fast.plan(0, Instant::EPOCH).count() as f64;
        let expected = fast.schedule.calls_expected();
        assert!((count - expected).abs() <= 4.0 * expected.sqrt(), "{end}: {count} calls for {expected}");
    }
}

#[test]
fn the_milan_day_is_three_hours_with_its_attribution() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/cnf/milan-day.toml");
    let day = Experiment::open(&path, &Overrides::default()).unwrap();
    assert_eq!(day.duration(), Duration::from_secs(3 * 3600));
    assert!((day.schedule.peak_per_s() - 45.0).abs() < 1e-9);
    let attribution = day.attribution.unwrap();
    assert!(
        attribution.contains("ODbL 1.0") && attribution.contains("doi:10.7910/DVN/EGZHFV"),
        "{attribution}"
    );
}

#[test]
fn what_is_left_out_has_its_default() {
    let small = read(SMALL, &Overrides::default()).unwrap();
    assert_eq!((small.topology.balancers, small.topology.proxies), (1, 2));
    assert_eq!((small.users.first, small.users.count, small.users.name(0)), (100, 200, "0100".to_owned()));
    assert_eq!(small.users.register_refresh, Duration::from_secs(3000));
    assert_eq!(small.policy, Policy { dispatch: "call-id-hash", overload: "none" });
    assert_eq!((small.seed, small.repeat, small.speed), (1, 1, 1.0));
    assert_eq!(small.duration(), Duration::from_secs(600));
    assert!(small.notes.is_empty());
}

#[test]
fn speed_divides_all_times_of_the_scenario_and_no_other() {
    let text =
        format!("{SMALL}[[fault]]\nat = \"5m\"\nwhat = \"pause\"\nnode = \"proxy-1\"\nfor = \"20s\"\n");
    let fast = read(&text, &Overrides { speed: Some(10.0), ..Overrides::default() }).unwrap();
    assert_eq!((fast.duration(), fast.warmup), (Duration::from_secs(60), Duration::from_secs(6)));
    let pause = FaultKind::Pause { node: Target::Proxy(1), lasts: Duration::from_secs(2) };
    assert_eq!(fast.faults, [Fault { at: Duration::from_secs(30), what: pause }]);
    assert_eq!(
        (fast.call.hold, fast.users.register_expires),
        (Duration::from_secs(2), Duration::from_secs(3600))
    );
    assert_eq!(fast.plan(0, Instant::EPOCH).count(), 300);
}

#[test]
fn a_shortened_run_says_what_it_leaves_out() {
    let text = format!(
        "{SMALL}[[fault]]\nat = \"5m\"\nwhat = \"add\"\n[[expect]]\nthat = \"load within 1% of 5/s\"\nat = \"6m..8m\"\n"
    );
    let short =
        read(&text, &Overrides { duration: Some(Duration::from_secs(120)), ..Overrides::default() }).unwrap();
    assert!(short.faults.is_empty());
    assert_eq!(
        short.notes,
        ["the run ends before the fault at 5m", "the run is cut short: 2m of 10m of the load"]
    );
    let verdict = &short.judge(&Fixed::new(&[("load", 5.0)]), Driver::Simulator)[0];
    assert_eq!(verdict.judgement, Judgement::Skipped);
    assert_eq!(verdict.found, "the run was cut short before 6m..8m was over");
}

#[test]
fn the_same_seed_gives_the_same_plan_and_repetitions_differ() {
    let small = read(SMALL, &Overrides { seed: Some(9), ..Overrides::default() }).unwrap();
    let plan = |repetition| small.plan(repetition, Instant::EPOCH).collect::<Vec<_>>();
    assert_eq!(plan(0), plan(0));
    assert_ne!(plan(0), plan(1));
    let next = read(SMALL, &Overrides { seed: Some(10), ..Overrides::default() }).unwrap();
    assert_eq!(next.plan(0, Instant::EPOCH).collect::<Vec<_>>(), plan(1));
    assert!(plan(0).iter().all(|call| call.caller != call.callee && call.caller < 200 && call.callee < 200));
    assert_eq!(plan(0)[1].at, Instant::EPOCH + Duration::from_millis(200));
}

#[test]
fn a_wrong_key_or_value_is_named_with_its_place() {
    assert_eq!(
        wrong(&with("rate = \"5/s\"", "rate = 5")),
        "x.toml:14:8: load.rate: expected a rate with its unit, such as \"12/s\", \"720/min\" or \"36000/h\", \
         found the integer 5"
    );
    assert_eq!(
        wrong(&with("rate = \"5/s\"", "rat = \"5/s\"")),
        "x.toml:14:1: load.rat: expected one of the keys kind, rate, found an unknown key; did you mean rate?"
    );
    assert!(wrong(&with("proxies = 2", "proxies = 2\nproxy_count = 3")).starts_with(
        "x.toml:8:1: topology.proxy_count: expected one of the keys balancers, proxies, balancer, proxy, link, found"
    ));
    assert_eq!(
        wrong(&with("kind = \"constant\"", "kind = \"constnat\"")),
        "x.toml:13:8: load.kind: expected one of \"constant\", \"step\", \"csv\", \"shape\", found \"constnat\"; \
         did you mean \"constant\"?"
    );
    assert_eq!(
        wrong(&with("rate = \"5/s\"", "rate = \"5/s\"\n[policy]\noverload = \"window\"")),
        "x.toml:16:12: policy.overload: expected \"none\", found \"window\""
    );
    assert_eq!(
        wrong(&with("warmup = \"1m\"", "warmup = \"1min\"")),
        "x.toml:4:10: warmup: expected a duration with its unit, such as \"500ms\", \"30s\", \"5m\" or \"1h30m\", \
         found \"1min\""
    );
    assert!(
        wrong("name = \"a\ntitle = 1\n").starts_with("x.toml:1:10: expected TOML, found something else: ")
    );
    assert!(wrong("").starts_with("x.toml:1:1: name: expected a name such as \"cnf/step\", found nothing"));
    assert!(
        wrong(&with("test/small", "../small")).starts_with("x.toml:1:8: name: expected a name of letters")
    );
}

#[test]
fn what_cannot_be_run_is_refused() {
    let cases = [
        (
            "rate = \"5/s\"",
            "rate = \"0/s\"",
            "x.toml:14:8: load.rate: expected a rate above 0/s and up to 1000000/s",
        ),
        ("duration = \"10m\"", "duration = \"0s\"", "x.toml:3:12: duration: expected a duration above zero"),
        ("duration = \"10m\"", "", "x.toml:1:1: duration: expected how long the constant load lasts"),
        ("duration = \"10m\"", "duration = \"61s\"", ""),
        (
            "duration = \"10m\"",
            "duration = \"1m\"",
            "x.toml:4:10: warmup: expected a warm-up shorter than the load",
        ),
        (
            "proxies = 2",
            "proxies = 0",
            "x.toml:7:11: topology.proxies: expected a whole number from 1 to 1000, found the integer 0",
        ),
        (
            "proxies = 2",
            "balancers = 0\nproxies = 2",
            "x.toml:7:13: topology.balancers: expected at least one balancer",
        ),
        ("\"0100-0299\"", "\"0100-0100\"", "x.toml:10:9: users.range: expected at least two users"),
        ("\"0100-0299\"", "\"0100-0101\"\nlines = 1", "x.toml: load: expected at most 1 calls at once"),
        ("\"0100-0299\"", "\"0299-0100\"", "x.toml:10:9: users.range: expected a range whose end"),
        ("\"0100-0299\"", "\"100-0299\"", "x.toml:10:9: users.range: expected a range of names"),
        (
            "\"0100-0299\"",
            "\"0100-0299\"\ncount = 5",
            "x.toml:11:9: users.count: expected either a range or a count",
        ),
        ("range = \"0100-0299\"", "", "x.toml:9:1: users.range: expected a range of names"),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\npairing = \"cnf\"",
            "x.toml:15:11: load.pairing: expected users of an even process",
        ),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\n[call]\nhold = \"100s\"",
            "x.toml: load: expected at most 400 calls at once, which is what 200 phones with 4 lines each can hold, found 500 (5/s for 1m40s)",
        ),
        ("\"0100-0299\"", "\"0100-0199\"\n[call]\nhold = \"0s\"", ""),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\n[[fault]]\nat = \"10m\"\nwhat = \"add\"",
            "x.toml:16:6: fault[0].at: expected a time before the end of the load at 10m, found \"10m\"",
        ),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\n[[fault]]\nat = \"1m\"\nwhat = \"kill\"\nnode = \"proxy-2\"",
            "x.toml:18:8: fault[0].node: expected a node that is there: \"proxy-0\" to \"proxy-1\", \"balancer-0\" to \"balancer-0\", found \"proxy-2\"",
        ),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\n[[expect]]\nthat = \"srd.p99 < 1s\"\nat = \"9m..11m\"",
            "x.toml:17:6: expect[0].at: expected a part of the load, which lasts 10m",
        ),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\n[[expect]]\nthat = \"srd.p99 < 1s\"\nat = \"step 1\"",
            "x.toml:17:6: expect[0].at: expected a load of kind \"step\"",
        ),
        (
            "rate = \"5/s\"",
            "rate = \"5/s\"\n[[expect]]\nthat = \"load[5m..4m] < load\"",
            "x.toml:16:8: expect[0].that: expected a part of the run that ends after it starts",
        ),
    ];
    for (line, replacement, message) in cases {
        match read(&with(line, replacement), &Overrides::default()) {
            Ok(_) => assert_eq!(message, "", "{replacement} was taken"),
            Err(error) => {
                assert!(!message.is_empty() && error.starts_with(message), "{replacement}: {error}")
            }
        }
    }
}

#[test]
fn a_staircase_that_goes_below_zero_or_above_the_limit_is_refused() {
    let step = |increment: &str| {
        let keys = format!("start = \"12/s\"\nincrement = \"{increment}\"\ninterval = \"1m\"\n");
        with("kind = \"constant\"\nrate = \"5/s\"", &format!("kind = \"step\"\n{keys}"))
    };
    assert_eq!(read(&step("-1/s"), &Overrides::default()).unwrap().schedule.steps().len(), 10);
    assert!(
        wrong(&step("-2/s")).contains("load.increment: expected rates from 0/s to 1000000/s in all 10 steps")
    );
    assert!(wrong(&step("200000/s")).contains("load.increment: expected rates from 0/s"));
    let long = Overrides { duration: Some(Duration::from_secs(1200)), ..Overrides::default() };
    assert!(
        read(&step("-1/s"), &long).unwrap_err().starts_with("x.toml: --duration: expected rates from 0/s")
    );
}

#[test]
fn overrides_are_checked() {
    let error = |overrides| read(SMALL, &overrides).map(|e| e.name).unwrap_err();
    let none = Overrides::default();
    assert_eq!(
        error(Overrides { speed: Some(0.5), ..none }),
        "x.toml: --speed: expected a factor from 1 to 1000, found 0.5"
    );
    assert!(error(Overrides { speed: Some(f64::NAN), ..none }).contains("--speed"));
    assert!(error(Overrides { repeat: Some(0), ..none }).contains("--repeat"));
    assert_eq!(
        error(Overrides { duration: Some(Duration::from_secs(60)), ..none }),
        "x.toml: --duration: expected longer than the warm-up of 1m, found 1m"
    );
    let step = with(
        "kind = \"constant\"\nrate = \"5/s\"",
        "kind = \"step\"\nstart = \"1/s\"\nincrement = \"1/s\"\ninterval = \"4m\"\nsteps = 3",
    );
    let longer = Overrides { duration: Some(Duration::from_secs(721)), ..none };
    assert_eq!(
        read(&step, &longer).unwrap_err(),
        "x.toml: --duration: expected at most 12m, which is all of the load at this speed, found 12m1s"
    );
    let whole = Overrides { duration: Some(Duration::from_secs(240)), speed: Some(3.0), ..none };
    assert_eq!(read(&step, &whole).unwrap().duration(), Duration::from_secs(240));
}

#[test]
fn a_scenario_file_is_read_and_its_errors_carry_its_own_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let csv =
        |file: &str| with("rate = \"5/s\"", &format!("file = \"{file}\"")).replace("\"constant\"", "\"csv\"");
    let text =
        csv("calls.csv").replace("duration = \"10m\"\nwarmup = \"1m\"", "").replace("0100-0299", "0000-9999");
    let experiment = Experiment::parse(&text, "x.toml", &folder, &Overrides::default()).unwrap();
    let plan: Vec<_> = experiment.plan(0, Instant::EPOCH).collect();
    assert_eq!((plan.len(), plan[0].caller, plan[0].callee), (8, 4600, 4700));
    let text = text.replace("0000-9999", "0000-0999");
    let error = Experiment::parse(&text, "x.toml", &folder, &Overrides::default()).unwrap_err();
    assert!(error.file().ends_with("calls.csv") && error.position() == Some((2, 1)), "{error}");
    let missing = text.replace("calls.csv", "no.csv");
    let error =
        Experiment::parse(&missing, "x.toml", &folder, &Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("x.toml:13:8: load.file: expected a readable file (looked for at "), "{error}");
}

/// Metrics with fixed values, whatever the window, except where a name with a window is given (`load@60`: the one that
/// starts after 60 s).
struct Fixed(BTreeMap<String, f64>);

impl Fixed {
    fn new(values: &[(&str, f64)]) -> Fixed {
        Fixed(values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }
}

impl Metrics for Fixed {
    fn get(&self, name: &str, window: Option<Window>) -> Option<f64> {
        let special = window.and_then(|w| self.0.get(&format!("{name}@{}", w.from.as_secs())));
        special.or_else(|| self.0.get(name)).copied()
    }
}

fn verdicts(expect: &str, values: &[(&str, f64)]) -> Vec<Verdict> {
    let step = "kind = \"step\"\nstart = \"1/s\"\nincrement = \"1/s\"\ninterval = \"2m\"\nsteps = 5";
    let text = with("kind = \"constant\"\nrate = \"5/s\"", step);
    let text = format!("{text}\n[constants]\ncapacity = \"700/s\"\n{expect}");
    read(&text, &Overrides::default())
        .unwrap_or_else(|e| panic!("{e}"))
        .judge(&Fixed::new(values), Driver::Sockets)
}

fn verdict(that: &str, more: &str, values: &[(&str, f64)]) -> Verdict {
    verdicts(&format!("[[expect]]\nthat = '{that}'\n{more}"), values).remove(0)
}

#[test]
fn verdicts_tell_what_was_expected_and_found() {
    let v = verdict("srd.p99 < 1000ms", "", &[("srd.p99", 0.412_3)]);
    assert_eq!((v.expected.as_str(), v.found.as_str(), v.judgement), ("< 1 s", "412.3 ms", Judgement::Pass));
    assert_eq!(v.over, "after the warm-up");
    let counts = [("calls.failed", 3.0), ("calls.offered", 15_000.0)];
    let v = verdict("calls.failed / calls.offered <= 0.01%", "", &counts);
    assert_eq!(v.judgement, Judgement::Fail);
    assert_eq!(
        (v.expected.as_str(), v.found.as_str()),
        ("<= 0.0001", "0.0002 (calls.failed 3, calls.offered 15000)")
    );
    let v = verdict("goodput within 10% of capacity", "", &[("goodput", 655.0)]);
    assert_eq!((v.expected.as_str(), v.judgement), ("within 10 % of capacity = 700/s", Judgement::Pass));
    let v = verdict("0.9 <= goodput / capacity <= 1.1", "", &[("goodput", 600.0)]);
    assert_eq!((v.expected.as_str(), v.judgement), ("0.9 <= goodput / capacity <= 1.1", Judgement::Fail));
}

#[test]
fn limits_are_sharp() {
    let judgement = |that: &str| verdict(that, "", &[("load", 5.0)]).judgement;
    assert_eq!(judgement("load < 5/s"), Judgement::Fail);
    assert_eq!(judgement("load <= 5/s"), Judgement::Pass);
    assert_eq!(judgement("load > 5/s"), Judgement::Fail);
    assert_eq!(judgement("load >= 5/s"), Judgement::Pass);
    assert_eq!(judgement("load == 5/s"), Judgement::Pass);
    assert_eq!(judgement("load == 5.001/s"), Judgement::Fail);
    assert_eq!(judgement("max(load, 1/s) - min(load, 6/s) + 2 * abs(load) >= 10/s"), Judgement::Pass);
}

#[test]
fn missing_data_fails_and_says_so() {
    let v = verdict("srd.p99 < 1s", "", &[]);
    assert_eq!((v.judgement, v.found.as_str()), (Judgement::Fail, "no data for srd.p99"));
    let v = verdict("calls.failed / calls.offered < 1", "", &[("calls.failed", 0.0), ("calls.offered", 0.0)]);
    assert_eq!(
        (v.judgement, v.found.as_str()),
        (Judgement::Fail, "no data for calls.failed / calls.offered")
    );
}

#[test]
fn a_claim_about_each_step_shows_the_worst() {
    let values = [("srd.p99", 0.1), ("srd.p99@240", 1.5), ("srd.p99@360", 1.2)];
    let v = verdict("srd.p99 < 1s", "at = \"each step\"", &values);
    assert_eq!(
        (v.judgement, v.found.as_str(), v.over.as_str()),
        (Judgement::Fail, "1.5 s in step 3", "each step")
    );
    let v = verdict("srd.p99 < 1s", "at = \"each 5m\"", &[("srd.p99", 0.1), ("srd.p99@300", 0.2)]);
    assert_eq!((v.judgement, v.found.as_str()), (Judgement::Pass, "200 ms in 5m..10m"));
    // The first step is looked at from the end of the warm-up on.
    let v = verdict("srd.p99 < 1s", "at = \"each step\"", &[("srd.p99", 0.1), ("srd.p99@60", 2.0)]);
    assert_eq!(v.found, "2 s in step 1");
}

#[test]
fn a_metric_can_be_of_another_part_of_the_run() {
    let values = [("goodput", 10.0), ("goodput@480", 4.0), ("goodput@120", 8.0)];
    let v = verdict("goodput[step 5] >= goodput[2m..3m] / 2", "", &values);
    assert_eq!((v.judgement, v.expected.as_str()), (Judgement::Pass, ">= goodput[2m..3m] / 2"));
    assert_eq!(v.found, "4/s and 4/s (goodput[2m..3m] 8/s)");
}

#[test]
fn a_claim_for_the_other_driver_is_skipped() {
    let v = verdict("srd.p99 < 1s", "driver = \"sim\"\nnote = \"N\"\nsource = \"S\"", &[("srd.p99", 9.0)]);
    assert_eq!((v.judgement, v.found.as_str()), (Judgement::Skipped, "meant for the simulator"));
    assert_eq!((v.note.as_deref(), v.source.as_deref()), (Some("N"), Some("S")));
}

#[test]
fn claims_that_make_no_sense_are_refused_with_their_place() {
    let claim = |that: &str| {
        wrong(&format!("{SMALL}[constants]\ncapacity = \"700/s\"\n[[expect]]\nthat = \"{that}\"\n"))
    };
    let cases = [
        (
            "srd.p99 < 1000",
            "x.toml:18:19: expect[0].that: expected a duration such as 500ms, as on the left, found a number",
        ),
        (
            "srd.p99 + goodput < 1s",
            "x.toml:18:19: expect[0].that: expected a duration such as 500ms, as on the left, found a rate",
        ),
        (
            "srd.p9 < 1s",
            "x.toml:18:9: expect[0].that: expected a metric that exists, found \"srd.p9\"; did you mean srd.p90? there are: calls.offered, ",
        ),
        (
            "goodput / capcity > 0.9",
            "x.toml:18:19: expect[0].that: expected a metric that exists, found \"capcity\"; did you mean capacity?",
        ),
        (
            "srd.p99",
            "x.toml:18:16: expect[0].that: expected a comparison (<, <=, >, >=, ==) or \"within\", found the end",
        ),
        ("srd.p99 < ", "x.toml:18:19: expect[0].that: expected a number or a metric, found the end"),
        (
            "srd.p99 = 1s",
            "x.toml:18:17: expect[0].that: expected a number, a metric or an operator, found \"=\"",
        ),
        ("(srd.p99 < 1s", "x.toml:18:18: expect[0].that: expected \")\", found \"<\""),
        (
            "goodput within 10% 5/s",
            "x.toml:18:28: expect[0].that: expected \"of\" after the tolerance, found \"5/s\"",
        ),
        (
            "goodput within 10/s of 5/s",
            "x.toml:18:24: expect[0].that: expected a number, as on the left, found a rate",
        ),
        (
            "load[5] < 5/s",
            "x.toml:18:14: expect[0].that: expected a part of the run such as 20m..25m, 20m.., ..5m or step 3, found \"5\"",
        ),
        ("load < 5/s 6", "x.toml:18:20: expect[0].that: expected an operator or the end, found \"6\""),
        (
            "load < 5q",
            "x.toml:18:16: expect[0].that: expected a number such as 5, 0.9, 5%, 500ms or 12/s, found \"5q\"",
        ),
    ];
    for (that, message) in cases {
        let error = claim(that);
        assert!(error.starts_with(message), "{that}: {error}");
    }
    let deep = format!("{}load{} < 5/s", "(".repeat(40), ")".repeat(40));
    assert!(claim(&deep).contains("at most 32 levels of parentheses"));
    assert!(claim(&"9".repeat(2000)).contains("at most 1000 characters"));
    assert!(
        wrong(&format!("{SMALL}[constants]\ngoodput = \"1/s\"\n"))
            .contains("constants.goodput: expected a name")
    );
}

#[test]
fn the_parts_of_a_run() {
    let minutes = |n: u64| Some(Duration::from_secs(n * 60));
    assert_eq!(parse_at("20m..25m"), Ok(At::Over(Over::Span(minutes(20), minutes(25)))));
    assert_eq!(parse_at("20m.."), Ok(At::Over(Over::Span(minutes(20), None))));
    assert_eq!(parse_at(" ..5m "), Ok(At::Over(Over::Span(None, minutes(5)))));
    assert_eq!(parse_at("step 3"), Ok(At::Over(Over::Step(3))));
    assert_eq!(parse_at("each step"), Ok(At::EachStep));
    assert_eq!(parse_at("each 90s"), Ok(At::Each(Duration::from_secs(90))));
    for wrong in ["", "..", "step", "step 0", "step 1.5", "each", "each 0s", "20m", "20..25", "step 3 4"] {
        assert!(parse_at(wrong).is_err(), "{wrong}");
    }
    assert!(parse_quantity("5%").is_ok_and(|q| q.value == 0.05));
    assert!(parse_quantity("5 6").is_err() && parse_quantity("srd.p99").is_err());
}

fn rate_expr() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("goodput".to_owned()),
        Just("load[step 2]".to_owned()),
        Just("goodput[1m..2m30s]".to_owned()),
        Just("capacity".to_owned()),
        (0u32..5000).prop_map(|n| format!("{n}/s")),
        (1u32..9000).prop_map(|n| format!("{n}/min")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone(), prop_oneof![Just("+"), Just("-")])
                .prop_map(|(a, b, o)| format!("({a} {o} {b})")),
            (inner.clone(), 0u32..100).prop_map(|(a, n)| format!("{a} * {n}%")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a} * ({b}) / ({c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a}, {b})")),
            inner.prop_map(|a| format!("{a} * (srd.p99 / 500ms)")),
        ]
    })
}

proptest! {
    /// Written out and parsed again, a claim is the same claim.
    #[test]
    fn a_claim_survives_being_written_out(
        left in rate_expr(), right in rate_expr(), form in 0u8..3, comparison in prop::sample::select(vec!["<", "<=", ">", ">=", "=="]),
    ) {
        let constants = Constants::from([("capacity".to_owned(), parse_quantity("700/s").unwrap())]);
        let text = match form {
            0 => format!("{left} {comparison} {right}"),
            1 => format!("0/s {comparison} {left} {comparison} {right}"),
            _ => format!("{left} within 5% of {right}"),
        };
        let Ok(claim) = parse_claim(&text, &constants) else {
            // Only the limits on length and depth may refuse what the grammar makes.
            prop_assert!(text.chars().count() > 1000, "{text}");
            return Ok(());
        };
        let again = parse_claim(&claim.to_string(), &constants);
        prop_assert_eq!(again, Ok(claim));
    }

    /// No text makes the readers panic.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}", words in prop::collection::vec(
        prop::sample::select(vec!["srd.p99", "load", "[", "]", "(", ")", "<", "within", "of", "step", "5m", "..", "12/s", "1", "/", "-", "min", ",", "each"]), 0..20,
    )) {
        let constants = Constants::new();
        let _ = (parse_claim(&text, &constants), parse_at(&text), parse_quantity(&text));
        let words = words.join(" ");
        let _ = (parse_claim(&words, &constants), parse_at(&words));
        let _ = read(&text, &Overrides::default());
    }

    /// A damaged experiment is read or refused with a message of one line that names the file.
    #[test]
    fn a_damaged_experiment_is_refused_in_one_line(at in 0usize..250, junk in "[ -~]{0,4}", cut in 0usize..6) {
        let text: String = SMALL.chars().take(at).chain(junk.chars()).chain(SMALL.chars().skip(at + cut)).collect();
        if let Err(error) = read(&text, &Overrides::default()) {
            prop_assert!(error.starts_with("x.toml") && !error.contains('\n'), "{error}");
        }
    }
}
