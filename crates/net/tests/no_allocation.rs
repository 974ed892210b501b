//! In steady state a forwarded message costs no heap allocation, on the whole way through the driver.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use busyhour_engine::{Flow, Instant, Message, Node, Sink};
use busyhour_net::{Clock, SocketOptions, UdpSocket, Worker};

thread_local! {
    /// True on the worker's thread once it is warm.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WATCHED.try_with(Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the tests order the relay to do with the count.
enum Watch {
    Start,
    /// Also proves that the count works.
    AllocateAndStop,
}

/// Forwards what comes from `caller` to `callee` and everything else to `caller`; one event per message.
struct Relay {
    caller: SocketAddr,
    callee: SocketAddr,
    event: Option<()>,
}

impl Node for Relay {
    type Command = Watch;
    type Event = ();

    fn handle_message(&mut self, _: Instant, message: Message<'_>, out: &mut impl Sink) {
        let peer = if message.flow.peer == self.caller { self.callee } else { self.caller };
        self.event = Some(());
        out.send_bytes(Flow { local: message.flow.local, peer }, message.bytes).expect("room");
    }

    fn handle_command(&mut self, _: Instant, watch: Watch, _: &mut impl Sink) {
        match watch {
            Watch::Start => WATCHED.set(true),
            Watch::AllocateAndStop => {
                drop(std::hint::black_box(Box::new(7u64)));
                WATCHED.set(false);
            }
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut impl Sink) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll_event(&mut self) -> Option<()> {
        self.event.take()
    }
}

#[test]
fn a_forwarded_message_costs_no_allocation() {
    let open = || {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let (caller, callee) = (open(), open());
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &SocketOptions::default()).unwrap();
    let node =
        Relay { caller: caller.local_addr().unwrap(), callee: callee.local_addr().unwrap(), event: None };
    let relay = Worker::spawn("relay", socket, node, Clock::start(), |_, ()| {}).unwrap();
    let mut buf = [0; 2_048];
    // There and back, alone and in bursts, short and long; a burst fits into the peers' default receive buffers.
    let mut traffic = |rounds: usize| {
        for round in 0..rounds {
            let burst = 1 + round % 64;
            for (from, to) in [(&caller, &callee), (&callee, &caller)] {
                for n in 0..burst {
                    from.send_to(&[n as u8; 2_000][..200 + 18 * n], relay.local_addr()).unwrap();
                }
                for n in 0..burst {
                    assert_eq!(to.recv(&mut buf).unwrap(), 200 + 18 * n);
                }
            }
        }
    };
    traffic(128);
    relay.command(Watch::Start).unwrap();
    traffic(512);
    assert_eq!(ALLOCATIONS.load(Relaxed), 0);
    relay.command(Watch::AllocateAndStop).unwrap();
    let messages = relay.stats().rx_datagrams;
    relay.join();
    assert_eq!(messages, 640 * 65, "every message went through the relay");
    assert_eq!(ALLOCATIONS.load(Relaxed), 1, "the count counts");
}
