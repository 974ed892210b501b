//! The world of real sockets: a cluster in this process, and the fleet on a thread and a socket of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use busyhour_control::cluster::{Addresses, Cluster, Endpoint};
use busyhour_control::secret::ClusterSecret;
use busyhour_engine::Instant;
use busyhour_net::{Clock, CommandRefused, Handle, SocketOptions, UdpSocket, Worker};
use busyhour_roles::ua::{self, Fleet};

use crate::experiment::{Experiment, FaultKind, Target};
use crate::measure::{GeneratorSample, ProxySample};

use super::fleet;
use super::world::{RunError, World};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The receive buffer of every socket.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// How often the cluster is asked for its figures.
const TICK: Duration = Duration::from_millis(500);

pub(super) struct Sockets {
    cluster: Cluster,
    clock: Clock,
    fleet: Handle<Fleet>,
    events: Receiver<ua::Event>,
    next_tick: Instant,
    /// Time and CPU time of the fleet at the last sample.
    generator_before: (Instant, u64),
    /// Proxies that are to leave once they have nothing left to do.
    leaving: Vec<String>,
    /// What is to be done later: when, and to which proxy.
    restarts: Vec<(Instant, String)>,
    receive_buffer_bytes: usize,
}

impl Sockets {
    pub(super) fn start(experiment: &Experiment, repetition: u32) -> Result<Self, RunError> {
        check_faults(experiment)?;
        let any = SocketAddr::new(LOOPBACK, 0);
        let topology = &experiment.topology;
        let buffer =
            |bytes: Option<u64>| bytes.and_then(|b| usize::try_from(b).ok()).unwrap_or(RECEIVE_BUFFER_BYTES);
        let users = fleet::users(experiment);
        let settings = fleet::settings(experiment);
        let timers = settings.timers;
        let addresses = Addresses {
            balancers: vec![Endpoint::at(any); topology.balancers as usize],
            proxies: vec![any; topology.proxies as usize],
            receive_buffer_bytes: buffer(topology.proxy.receive_buffer_bytes),
            ..Addresses::default()
        };
        let cluster =
            Cluster::start(settings, ClusterSecret::generate(), fleet::directory(&users), &addresses)
                .map_err(|e| RunError::new(e.to_string()))?;
        let options =
            SocketOptions { receive_buffer_bytes: RECEIVE_BUFFER_BYTES, ..SocketOptions::default() };
        let socket = UdpSocket::bind(any, &options).map_err(|e| RunError::new(e.to_string()))?;
        let receive_buffer_bytes = socket.receive_buffer_bytes();
        let mut outbound: Vec<SocketAddr> = cluster.balancers().map(|(_, address)| address).collect();
        if outbound.is_empty() {
            outbound = cluster.proxies().map(|(_, address)| address).collect();
        }
        let config = fleet::config(experiment, users, socket.local_addr(), outbound, timers);
        let node = Fleet::new(config, experiment.seed_of(repetition) ^ FLEET_SEED);
        let (tell, events) = channel();
        let on_event = move |_, event| {
            // Nobody listens any more once the run is over.
            let _ = tell.send(event);
        };
        let clock = cluster.clock();
        let fleet = Worker::spawn("phones", socket, node, clock, on_event)
            .map_err(|e| RunError::new(e.to_string()))?;
        let now = clock.now();
        Ok(Sockets {
            cluster,
            clock,
            fleet,
            events,
            next_tick: now,
            generator_before: (now, 0),
            leaving: Vec::new(),
            restarts: Vec::new(),
            receive_buffer_bytes,
        })
    }

    /// What has to be seen to now and then.
    fn tick(&mut self, now: Instant) -> Result<(), RunError> {
        self.cluster.tick();
        self.next_tick = now + TICK;
        if self.fleet.is_finished() {
            return Err(RunError::new(
                "the phones have ended by themselves, which is a bug; its message is above",
            ));
        }
        if let Some(name) = self.cluster.crashed().first() {
            return Err(RunError::new(format!(
                "{name} has ended by itself, which is a bug; its message is above"
            )));
        }
        let due: Vec<String> =
            self.restarts.iter().filter(|(at, _)| *at <= now).map(|(_, name)| name.clone()).collect();
        self.restarts.retain(|(at, _)| *at > now);
        for name in due {
            self.cluster.restart_proxy(&name).map_err(|e| RunError::new(e.to_string()))?;
        }
        let drained: Vec<String> =
            self.leaving.iter().filter(|name| self.cluster.is_drained(name)).cloned().collect();
        for name in drained {
            self.leaving.retain(|n| *n != name);
            self.cluster.remove_proxy(&name).map_err(|e| RunError::new(e.to_string()))?;
        }
        Ok(())
    }
}

/// Keeps the fleet's draws apart from those of the load.
const FLEET_SEED: u64 = 0x666c_6565_7400_0000;

