//! The simulator against queueing theory.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;

use busyhour_engine::{Instant, Node};
use busyhour_sim::{Config, CostModel, FixedCost, HostConfig, LinkModel, Progress, Sim};
use common::{Order, Puppet, address, ms, us};
use std::time::Duration;

/// Charges the server only: the source must not be a queue of its own.
struct Server<C>(C);

impl<C: CostModel<Puppet>> CostModel<Puppet> for Server<C> {
    fn receive(&self, node: &Puppet, bytes: &[u8]) -> Duration {
        self.0.receive(node, bytes)
    }
    fn send(&self, _: &Puppet, _: &[u8]) -> Duration {
        Duration::ZERO
    }
    fn timeout(&self, _: &Puppet) -> Duration {
        Duration::ZERO
    }
    fn command(&self, _: &Puppet, _: &<Puppet as Node>::Command) -> Duration {
        Duration::ZERO
    }
}

/// Two lengths of service in equal shares, by the length of the message's random send time: an M/G/1 queue.
struct Either(Duration, Duration);

impl CostModel<Puppet> for Either {
    fn receive(&self, _: &Puppet, bytes: &[u8]) -> Duration {
        // The send time is random to the nanosecond, so its parity, mixed, is a fair coin.
        let sent = u64::from_le_bytes(*bytes.first_chunk().expect("a time stamp"));
        if (sent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) == 0 { self.0 } else { self.1 }
    }
    fn send(&self, _: &Puppet, _: &[u8]) -> Duration {
        Duration::ZERO
    }
    fn timeout(&self, _: &Puppet) -> Duration {
        Duration::ZERO
    }
    fn command(&self, _: &Puppet, _: &<Puppet as Node>::Command) -> Duration {
        Duration::ZERO
    }
}

/// Mean time from arrival to the end of service, over `messages` Poisson arrivals, in microseconds.
fn mean_sojourn_us<C: CostModel<Puppet>>(seed: u64, cost: C, gap: Duration, messages: u64) -> f64 {
    let mut sim = Sim::new(seed, Config::default(), Server(cost));
    let host = HostConfig { receive_queue_bytes_max: u64::MAX, ..HostConfig::default() };
    let nodes: Vec<_> = (0..2)
        .map(|n| {
            let host = sim.add_host(host).unwrap();
            let puppet = Puppet::silent(address(n), sim.rng("puppet", n as u64));
            sim.add_node(host, address(n), puppet).unwrap()
        })
        .collect();
    sim.command(nodes[0], Order::Stream { to: address(1), mean: gap, len: 8 }).unwrap();
    assert_eq!(sim.run_until(Instant::EPOCH + gap * messages as u32), Ok(Progress::Reached));
    let server = sim.node(nodes[1]).unwrap();
    server.age_ns as f64 / server.handled as f64 / 1000.0
}

/// Pollaczek–Khinchine: the mean wait in an M/G/1 queue is λ·E[S²] / (2·(1 − ρ)); see L. Kleinrock, Queueing Systems,
/// volume 1, section 5.6.
fn sojourn_by_theory_us(gap_us: f64, services_us: &[f64]) -> f64 {
    let n = services_us.len() as f64;
    let mean = services_us.iter().sum::<f64>() / n;
    let second_moment = services_us.iter().map(|s| s * s).sum::<f64>() / n;
    let (rate, load) = (1.0 / gap_us, mean / gap_us);
    rate * second_moment / (2.0 * (1.0 - load)) + mean
}

#[test]
fn the_mean_wait_is_that_of_an_m_d_1_queue() {
    for (load, tolerance) in [(0.3, 0.01), (0.7, 0.02), (0.9, 0.05)] {
        let service = us(1000);
        let gap = Duration::from_nanos((1_000_000.0 / load) as u64);
        let measured =
            mean_sojourn_us(3, FixedCost { receive: service, ..FixedCost::default() }, gap, 400_000);
        let expected = sojourn_by_theory_us(1000.0 / load, &[1000.0]);
        let error = (measured / expected - 1.0).abs();
        assert!(error < tolerance, "load {load}: {measured} us, by theory {expected} us");
    }
}

#[test]
fn the_mean_wait_is_that_of_an_m_g_1_queue() {
    let (gap, short, long) = (us(1250), us(100), us(1900));
    let measured = mean_sojourn_us(4, Either(short, long), gap, 400_000);
    let expected = sojourn_by_theory_us(1250.0, &[100.0, 1900.0]);
    assert!((measured / expected - 1.0).abs() < 0.05, "{measured} us, by theory {expected} us");
}

/// Above capacity, what is handled is the capacity and the rest overflows.
#[test]
fn an_overloaded_server_handles_its_capacity() {
    let cost = FixedCost { receive: ms(1), ..FixedCost::default() };
    let mut sim =
        Sim::new(5, Config { link: LinkModel::with_delay(ms(1)), ..Config::default() }, Server(cost));
    let nodes: Vec<_> = (0..2)
        .map(|n| {
            let host = sim.add_host(HostConfig::default()).unwrap();
            let puppet = Puppet::silent(address(n), sim.rng("puppet", n as u64));
            sim.add_node(host, address(n), puppet).unwrap()
        })
        .collect();
    sim.command(nodes[0], Order::Stream { to: address(1), mean: us(500), len: 500 }).unwrap();
    sim.run_until(Instant::EPOCH + Duration::from_secs(100)).unwrap();
    let server = sim.node_counters(nodes[1]);
    assert!((99_900..=100_000).contains(&server.delivered), "{server:?}");
    // 166 datagrams of 1280 bytes fit into 212,992 bytes.
    assert_eq!((server.queue_len_peak, sim.receive_queue(nodes[1]).1 <= 212_992), (166, true));
    let totals = sim.totals();
    assert!(totals.is_balanced());
    assert_eq!(totals.drops.total(), server.receive_overflow);
    let offered = totals.sent as f64 / 200_000.0;
    assert!((0.98..1.02).contains(&offered), "offered {offered} of what was intended");
}
