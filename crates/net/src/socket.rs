//! Opening UDP sockets, and saying what to do when that fails.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::mmsg;

/// How a socket is opened.
#[derive(Copy, Clone, Debug)]
pub struct SocketOptions {
    /// How many bytes of received datagrams the kernel may keep for the worker (SO_RCVBUF). Each datagram counts with
    /// the kernel's bookkeeping, about 1 to 2 KiB for a SIP message. More than `net.core.rmem_max` needs CAP_NET_ADMIN.
    pub receive_buffer_bytes: usize,
    /// How many bytes of sent datagrams the kernel may keep for the network device (SO_SNDBUF), with the same limits.
    pub send_buffer_bytes: usize,
    /// Lets several sockets of this user share the address; the kernel spreads peers over them (SO_REUSEPORT).
    pub reuse_port: bool,
    /// How long, in microseconds, the kernel polls the network device before it sleeps (SO_BUSY_POLL); `None` leaves
    /// it to the system's setting. Has no effect on loopback.
    pub busy_poll_us: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 4 << 20,
            reuse_port: false,
            busy_poll_us: None,
        }
    }
}

/// An open UDP socket: bound, unconnected, non-blocking.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    local: SocketAddr,
    receive_buffer_bytes: usize,
    send_buffer_bytes: usize,
}

impl UdpSocket {
    /// Opens a socket and binds it to `addr`; port 0 lets the kernel choose one. A socket bound to a wildcard address
    /// learns of each datagram at which address it arrived (IP_PKTINFO, IPV6_RECVPKTINFO). Sockets bound to an IPv6
    /// address carry IPv6 only.
    ///
    /// # Errors
    /// [`BindError`]. A buffer smaller than asked for is not an error: see [`UdpSocket::receive_buffer_bytes`].
    pub fn bind(addr: SocketAddr, options: &SocketOptions) -> Result<Self, BindError> {
        let fail = |errno: Errno| BindError::new(addr, errno);
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None).map_err(fail)?;
        if addr.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true).map_err(fail)?;
        }
        if options.reuse_port {
            sockopt::set_socket_reuseport(&fd, true).map_err(fail)?;
        }
        if let Some(us) = options.busy_poll_us {
            mmsg::set_busy_poll_us(fd.as_fd(), us).map_err(fail)?;
        }
        if addr.ip().is_unspecified() {
            mmsg::set_receive_packet_info(fd.as_fd(), addr.is_ipv6()).map_err(fail)?;
        }
        set_receive_buffer(&fd, options.receive_buffer_bytes).map_err(fail)?;
        set_send_buffer(&fd, options.send_buffer_bytes).map_err(fail)?;
        rustix::net::bind(&fd, &addr).map_err(fail)?;
        let local = rustix::net::getsockname(&fd).and_then(SocketAddr::try_from).map_err(fail)?;
        // The kernel doubles what was asked for, to make room for its bookkeeping.
        let receive_buffer_bytes = sockopt::socket_recv_buffer_size(&fd).map_err(fail)? / 2;
        let send_buffer_bytes = sockopt::socket_send_buffer_size(&fd).map_err(fail)? / 2;
        if receive_buffer_bytes < options.receive_buffer_bytes {
            tracing::warn!(
                %local,
                asked_bytes = options.receive_buffer_bytes,
                granted_bytes = receive_buffer_bytes,
                "the receive buffer is smaller than asked for: bursts may be dropped; raise net.core.rmem_max or \
                 give the process CAP_NET_ADMIN"
            );
        }
        Ok(UdpSocket { fd, local, receive_buffer_bytes, send_buffer_bytes })
    }

    /// The address that the socket is bound to, with the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The receive buffer that the kernel granted, in the unit of [`SocketOptions::receive_buffer_bytes`].
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// The send buffer that the kernel granted, in the unit of [`SocketOptions::send_buffer_bytes`].
    pub fn send_buffer_bytes(&self) -> usize {
        self.send_buffer_bytes
    }

    /// True when datagrams to any address of the machine arrive here.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sets the receive buffer past the system's limit where the process may, and up to the limit otherwise.
fn set_receive_buffer(fd: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    sockopt::set_socket_recv_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, bytes))
}

/// As [`set_receive_buffer`], for sending.
fn set_send_buffer(fd: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    sockopt::set_socket_send_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, bytes))
}

