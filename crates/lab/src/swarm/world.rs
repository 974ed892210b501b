//! A scenario at work: the simulator, and outside of it what a controller does on sockets.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use busyhour_control::cluster::{Directory, Members, Settings};
use busyhour_control::location::SharedLocation;
use busyhour_control::secret::ClusterSecret;
use busyhour_engine::{HashSeed, Instant};
use busyhour_roles::balancer::{self, Change, State};
use busyhour_roles::ua::{self, Fleet, User};
use busyhour_roles::{location, proxy, transactions};
use busyhour_sim::{Config, Fault, FixedCost, Happening, HostConfig, HostId, NodeId, Progress, Sim};
use busyhour_sip::value::Ha1;

use crate::callflow::CallFlow;
use crate::role::{Role, RoleCommand, RoleEvent};

use super::scenario::{Scenario, Step, Upset, Who};
use super::tally::Tally;
use super::wire::{Violation, Wire};
use super::{Outcome, check};

const DOMAIN: &str = "busyhour.example";
/// Real time at the simulation's epoch: any date will do, as long as it is the same every time.
const UNIX_OFFSET_NANOS: u64 = 1_800_000_000 * 1_000_000_000;
/// How often proxies are asked for their report.
const TICK: Duration = Duration::from_secs(1);
/// How long balancers have to confirm a table, as on sockets.
const CONFIRM_WITHIN: Duration = Duration::from_secs(2);
/// A change that finds another one not yet confirmed tries again after this.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// After this long without anything new, every transaction is over: patience and Timer C, and 64·T1 for each of CANCEL,
/// its alarm, the final response and the wait for repetitions.
pub(super) const QUIET: Duration = Duration::from_secs(400);

/// A balancer, a proxy or a fleet.
pub(super) struct Part {
    pub(super) who: Who,
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) node: NodeId,
    pub(super) host: HostId,
    /// How often it was started.
    pub(super) starts: u64,
    pub(super) is_up: bool,
    /// It was removed, and is not to come back unless it is added again.
    pub(super) is_gone: bool,
    /// It is to be removed once it has nothing left to do.
    pub(super) leaves: bool,
    /// What it said last; a proxy's.
    pub(super) stats: Option<proxy::Stats>,
    /// Datagrams that it had handled when it was last started.
    pub(super) delivered_before: u64,
}

/// Something to be done at a time.
pub(super) enum Task {
    Tick,
    Step(Step),
    Upset(Upset),
    Restart(Who),
    Heal(Fault<Role>),
}

/// A table that not every balancer has confirmed.
struct Publishing {
    waiting: BTreeSet<Who>,
    until: Instant,
}

/// Nodes that run a scenario.
pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) sim: Sim<Role, FixedCost>,
    settings: Settings,
    secret: ClusterSecret,
    location: SharedLocation,
    directory: Directory,
    users: Vec<User>,
    pub(super) members: Members,
    /// In the order of [`Who`].
    pub(super) parts: BTreeMap<Who, Part>,
    by_node: BTreeMap<NodeId, Who>,
    pub(super) tasks: BTreeMap<(Instant, u64), Task>,
    tasks_begun: u64,
    publishing: Option<Publishing>,
    /// Members that have been taken out of the table that is being published; they stop when it is in force.
    stopping: Vec<Who>,
    pub(super) partitions: u32,
    /// Whether a proxy has lost what it knew.
    pub(super) has_crashed: bool,
    pub(super) removed: usize,
    pub(super) tally: Tally,
    pub(super) wire: Rc<RefCell<Wire>>,
    flow: Option<CallFlow>,
}

