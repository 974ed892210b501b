//! What a run needs of the place where it happens: sockets or the simulator.

use std::fmt;

use busyhour_engine::Instant;
use busyhour_roles::ua;

use crate::experiment::FaultKind;
use crate::measure::{GeneratorSample, ProxySample};

/// A cluster with a fleet of phones, somewhere.
pub(super) trait World {
    /// The present.
    fn now(&self) -> Instant;

    /// Lets everything go on until `until`, and hands over what the fleet tells meanwhile.
    ///
    /// # Errors
    /// [`RunError`] when the run cannot go on.
    fn run_until(&mut self, until: Instant, tell: &mut dyn FnMut(ua::Event)) -> Result<(), RunError>;

    /// Orders the fleet to do something.
    ///
    /// # Errors
    /// [`RunError`] when it cannot be told.
    fn order(&mut self, command: ua::Command) -> Result<(), RunError>;

    /// The counters of every proxy, those of the past included.
    fn proxies(&mut self) -> Vec<ProxySample>;

    /// The state of the generator.
    fn generator(&mut self) -> GeneratorSample;

    /// Makes something go wrong, or its end.
    ///
    /// # Errors
    /// [`RunError`] when it cannot be done here.
    fn fault(&mut self, fault: FaultKind) -> Result<(), RunError>;

    /// What a reader of the report has to know of this place, as name and value.
    fn notes(&self) -> Vec<(String, String)>;
}

/// Why a run could not be made, or not be finished. Its text says what to do.
#[derive(Debug)]
pub struct RunError(String);

impl RunError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        RunError(text.into())
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}
