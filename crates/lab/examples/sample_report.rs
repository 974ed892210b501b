//! Writes a report of invented calls, to look at how reports look: `sample_report DIR [healthy|overload|invalid|empty]`.
//! The calls queue at a few single servers, so that delays rise with the load as real ones do. Nothing is measured.

use std::path::PathBuf;
use std::time::Duration;

use busyhour_engine::{Instant, Rng};
use busyhour_lab::live::{print_summary, wants_colour};
use busyhour_lab::measure::{GeneratorSample, ProxySample, Recorder, RecorderConfig};
use busyhour_lab::report::{Driver, Environment, Report, Verdict};
use busyhour_roles::ua::{CallRecord, Outcome, PlannedCall, RegisterRecord};

const ORIGIN: Instant = Instant::from_nanos(60_000_000_000);

struct Server {
    free_at: f64,
    busy_s: f64,
    requests: u64,
    refused: u64,
}

/// Calls per second at a moment.
fn load(kind: &str, t: f64, duration: f64) -> f64 {
    match kind {
        "overload" => 20.0 + 120.0 * t / duration,
        "empty" => 0.0,
        _ => 12.0 + 6.0 * (t / duration * 6.0).floor(),
    }
}

fn run(kind: &str, seed: u64) -> Recorder {
    let duration = Duration::from_secs(if kind == "overload" { 300 } else { 1800 });
    let mut config = RecorderConfig::new(ORIGIN, duration);
    config.warmup = duration / 30;
    let mut recorder = Recorder::new(config);
    if kind == "empty" {
        return recorder;
    }
    let mut rng = Rng::from_seed(seed);
    let count = if kind == "overload" { 12 } else { 5 };
    let mut servers: Vec<Server> =
        (0..count).map(|_| Server { free_at: 0.0, busy_s: 0.0, requests: 0, refused: 0 }).collect();
    register(&mut recorder, &mut rng, -10.0, 1.0);
    let (mut t, mut second) = (0.0, 0_u64);
    while t < duration.as_secs_f64() {
        t += rng.exponential(Duration::from_secs(1)).as_secs_f64() / load(kind, t, duration.as_secs_f64());
        while second as f64 <= t && Duration::from_secs(second) <= duration {
            sample(&mut recorder, &servers, second, kind, &mut rng);
            second += 1;
        }
        if rng.chance(0.04) {
            register(&mut recorder, &mut rng, t, 2.0);
        }
        call(&mut recorder, &mut servers, &mut rng, t, kind);
    }
    recorder
}

fn at(t: f64) -> Instant {
    if t < 0.0 { ORIGIN - Duration::from_secs_f64(-t) } else { ORIGIN + Duration::from_secs_f64(t) }
}

fn register(recorder: &mut Recorder, rng: &mut Rng, t: f64, slower: f64) {
    let rrd =
        Duration::from_secs_f64(0.004 * slower + rng.exponential(Duration::from_millis(3)).as_secs_f64());
    let at = at(t);
    recorder.record_registration(&RegisterRecord {
        user: 1,
        at,
        ended: at + rrd,
        rrd: Some(rrd),
        status: Some(200),
    });
}

fn call(recorder: &mut Recorder, servers: &mut [Server], rng: &mut Rng, t: f64, kind: &str) {
    let index = rng.below(servers.len() as u64) as usize;
    let server = &mut servers[index];
    let service = 0.004 + rng.exponential(Duration::from_millis(80)).as_secs_f64();
    let wait = (server.free_at - t).max(0.0);
    server.requests += 3;
    let (outcome, srd) = if wait > 3.0 {
        server.refused += 1;
        (Outcome::Refused(503), wait * 0.2)
    } else if rng.chance(if kind == "overload" { 0.02 } else { 0.0004 }) {
        (if rng.chance(0.6) { Outcome::Refused(486) } else { Outcome::InviteTimeout }, 0.03)
    } else {
        server.free_at = t + wait + service;
        server.busy_s += service;
        (Outcome::Completed, wait + service)
    };
    let plan = PlannedCall { at: at(t), caller: 1, callee: 2, hold: Duration::from_secs(2) };
    let late = rng.exponential(Duration::from_micros(if kind == "invalid" { 40_000 } else { 180 }));
    let srd = Duration::from_secs_f64(srd) + late;
    let completed = outcome == Outcome::Completed;
    recorder.record_call(&CallRecord {
        plan,
        sent: plan.at + late,
        srd: (outcome != Outcome::InviteTimeout).then_some(srd),
        answered: completed.then_some(srd),
        sdd: completed.then(|| Duration::from_millis(2) + rng.exponential(Duration::from_millis(2))),
        ended: plan.at + srd + plan.hold,
        retransmissions: u16::from(srd > Duration::from_millis(500)),
        outcome,
    });
}

