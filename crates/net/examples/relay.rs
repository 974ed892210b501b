//! The least that a node can do on this driver: every datagram is sent on unchanged. What comes from the caller's address
//! goes to the callee, everything else to the caller. Compare it with a relay that has no driver to see what the driver
//! costs.
//!
//!     cargo run --release -p busyhour-net --example relay -- [LISTEN [CALLER [CALLEE [CORE]]]]
//!
//! Runs until it is killed; prints its counters once a second while there is traffic.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Flow, Instant, Message, Node, Sink};
use busyhour_net::{Clock, Inbox, SocketOptions, UdpSocket, Worker, WorkerOptions};

struct Relay {
    caller: SocketAddr,
    callee: SocketAddr,
}

impl Node for Relay {
    type Command = ();
    type Event = ();

    fn handle_message(&mut self, _: Instant, message: Message<'_>, out: &mut impl Sink) {
        let peer = if message.flow.peer.ip() == self.caller.ip() { self.callee } else { self.caller };
        // A full batch is counted by the driver; a relay has nothing to add.
        let _ = out.send_bytes(Flow { local: message.flow.local, peer }, message.bytes);
    }

    fn handle_command(&mut self, _: Instant, (): (), _: &mut impl Sink) {}

    fn handle_timeout(&mut self, _: Instant, _: &mut impl Sink) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut addr = |default: &str| args.next().as_deref().unwrap_or(default).parse::<SocketAddr>();
    let (listen, caller, callee) =
        (addr("127.0.1.1:5060")?, addr("127.0.1.2:5060")?, addr("127.0.1.11:5060")?);
    let core = args.next().map(|core| core.parse()).transpose()?;
    let socket = UdpSocket::bind(listen, &SocketOptions::default())?;
    let (inbox, options) = (Inbox::new(1)?, WorkerOptions { core, ..WorkerOptions::default() });
    let relay = Worker::spawn_with(
        "relay",
        socket,
        Relay { caller, callee },
        Clock::start(),
        |_, ()| {},
        inbox,
        &options,
    )?;
    eprintln!("relaying on {}", relay.local_addr());
    let mut shown = relay.stats();
    while !relay.is_finished() {
        std::thread::sleep(Duration::from_secs(1));
        let stats = relay.stats();
        let datagrams = stats.rx_datagrams - shown.rx_datagrams;
        if datagrams > 0 {
            let cpu_us = (stats.cpu_nanos - shown.cpu_nanos) as f64 / 1e3;
            eprintln!(
                "{datagrams} datagrams, {:.2} us of CPU each, {:.1} per receive call, {} wake-ups, {} dropped",
                cpu_us / datagrams as f64,
                datagrams as f64 / (stats.rx_batches - shown.rx_batches).max(1) as f64,
                stats.wakeups - shown.wakeups,
                stats.rx_kernel_drops + stats.tx_dropped + stats.tx_refused + stats.tx_errors,
            );
        }
        shown = stats;
    }
    relay.join();
    Ok(())
}
