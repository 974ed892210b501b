//! URIs (RFC 3261 section 19.1): SIP and SIPS URIs in their parts, every other scheme as a whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use arrayvec::ArrayVec;
use memchr::{memchr, memchr_iter};

use crate::chars::{decimal, is_hex, is_host_byte, is_uri_byte};

use super::{Malformed, Param, Params};

/// `sip` or `sips`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
}

/// The host part of a URI or a Via.
#[derive(Copy, Clone, Debug)]
pub enum Host<'a> {
    /// An address; an IPv6 one stands in brackets on the wire.
    Ip(IpAddr),
    /// A host name, as written.
    Name(&'a [u8]),
}

impl PartialEq for Host<'_> {
    /// Names are compared without case; a trailing dot does not make another name.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Host::Ip(a), Host::Ip(b)) => a == b,
            (Host::Name(a), Host::Name(b)) => {
                a.strip_suffix(b".").unwrap_or(a).eq_ignore_ascii_case(b.strip_suffix(b".").unwrap_or(b))
            }
            (Host::Ip(_), Host::Name(_)) | (Host::Name(_), Host::Ip(_)) => false,
        }
    }
}

impl Eq for Host<'_> {}

impl<'a> Host<'a> {
    /// The address, when it is one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        }
    }

    /// Parses `host[:port]`.
    ///
    /// # Errors
    /// [`Malformed`] when either part is not what RFC 3261 section 25.1 allows.
    pub fn parse_with_port(text: &'a [u8]) -> Result<(Self, Option<u16>), Malformed> {
        match Host::parse_prefix(text)? {
            (host, port, b"") => Ok((host, port)),
            _ => Err(Malformed),
        }
    }

    /// Parses `host[:port]` at the start of `text` and returns what follows.
    fn parse_prefix(text: &'a [u8]) -> Result<(Self, Option<u16>, &'a [u8]), Malformed> {
        let (host, rest) = if let Some(bracketed) = text.strip_prefix(b"[") {
            let end = position(bracketed, b']').ok_or(Malformed)?;
            (Host::Ip(IpAddr::V6(parse_ipv6(&bracketed[..end])?)), &bracketed[end + 1..])
        } else {
            let end = text.iter().position(|&b| !is_host_byte(b)).unwrap_or(text.len());
            (Host::parse_name(&text[..end])?, &text[end..])
        };
        let Some(after_colon) = rest.strip_prefix(b":") else {
            return Ok((host, None, rest));
        };
        let end = after_colon.iter().position(|b| !b.is_ascii_digit()).unwrap_or(after_colon.len());
        let port = decimal(&after_colon[..end]).and_then(|n| u16::try_from(n).ok()).ok_or(Malformed)?;
        Ok((host, Some(port), &after_colon[end..]))
    }

    /// `text` has bytes of host names only.
    fn parse_name(text: &'a [u8]) -> Result<Self, Malformed> {
        // A toplabel is no number, so that an address is no name and a mistyped address neither. Any other label may
        // start with a digit, even the last: containers are named so.
        let labels = text.strip_suffix(b".").unwrap_or(text);
        let last = labels.iter().rposition(|&b| b == b'.').map_or(labels, |i| &labels[i + 1..]);
        if last.iter().all(u8::is_ascii_digit) {
            return ascii(text)?
                .parse::<Ipv4Addr>()
                .map(|ip| Host::Ip(IpAddr::V4(ip)))
                .map_err(|_| Malformed);
        }
        let mut before = b'.';
        for &b in labels {
            if b == b'.' && before == b'.' {
                return Err(Malformed);
            }
            before = b;
        }
        if text.len() > 255 { Err(Malformed) } else { Ok(Host::Name(text)) }
    }
}

/// An IPv6 address without brackets. The grammar of RFC 3261 itself produced `:::` before an IPv4 part; one colon of it
/// is then ignored (RFC 5118 section 4.10).
fn parse_ipv6(text: &[u8]) -> Result<Ipv6Addr, Malformed> {
    if let Ok(ip) = ascii(text)?.parse() {
        return Ok(ip);
    }
    let colons = text.windows(3).position(|three| three == b":::").ok_or(Malformed)?;
    let mut shorter: ArrayVec<u8, 45> = ArrayVec::new();
    shorter.try_extend_from_slice(&text[..colons]).map_err(|_| Malformed)?;
    shorter.try_extend_from_slice(&text[colons + 1..]).map_err(|_| Malformed)?;
    ascii(&shorter)?.parse().map_err(|_| Malformed)
}

/// Where a byte stands first. URIs are short, so a plain loop is faster than `memchr`.
fn position(s: &[u8], byte: u8) -> Option<usize> {
    s.iter().position(|&b| b == byte)
}