impl World {
    /// The cluster as it is before anything happens.
    pub(super) fn new(scenario: Scenario, flow: Option<CallFlow>) -> Self {
        let names: Vec<String> = (0..scenario.homes.len()).map(|n| format!("{n:04}")).collect();
        let users: Vec<User> = names
            .iter()
            .map(|name| User { name: name.clone(), ha1: Ha1::of(name, DOMAIN, &format!("pw{name}")) })
            .collect();
        let homes =
            names.iter().map(|name| name.clone().into_bytes()).zip(scenario.homes.iter().cloned()).collect();
        let wire = Rc::new(RefCell::new(Wire::new(homes)));
        let config = Config { link: scenario.link, ..Config::default() };
        let mut sim = Sim::new(scenario.seed, config, scenario.cost);
        let (watched, shown) = (Rc::clone(&wire), flow.clone());
        sim.observe(Some(Box::new(move |at: Instant, what: Happening<'_>| {
            watched.borrow_mut().see(at, what);
            if let Some(flow) = &shown {
                flow.happening(at, what);
            }
        })));
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&scenario.seed.to_le_bytes());
        let balancers = (0..scenario.balancers).map(|n| address_of(Who::Balancer(n))).collect();
        let mut world = World {
            settings: Settings {
                timer_c: scenario.timer_c,
                transactions_max: scenario.transactions_max,
                ..Settings::for_domain(DOMAIN)
            },
            secret: ClusterSecret::from_bytes(secret),
            location: SharedLocation::new(location::Limits::default(), HashSeed(scenario.seed, 1)),
            directory: Directory::of(users.iter().map(|u| (u.name.clone(), u.ha1))),
            users,
            members: Members::new(balancers),
            parts: BTreeMap::new(),
            by_node: BTreeMap::new(),
            tasks: BTreeMap::new(),
            tasks_begun: 0,
            publishing: None,
            stopping: Vec::new(),
            partitions: 0,
            has_crashed: false,
            removed: 0,
            tally: Tally::default(),
            wire,
            flow,
            scenario,
            sim,
        };
        world.build();
        world
    }

    fn build(&mut self) {
        for n in 0..self.scenario.balancers {
            self.start(Who::Balancer(n));
        }
        for n in 0..self.scenario.proxies {
            self.start(Who::Proxy(n));
            self.add_member(Who::Proxy(n));
        }
        for n in 0..self.scenario.fleets.len() {
            self.start(Who::Fleet(n));
        }
        self.publish();
        for (at, fleet, user) in self.scenario.registrations.clone() {
            self.command(Who::Fleet(fleet), RoleCommand::Fleet(ua::Command::Register { user, at }));
        }
        for (fleet, call) in self.scenario.calls.clone() {
            self.call(fleet, call);
        }
        for (at, step) in self.scenario.steps.clone() {
            self.add_task(at, Task::Step(step));
        }
        for (at, upset) in self.scenario.upsets.clone() {
            self.add_task(at, Task::Upset(upset));
        }
        self.add_task(Instant::EPOCH + TICK, Task::Tick);
    }

    /// Safety, then liveness.
    pub(super) fn run(mut self) -> Result<Outcome, Vec<Violation>> {
        self.run_until(self.scenario.heal_at)?;
        self.heal();
        self.run_until(self.sim.now() + QUIET)?;
        check::safety(&self)?;
        let disturbed = std::mem::take(&mut self.tally);
        self.call_again();
        self.run_until(self.sim.now() + QUIET)?;
        check::liveness(&self)?;
        let proxies = self.parts.values().filter_map(|p| self.sim.node(p.node)?.as_proxy());
        let fleets = self.parts.values().filter_map(|p| self.sim.node(p.node)?.as_fleet());
        Ok(Outcome {
            trace_hash: self.sim.trace_hash(),
            weather: self.scenario.weather,
            calls: disturbed.len(),
            completed: disturbed.completed(),
            calls_healed: self.tally.len(),
            second_answers: fleets.map(|f| f.stats().second_answers).sum(),
            passed_on: proxies.map(|p| p.stats().passed_on).sum(),
            removed: self.removed,
            datagrams: self.sim.totals().sent,
            steps: self.sim.steps(),
            ended: self.sim.now(),
        })
    }

    fn run_until(&mut self, until: Instant) -> Result<(), Vec<Violation>> {
        loop {
            let task = self.tasks.keys().next().map_or(until, |&(at, _)| at.min(until));
            let next = self.publishing.as_ref().map_or(task, |p| p.until.min(task));
            let progress =
                self.sim.run_until(next.max(self.sim.now())).map_err(|error| self.over(error.to_string()))?;
            while let Some((_, node, event)) = self.sim.poll_event() {
                self.told(self.by_node[&node], event);
            }
            let found = std::mem::take(&mut self.wire.borrow_mut().violations);
            if !found.is_empty() {
                return Err(found);
            }
            if progress == Progress::Events {
                continue;
            }
            self.do_what_is_due();
            if self.sim.now() >= until {
                return Ok(());
            }
        }
    }

    fn over(&self, what: String) -> Vec<Violation> {
        vec![Violation { at: self.sim.now(), call_id: None, what }]
    }

    fn do_what_is_due(&mut self) {
        let now = self.sim.now();
        if self.publishing.as_ref().is_some_and(|p| p.until <= now) {
            self.tell_proxies();
        }
        while let Some(entry) = self.tasks.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Task::Tick => self.tick(),
                Task::Step(step) => self.step(step),
                Task::Upset(upset) => self.upset(upset),
                Task::Restart(who) if self.parts[&who].is_gone || self.parts[&who].is_up => {}
                Task::Restart(who) => self.restart(who),
                Task::Heal(fault) => self.fault(fault),
            }
        }
    }

    pub(super) fn add_task(&mut self, at: Instant, task: Task) {
        self.tasks_begun += 1;
        self.tasks.insert((at, self.tasks_begun), task);
    }

    pub(super) fn note(&self, text: &str) {
        if let Some(flow) = &self.flow {
            flow.note(self.sim.now(), text);
        }
    }
}

