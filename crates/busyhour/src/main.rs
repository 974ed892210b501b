//! The `busyhour` binary: the command line, the configuration, and the wiring of everything else.

mod balancer;
mod cli;
mod config;
mod failure;
mod lab;
mod mistake;
mod serve;
mod units;
mod up;
mod user;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::config::{CONFIG_VARIABLE, Given, Loaded, SourceFile};
use crate::failure::Failure;
use busyhour_lab::input::InputError;

fn main() -> ExitCode {
    log();
    match run(Cli::parse().command, &mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::OutputClosed | Failure::Verdict) {
                eprintln!("error: {failure}");
            }
            failure.exit_code()
        }
    }
}

/// What happens is logged on standard error; BUSYHOUR_LOG says how much, `warn` by default.
fn log() {
    let level = std::env::var("BUSYHOUR_LOG").ok().and_then(|text| text.parse().ok());
    let level = level.unwrap_or(tracing::level_filters::LevelFilter::WARN);
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).init();
}

fn run(command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Up(args) => up::run(&args, out),
        Command::Balancer(args) => balancer::run(&args, out),
        Command::Proxy(args) => up::run_proxy(&args, out),
        Command::User(command) => user::run(command, out),
        Command::Lab(command) => lab::run(command, out),
        Command::Config(ConfigCommand::Check { file, cluster }) => {
            let file = file.as_deref().or(cluster.base.config.as_deref());
            load_config(file, &cluster.given())?.write_effective(out).map_err(Failure::of_output)
        }
    }
}

/// The configuration from the file (or the one that BUSYHOUR_CONFIG names), the environment and the flags.
pub(crate) fn load_config(file: Option<&Path>, flags: &[Given]) -> Result<Loaded, InputError> {
    let named = std::env::var_os(CONFIG_VARIABLE).filter(|name| !name.is_empty());
    let file = file.or(named.as_deref().map(Path::new)).map(SourceFile::read).transpose()?;
    config::load(file.as_ref(), std::env::vars_os(), flags)
}