fn ascii(s: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(s).map_err(|_| Malformed)
}

/// A SIP or SIPS URI in its parts; everything borrowed.
#[derive(Copy, Clone, Debug)]
pub struct SipUri<'a> {
    /// Its scheme.
    pub scheme: Scheme,
    /// The user part, escapes left as they are.
    pub user: Option<&'a [u8]>,
    /// The password part; not to be used (section 19.1.1).
    pub password: Option<&'a [u8]>,
    /// The host.
    pub host: Host<'a>,
    /// The port, when there is one.
    pub port: Option<u16>,
    /// `;transport=udp` and the like.
    pub params: Params<'a>,
    /// What follows `?`.
    pub headers: &'a [u8],
}

/// Any URI.
#[derive(Copy, Clone, Debug)]
pub enum Uri<'a> {
    /// SIP or SIPS.
    Sip(SipUri<'a>),
    /// Another scheme: its name, and what follows the colon.
    Other {
        /// The scheme, as written.
        scheme: &'a [u8],
        /// What follows the colon.
        rest: &'a [u8],
    },
}

impl<'a> Uri<'a> {
    /// Parses a URI that stands alone (no angle brackets, no white space).
    ///
    /// # Errors
    /// [`Malformed`] for what RFC 3261 section 25.1 does not allow. Any well-formed scheme is accepted.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        let colon = position(text, b':').ok_or(Malformed)?;
        let (scheme, rest) = (&text[..colon], &text[colon + 1..]);
        let scheme_ok = scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
        if !scheme_ok || rest.is_empty() || !rest.iter().all(|&b| is_uri_byte(b)) {
            return Err(Malformed);
        }
        if scheme.eq_ignore_ascii_case(b"sip") {
            SipUri::parse_rest(Scheme::Sip, rest).map(Uri::Sip)
        } else if scheme.eq_ignore_ascii_case(b"sips") {
            SipUri::parse_rest(Scheme::Sips, rest).map(Uri::Sip)
        } else {
            Ok(Uri::Other { scheme, rest })
        }
    }

    /// The parts, when it is a SIP or SIPS URI.
    pub fn sip(self) -> Option<SipUri<'a>> {
        match self {
            Uri::Sip(uri) => Some(uri),
            Uri::Other { .. } => None,
        }
    }

    /// Equality as section 19.1.4 defines it for SIP URIs; for other schemes, the same bytes.
    pub fn equivalent(&self, other: &Uri<'_>) -> bool {
        match (self, other) {
            (Uri::Sip(a), Uri::Sip(b)) => a.equivalent(b),
            (Uri::Other { scheme: s, rest: r }, Uri::Other { scheme: t, rest: q }) => {
                s.eq_ignore_ascii_case(t) && r == q
            }
            (Uri::Sip(_), Uri::Other { .. }) | (Uri::Other { .. }, Uri::Sip(_)) => false,
        }
    }
}

impl<'a> SipUri<'a> {
    fn parse_rest(scheme: Scheme, rest: &'a [u8]) -> Result<Self, Malformed> {
        // The user part may hold ';', '?' and '/' (section 25.1), so the '@' is looked for first, over everything.
        let (userinfo, rest) = match position(rest, b'@') {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        let (user, password) = match userinfo {
            None => (None, None),
            Some(info) => match position(info, b':') {
                Some(colon) => (Some(&info[..colon]), Some(&info[colon + 1..])),
                None => (Some(info), None),
            },
        };
        if user.is_some_and(<[u8]>::is_empty) || !userinfo.is_none_or(escapes_ok) {
            return Err(Malformed);
        }
        let (host, port, rest) = Host::parse_prefix(rest)?;
        let question = position(rest, b'?').unwrap_or(rest.len());
        let headers = rest.get(question + 1..).unwrap_or(b"");
        let params = match &rest[..question] {
            [] => Params(b""),
            [b';', params @ ..] => Params(params),
            _ => return Err(Malformed),
        };
        if !escapes_ok(params.0) || params.iter().any(|p| p.name.is_empty() || p.value == Some(b"")) {
            return Err(Malformed);
        }
        Ok(SipUri { scheme, user, password, host, port, params, headers })
    }

    /// A parameter by its name, compared without case and with escapes resolved: `%6C%72` is `lr` (section 19.1.4).
    pub fn param(&self, name: &str) -> Option<Param<'a>> {
        self.params.iter().find(|p| same_name(p.name, name.as_bytes()))
    }

