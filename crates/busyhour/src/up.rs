//! `busyhour up`: a whole cluster in this process.

use crate::cli::UpArgs;
use crate::failure::Failure;
use crate::load_config;

/// Runs the cluster until it is told to stop.
pub(crate) fn run(args: &UpArgs) -> Result<(), Failure> {
    load_config(args.cluster.base.config.as_deref(), &args.cluster.given())?;
    Err(Failure::Run(anyhow::anyhow!("not built yet")))
}
