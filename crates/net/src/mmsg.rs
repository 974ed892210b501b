//! The system calls for which no safe wrapper fits, each behind a safe function: `recvmmsg`, `sendmmsg`, three socket
//! options, and the CPU clock of another thread. The only file with `unsafe`.
//!
//! The message headers live on the stack and are written afresh for each call, so no pointer outlives the call that it
//! is made for. Only as many as the call needs are written: for a batch of one that is a few cache lines.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::thread::JoinHandle;

use libc::{c_int, c_uint, c_void, cmsghdr, iovec, mmsghdr, msghdr, sockaddr_in, sockaddr_in6, socklen_t};
use rustix::io::Errno;

/// The most datagrams of one system call.
pub(crate) const BATCH_MAX: usize = 128;

/// Room for a socket address of either family: `sockaddr_in` is the shorter one and no more strictly aligned.
type RawAddr = sockaddr_in6;
const _: () = assert!(
    size_of::<sockaddr_in>() <= size_of::<RawAddr>() && align_of::<sockaddr_in>() <= align_of::<RawAddr>()
);

/// Room for one control message with an `in_pktinfo` or an `in6_pktinfo`.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);
const CONTROL_BYTES: usize = 64;
const _: () = assert!(align_of::<cmsghdr>() <= align_of::<Control>());

/// One datagram that was received; its bytes are at the start of its slot.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Received {
    /// `None` when the kernel gave no address of a known family.
    pub(crate) peer: Option<SocketAddr>,
    /// The address at which it arrived, when the socket was asked to tell.
    pub(crate) local: Option<IpAddr>,
    pub(crate) len: usize,
    /// True when the datagram was longer than its slot.
    pub(crate) truncated: bool,
}

/// One datagram to send; `from` is the source address when the socket has to be told.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) peer: SocketAddr,
    pub(crate) from: Option<IpAddr>,
}

/// Receives what is there, without waiting: one datagram into each of `slots`, at most [`BATCH_MAX`]. Replaces the
/// contents of `into`. `with_local` asks for the local addresses.
pub(crate) fn receive<'a>(
    socket: impl AsFd,
    slots: impl Iterator<Item = &'a mut [u8]>,
    with_local: bool,
    into: &mut Vec<Received>,
) -> io::Result<()> {
    into.clear();
    let mut names = [const { MaybeUninit::<RawAddr>::uninit() }; BATCH_MAX];
    let mut vectors = [const { MaybeUninit::<iovec>::uninit() }; BATCH_MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH_MAX];
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH_MAX];
    let mut count = 0;
    for (slot, (((name, vector), control), header)) in
        slots.zip(names.iter_mut().zip(&mut vectors).zip(&mut controls).zip(&mut headers))
    {
        // SAFETY: every field of a socket address may be zero. Zeroed because the kernel may write less.
        name.write(unsafe { zeroed() });
        vector.write(iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
        let header = header.write(header_for(name, size_of::<RawAddr>() as socklen_t, vector));
        if with_local {
            header.msg_hdr.msg_control = control.write(Control([0; CONTROL_BYTES])).0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        count += 1;
    }
    // SAFETY: the first `count` headers are written, and so is all that they point to, which lives until the end of
    // this function (names, vectors, controls) or is borrowed mutably by `slots` (the buffers).
    let got = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as c_uint,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    for (header, name) in headers[..got].iter().zip(&names) {
        // SAFETY: these `got <= count` headers and names were written above.
        let (header, name) = unsafe { (header.assume_init_ref(), name.assume_init_ref()) };
        into.push(Received {
            peer: from_raw(name),
            // SAFETY: the control pointer and length are null and 0, or as the kernel left them.
            local: if with_local { unsafe { local_address(&header.msg_hdr) } } else { None },
            len: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        });
    }
    Ok(())
}

/// Sends the first messages, at most [`BATCH_MAX`], without waiting, and says how many the kernel took. An error is about
/// the first one.
pub(crate) fn send<'a>(socket: impl AsFd, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
    let mut names = [const { MaybeUninit::<RawAddr>::uninit() }; BATCH_MAX];
    let mut vectors = [const { MaybeUninit::<iovec>::uninit() }; BATCH_MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH_MAX];
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH_MAX];
    let mut count = 0;
    for (message, (((name, vector), control), header)) in
        messages.zip(names.iter_mut().zip(&mut vectors).zip(&mut controls).zip(&mut headers))
    {
        let name_len = to_raw(message.peer, name);
        // The kernel only reads what a sent header points to.
        vector.write(iovec {
            iov_base: message.bytes.as_ptr().cast_mut().cast(),
            iov_len: message.bytes.len(),
        });
        let header = header.write(header_for(name, name_len, vector));
        if let Some(from) = message.from {
            set_source(&mut header.msg_hdr, control.write(Control([0; CONTROL_BYTES])), from);
        }
        count += 1;
    }
    // SAFETY: the first `count` headers are written, and so is all that they point to, which lives until the end of
    // this function (names, vectors, controls) or is borrowed by `messages` for longer (the bytes).
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A header with an address and one buffer, without control messages.
fn header_for(
    name: &mut MaybeUninit<RawAddr>,
    name_len: socklen_t,
    vector: &mut MaybeUninit<iovec>,
) -> mmsghdr {
    // SAFETY: null pointers and zero lengths are a valid header. Zeroed because some libcs have private padding in it.
    let mut header: mmsghdr = unsafe { zeroed() };
    header.msg_hdr.msg_name = name.as_mut_ptr().cast();
    header.msg_hdr.msg_namelen = name_len;
    header.msg_hdr.msg_iov = vector.as_mut_ptr();
    header.msg_hdr.msg_iovlen = 1;
    header
}

