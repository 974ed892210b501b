//! The page: figures worded for people, put into the template. The template escapes everything but the figures' JSON,
//! which is made safe for its place, and plotly's own library.

use askama::Template;
use plotly::Plot;

use crate::experiment::Judgement;
use crate::measure::{Delay, Delays, Quantiles, Recorder, cause_label};

use super::charts::{self, script_safe};
use super::{Report, Status, format};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a Report,
    status: &'static str,
    status_class: &'static str,
    headline: String,
    reasons: Vec<String>,
    subtitle: Vec<String>,
    tiles: Vec<Tile>,
    charts: Vec<ChartView>,
    remarks: Vec<String>,
    totals: Vec<Row>,
    delays: Vec<DelayRow>,
    proxies: Vec<[String; 7]>,
    repetitions: Vec<[String; 9]>,
    environment: Vec<(String, String)>,
    dark: String,
    library: &'static str,
}

struct Tile {
    label: &'static str,
    value: String,
    note: String,
    bad: bool,
}

struct ChartView {
    id: &'static str,
    title: &'static str,
    note: String,
    wide: bool,
    json: String,
}

struct Row {
    label: String,
    value: String,
    note: String,
}

struct DelayRow {
    label: &'static str,
    figures: [String; 7],
}

/// The share of failed calls above which their number is coloured.
const FAILED_BAD: f64 = 0.01;

/// The page of a report.
pub(super) fn page(report: &Report) -> String {
    let charts = charts::all(&report.recorder).into_iter().map(|c| {
        let json = c.json();
        ChartView { id: c.id, title: c.title, note: c.note, wide: c.wide, json }
    });
    let page = Page {
        report,
        status: report.status().label(),
        status_class: status_class(report.status()),
        headline: report.headline(),
        reasons: report.validity.reasons().iter().map(ToString::to_string).collect(),
        subtitle: subtitle(report),
        tiles: tiles(&report.recorder),
        charts: charts.collect(),
        remarks: remarks(&report.recorder),
        totals: totals(&report.recorder),
        delays: delays(&report.recorder),
        proxies: proxies(report),
        repetitions: repetitions(report),
        environment: environment(report),
        dark: script_safe(&serde_json::to_string(&charts::DARK).expect("pairs of strings are JSON")),
        library: library(),
    };
    page.render().expect("rendering into a string cannot fail")
}

fn status_class(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "fail",
        Status::Invalid => "invalid",
        Status::Unjudged => "unjudged",
    }
}

fn subtitle(report: &Report) -> Vec<String> {
    let config = report.recorder.config();
    let mut parts = vec![
        report.environment.started_rfc3339().replace('T', " ").replace('Z', " UTC"),
        report.environment.driver.label().to_owned(),
        format!("{} of load", format::length(config.duration.as_secs_f64())),
    ];
    if !config.warmup.is_zero() {
        parts.push(format!("{} warm-up", format::length(config.warmup.as_secs_f64())));
    }
    if (config.speed - 1.0).abs() > 1e-9 {
        parts.push(format!("time compressed {}×", config.speed));
    }
    if report.recorder.runs() > 1 {
        parts.push(format!("{} repetitions", report.recorder.runs()));
    }
    parts.push(format!("seed {}", report.environment.seed));
    parts
}

fn tiles(r: &Recorder) -> Vec<Tile> {
    let calls = r.calls();
    let srd = r.delays(Delay::Srd);
    let rate = |name| format::or_dash(r.metric(name, None), format::rate);
    let mut tiles = vec![
        Tile { label: "Calls offered", value: format::count(calls.offered), note: rate("load"), bad: false },
        Tile {
            label: "Calls completed",
            value: format::count(calls.completed()),
            note: format!("{} of those sent", format::or_dash(calls.scr(), format::share)),
            bad: false,
        },
        Tile {
            label: "Calls failed",
            value: format::count(calls.failed()),
            note: calls
                .failures()
                .first()
                .map_or("none".to_owned(), |(cause, _)| format!("mostly {}", cause_label(*cause))),
            bad: calls.failed() as f64 > FAILED_BAD * calls.started as f64,
        },
        Tile {
            label: "Goodput",
            value: rate("goodput"),
            note: "completed while the load lasted".to_owned(),
            bad: false,
        },
        Tile {
            label: "SRD p50",
            value: format::or_dash(srd.quantile(0.5), format::delay),
            note: "session request delay, median".to_owned(),
            bad: false,
        },
        Tile {
            label: "SRD p99",
            value: format::or_dash(srd.quantile(0.99), format::delay),
            note: format!("p99.9 {}", format::or_dash(srd.quantile(0.999), format::delay)),
            bad: false,
        },
    ];
    if calls.offered == 0 && r.registrations().offered > 0 {
        tiles.retain(|t| t.label == "Calls offered");
        let rrd = r.delays(Delay::Rrd);
        tiles.push(Tile {
            label: "Registrations",
            value: format::count(r.registrations().offered),
            note: format!("{} failed", format::count(r.registrations().failed())),
            bad: r.registrations().failed() > 0,
        });
        tiles.push(Tile {
            label: "RRD p99",
            value: format::or_dash(rrd.quantile(0.99), format::delay),
            note: format!("p50 {}", format::or_dash(rrd.quantile(0.5), format::delay)),
            bad: false,
        });
    }
    tiles
}

