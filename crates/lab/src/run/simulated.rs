//! The world of the simulator: the same roles, in virtual time, on hosts whose CPU is charged.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use busyhour_control::cluster::{Directory, Members, Settings};
use busyhour_control::location::SharedLocation;
use busyhour_control::secret::ClusterSecret;
use busyhour_engine::Instant;
use busyhour_roles::balancer::{self, Change, State};
use busyhour_roles::proxy::{self, Proxy};
use busyhour_roles::ua;
use busyhour_sim::{
    Capacity, Config, Cpu, Fault, HostConfig, HostId, LinkModel, NodeId, Progress, Quota, Sim,
};

use crate::experiment::{End, Experiment, FaultKind, Host, Target};
use crate::measure::{GeneratorSample, ProxySample};
use crate::role::{Role, RoleCommand, RoleEvent};

use super::fleet;
use super::service::ServiceTimes;
use super::world::{RunError, World};

/// The wall-clock time at which simulated time begins: 2024-01-01 00:00 UTC. Any would do; nonces and dates need one.
const UNIX_OFFSET_NANOS: u64 = 1_704_067_200_000_000_000;
/// How often the proxies are asked for their figures.
const TICK: Duration = Duration::from_secs(1);
/// Linux's default period of a CPU limit.
const CPU_PERIOD: Duration = Duration::from_millis(100);

struct Member {
    name: String,
    node: NodeId,
    host: HostId,
    last: proxy::Stats,
}

pub(super) struct Simulated {
    sim: Sim<Role, ServiceTimes>,
    settings: Settings,
    secret: ClusterSecret,
    location: SharedLocation,
    directory: Directory,
    members: Members,
    balancers: Vec<(NodeId, HostId)>,
    proxies: Vec<Member>,
    fleet: NodeId,
    fleet_host: HostId,
    proxy_host: HostConfig,
    links: Links,
    next_tick: Instant,
    leaving: Vec<String>,
    partitions: u32,
    seed: u64,
}

