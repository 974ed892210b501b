//! Comma-separated lists, `;name=value` parameters and quoted strings (RFC 3261 sections 7.3.1 and 25.1).

use crate::chars::{is_token, trim};

use super::Malformed;

/// The elements of a comma-separated list, trimmed, empty ones left out. Commas inside quoted strings and angle
/// brackets do not separate.
pub fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    Split { rest: value, separator: b',' }.map(trim).filter(|e| !e.is_empty())
}

/// Cuts at a separator byte that stands outside quotes and angle brackets.
#[derive(Clone)]
struct Split<'a> {
    rest: &'a [u8],
    separator: u8,
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = find_outside(self.rest, self.separator).unwrap_or(self.rest.len());
        let piece = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or(b"");
        Some(piece)
    }
}

/// Where `wanted` stands first outside quoted strings and angle brackets.
pub(crate) fn find_outside(s: &[u8], wanted: u8) -> Option<usize> {
    let (mut quoted, mut bracketed, mut i) = (false, false, 0);
    while i < s.len() {
        let b = s[i];
        if quoted {
            match b {
                b'\\' => i += 1,
                b'"' => quoted = false,
                _ => {}
            }
        } else if b == wanted && !bracketed {
            return Some(i);
        } else {
            match b {
                b'"' => quoted = !bracketed,
                b'<' => bracketed = true,
                b'>' => bracketed = false,
                _ => {}
            }
        }
        i += 1;
    }
    None
}

/// One `name` or `name=value` parameter. A quoted value keeps its quotes: see [`quoted_text`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// The name, as written; compared without case.
    pub name: &'a [u8],
    /// The value; `None` without `=`.
    pub value: Option<&'a [u8]>,
}

/// The parameters behind a value: `;a=b;c`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub &'a [u8]);

impl<'a> Params<'a> {
    /// Each parameter in order.
    pub fn iter(self) -> impl Iterator<Item = Param<'a>> + Clone {
        Split { rest: self.0, separator: b';' }.map(trim).filter(|p| !p.is_empty()).map(|text| {
            match find_outside(text, b'=') {
                Some(i) => Param { name: trim(&text[..i]), value: Some(trim(&text[i + 1..])) },
                None => Param { name: text, value: None },
            }
        })
    }

    /// The first parameter of that name, compared without case.
    pub fn get(self, name: &str) -> Option<Param<'a>> {
        self.iter().find(|p| p.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The value of the first parameter of that name; `None` when it is absent or has none.
    pub fn value(self, name: &str) -> Option<&'a [u8]> {
        self.get(name).and_then(|p| p.value)
    }

    /// Whether names are tokens and values tokens, hosts or quoted strings.
    ///
    /// # Errors
    /// [`Malformed`] otherwise.
    pub fn check(self) -> Result<(), Malformed> {
        let good_value = |v: &[u8]| match v {
            [] => false,
            [b'"', ..] => quoted_text(v).is_some(),
            v => v.iter().all(|&b| b > b' ' && b != 0x7f && !matches!(b, b'"' | b'<' | b'>' | b',' | b';')),
        };
        let ok = self.iter().all(|p| is_token(p.name) && p.value.is_none_or(good_value));
        if ok { Ok(()) } else { Err(Malformed) }
    }
}

/// What stands between the quotes of a quoted string (escapes left as they are); `None` when it is not one whole
/// quoted string.
pub fn quoted_text(s: &[u8]) -> Option<&[u8]> {
    let inner = s.strip_prefix(b"\"")?;
    let mut i = 0;
    while i < inner.len() {
        match inner[i] {
            b'\\' => i += 2,
            b'"' => return (i + 1 == inner.len()).then(|| &inner[..i]),
            _ => i += 1,
        }
    }
    None
}