/// Processes: starting, stopping, and telling them things.
impl World {
    /// Starts a process for the first time, or at its old address after it was removed.
    fn start(&mut self, who: Who) {
        let config = match who {
            Who::Balancer(_) | Who::Proxy(_) => self.scenario.host,
            Who::Fleet(_) => HostConfig::default(),
        };
        let starts = self.parts.get(&who).map_or(0, |p| p.starts) + 1;
        let host = match self.parts.get(&who) {
            Some(part) => part.host,
            None => self.sim.add_host(config).expect("a scenario has few hosts"),
        };
        let (name, address) = (name_of(who), address_of(who));
        let role = self.role(who, starts);
        let node = self
            .sim
            .add_node(host, address, role)
            .expect("the address is free, and a scenario has few nodes");
        self.wire.borrow_mut().add(address, who);
        if let Some(flow) = &self.flow {
            flow.name(node, host, address, &name);
        }
        self.by_node.insert(node, who);
        let part = Part {
            who,
            name,
            address,
            node,
            host,
            starts,
            is_up: true,
            is_gone: false,
            leaves: false,
            stats: None,
            delivered_before: 0,
        };
        self.parts.insert(who, part);
    }

    fn role(&self, who: Who, starts: u64) -> Role {
        let (address, seed) = (address_of(who), self.sim.rng(&name_of(who), starts).next_u64());
        match who {
            Who::Balancer(_) => Role::Balancer(Box::new(self.settings.balancer(&self.secret, address))),
            Who::Proxy(_) => {
                let (location, directory) =
                    (Box::new(self.location.clone()), Box::new(self.directory.clone()));
                let proxy =
                    self.settings.proxy(&self.secret, address, location, directory, UNIX_OFFSET_NANOS, seed);
                Role::Proxy(Box::new(proxy))
            }
            Who::Fleet(n) => Role::Fleet(Box::new(Fleet::new(self.fleet(n), seed))),
        }
    }

    fn fleet(&self, n: usize) -> ua::Config {
        let plan = self.scenario.fleets[n];
        ua::Config {
            address: address_of(Who::Fleet(n)),
            outbound: (0..self.scenario.balancers).map(|n| address_of(Who::Balancer(n))).collect(),
            domain: DOMAIN.to_owned(),
            users: self.users.clone(),
            register_expires_s: self.scenario.expires_s,
            refresh_after: Some(Duration::from_secs(self.scenario.expires_s.into())),
            answer: plan.answer,
            patience: plan.patience,
            bye_within: Duration::from_secs(600),
            calls_max: 10_000,
            transactions: transactions::Config {
                timers: self.settings.timers,
                servers_max: 10_000,
                clients_max: 10_000,
            },
            tell_answers: true,
        }
    }

