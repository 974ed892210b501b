//! The simulator as its user sees it: building a system, disturbing it, running it, reading it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{HashSeed, Instant, Node, Rng};

use crate::agenda::{EventQueue, NEVER, Wakeups};
use crate::cost::CostModel;
use crate::counters::{LinkCounters, NodeCounters, Totals};
use crate::cpu::CpuClock;
use crate::error::{Capacity, Refused};
use crate::fault::Fault;
use crate::host::{Host, HostConfig, Life, Slot};
use crate::link::LinkModel;
use crate::network::Network;
use crate::outbox::Outbox;
use crate::trace::Observer;

/// Names a node; a number is never used again.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// Its number: nodes are numbered from 0 in the order in which they were added.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Names a host.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u32);

impl HostId {
    /// Its number: hosts are numbered from 0 in the order in which they were added.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What holds for the whole simulation.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Config {
    /// Every link between two hosts for which [`Sim::set_link`] says nothing else.
    pub link: LinkModel,
    /// The same within a host, from a node to another or to itself.
    pub loopback: LinkModel,
    /// The limits.
    pub limits: Limits,
}

impl Default for Config {
    /// Ideal links.
    fn default() -> Config {
        Config { link: LinkModel::IDEAL, loopback: LinkModel::IDEAL, limits: Limits::default() }
    }
}

/// What an experiment may take at most. To pass one is a [`Capacity`] error, which ends the simulation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Datagrams on links, in receive queues, and made but not yet sent.
    pub in_flight_max: usize,
    /// Commands and faults that are scheduled.
    pub scheduled_max: usize,
    /// Commands that wait for one node.
    pub commands_max: usize,
    /// Events that wait to be polled.
    pub events_max: usize,
    /// Nodes, and hosts, counting those that were removed.
    pub nodes_max: usize,
    /// Messages that a node may send in answer to one input. What exceeds it is refused with
    /// [`Full`](busyhour_engine::Full) and counted; the simulation goes on.
    pub sends_per_input_max: usize,
    /// Steps at the same instant.
    pub steps_per_instant_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            in_flight_max: 4_000_000,
            scheduled_max: 1_000_000,
            commands_max: 1_000_000,
            events_max: 1_000_000,
            nodes_max: 65_536,
            sends_per_input_max: 65_536,
            steps_per_instant_max: 10_000_000,
        }
    }
}

/// How far [`Sim::run_until`] got.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Events wait to be polled. Commands given in answer are carried out at the instant of the event.
    Events,
    /// It is the time that was asked for, and everything due up to then is done.
    Reached,
}

/// Something scheduled.
pub(crate) enum Action<N: Node> {
    Command(NodeId, N::Command),
    Fault(Fault<N>),
}

/// A system of nodes of type `N` in virtual time, whose work costs what `C` says.
pub struct Sim<N: Node, C: CostModel<N>> {
    seed: u64,
    pub(crate) now: Instant,
    pub(crate) cost: C,
    pub(crate) limits: Limits,
    pub(crate) net: Network,
    pub(crate) hosts: Vec<Host>,
    pub(crate) slots: Vec<Slot<N>>,
    pub(crate) wakeups: Wakeups,
    pub(crate) agenda: EventQueue,
    pub(crate) actions: Vec<Option<Action<N>>>,
    pub(crate) actions_free: Vec<u32>,
    pub(crate) events: VecDeque<(Instant, NodeId, N::Event)>,
    pub(crate) outbox: Outbox,
    pub(crate) steps_at_this_instant: u64,
    pub(crate) steps: u64,
    pub(crate) stopped: Option<Capacity>,
}

/// Building the system.
impl<N: Node, C: CostModel<N>> Sim<N, C> {
    /// An empty system at [`Instant::EPOCH`].
    ///
    /// # Panics
    /// When a link model fails [`LinkModel::check`].
    pub fn new(seed: u64, config: Config, cost: C) -> Self {
        for model in [&config.link, &config.loopback] {
            checked(model);
        }
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Sim {
            seed,
            now: Instant::EPOCH,
            cost,
            limits: config.limits,
            net: Network::new(seed, config.link, config.loopback, config.limits.in_flight_max),
            hosts: Vec::new(),
            slots: Vec::new(),
            wakeups: Wakeups::default(),
            agenda: EventQueue::default(),
            actions: Vec::new(),
            actions_free: Vec::new(),
            events: VecDeque::new(),
            outbox: Outbox::new(nowhere, config.limits.sends_per_input_max),
            steps_at_this_instant: 0,
            steps: 0,
            stopped: None,
        }
    }

