//! What a run leaves behind: `summary.json` for programs, CSV time series for spreadsheets, and `report.html`, one
//! file with everything in it, for people.
//!
//! A [`Report`] is the run with its verdicts and circumstances. It holds no figure of its own: all come from the
//! recorder, so that the three forms and the terminal agree.

mod axes;
pub mod charts;
mod confidence;
mod environment;
mod files;
pub(crate) mod format;
mod html;
mod summary;
mod tables;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::experiment::{Judgement, Verdict};
use crate::measure::{Recorder, Validity};

pub use environment::Environment;
pub use files::WriteError;
pub use summary::{
    CallSummary, DelaySummary, EnvironmentSummary, FailureSummary, GeneratorSummary, ProxySummary,
    RatioSummary, ReasonSummary, RegisterSummary, RepetitionSummary, RunSummary, SCHEMA, SetupSummary,
    Summary, ValiditySummary, VerdictSummary,
};

/// What came out of a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The figures may be used, and every expectation holds.
    Pass,
    /// The figures may be used, and some expectation does not hold.
    Fail,
    /// The figures may not be used, whatever the expectations say.
    Invalid,
    /// The figures may be used, and nothing was expected of them, or nothing that could be judged.
    Unjudged,
}

impl Status {
    /// The word that people see.
    pub fn label(self) -> &'static str {
        match self {
            Status::Pass => "PASS",
            Status::Fail => "FAIL",
            Status::Invalid => "INVALID",
            Status::Unjudged => "MEASURED",
        }
    }
}

/// A run with its verdicts and circumstances.
#[derive(Clone, Debug)]
pub struct Report {
    /// The experiment's title.
    pub title: String,
    /// Its name, as in its file: `cnf/step`.
    pub name: String,
    /// The document that it reproduces; may be empty.
    pub source: String,
    /// What it is about, a paragraph each.
    pub description: Vec<String>,
    /// Its configuration as it was run (TOML).
    pub configuration: String,
    /// Where it ran.
    pub environment: Environment,
    /// Its expectations, judged.
    pub verdicts: Vec<Verdict>,
    /// Whom the data is owed to.
    pub attribution: Vec<String>,
    /// The figures; of several repetitions, all of them merged.
    pub recorder: Recorder,
    /// The figures of each repetition, when there was more than one.
    pub repetitions: Vec<Recorder>,
    /// Whether the figures may be used: usually that of the recorder.
    pub validity: Validity,
}

impl Report {
    /// What came out. Invalid outranks every verdict.
    pub fn status(&self) -> Status {
        if !self.validity.is_valid() {
            Status::Invalid
        } else if self.count(Judgement::Fail) > 0 {
            Status::Fail
        } else if self.count(Judgement::Pass) > 0 {
            Status::Pass
        } else {
            Status::Unjudged
        }
    }

    /// How many expectations were judged like that.
    pub fn count(&self, judgement: Judgement) -> usize {
        self.verdicts.iter().filter(|v| v.judgement == judgement).count()
    }

    /// In words: `6 of 6 expectations hold`, with how many could not be judged.
    pub(crate) fn headline(&self) -> String {
        let (pass, fail) = (self.count(Judgement::Pass), self.count(Judgement::Fail));
        let skipped = match self.count(Judgement::Skipped) {
            0 => String::new(),
            n => format!("; {n} could not be judged in this run"),
        };
        match self.status() {
            Status::Invalid => "The figures may not be used.".to_owned(),
            Status::Unjudged if skipped.is_empty() => "Nothing was expected of this run.".to_owned(),
            Status::Unjudged | Status::Pass | Status::Fail => {
                format!("{pass} of {} expectations hold{skipped}.", pass + fail)
            }
        }
    }

    /// True when the figures may be used and no expectation failed: the exit status of `lab run`.
    pub fn succeeded(&self) -> bool {
        matches!(self.status(), Status::Pass | Status::Unjudged)
    }

    /// The figures for programs.
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }

    /// The page, complete in itself.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Writes all files of the report into a directory, which is made when it is missing, and gives the path of the
    /// page. Files of the same names are replaced. On an error nothing of the report is left that looks whole:
    /// `summary.json` appears last.
    pub fn write(&self, dir: &Path) -> Result<PathBuf, WriteError> {
        let points = self.recorder.series(usize::MAX);
        let files = [
            ("series.csv", tables::series(&points)),
            ("latency.csv", tables::latency(&points)),
            ("proxies.csv", tables::proxies(&points)),
            ("failures.csv", tables::failures(&points)),
            ("report.html", self.html().into_bytes()),
            ("summary.json", self.summary().to_json()),
        ];
        files::write_all(dir, &files)?;
        Ok(dir.join("report.html"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