    pub(super) fn restart(&mut self, who: Who) {
        let starts = self.parts[&who].starts + 1;
        let role = self.role(who, starts);
        let part = self.parts.get_mut(&who).expect("it was started before");
        (part.starts, part.is_up, part.stats) = (starts, true, None);
        part.delivered_before = self.sim.node_counters(part.node).delivered;
        let node = part.node;
        self.fault(Fault::Restart(node, Box::new(role)));
        match who {
            Who::Balancer(_) => {
                let table = balancer::Command::Members(self.members.table().clone());
                self.command(who, RoleCommand::Balancer(table));
            }
            Who::Proxy(_) => {
                self.command(who, RoleCommand::Proxy(self.members.for_proxies()));
                if self.parts[&who].leaves {
                    self.command(who, RoleCommand::Proxy(proxy::Command::Drain));
                }
            }
            Who::Fleet(_) => unreachable!("fleets do not crash"),
        }
    }

    pub(super) fn command(&mut self, who: Who, command: RoleCommand) {
        self.sim.command(self.parts[&who].node, command).expect("a scenario has few commands");
    }

    pub(super) fn fault(&mut self, fault: Fault<Role>) {
        self.sim.fault(fault).expect("a scenario has few partitions");
    }

    pub(super) fn call(&mut self, fleet: usize, call: ua::PlannedCall) {
        self.tally.plan(fleet, call);
        self.command(Who::Fleet(fleet), RoleCommand::Fleet(ua::Command::Call(vec![call])));
    }

    fn told(&mut self, who: Who, event: RoleEvent) {
        match (who, event) {
            (Who::Fleet(n), RoleEvent::Fleet(ua::Event::Call(record))) => {
                let patience = self.scenario.fleets[n].patience;
                self.tally.ended(n, &record, patience);
                if let Some(flow) = &self.flow {
                    let (name, plan) = (name_of(who), record.plan);
                    let parties = format!("{:04} to {:04}", plan.caller, plan.callee);
                    let text =
                        format!("{name} tells: {parties}, planned for {:?}: {:?}", plan.at, record.outcome);
                    flow.note_of_some_call(self.sim.now(), &text);
                }
            }
            (Who::Fleet(n), RoleEvent::Fleet(ua::Event::Answered { call })) => self.tally.answered(n, call),
            (Who::Fleet(_), RoleEvent::Fleet(ua::Event::Register(_) | ua::Event::Report(_))) => {}
            (_, RoleEvent::Balancer(balancer::Event::Table { version, outcome })) => {
                assert_eq!(outcome, Ok(()), "{who:?} refused table {version}");
                self.confirmed(who, version);
            }
            (_, RoleEvent::Balancer(balancer::Event::Report(_))) => {}
            (_, RoleEvent::Proxy(proxy::Event::Report(stats))) => self.reported(who, *stats),
            (_, event) => unreachable!("{who:?} cannot tell {event:?}"),
        }
    }
}

/// The controller.
impl World {
    fn tick(&mut self) {
        let proxies: Vec<Who> = self.proxies().filter(|p| p.is_up).map(|p| p.who).collect();
        for who in proxies {
            self.command(who, RoleCommand::Proxy(proxy::Command::Report));
        }
        self.remove_drained();
        self.add_task(self.sim.now() + TICK, Task::Tick);
    }

    fn proxies(&self) -> impl Iterator<Item = &Part> {
        self.parts.values().filter(|p| matches!(p.who, Who::Proxy(_)) && !p.is_gone)
    }

    fn reported(&mut self, who: Who, stats: proxy::Stats) {
        let part = self.parts.get_mut(&who).expect("it was started");
        if part.is_gone || !part.is_up {
            return;
        }
        let retired = self.members.report(&part.name, &stats);
        part.stats = Some(stats);
        if retired {
            let left = self.members.table().earlier.len();
            self.note(&format!("controller: an epoch is retired, {left} earlier ones left"));
            self.publish();
        }
    }

    fn add_member(&mut self, who: Who) {
        let (name, address) = (name_of(who), address_of(who));
        self.members.add_ready(&name, address).expect("no other member has the name");
    }

