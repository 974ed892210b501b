//! `summary.json`: the figures of a run for programs. Field names and units are stable; a change of meaning or a
//! removal raises [`SCHEMA`]. Delays are in seconds, ratios and shares from 0 to 1, rates per second of one repetition.
//! A figure that does not exist, such as a percentile of no calls, is null.

use serde::{Deserialize, Serialize};

use crate::measure::{Delay, Delays, Quantiles, Recorder, RegisterCounts, cause_code, cause_label};

use super::{Report, Status};

/// The version of the layout.
pub const SCHEMA: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The experiment's name, as in its file.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The document that it reproduces.
    pub source: String,
    /// What came out.
    pub status: Status,
    /// Whether the figures may be used.
    pub validity: ValiditySummary,
    /// The expectations.
    pub verdicts: Vec<VerdictSummary>,
    /// How the run was measured.
    pub run: RunSummary,
    /// The calls planned after the warm-up.
    pub calls: CallSummary,
    /// Their failures by cause, most frequent first.
    pub failures: Vec<FailureSummary>,
    /// The ratios of RFC 6076.
    pub ratios: RatioSummary,
    /// Delays, of what was planned after the warm-up.
    pub delays: DelaySummary,
    /// Registrations after the warm-up.
    pub registrations: RegisterSummary,
    /// Registrations before the load.
    pub setup: SetupSummary,
    /// What each proxy did after the warm-up, by name.
    pub proxies: Vec<ProxySummary>,
    /// The generator.
    pub generator: GeneratorSummary,
    /// Each repetition, when there was more than one.
    pub repetitions: Vec<RepetitionSummary>,
    /// Where it ran.
    pub environment: EnvironmentSummary,
    /// Whom the data is owed to.
    pub attribution: Vec<String>,
}

/// Whether the figures may be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValiditySummary {
    /// True when they may.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<ReasonSummary>,
}

/// Why the figures may not be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasonSummary {
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub text: String,
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictSummary {
    /// The expectation as the experiment words it.
    pub text: String,
    /// What was expected.
    pub expected: String,
    /// What was found; for a skipped one, why it could not be judged.
    pub found: String,
    /// Which part of the run it is about.
    pub over: String,
    /// `pass`, `fail` or `skipped`.
    pub judgement: String,
    /// Where the expectation was published, when the experiment says.
    pub source: Option<String>,
}

/// How the run was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// How long calls were planned for.
    pub duration_s: f64,
    /// How much of that is left out of the totals.
    pub warmup_s: f64,
    /// The length of an interval in the CSV files.
    pub interval_s: f64,
    /// Seconds of the scenario per second of the run.
    pub speed: f64,
    /// How many repetitions the figures are of.
    pub repetitions: u32,
}

/// Calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the metrics calls.… of the same names")]
pub struct CallSummary {
    pub offered: u64,
    pub started: u64,
    pub answered: u64,
    pub completed: u64,
    pub failed: u64,
    pub refused: u64,
    pub timeout: u64,
    pub unfinished: u64,
    pub not_started: u64,
    pub retransmissions: u64,
    /// Calls planned per second.
    pub offered_per_s: Option<f64>,
    /// Calls completed per second, by when they ended.
    pub goodput_per_s: Option<f64>,
}

/// How many calls failed for one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureSummary {
    /// The status, or a stable word.
    pub cause: String,
    /// How a person reads it.
    pub label: String,
    /// Calls.
    pub calls: u64,
}

/// The ratios of RFC 6076, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the metrics of the same names")]
pub struct RatioSummary {
    pub ser: Option<f64>,
    pub seer: Option<f64>,
    pub isa: Option<f64>,
    pub scr: Option<f64>,
    pub ira: Option<f64>,
}

/// Delays; null when there were none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the delays of the same names")]
pub struct DelaySummary {
    pub srd: Option<Quantiles>,
    pub srd_failed: Option<Quantiles>,
    pub rrd: Option<Quantiles>,
    pub sdd: Option<Quantiles>,
}

/// Registrations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the metrics registrations.… of the same names")]
pub struct RegisterSummary {
    pub offered: u64,
    pub completed: u64,
    pub failed: u64,
}

/// What came before the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetupSummary {
    /// The registrations.
    pub registrations: RegisterSummary,
    /// Their delays.
    pub rrd: Option<Quantiles>,
}

/// One proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProxySummary {
    /// Its name.
    pub name: String,
    /// Requests that it took.
    pub requests: u64,
    /// INVITEs among them.
    pub invites: u64,
    /// REGISTERs among them.
    pub registers: u64,
    /// Requests that it refused because of overload.
    pub refused: u64,
    /// Its share of the requests of all proxies.
    pub share: Option<f64>,
    /// The share of a core that it used.
    pub cpu_share: Option<f64>,
}

/// The generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorSummary {
    /// How late it sent INVITEs.
    pub lag: Option<Quantiles>,
    /// The 99th percentile of that above which the run is invalid.
    pub lag_p99_max_s: f64,
    /// The highest share of a core that one of its threads used.
    pub cpu_share_max: Option<f64>,
    /// Messages that it could not send.
    pub dropped: u64,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the figures of the same names")]
pub struct RepetitionSummary {
    pub valid: bool,
    pub offered: u64,
    pub completed: u64,
    pub failed: u64,
    pub goodput_per_s: Option<f64>,
    pub ser: Option<f64>,
    pub srd: Option<Quantiles>,
}

