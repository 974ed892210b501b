//! A node for tests: it does what it is told, writes down what it saw, and knows timers.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Flow, Instant, Message, Node, Rng, Sink, Wheel};
use busyhour_sim::{Config, CostModel, HostConfig, HostId, NodeId, Sim};

/// What the node is told.
#[derive(Clone, Debug)]
pub enum Order {
    /// Send these bytes there.
    Send(SocketAddr, Vec<u8>),
    /// Fire after this time.
    Arm(Duration),
    /// Send messages of `len` bytes there, at exponential intervals with this mean, until told otherwise.
    Stream { to: SocketAddr, mean: Duration, len: usize },
    /// Say so.
    Ping,
}

/// What it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A message came, from there.
    Got(SocketAddr, Vec<u8>),
    /// A timer fired that was due then.
    Fired(Instant),
    /// It was pinged.
    Pong,
}

/// The node.
pub struct Puppet {
    local: SocketAddr,
    wheel: Wheel<Instant>,
    rng: Rng,
    stream: Option<(SocketAddr, Duration, usize)>,
    next_send: Option<Instant>,
    said: std::collections::VecDeque<Said>,
    /// Answers messages that begin with this byte by the rest of them.
    pub echo: Option<u8>,
    /// Tells of every message. Off in long runs.
    pub talks: bool,
    /// Sum over all messages of the time since the eight bytes at their beginning, in nanoseconds.
    pub age_ns: u128,
    /// Messages handled.
    pub handled: u64,
}

impl Puppet {
    pub fn new(local: SocketAddr, rng: Rng) -> Puppet {
        Puppet {
            local,
            wheel: Wheel::new(),
            rng,
            stream: None,
            next_send: None,
            said: Default::default(),
            echo: None,
            talks: true,
            age_ns: 0,
            handled: 0,
        }
    }

    pub fn echoing(local: SocketAddr, rng: Rng) -> Puppet {
        Puppet { echo: Some(b'?'), ..Puppet::new(local, rng) }
    }

    pub fn silent(local: SocketAddr, rng: Rng) -> Puppet {
        Puppet { talks: false, ..Puppet::new(local, rng) }
    }

    fn flow(&self, peer: SocketAddr) -> Flow {
        Flow { local: self.local, peer }
    }
}

impl Node for Puppet {
    type Command = Order;
    type Event = Said;

    fn handle_message(&mut self, now: Instant, message: Message<'_>, out: &mut impl Sink) {
        assert_eq!(message.flow.local, self.local, "a wrong delivery");
        self.handled += 1;
        if let Some(head) = message.bytes.first_chunk::<8>() {
            self.age_ns += u128::from(now.as_nanos().saturating_sub(u64::from_le_bytes(*head)));
        }
        if let Some((first, rest)) = message.bytes.split_first()
            && Some(*first) == self.echo
        {
            out.send_bytes(self.flow(message.flow.peer), rest).expect("room");
        }
        if self.talks {
            self.said.push_back(Said::Got(message.flow.peer, message.bytes.to_vec()));
        }
    }

    fn handle_command(&mut self, now: Instant, order: Order, out: &mut impl Sink) {
        match order {
            Order::Send(to, bytes) => out.send_bytes(self.flow(to), &bytes).expect("room"),
            Order::Arm(after) => {
                self.wheel.insert(now + after, now + after);
            }
            Order::Stream { to, mean, len } => {
                self.stream = Some((to, mean, len));
                self.next_send = Some(now + self.rng.exponential(mean) + Duration::from_nanos(1));
            }
            Order::Ping => self.said.push_back(Said::Pong),
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink) {
        while let Some(due) = self.wheel.pop_expired(now) {
            self.said.push_back(Said::Fired(due));
        }
        let Some((to, mean, len)) = self.stream else { return };
        while let Some(at) = self.next_send.filter(|&at| at <= now) {
            out.send(self.flow(to), len, |buf| {
                buf.fill(0);
                buf[..8].copy_from_slice(&at.as_nanos().to_le_bytes());
                len
            })
            .expect("room");
            self.next_send = Some(at + self.rng.exponential(mean) + Duration::from_nanos(1));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline().into_iter().chain(self.next_send).min()
    }

    fn poll_event(&mut self) -> Option<Said> {
        self.said.pop_front()
    }
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// The instant that many milliseconds after the epoch.
pub fn at_ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

pub fn address(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 5060))
}

/// A system of `n` nodes, each on a host of its own.
pub struct World<C: CostModel<Puppet>> {
    pub sim: Sim<Puppet, C>,
    pub hosts: Vec<HostId>,
    pub nodes: Vec<NodeId>,
}

impl<C: CostModel<Puppet>> World<C> {
    pub fn new(seed: u64, n: usize, config: Config, host: HostConfig, cost: C) -> World<C> {
        let mut sim = Sim::new(seed, config, cost);
        let (mut hosts, mut nodes) = (Vec::new(), Vec::new());
        for i in 0..n {
            hosts.push(sim.add_host(host).unwrap());
            let puppet = Puppet::echoing(address(i), sim.rng("puppet", i as u64));
            nodes.push(sim.add_node(hosts[i], address(i), puppet).unwrap());
        }
        World { sim, hosts, nodes }
    }

    /// Orders a node to send, now.
    pub fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.sim.command(self.nodes[from], Order::Send(address(to), bytes.to_vec())).unwrap();
    }

    /// Runs to `until` and returns what was said up to then.
    pub fn run(&mut self, until: Instant) -> Vec<(Instant, NodeId, Said)> {
        let mut said = Vec::new();
        while self.sim.run_until(until).unwrap() == busyhour_sim::Progress::Events {
            said.extend(std::iter::from_fn(|| self.sim.poll_event()));
        }
        assert!(self.sim.totals().is_balanced(), "{:?}", self.sim.totals());
        said
    }
}