impl Simulated {
    pub(super) fn start(experiment: &Experiment, repetition: u32) -> Result<Self, RunError> {
        let topology = &experiment.topology;
        let seed = experiment.seed_of(repetition);
        let links = Links::of(experiment);
        let mut sim =
            Sim::new(seed, Config { link: links.default, ..Config::default() }, ServiceTimes::MEASURED);
        let fleet_host = sim.add_host(roomy())?;
        let users = fleet::users(experiment);
        let settings = fleet::settings(experiment);
        let secret = fixed_secret(seed);
        let mut balancers = Vec::new();
        for number in 0..topology.balancers {
            let address = address(1, number);
            let host = sim.add_host(host_config(&topology.balancer))?;
            let node =
                sim.add_node(host, address, Role::Balancer(Box::new(settings.balancer(&secret, address))));
            balancers.push((node.map_err(|e| RunError::new(e.to_string()))?, host));
        }
        let mut outbound: Vec<SocketAddr> = (0..topology.balancers).map(|n| address(1, n)).collect();
        let members = Members::new(outbound.clone());
        if outbound.is_empty() {
            outbound = (0..topology.proxies).map(|n| address(2, n)).collect();
        }
        let own = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5060);
        let directory = fleet::directory(&users);
        let config = fleet::config(experiment, users, own, outbound, settings.timers);
        let phones = ua::Fleet::new(config, seed ^ FLEET_SEED);
        let fleet = sim.add_node(fleet_host, own, Role::Fleet(Box::new(phones)));
        let mut world = Simulated {
            settings,
            secret,
            location: SharedLocation::default(),
            directory,
            members,
            balancers,
            proxies: Vec::new(),
            fleet: fleet.map_err(|e| RunError::new(e.to_string()))?,
            fleet_host,
            proxy_host: host_config(&topology.proxy),
            links,
            next_tick: Instant::EPOCH + TICK,
            leaving: Vec::new(),
            partitions: 0,
            seed,
            sim,
        };
        for _ in 0..topology.proxies {
            world.add_proxy()?;
        }
        world.set_links();
        world.publish()?;
        Ok(world)
    }

    fn add_proxy(&mut self) -> Result<(), RunError> {
        let number = self.proxies.len() as u32;
        let (name, address) = (format!("proxy-{}", number + 1), address(2, number));
        let host = self.sim.add_host(self.proxy_host)?;
        let node = self.proxy(number);
        let node = self.sim.add_node(host, address, node).map_err(|e| RunError::new(e.to_string()))?;
        self.members.add_ready(&name, address).map_err(|e| RunError::new(format!("{e:?}")))?;
        self.proxies.push(Member { name, node, host, last: proxy::Stats::default() });
        Ok(())
    }

    /// A proxy as it is when it starts.
    fn proxy(&self, number: u32) -> Role {
        let (location, directory) = (Box::new(self.location.clone()), Box::new(self.directory.clone()));
        let seed = self.seed ^ (u64::from(number) + 1) << 32;
        let address = address(2, number);
        Role::Proxy(Box::new(self.settings.proxy(
            &self.secret,
            address,
            location,
            directory,
            UNIX_OFFSET_NANOS,
            seed,
        )))
    }

    /// Gives the table to the balancers, and then to the proxies: at one instant, commands are carried out in order.
    fn publish(&mut self) -> Result<(), RunError> {
        for proxy in &self.proxies {
            self.sim.command(proxy.node, RoleCommand::Proxy(self.members.ahead_for_proxies()))?;
        }
        for &(node, _) in &self.balancers {
            let table = balancer::Command::Members(self.members.table().clone());
            self.sim.command(node, RoleCommand::Balancer(table))?;
        }
        for proxy in &self.proxies {
            self.sim.command(proxy.node, RoleCommand::Proxy(self.members.for_proxies()))?;
        }
        Ok(())
    }

    fn set_links(&mut self) {
        let balancers: Vec<HostId> = self.balancers.iter().map(|&(_, host)| host).collect();
        let proxies: Vec<HostId> = self.proxies.iter().map(|p| p.host).collect();
        let ends = [(End::Phones, vec![self.fleet_host]), (End::Balancer, balancers), (End::Proxy, proxies)];
        for (from, from_hosts) in &ends {
            for (to, to_hosts) in &ends {
                let Some(model) = self.links.between(*from, *to) else { continue };
                for &a in from_hosts {
                    for &b in to_hosts.iter().filter(|&&b| b != a) {
                        self.sim.set_link(a, b, model);
                    }
                }
            }
        }
    }

    fn tick(&mut self) -> Result<(), RunError> {
        for proxy in &self.proxies {
            self.sim.command(proxy.node, RoleCommand::Proxy(proxy::Command::Report))?;
        }
        let drained: Vec<String> = self.leaving.iter().filter(|n| self.is_drained(n)).cloned().collect();
        for name in drained {
            self.leaving.retain(|n| *n != name);
            self.change(&Change::Remove(name))?;
        }
        self.next_tick += TICK;
        Ok(())
    }

    fn is_drained(&self, name: &str) -> bool {
        let idle = self.proxies.iter().any(|p| p.name == name && p.last.open == 0);
        idle && self.members.table().earlier.is_empty()
    }

    fn change(&mut self, change: &Change) -> Result<(), RunError> {
        self.members
            .change(change)
            .map_err(|e| RunError::new(format!("the membership cannot be changed: {e:?}")))?;
        self.publish()
    }

    fn reported(&mut self, node: NodeId, stats: proxy::Stats) -> Result<(), RunError> {
        let Some(proxy) = self.proxies.iter_mut().find(|p| p.node == node) else { return Ok(()) };
        let retired = self.members.report(&proxy.name, &stats);
        proxy.last = stats;
        if retired { self.publish() } else { Ok(()) }
    }

    fn node_of(&self, target: Target) -> Result<(NodeId, HostId), RunError> {
        let found = match target {
            Target::Balancer(n) => self.balancers.get(n as usize).copied(),
            Target::Proxy(n) => self.proxies.get(n as usize).map(|p| (p.node, p.host)),
        };
        found.ok_or_else(|| RunError::new(format!("there is no {target} at that time")))
    }
}

impl World for Simulated {
    fn now(&self) -> Instant {
        self.sim.now()
    }

    fn run_until(&mut self, until: Instant, tell: &mut dyn FnMut(ua::Event)) -> Result<(), RunError> {
        loop {
            let stop = until.min(self.next_tick);
            while self.sim.run_until(stop)? == Progress::Events {
                while let Some((_, node, event)) = self.sim.poll_event() {
                    match event {
                        RoleEvent::Fleet(event) => tell(event),
                        RoleEvent::Proxy(proxy::Event::Report(stats)) => self.reported(node, *stats)?,
                        RoleEvent::Balancer(_) => {}
                    }
                }
            }
            if stop == self.next_tick {
                self.tick()?;
            }
            if stop == until {
                return Ok(());
            }
        }
    }

    fn order(&mut self, command: ua::Command) -> Result<(), RunError> {
        Ok(self.sim.command(self.fleet, RoleCommand::Fleet(command))?)
    }

    fn proxies(&mut self) -> Vec<ProxySample> {
        let sample = |p: &Member| {
            // What a proxy that is down had counted is gone; its last report is what is known.
            let stats =
                self.sim.node(p.node).and_then(Role::as_proxy).map_or_else(|| p.last.clone(), Proxy::stats);
            ProxySample {
                name: p.name.clone(),
                requests: stats.requests,
                invites: stats.invites,
                registers: stats.registers,
                refused: stats.answers[4],
                cpu_seconds: Some(self.sim.node_counters(p.node).busy.as_secs_f64()),
            }
        };
        self.proxies.iter().map(sample).collect()
    }

    fn generator(&mut self) -> GeneratorSample {
        GeneratorSample { cpu_share: None, dropped: self.sim.node_counters(self.fleet).send_refused }
    }

