//! Comma-separated lists, `;name=value` parameters and quoted strings (RFC 3261 sections 7.3.1 and 25.1).

use memchr::{memchr, memchr2, memchr3};

use crate::chars::{is_token, is_value_byte, trim};

use super::Malformed;

/// The elements of a comma-separated list, trimmed, empty ones left out. Commas inside quoted strings and angle
/// brackets do not separate.
pub fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    Split::new(value, b',').map(trim).filter(|e| !e.is_empty())
}

/// Cuts at a separator byte that stands outside quotes and angle brackets.
#[derive(Clone)]
struct Split<'a> {
    rest: &'a [u8],
    separator: u8,
    /// Whether a separator followed the last piece.
    ended_by_separator: bool,
}

impl<'a> Split<'a> {
    fn new(rest: &'a [u8], separator: u8) -> Self {
        Split { rest, separator, ended_by_separator: false }
    }
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (piece, rest) = match find_outside(self.rest, self.separator) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.ended_by_separator = piece.len() < self.rest.len();
        self.rest = rest;
        Some(piece)
    }
}

/// Where `wanted` stands first outside quoted strings and angle brackets. What is not closed reaches to the end.
pub(crate) fn find_outside(s: &[u8], wanted: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr3(wanted, b'"', b'<', &s[at..])?;
        at = match s[found] {
            b if b == wanted => return Some(found),
            b'"' => closing_quote(s, found + 1)? + 1,
            _ => found + memchr(b'>', &s[found..])? + 1,
        };
    }
}

/// Where the quoted string ends whose text starts at `at`.
fn closing_quote(s: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', s.get(at..)?)?;
        if s[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// One `name` or `name=value` parameter. A quoted value keeps its quotes: see [`quoted_text`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// The name, as written; compared without case.
    pub name: &'a [u8],
    /// The value; `None` without `=`.
    pub value: Option<&'a [u8]>,
}

impl<'a> Param<'a> {
    fn of(text: &'a [u8]) -> Self {
        // A quoted value may hold '=', but a name cannot be quoted: the first one is the one that separates.
        match memchr(b'=', text) {
            Some(i) => Param { name: trim(&text[..i]), value: Some(trim(&text[i + 1..])) },
            None => Param { name: text, value: None },
        }
    }
}

/// The parameters behind a value: `;a=b;c`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub &'a [u8]);

impl<'a> Params<'a> {
    /// Each parameter in order.
    pub fn iter(self) -> impl Iterator<Item = Param<'a>> + Clone {
        Split::new(self.0, b';').map(trim).filter(|p| !p.is_empty()).map(Param::of)
    }

    /// The first parameter of that name, compared without case.
    pub fn get(self, name: &str) -> Option<Param<'a>> {
        self.iter().find(|p| p.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The value of the first parameter of that name; `None` when it is absent or has none.
    pub fn value(self, name: &str) -> Option<&'a [u8]> {
        self.get(name).and_then(|p| p.value)
    }

    /// Whether names are tokens and values tokens, hosts or quoted strings, and no parameter is empty.
    ///
    /// # Errors
    /// [`Malformed`] otherwise.
    pub fn check(self) -> Result<(), Malformed> {
        self.check_unique(&[])
    }

    /// The same, and none of `names` occurs twice (section 7.3.1): nobody may read another value than we do.
    pub(crate) fn check_unique(self, names: &[&str]) -> Result<(), Malformed> {
        let mut seen = 0u32;
        let mut split = Split::new(self.0, b';');
        while let Some(piece) = split.next() {
            let p = Param::of(trim(piece));
            let good_value = match p.value {
                None => true,
                Some([]) => false,
                Some(v @ [b'"', ..]) => quoted_text(v).is_some(),
                Some(v) => v.iter().all(|&b| is_value_byte(b)),
            };
            if !is_token(p.name) || !good_value || (split.ended_by_separator && split.rest.is_empty()) {
                return Err(Malformed);
            }
            if let Some(i) = names.iter().position(|n| p.name.eq_ignore_ascii_case(n.as_bytes())) {
                if seen >> i & 1 == 1 {
                    return Err(Malformed);
                }
                seen |= 1 << i;
            }
        }
        Ok(())
    }
}

/// What stands between the quotes of a quoted string (escapes left as they are); `None` when it is not one whole
/// quoted string.
pub fn quoted_text(s: &[u8]) -> Option<&[u8]> {
    let inner = s.strip_prefix(b"\"")?;
    let end = closing_quote(inner, 0)?;
    (end + 1 == inner.len()).then(|| &inner[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_quotes_and_brackets_do_not_separate() {
        for (text, elements) in [
            ("a, b,c", &["a", "b", "c"][..]),
            ("\"a,\\\",b\" <sip:c,d@e>;x=\"f,\", g", &["\"a,\\\",b\" <sip:c,d@e>;x=\"f,\"", "g"]),
            (",, a ,\r\n ,b,", &["a", "b"]),
            ("\"a, b", &["\"a, b"]),
            ("<a, b", &["<a, b"]),
            ("\"a\\", &["\"a\\"]),
            ("a>, b", &["a>", "b"]),
            (",", &[]),
            ("", &[]),
        ] {
            let found: Vec<&[u8]> = split_list(text.as_bytes()).collect();
            assert_eq!(found, elements.iter().map(|e| e.as_bytes()).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn white_space_may_stand_around_separators() {
        let params = Params(b" a = 1\r\n ;\tB;c\t=\r\n \"x;=\\\"\" ");
        assert_eq!(params.check(), Ok(()));
        assert_eq!(params.value("a"), Some(b"1".as_slice()));
        assert_eq!(params.get("b"), Some(Param { name: b"B", value: None }));
        assert_eq!(params.value("C"), Some(b"\"x;=\\\"\"".as_slice()));
        assert_eq!(params.get("d"), None);
    }

    #[test]
    fn what_are_no_parameters_is_refused() {
        for text in [
            ";",
            "a;",
            ";a",
            "a;;b",
            "a=",
            "=a",
            "a b",
            "a=\"x",
            "a=\"x\\\"",
            "a=\"x\"y",
            "a=<b>",
            "a=b c",
            "a=b,c",
        ] {
            assert_eq!(Params(text.as_bytes()).check(), Err(Malformed), "{text}");
        }
        assert_eq!(Params(b"Branch=1;branch=2").check_unique(&["branch"]), Err(Malformed));
        assert_eq!(Params(b"x=1;x=2").check_unique(&["branch"]), Ok(()));
    }

    #[test]
    fn quoted_text_is_one_whole_quoted_string() {
        for (text, inner) in [
            ("\"\"", Some("")),
            ("\"a\\\"b\"", Some("a\\\"b")),
            ("\"a\\\\\"", Some("a\\\\")),
            ("\"a\\\"", None),
            ("\"a\" ", None),
            ("\"a\"b\"", None),
            ("\"", None),
            ("a", None),
        ] {
            assert_eq!(quoted_text(text.as_bytes()), inner.map(str::as_bytes), "{text}");
        }
    }
}
