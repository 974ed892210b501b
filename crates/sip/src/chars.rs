//! Character classes of RFC 3261 section 25.1.

const TOKEN: u8 = 1;
const LWS: u8 = 2;
const HEX: u8 = 4;
const URI: u8 = 8;
const VALUE: u8 = 16;
const HOST: u8 = 32;

static CLASS: [u8; 256] = {
    let mut t = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        if b.is_ascii_alphanumeric()
            || matches!(b, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
        {
            t[i] |= TOKEN;
        }
        if matches!(b, b' ' | b'\t' | b'\r' | b'\n') {
            t[i] |= LWS;
        }
        if b.is_ascii_hexdigit() {
            t[i] |= HEX;
        }
        // What may stand in a Request-URI: reserved, unreserved, escaped, brackets of an IPv6 reference, and two
        // that phones put into user names.
        if b > b' ' && b < 0x7f && !matches!(b, b'<' | b'>' | b'"' | b'{' | b'}' | b'|' | b'\\') {
            t[i] |= URI;
        }
        // What may stand in the value of a parameter without quotes: more than token and host, for phones that do so.
        if b > b' ' && b != 0x7f && !matches!(b, b'"' | b'<' | b'>' | b',' | b';') {
            t[i] |= VALUE;
        }
        // What may stand in a host name; the underscore is no part of the grammar, but of many a name.
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_') {
            t[i] |= HOST;
        }
        i += 1;
    }
    t
};

pub(crate) fn is_token_byte(b: u8) -> bool {
    CLASS[b as usize] & TOKEN != 0
}

pub(crate) fn is_token(s: &[u8]) -> bool {
    !s.is_empty() && s.iter().all(|&b| is_token_byte(b))
}

/// White space between the parts of a value; a fold is white space.
pub(crate) fn is_lws(b: u8) -> bool {
    CLASS[b as usize] & LWS != 0
}

pub(crate) fn is_hex(b: u8) -> bool {
    CLASS[b as usize] & HEX != 0
}

pub(crate) fn is_uri_byte(b: u8) -> bool {
    CLASS[b as usize] & URI != 0
}

pub(crate) fn is_host_byte(b: u8) -> bool {
    CLASS[b as usize] & HOST != 0
}

pub(crate) fn is_value_byte(b: u8) -> bool {
    CLASS[b as usize] & VALUE != 0
}

pub(crate) fn trim(mut s: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = s
        && is_lws(*first)
    {
        s = rest;
    }
    while let [rest @ .., last] = s
        && is_lws(*last)
    {
        s = rest;
    }
    s
}

/// A decimal number without sign; `None` when empty, not decimal or past `u64`.
pub(crate) fn decimal(s: &[u8]) -> Option<u64> {
    if s.is_empty() {
        return None;
    }
    s.iter().try_fold(0u64, |n, &b| {
        if !b.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
}