    fn step(&mut self, step: Step) {
        if self.publishing.is_some() {
            return self.add_task(self.sim.now() + RETRY_AFTER, Task::Step(step));
        }
        match step {
            Step::Add(n) => {
                let who = Who::Proxy(n);
                if self.parts.get(&who).is_some_and(|p| !p.is_gone) {
                    return;
                }
                self.start(who);
                self.add_member(who);
            }
            Step::Drain(n) => {
                let ready = self.proxies().filter(|p| !p.leaves).count();
                let Some(part) =
                    self.parts.get_mut(&Who::Proxy(n)).filter(|p| !p.is_gone && !p.leaves && ready > 1)
                else {
                    return;
                };
                part.leaves = true;
                let change = Change::SetState(part.name.clone(), State::Draining);
                self.members.change(&change).expect("it is a member");
                self.command(Who::Proxy(n), RoleCommand::Proxy(proxy::Command::Drain));
            }
            Step::Weight(n, weight) => {
                let Some(part) = self.parts.get(&Who::Proxy(n)).filter(|p| !p.is_gone) else { return };
                let change = Change::SetWeight(part.name.clone(), weight);
                self.members.change(&change).expect("it is a member");
            }
        }
        self.note(&format!("controller: {step:?}"));
        self.publish();
    }

    /// Takes out the first member that was drained and has nothing left to do.
    fn remove_drained(&mut self) {
        if self.publishing.is_some() || !self.members.table().earlier.is_empty() {
            return;
        }
        let idle = |p: &&Part| p.leaves && p.stats.as_ref().is_some_and(|s| s.open == 0);
        let Some(who) = self.proxies().find(idle).map(|p| p.who) else { return };
        self.note(&format!("controller: {} is drained, and removed", name_of(who)));
        self.members.change(&Change::Remove(name_of(who))).expect("it is a member");
        self.parts.get_mut(&who).expect("it was started").is_gone = true;
        self.stopping.push(who);
        self.publish();
    }

    /// Tells the proxies whom to trust and gives the table to the balancers; the proxies hear of it once it is in force
    /// there.
    fn publish(&mut self) {
        let proxies: Vec<Who> = self.proxies().filter(|p| p.is_up).map(|p| p.who).collect();
        for who in proxies {
            self.command(who, RoleCommand::Proxy(self.members.ahead_for_proxies()));
        }
        let table = self.members.table().clone();
        self.note(&format!("controller: table {} {}", table.version, members_text(&table)));
        let balancers: Vec<Who> =
            self.parts.values().filter(|p| matches!(p.who, Who::Balancer(_))).map(|p| p.who).collect();
        for &who in &balancers {
            self.command(who, RoleCommand::Balancer(balancer::Command::Members(table.clone())));
        }
        let waiting = balancers.into_iter().filter(|who| self.parts[who].is_up).collect();
        self.publishing = Some(Publishing { waiting, until: self.sim.now() + CONFIRM_WITHIN });
    }

    fn confirmed(&mut self, who: Who, version: u64) {
        let Some(publishing) = self.publishing.as_mut().filter(|_| version == self.members.table().version)
        else {
            return;
        };
        publishing.waiting.remove(&who);
        if publishing.waiting.is_empty() {
            self.tell_proxies();
        }
    }

    fn tell_proxies(&mut self) {
        self.publishing = None;
        let proxies: Vec<Who> = self.proxies().filter(|p| p.is_up).map(|p| p.who).collect();
        for who in proxies {
            self.command(who, RoleCommand::Proxy(self.members.for_proxies()));
        }
        for who in std::mem::take(&mut self.stopping) {
            let part = &self.parts[&who];
            self.removed += 1;
            self.sim.remove_node(part.node);
        }
    }
}

fn members_text(table: &balancer::Membership) -> String {
    let members: Vec<String> =
        table.members.iter().map(|m| format!("{} {:?} ×{}", m.name, m.state, m.weight)).collect();
    format!("[{}], {} earlier epochs", members.join(", "), table.earlier.len())
}

/// What a process is called: b1, p1, f1, …
pub(super) fn name_of(who: Who) -> String {
    match who {
        Who::Balancer(n) => format!("b{}", n + 1),
        Who::Proxy(n) => format!("p{}", n + 1),
        Who::Fleet(n) => format!("f{}", n + 1),
    }
}

fn address_of(who: Who) -> SocketAddr {
    let (net, n) = match who {
        Who::Balancer(n) => (1, n),
        Who::Proxy(n) => (2, n),
        Who::Fleet(n) => (3, n),
    };
    let last = u8::try_from(n + 1).expect("a scenario has few nodes of a kind");
    (Ipv4Addr::new(10, 0, net, last), 5060).into()
}
