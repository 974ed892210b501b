//! Settings of a proxy.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use busyhour_sip::value::{Host, SipUri, Via};

use crate::transactions;

/// Settings of a proxy and registrar. What a driver or a file gives; checked by whoever reads the file.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address that this proxy is reached at: sent-by of its Via, host of its Record-Route.
    pub address: SocketAddr,
    /// The domains it is responsible for, besides its own address.
    pub domains: Vec<Domain>,
    /// Whether it stays on the path of dialogs that it helped to set up.
    pub record_route: bool,
    /// Methods of initial requests that need credentials, besides REGISTER if that is listed.
    pub authenticate: Vec<String>,
    /// Where requests go that are for nobody here and name no address themselves: a fixed next hop.
    pub next_hop: Option<SocketAddr>,
    /// Members of the cluster: what they say in the Via that they put on top is believed.
    pub trusted: Vec<SocketAddr>,
    /// Max-Forwards for requests that come without one (RFC 3261 section 16.6 step 3).
    pub max_forwards: u8,
    /// Max-Breadth for requests that come without one (RFC 5393 section 5.3.3).
    pub max_breadth: u32,
    /// How long an INVITE that has had a provisional response may ring (section 16.6 step 11): more than 3 minutes.
    pub timer_c: Duration,
    /// Limits and timers of the transaction layer.
    pub transactions: transactions::Config,
}

/// A domain that a proxy is responsible for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A host name, in lower case. Any port.
    Name(String),
    /// An address; `None` is any port.
    Address(IpAddr, Option<u16>),
}

impl Domain {
    /// The domain that a text names: an address, an address with port, or a host name.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(addr) = text.parse::<SocketAddr>() {
            return Some(Domain::Address(addr.ip(), Some(addr.port())));
        }
        match Host::parse_with_port(text.as_bytes()).ok()? {
            (Host::Ip(ip), port) => Some(Domain::Address(ip, port)),
            (Host::Name(_), None) => Some(Domain::Name(text.to_ascii_lowercase())),
            (Host::Name(_), Some(_)) => None,
        }
    }

    fn covers(&self, uri: &SipUri<'_>) -> bool {
        match (self, uri.host) {
            (Domain::Name(name), host @ Host::Name(_)) => host == Host::Name(name.as_bytes()),
            (Domain::Address(ip, port), Host::Ip(host)) => {
                *ip == host && port.is_none_or(|p| p == uri.port_or_default())
            }
            (Domain::Name(_), Host::Ip(_)) | (Domain::Address(..), Host::Name(_)) => false,
        }
    }
}

impl Config {
    /// Whether this proxy is responsible for a URI's domain.
    pub fn is_own(&self, uri: &SipUri<'_>) -> bool {
        self.is_own_address(uri) || self.domains.iter().any(|d| d.covers(uri))
    }

    /// Whether a URI names this very proxy.
    pub fn is_own_address(&self, uri: &SipUri<'_>) -> bool {
        uri.host.ip() == Some(self.address.ip()) && uri.port_or_default() == self.address.port()
    }

    /// Whether a Via is one that this very proxy put in.
    pub(super) fn is_own_via(&self, via: &Via<'_>) -> bool {
        via.host.ip() == Some(self.address.ip()) && via.port.unwrap_or(5060) == self.address.port()
    }
}