    fn fault(&mut self, fault: FaultKind) -> Result<(), RunError> {
        let now = self.sim.now();
        match fault {
            FaultKind::Kill { node, lasts } => {
                let (id, _) = self.node_of(node)?;
                self.sim.fault(Fault::Crash(id))?;
                let Some(lasts) = lasts else { return Ok(()) };
                let fresh = match node {
                    Target::Balancer(n) => {
                        Role::Balancer(Box::new(self.settings.balancer(&self.secret, address(1, n))))
                    }
                    Target::Proxy(n) => self.proxy(n),
                };
                self.sim.fault_at(now + lasts, Fault::Restart(id, Box::new(fresh)))?;
                let table = match node {
                    Target::Balancer(_) => {
                        RoleCommand::Balancer(balancer::Command::Members(self.members.table().clone()))
                    }
                    Target::Proxy(_) => RoleCommand::Proxy(self.members.for_proxies()),
                };
                self.sim.command_at(now + lasts, id, table)?;
            }
            FaultKind::Pause { node, lasts } => {
                let (id, _) = self.node_of(node)?;
                self.sim.fault(Fault::Pause(id))?;
                self.sim.fault_at(now + lasts, Fault::Resume(id))?;
            }
            FaultKind::Partition { node, lasts } => {
                let (_, host) = self.node_of(node)?;
                let all = self.balancers.iter().map(|&(_, h)| h).chain(self.proxies.iter().map(|p| p.host));
                let others = all.chain([self.fleet_host]).filter(|&h| h != host).collect();
                self.partitions += 1;
                let number = self.partitions;
                self.sim.fault(Fault::Partition { number, a: vec![host], b: others, one_way: false })?;
                self.sim.fault_at(now + lasts, Fault::Heal(number))?;
            }
            FaultKind::Drain { proxy } => {
                let (id, _) = self.node_of(Target::Proxy(proxy))?;
                let name = self.proxies[proxy as usize].name.clone();
                self.sim.command(id, RoleCommand::Proxy(proxy::Command::Drain))?;
                self.change(&Change::SetState(name.clone(), State::Draining))?;
                self.leaving.push(name);
            }
            FaultKind::Add { proxies } => {
                for _ in 0..proxies {
                    self.add_proxy()?;
                }
                self.set_links();
                self.publish()?;
            }
        }
        Ok(())
    }

    fn notes(&self) -> Vec<(String, String)> {
        vec![
            ("service times".into(), ServiceTimes::CONDITIONS.into()),
            ("trace hash".into(), format!("{:016x}", self.sim.trace_hash())),
        ]
    }
}

impl From<Capacity> for RunError {
    fn from(error: Capacity) -> Self {
        RunError::new(format!("the simulation is too large: {error}"))
    }
}

/// Keeps the fleet's draws apart from those of the load.
const FLEET_SEED: u64 = 0x666c_6565_7400_0000;

/// Balancers are at 10.0.1.x and on, proxies at 10.2.0.x and on.
fn address(network: u8, number: u32) -> SocketAddr {
    let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, network, 0, 1)) + number);
    SocketAddr::new(IpAddr::V4(ip), 5060)
}

fn fixed_secret(seed: u64) -> ClusterSecret {
    let mut rng = busyhour_engine::Rng::from_seed(seed);
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|c| c.copy_from_slice(&rng.next_u64().to_le_bytes()));
    ClusterSecret::from_bytes(bytes)
}

/// The phones' host is never what limits.
fn roomy() -> HostConfig {
    HostConfig { receive_queue_bytes_max: 1 << 30, ..HostConfig::default() }
}

fn host_config(host: &Host) -> HostConfig {
    let period = host.cpu_period.unwrap_or(CPU_PERIOD);
    let quota = host.cpu_milli.map(|milli| Quota { period, quota: period * milli / 1000 });
    let default = HostConfig::default();
    HostConfig {
        cpu: Cpu { quota, ..Cpu::default() },
        receive_queue_bytes_max: host.receive_buffer_bytes.unwrap_or(RECEIVE_BUFFER_BYTES),
        ..default
    }
}

/// As on sockets.
const RECEIVE_BUFFER_BYTES: u64 = 4 << 20;

/// How links behave.
struct Links {
    default: LinkModel,
    named: Vec<(End, End, LinkModel)>,
}

impl Links {
    fn of(experiment: &Experiment) -> Self {
        let model = |l: &crate::experiment::Link| LinkModel {
            delay: l.delay,
            jitter: l.jitter,
            loss: l.loss,
            duplicate: l.duplicate,
            reorder: l.reorder,
            reorder_delay: l.reorder_delay,
            ..LinkModel::IDEAL
        };
        let links = &experiment.topology.links;
        let default = links.iter().find(|l| l.between.is_none()).map_or(LinkModel::IDEAL, model);
        let named = links.iter().filter_map(|l| l.between.map(|(a, b)| (a, b, model(l)))).collect();
        Links { default, named }
    }

    fn between(&self, a: End, b: End) -> Option<LinkModel> {
        let found = self.named.iter().find(|(x, y, _)| (*x, *y) == (a, b) || (*y, *x) == (a, b));
        found.map(|(.., model)| *model)
    }
}