/// What cannot be done to threads of this process is refused before the run starts.
fn check_faults(experiment: &Experiment) -> Result<(), RunError> {
    let possible = |kind: FaultKind| match kind {
        FaultKind::Kill { node: Target::Proxy(_), .. } | FaultKind::Drain { .. } | FaultKind::Add { .. } => {
            true
        }
        FaultKind::Kill { node: Target::Balancer(_), .. }
        | FaultKind::Pause { .. }
        | FaultKind::Partition { .. } => false,
    };
    match experiment.faults.iter().find(|f| !possible(f.what)) {
        Some(fault) => Err(RunError::new(format!(
            "{}: the fault {:?} can only be had in the simulator: add --sim. On sockets, proxies can be killed, drained \
             and added.",
            experiment.file, fault.what
        ))),
        None => Ok(()),
    }
}

/// Proxies are counted from 0 in experiments and named from 1 in a cluster.
fn name_of(proxy: u32) -> String {
    format!("proxy-{}", proxy + 1)
}

impl World for Sockets {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn run_until(&mut self, until: Instant, tell: &mut dyn FnMut(ua::Event)) -> Result<(), RunError> {
        loop {
            let now = self.clock.now();
            if now >= self.next_tick {
                self.tick(now)?;
            }
            let wait = until.min(self.next_tick).since(now);
            match self.events.recv_timeout(wait) {
                Ok(event) => tell(event),
                Err(_) if self.clock.now() >= until => return Ok(()),
                Err(_) => {}
            }
            // Events must not hold up the run when they come faster than they are taken in.
            if self.clock.now() >= until {
                self.events.try_iter().take(EVENTS_AT_ONCE_MAX).for_each(tell);
                return Ok(());
            }
        }
    }

    fn order(&mut self, command: ua::Command) -> Result<(), RunError> {
        let mut command = command;
        // The channel is bounded: a burst of orders is given as fast as the fleet takes them.
        for _ in 0..ORDER_TRIES {
            match self.fleet.command(command) {
                Ok(()) => return Ok(()),
                Err(CommandRefused::Full(refused)) => command = refused,
                Err(CommandRefused::Stopped(_)) => break,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(RunError::new("the phones take no orders: their thread has ended or is stuck, which is a bug"))
    }

    fn proxies(&mut self) -> Vec<ProxySample> {
        self.cluster.tick();
        let names: Vec<String> = self.cluster.status().proxies.keys().cloned().collect();
        let cpu = |name: &str| self.cluster.driver_stats(name).map(|d| d.cpu_nanos as f64 / 1e9);
        let sample = |name: &String| {
            let stats = &self.cluster.status().proxies[name];
            ProxySample {
                name: name.clone(),
                requests: stats.requests,
                invites: stats.invites,
                registers: stats.registers,
                refused: stats.answers[4],
                cpu_seconds: cpu(name),
            }
        };
        names.iter().map(sample).collect()
    }

    fn generator(&mut self) -> GeneratorSample {
        let (now, stats) = (self.clock.now(), self.fleet.stats());
        let (then, cpu_before) = std::mem::replace(&mut self.generator_before, (now, stats.cpu_nanos));
        let span = now.since(then).as_nanos() as f64;
        let share = (span > 0.0).then(|| stats.cpu_nanos.saturating_sub(cpu_before) as f64 / span);
        GeneratorSample { cpu_share: share, dropped: stats.tx_refused + stats.tx_dropped + stats.tx_errors }
    }

    fn fault(&mut self, fault: FaultKind) -> Result<(), RunError> {
        let done = match fault {
            FaultKind::Kill { node: Target::Proxy(proxy), lasts } => {
                let name = name_of(proxy);
                if let Some(lasts) = lasts {
                    self.restarts.push((self.clock.now() + lasts, name.clone()));
                }
                self.cluster.kill_proxy(&name)
            }
            FaultKind::Drain { proxy } => {
                self.leaving.push(name_of(proxy));
                self.cluster.drain_proxy(&name_of(proxy))
            }
            FaultKind::Add { proxies } => (0..proxies)
                .try_for_each(|_| self.cluster.add_proxy(SocketAddr::new(LOOPBACK, 0)).map(|_| ())),
            FaultKind::Kill { node: Target::Balancer(_), .. }
            | FaultKind::Pause { .. }
            | FaultKind::Partition { .. } => {
                unreachable!("refused before the start")
            }
        };
        done.map_err(|e| RunError::new(e.to_string()))
    }

    fn notes(&self) -> Vec<(String, String)> {
        vec![
            ("transport".into(), "UDP over loopback, cluster and phones in one process".into()),
            ("receive buffer".into(), format!("{} KiB", self.receive_buffer_bytes / 1024)),
        ]
    }
}

const EVENTS_AT_ONCE_MAX: usize = 100_000;
const ORDER_TRIES: usize = 5_000;
