//! Runs an experiment: registers the phones, drives the load, takes the samples, and judges.
//!
//! The same steps are taken on sockets and in the simulator; only the world differs. Calls are planned a little
//! ahead and start by the fleet's own timers, so a runner that is late delays nothing.

mod fleet;
mod service;
mod simulated;
mod sockets;
mod world;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use busyhour_engine::Instant;
use busyhour_roles::ua;

use crate::Driver;
use crate::experiment::Experiment;
use crate::live::{Live, Phones};
use crate::measure::{Reason, Recorder, RecorderConfig, Validity};
use crate::report::{Environment, Report};

use fleet::TRANSACTION_MAX;
pub use world::RunError;
use world::World;

/// How far ahead calls are planned.
const AHEAD: Duration = Duration::from_secs(2);
/// How often plans, samples and the display are seen to, in the time of the run.
const STEP: Duration = Duration::from_millis(250);
/// Samples of proxies and generator are this far apart.
const SAMPLE: Duration = Duration::from_secs(1);
/// Between the last registration and the load.
const SETTLE: Duration = Duration::from_secs(1);

/// How a run is made.
pub struct Options<'a> {
    /// Where.
    pub driver: Driver,
    /// Whether standard output is a terminal: decides how progress is shown.
    pub tty: bool,
    /// Set when somebody wants the run to stop; what was measured so far is then reported as invalid.
    pub stop: &'a AtomicBool,
}

/// Runs every repetition of an experiment and judges the whole.
///
/// # Errors
/// [`RunError`] when it cannot be run at all.
pub fn run(experiment: &Experiment, options: &Options<'_>) -> Result<Report, RunError> {
    let mut environment = Environment::of_this_machine(options.driver, experiment.seed);
    let mut repetitions = Vec::new();
    let mut reasons = Vec::new();
    for repetition in 0..experiment.repeat {
        let mut world: Box<dyn World> = match options.driver {
            Driver::Sockets => Box::new(sockets::Sockets::start(experiment, repetition)?),
            Driver::Simulator => Box::new(simulated::Simulated::start(experiment, repetition)?),
        };
        let mut one = Run::new(experiment, options, world.as_mut());
        one.carry_out(repetition)?;
        reasons.append(&mut one.reasons);
        repetitions.push(one.recorder);
        if repetition == 0 {
            environment.notes = world.notes();
        }
        if options.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(report(experiment, options.driver, environment, repetitions, reasons))
}

fn report(
    experiment: &Experiment,
    driver: Driver,
    environment: Environment,
    mut repetitions: Vec<Recorder>,
    reasons: Vec<Reason>,
) -> Report {
    let mut recorder = repetitions[0].clone();
    for other in &repetitions[1..] {
        recorder.merge_repetition(other).expect("repetitions of one experiment can be merged");
    }
    let validity = reasons.into_iter().fold(recorder.validity(), Validity::with);
    let verdicts = experiment.judge(&recorder, driver);
    if repetitions.len() == 1 {
        repetitions.clear();
    }
    Report {
        title: experiment.title.clone(),
        name: experiment.name.clone(),
        source: experiment.source.as_ref().map(|s| s.document.clone()).unwrap_or_default(),
        description: description(experiment),
        configuration: experiment.text.clone(),
        environment,
        verdicts,
        attribution: experiment.attribution.iter().cloned().collect(),
        recorder,
        repetitions,
        validity,
    }
}

fn description(experiment: &Experiment) -> Vec<String> {
    let published = experiment.source.as_ref().and_then(|s| s.published.clone());
    published.into_iter().chain(experiment.notes.iter().cloned()).collect()
}

/// The directory of a run's results: `results/<experiment>/<time>`, with the start in UTC.
pub fn results_dir(out: &Path, report: &Report) -> PathBuf {
    let started = report.environment.started_rfc3339().replace(':', "");
    out.join(&report.name).join(started)
}

/// One repetition on its way.
struct Run<'a> {
    experiment: &'a Experiment,
    options: &'a Options<'a>,
    world: &'a mut dyn World,
    recorder: Recorder,
    reasons: Vec<Reason>,
    /// Calls that were ordered, and those that have ended.
    calls_planned: u64,
    calls_ended: u64,
}

impl<'a> Run<'a> {
    fn new(experiment: &'a Experiment, options: &'a Options<'a>, world: &'a mut dyn World) -> Self {
        Run {
            experiment,
            options,
            world,
            recorder: Recorder::new(RecorderConfig::new(Instant::EPOCH, experiment.duration())),
            reasons: Vec::new(),
            calls_planned: 0,
            calls_ended: 0,
        }
    }

    fn carry_out(&mut self, repetition: u32) -> Result<(), RunError> {
        let registered = self.register_phones()?;
        let origin = self.world.now() + SETTLE;
        let config = RecorderConfig {
            warmup: self.experiment.warmup,
            speed: self.experiment.speed,
            ..RecorderConfig::new(origin, self.experiment.duration())
        };
        self.recorder = Recorder::new(config);
        let users = u64::from(self.experiment.users.count);
        let failed = users - registered.iter().filter(|r| r.status == Some(200)).count() as u64;
        registered.iter().for_each(|r| self.recorder.record_registration(r));
        if failed > 0 {
            self.reasons.push(Reason::Other(format!(
                "{failed} of {users} phones could not register before the load"
            )));
        }
        self.drive(repetition, origin)?;
        self.let_calls_end()
    }