    /// A generator for the user's own purposes, a node's for example: it depends on the seed, the purpose and the
    /// number alone, and no draw from it shifts what others draw.
    pub fn rng(&self, purpose: &str, number: u64) -> Rng {
        Rng::from_seed(HashSeed(self.seed, USER_SEEDS).hash(&[purpose.as_bytes(), &number.to_le_bytes()]))
    }

    /// Adds a host. Where its quota periods begin is drawn from the seed, so that hosts are not throttled in step.
    ///
    /// # Errors
    /// [`Capacity::Nodes`].
    ///
    /// # Panics
    /// When the CPU fails [`Cpu::check`](crate::Cpu::check).
    pub fn add_host(&mut self, config: HostConfig) -> Result<HostId, Capacity> {
        if self.hosts.len() >= self.limits.nodes_max {
            return Err(Capacity::Nodes { max: self.limits.nodes_max });
        }
        let id = HostId(self.hosts.len() as u32);
        let period = config.cpu.quota.map_or(Duration::ZERO, |q| q.period);
        let seed = HashSeed(self.seed, PHASE_SEEDS).hash(&[&id.0.to_le_bytes()]);
        let phase = Rng::from_seed(seed).between(Duration::ZERO, period);
        self.hosts.push(Host { config, clock: CpuClock::new(config.cpu, phase), phase, disturbed: false });
        self.net.add_host();
        Ok(id)
    }

    /// Adds a node, before the start or while the system runs. It receives what is sent to `address`, and must send
    /// from it.
    ///
    /// # Errors
    /// [`Refused`] when the address belongs to another node, up or down, or there are too many nodes.
    pub fn add_node(&mut self, host: HostId, address: SocketAddr, node: N) -> Result<NodeId, Refused> {
        if self.slots.len() >= self.limits.nodes_max {
            return Err(Capacity::Nodes { max: self.limits.nodes_max }.into());
        }
        let slot = Slot::new(node, host.0 as usize, &self.hosts[host.0 as usize].config);
        if !self.net.add_node(address, host) {
            return Err(Refused::AddressInUse(address));
        }
        let index = self.slots.len();
        self.slots.push(slot);
        self.wakeups.add(index);
        self.serve(index);
        Ok(NodeId(index as u32))
    }

    /// Takes a node out for good and gives it back, unless it is down. What it held and what was under way to it is
    /// dropped, what it had sent arrives, and its address is free. Its counters stay.
    pub fn remove_node(&mut self, id: NodeId) -> Option<N> {
        let index = id.0 as usize;
        if self.slots[index].life == Life::Removed {
            return None;
        }
        let node = self.empty(index, Life::Removed);
        self.net.remove_node(index);
        node
    }

    /// Says how the link from one host to another behaves when nothing disturbs it.
    ///
    /// # Panics
    /// When the model fails [`LinkModel::check`].
    pub fn set_link(&mut self, from: HostId, to: HostId, model: LinkModel) {
        checked(&model);
        self.net.configure_link((from.0, to.0), model);
    }

    /// Shows everything that happens from now on to `observer`, in place of the one before.
    pub fn observe(&mut self, observer: Option<Box<dyn Observer>>) {
        self.net.trace.set_observer(observer);
    }
}

/// Commanding and disturbing it.
impl<N: Node, C: CostModel<N>> Sim<N, C> {
    /// Gives a node a command, at the present instant but in the order of everything else: before any datagram that
    /// arrives now, and by a node that is working as soon as it has finished, before the datagrams that wait.
    /// A node that is down loses it, which is counted.
    ///
    /// # Errors
    /// [`Capacity::Scheduled`].
    pub fn command(&mut self, node: NodeId, command: N::Command) -> Result<(), Capacity> {
        self.command_at(self.now, node, command)
    }

    /// The same at a later time; a time that has passed means now.
    ///
    /// # Errors
    /// [`Capacity::Scheduled`].
    pub fn command_at(&mut self, at: Instant, node: NodeId, command: N::Command) -> Result<(), Capacity> {
        self.schedule(at, Action::Command(node, command))
    }

    /// Disturbs the system, or heals it, at once.
    ///
    /// # Errors
    /// [`Capacity::Partitions`].
    ///
    /// # Panics
    /// When a link model or a CPU fails its check.
    pub fn fault(&mut self, fault: Fault<N>) -> Result<(), Capacity> {
        fault.check();
        self.inflict(fault)
    }

    /// Disturbs the system, or heals it, at a later time; a time that has passed means now. Faults and commands of
    /// the same instant happen in the order in which they were scheduled, before anything else of that instant.
    ///
    /// # Errors
    /// [`Capacity::Scheduled`].
    ///
    /// # Panics
    /// When a link model or a CPU fails its check.
    pub fn fault_at(&mut self, at: Instant, fault: Fault<N>) -> Result<(), Capacity> {
        fault.check();
        self.schedule(at, Action::Fault(fault))
    }

