//! Takes keys one by one from all sources, and finds what is wrong in any of them.
//!
//! A key is known once it was taken; what is left over in a source at the end is a mistake. All sources are checked, also
//! where a stronger one wins, so that a wrong value does not hide behind a flag.

use std::fmt;

use toml::de::{DeTable, DeValue};

use super::kinds::{Kind, found};
use super::sources::{Given, PREFIX, SourceFile};
use busyhour_lab::input::{InputError, nearest, position, quoted};

use crate::mistake::Bad;

/// Where the value of a key comes from, the strongest source last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody gave it.
    Default,
    /// The file, at this byte.
    File { name: String, line: usize, offset: usize },
    /// The environment variable of this name.
    Variable(String),
    /// This flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { name, line, .. } => write!(f, "{name}:{line}"),
            Origin::Variable(name) | Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// One key of the effective configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: &'static str,
    /// The value in TOML; empty for a key that has no value.
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// The sources while they are being read.
pub(super) struct Reader<'a> {
    file: Option<(&'a SourceFile, DeTable<'a>)>,
    variables: &'a [(String, String)],
    flags: &'a [Given],
    entries: Vec<Entry>,
    /// Each with its place in the order of reporting: file, variables, flags, and within the file from the top.
    mistakes: Vec<((u8, usize), InputError)>,
}

impl<'a> Reader<'a> {
    /// Fails at once when the file is not TOML, because then nothing can be said about its keys.
    pub(super) fn new(
        file: Option<&'a SourceFile>,
        variables: &'a [(String, String)],
        flags: &'a [Given],
    ) -> Result<Self, InputError> {
        let file = match file {
            None => None,
            Some(file) => Some((file, parse(file)?)),
        };
        Ok(Reader { file, variables, flags, entries: Vec::new(), mistakes: Vec::new() })
    }

    /// The value of `key` from the strongest source that has it.
    pub(super) fn take<K: Kind>(&mut self, key: &'static str, kind: &K, default: K::Value) -> K::Value {
        let mut best = (default, Origin::Default);
        for (origin, outcome) in self.readings(key, kind) {
            match outcome {
                Ok(value) => best = (value, origin),
                Err(bad) => self.refuse(key, &origin, bad),
            }
        }
        self.entries.push(Entry { key, value: kind.shown(&best.0), origin: best.1 });
        best.0
    }

    /// What every source has for `key`, the strongest last.
    fn readings<K: Kind>(&self, key: &str, kind: &K) -> Vec<(Origin, Result<K::Value, Bad>)> {
        let mut readings = Vec::new();
        if let Some((file, table)) = &self.file
            && let Some((value, offset)) = lookup(table, key)
        {
            let line = position(&file.text, offset).0;
            readings.push((Origin::File { name: file.name.clone(), line, offset }, kind.of_toml(value)));
        }
        let variable = variable_of(key);
        for (name, text) in self.variables.iter().filter(|(name, _)| *name == variable) {
            readings.push((Origin::Variable(name.clone()), kind.of_text(text)));
        }
        for given in self.flags.iter().filter(|given| given.key == key) {
            readings.push((Origin::Flag(given.flag.clone()), kind.of_text(&given.text)));
        }
        readings
    }

    /// Notes that the values of two keys do not go together; the blame is on `key`. With another mistake noted, one of the
    /// values may be a default in place of what the user meant, and the contradiction none.
    pub(super) fn contradiction(&mut self, key: &'static str, expected: String, found: String) {
        if !self.mistakes.is_empty() {
            return;
        }
        let origin = self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.origin.clone());
        self.refuse(key, &origin.unwrap_or(Origin::Default), Bad::new(expected, found));
    }

    fn refuse(&mut self, key: &str, origin: &Origin, bad: Bad) {
        let (rank, mistake) = match (origin, &self.file) {
            (Origin::File { offset, .. }, Some((file, _))) => {
                let offset = bad.span.as_ref().map_or(*offset, |span| span.start);
                let mistake = InputError::new(&file.name, bad.expected, bad.found)
                    .at_offset(&file.text, offset)
                    .key(key);
                ((0, offset), mistake)
            }
            (Origin::Variable(name), _) => ((1, 0), InputError::new(name, bad.expected, bad.found)),
            (Origin::Flag(name), _) => ((2, 0), InputError::new(name, bad.expected, bad.found)),
            (Origin::Default | Origin::File { .. }, _) => {
                ((3, 0), InputError::new(key, bad.expected, bad.found))
            }
        };
        self.mistakes.push((rank, mistake.hint_if(bad.hint)));
    }

    /// The effective configuration, or the first mistake: from the top of the file, then in the variables, then in the flags.
    pub(super) fn finish(mut self) -> Result<Vec<Entry>, InputError> {
        self.find_unknown();
        match self.mistakes.into_iter().min_by_key(|(rank, _)| *rank) {
            Some((_, mistake)) => Err(mistake),
            None => Ok(self.entries),
        }
    }

    fn find_unknown(&mut self) {
        let known: Vec<&'static str> = self.entries.iter().map(|entry| entry.key).collect();
        if let Some((file, table)) = &self.file {
            self.mistakes.extend(unknown_in_file(file, table, &known));
        }
        let variables: Vec<String> = known.iter().map(|key| variable_of(key)).collect();
        for (name, _) in self.variables.iter().filter(|(name, _)| !variables.contains(name)) {
            // Compared without the prefix, which would make all names look alike.
            let wrong = name.trim_start_matches(PREFIX);
            let near = nearest(wrong, variables.iter().map(|known| known.trim_start_matches(PREFIX)));
            let hint = near.map_or_else(
                || "`busyhour config check` lists all keys".into(),
                |near| format!("did you mean {PREFIX}{near}?"),
            );
            let expected = format!("{PREFIX} and the name of a key");
            let mistake = InputError::new(name, expected, "a name that no key has");
            self.mistakes.push(((1, 1), mistake.hint(hint)));
        }
        for given in self.flags.iter().filter(|given| !known.contains(&given.key.as_str())) {
            let mistake =
                InputError::new(&given.flag, "a key", quoted(&given.key)).hint(advice(&given.key, &known));
            self.mistakes.push(((2, 1), mistake));
        }
    }
}

