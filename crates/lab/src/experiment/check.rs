//! What cannot be run is refused before it starts, with the reason; and what the command line changes is applied.

use std::time::Duration;

use super::expect::{At, Claim, WindowError};
use super::model::{Call, Distribution, Fault, FaultKind, Overrides, Users};
use super::reader::{LoadPart, Written};
use super::section::{Field, Section};
use super::units::written;
use crate::arrivals::{Load, Pairing, Pairs, Schedule, Window, steps_in};
use crate::input::InputError;

/// The highest rate that is taken, for calls and for registrations.
pub(super) const RATE_MAX_PER_S: f64 = 1_000_000.0;
const SPEED_MAX: f64 = 1000.0;
const STEPS_MAX: u32 = 10_000;
const REPEAT_MAX: u32 = 1000;
/// A longer load is refused.
const LENGTH_MAX: Duration = Duration::from_secs(366 * 86_400);

/// How long the load lasts by the file alone.
pub(super) fn file_length(
    root: &Section<'_>,
    field: Option<&Field<'_>>,
    duration: Option<Duration>,
    load: &Load,
) -> Result<Duration, InputError> {
    let length = match (duration, load.length(), field) {
        (Some(wanted), Some(all), Some(field)) if wanted > all => {
            return Err(field.error(format!("at most {}, which is all of the load", written(all))));
        }
        (Some(wanted), _, _) => wanted,
        (None, Some(all), _) => all,
        (None, None, _) => {
            let expected = format!("how long the {} load lasts, such as \"10m\"", load.kind());
            root.required("duration", &expected)?;
            unreachable!("a missing key is an error")
        }
    };
    if length <= LENGTH_MAX {
        return Ok(length);
    }
    let (expected, found) = (format!("a load of at most {}", written(LENGTH_MAX)), written(length));
    Err(match field {
        Some(field) => field.error(expected),
        None => InputError::new(root.file(), expected, found),
    })
}

/// Whether the load can be offered at all.
pub(super) fn load(
    section: &Section<'_>,
    part: &LoadPart,
    length: Duration,
    users: &Users,
) -> Result<(), InputError> {
    let place = |key| section.optional(key).expect("the load has been read");
    if let Some(problem) = step_problem(&part.load, length) {
        return Err(place("increment").error(problem));
    }
    if part.load.schedule(part.spacing, length, 1.0).calls_expected() < 1.0 {
        return Err(place("kind")
            .error("a load of at least one call")
            .hint("its rate or its duration is too small"));
    }
    let pairs = Pairs::new(part.pairing, users.first, users.count, busyhour_engine::Rng::from_seed(0));
    if pairs.is_none() && part.pairing == Pairing::Cnf {
        let expected = "users of an even process and the odd one after it, as in \"0000-0199\"";
        return Err(place("pairing").error(expected));
    }
    Ok(())
}

/// What is wrong with the rates of a staircase of this length.
fn step_problem(load: &Load, length: Duration) -> Option<String> {
    let (steps, last_per_s) = last_step(load, length)?;
    if steps > STEPS_MAX {
        return Some(format!("at most {STEPS_MAX} steps"));
    }
    if !(0.0..=RATE_MAX_PER_S).contains(&last_per_s) {
        return Some(format!(
            "rates from 0/s to {RATE_MAX_PER_S}/s in all {steps} steps (the last one would have {last_per_s}/s)"
        ));
    }
    None
}

/// How many steps the load has when it lasts `length`, and the rate of the last one.
fn last_step(load: &Load, length: Duration) -> Option<(u32, f64)> {
    let Load::Step { start_per_s, increment_per_s, interval, .. } = load else { return None };
    let steps = steps_in(*interval, length);
    Some((steps, start_per_s + increment_per_s * f64::from(steps.saturating_sub(1))))
}

/// Whether every part of the run that a claim names is there.
pub(super) fn windows(
    claim: &Claim,
    that: &Field<'_>,
    at: At,
    at_field: Option<&Field<'_>>,
    steps: &[Window],
    length: Duration,
) -> Result<(), InputError> {
    let expected = |problem| match problem {
        WindowError::NoStep if steps.is_empty() => "a load of kind \"step\" where steps are named".to_owned(),
        WindowError::NoStep => format!("one of the {} steps, counted from 1", steps.len()),
        WindowError::AfterTheEnd => format!("a part of the load, which lasts {}", written(length)),
        WindowError::Empty => "a part of the run that ends after it starts".to_owned(),
    };
    let own = match at {
        At::Over(over) => over.window(length, 1.0, steps).map(|_| ()),
        At::EachStep if steps.is_empty() => Err(WindowError::NoStep),
        At::Each(each) if each > length => Err(WindowError::AfterTheEnd),
        At::Measured | At::EachStep | At::Each(_) => Ok(()),
    };
    if let (Err(problem), Some(field)) = (own, at_field) {
        return Err(field.error(expected(problem)));
    }
    let mut inner = Ok(());
    for side in claim.sides() {
        side.metrics(&mut |_, over| {
            if let Some(over) = over {
                inner = inner.and(over.window(length, 1.0, steps).map(|_| ()));
            }
        });
    }
    inner.map_err(|problem| that.error(expected(problem)))
}