    /// Heals everything that can be healed, and names the nodes that are down: restart them with [`Fault::Restart`].
    pub fn heal_all(&mut self) -> Vec<NodeId> {
        self.inflict(Fault::HealAll).expect("healing takes no capacity");
        let down = |index: &usize| self.slots[*index].life == Life::Down;
        (0..self.slots.len()).filter(down).map(|index| NodeId(index as u32)).collect()
    }

    fn schedule(&mut self, at: Instant, action: Action<N>) -> Result<(), Capacity> {
        if self.agenda.len() >= self.limits.scheduled_max {
            return Err(Capacity::Scheduled { max: self.limits.scheduled_max });
        }
        let id = match self.actions_free.pop() {
            Some(id) => id,
            None => {
                self.actions.push(None);
                u32::try_from(self.actions.len() - 1).expect("limited by scheduled_max")
            }
        };
        self.actions[id as usize] = Some(action);
        self.agenda.push(at.max(self.now).as_nanos(), id);
        Ok(())
    }
}

/// Running it.
impl<N: Node, C: CostModel<N>> Sim<N, C> {
    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When the next step is; `None` when nothing will ever happen again.
    pub fn next_at(&self) -> Option<Instant> {
        let at = self.agenda.next_at().min(self.net.arrivals.next_at()).min(self.wakeups.earliest().0);
        (at != NEVER).then(|| Instant::from_nanos(at))
    }

    /// Runs until events wait to be polled, or until `until` when none come. Poll them all before going on: it returns
    /// at once while any wait.
    ///
    /// # Errors
    /// [`Capacity`] when a limit was passed; the simulation is then over.
    pub fn run_until(&mut self, until: Instant) -> Result<Progress, Capacity> {
        while self.events.is_empty() {
            if !self.step_until(until)? {
                self.now = self.now.max(until);
                return Ok(Progress::Reached);
            }
        }
        Ok(Progress::Events)
    }

    /// Does the next thing: one command, fault, arrival, or moment of a node. False when nothing is left to do.
    ///
    /// # Errors
    /// [`Capacity`] when a limit was passed; the simulation is then over.
    pub fn step(&mut self) -> Result<bool, Capacity> {
        self.step_until(Instant::from_nanos(NEVER - 1))
    }

    /// The next event of any node, oldest first: when, whose, and what.
    pub fn poll_event(&mut self) -> Option<(Instant, NodeId, N::Event)> {
        self.events.pop_front()
    }
}

/// Reading it.
impl<N: Node, C: CostModel<N>> Sim<N, C> {
    /// The node, unless it is down or removed.
    pub fn node(&self, id: NodeId) -> Option<&N> {
        self.slots[id.0 as usize].node.as_ref()
    }

    /// The node with this address, up or down.
    pub fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        self.net.node_at(address).map(NodeId)
    }

    /// The node's address, also after it was removed.
    pub fn address(&self, id: NodeId) -> SocketAddr {
        self.net.address(id.0 as usize)
    }

    /// The node's host.
    pub fn host(&self, id: NodeId) -> HostId {
        HostId(self.slots[id.0 as usize].host as u32)
    }

    /// How many datagrams wait in the node's receive queue, and the kernel memory that they take, in bytes.
    pub fn receive_queue(&self, id: NodeId) -> (usize, u64) {
        let queue = &self.slots[id.0 as usize].queue;
        (queue.len(), queue.bytes())
    }

    /// What the node did.
    pub fn node_counters(&self, id: NodeId) -> NodeCounters {
        self.slots[id.0 as usize].counters
    }

    /// What happened from one host to another.
    pub fn link_counters(&self, from: HostId, to: HostId) -> LinkCounters {
        self.net.link_counters((from.0, to.0))
    }

    /// Every link that was used, in the order of its hosts' numbers.
    pub fn links(&self) -> impl Iterator<Item = (HostId, HostId, LinkCounters)> {
        self.net.all_links().map(|((from, to), counters)| (HostId(from), HostId(to), counters))
    }

    /// The account of all datagrams.
    pub fn totals(&self) -> Totals {
        let queued = self.slots.iter().map(|slot| slot.queued() as u64).sum();
        Totals { on_links: self.net.arrivals.len() as u64, queued, ..self.net.totals }
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The hash of everything that happened. The same seed and the same use of this interface give the same hash on
    /// every machine.
    pub fn trace_hash(&self) -> u64 {
        self.net.trace.hash()
    }
}

/// Tell the generators of users and of quota phases from those of links.
const USER_SEEDS: u64 = 0x7573_6572;
const PHASE_SEEDS: u64 = 0x7068_6173;

fn checked(model: &LinkModel) {
    if let Err(e) = model.check() {
        panic!("{e}");
    }
}
