//! Experiments: one TOML file says what is run, under which load, and what is expected of it.
//!
//! [`Experiment::open`] reads the file and everything that it names, applies the [`Overrides`], and refuses what cannot
//! be run; what it gives back needs no further checks. All its times are those of the run: already compressed by the
//! speed. `experiments/README.md` describes every key.
//!
//! Every error is an [`InputError`]: one line with file, line, column, key, what was expected and what was found.
//! Unknown keys, names and metrics are errors, with the nearest one that exists. To add a key, ask for it in `reader`:
//! whatever is asked for is known.

mod check;
pub mod expect;
mod model;
mod reader;
mod section;
pub mod units;

use std::path::Path;
use std::time::Duration;

use busyhour_engine::{Instant, Rng};
use busyhour_roles::ua::PlannedCall;

use crate::Driver;
use crate::arrivals::{Arrivals, Load, Pairing, Pairs, Schedule, Spacing};
use crate::input::InputError;

pub use expect::{Expectation, Judgement, Metrics, Verdict};
pub use model::{
    Call, DISPATCH_POLICIES, Distribution, End, Fault, FaultKind, Host, Link, OVERLOAD_POLICIES, Overrides,
    Policy, Source, Target, Topology, Users,
};

/// One experiment, checked and ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name, which is also its folder under `results/`: `cnf/step`.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// Where it comes from.
    pub source: Option<Source>,
    /// The file that it was read from.
    pub file: String,
    /// The text of that file.
    pub text: String,
    /// The cluster.
    pub topology: Topology,
    /// The subscribers.
    pub users: Users,
    /// How calls go.
    pub call: Call,
    /// The load as the file describes it, in the file's time.
    pub load: Load,
    /// How calls lie along the load.
    pub spacing: Spacing,
    /// Who calls whom, where the load does not say.
    pub pairing: Pairing,
    /// Whose data the load is made from and under which licence. Reports have to show it.
    pub attribution: Option<String>,
    /// The load of the run, in the run's time.
    pub schedule: Schedule,
    /// The policies.
    pub policy: Policy,
    /// What goes wrong, in order of time.
    pub faults: Vec<Fault>,
    /// The seed of the first repetition.
    pub seed: u64,
    /// How many repetitions.
    pub repeat: u32,
    /// How many times shorter the run is than the experiment as written.
    pub speed: f64,
    /// How much of the start of the run is left out of the figures.
    pub warmup: Duration,
    /// What is expected.
    pub expectations: Vec<Expectation>,
    /// What a reader of the results has to know about this run, such as faults that a shortened run does not reach.
    pub notes: Vec<String>,
}

impl Experiment {
    /// Reads an experiment from a file. Files that it names are looked for from the folder that it lies in.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn open(path: &Path, overrides: &Overrides) -> Result<Experiment, InputError> {
        let file = path.display().to_string();
        let text = reader::text_of(path).map_err(|found| InputError::new(&file, "a readable file", found))?;
        Experiment::parse(&text, &file, path.parent().unwrap_or(Path::new("")), overrides)
    }

    /// Reads an experiment from text. `file` names it in errors; files that it names are looked for from `folder`.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn parse(
        text: &str,
        file: &str,
        folder: &Path,
        overrides: &Overrides,
    ) -> Result<Experiment, InputError> {
        reader::read(text, file, folder, overrides)
    }

    /// How long the load lasts in this run.
    pub fn duration(&self) -> Duration {
        self.schedule.total()
    }

    /// The seed of a repetition, counted from 0: every one has its own, and the first one has the experiment's.
    pub fn seed_of(&self, repetition: u32) -> u64 {
        self.seed.wrapping_add(u64::from(repetition))
    }

    /// The calls of a repetition, in order of time, from `origin` on; computed one by one as they are asked for.
    pub fn plan(&self, repetition: u32, origin: Instant) -> Plan {
        let mut rng = Rng::from_seed(self.seed_of(repetition));
        let arrivals = self.schedule.arrivals(rng.split());
        let pairs = Pairs::new(self.pairing, self.users.first, self.users.count, rng.split());
        let pairs = pairs.expect("the users were checked for pairs");
        Plan { origin, arrivals, pairs, call: self.call, holds: rng.split() }
    }

    /// Holds every expectation against what was measured, in the order of the file.
    pub fn judge(&self, metrics: &dyn Metrics, driver: Driver) -> Vec<Verdict> {
        let timeline = expect::Timeline {
            total: self.duration(),
            warmup: self.warmup,
            speed: self.speed,
            steps: self.schedule.steps(),
        };
        self.expectations.iter().map(|e| expect::judge(e, metrics, driver, timeline)).collect()
    }
}

/// The calls of one repetition.
#[derive(Clone, Debug)]
pub struct Plan {
    origin: Instant,
    arrivals: Arrivals,
    pairs: Pairs,
    call: Call,
    holds: Rng,
}

impl Iterator for Plan {
    type Item = PlannedCall;

    fn next(&mut self) -> Option<PlannedCall> {
        let arrival = self.arrivals.next()?;
        let (caller, callee) = match (arrival.caller, arrival.callee) {
            (Some(caller), Some(callee)) => (caller, callee),
            (None, _) | (_, None) => self.pairs.pick(),
        };
        let hold = match self.call.hold_distribution {
            Distribution::Fixed => self.call.hold,
            Distribution::Exponential => self.holds.exponential(self.call.hold),
        };
        Some(PlannedCall { at: self.origin + arrival.at, caller, callee, hold })
    }
}

#[cfg(test)]
mod tests;