/// The table of the file, or its first mistake from the top.
fn parse(file: &SourceFile) -> Result<DeTable<'_>, InputError> {
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    let offset = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    match errors.into_iter().min_by_key(offset) {
        None => Ok(table.into_inner()),
        Some(error) => {
            let found = format!("a mistake: {}", error.message().replace('\n', ", "));
            // What TOML makes of an address or a duration without quotes is a broken number.
            let is_number =
                ["integer", "float", "mantissa"].iter().any(|kind| error.message().contains(kind));
            let hint = is_number.then(|| "addresses, durations and sizes stand in quotes".to_owned());
            Err(InputError::new(&file.name, "valid TOML", found)
                .at_offset(&file.text, offset(&error))
                .hint_if(hint))
        }
    }
}

/// The variable of a key: `proxy.timer_c` is `BUSYHOUR_PROXY_TIMER_C`.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The value of `key` and the byte where it starts.
fn lookup<'t>(table: &'t DeTable<'_>, key: &str) -> Option<(&'t DeValue<'t>, usize)> {
    let value = match key.split_once('.') {
        None => table.get(key)?,
        Some((outer, inner)) => table.get(outer)?.get_ref().as_table()?.get(inner)?,
    };
    Some((value.get_ref(), value.span().start))
}

/// The keys of the file that nobody takes, each with its place in the order of reporting.
fn unknown_in_file(file: &SourceFile, table: &DeTable<'_>, known: &[&str]) -> Vec<((u8, usize), InputError)> {
    let mut mistakes = Vec::new();
    let mut note = |key: &str, offset: usize, expected: &str, found: String, hint: Option<String>| {
        let mistake =
            InputError::new(&file.name, expected, found).at_offset(&file.text, offset).key(key).hint_if(hint);
        mistakes.push(((0, offset), mistake));
    };
    for (name, value) in table {
        let (key, offset) = (name.get_ref().as_ref(), name.span().start);
        let inner =
            known.iter().filter(|known| known.split('.').next() == Some(key) && known.contains('.')).count();
        match value.get_ref().as_table() {
            Some(fields) if inner > 0 => {
                for field in fields.keys() {
                    let full = format!("{key}.{}", field.get_ref());
                    if !known.contains(&full.as_str()) {
                        let hint = Some(advice(&full, known));
                        note(&full, field.span().start, "a known key", quoted(field.get_ref()), hint);
                    }
                }
            }
            None if inner > 0 && !known.contains(&key) => {
                note(key, value.span().start, &format!("a table, [{key}]"), found(value.get_ref()), None);
            }
            Some(_) | None if known.contains(&key) => {}
            Some(_) => {
                let tables = || known.iter().filter_map(|key| Some(key.split_once('.')?.0));
                let near = nearest(key, tables()).map(|near| format!("did you mean [{near}]?"));
                let hint = near.unwrap_or_else(|| advice(key, known));
                note(key, offset, "a known table", quoted(key), Some(hint));
            }
            None => note(key, offset, "a known key", quoted(key), Some(advice(key, known))),
        }
    }
    mistakes
}

/// What the user may have meant by the unknown key `wrong`.
fn advice(wrong: &str, known: &[&str]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let elsewhere = known.iter().find(|key| last(key) == last(wrong));
    let near = nearest(wrong, known.iter().copied()).or(elsewhere.copied());
    let near = near
        .or_else(|| known.iter().find(|key| nearest(&last(wrong), [last(key).as_str()]).is_some()).copied());
    if let Some(near) = near {
        return format!("did you mean {near}?");
    }
    let table = wrong
        .split_once('.')
        .map(|(table, _)| table)
        .filter(|table| known.iter().any(|key| key.split_once('.').is_some_and(|(of, _)| of == *table)));
    let in_table = |key: &&str| key.split_once('.').map(|(of, _)| of) == table;
    let names: Vec<_> = known.iter().copied().filter(in_table).collect();
    format!("the keys are {}", names.join(", "))
}