    /// Registers every phone at the experiment's pace, and waits until each has its answer.
    fn register_phones(&mut self) -> Result<Vec<ua::RegisterRecord>, RunError> {
        let users = &self.experiment.users;
        let start = self.world.now() + Duration::from_millis(100);
        let gap = Duration::from_secs_f64(1.0 / users.register_rate_per_s);
        let mut records = Vec::new();
        let mut live = Phones::new(u64::from(users.count), gap * users.count, self.options.tty);
        for user in 0..users.count {
            let at = start + gap * user;
            self.world.order(ua::Command::Register { user, at })?;
        }
        let patience = start + gap * users.count + 2 * TRANSACTION_MAX;
        while records.len() < users.count as usize && self.world.now() < patience && !self.stopped() {
            let until = self.world.now() + STEP;
            self.world.run_until(until, &mut |event| {
                if let ua::Event::Register(record) = event {
                    records.push(record);
                }
            })?;
            live.update(records.len() as u64);
        }
        live.finish();
        Ok(records)
    }

    /// Offers the load, carries out the faults and takes the samples.
    fn drive(&mut self, repetition: u32, origin: Instant) -> Result<(), RunError> {
        let mut plan = self.experiment.plan(repetition, origin).peekable();
        let mut faults = self.experiment.faults.iter().peekable();
        let end = origin + self.experiment.duration();
        let mut live = self.live(&self.experiment.name, self.experiment.duration());
        let mut next_sample = origin;
        while self.world.now() < end && !self.stopped() {
            let horizon = self.world.now() + AHEAD;
            let mut chunk = Vec::new();
            while let Some(call) = plan.next_if(|call| call.at <= horizon) {
                chunk.push(call);
            }
            self.calls_planned += chunk.len() as u64;
            if !chunk.is_empty() {
                self.world.order(ua::Command::Call(chunk))?;
            }
            let next_fault = faults.peek().map(|f| origin + f.at);
            let until = [Some(self.world.now() + STEP), Some(next_sample), next_fault, Some(end)];
            let until = until.into_iter().flatten().min().expect("one of them is there");
            self.advance(until)?;
            while let Some(fault) = faults.next_if(|f| origin + f.at <= self.world.now()) {
                self.world.fault(fault.what)?;
            }
            if self.world.now() >= next_sample {
                // The first one is the proxies' baseline, so it stands for the origin, however little later it was taken.
                self.sample(if next_sample == origin { origin } else { self.world.now() });
                next_sample += SAMPLE;
            }
            live.update(&self.snapshot());
        }
        if self.stopped() {
            self.reasons.push(Reason::Other("the run was stopped before its end".into()));
        }
        live.finish();
        Ok(())
    }

    /// Waits for calls that are still going on, as long as the longest can take, and ends the rest.
    fn let_calls_end(&mut self) -> Result<(), RunError> {
        let call = &self.experiment.call;
        let patience = fleet::longest(call) + 2 * TRANSACTION_MAX;
        let until = self.world.now() + patience;
        let mut live = self.live(&self.experiment.name, self.experiment.duration());
        while self.calls_ended < self.calls_planned && self.world.now() < until && !self.stopped() {
            let step = self.world.now() + STEP;
            self.advance(step)?;
            live.update(&self.snapshot());
        }
        live.finish();
        self.world.order(ua::Command::Stop)?;
        let last = self.world.now() + STEP;
        self.advance(last)?;
        self.sample(self.world.now());
        Ok(())
    }

    fn advance(&mut self, until: Instant) -> Result<(), RunError> {
        let (recorder, ended) = (&mut self.recorder, &mut self.calls_ended);
        self.world.run_until(until, &mut |event| match event {
            ua::Event::Call(record) => {
                *ended += 1;
                recorder.record_call(&record);
            }
            ua::Event::Register(record) => recorder.record_registration(&record),
            ua::Event::Answered { .. } | ua::Event::Report(_) => {}
        })
    }

    /// Takes the samples that stand for `now`.
    fn sample(&mut self, now: Instant) {
        let proxies = self.world.proxies();
        self.recorder.record_proxies(now, &proxies);
        let generator = self.world.generator();
        self.recorder.record_generator(now, &generator);
    }

    fn snapshot(&self) -> crate::measure::Snapshot {
        // What is planned ahead has not been offered yet.
        let now = self.world.now();
        let origin = self.recorder.config().origin;
        let offered = self.calls_planned.min(self.offered_until(now.since(origin)));
        self.recorder.snapshot(now, offered, offered.saturating_sub(self.calls_ended))
    }

    /// How many calls were planned up to a time of the load, about: exact figures are the recorder's.
    fn offered_until(&self, elapsed: Duration) -> u64 {
        let total = self.experiment.duration();
        if elapsed >= total {
            self.calls_planned
        } else {
            self.calls_planned.saturating_sub(self.ahead(elapsed))
        }
    }

    fn ahead(&self, elapsed: Duration) -> u64 {
        (self.experiment.schedule.rate_at(elapsed) * AHEAD.as_secs_f64()) as u64
    }

    fn stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    fn live(&self, title: &str, total: Duration) -> Live {
        Live::new(title, total, self.options.tty)
    }
}