/// Where it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of `Environment`")]
pub struct EnvironmentSummary {
    pub driver: String,
    pub seed: u64,
    /// RFC 3339, UTC.
    pub started: String,
    pub busyhour: String,
    pub kernel: String,
    pub cpu: String,
    pub cores: u32,
    pub notes: Vec<(String, String)>,
}

impl Summary {
    /// The summary of a report.
    pub fn of(report: &Report) -> Summary {
        let r = &report.recorder;
        let reason =
            |r: &crate::measure::Reason| ReasonSummary { code: r.code().to_owned(), text: r.to_string() };
        Summary {
            schema: SCHEMA,
            name: report.name.clone(),
            title: report.title.clone(),
            source: report.source.clone(),
            status: report.status(),
            validity: ValiditySummary {
                valid: report.validity.is_valid(),
                reasons: report.validity.reasons().iter().map(reason).collect(),
            },
            verdicts: report.verdicts.iter().map(VerdictSummary::of).collect(),
            run: run(r),
            calls: calls(r),
            failures: failures(r),
            ratios: RatioSummary {
                ser: r.calls().ser(),
                seer: r.calls().seer(),
                isa: r.calls().isa(),
                scr: r.calls().scr(),
                ira: r.registrations().ira(),
            },
            delays: DelaySummary {
                srd: r.delays(Delay::Srd).quantiles(),
                srd_failed: r.delays(Delay::SrdFailed).quantiles(),
                rrd: r.delays(Delay::Rrd).quantiles(),
                sdd: r.delays(Delay::Sdd).quantiles(),
            },
            registrations: registrations(r.registrations()),
            setup: setup(r.setup()),
            proxies: proxies(r),
            generator: GeneratorSummary {
                lag: r.delays(Delay::Lag).quantiles(),
                lag_p99_max_s: r.config().limits.lag_p99_max.as_secs_f64(),
                cpu_share_max: r.generator_cpu_max(),
                dropped: r.generator_dropped(),
            },
            repetitions: report.repetitions.iter().map(repetition).collect(),
            environment: environment(&report.environment),
            attribution: report.attribution.clone(),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("the summary has only strings as keys");
        json.push(b'\n');
        json
    }
}

impl VerdictSummary {
    fn of(v: &crate::experiment::Verdict) -> Self {
        VerdictSummary {
            text: v.text.clone(),
            expected: v.expected.clone(),
            found: v.found.clone(),
            over: v.over.clone(),
            judgement: v.judgement.word().to_owned(),
            source: v.source.clone(),
        }
    }
}

fn run(r: &Recorder) -> RunSummary {
    RunSummary {
        duration_s: r.config().duration.as_secs_f64(),
        warmup_s: r.config().warmup.as_secs_f64(),
        interval_s: r.interval().as_secs_f64(),
        speed: r.config().speed,
        repetitions: r.runs(),
    }
}

fn calls(r: &Recorder) -> CallSummary {
    use busyhour_roles::ua::Outcome;
    let c = r.calls();
    CallSummary {
        offered: c.offered,
        started: c.started,
        answered: c.answered,
        completed: c.completed(),
        failed: c.failed(),
        refused: c.refused(),
        timeout: c.timeout(),
        unfinished: c.with(Outcome::Unfinished),
        not_started: c.with(Outcome::NotStarted),
        retransmissions: c.retransmissions,
        offered_per_s: r.metric("load", None),
        goodput_per_s: r.metric("goodput", None),
    }
}

fn failures(r: &Recorder) -> Vec<FailureSummary> {
    let each = |(cause, calls)| FailureSummary { cause: cause_code(cause), label: cause_label(cause), calls };
    r.calls().failures().into_iter().map(each).collect()
}

fn registrations(c: &RegisterCounts) -> RegisterSummary {
    RegisterSummary { offered: c.offered, completed: c.completed, failed: c.failed() }
}

fn setup((counts, rrd): (&RegisterCounts, &Delays)) -> SetupSummary {
    SetupSummary { registrations: registrations(counts), rrd: rrd.quantiles() }
}

fn proxies(r: &Recorder) -> Vec<ProxySummary> {
    let all = r.proxies();
    let requests: u64 = all.iter().map(|(_, w)| w.requests).sum();
    let each = |(name, w): (&str, crate::measure::ProxyWork)| ProxySummary {
        name: name.to_owned(),
        requests: w.requests,
        invites: w.invites,
        registers: w.registers,
        refused: w.refused,
        share: (requests > 0).then(|| w.requests as f64 / requests as f64),
        cpu_share: w.cpu_share(),
    };
    all.into_iter().map(each).collect()
}

fn repetition(r: &Recorder) -> RepetitionSummary {
    RepetitionSummary {
        valid: r.validity().is_valid(),
        offered: r.calls().offered,
        completed: r.calls().completed(),
        failed: r.calls().failed(),
        goodput_per_s: r.metric("goodput", None),
        ser: r.calls().ser(),
        srd: r.delays(Delay::Srd).quantiles(),
    }
}

fn environment(e: &super::Environment) -> EnvironmentSummary {
    EnvironmentSummary {
        driver: e.driver.name().to_owned(),
        seed: e.seed,
        started: e.started_rfc3339(),
        busyhour: e.busyhour.clone(),
        kernel: e.kernel.clone(),
        cpu: e.cpu.clone(),
        cores: e.cores,
        notes: e.notes.clone(),
    }
}
