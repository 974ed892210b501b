//! The one shape of every error in what a person writes: `PLACE: KEY: expected …, found …; what to do`.

use std::fmt;

/// What is wrong in a file, a flag or an environment variable. It is shown as one line:
/// `FILE:LINE:COLUMN: KEY: expected …, found …; what to do`. The command line exits with status 2 on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(Box<Detail>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Detail {
    file: String,
    position: Option<(usize, usize)>,
    key: Option<String>,
    expected: String,
    found: String,
    hint: Option<String>,
}

impl InputError {
    /// `file` (or a flag, or a variable) was expected to hold `expected`, but `found` is there.
    pub fn new(file: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> InputError {
        InputError(Box::new(Detail {
            file: file.into(),
            position: None,
            key: None,
            expected: expected.into(),
            found: found.into(),
            hint: None,
        }))
    }

    /// Where: line and column, both from 1, the column in characters.
    #[must_use]
    pub fn at(mut self, line: usize, column: usize) -> Self {
        self.0.position = Some((line, column));
        self
    }

    /// Where, by a byte offset into the text of the file.
    #[must_use]
    pub fn at_offset(self, text: &str, offset: usize) -> Self {
        let (line, column) = position(text, offset);
        self.at(line, column)
    }

    /// Which key, or which column of a table, by its name.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same, when there is something to be said.
    #[must_use]
    pub fn hint_if(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// The file that it is about.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Line and column, both from 1; `None` when it is about the file as a whole or about an override.
    pub fn position(&self) -> Option<(usize, usize)> {
        self.0.position
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { file, position, key, expected, found, hint } = &*self.0;
        f.write_str(file)?;
        if let Some((line, column)) = position {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(key) = key {
            write!(f, ": {key}")?;
        }
        write!(f, ": expected {expected}, found {found}")?;
        if let Some(hint) = hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

/// Line and column of a byte offset, both from 1, the column in characters. An offset inside a character or beyond the
/// end stands for the nearest place before it.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for (_, letter) in text.char_indices().take_while(|(start, letter)| start + letter.len_utf8() <= offset) {
        (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    (line, column)
}

/// `text` in double quotes, with control characters escaped and cut to a length that fits into a message.
pub fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// `a, b, c`.
pub(crate) fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut out = String::new();
    for name in names {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(name.as_ref());
    }
    out
}

/// The name that `wrong` was most likely meant to be: the nearest by edits, when at most a third of it is wrong.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = wrong.chars().count();
    // What a person typed may be of any length; a text that is far longer than all names is near none of them.
    if length > 100 {
        return None;
    }
    names
        .into_iter()
        .map(|name| (edits(wrong, name), name))
        .filter(|&(distance, name)| distance <= 1.max(length.max(name.chars().count()) / 3))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// How many letters have to be put in, taken out or replaced to turn `a` into `b` (Levenshtein distance).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_one_line_with_everything_in_it() {
        let error = InputError::new("a.toml", "a rate such as \"12/s\"", "the integer 12")
            .at(3, 8)
            .key("load.rate")
            .hint("rates carry a unit");
        let text = "a.toml:3:8: load.rate: expected a rate such as \"12/s\", found the integer 12; rates carry a unit";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn what_is_quoted_stays_short_and_on_one_line() {
        let shown = quoted(&format!("a\nb{}", "x".repeat(500)));
        assert!(shown.starts_with("\"a\\nb") && shown.ends_with("…\"") && shown.chars().count() < 70);
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        assert_eq!(nearest("srd.p9", ["rrd.p99", "srd.p99", "goodput"]), Some("srd.p99"));
        assert_eq!(nearest("bananas", ["rrd.p99", "srd.p99", "goodput"]), None);
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("abc", "")), (3, 3, 3));
    }

    #[test]
    fn positions_are_in_lines_and_characters() {
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("a\r\nbü c", 6), (2, 3));
        assert_eq!(position("a\nb", 99), (2, 2));
        assert_eq!(position("ü", 1), (1, 1));
    }
}