fn from_raw(raw: &RawAddr) -> Option<SocketAddr> {
    match c_int::from(raw.sin6_family) {
        libc::AF_INET => {
            // SAFETY: a `sockaddr_in` fits into a `RawAddr` (asserted above), which is initialised, and any bytes are one.
            let raw = unsafe { &*ptr::from_ref(raw).cast::<sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(raw.sin_port))))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), 0, raw.sin6_scope_id)))
        }
        _ => None,
    }
}

fn to_raw(addr: SocketAddr, into: &mut MaybeUninit<RawAddr>) -> socklen_t {
    match addr {
        SocketAddr::V4(addr) => {
            let raw = sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: addr.port().to_be(),
                sin_addr: in_addr(*addr.ip()),
                sin_zero: [0; 8],
            };
            // SAFETY: a `sockaddr_in` fits into a `RawAddr` (asserted above).
            unsafe { into.as_mut_ptr().cast::<sockaddr_in>().write(raw) };
            size_of::<sockaddr_in>() as socklen_t
        }
        SocketAddr::V6(addr) => {
            into.write(sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: addr.port().to_be(),
                sin6_flowinfo: addr.flowinfo(),
                sin6_addr: in6_addr(*addr.ip()),
                sin6_scope_id: addr.scope_id(),
            });
            size_of::<sockaddr_in6>() as socklen_t
        }
    }
}

fn in_addr(ip: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) }
}

fn in6_addr(ip: Ipv6Addr) -> libc::in6_addr {
    libc::in6_addr { s6_addr: ip.octets() }
}

/// The address at which a datagram arrived, from its packet information: for IPv4 the local address that answers it,
/// which for a broadcast is not its destination.
///
/// # Safety
/// The control pointer and length of `header` must describe initialised memory, aligned as a [`Control`].
unsafe fn local_address(header: &msghdr) -> Option<IpAddr> {
    // SAFETY: the macros stay within the control length, which the kernel set to what it wrote; the packet information
    // of a control message with these levels and types is a struct of that type, read unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = control.as_ref() {
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = libc::CMSG_DATA(control).cast::<libc::in_pktinfo>().read_unaligned();
                    return Some(IpAddr::V4(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes())));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = libc::CMSG_DATA(control).cast::<libc::in6_pktinfo>().read_unaligned();
                    return Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
                }
                _ => control = libc::CMSG_NXTHDR(header, control),
            }
        }
    }
    None
}

