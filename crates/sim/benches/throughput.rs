//! How many messages a second of CPU time the simulator carries on one core, with nodes that do almost nothing:
//! each passes what it receives on to the next node of a ring. So this is the cost of the simulator alone: what is
//! left of a real run's time goes to the roles.
//!
//! Run with `cargo bench -p busyhour-sim`. Every line is the median of five runs; a run is two million messages after
//! a warm-up of two hundred thousand.
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Flow, Instant, Message, Node, Sink, TimerId, Wheel};
use rustix::time::{ClockId, clock_gettime};

use busyhour_sim::{Config, CostModel, FixedCost, FreeCpu, HostConfig, LinkModel, Sim};

/// Sends what it receives to `next`. Like a transaction, every message arms a timer of 32 s in place of the last one.
struct Relay {
    local: SocketAddr,
    next: SocketAddr,
    wheel: Option<Wheel<()>>,
    armed: Option<TimerId>,
    handled: u64,
}

impl Node for Relay {
    type Command = (usize, usize);
    type Event = ();

    fn handle_message(&mut self, now: Instant, message: Message<'_>, out: &mut impl Sink) {
        self.handled += 1;
        let flow = Flow { local: self.local, peer: self.next };
        out.send_bytes(flow, message.bytes).expect("one message fits");
        if let Some(wheel) = &mut self.wheel {
            if let Some(id) = self.armed.take() {
                wheel.cancel(id);
            }
            self.armed = Some(wheel.insert(now + Duration::from_secs(32), ()));
        }
    }

    fn handle_command(&mut self, _: Instant, (messages, len): (usize, usize), out: &mut impl Sink) {
        let flow = Flow { local: self.local, peer: self.next };
        for n in 0..messages {
            out.send(flow, len, |buf| {
                buf.fill(n as u8);
                len
            })
            .expect("the benchmark's messages fit");
        }
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut impl Sink) {
        if let Some(wheel) = &mut self.wheel {
            while wheel.pop_expired(now).is_some() {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.wheel.as_ref().and_then(Wheel::next_deadline)
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }
}

#[derive(Copy, Clone)]
struct Case {
    name: &'static str,
    nodes: u16,
    in_flight: usize,
    len: usize,
    timers: bool,
    link: LinkModel,
}

/// CPU time of this thread: what else runs on the machine then disturbs the figures less.
fn cpu_time() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
}

const MESSAGES: u64 = 2_000_000;
const WARM_UP: u64 = 200_000;

fn run<C: CostModel<Relay>>(case: &Case, cost: C) -> f64 {
    let mut sim = Sim::new(1, Config { link: case.link, ..Config::default() }, cost);
    let address = |n: u16| SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 5060));
    let host = HostConfig { receive_queue_bytes_max: u64::MAX, ..HostConfig::default() };
    let ids: Vec<_> = (0..case.nodes)
        .map(|n| {
            let relay = Relay {
                local: address(n),
                next: address((n + 1) % case.nodes),
                wheel: case.timers.then(Wheel::new),
                armed: None,
                handled: 0,
            };
            let host = sim.add_host(host).expect("within the limits");
            sim.add_node(host, address(n), relay).expect("within the limits")
        })
        .collect();
    for &id in &ids {
        sim.command(id, (case.in_flight / usize::from(case.nodes), case.len)).expect("within the limits");
    }
    let mut carry = |messages: u64| {
        let until = sim.totals().delivered + messages;
        let started = cpu_time();
        while sim.totals().delivered < until {
            for _ in 0..10_000 {
                sim.step().expect("within the limits");
            }
        }
        cpu_time() - started
    };
    carry(WARM_UP);
    let took = carry(MESSAGES);
    assert!(sim.totals().is_balanced());
    MESSAGES as f64 / took.as_secs_f64()
}

fn main() {
    let wan =
        LinkModel { jitter: Duration::from_micros(200), ..LinkModel::with_delay(Duration::from_millis(1)) };
    let lossy =
        LinkModel { duplicate: 0.01, loss: 0.0099, reorder: 0.01, rate_bps: Some(100_000_000_000), ..wan };
    let base = Case { name: "", nodes: 16, in_flight: 1000, len: 500, timers: false, link: wan };
    let cases = [
        Case { name: "16 nodes, 1,000 in flight, 500 bytes", ..base },
        Case { name: "the same with a timer per message", timers: true, ..base },
        Case { name: "the same with 1,500 bytes", len: 1500, ..base },
        Case { name: "the same on links that lose, copy and reorder", link: lossy, ..base },
        Case { name: "1,000 nodes, 10,000 in flight", nodes: 1000, in_flight: 10_000, timers: true, ..base },
        Case { name: "16 nodes, 100,000 in flight", in_flight: 100_000, timers: true, ..base },
    ];
    println!(
        "{:<50} {:>14} {:>14}",
        "million messages per second of CPU time", "CPU is free", "CPU is charged"
    );
    for case in &cases {
        let median = |run: &dyn Fn() -> f64| {
            let mut rates: Vec<f64> = (0..5).map(|_| run()).collect();
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2] / 1e6
        };
        let free = median(&|| run(case, FreeCpu));
        let cost = Duration::from_nanos(500);
        let charged =
            median(&|| run(case, FixedCost { receive: cost, send: cost, timeout: cost, command: cost }));
        println!("{:<50} {free:>14.2} {charged:>14.2}", case.name);
    }
}