    /// The port, or the default of the scheme: 5060, for `sips` 5061.
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Sip => 5060,
            Scheme::Sips => 5061,
        })
    }

    /// Where to send to, when the URI names an address: `maddr` before the host (section 19.1.1). Names need DNS
    /// (RFC 3263): `None`.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let host = match self.param("maddr") {
            Some(maddr) => Host::parse_with_port(maddr.value?).ok()?.0,
            None => self.host,
        };
        Some(SocketAddr::new(host.ip()?, self.port_or_default()))
    }

    /// Whether the parameter `lr` is there: a loose router (section 19.1.1).
    pub fn is_loose_router(&self) -> bool {
        self.param("lr").is_some()
    }

    /// Equality as section 19.1.4 defines it.
    pub fn equivalent(&self, other: &SipUri<'_>) -> bool {
        self.scheme == other.scheme
            && same_part(self.user, other.user)
            && same_part(self.password, other.password)
            && self.host == other.host
            && self.port == other.port
            && same_params(self.params, other.params)
            && same_headers(self.headers, other.headers)
    }
}

/// More parameters or header components than this are compared as they stand, or comparing would take quadratic time.
const COMPARED_PARTS_MAX: usize = 32;

/// User and password: with case.
fn same_part(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => characters(a).eq(characters(b)),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn same_name(a: &[u8], b: &[u8]) -> bool {
    // Nearly no name has an escape.
    a.eq_ignore_ascii_case(b) || (memchr(b'%', a).is_some() || memchr(b'%', b).is_some()) && same_text(a, b)
}

fn same_text(a: &[u8], b: &[u8]) -> bool {
    let lower = |c: Character| Character { byte: c.byte.to_ascii_lowercase(), ..c };
    characters(a).map(lower).eq(characters(b).map(lower))
}

/// A parameter in both must match; `user`, `ttl`, `method`, `maddr` and `transport` in one only is a mismatch; any other
/// parameter in one only is ignored (section 19.1.4; RFC 5954 keeps it).
fn same_params(a: Params<'_>, b: Params<'_>) -> bool {
    let decisive = |name: &[u8]| {
        ["user", "ttl", "method", "maddr", "transport"].iter().any(|d| same_name(name, d.as_bytes()))
    };
    let covers = |a: Params<'_>, b: Params<'_>| {
        a.iter().all(|p| match b.iter().find(|q| same_name(q.name, p.name)) {
            Some(q) => match (p.value, q.value) {
                (Some(v), Some(w)) => same_text(v, w),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            },
            None => !decisive(p.name),
        })
    };
    let few = |p: Params<'_>| p.iter().nth(COMPARED_PARTS_MAX).is_none();
    a.0 == b.0 || (few(a) && few(b) && covers(a, b) && covers(b, a))
}

/// Header components are never ignored; their order does not matter.
fn same_headers(a: &[u8], b: &[u8]) -> bool {
    let parts = |s| <[u8]>::split(s, |&c| c == b'&');
    let covers = |a, b| parts(a).all(|x| parts(b).any(|y| characters(x).eq(characters(y))));
    let few = |s| parts(s).nth(COMPARED_PARTS_MAX).is_none();
    a == b || (few(a) && few(b) && covers(a, b) && covers(b, a))
}

/// One character of a URI for comparing: an escaped character equals the plain one, unless it is reserved (section 19.1.4).
#[derive(Copy, Clone, PartialEq, Eq)]
struct Character {
    byte: u8,
    escaped_reserved: bool,
}

fn characters(s: &[u8]) -> impl Iterator<Item = Character> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (byte, len) = character_at(s, at)?;
        at += len;
        let reserved = matches!(byte, b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b',');
        Some(Character { byte, escaped_reserved: len > 1 && reserved })
    })
}

/// Every `%` is followed by two hexadecimal digits.
fn escapes_ok(s: &[u8]) -> bool {
    memchr_iter(b'%', s).all(|i| matches!(s.get(i + 1..i + 3), Some(&[a, b]) if is_hex(a) && is_hex(b)))
}

/// The byte that a character stands for, and its length: three when it is escaped.
fn character_at(s: &[u8], at: usize) -> Option<(u8, usize)> {
    let b = *s.get(at)?;
    let digits = if b == b'%' { s.get(at + 1..at + 3) } else { None };
    match digits.and_then(|d| Some((hex(d[0])?, hex(d[1])?))) {
        Some((high, low)) => Some((high << 4 | low, 3)),
        None => Some((b, 1)),
    }
}

fn hex(b: u8) -> Option<u8> {
    (b as char).to_digit(16).map(|d| d as u8)
}