/// Gives a header the control message that sets the source address; the interface is left to the kernel.
fn set_source(header: &mut msghdr, control: &mut Control, from: IpAddr) {
    match from {
        IpAddr::V4(ip) => {
            let any = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: in_addr(ip), ipi_addr: any };
            set_control(header, control, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        IpAddr::V6(ip) => {
            let info = libc::in6_pktinfo { ipi6_addr: in6_addr(ip), ipi6_ifindex: 0 };
            set_control(header, control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
}

fn set_control<T: Copy>(header: &mut msghdr, control: &mut Control, level: c_int, kind: c_int, data: T) {
    // SAFETY: the macro only computes.
    let (space, len) = unsafe {
        (
            libc::CMSG_SPACE(size_of::<T>() as c_uint) as usize,
            libc::CMSG_LEN(size_of::<T>() as c_uint) as usize,
        )
    };
    assert!(space <= CONTROL_BYTES, "a control message of {space} bytes does not fit");
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = space as _;
    // SAFETY: the control memory is aligned, zeroed and, as asserted, long enough for this one message, so the first
    // header exists and the data after it lies inside.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = len as _;
        libc::CMSG_DATA(message).cast::<T>().write_unaligned(data);
    }
}

fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
    let len = size_of::<c_int>() as socklen_t;
    // SAFETY: the value is an int that lives through the call, and its length is given.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Asks for the local address with every datagram.
pub(crate) fn set_receive_packet_info(fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), Errno> {
    let (level, name) = match ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    set_option(fd, level, name, 1)
}

/// Sets SO_BUSY_POLL.
pub(crate) fn set_busy_poll_us(fd: BorrowedFd<'_>, us: u32) -> Result<(), Errno> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, c_int::try_from(us).unwrap_or(c_int::MAX))
}

/// How many datagrams the kernel has dropped at this socket, modulo 2³² (SO_MEMINFO, Linux 4.12). `None` when the kernel
/// does not tell.
pub(crate) fn kernel_drops(socket: impl AsFd) -> Option<u32> {
    /// `SK_MEMINFO_DROPS` and `SK_MEMINFO_VARS` of linux/sock_diag.h.
    const DROPS: usize = 8;
    const VARS: usize = 9;
    let mut info = [0u32; VARS];
    let mut len = size_of_val(&info) as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into the array and then how many it wrote into `len`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    };
    (result == 0 && len as usize == size_of_val(&info)).then(|| info[DROPS])
}

/// The CPU time of a thread, in nanoseconds; `None` when it has ended.
pub(crate) fn cpu_nanos<T>(thread: &JoinHandle<T>) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the thread has a handle, so it is neither joined nor detached and its `pthread_t` is valid; the results
    // are written into variables of the right type.
    let known = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t() as _, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let time = rustix::time::Timespec { tv_sec: time.tv_sec as _, tv_nsec: time.tv_nsec as _ };
    known.then(|| crate::clock::nanos(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_the_kernel_and_back() {
        for text in ["127.0.0.1:5060", "255.1.2.3:65535", "0.0.0.0:0", "[::1]:5060", "[fe80::1%7]:5061"] {
            let addr: SocketAddr = text.parse().unwrap();
            // SAFETY: every field of a socket address may be zero.
            let mut raw = MaybeUninit::new(unsafe { zeroed() });
            to_raw(addr, &mut raw);
            // SAFETY: initialised above.
            assert_eq!(from_raw(unsafe { raw.assume_init_ref() }), Some(addr));
        }
    }

    #[test]
    fn an_unknown_family_is_no_address() {
        // SAFETY: every field of a socket address may be zero.
        assert_eq!(from_raw(&unsafe { zeroed() }), None);
    }

    #[test]
    fn a_source_address_survives_the_way_into_a_header_and_back() {
        for from in ["127.0.0.2", "::1"] {
            let from: IpAddr = from.parse().unwrap();
            let mut control = Control([0; CONTROL_BYTES]);
            let (mut name, mut vector) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            let mut header = header_for(&mut name, 0, &mut vector);
            set_source(&mut header.msg_hdr, &mut control, from);
            // SAFETY: the header points to the control memory above.
            assert_eq!(unsafe { local_address(&header.msg_hdr) }, Some(from));
        }
    }
}
