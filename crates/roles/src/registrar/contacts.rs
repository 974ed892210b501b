//! What the Contact and Expires headers of a REGISTER ask for (RFC 3261 sections 10.2.1, 10.3 and 20.10).

use arrayvec::ArrayVec;
use busyhour_sip::value::{NameAddr, Uri, delta_seconds};
use busyhour_sip::{HeaderName, Message};

use crate::location::ContactChange;

use super::CONTACTS_PER_REQUEST_MAX;

/// Stands for the expiration of a contact that says none. Who asks for that many seconds is taken to ask for one less.
pub(super) const UNSAID: u32 = u32::MAX;
/// What a malformed expiration is taken for (section 20.10).
const MALFORMED_EXPIRES_S: u32 = 3600;

/// A request that does not follow the rules: the reason phrase of the 400.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Bad(pub(super) &'static str);

/// What is asked, in outline.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Which bindings there are.
    Query,
    /// `*` with `Expires: 0`.
    RemoveAll,
    /// The contacts that were read; `expires_s` is what the Expires header says.
    Contacts { expires_s: Option<u32> },
}

/// Reads the contacts of a REGISTER in order. Their expiration is what their own `expires` says, or [`UNSAID`].
pub(super) fn read<'a>(
    message: &Message<'a>,
    changes: &mut ArrayVec<ContactChange<'a>, CONTACTS_PER_REQUEST_MAX>,
) -> Result<Asked, Bad> {
    if !message.has(HeaderName::Contact) {
        return Ok(Asked::Query);
    }
    let expires = message.value(HeaderName::Expires);
    let mut wildcard = false;
    for element in message.elements(HeaderName::Contact) {
        if element.text == b"*" {
            wildcard = true;
            continue;
        }
        changes.try_push(contact(element.text)?).map_err(|_| Bad("Too Many Contacts In Request"))?;
    }
    match (wildcard, changes.is_empty()) {
        (false, false) => Ok(Asked::Contacts {
            expires_s: expires.map(|v| delta_seconds(v).unwrap_or(MALFORMED_EXPIRES_S)),
        }),
        (true, true) => match expires.and_then(delta_seconds) {
            Some(0) => Ok(Asked::RemoveAll),
            Some(_) | None => Err(Bad("Wildcard Contact Without Expires 0")),
        },
        (true, false) => Err(Bad("Wildcard Contact Not Alone")),
        (false, true) => Err(Bad("Bad Contact")),
    }
}

fn contact(text: &[u8]) -> Result<ContactChange<'_>, Bad> {
    let bad = |_| Bad("Bad Contact");
    let address = NameAddr::parse(text).map_err(bad)?;
    Uri::parse(address.uri).map_err(bad)?;
    let q = match address.params.get("q") {
        Some(param) => param.value.and_then(qvalue).ok_or(Bad("Bad Contact Q"))?,
        None => 1000,
    };
    let expires_s = match address.params.get("expires") {
        Some(param) => param.value.and_then(delta_seconds).unwrap_or(MALFORMED_EXPIRES_S).min(UNSAID - 1),
        None => UNSAID,
    };
    Ok(ContactChange { uri: address.uri, q, expires_s })
}

/// `qvalue` of section 25.1, in thousandths: 0 to 1 with at most three decimals.
fn qvalue(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (whole, b"".as_slice()),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut q = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, unit) in decimals.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        q += u16::from(digit - b'0') * unit;
    }
    (q <= 1000).then_some(q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_is_read_as_the_grammar_says() {
        for (text, q) in
            [("0", 0), ("0.", 0), ("0.5", 500), ("0.123", 123), ("1", 1000), ("1.", 1000), ("1.000", 1000)]
        {
            assert_eq!(qvalue(text.as_bytes()), Some(q), "{text}");
        }
        for text in ["", ".5", "1.1", "1.001", "2", "0.1234", "-1", "0,5", "0.5x", "00.5", "\"0.5\""] {
            assert_eq!(qvalue(text.as_bytes()), None, "{text}");
        }
    }
}