/// A user part with its escapes resolved: the canonical form of RFC 3261 section 10.3 step 5. `None` past `N` bytes.
pub fn unescape<const N: usize>(part: &[u8]) -> Option<ArrayVec<u8, N>> {
    let mut out = ArrayVec::new();
    let mut at = 0;
    while let Some((byte, len)) = character_at(part, at) {
        out.try_push(byte).ok()?;
        at += len;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        Uri::parse(a.as_bytes()).unwrap().equivalent(&Uri::parse(b.as_bytes()).unwrap())
    }

    /// The examples of RFC 3261 section 19.1.4.
    #[test]
    fn equivalence_follows_the_examples_of_the_rfc() {
        for (a, b) in [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtlanTa.CoM;Transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
            (
                "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
                "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
            ),
            (
                "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
                "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
            ),
        ] {
            assert!(same(a, b), "{a} = {b}");
        }
        for (a, b) in [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:a%3Bb@h", "sip:a;b@h"),
            ("sip:bob@biloxi.com", "sips:bob@biloxi.com"),
            ("sip:%00@h", "sip:%00%00@h"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
        ] {
            assert!(!same(a, b), "{a} ≠ {b}");
        }
    }

    #[test]
    fn parts_are_found() {
        let uri =
            Uri::parse(b"sips:a;b%20c:pw@[2001:db8::1]:5070;maddr=[::1];lr?x=y").unwrap().sip().unwrap();
        assert_eq!(uri.scheme, Scheme::Sips);
        assert_eq!(uri.user, Some(b"a;b%20c".as_slice()));
        assert_eq!(uri.password, Some(b"pw".as_slice()));
        assert_eq!(uri.socket_addr(), Some("[::1]:5070".parse().unwrap()));
        assert!(uri.is_loose_router());
        assert_eq!(uri.headers, b"x=y");
        assert_eq!(unescape::<16>(uri.user.unwrap()).unwrap().as_slice(), b"a;b c");
    }

    #[test]
    fn what_is_not_a_uri_is_refused() {
        for text in [
            "",
            "sip",
            "sip:",
            "sip:@h",
            "sip:a@",
            "sip:a@h:70000",
            "sip:a@h:",
            "sip:a b@h",
            "sip:a%4@h",
            "sip:a:%zz@h",
            "sip:a@h;x=%",
            "sip:a@h;=x",
            "sip:a@h;x=",
            "sip:a@b@h",
            "sip:a@192.0.2.256",
            "sip:a@192.0.2",
            "sip:a@192.0.2.010",
            "sip:911",
            "sip:a..b",
            "sip:.a",
            "sip:.",
            "sip:a@[2001:db8:::1:::2]",
            "sip:a@[::1]5060",
            "sip:a@h:50 60",
            "sip:a\u{e9}@h",
            "1x:y",
            "sip:a@[::1",
            "sip:<a@h>",
        ] {
            assert!(Uri::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        for name in
            ["3com.com", "example.com.", "a-b_c", "3f2a9c", "xn--bcher-kva.example", "1.2.3.4.in-addr"]
        {
            assert_eq!(Host::parse_with_port(name.as_bytes()), Ok((Host::Name(name.as_bytes()), None)));
        }
        for (text, ip, port) in [
            ("192.0.2.1:5060", "192.0.2.1", Some(5060)),
            ("[2001:db8::1]:65535", "2001:db8::1", Some(65535)),
            ("[::ffff:192.0.2.1]", "::ffff:192.0.2.1", None),
            ("[2001:db8:::192.0.2.1]", "2001:db8::192.0.2.1", None),
        ] {
            let ip = ip.parse().unwrap();
            assert_eq!(Host::parse_with_port(text.as_bytes()), Ok((Host::Ip(ip), port)), "{text}");
        }
    }

    #[test]
    fn other_schemes_are_taken_whole() {
        for (text, scheme, rest) in [
            (
                "tel:+1-201-555-0123;phone-context=example.com",
                "tel",
                "+1-201-555-0123;phone-context=example.com",
            ),
            ("http://www.example.com", "http", "//www.example.com"),
            ("soap.beep://192.0.2.103:3002", "soap.beep", "//192.0.2.103:3002"),
        ] {
            let Ok(Uri::Other { scheme: s, rest: r }) = Uri::parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((s, r), (scheme.as_bytes(), rest.as_bytes()));
        }
    }

    /// The characters that section 25.1 allows in a user part, and the colon that ends it.
    #[test]
    fn a_user_part_may_hold_reserved_characters() {
        let uri = Uri::parse(b"sip:a&b=c+d$e,f;g?h/i:p&=+$,@h;lr?x=y").unwrap().sip().unwrap();
        assert_eq!(uri.user, Some(b"a&b=c+d$e,f;g?h/i".as_slice()));
        assert_eq!((uri.password, uri.headers), (Some(b"p&=+$,".as_slice()), b"x=y".as_slice()));
    }

    #[test]
    fn a_flood_of_parameters_is_compared_as_it_stands() {
        let many = |last: &str| format!("sip:a@h{}{last}", ";p=1".repeat(20_000));
        assert!(same(&many(""), &many("")));
        assert!(!same(&many(";q"), &many(";r")));
    }
}
