//! Via (RFC 3261 section 20.42, RFC 3581).

use std::net::{IpAddr, SocketAddr};

use memchr::memchr;

use crate::chars::{decimal, is_lws, is_token, trim};

use super::{Host, Malformed, Params};

/// One Via value.
#[derive(Copy, Clone, Debug)]
pub struct Via<'a> {
    /// `UDP`, `TCP`, …, as written.
    pub transport: &'a [u8],
    /// The host of sent-by.
    pub host: Host<'a>,
    /// sent-by as written, without white space around it.
    pub sent_by: &'a [u8],
    /// The port of sent-by.
    pub port: Option<u16>,
    /// The parameters.
    pub params: Params<'a>,
}

/// The start of every branch of RFC 3261 (section 8.1.1.7).
pub(crate) const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl<'a> Via<'a> {
    /// Parses one element of a Via header. The protocol need not be SIP/2.0: a request of another version is answered,
    /// too, and its Via says where to.
    ///
    /// # Errors
    /// [`Malformed`] when it does not follow the grammar, or has one of the parameters of section 20.42 twice.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        // sent-protocol = name SLASH version SLASH transport, white space allowed around each slash.
        let first = memchr(b'/', text).ok_or(Malformed)?;
        let second = first + 1 + memchr(b'/', &text[first + 1..]).ok_or(Malformed)?;
        let (name, version) = (trim(&text[..first]), trim(&text[first + 1..second]));
        let start = second + 1 + text[second + 1..].iter().position(|&b| !is_lws(b)).ok_or(Malformed)?;
        let end = start + text[start..].iter().position(|&b| is_lws(b)).ok_or(Malformed)?;
        let transport = &text[start..end];
        if !is_token(name) || !is_token(version) || !is_token(transport) {
            return Err(Malformed);
        }
        let semicolon = memchr(b';', &text[end..]).map(|i| end + i);
        let sent_by = trim(&text[end..semicolon.unwrap_or(text.len())]);
        let (host, port) = parse_sent_by(sent_by)?;
        let params = Params(semicolon.map_or(b"", |i| &text[i + 1..]));
        if semicolon.is_some() && params.0.is_empty() {
            return Err(Malformed);
        }
        params.check_unique(&["branch", "received", "rport", "maddr", "ttl"])?;
        Ok(Via { transport, host, sent_by, port, params })
    }

    /// The branch, when there is one.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.params.value("branch").filter(|b| !b.is_empty())
    }

    /// The branch, when it is one of RFC 3261 and so names the transaction (section 17.2.3).
    pub fn cookie_branch(&self) -> Option<&'a [u8]> {
        self.branch().filter(|b| {
            b.len() > MAGIC_COOKIE.len() && b[..MAGIC_COOKIE.len()].eq_ignore_ascii_case(MAGIC_COOKIE)
        })
    }

    /// Whether `rport` is asked for or filled in (RFC 3581).
    pub fn wants_rport(&self) -> bool {
        self.params.get("rport").is_some()
    }

    /// Where a response goes over UDP (RFC 3261 section 18.2.2, RFC 3581 section 4): `maddr`, else `received` with
    /// `rport`, else `received`, else sent-by. `None` when that is a host name (DNS would be needed), or when no single
    /// host is meant: a response is never sent to a broadcast, multicast or unspecified address or to port 0, or else
    /// anybody could have us do so (RFC 4475 section 3.3.10).
    pub fn response_addr(&self) -> Option<SocketAddr> {
        let sent_by_port =
            self.port.unwrap_or(if self.transport.eq_ignore_ascii_case(b"TLS") { 5061 } else { 5060 });
        let (ip, port) = match self.params.value("maddr") {
            Some(maddr) => (parse_ip(maddr)?, sent_by_port),
            None => {
                let ip = match self.params.value("received") {
                    Some(received) => parse_ip(received)?,
                    None => self.host.ip()?,
                };
                let rport = self.params.value("rport").and_then(decimal).and_then(|n| u16::try_from(n).ok());
                (ip, rport.filter(|&p| p > 0).unwrap_or(sent_by_port))
            }
        };
        (is_unicast(ip) && port > 0).then_some(SocketAddr::new(ip, port))
    }
}

fn is_unicast(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => !(v4.is_broadcast() || v4.is_multicast() || v4.is_unspecified()),
        IpAddr::V6(v6) => !(v6.is_multicast() || v6.is_unspecified()),
    }
}