/// What depends on the command line.
pub(super) struct Run {
    pub(super) schedule: Schedule,
    pub(super) faults: Vec<Fault>,
    pub(super) speed: f64,
    pub(super) warmup: Duration,
    pub(super) notes: Vec<String>,
}

/// Applies the overrides to what was written, and refuses what cannot be run.
pub(super) fn apply(file: &str, file_says: &Written, overrides: &Overrides) -> Result<Run, InputError> {
    let LoadPart { load, spacing, .. } = &file_says.load;
    let wrong = |key: &str, expected: String, found: String| InputError::new(file, expected, found).key(key);
    let speed = overrides.speed.unwrap_or(1.0);
    if !(1.0..=SPEED_MAX).contains(&speed) {
        return Err(wrong("--speed", format!("a factor from 1 to {SPEED_MAX}"), speed.to_string()));
    }
    let repeat = overrides.repeat.unwrap_or(1);
    if !(1..=REPEAT_MAX).contains(&repeat) {
        return Err(wrong("--repeat", format!("a number from 1 to {REPEAT_MAX}"), repeat.to_string()));
    }
    let whole = file_says.length;
    let mut notes = Vec::new();
    let mut length = whole;
    if let Some(run) = overrides.duration {
        length =
            overridden(load, run, speed).map_err(|expected| wrong("--duration", expected, written(run)))?;
    }
    let schedule = load.schedule(*spacing, length, speed);
    let warmup = file_says.warmup.div_f64(speed);
    if warmup >= schedule.total() {
        let expected = format!("longer than the warm-up of {}", written(warmup));
        return Err(wrong("--duration", expected, written(schedule.total())));
    }
    if schedule.calls_expected() < 1.0 {
        let expected = "a run with at least one call".to_owned();
        return Err(wrong("--duration", expected, format!("none in {}", written(schedule.total()))));
    }
    capacity(file, &schedule, &file_says.users, &file_says.call)?;
    let mut faults = Vec::new();
    for fault in &file_says.faults {
        let at = fault.at.div_f64(speed);
        if at < schedule.total() {
            faults.push(Fault { at, what: compressed(fault.what, speed) });
        } else {
            notes.push(format!("the run ends before the fault at {}", written(fault.at)));
        }
    }
    if length < whole {
        notes.push(format!("the run is cut short: {} of {} of the load", written(length), written(whole)));
    }
    Ok(Run { schedule, faults, speed, warmup, notes })
}

/// How much of the load a run of this length takes, in the load's own time; or what was expected of the length.
fn overridden(load: &Load, run: Duration, speed: f64) -> Result<Duration, String> {
    let longest = LENGTH_MAX.div_f64(speed);
    if run.is_zero() || run > longest {
        return Err(format!("more than 0s and at most {}", written(longest)));
    }
    let mut length = run.mul_f64(speed);
    if let Some(all) = load.length().filter(|all| length > *all) {
        // A run of exactly the whole load must not fail by the rounding of the factor.
        let all_run = all.div_f64(speed);
        if run > all_run + Duration::from_nanos(1) {
            return Err(format!("at most {}, which is all of the load at this speed", written(all_run)));
        }
        length = all;
    }
    match step_problem(load, length) {
        Some(problem) => Err(problem),
        None => Ok(length),
    }
}

fn compressed(fault: FaultKind, speed: f64) -> FaultKind {
    match fault {
        FaultKind::Kill { node, lasts } => FaultKind::Kill { node, lasts: lasts.map(|d| d.div_f64(speed)) },
        FaultKind::Pause { node, lasts } => FaultKind::Pause { node, lasts: lasts.div_f64(speed) },
        FaultKind::Partition { node, lasts } => FaultKind::Partition { node, lasts: lasts.div_f64(speed) },
        FaultKind::Drain { .. } | FaultKind::Add { .. } => fault,
    }
}

/// Whether the fleet can hold the calls at the peak. By Little's law their mean number is rate times length; where
/// arrivals or lengths are random, four standard deviations of a Poisson distribution come on top.
fn capacity(file: &str, schedule: &Schedule, users: &Users, call: &Call) -> Result<(), InputError> {
    // No more calls are there at once than are made in the whole run.
    let mean = (schedule.peak_per_s() * call.length_mean().as_secs_f64()).min(schedule.calls_expected());
    let random = schedule.is_random() || call.hold_distribution == Distribution::Exponential;
    let needed = if random { mean + 4.0 * mean.sqrt() } else { mean };
    let max = users.calls_max();
    if needed <= max as f64 {
        return Ok(());
    }
    let expected = format!(
        "at most {max} calls at once, which is what {} phones with {} lines each can hold",
        users.count, users.lines
    );
    let peak = schedule.peak_per_s();
    let found = format!("{:.0} ({peak}/s for {})", needed.ceil(), written(call.length_mean()));
    Err(InputError::new(file, expected, found).key("load").hint("give more users or lines, or shorter calls"))
}
