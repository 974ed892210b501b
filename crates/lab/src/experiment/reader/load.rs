//! The load: `[load]` and the files that it names.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{duration_or, text};
use crate::arrivals::{Ids, Interpolation, Load, Pairing, Scenario, Shape, Spacing};
use crate::experiment::check::RATE_MAX_PER_S;
use crate::experiment::model::Users;
use crate::experiment::section::Section;
use crate::experiment::units::written;
use crate::input::{InputError, list, quoted};

const STEPS_MAX: u64 = 10_000;

/// The `[load]` of an experiment.
pub(in crate::experiment) struct LoadPart {
    pub(in crate::experiment) load: Load,
    pub(in crate::experiment) spacing: Spacing,
    pub(in crate::experiment) pairing: Pairing,
    pub(in crate::experiment) attribution: Option<String>,
}

#[derive(Copy, Clone)]
enum Kind {
    Constant,
    Step,
    Csv,
    Shape,
}

pub(super) fn read_load(section: &Section<'_>, folder: &Path, users: &Users) -> Result<LoadPart, InputError> {
    const KINDS: [(&str, Kind); 4] =
        [("constant", Kind::Constant), ("step", Kind::Step), ("csv", Kind::Csv), ("shape", Kind::Shape)];
    let kind_field =
        section.required("kind", &format!("one of {}", list(KINDS.map(|(name, _)| quoted(name)))))?;
    let (load, attribution) = match kind_field.one_of(&KINDS)? {
        Kind::Constant => {
            let rate = section.required("rate", "a rate such as \"12/s\"")?;
            (Load::Constant { rate_per_s: rate.rate_in(RATE_MAX_PER_S)? }, None)
        }
        Kind::Step => (read_step(section)?, None),
        Kind::Csv => {
            if users.digits != 4 {
                return Err(kind_field.error("four-digit users (as in \"0000-9999\") with a scenario file"));
            }
            let ids = Ids { first: users.first, count: users.count };
            let (file, scenario) =
                read_file(section, folder, |reader, name| Scenario::read(reader, name, ids))?;
            (Load::Csv { file, scenario: Arc::new(scenario) }, None)
        }
        Kind::Shape => read_shape(section, folder)?,
    };
    let attribution = match load {
        Load::Csv { .. } | Load::Shape { .. } => text(section, "attribution")?.or(attribution),
        Load::Constant { .. } | Load::Step { .. } => None,
    };
    if matches!(load, Load::Csv { .. }) {
        // The file says when and who; there is nothing left to choose.
        return Ok(LoadPart { load, spacing: Spacing::Even, pairing: Pairing::Random, attribution });
    }
    const SPACINGS: [(&str, Spacing); 2] = [("even", Spacing::Even), ("poisson", Spacing::Poisson)];
    const PAIRINGS: [(&str, Pairing); 2] = [("random", Pairing::Random), ("cnf", Pairing::Cnf)];
    let spacing = section.optional("arrivals").map_or(Ok(Spacing::Even), |f| f.one_of(&SPACINGS))?;
    let pairing = section.optional("pairing").map_or(Ok(Pairing::Random), |f| f.one_of(&PAIRINGS))?;
    Ok(LoadPart { load, spacing, pairing, attribution })
}

fn read_step(section: &Section<'_>) -> Result<Load, InputError> {
    let start = section.required("start", "the rate of the first step, such as \"12/s\"")?.rate()?;
    let increment = section.required("increment", "what every step adds, such as \"6/s\"")?.signed_rate()?;
    let interval =
        section.required("interval", "how long a step lasts, such as \"5m\"")?.duration_above_zero()?;
    let steps = section.optional("steps").map(|f| f.integer(1..=STEPS_MAX)).transpose()?;
    Ok(Load::Step {
        start_per_s: start,
        increment_per_s: increment,
        interval,
        steps: steps.map(|n| n as u32),
    })
}

fn read_shape(section: &Section<'_>, folder: &Path) -> Result<(Load, Option<String>), InputError> {
    const INTERPOLATIONS: [(&str, Interpolation); 2] =
        [("linear", Interpolation::Linear), ("steps", Interpolation::Steps)];
    let (file, shape) = read_file(section, folder, Shape::read)?;
    let peak_per_s =
        section.required("peak", "the highest rate, such as \"45/s\"")?.rate_in(RATE_MAX_PER_S)?;
    let compress = section.optional("compress").map_or(Ok(1.0), |f| f.factor(0.01, 100_000.0))?;
    let from = duration_or(section, "from", Duration::ZERO)?;
    let to_field = section.optional("to");
    let to = to_field.as_ref().map_or(Ok(shape.length()), |f| f.duration())?;
    let interpolation = section.optional("interpolation");
    let interpolation = interpolation.map_or(Ok(Interpolation::Linear), |f| f.one_of(&INTERPOLATIONS))?;
    let place = to_field.or_else(|| section.optional("from")).or_else(|| section.optional("file"));
    let place = place.expect("the file was there");
    if from >= to || to > shape.length() {
        let length = written(shape.length());
        return Err(place.error(format!("from before to, and both within the {length} of the file")));
    }
    if shape.rate((from, to), interpolation, compress, peak_per_s).is_none() {
        return Err(place.error("a part of the file with any calls in it"));
    }
    let attribution = shape.attribution.clone();
    let window = (from, to);
    Ok((
        Load::Shape { file, shape: Arc::new(shape), peak_per_s, compress, window, interpolation },
        attribution,
    ))
}

/// Opens the file that the section names and reads it.
fn read_file<T>(
    section: &Section<'_>,
    folder: &Path,
    read: impl FnOnce(BufReader<File>, &str) -> Result<T, InputError>,
) -> Result<(String, T), InputError> {
    let field = section.required("file", "the name of a file")?;
    let name = field.text()?;
    let path = folder.join(name);
    let shown = path.display().to_string();
    let file = File::open(&path)
        .map_err(|e| field.error(format!("a readable file (looked for at {shown}: {e})")))?;
    Ok((name.to_owned(), read(BufReader::new(file), &shown)?))
}
