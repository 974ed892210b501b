//! From TOML to an [`Experiment`], key by key.

mod claims;
mod cluster;
mod faults;
mod load;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use super::Experiment;
use super::check;
use super::model::{Call, Fault, Overrides, Source, Users};
use super::section::{Document, Field, Section};
use super::units::written;
use crate::arrivals::Load;
use crate::input::InputError;

use claims::{read_constants, read_expectations};
use cluster::{CALL_DEFAULT, POLICY_DEFAULT, read_call, read_policy, read_topology, read_users};
use faults::read_faults;
use load::read_load;

pub(super) use load::LoadPart;

/// A longer experiment file is refused.
const FILE_BYTES_MAX: u64 = 1 << 20;
const REPEAT_MAX: u64 = 1000;
const NAME_MAX: usize = 100;

/// The text of a file, or what is in the way of reading it.
pub(in crate::experiment) fn text_of(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "bytes that are not UTF-8".to_owned())
}

/// Everything in the file, in the file's time.
pub(in crate::experiment) struct Written {
    pub(in crate::experiment) load: LoadPart,
    /// How long the load lasts by the file alone.
    pub(in crate::experiment) length: Duration,
    pub(in crate::experiment) warmup: Duration,
    pub(in crate::experiment) faults: Vec<Fault>,
    pub(in crate::experiment) users: Users,
    pub(in crate::experiment) call: Call,
}

pub(in crate::experiment) fn read(
    text: &str,
    file: &str,
    folder: &Path,
    overrides: &Overrides,
) -> Result<Experiment, InputError> {
    let document = Document { file, text };
    let toml = DeTable::parse(text).map_err(|e| not_toml(document, &e))?;
    let root = Section::new(document, String::new(), toml.get_ref(), 0..text.len());

    let name = read_name(&root.required("name", "a name such as \"cnf/step\"")?)?;
    let title = root.required("title", "a line that says what the experiment shows")?.text()?.to_owned();
    let source = root.section("source")?.map(read_source).transpose()?;
    let seed = root.optional("seed").map(|f| f.integer(0..=i64::MAX as u64)).transpose()?.unwrap_or(1);
    let repeat = root.optional("repeat").map(|f| f.integer(1..=REPEAT_MAX)).transpose()?.unwrap_or(1);
    let topology = read_topology(&root)?;
    let users = read_users(required_section(&root, "users")?)?;
    let call = root.section("call")?.map(read_call).transpose()?.unwrap_or(CALL_DEFAULT);
    let policy = root.section("policy")?.map(read_policy).transpose()?.unwrap_or(POLICY_DEFAULT);
    let load_section = required_section(&root, "load")?;
    let load = read_load(&load_section, folder, &users)?;
    let constants = root.section("constants")?.map(|s| read_constants(&s)).transpose()?.unwrap_or_default();

    let length = read_length(&root, &load.load)?;
    let warmup = read_warmup(&root, length)?;
    check::load(&load_section, &load, length, &users)?;
    load_section.finish()?;
    let faults = read_faults(&root, &topology, length)?;
    let schedule = load.load.schedule(load.spacing, length, 1.0);
    let expectations = read_expectations(&root, &constants, schedule.steps(), length)?;
    root.finish()?;

    let file_says = Written { load, length, warmup, faults, users, call };
    let run = check::apply(file, &file_says, overrides)?;
    let Written { load, users, .. } = file_says;
    Ok(Experiment {
        name,
        title,
        source,
        file: file.to_owned(),
        text: text.to_owned(),
        topology,
        users,
        call,
        load: load.load,
        spacing: load.spacing,
        pairing: load.pairing,
        attribution: load.attribution,
        schedule: run.schedule,
        policy,
        faults: run.faults,
        seed: overrides.seed.unwrap_or(seed),
        repeat: overrides.repeat.unwrap_or(repeat as u32),
        speed: run.speed,
        warmup: run.warmup,
        expectations,
        notes: run.notes,
    })
}

fn not_toml(document: Document<'_>, error: &toml::de::Error) -> InputError {
    let at = error.span().map_or(0, |span| span.start);
    let found = error.message().lines().collect::<Vec<_>>().join(" ");
    document.error(at, "TOML", format!("something else: {found}"))
}

/// How long the load lasts by the file alone.
fn read_length(root: &Section<'_>, load: &Load) -> Result<Duration, InputError> {
    let field = root.optional("duration");
    let wanted = field.as_ref().map(Field::duration_above_zero).transpose()?;
    check::file_length(root, field.as_ref(), wanted, load)
}

fn read_warmup(root: &Section<'_>, length: Duration) -> Result<Duration, InputError> {
    let Some(field) = root.optional("warmup") else { return Ok(Duration::ZERO) };
    let warmup = field.duration()?;
    if warmup < length {
        return Ok(warmup);
    }
    Err(field.error(format!("a warm-up shorter than the load, which lasts {}", written(length))))
}

fn required_section<'a>(root: &Section<'a>, key: &'static str) -> Result<Section<'a>, InputError> {
    root.required(key, &format!("a table, headed [{key}]"))?.section()
}

fn read_name(field: &Field<'_>) -> Result<String, InputError> {
    let name = field.text()?;
    let part = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphanumeric())
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    if name.len() <= NAME_MAX && name.split('/').all(part) {
        return Ok(name.to_owned());
    }
    Err(field.error("a name of letters, digits, - and _, in folders separated by /, such as \"cnf/step\""))
}

fn read_source(section: Section<'_>) -> Result<Source, InputError> {
    let document = section.required("document", "the name of the source document")?.text()?.to_owned();
    let published = text(&section, "published")?;
    section.finish()?;
    Ok(Source { document, published })
}

fn text(section: &Section<'_>, key: &'static str) -> Result<Option<String>, InputError> {
    section.optional(key).map(|field| field.text().map(str::to_owned)).transpose()
}

fn duration_or(section: &Section<'_>, key: &'static str, default: Duration) -> Result<Duration, InputError> {
    section.optional(key).map_or(Ok(default), |field| field.duration())
}