fn sample(recorder: &mut Recorder, servers: &[Server], second: u64, kind: &str, rng: &mut Rng) {
    let now = ORIGIN + Duration::from_secs(second);
    let each = |(i, s): (usize, &Server)| ProxySample {
        name: format!("proxy-{}", i + 1),
        requests: s.requests,
        invites: s.requests / 3,
        registers: 0,
        refused: s.refused,
        cpu_seconds: Some(s.busy_s * 0.8),
    };
    let samples: Vec<_> = servers.iter().enumerate().map(each).collect();
    recorder.record_proxies(now, &samples);
    let cpu = if kind == "invalid" { 0.97 } else { 0.08 } + 0.02 * rng.unit();
    recorder.record_generator(now, &GeneratorSample { cpu_share: Some(cpu), dropped: 0 });
}

fn verdict(text: &str, expected: &str, found: Option<f64>, scale: f64, unit: &str, pass: bool) -> Verdict {
    let found = found.map_or("nothing to compute it from".to_owned(), |x| format!("{:.3} {unit}", x * scale));
    Verdict { text: text.to_owned(), expected: expected.to_owned(), found, pass }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir =
        PathBuf::from(arguments.next().ok_or("usage: sample_report DIR [healthy|overload|invalid|empty]")?);
    let kind = arguments.next().unwrap_or_else(|| "healthy".to_owned());
    let repetitions: Vec<Recorder> =
        if kind == "overload" { (0..3).map(|i| run(&kind, i)).collect() } else { Vec::new() };
    let mut recorder = repetitions.first().cloned().unwrap_or_else(|| run(&kind, 1));
    for other in repetitions.iter().skip(1) {
        recorder.merge_repetition(other)?;
    }
    let (p99, ser) = (recorder.metric("srd.p99", None), recorder.metric("ser", None));
    let share = recorder.metric("proxy.share.max", None);
    let verdicts = vec![
        verdict(
            "The response time holds the target: srd.p99 < 1 s",
            "below 1 s",
            p99,
            1.0,
            "s",
            p99.is_some_and(|x| x < 1.0),
        ),
        verdict(
            "Calls are established: ser >= 0.99",
            "at least 99 %",
            ser,
            100.0,
            "%",
            ser.is_some_and(|x| x >= 0.99),
        ),
        verdict(
            "The hash is even: proxy.share.max <= 0.25",
            "at most 25 %",
            share,
            100.0,
            "%",
            share.is_some_and(|x| x <= 0.25),
        ),
    ];
    let report = Report {
        title: "Capacity planning: twelve to forty-two calls per second on five proxies".to_owned(),
        name: format!("sample/{kind}"),
        source: "invented calls, to look at the page".to_owned(),
        description: vec![
            "The load rises in six steps of six calls per second. Five proxies are planned for ten calls per second \
             each, so that even the last step leaves a margin for the unevenness of the hash."
                .to_owned(),
        ],
        configuration: "name = \"sample\"\nseed = 1\n\n[load]\nkind = \"step\"\nstart = \"12/s\"\nincrement = \"6/s\"\n\
                        interval = \"5m\"\nduration = \"30m\"\n\n[[expect]]\nmetric = \"srd.p99\"\nbelow = \"1s\"\n"
            .to_owned(),
        environment: Environment::of_this_machine(Driver::Simulator, 1),
        verdicts: if kind == "empty" { Vec::new() } else { verdicts },
        attribution: vec!["Every call in this report is invented.".to_owned()],
        validity: recorder.validity(),
        recorder,
        repetitions,
    };
    let mut out = std::io::stdout();
    let colour = wants_colour(&out);
    print_summary(&report, &mut out, colour)?;
    report.write(&dir)?;
    Ok(())
}
