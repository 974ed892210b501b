//! `busyhour lab …`: experiments and simulations.

use std::io::{IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use busyhour_lab::Driver;
use busyhour_lab::callflow::CallFlow;
use busyhour_lab::experiment::{Experiment, Overrides};
use busyhour_lab::live::{print_summary, wants_colour};
use busyhour_lab::run::{self, Options};
use busyhour_lab::swarm;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::{LabCommand, LabRunArgs};
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(command: LabCommand, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        LabCommand::Run(args) => run_experiment(&args, out),
        LabCommand::List => list(out),
        LabCommand::Sim { seed, trace, call } => simulate(seed, trace, call.as_deref(), out),
    }
}

fn run_experiment(args: &LabRunArgs, out: &mut impl Write) -> Result<(), Failure> {
    let overrides =
        Overrides { speed: args.speed, duration: args.duration, seed: args.seed, repeat: args.repeat };
    let experiment = Experiment::open(&args.file, &overrides).map_err(|e| Failure::Input(e.into()))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends the process the usual way.
        let watched = signal_hook::flag::register_conditional_default(signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        watched.map_err(|e| Failure::Run(anyhow!("signals cannot be watched: {e}")))?;
    }
    let driver = if args.sim { Driver::Simulator } else { Driver::Sockets };
    let tty = std::io::stdout().is_terminal();
    let report =
        run::run(&experiment, &Options { driver, tty, stop: &stop }).map_err(|e| Failure::Run(e.into()))?;
    let dir = run::results_dir(&args.out, &report);
    let page = report.write(&dir).map_err(|e| Failure::Run(e.into()))?;
    print_summary(&report, out, wants_colour(&std::io::stdout())).map_err(Failure::of_output)?;
    writeln!(out, "report: {}", page.display()).map_err(Failure::of_output)?;
    if report.succeeded() { Ok(()) } else { Err(Failure::Verdict) }
}

/// Runs the scenario of a seed; with its call flow, of one call or of all.
fn simulate(seed: u64, trace: bool, call: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let stdout = || Box::new(std::io::BufWriter::new(std::io::stdout()));
    let flow = match call {
        Some(call) => Some(CallFlow::of_call(stdout(), call)),
        None => trace.then(|| CallFlow::new(stdout())),
    };
    let result = swarm::run(seed, flow.clone());
    if let Some(flow) = flow {
        flow.finish().map_err(Failure::of_output)?;
    }
    let outcome = result.map_err(|failure| Failure::Run(failure.into()))?;
    writeln!(out, "seed {seed}: {outcome}").map_err(Failure::of_output)
}

/// The experiments below `experiments/`, with their titles.
fn list(out: &mut impl Write) -> Result<(), Failure> {
    let root = Path::new("experiments");
    let mut files = Vec::new();
    collect(root, &mut files).map_err(|e| {
        Failure::Run(anyhow!("{}: {e}; run this in the folder that holds the experiments", root.display()))
    })?;
    files.sort();
    for file in files {
        let title = match Experiment::open(&file, &Overrides::default()) {
            Ok(experiment) => experiment.title,
            Err(error) => format!("(cannot be run) {error}"),
        };
        writeln!(out, "{:<40} {title}", file.display()).map_err(Failure::of_output)?;
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