/// What is worth saying where a chart would be empty.
fn remarks(r: &Recorder) -> Vec<String> {
    let mut remarks = Vec::new();
    let calls: u64 = r.series(1).iter().map(|p| p.calls.offered).sum();
    let failed: u64 = r.series(1).iter().map(|p| p.calls.failed()).sum();
    if calls == 0 {
        remarks.push("No calls were made.".to_owned());
    } else if failed == 0 {
        remarks.push("No call failed.".to_owned());
    }
    let (setup, rrd) = r.setup();
    if setup.offered > 0 {
        let quantiles = rrd.quantiles().map_or(String::new(), |q| {
            format!(" RRD p50 {}, p99 {}.", format::delay(q.p50_s), format::delay(q.p99_s))
        });
        remarks.push(format!(
            "Before the load, {} of {} registrations completed.{quantiles}",
            format::count(setup.completed),
            format::count(setup.offered)
        ));
    }
    remarks
}

fn totals(r: &Recorder) -> Vec<Row> {
    use busyhour_roles::ua::Outcome;
    let c = r.calls();
    let row = |label: &str, value: String, note: &str| Row {
        label: label.to_owned(),
        value,
        note: note.to_owned(),
    };
    let share = |x: Option<f64>| format::or_dash(x, format::share);
    let mut rows = vec![
        row("Calls offered", format::count(c.offered), "planned, after the warm-up"),
        row("Calls sent", format::count(c.started), "their INVITE left"),
        row("Calls answered", format::count(c.answered), "200 to the INVITE"),
        row("Calls completed", format::count(c.completed()), "answered, held, BYE answered"),
        row("Calls failed", format::count(c.failed()), ""),
    ];
    rows.extend(c.failures().into_iter().map(|(cause, n)| Row {
        label: format!("\u{2003}{}", cause_label(cause)),
        value: format::count(n),
        note: String::new(),
    }));
    for (outcome, label) in
        [(Outcome::Unfinished, "Calls cut off by the end"), (Outcome::NotStarted, "Calls never sent")]
    {
        if c.with(outcome) > 0 {
            rows.push(row(label, format::count(c.with(outcome)), ""));
        }
    }
    rows.push(row(
        "Retransmissions",
        format::count(c.retransmissions),
        "INVITEs and BYEs sent again by callers",
    ));
    if r.registrations().offered > 0 {
        let reg = r.registrations();
        rows.push(row("Registrations", format::count(reg.offered), "planned, after the warm-up"));
        rows.push(row("Registrations failed", format::count(reg.failed()), ""));
        rows.push(row("IRA", share(reg.ira()), "ineffective registration attempts, RFC 6076 section 4.2"));
    }
    rows.extend([
        row("SER", share(c.ser()), "session establishment ratio, RFC 6076 section 4.6"),
        row("SEER", share(c.seer()), "session establishment effectiveness ratio, section 4.7"),
        row("ISA", share(c.isa()), "ineffective session attempts, section 4.8"),
        row("SCR", share(c.scr()), "session completion ratio, section 4.9"),
    ]);
    rows
}

