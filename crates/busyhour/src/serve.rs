//! What every command that keeps a cluster running does: watch for signals, look after the parts, drain, say goodbye.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use busyhour_control::cluster::Cluster;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// How often the cluster is asked for its figures and the database for changes.
const TICK: Duration = Duration::from_millis(500);
/// How long calls that are being set up may take when the cluster is told to stop: Timer B, after which a transaction
/// without an answer is over.
const DRAIN_MAX: Duration = Duration::from_secs(32);

/// Runs a cluster until an order to stop, and then drains it. `look` is called now and then for what else there is to see
/// to.
pub(crate) fn run(
    cluster: &mut Cluster,
    signals: &Signals,
    out: &mut impl Write,
    mut look: impl FnMut(&Cluster) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut drops = Drops::default();
    while signals.count() == 0 {
        cluster.tick();
        drops.look(cluster);
        if let Some(name) = cluster.crashed().first() {
            return Err(Failure::Run(anyhow!(
                "{name} has ended by itself, which is a bug; its message is above"
            )));
        }
        look(cluster)?;
        std::thread::park_timeout(TICK);
    }
    drain(cluster, signals, out)
}

/// Counts the orders to stop: the first drains, the second ends at once.
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Watches from here on.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
            .context("signals cannot be watched")
            .map_err(Failure::Run)?;
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, owner) = (count.clone(), std::thread::current());
        let watch = move || {
            for _ in signals.forever() {
                counted.fetch_add(1, Ordering::Relaxed);
                owner.unpark();
            }
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(watch);
        thread.context("no thread to watch for signals").map_err(Failure::Run)?;
        Ok(Signals(count))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The address that others are told when the balancer listens on all of them.
pub(crate) fn advertised(listen: SocketAddr) -> Result<IpAddr, Failure> {
    if !listen.ip().is_unspecified() {
        return Ok(listen.ip());
    }
    // Connecting a UDP socket sends nothing; it only chooses the address that packets to the outside would come from.
    // The address connected to is one of those that documentation uses (RFC 5737, RFC 3849).
    let outside = if listen.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let chosen = std::net::UdpSocket::bind(SocketAddr::new(listen.ip(), 0)).and_then(|socket| {
        socket.connect(outside)?;
        socket.local_addr()
    });
    match chosen {
        Ok(address) if !address.ip().is_unspecified() => Ok(address.ip()),
        Ok(_) | Err(_) => Err(Failure::Run(anyhow!(
            "listen = {listen} means every address of this machine, but it has none that leads outside; \
             give the address that phones can reach, such as --listen 192.168.1.10:{}",
            listen.port()
        ))),
    }
}

/// Logs what was dropped, at most once in a while: whoever sends rubbish must not be able to fill a disk.
#[derive(Default)]
struct Drops {
    logged: u64,
    last: Option<Instant>,
}

impl Drops {
    const EVERY: Duration = Duration::from_secs(10);

    fn look(&mut self, cluster: &Cluster) {
        let dropped = cluster.status().dropped();
        let total: u64 = dropped.values().sum();
        if total == self.logged || self.last.is_some_and(|at| at.elapsed() < Self::EVERY) {
            return;
        }
        let since = total - self.logged.min(total);
        (self.logged, self.last) = (total, Some(Instant::now()));
        tracing::warn!("{since} messages dropped; since the start: {}", listed(&dropped));
    }
}

fn listed(dropped: &BTreeMap<&str, u64>) -> String {
    let each: Vec<String> = dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    each.join(", ")
}

/// What the cluster has done, for the last words.
fn figures(cluster: &Cluster) -> String {
    let [requests, invites, registers] = cluster.status().handled();
    let mut text = format!("{requests} requests, of them {invites} INVITEs and {registers} REGISTERs");
    let dropped = cluster.status().dropped();
    if !dropped.is_empty() {
        text += &format!("; dropped: {}", listed(&dropped));
    }
    text
}

/// Lets calls that are being set up come to their end. A second order to stop ends it at once.
fn drain(cluster: &mut Cluster, signals: &Signals, out: &mut impl Write) -> Result<(), Failure> {
    cluster.drain();
    let started = Instant::now();
    let mut told = false;
    loop {
        cluster.tick();
        std::thread::sleep(Duration::from_millis(100));
        cluster.tick();
        let open = cluster.open_transactions();
        if open == 0 || signals.count() > 1 || started.elapsed() > DRAIN_MAX {
            let text = match open {
                0 => "stopped".to_owned(),
                1 => "stopped with one request unanswered".to_owned(),
                n => format!("stopped with {n} requests unanswered"),
            };
            return say(out, &format!("{text}: {}\n", figures(cluster)));
        }
        if !told {
            told = true;
            say(
                out,
                &format!("\nno new calls; requests that wait for an answer: {open} (Ctrl-C stops at once)\n"),
            )?;
        }
    }
}

fn say(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::of_output(error)),
    }
}
