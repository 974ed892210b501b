//! `busyhour lab …`: experiments and simulations.

use crate::cli::LabCommand;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(command: LabCommand) -> Result<(), Failure> {
    Err(Failure::Run(anyhow::anyhow!("not built yet: {command:?}")))
}
