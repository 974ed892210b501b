//! URIs (RFC 3261 section 19.1): SIP and SIPS URIs in their parts, every other scheme as a whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use arrayvec::ArrayVec;

use crate::chars::{decimal, is_hex, is_uri_byte};

use super::{Malformed, Params};

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
        let (host, port) = if text.first() == Some(&b'[') {
            let end = text.iter().position(|&b| b == b']').ok_or(Malformed)?;
            let ip: Ipv6Addr = ascii(&text[1..end])?.parse().map_err(|_| Malformed)?;
            (Host::Ip(IpAddr::V6(ip)), &text[end + 1..])
        } else {
            let end = text.iter().position(|&b| b == b':').unwrap_or(text.len());
            (Host::parse_name(&text[..end])?, &text[end..])
        };
        let port = match port {
            [] => None,
            [b':', digits @ ..] => {
                Some(decimal(digits).and_then(|n| u16::try_from(n).ok()).ok_or(Malformed)?)
            }
            _ => return Err(Malformed),
        };
        Ok((host, port))
    }

    fn parse_name(text: &'a [u8]) -> Result<Self, Malformed> {
        if text.first().is_some_and(u8::is_ascii_digit)
            && let Ok(ip) = ascii(text)?.parse::<Ipv4Addr>()
        {
            return Ok(Host::Ip(IpAddr::V4(ip)));
        }
        let good = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if text.is_empty() || text.len() > 255 || !text.iter().all(good) {
            Err(Malformed)
        } else {
            Ok(Host::Name(text))
        }
    }
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
        let colon = text.iter().position(|&b| b == b':').ok_or(Malformed)?;
        let (scheme, rest) = (&text[..colon], &text[colon + 1..]);
        let scheme_ok = scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
        if !scheme_ok || rest.is_empty() || !rest.iter().all(|&b| is_uri_byte(b) || b == b'`' || b == b'^') {
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
        let (userinfo, rest) = match rest.iter().position(|&b| b == b'@') {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        let (user, password) = match userinfo {
            None => (None, None),
            Some(info) => match info.iter().position(|&b| b == b':') {
                Some(colon) => (Some(&info[..colon]), Some(&info[colon + 1..])),
                None => (Some(info), None),
            },
        };
        if user.is_some_and(|u| u.is_empty() || !escapes_ok(u)) {
            return Err(Malformed);
        }
        let question = rest.iter().position(|&b| b == b'?').unwrap_or(rest.len());
        let (rest, headers) = (&rest[..question], rest.get(question + 1..).unwrap_or(b""));
        let semicolon = rest.iter().position(|&b| b == b';').unwrap_or(rest.len());
        let (host, port) = Host::parse_with_port(&rest[..semicolon])?;
        let params = Params(rest.get(semicolon + 1..).unwrap_or(b""));
        if params.iter().any(|p| !escapes_ok(p.name) || p.value.is_some_and(|v| !escapes_ok(v))) {
            return Err(Malformed);
        }
        Ok(SipUri { scheme, user, password, host, port, params, headers })
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
        let host = match self.params.value("maddr") {
            Some(maddr) => Host::parse_with_port(maddr).ok()?.0,
            None => self.host,
        };
        Some(SocketAddr::new(host.ip()?, self.port_or_default()))
    }

    /// Whether the parameter `lr` is there: a loose router (section 19.1.1).
    pub fn is_loose_router(&self) -> bool {
        self.params.get("lr").is_some()
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

/// User and password: with case, an escaped character equals the plain one.
fn same_part(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => unescaped(a).eq(unescaped(b)),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// A parameter in both must match; `user`, `ttl`, `method`, `maddr` and `transport` in one only is a mismatch; any other
/// parameter in one only is ignored (section 19.1.4; RFC 5954 keeps it).
fn same_params(a: Params<'_>, b: Params<'_>) -> bool {
    let decisive = |name: &[u8]| {
        ["user", "ttl", "method", "maddr", "transport"]
            .iter()
            .any(|d| name.eq_ignore_ascii_case(d.as_bytes()))
    };
    let covers = |a: Params<'_>, b: Params<'_>| {
        a.iter().all(|p| match b.iter().find(|q| q.name.eq_ignore_ascii_case(p.name)) {
            Some(q) => match (p.value, q.value) {
                (Some(v), Some(w)) => unescaped(v)
                    .map(|b| b.to_ascii_lowercase())
                    .eq(unescaped(w).map(|b| b.to_ascii_lowercase())),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            },
            None => !decisive(p.name),
        })
    };
    covers(a, b) && covers(b, a)
}

/// Header components are never ignored; their order does not matter.
fn same_headers(a: &[u8], b: &[u8]) -> bool {
    let covers = |a: &[u8], b: &[u8]| {
        a.split(|&c| c == b'&').all(|x| b.split(|&c| c == b'&').any(|y| unescaped(x).eq(unescaped(y))))
    };
    a == b || (covers(a, b) && covers(b, a))
}

/// Every `%` is followed by two hexadecimal digits.
fn escapes_ok(s: &[u8]) -> bool {
    let mut rest = s;
    while let Some(i) = rest.iter().position(|&b| b == b'%') {
        match rest.get(i + 1..i + 3) {
            Some(two) if two.iter().all(|&b| is_hex(b)) => rest = &rest[i + 3..],
            Some(_) | None => return false,
        }
    }
    true
}

/// The bytes of a part with its escapes resolved.
fn unescaped(s: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut i = 0;
    std::iter::from_fn(move || {
        let b = *s.get(i)?;
        let digits = if b == b'%' { s.get(i + 1..i + 3) } else { None };
        match digits.and_then(|d| Some((hex(d[0])?, hex(d[1])?))) {
            Some((high, low)) => {
                i += 3;
                Some(high << 4 | low)
            }
            None => {
                i += 1;
                Some(b)
            }
        }
    })
}

fn hex(b: u8) -> Option<u8> {
    (b as char).to_digit(16).map(|d| d as u8)
}

/// A user part with its escapes resolved: the canonical form of RFC 3261 section 10.3 step 5. `None` past `N` bytes.
pub fn unescape<const N: usize>(part: &[u8]) -> Option<ArrayVec<u8, N>> {
    let mut out = ArrayVec::new();
    for b in unescaped(part) {
        out.try_push(b).ok()?;
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
            "1x:y",
            "sip:a@[::1",
            "sip:<a@h>",
        ] {
            assert!(Uri::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
