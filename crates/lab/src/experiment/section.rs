//! Reading TOML with the place of everything: a [`Section`] is a table, a [`Field`] is one of its values. Every error
//! names file, line, column and key. Keys that nobody asked for are refused when a section is finished.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::units;
use crate::input::{InputError, list, nearest, quoted};

/// The text of a file and its name.
#[derive(Copy, Clone)]
pub(super) struct Document<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Document<'_> {
    /// Line and column of a byte, both from 1.
    fn position(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// An error at a byte of the file.
    pub(super) fn error(
        &self,
        byte: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> InputError {
        let (line, column) = self.position(byte);
        InputError::new(self.file, expected, found).at(line, column)
    }
}

/// One table.
pub(super) struct Section<'a> {
    document: Document<'a>,
    /// Its name with a dot behind it; empty for the whole file.
    prefix: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
}

/// One value.
pub(super) struct Field<'a> {
    document: Document<'a>,
    pub(super) key: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        document: Document<'a>,
        prefix: String,
        table: &'a DeTable<'a>,
        span: Range<usize>,
    ) -> Self {
        Section { document, prefix, span, table, asked: RefCell::default() }
    }

    pub(super) fn file(&self) -> &'a str {
        self.document.file
    }

    pub(super) fn optional(&self, key: &'static str) -> Option<Field<'a>> {
        self.asked.borrow_mut().push(key);
        let value = self.table.get(key)?;
        Some(Field { document: self.document, key: format!("{}{key}", self.prefix), value })
    }

    /// The value of `key`; `expected` describes it when it is missing.
    pub(super) fn required(&self, key: &'static str, expected: &str) -> Result<Field<'a>, InputError> {
        if let Some(field) = self.optional(key) {
            return Ok(field);
        }
        // A key that is almost this one is the likelier mistake.
        let unknown = self.table.keys().find(|k| {
            let name: &str = k.get_ref();
            !self.asked.borrow().contains(&name) && nearest(name, [key]).is_some()
        });
        if let Some(unknown) = unknown {
            return Err(self.unknown(unknown.span().start, unknown.get_ref()));
        }
        Err(self.document.error(self.span.start, expected, "nothing").key(format!("{}{key}", self.prefix)))
    }

    /// A table within this one.
    pub(super) fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, InputError> {
        self.optional(key).map(|field| field.section()).transpose()
    }

    /// An array of tables within this one; none when the key is missing.
    pub(super) fn sections(&self, key: &'static str) -> Result<Vec<Section<'a>>, InputError> {
        let Some(field) = self.optional(key) else { return Ok(Vec::new()) };
        let DeValue::Array(array) = field.value.get_ref() else {
            return Err(field.error(format!("tables, each headed [[{}]]", field.key)));
        };
        let tables = array.iter().enumerate().map(|(i, value)| {
            Field { document: self.document, key: format!("{}[{i}]", field.key), value }.section()
        });
        tables.collect()
    }

    /// All keys and values, in the order of the file. For tables whose keys a person chooses.
    pub(super) fn entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let field = |(key, value): (&'a Spanned<toml::de::DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
            let name: &'a str = key.get_ref();
            (name, Field { document: self.document, key: format!("{}{name}", self.prefix), value })
        };
        entries.into_iter().map(field).collect()
    }

    /// Refuses keys that nobody asked for.
    pub(super) fn finish(self) -> Result<(), InputError> {
        let asked = self.asked.borrow();
        let is_unknown = |key: &&Spanned<toml::de::DeString<'_>>| {
            let name: &str = key.get_ref();
            !asked.contains(&name)
        };
        let unknown = self.table.keys().filter(is_unknown).min_by_key(|key| key.span().start);
        match unknown {
            Some(key) => Err(self.unknown(key.span().start, key.get_ref())),
            None => Ok(()),
        }
    }

    fn unknown(&self, byte: usize, name: &str) -> InputError {
        let asked = self.asked.borrow();
        let expected = format!("one of the keys {}", list(asked.iter()));
        let error =
            self.document.error(byte, expected, "an unknown key").key(format!("{}{name}", self.prefix));
        match nearest(name, asked.iter().copied()) {
            Some(meant) => error.hint(format!("did you mean {meant}?")),
            None => error,
        }
    }
}

impl<'a> Field<'a> {
    /// An error about this value: what it should have been.
    pub(super) fn error(&self, expected: impl Into<String>) -> InputError {
        let found = match self.value.get_ref() {
            DeValue::String(text) => quoted(text),
            DeValue::Integer(n) => format!("the integer {}", n.as_str()),
            DeValue::Float(n) => format!("the number {}", n.as_str()),
            DeValue::Boolean(b) => b.to_string(),
            DeValue::Datetime(d) => format!("the date or time {d}"),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.document.error(self.value.span().start, expected, found).key(&self.key)
    }

    /// An error at one character of this text.
    pub(super) fn error_within(&self, offset: usize, expected: String, found: String) -> InputError {
        let span = self.value.span();
        let raw = self.document.text.get(span.clone()).unwrap_or("");
        // Only where the text stands in the file letter by letter is its character's place known.
        let plain = self.value.get_ref().as_str().is_some_and(|text| raw.len() == text.len() + 2);
        let skipped: usize = raw.chars().take(offset + 1).map(char::len_utf8).sum();
        let byte = if plain { span.start + skipped } else { span.start };
        self.document.error(byte, expected, found).key(&self.key)
    }

    pub(super) fn section(&self) -> Result<Section<'a>, InputError> {
        match self.value.get_ref() {
            DeValue::Table(table) => {
                Ok(Section::new(self.document, format!("{}.", self.key), table, self.value.span()))
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Err(self.error(format!("a table, headed [{}]", self.key))),
        }
    }

    /// Text that is not empty.
    pub(super) fn text(&self) -> Result<&'a str, InputError> {
        let text: &'a str = self.value.get_ref().as_str().ok_or_else(|| self.error("text in quotes"))?;
        if text.trim().is_empty() { Err(self.error("text that is not empty")) } else { Ok(text) }
    }

