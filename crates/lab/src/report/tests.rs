use std::time::{Duration, SystemTime};

use busyhour_roles::ua::Outcome;
use serde_json::Value;

use super::charts::{DARK, script_safe};
use super::*;
use crate::Driver;
use crate::measure::fixtures::{ORIGIN, call, completed, registration};
use crate::measure::{GeneratorSample, ProxySample, Reason, RecorderConfig};

fn verdict(text: &str, expected: &str, found: &str, judgement: Judgement) -> Verdict {
    let [text, expected, found] = [text, expected, found].map(str::to_owned);
    Verdict { text, over: "after the warm-up".into(), expected, found, judgement, note: None, source: None }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Ten seconds with ten calls, one of them refused, and two proxies.
fn recorder() -> Recorder {
    let mut r = Recorder::new(RecorderConfig::new(ORIGIN, secs(10)));
    for s in 0..9 {
        r.record_call(&completed(s * 1000, 12 + s));
    }
    r.record_call(&call(9000, 3, 3, Outcome::Refused(503)));
    r.record_registration(&registration(1000, 20, Some(200)));
    for (s, n) in [(0, 0), (1, 4), (2, 10)] {
        let proxy = |name: &str, requests| ProxySample {
            name: name.to_owned(),
            requests,
            invites: requests,
            registers: 0,
            refused: 0,
            cpu_seconds: Some(n as f64 / 100.0),
        };
        r.record_proxies(ORIGIN + secs(s), &[proxy("p1", n), proxy("p2", 3 * n)]);
        r.record_generator(ORIGIN + secs(s), &GeneratorSample { cpu_share: Some(0.1), dropped: 0 });
    }
    r
}

fn report_of(recorder: Recorder) -> Report {
    Report {
        title: "Steps of load".to_owned(),
        name: "cnf/step".to_owned(),
        source: "cnf, experiment 2".to_owned(),
        description: vec!["What it is about.".to_owned()],
        configuration: "name = \"step\"\n".to_owned(),
        environment: Environment {
            driver: Driver::Simulator,
            seed: 42,
            started: SystemTime::UNIX_EPOCH + secs(1_700_000_000),
            busyhour: "0.1.0".to_owned(),
            kernel: "Linux 6".to_owned(),
            cpu: "Some CPU".to_owned(),
            cores: 2,
            notes: vec![("Proxies".to_owned(), "2".to_owned())],
        },
        verdicts: vec![
            verdict("srd.p99 < 1 s", "below 1 s", "20.0 ms", Judgement::Pass),
            verdict("ser >= 0.99", "at least 99 %", "90 %", Judgement::Fail),
        ],
        attribution: vec!["Data by somebody.".to_owned()],
        validity: recorder.validity(),
        recorder,
        repetitions: Vec::new(),
    }
}

pub(crate) fn sample_report() -> Report {
    report_of(recorder())
}

pub(crate) fn empty_report() -> Report {
    let mut report = report_of(Recorder::new(RecorderConfig::new(ORIGIN, secs(10))));
    report.verdicts.clear();
    report
}

/// The page without plotly's own library, which mentions addresses that it never loads.
fn page_without_library(report: &Report) -> String {
    let html = report.html();
    let library = html.rsplit("<script>").nth(1).expect("the page has two scripts at its end");
    assert!(library.len() > 1_000_000, "the library is in the page");
    html.replace(library, "")
}

/// The paths of all fields, with what kind of value they hold.
fn shape(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                shape(value, &format!("{path}.{name}"), into);
            }
        }
        Value::Array(items) => match items.first() {
            Some(first) => shape(first, &format!("{path}[]"), into),
            None => into.push(format!("{path}[] empty")),
        },
        Value::Null => into.push(format!("{path} null")),
        Value::Bool(_) => into.push(format!("{path} bool")),
        Value::Number(_) => into.push(format!("{path} number")),
        Value::String(_) => into.push(format!("{path} string")),
    }
}

#[test]
fn the_summary_keeps_its_schema() {
    let mut report = sample_report();
    report.repetitions = vec![recorder()];
    report.validity = Validity::Valid.with(Reason::Dropped(1));
    report.recorder.record_registration(&registration(-1000, 20, Some(200)));
    let json = report.summary().to_json();
    let mut found = Vec::new();
    shape(&serde_json::from_slice(&json).unwrap(), "", &mut found);
    found.sort();
    let expected: Vec<&str> = include_str!("summary.schema.txt").lines().collect();
    assert_eq!(
        found, expected,
        "a change of the schema needs a new SCHEMA number and a line in summary.schema.txt"
    );
}

