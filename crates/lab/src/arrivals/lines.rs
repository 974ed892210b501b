//! Lines and fields of a small table, with their place for error messages. Takes CRLF, a byte order mark and empty
//! lines at the end; refuses long lines and what is not UTF-8.

use std::io::{BufRead, Read as _};

use crate::input::{InputError, quoted};

/// The longest line, in bytes.
const LINE_MAX: usize = 4096;

/// The lines of one file.
pub(super) struct Lines<'a, R> {
    reader: R,
    file: &'a str,
    separator: char,
    number: usize,
}

/// One line, without its end.
pub(super) struct Line<'a> {
    pub(super) text: String,
    file: &'a str,
    separator: char,
    number: usize,
}

/// One field of a line.
#[derive(Copy, Clone)]
pub(super) struct Field<'l> {
    pub(super) text: &'l str,
    name: &'static str,
    file: &'l str,
    line: usize,
    column: usize,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(reader: R, file: &'a str, separator: char) -> Self {
        Lines { reader, file, separator, number: 0 }
    }

    /// The next line; `None` at the end. An empty line is an error unless only empty lines follow.
    pub(super) fn next(&mut self) -> Result<Option<Line<'a>>, InputError> {
        let Some(line) = self.read()? else { return Ok(None) };
        if !line.text.trim().is_empty() {
            return Ok(Some(line));
        }
        while let Some(later) = self.read()? {
            if !later.text.trim().is_empty() {
                return Err(line.error(
                    1,
                    "a row (or the end of the file)",
                    "an empty line with rows after it",
                ));
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<Line<'a>>, InputError> {
        let mut bytes = Vec::new();
        let limit = LINE_MAX as u64 + 2;
        (&mut self.reader)
            .take(limit)
            .read_until(b'\n', &mut bytes)
            .map_err(|e| InputError::new(self.file, "a readable file", e.to_string()))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let at = |expected: &str, found: &str| InputError::new(self.file, expected, found).at(self.number, 1);
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() > LINE_MAX {
            return Err(at(&format!("a line of at most {LINE_MAX} bytes"), "a longer one"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| at("text in UTF-8", "bytes that are not"))?;
        let text = if self.number == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        Ok(Some(Line {
            text: text.to_owned(),
            file: self.file,
            separator: self.separator,
            number: self.number,
        }))
    }
}

impl Line<'_> {
    /// An error about this line.
    pub(super) fn error(&self, column: usize, expected: &str, found: &str) -> InputError {
        InputError::new(self.file, expected, found).at(self.number, column)
    }

    /// Exactly the fields that are named.
    pub(super) fn fields<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<[Field<'_>; N], InputError> {
        let mut fields =
            names.map(|name| Field { text: "", name, file: self.file, line: self.number, column: 1 });
        let mut column = 1;
        let mut count = 0;
        for part in self.text.split(self.separator) {
            if let Some(field) = fields.get_mut(count) {
                (field.text, field.column) = (part.trim(), column + (part.len() - part.trim_start().len()));
            }
            column += part.chars().count() + 1;
            count += 1;
        }
        if count == N {
            return Ok(fields);
        }
        let separator = self.separator.to_string();
        let expected = format!("{N} fields ({})", names.join(&separator));
        Err(self.error(1, &expected, &format!("{count} in {}", quoted(&self.text))))
    }
}

impl Field<'_> {
    /// An error about this field.
    pub(super) fn error(&self, expected: &str) -> InputError {
        let found = if self.text.is_empty() { "nothing".to_owned() } else { quoted(self.text) };
        InputError::new(self.file, expected, found).at(self.line, self.column).key(self.name)
    }
}