fn parse_sent_by(text: &[u8]) -> Result<(Host<'_>, Option<u16>), Malformed> {
    if !text.iter().any(|&b| is_lws(b)) {
        return Host::parse_with_port(text);
    }
    // White space is allowed around the colon of the port (COLON in section 25.1).
    let colon = text.iter().rposition(|&b| b == b':').ok_or(Malformed)?;
    let (host, rest) = Host::parse_with_port(trim(&text[..colon]))?;
    let port = decimal(trim(&text[colon + 1..])).and_then(|n| u16::try_from(n).ok()).ok_or(Malformed)?;
    if rest.is_some() { Err(Malformed) } else { Ok((host, Some(port))) }
}

/// An address; IPv6 with or without brackets, since `received` occurs both ways (RFC 5118 section 4.5).
pub(crate) fn parse_ip(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_go_where_the_rfcs_say() {
        for (via, to) in [
            ("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKa", Some("192.0.2.1:5060")),
            ("SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bKa;received=192.0.2.9", Some("192.0.2.9:5070")),
            ("SIP/2.0/UDP host:5070;received=192.0.2.9;rport=1234", Some("192.0.2.9:1234")),
            ("SIP/2.0/UDP 192.0.2.1;rport", Some("192.0.2.1:5060")),
            ("SIP/2.0/UDP 192.0.2.1:5070;maddr=192.0.2.3;received=192.0.2.9", Some("192.0.2.3:5070")),
            ("SIP / 2.0 / UDP\r\n [2001:db8::9] : 5066 ;received=[2001:db8::1]", Some("[2001:db8::1]:5066")),
            ("SIP/2.0/UDP [2001:db8::9];received=2001:db8::1", Some("[2001:db8::1]:5060")),
            ("SIP/2.0/UDP host.example", None),
            ("SIP/2.0/TLS 192.0.2.1", Some("192.0.2.1:5061")),
            ("SIP/2.0/UDP 192.0.2.1;rport=0", Some("192.0.2.1:5060")),
            ("SIP/2.0/UDP 192.0.2.1;rport=70000;received=192.0.2.9", Some("192.0.2.9:5060")),
            ("SIP/2.0/UDP 192.0.2.1;received=nowhere", None),
            ("SIP/2.0/UDP 255.255.255.255", None),
            ("SIP/2.0/UDP 192.0.2.1;received=0.0.0.0", None),
            ("SIP/2.0/UDP 192.0.2.1;maddr=224.0.1.75", None),
            ("SIP/2.0/UDP [::ffff:255.255.255.255]", None),
            ("SIP/2.0/UDP 192.0.2.1:0", None),
        ] {
            assert_eq!(
                Via::parse(via.as_bytes()).unwrap().response_addr(),
                to.map(|t| t.parse().unwrap()),
                "{via}"
            );
        }
    }

    /// RFC 3261 section 25.1: SLASH, COLON, SEMI and EQUAL allow white space around them.
    #[test]
    fn white_space_may_stand_around_separators() {
        let via =
            Via::parse(b"SIP\t/\r\n 2.0 / TCP\r\n\thost.example\t:\r\n 5070 ; branch =\r\n z9hG4bKa ;rport")
                .unwrap();
        assert_eq!((via.transport, via.sent_by), (b"TCP".as_slice(), b"host.example\t:\r\n 5070".as_slice()));
        assert_eq!((via.host, via.port), (Host::Name(b"host.example"), Some(5070)));
        assert_eq!(via.cookie_branch(), Some(b"z9hG4bKa".as_slice()));
        assert!(via.wants_rport());
    }

    /// RFC 4475 section 3.1.2.16: a request of another version says where its 505 goes.
    #[test]
    fn another_protocol_version_is_still_a_via() {
        assert_eq!(
            Via::parse(b"SIP/7.0/UDP 192.0.2.1").unwrap().response_addr(),
            Some("192.0.2.1:5060".parse().unwrap())
        );
    }

    #[test]
    fn what_is_no_via_is_refused() {
        for via in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ",
            "SIP/2.0 UDP h",
            "SIP/2.0/UD@ h",
            "SIP//UDP h",
            "SIP/2.0/UDP h;",
            "SIP/2.0/UDP h;;branch=1",
            "SIP/2.0/UDP h;branch=1;Branch=2",
            "SIP/2.0/UDP h;received=192.0.2.1;received=192.0.2.2",
            "SIP/2.0/UDP h 5060",
            "SIP/2.0/UDP h : ",
            "SIP/2.0/UDP h:x",
            "SIP/2.0/UDP h:99999",
            "SIP/2.0/UDP h;bra nch=1",
        ] {
            assert!(Via::parse(via.as_bytes()).is_err(), "{via}");
        }
    }
}
