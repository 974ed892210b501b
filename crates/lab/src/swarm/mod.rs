//! Random clusters under random faults, in the simulator: first safety, then liveness.
//!
//! A seed stands for a [`Scenario`]: a topology, links, hosts, users, load, changes of the membership, faults. While it
//! runs, everything on the wire is watched for what must never happen. When the load is over, everything is healed; once
//! every timer has had its time, nothing may be left open and every account must add up. Then the users register and
//! call again, and every call has to complete.
//!
//! The same seed gives the same trace, on any machine: a failure is replayed with `busyhour lab sim --seed N --trace`.

mod check;
mod scenario;
mod tally;
mod upset;
mod wire;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use busyhour_engine::Instant;

pub use scenario::{FleetPlan, Scenario, Step, Upset, Weather, Who, draw};
pub use wire::Violation;

use crate::callflow::CallFlow;
use world::World;

/// What a scenario came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The hash of everything that happened.
    pub trace_hash: u64,
    /// How bad it was.
    pub weather: Weather,
    /// Calls planned while the cluster was disturbed.
    pub calls: usize,
    /// Those of them that completed.
    pub completed: usize,
    /// Calls made after everything was healed.
    pub calls_healed: usize,
    /// Calls that two phones answered.
    pub second_answers: u64,
    /// Messages that proxies passed on to another owner.
    pub passed_on: u64,
    /// Proxies that were drained and removed.
    pub removed: usize,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Steps of the simulator.
    pub steps: u64,
    /// How much time passed in the simulation.
    pub ended: Instant,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} weather: {} of {} calls completed, then {} after healing; {} answered twice, {} messages passed on, \
             {} proxies removed; {} datagrams, {} steps, {} s simulated; trace {:016x}",
            self.weather,
            self.completed,
            self.calls,
            self.calls_healed,
            self.second_answers,
            self.passed_on,
            self.removed,
            self.datagrams,
            self.steps,
            self.ended.as_secs(),
            self.trace_hash,
        )
    }
}

/// A scenario that showed a fault of the product.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that shows it again.
    pub seed: u64,
    /// Everything that was found, the first finding first.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} fails:", self.seed)?;
        for violation in &self.violations {
            let call = violation.call_id.as_deref().map(|id| format!(" [Call-ID {id}]")).unwrap_or_default();
            writeln!(f, "  {:?} {}{call}", violation.at, violation.what)?;
        }
        write!(f, "replay it: busyhour lab sim --seed {} --trace", self.seed)
    }
}

impl std::error::Error for Failure {}

/// Runs the scenario of a seed, and writes what happens to `flow`, if there is one.
///
/// # Errors
/// [`Failure`] when something happened that must not.
pub fn run(seed: u64, flow: Option<CallFlow>) -> Result<Outcome, Failure> {
    let scenario = draw(seed);
    // What a node asserts is a finding like any other: it has to name its seed.
    let result = catch_unwind(AssertUnwindSafe(|| World::new(scenario, flow).run()));
    let violations = match result {
        Ok(Ok(outcome)) => return Ok(outcome),
        Ok(Err(violations)) => violations,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            let what = format!("a node panicked: {}", text.unwrap_or_default());
            vec![Violation { at: Instant::EPOCH, call_id: None, what }]
        }
    };
    Err(Failure { seed, violations })
}
