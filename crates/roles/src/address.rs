//! Which addresses a role sends to.

use std::net::{IpAddr, SocketAddr};

/// Whether a datagram can be sent to `address` from a socket of the family of `local`: one peer, and a port.
pub(crate) fn is_sendable(address: SocketAddr, local: SocketAddr) -> bool {
    let ip = address.ip();
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    address.port() != 0
        && !ip.is_unspecified()
        && !ip.is_multicast()
        && !broadcast
        && address.is_ipv4() == local.is_ipv4()
}