#[test]
fn the_summary_has_the_figures() {
    let summary = sample_report().summary();
    assert_eq!(summary.schema, SCHEMA);
    assert_eq!(summary.status, Status::Fail);
    assert_eq!((summary.calls.offered, summary.calls.completed, summary.calls.refused), (10, 9, 1));
    assert_eq!(summary.ratios.ser, Some(0.9));
    assert_eq!(summary.ratios.isa, Some(0.1));
    assert_eq!(summary.failures[0].cause, "503");
    assert_eq!(summary.proxies[1].share, Some(0.75));
    assert_eq!(summary.environment.started, "2023-11-14T22:13:20Z");
    let back: Summary = serde_json::from_slice(&summary.to_json()).unwrap();
    assert_eq!(back, summary);
}

#[test]
fn the_tables_have_the_series() {
    let dir = tempfile::tempdir().unwrap();
    let page = sample_report().write(dir.path()).unwrap();
    assert!(page.ends_with("report.html") && page.is_file());
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let series = read("series.csv");
    assert_eq!(series.lines().count(), 11);
    assert_eq!(series.lines().nth(2), Some("1,1,1,1,1,1,1,0,0,0,1,0,1,1,0,0.1"));
    let latency = read("latency.csv");
    assert!(latency.contains("\n0,1,srd,1,0.012004,0.012007,"), "{latency}");
    assert!(latency.contains("\n9,1,srd_failed,1,"), "{latency}");
    assert!(read("proxies.csv").contains("\n1,1,p2,18,18,0,0,0.060000"), "{}", read("proxies.csv"));
    assert_eq!(read("failures.csv"), "start_s,width_s,cause,calls\n9,1,503,1\n");
    assert!(read("summary.json").ends_with("}\n"));
}

#[test]
fn status_follows_validity_first_and_verdicts_then() {
    let mut report = sample_report();
    assert_eq!((report.status(), report.succeeded()), (Status::Fail, false));
    report.verdicts.remove(1);
    assert_eq!((report.status(), report.succeeded()), (Status::Pass, true));
    report.validity = Validity::Valid.with(Reason::Dropped(1));
    assert_eq!((report.status(), report.succeeded()), (Status::Invalid, false));
    report.validity = Validity::Valid;
    report.verdicts.clear();
    assert_eq!((report.status(), report.succeeded()), (Status::Unjudged, true));
}

