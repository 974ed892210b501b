//! From, To, Contact, Route, Record-Route, Path: a name-addr or addr-spec with parameters (RFC 3261 section 25.1).

use memchr::{memchr, memchr2};

use crate::chars::{is_lws, is_token, trim};

use super::list::find_outside;
use super::{Malformed, Params, Uri, quoted_text};

/// One address with what stands around it.
#[derive(Copy, Clone, Debug)]
pub struct NameAddr<'a> {
    /// The display name, quotes and escapes left as they are; empty when there is none.
    pub display: &'a [u8],
    /// The URI, unparsed.
    pub uri: &'a [u8],
    /// The header parameters (behind the angle brackets).
    pub params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Parses one element: `"Name" <uri>;params`, `<uri>;params` or `uri;params`. In the last form, what follows the
    /// first semicolon belongs to the header (section 20).
    ///
    /// # Errors
    /// [`Malformed`] when brackets or quotes do not match, a display name is neither tokens nor a quoted string, a URI
    /// without brackets has a comma or question mark, or parameters are malformed or name the tag twice.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        let text = trim(text);
        let (display, uri, rest) = match angle(text) {
            Some(open) => {
                let close = open + memchr(b'>', &text[open..]).ok_or(Malformed)?;
                (trim(&text[..open]), &text[open + 1..close], trim(&text[close + 1..]))
            }
            None => {
                let end = memchr(b';', text).unwrap_or(text.len());
                let uri = trim(&text[..end]);
                // A URI with one of these must stand in brackets, or nobody knows whose they are (section 20).
                if memchr2(b'?', b',', uri).is_some() {
                    return Err(Malformed);
                }
                (b"".as_slice(), uri, &text[end..])
            }
        };
        let display_ok = match display {
            [] => true,
            [b'"', ..] => quoted_text(display).is_some(),
            words => words.split(|&b| is_lws(b)).all(|w| w.is_empty() || is_token(w)),
        };
        let params = match rest {
            [] => Params(b""),
            [b';', params @ ..] if !params.is_empty() => Params(params),
            _ => return Err(Malformed),
        };
        if !display_ok || uri.is_empty() || uri.iter().any(|&b| is_lws(b) || b == b'"') {
            return Err(Malformed);
        }
        params.check_unique(&["tag"])?;
        Ok(NameAddr { display, uri, params })
    }

    /// The URI in its parts.
    ///
    /// # Errors
    /// [`Malformed`] when it is not a URI.
    pub fn parse_uri(&self) -> Result<Uri<'a>, Malformed> {
        Uri::parse(self.uri)
    }

    /// The `tag` parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.value("tag").filter(|t| !t.is_empty())
    }
}

/// The opening bracket that stands outside a quoted string.
fn angle(text: &[u8]) -> Option<usize> {
    find_outside(text, b'<')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        let a = NameAddr::parse(b"\"A, \\\"<B>\" <sip:a@h;lr>;tag=1;x=\"y;z\"").unwrap();
        assert_eq!((a.uri, a.tag()), (b"sip:a@h;lr".as_slice(), Some(b"1".as_slice())));
        assert_eq!(a.params.value("x"), Some(b"\"y;z\"".as_slice()));
        let b = NameAddr::parse(b"sip:a@h;tag=2").unwrap();
        assert_eq!((b.uri, b.tag()), (b"sip:a@h".as_slice(), Some(b"2".as_slice())));
        let c = NameAddr::parse(b"The Name\r\n <sip:a@h>").unwrap();
        let d = NameAddr::parse(b"\"\\\\\"<sip:a,b@h?x=y>\r\n ;\ttag\r\n\t=\r\n 3 ").unwrap();
        assert_eq!(
            (d.display, d.uri, d.tag()),
            (b"\"\\\\\"".as_slice(), b"sip:a,b@h?x=y".as_slice(), Some(b"3".as_slice()))
        );
        let e = NameAddr::parse(b"tel:+358-555-1234567;tag=4").unwrap();
        assert!(matches!(e.parse_uri(), Ok(Uri::Other { scheme: b"tel", rest: b"+358-555-1234567" })));
        assert_eq!((c.display, c.uri, c.tag()), (b"The Name".as_slice(), b"sip:a@h".as_slice(), None));
    }

    #[test]
    fn what_does_not_match_is_refused() {
        for text in [
            "\"A <sip:a@h>",
            "<sip:a@h",
            "A, B <sip:a@h>",
            "<sip:a@h> x",
            "",
            "<>",
            "<sip:a b@h>",
            "<sip:a@h>;=x",
            "<sip:a@h>;",
            "<sip:a@h>;;tag=1",
            "<sip:a@h>;tag=1;TAG=2",
            "< sip:a@h >",
            "sip:a@h?x=y",
            "sip:a,b@h",
            "\"A\" B <sip:a@h>",
            "\"A\\\" <sip:a@h>",
        ] {
            assert!(NameAddr::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