fn delays(r: &Recorder) -> Vec<DelayRow> {
    let kinds: [(&'static str, &Delays); 6] = [
        ("SRD, answered calls", r.delays(Delay::Srd)),
        ("SRD, failed calls", r.delays(Delay::SrdFailed)),
        ("RRD", r.delays(Delay::Rrd)),
        ("RRD before the load", r.setup().1),
        ("SDD", r.delays(Delay::Sdd)),
        ("Generator lag", r.delays(Delay::Lag)),
    ];
    let row = |(label, delays): (&'static str, &Delays)| {
        let Quantiles { count, mean_s, p50_s, p90_s, p99_s, p999_s, max_s } = delays.quantiles()?;
        let [mean, p50, p90, p99, p999, max] =
            [mean_s, p50_s, p90_s, p99_s, p999_s, max_s].map(format::delay);
        Some(DelayRow { label, figures: [format::count(count), mean, p50, p90, p99, p999, max] })
    };
    kinds.into_iter().filter_map(row).collect()
}

fn proxies(report: &Report) -> Vec<[String; 7]> {
    let row = |p: super::ProxySummary| {
        [
            p.name,
            format::count(p.requests),
            format::or_dash(p.share, format::share),
            format::count(p.invites),
            format::count(p.registers),
            format::count(p.refused),
            format::or_dash(p.cpu_share, format::share),
        ]
    };
    report.summary().proxies.into_iter().map(row).collect()
}

/// A row per repetition, then the mean with its 95 % confidence interval for what may be averaged, and the figures of
/// all calls together for percentiles, which may not.
fn repetitions(report: &Report) -> Vec<[String; 9]> {
    if report.repetitions.len() < 2 {
        return Vec::new();
    }
    let row = |label: String, r: &Recorder| {
        let srd = r.delays(Delay::Srd);
        let delay = |q| format::or_dash(srd.quantile(q), format::delay);
        let valid = if r.validity().is_valid() { "yes" } else { "NO" };
        [
            label,
            valid.to_owned(),
            format::count(r.calls().offered),
            format::count(r.calls().failed()),
            format::or_dash(r.metric("goodput", None), format::rate),
            format::or_dash(r.calls().ser(), format::share),
            delay(0.5),
            delay(0.99),
            delay(0.999),
        ]
    };
    let mut rows: Vec<_> =
        report.repetitions.iter().enumerate().map(|(i, r)| row((i + 1).to_string(), r)).collect();
    rows.push(row("all calls together".to_owned(), &report.recorder));
    let interval = |name: &str, format: fn(f64) -> String| {
        let values: Option<Vec<f64>> = report.repetitions.iter().map(|r| r.metric(name, None)).collect();
        values
            .and_then(|v| super::confidence::mean_and_margin(&v))
            .map_or_else(|| "–".to_owned(), |(mean, margin)| format!("{} ± {}", format(mean), format(margin)))
    };
    let mut mean = std::array::from_fn(|_| String::new());
    mean[0] = "mean ± 95 % confidence".to_owned();
    mean[4] = interval("goodput", format::rate);
    mean[5] = interval("ser", format::share);
    rows.push(mean);
    rows
}

fn environment(report: &Report) -> Vec<(String, String)> {
    let e = &report.environment;
    let r = &report.recorder;
    let mut rows = vec![
        ("Started".to_owned(), e.started_rfc3339()),
        ("Driver".to_owned(), e.driver.label().to_owned()),
        ("Seed".to_owned(), e.seed.to_string()),
        ("Busyhour".to_owned(), e.busyhour.clone()),
        ("CPU".to_owned(), format!("{}, {} cores", e.cpu, e.cores)),
        ("Kernel".to_owned(), e.kernel.clone()),
        ("Intervals".to_owned(), format!("{} in the CSV files", format::length(r.interval().as_secs_f64()))),
    ];
    if let Some(cpu) = r.generator_cpu_max() {
        rows.push((
            "Generator CPU".to_owned(),
            format!("{} of a core at most, busiest thread", format::share(cpu)),
        ));
    }
    rows.extend(e.notes.iter().cloned());
    rows
}

/// Plotly's library out of the scripts that the crate embeds; the typesetting of formulas, which follows it and is as
/// large again, is left out.
fn library() -> &'static str {
    static LIBRARY: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    LIBRARY.get_or_init(|| {
        let scripts = Plot::offline_js_sources();
        let end = scripts.find("</script>").expect("the crate gives its scripts as elements");
        let begin = scripts.find('>').expect("an element begins with a tag") + 1;
        scripts[begin..end].to_owned()
    })
}
