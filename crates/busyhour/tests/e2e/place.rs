//! Addresses for tests that run side by side, and waiting for things.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::wire::Phone;

/// An address of the loopback network that no other test has, of this process or of another: every port of it is free.
pub(crate) fn address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(number < 255, "more than 254 addresses are asked for");
    // 127.0 and 127.1 are what others use.
    IpAddr::V4(Ipv4Addr::new(127, 2 + (process >> 8) as u8 % 250, process as u8, number))
}

/// A port of its own loopback address.
pub(crate) fn socket(port: u16) -> SocketAddr {
    SocketAddr::new(address(), port)
}

/// Waits until something is there; `what` names it when it does not come in time.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a UDP socket is bound to the address, as the kernel lists them.
pub(crate) fn is_bound(address: SocketAddr) -> bool {
    let SocketAddr::V4(v4) = address else { panic!("{address} is not IPv4") };
    let entry = format!(" {:08X}:{:04X} ", u32::from_le_bytes(v4.ip().octets()), v4.port());
    std::fs::read_to_string("/proc/net/udp").expect("the kernel lists its sockets").contains(&entry)
}

/// Waits until something answers an OPTIONS at the address; `check` is asked between the attempts.
#[track_caller]
pub(crate) fn wait_until_answered(address: SocketAddr, mut check: impl FnMut()) {
    let phone = Phone::at(socket(5060));
    let mut cseq = 0;
    wait_for(&format!("an answer of {address}"), Duration::from_secs(30), || {
        check();
        cseq += 1;
        phone.send(address, phone.request("OPTIONS", &format!("sip:{address}"), "ready", cseq, ""));
        phone.hear(Duration::from_millis(100)).map(drop)
    });
}

/// The last lines of a text, for messages.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