#[test]
fn the_page_loads_nothing() {
    let page = page_without_library(&sample_report()).to_lowercase();
    for (i, _) in page.match_indices("src=").chain(page.match_indices("href=")) {
        let value = &page[i..page.len().min(i + 40)];
        assert!(value.starts_with("href=\"#"), "{value}");
    }
    for forbidden in ["http:", "https:", "@import", "url(", "<link", "<iframe", "<img"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_page_escapes_everything() {
    const EVIL: &str = "</script><script>alert(1)</script><img src=x onerror=\"alert('2')\">&amp;";
    let mut recorder = recorder();
    let evil = ProxySample {
        name: EVIL.to_owned(),
        requests: 50,
        invites: 0,
        registers: 0,
        refused: 0,
        cpu_seconds: None,
    };
    recorder.record_proxies(ORIGIN + secs(1), &[evil]);
    let mut report = report_of(recorder);
    report.title = EVIL.to_owned();
    report.name = EVIL.to_owned();
    report.source = EVIL.to_owned();
    report.description = vec![EVIL.to_owned()];
    report.configuration = EVIL.to_owned();
    report.attribution = vec![EVIL.to_owned()];
    report.environment.cpu = EVIL.to_owned();
    report.environment.kernel = EVIL.to_owned();
    report.environment.busyhour = EVIL.to_owned();
    report.environment.notes = vec![(EVIL.to_owned(), EVIL.to_owned())];
    report.verdicts[0] = verdict(EVIL, EVIL, EVIL, Judgement::Pass);
    report.validity = Validity::Valid.with(Reason::Other(EVIL.to_owned()));
    let page = page_without_library(&report);
    assert!(
        !page.contains("<img") && !page.contains("<script>alert") && !page.contains("</script><script>alert")
    );
    assert!(page.contains("&#60;img src=x onerror="));
    // Plotly reads HTML in names, so those are escaped for it, and the JSON around them for the page.
    let figure = page.split("id=\"proxies-figure\">").nth(1).unwrap().split("</script>").next().unwrap();
    let figure: Value = serde_json::from_str(figure).unwrap();
    let names: Vec<&str> =
        figure["data"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(names[0].starts_with("&lt;/script&gt;&lt;script&gt;"), "{names:?}");
}

#[test]
fn an_invalid_run_is_loud_in_page_and_summary() {
    let mut report = sample_report();
    report.validity = Validity::Valid.with(Reason::NotStarted(7));
    let page = page_without_library(&report);
    assert!(page.contains("<section class=\"banner invalid\">") && page.contains("<title>INVALID"));
    assert!(page.contains("never sent 7 of the planned calls"));
    let summary = report.summary();
    assert!(!summary.validity.valid && summary.validity.reasons[0].code == "calls-not-started");
}

#[test]
fn a_run_without_calls_is_a_page_that_says_so() {
    let report = empty_report();
    assert_eq!(report.status(), Status::Invalid);
    let page = page_without_library(&report);
    assert!(page.contains("No calls were made.") && page.contains("nothing was measured"));
    assert!(!page.contains("<figure"));
    let dir = tempfile::tempdir().unwrap();
    report.write(dir.path()).unwrap();
    assert_eq!(report.summary().calls.offered, 0);
    assert_eq!(report.summary().ratios.ser, None);
}

#[test]
fn repetitions_are_listed_and_not_averaged() {
    let mut report = sample_report();
    report.repetitions = vec![recorder(), recorder()];
    report.recorder.merge_repetition(&recorder()).unwrap();
    let page = page_without_library(&report);
    assert!(page.contains("<h2>Repetitions</h2>") && page.contains("all calls together"));
    assert!(page.contains("0.90 /s ± 0.00 /s"), "goodput of both is the same");
    assert_eq!(report.summary().repetitions.len(), 2);
    assert_eq!(report.summary().calls.goodput_per_s, Some(0.9));
}

#[test]
fn every_colour_of_a_chart_has_a_dark_counterpart() {
    let mut recorder = recorder();
    for i in 0..7 {
        let proxy = ProxySample {
            name: format!("more{i}"),
            requests: 5,
            invites: 0,
            registers: 0,
            refused: 0,
            cpu_seconds: Some(0.1),
        };
        recorder.record_proxies(ORIGIN + secs(1), std::slice::from_ref(&proxy));
    }
    for status in 400..409 {
        recorder.record_call(&call(100, 1, 1, Outcome::Refused(status)));
    }
    let charts = charts::all(&recorder);
    assert_eq!(charts.len(), 9, "{:?}", charts.iter().map(|c| c.id).collect::<Vec<_>>());
    for chart in charts {
        let json = chart.json();
        for (i, _) in json.match_indices("\"#") {
            let colour = &json[i + 1..i + 8];
            assert!(DARK.iter().any(|(light, _)| *light == colour), "{colour} in {}", chart.id);
        }
    }
    for (_, dark) in DARK {
        assert!(DARK.iter().all(|(light, _)| *light != dark), "{dark} would be swapped again");
    }
}

#[test]
fn a_line_holds_no_more_points_than_a_screen_shows() {
    let mut r = Recorder::new(RecorderConfig::new(ORIGIN, secs(1800)));
    for s in 0..1800 {
        r.record_call(&completed(s * 1000, 10));
    }
    for chart in charts::all(&r) {
        let figure: Value = serde_json::from_str(&chart.json()).unwrap();
        for trace in figure["data"].as_array().unwrap() {
            assert!(trace["x"].as_array().unwrap().len() <= 2000, "{}", chart.id);
        }
    }
}

#[test]
fn json_cannot_leave_its_script() {
    assert_eq!(
        script_safe("{\"a\":\"</script><!--\u{2028}\"}"),
        "{\"a\":\"\\u003c/script\\u003e\\u003c!--\\u2028\"}"
    );
}