/// Why a socket could not be opened. Its text is a sentence that says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket has the address.
    PortInUse {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The port is privileged, or the system forbids it.
    NoPermission {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// No interface of this machine has the address.
    AddressNotHere {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The machine has no IPv6.
    FamilyNotHere {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The process has as many open files as it may have.
    TooManyOpenFiles {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// Something else that the kernel said.
    Other {
        /// The address that was asked for.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BindError {
    fn new(addr: SocketAddr, errno: Errno) -> Self {
        match errno {
            Errno::ADDRINUSE => BindError::PortInUse { addr },
            Errno::ACCESS | Errno::PERM => BindError::NoPermission { addr },
            Errno::ADDRNOTAVAIL => BindError::AddressNotHere { addr },
            Errno::AFNOSUPPORT => BindError::FamilyNotHere { addr },
            Errno::MFILE | Errno::NFILE => BindError::TooManyOpenFiles { addr },
            other => BindError::Other { addr, source: other.into() },
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::PortInUse { addr } => write!(
                f,
                "UDP {addr} is in use by another socket: stop the program that has it (`ss -ulpn 'sport = :{}'` names \
                 it) or choose another port",
                addr.port()
            ),
            BindError::NoPermission { addr } if addr.port() != 0 && addr.port() < 1024 => write!(
                f,
                "no permission to open UDP {addr}: ports below 1024 need CAP_NET_BIND_SERVICE; grant it or choose a \
                 port from 1024 on"
            ),
            BindError::NoPermission { addr } => write!(
                f,
                "no permission to open UDP {addr}: the system's security policy forbids it; allow it there or choose \
                 another address"
            ),
            BindError::AddressNotHere { addr } => write!(
                f,
                "cannot open UDP {addr}: no interface of this machine has the address {}; choose one that `ip address` \
                 lists, or {} for all",
                addr.ip(),
                if addr.is_ipv4() { "0.0.0.0" } else { "[::]" }
            ),
            BindError::FamilyNotHere { addr } => write!(
                f,
                "cannot open UDP {addr}: this machine has no {}; enable it or choose an address of the other family",
                if addr.is_ipv4() { "IPv4" } else { "IPv6" }
            ),
            BindError::TooManyOpenFiles { addr } => write!(
                f,
                "cannot open UDP {addr}: the process has as many open files as it may have; raise the limit \
                 (`ulimit -n`) or start fewer workers"
            ),
            BindError::Other { addr, source } => write!(f, "cannot open UDP {addr}: {source}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Other { source, .. } => Some(source),
            BindError::PortInUse { .. }
            | BindError::NoPermission { .. }
            | BindError::AddressNotHere { .. }
            | BindError::FamilyNotHere { .. }
            | BindError::TooManyOpenFiles { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(addr: &str) -> String {
        UdpSocket::bind(addr.parse().unwrap(), &SocketOptions::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_port_in_use_is_named_with_what_to_do() {
        let first =
            UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &SocketOptions::default()).unwrap().local_addr();
        // The first socket is closed by here, so the address is free again: hold it and ask a second time.
        let held = UdpSocket::bind(first, &SocketOptions::default()).unwrap();
        let text = refusal(&held.local_addr().to_string());
        assert!(text.starts_with(&format!("UDP {first} is in use")), "{text}");
        assert!(text.contains(&format!("sport = :{}", first.port())), "{text}");
    }

    #[test]
    fn an_address_of_another_machine_is_named_with_what_to_do() {
        // 192.0.2.0/24 is for documentation (RFC 5737), so no machine has it.
        let text = refusal("192.0.2.1:5060");
        assert!(text.contains("no interface of this machine has the address 192.0.2.1"), "{text}");
        assert!(text.contains("0.0.0.0"), "{text}");
    }

    #[test]
    fn what_the_kernel_may_say_becomes_a_sentence() {
        let text = |addr: &str, errno| BindError::new(addr.parse().unwrap(), errno).to_string();
        assert!(text("127.0.0.1:80", Errno::ACCESS).contains("CAP_NET_BIND_SERVICE"));
        assert!(text("127.0.0.1:5060", Errno::PERM).contains("security policy"));
        assert!(text("[::1]:5060", Errno::AFNOSUPPORT).contains("no IPv6"));
        assert!(text("127.0.0.1:5060", Errno::MFILE).contains("ulimit"));
        assert!(text("127.0.0.1:5060", Errno::NOMEM).starts_with("cannot open UDP 127.0.0.1:5060: "));
    }

    #[test]
    fn reuse_port_shares_an_address() {
        let shared = SocketOptions { reuse_port: true, ..SocketOptions::default() };
        let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &shared).unwrap();
        let second = UdpSocket::bind(first.local_addr(), &shared).unwrap();
        assert_eq!(first.local_addr(), second.local_addr());
        let alone = UdpSocket::bind(first.local_addr(), &SocketOptions::default());
        assert!(matches!(alone, Err(BindError::PortInUse { .. })));
    }

    #[test]
    fn the_granted_buffer_is_reported_in_the_unit_of_the_request() {
        let options = SocketOptions { receive_buffer_bytes: 64 << 10, ..SocketOptions::default() };
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        assert_eq!(socket.receive_buffer_bytes(), 64 << 10);
    }
}