    /// One of the names, and what it stands for.
    pub(super) fn one_of<T: Copy>(&self, names: &[(&'static str, T)]) -> Result<T, InputError> {
        let known = || names.iter().map(|(name, _)| *name);
        let found = self.value.get_ref().as_str();
        if let Some((_, value)) = names.iter().find(|(name, _)| found == Some(name)) {
            return Ok(*value);
        }
        let error = self.error(match names {
            [(only, _)] => quoted(only),
            _ => format!("one of {}", list(known().map(quoted))),
        });
        Err(match found.and_then(|text| nearest(text, known())) {
            Some(meant) => error.hint(format!("did you mean {}?", quoted(meant))),
            None => error,
        })
    }

    pub(super) fn duration(&self) -> Result<Duration, InputError> {
        let found = self.value.get_ref().as_str().and_then(units::duration);
        found.ok_or_else(|| {
            self.error("a duration with its unit, such as \"500ms\", \"30s\", \"5m\" or \"1h30m\"")
        })
    }

    /// A duration longer than zero.
    pub(super) fn duration_above_zero(&self) -> Result<Duration, InputError> {
        let duration = self.duration()?;
        if duration.is_zero() { Err(self.error("a duration above zero")) } else { Ok(duration) }
    }

    pub(super) fn rate(&self) -> Result<f64, InputError> {
        let found = self.value.get_ref().as_str().and_then(units::rate);
        found.ok_or_else(|| self.error("a rate with its unit, such as \"12/s\", \"720/min\" or \"36000/h\""))
    }

    /// A rate that may be negative.
    pub(super) fn signed_rate(&self) -> Result<f64, InputError> {
        let text = self.value.get_ref().as_str();
        let found = match text.and_then(|text| text.strip_prefix('-')) {
            Some(positive) => units::rate(positive).map(|rate| -rate),
            None => text.and_then(units::rate),
        };
        found.ok_or_else(|| self.error("a rate with its unit, such as \"6/s\" or \"-6/s\""))
    }

    /// A rate above zero and up to `max`.
    pub(super) fn rate_in(&self, max: f64) -> Result<f64, InputError> {
        let rate = self.rate()?;
        if rate > 0.0 && rate <= max {
            Ok(rate)
        } else {
            Err(self.error(format!("a rate above 0/s and up to {max}/s")))
        }
    }

    /// A probability, 0 to 1, as a number or in per cent.
    pub(super) fn probability(&self) -> Result<f64, InputError> {
        let found = self.number().or_else(|| self.value.get_ref().as_str().and_then(units::ratio));
        let found = found.filter(|p| (0.0..=1.0).contains(p));
        found.ok_or_else(|| self.error("a probability, such as 0.01 or \"1%\""))
    }

    /// A factor from `min` to `max`.
    pub(super) fn factor(&self, min: f64, max: f64) -> Result<f64, InputError> {
        let found = self.number().filter(|n| (min..=max).contains(n));
        found.ok_or_else(|| self.error(format!("a number from {min} to {max}")))
    }

    pub(super) fn cpu_milli(&self) -> Result<u32, InputError> {
        let found = match self.value.get_ref() {
            DeValue::String(text) => units::cpu_milli(text),
            DeValue::Integer(n) => units::cpu_milli(n.as_str()),
            DeValue::Float(n) => units::cpu_milli(n.as_str()),
            DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
        };
        found.ok_or_else(|| self.error("CPU above zero, such as \"30m\" (thousandths of a CPU) or 2"))
    }

    /// A size in bytes: a whole number with `B`, `KiB` or `MiB`.
    pub(super) fn bytes(&self) -> Result<u64, InputError> {
        let parse = |text: &str| {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let factor = match &text[digits..] {
                "B" => 1,
                "KiB" => 1024,
                "MiB" => 1024 * 1024,
                _ => return None,
            };
            text[..digits].parse::<u64>().ok()?.checked_mul(factor).filter(|n| *n > 0)
        };
        let found = self.value.get_ref().as_str().and_then(parse);
        found.ok_or_else(|| self.error("a size above zero, such as \"208KiB\""))
    }

    /// A whole number from `range`.
    pub(super) fn integer(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, InputError> {
        let found = match self.value.get_ref() {
            DeValue::Integer(n) if n.radix() == 10 => n.as_str().replace('_', "").parse::<u64>().ok(),
            DeValue::Integer(_)
            | DeValue::String(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => None,
        };
        let (min, max) = (*range.start(), *range.end());
        found
            .filter(|n| range.contains(n))
            .ok_or_else(|| self.error(format!("a whole number from {min} to {max}")))
    }

    fn number(&self) -> Option<f64> {
        let text = match self.value.get_ref() {
            DeValue::Integer(n) if n.radix() == 10 => n.as_str(),
            DeValue::Float(n) => n.as_str(),
            DeValue::Integer(_)
            | DeValue::String(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => return None,
        };
        text.replace('_', "").parse().ok().filter(|n: &f64| n.is_finite())
    }
}
