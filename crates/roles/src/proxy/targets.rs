//! The target set of a request (RFC 3261 section 16.5), in order of preference, and next hops.

use std::net::SocketAddr;
use std::ops::Range;

use busyhour_sip::value::{NameAddr, Scheme, SipUri, Uri, split_list};

use crate::address::is_sendable;

/// Where one copy of a request goes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Target<'t> {
    /// The new Request-URI; `None` leaves it.
    pub(super) uri: Option<&'t [u8]>,
    /// Route values that lead there, separated by commas; empty without.
    pub(super) path: &'t [u8],
    /// The next hop.
    pub(super) next_hop: SocketAddr,
}

/// Targets in order of preference, their texts in one buffer, so that a set which is used again allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Copy, Clone, Debug)]
struct Entry {
    q: u16,
    next_hop: SocketAddr,
    has_uri: bool,
    start: usize,
    uri_end: usize,
    end: usize,
}

impl Targets {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Target<'_> {
        let Entry { next_hop, has_uri, start, uri_end, end, .. } = self.entries[index];
        Target {
            uri: has_uri.then(|| &self.bytes[start..uri_end]),
            path: &self.bytes[uri_end..end],
            next_hop,
        }
    }

    /// The request goes there as it is.
    pub(super) fn push_unchanged(&mut self, next_hop: SocketAddr) {
        let at = self.bytes.len();
        self.entries.push(Entry { q: 1000, next_hop, has_uri: false, start: at, uri_end: at, end: at });
    }

    /// The request goes there with a URI less what may not stand in a Request-URI (section 16.6 step 2, table 1 in section
    /// 19.1.1): the parameter `method`, and header components.
    pub(super) fn push(&mut self, q: u16, text: &[u8], uri: &SipUri<'_>, path: &[u8], next_hop: SocketAddr) {
        let start = self.bytes.len();
        put_without(text, uri, &["method"], false, &mut self.bytes);
        let uri_end = self.bytes.len();
        self.bytes.extend_from_slice(path);
        self.entries.push(Entry { q, next_hop, has_uri: true, start, uri_end, end: self.bytes.len() });
    }

    /// The request goes there with a Request-URI from which `maddr` is stripped, and with it the port and transport that
    /// belonged to it (section 16.4).
    pub(super) fn push_stripped(&mut self, text: &[u8], uri: &SipUri<'_>, next_hop: SocketAddr) {
        let start = self.bytes.len();
        put_without(text, uri, &["maddr", "transport"], true, &mut self.bytes);
        let end = self.bytes.len();
        self.entries.push(Entry { q: 1000, next_hop, has_uri: true, start, uri_end: end, end });
    }

    /// The targets from index `from` on that are tried in parallel: equally preferred, and no more than `breadth` (RFC
    /// 5393 section 5.3.3: what may not go out in parallel goes out one after the other).
    pub(super) fn group(&self, from: usize, breadth: u32) -> Range<usize> {
        let rest = &self.entries[from..];
        let equal = rest.iter().take_while(|e| e.q == rest[0].q).count();
        from..from + equal.min(breadth as usize)
    }
}

/// Targets that are tried when those before them have failed.
#[derive(Debug)]
pub(super) struct Later {
    pub(super) targets: Targets,
    /// The first one that has not been tried.
    pub(super) from: usize,
}

/// Copies a URI, less header components, the parameters of these names and, if asked for, the port.
fn put_without(text: &[u8], uri: &SipUri<'_>, names: &[&str], without_port: bool, to: &mut Vec<u8>) {
    let host =
        text.iter().position(|&b| b == b'@').or(text.iter().position(|&b| b == b':')).map_or(0, |i| i + 1);
    let end = text[host..].iter().position(|&b| matches!(b, b';' | b'?')).map_or(text.len(), |i| host + i);
    let colon = text[..end].iter().rposition(|&b| b == b':');
    let end = colon.filter(|_| without_port && uri.port.is_some()).unwrap_or(end);
    to.extend_from_slice(&text[..end]);
    for param in uri.params.iter() {
        if names.iter().any(|n| param.name.eq_ignore_ascii_case(n.as_bytes())) {
            continue;
        }
        to.push(b';');
        to.extend_from_slice(param.name);
        if let Some(value) = param.value {
            to.push(b'=');
            to.extend_from_slice(value);
        }
    }
}

/// Where a URI leads over UDP from a socket of the family of `local`. `None` for what would need DNS, another transport
/// or TLS, and for addresses that are no single host: nobody may have us send to a broadcast or multicast address.
pub(super) fn hop(uri: &SipUri<'_>, local: SocketAddr) -> Option<SocketAddr> {
    let over_udp =
        uri.param("transport").is_none_or(|t| t.value.is_some_and(|v| v.eq_ignore_ascii_case(b"udp")));
    uri.socket_addr().filter(|&address| uri.scheme == Scheme::Sip && over_udp && is_sendable(address, local))
}

/// The address of the first hop of a Path, or else of the contact itself.
pub(super) fn hop_of_binding(path: &[u8], contact: &SipUri<'_>, local: SocketAddr) -> Option<SocketAddr> {
    match split_list(path).next() {
        Some(route) => hop(&NameAddr::parse(route).ok()?.parse_uri().ok().and_then(Uri::sip)?, local),
        None => hop(contact, local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, names: &[&str], without_port: bool) -> String {
        let uri = Uri::parse(text.as_bytes()).unwrap().sip().unwrap();
        let mut to = Vec::new();
        put_without(text.as_bytes(), &uri, names, without_port, &mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn a_uri_loses_only_what_it_is_to_lose() {
        for (text, names, port, left) in [
            ("sip:a@h", &["method"][..], false, "sip:a@h"),
            ("sip:a;x=1@h:5070;Method=INVITE;lr?subject=x", &["method"], false, "sip:a;x=1@h:5070;lr"),
            ("sip:a?b@h?x=y", &["method"], false, "sip:a?b@h"),
            ("sip:a@h:5070;maddr=1.2.3.4;transport=udp;ob", &["maddr", "transport"], true, "sip:a@h;ob"),
            ("sip:[2001:db8::1]:5070;maddr=1.2.3.4", &["maddr"], true, "sip:[2001:db8::1]"),
            ("sip:[2001:db8::1];maddr=1.2.3.4", &["maddr"], true, "sip:[2001:db8::1]"),
        ] {
            assert_eq!(without(text, names, port), left, "{text}");
        }
    }

    #[test]
    fn a_next_hop_is_one_host_and_udp() {
        let local = "192.0.2.1:5060".parse().unwrap();
        for (text, expected) in [
            ("sip:a@192.0.2.9", Some("192.0.2.9:5060")),
            ("sip:a@192.0.2.9:5070;transport=UDP", Some("192.0.2.9:5070")),
            ("sip:a@h.example;maddr=192.0.2.9", Some("192.0.2.9:5060")),
            ("sip:a@h.example", None),
            ("sip:a@192.0.2.9;transport=tcp", None),
            ("sips:a@192.0.2.9", None),
            ("sip:a@192.0.2.9:0", None),
            ("sip:a@255.255.255.255", None),
            ("sip:a@224.0.1.75", None),
            ("sip:a@0.0.0.0", None),
            ("sip:a@[2001:db8::1]", None),
        ] {
            let uri = Uri::parse(text.as_bytes()).unwrap().sip().unwrap();
            assert_eq!(hop(&uri, local), expected.map(|e| e.parse().unwrap()), "{text}");
        }
    }
}
