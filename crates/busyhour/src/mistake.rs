//! The one shape of every error in what a person writes: `PLACE: KEY: expected …, found …; what to do`.

use std::fmt;
use std::ops::Range;

/// What is wrong in a file, a flag or an environment variable. Shown as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    place: String,
    key: Option<String>,
    expected: String,
    found: String,
    hint: Option<String>,
}

impl Mistake {
    /// At `place` (a file, a flag, a variable) there should be `expected`, but `found` is there.
    pub(crate) fn new(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Mistake { place: place.into(), key: None, expected: expected.into(), found: found.into(), hint: None }
    }

    /// Where in the text of the file: the place becomes `FILE:LINE:COLUMN`.
    pub(crate) fn at(mut self, text: &str, offset: usize) -> Self {
        let (line, column) = position(text, offset);
        self.place = format!("{}:{line}:{column}", self.place);
        self
    }

    /// Which key, by its full name.
    pub(crate) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { place, key, expected, found, hint } = self;
        f.write_str(place)?;
        if let Some(key) = key {
            write!(f, ": {key}")?;
        }
        write!(f, ": expected {expected}, found {found}")?;
        match hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Mistake {}

/// Line and column of a byte offset, both from 1, the column in characters. An offset inside a character or beyond the
/// end stands for the nearest place before it.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for (_, letter) in text.char_indices().take_while(|(start, letter)| start + letter.len_utf8() <= offset) {
        (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    (line, column)
}

/// A value that is not what was expected, before anyone knows where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) expected: String,
    pub(crate) found: String,
    pub(crate) hint: Option<String>,
    /// The part of the file that is wrong, when it is smaller than the value: an element of a list.
    pub(crate) span: Option<Range<usize>>,
}

impl Bad {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Bad { expected: expected.into(), found: found.into(), hint: None, span: None }
    }
}

impl From<busyhour_control::subscribers::BadInput> for Bad {
    fn from(input: busyhour_control::subscribers::BadInput) -> Self {
        Bad::new(input.expected, input.found)
    }
}

/// `text` in backquotes, on one line, and cut to a length that fits into a message.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 64;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// The name that `wrong` was most likely meant to be: the nearest by edits, when at most a third of it is wrong.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = wrong.chars().count();
    // What a person typed may be of any length; a name that is far longer than all names is near none of them.
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
    fn everything_is_on_one_line() {
        let mistake = Mistake::new("a.toml", "a number", "`x`")
            .at("b = 1\nä = x", "b = 1\nä = ".len())
            .key("ä")
            .hint(Some("write 1".into()));
        assert_eq!(mistake.to_string(), "a.toml:2:5: ä: expected a number, found `x`; write 1");
        assert_eq!(Mistake::new("--x", "a", "b").to_string(), "--x: expected a, found b");
    }

    #[test]
    fn positions_are_in_lines_and_characters() {
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("a\r\nbü c", 6), (2, 3));
        assert_eq!(position("a\nb", 99), (2, 2));
        assert_eq!(position("ü", 1), (1, 1));
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let names = ["listen", "domain", "max_breadth"];
        assert_eq!(nearest("listem", names), Some("listen"));
        assert_eq!(nearest("maxbreath", names), Some("max_breadth"));
        assert_eq!(nearest("bananas", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("abc", "")), (3, 3, 3));
    }

    #[test]
    fn what_is_quoted_stays_short_and_on_one_line() {
        let shown = quoted(&format!("a\nb{}", "x".repeat(500)));
        assert!(
            shown.starts_with("`a\\nb") && shown.ends_with("…`") && shown.chars().count() < 70,
            "{shown}"
        );
    }
}
