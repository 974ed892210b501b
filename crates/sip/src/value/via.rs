//! Via (RFC 3261 section 20.42, RFC 3581).

use std::net::{IpAddr, SocketAddr};

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
    /// Parses one element of a Via header.
    ///
    /// # Errors
    /// [`Malformed`] when it does not follow the grammar.
    pub fn parse(text: &'a [u8]) -> Result<Self, Malformed> {
        // sent-protocol = name SLASH version SLASH transport, white space allowed around each slash.
        let first = text.iter().position(|&b| b == b'/').ok_or(Malformed)?;
        let second = first + 1 + text[first + 1..].iter().position(|&b| b == b'/').ok_or(Malformed)?;
        let (name, version) = (trim(&text[..first]), trim(&text[first + 1..second]));
        let start = second + 1 + text[second + 1..].iter().position(|&b| !is_lws(b)).ok_or(Malformed)?;
        let end = start + text[start..].iter().position(|&b| is_lws(b)).ok_or(Malformed)?;
        let transport = &text[start..end];
        if !name.eq_ignore_ascii_case(b"SIP") || version != b"2.0" || !is_token(transport) {
            return Err(Malformed);
        }
        let semicolon = end + text[end..].iter().position(|&b| b == b';').unwrap_or(text.len() - end);
        let sent_by = trim(&text[end..semicolon]);
        let (host, port) = parse_sent_by(sent_by)?;
        let params = Params(text.get(semicolon + 1..).unwrap_or(b""));
        params.check()?;
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
    /// `rport`, else `received`, else sent-by. `None` when that is a host name: DNS would be needed.
    pub fn response_addr(&self) -> Option<SocketAddr> {
        let sent_by_port = self.port.unwrap_or(5060);
        if let Some(maddr) = self.params.value("maddr") {
            return Some(SocketAddr::new(parse_ip(maddr)?, sent_by_port));
        }
        let ip = match self.params.value("received") {
            Some(received) => parse_ip(received)?,
            None => self.host.ip()?,
        };
        let rport = self
            .params
            .value("rport")
            .and_then(decimal)
            .and_then(|n| u16::try_from(n).ok())
            .filter(|&p| p > 0);
        Some(SocketAddr::new(ip, rport.unwrap_or(sent_by_port)))
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
        ] {
            assert_eq!(
                Via::parse(via.as_bytes()).unwrap().response_addr(),
                to.map(|t| t.parse().unwrap()),
                "{via}"
            );
        }
    }

    #[test]
    fn what_is_no_via_is_refused() {
        for via in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0/UDP ",
            "SIP/2.0 UDP h",
            "SIP/3.0/UDP h",
            "SIP/2.0/UDP h:x",
            "SIP/2.0/UDP h:99999",
            "SIP/2.0/UDP h;bra nch=1",
        ] {
            assert!(Via::parse(via.as_bytes()).is_err(), "{via}");
        }
    }
}
