//! What a node sees of the simulator: order, time, its CPU, its queue, faults.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;

use std::time::Duration;

use busyhour_sim::{
    Capacity, Config, Cpu, DropReason, Fault, FixedCost, FreeCpu, HostConfig, Limits, LinkModel, Progress,
    Quota, Refused,
};
use common::{Order, Puppet, Said, World, address, at_ms, ms, us};

fn plain(n: usize, delay: Duration) -> World<FreeCpu> {
    let config = Config { link: LinkModel::with_delay(delay), ..Config::default() };
    World::new(1, n, config, HostConfig::default(), FreeCpu)
}

fn costly(n: usize, cost: FixedCost, host: HostConfig) -> World<FixedCost> {
    let config = Config { link: LinkModel::with_delay(ms(1)), ..Config::default() };
    World::new(1, n, config, host, cost)
}

#[test]
fn a_question_and_its_answer_take_two_delays() {
    let mut w = plain(2, ms(5));
    w.run(at_ms(100));
    w.send(0, 1, b"?yes");
    let said = w.run(at_ms(200));
    let expected = [
        (at_ms(105), w.nodes[1], Said::Got(address(0), b"?yes".to_vec())),
        (at_ms(110), w.nodes[0], Said::Got(address(1), b"yes".to_vec())),
    ];
    assert_eq!(said, expected);
    let link = w.sim.link_counters(w.hosts[0], w.hosts[1]);
    assert_eq!((link.sent, link.sent_bytes, link.arrived), (1, 4, 1));
}

#[test]
fn messages_of_one_instant_arrive_in_the_order_in_which_they_were_sent() {
    let mut w = plain(3, ms(1));
    for n in 0..20u8 {
        w.send(usize::from(n % 2), 2, &[n]);
    }
    let order: Vec<u8> = w
        .run(at_ms(10))
        .into_iter()
        .map(|(_, _, said)| match said {
            Said::Got(_, bytes) => bytes[0],
            Said::Fired(_) | Said::Pong => panic!("nothing else was asked for"),
        })
        .collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
}

#[test]
fn an_event_is_answered_at_its_instant_and_before_any_peer_reacts() {
    let mut w = plain(3, Duration::ZERO);
    w.send(0, 1, b"?news");
    // The echo of node 1 is on a link without delay when its event comes out.
    assert_eq!(w.sim.run_until(at_ms(50)), Ok(Progress::Events));
    let (at, whose, _) = w.sim.poll_event().unwrap();
    assert_eq!((whose, w.sim.now()), (w.nodes[1], at));
    w.sim.command(w.nodes[0], Order::Ping).unwrap();
    let said = w.run(at_ms(50));
    assert_eq!(said[0], (at, w.nodes[0], Said::Pong));
    assert_eq!(said[1], (at, w.nodes[0], Said::Got(address(1), b"news".to_vec())));
}

#[test]
fn receiving_is_charged_before_the_node_runs_and_sending_before_anything_leaves() {
    let cost = FixedCost { receive: ms(3), send: ms(2), ..FixedCost::default() };
    let mut w = costly(2, cost, HostConfig::default());
    w.run(at_ms(100));
    w.send(0, 1, b"?a");
    w.send(0, 1, b"?b");
    let said = w.run(at_ms(200));
    // Node 0 sends at 102 and 104, they arrive at 103 and 105. Node 1: handles the first at 106, answers it at 108,
    // takes the second, handles it at 111, answers it at 113. Node 0 handles the answers at 112 and 117.
    let times: Vec<u64> = said.iter().map(|(at, ..)| at.as_millis()).collect();
    assert_eq!(times, [106, 111, 112, 117]);
    assert_eq!(w.sim.node_counters(w.nodes[1]).busy, ms(10));
}

#[test]
fn timers_are_punctual_on_an_idle_core_and_late_on_a_busy_one() {
    let cost = FixedCost { receive: ms(40), timeout: ms(1), ..FixedCost::default() };
    let mut w = costly(2, cost, HostConfig::default());
    w.run(at_ms(100));
    w.sim.command(w.nodes[1], Order::Arm(ms(20))).unwrap();
    // The timeout itself takes 1 ms.
    assert_eq!(w.run(at_ms(200)), [(at_ms(121), w.nodes[1], Said::Fired(at_ms(120)))]);
    w.sim.command(w.nodes[1], Order::Arm(ms(20))).unwrap();
    w.send(0, 1, b"x");
    w.send(0, 1, b"y");
    let said = w.run(at_ms(400));
    // Busy from 201 to 241: what is due is done with the message, first, and costs its millisecond afterwards.
    let expected = [
        (at_ms(241), w.nodes[1], Said::Fired(at_ms(220))),
        (at_ms(241), w.nodes[1], Said::Got(address(0), b"x".to_vec())),
        (at_ms(282), w.nodes[1], Said::Got(address(0), b"y".to_vec())),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_quota_stops_a_node_until_its_next_period() {
    let cost = FixedCost { receive: ms(1), ..FixedCost::default() };
    let quota = Some(Quota { period: ms(100), quota: ms(10) });
    let host = HostConfig { cpu: Cpu { quota, speed: 1.0 }, ..HostConfig::default() };
    let mut w = costly(2, cost, host);
    for n in 0..35u8 {
        w.send(0, 1, &[n]);
    }
    let said = w.run(at_ms(1000));
    let times: Vec<u64> = said.iter().map(|(at, ..)| at.as_nanos()).collect();
    assert_eq!(times.len(), 35);
    // Wherever the periods begin: runs of messages 1 ms apart, cut by pauses of 91 ms from the tenth to the next.
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let pauses: Vec<usize> = (0..gaps.len()).filter(|&i| gaps[i] > 1_000_000).collect();
    assert!((3..=4).contains(&pauses.len()), "{gaps:?}");
    assert!(pauses.windows(2).all(|pair| pair[1] - pair[0] == 10), "{pauses:?}");
    assert!(pauses[1..].iter().all(|&i| gaps[i] == 91_000_000), "{gaps:?}");
    let counters = w.sim.node_counters(w.nodes[1]);
    assert_eq!(counters.busy, ms(35));
    assert!(counters.throttled >= ms(3 * 90 - 90) && counters.throttled <= ms(4 * 90), "{counters:?}");
}

#[test]
fn a_full_receive_queue_drops_what_comes() {
    let cost = FixedCost { receive: ms(10), ..FixedCost::default() };
    let host = HostConfig { receive_queue_bytes_max: 3 * 832, ..HostConfig::default() };
    let mut w = costly(2, cost, host);
    for n in 0..10u8 {
        w.send(0, 1, &[n]);
    }
    let got = w.run(at_ms(1000)).len();
    // One is in the hands of the node and three wait.
    assert_eq!(got, 4);
    let counters = w.sim.node_counters(w.nodes[1]);
    assert_eq!((counters.receive_overflow, counters.queue_len_peak), (6, 3));
    assert_eq!(w.sim.totals().drops.of(DropReason::ReceiveOverflow), 6);
}

#[test]
fn a_paused_node_goes_on_where_it_stood() {
    let cost = FixedCost { receive: ms(10), ..FixedCost::default() };
    let mut w = costly(2, cost, HostConfig { receive_queue_len_max: 2, ..HostConfig::default() });
    w.run(at_ms(99));
    w.sim.command(w.nodes[1], Order::Arm(ms(51))).unwrap();
    for n in 0..5u8 {
        w.send(0, 1, &[n]);
    }
    w.run(at_ms(104));
    w.sim.fault(Fault::Pause(w.nodes[1])).unwrap();
    assert_eq!(w.run(at_ms(204)), []);
    assert_eq!(w.sim.totals().drops.of(DropReason::ReceiveOverflow), 2);
    w.sim.fault(Fault::Resume(w.nodes[1])).unwrap();
    let said = w.run(at_ms(300));
    // 4 of 10 ms were done at 104: the first is handled at 210, and the timer of 150 with it.
    let times: Vec<u64> = said.iter().map(|(at, ..)| at.as_millis()).collect();
    assert_eq!(times, [210, 210, 220, 230]);
    assert_eq!(said[0].2, Said::Fired(at_ms(150)));
}

#[test]
fn a_crash_loses_memory_queue_and_unsent_messages_and_a_restart_begins_anew() {
    let cost = FixedCost { receive: ms(10), send: ms(10), ..FixedCost::default() };
    let mut w = costly(2, cost, HostConfig::default());
    w.sim.command(w.nodes[1], Order::Arm(ms(500))).unwrap();
    for _ in 0..3 {
        w.send(0, 1, b"?x");
    }
    // Sent at 10, 20 and 30; the first is handled at 21 and its answer would leave at 31.
    w.run(at_ms(25));
    w.sim.fault(Fault::Crash(w.nodes[1])).unwrap();
    assert!(w.sim.node(w.nodes[1]).is_none());
    w.sim.command(w.nodes[1], Order::Ping).unwrap();
    assert_eq!(w.run(at_ms(600)), [], "neither an answer nor the timer");
    let counters = w.sim.node_counters(w.nodes[1]);
    assert_eq!((counters.unsent, counters.down, counters.commands_lost), (1, 2, 1));
    let fresh = Puppet::echoing(address(1), w.sim.rng("puppet", 1));
    w.sim.fault(Fault::Restart(w.nodes[1], Box::new(fresh))).unwrap();
    w.send(0, 1, b"?x");
    assert_eq!(w.run(at_ms(1000)).len(), 2);
    assert_eq!(w.sim.node_counters(w.nodes[1]).delivered, 2, "counters stay");
}

#[test]
fn a_partition_stops_what_is_sent_and_not_what_is_under_way() {
    let mut w = plain(3, ms(10));
    w.send(0, 1, b"a");
    w.run(at_ms(5));
    let (a, b) = (vec![w.hosts[0]], vec![w.hosts[1]]);
    w.sim.fault(Fault::Partition { number: 7, a, b, one_way: false }).unwrap();
    w.send(0, 1, b"b");
    w.send(1, 0, b"c");
    w.send(0, 2, b"d");
    let got: Vec<_> = w.run(at_ms(100)).into_iter().map(|(_, _, said)| said).collect();
    assert_eq!(got, [Said::Got(address(0), b"a".to_vec()), Said::Got(address(0), b"d".to_vec())]);
    assert_eq!(w.sim.totals().drops.of(DropReason::Partitioned), 2);
    w.sim.fault_at(at_ms(150), Fault::Heal(7)).unwrap();
    w.run(at_ms(151));
    w.send(0, 1, b"e");
    assert_eq!(w.run(at_ms(200)).len(), 1);
}

#[test]
fn healing_restores_what_was_configured() {
    let mut w = plain(2, ms(10));
    w.sim.set_link(w.hosts[0], w.hosts[1], LinkModel::with_delay(ms(3)));
    let dead = LinkModel { loss: 1.0, ..LinkModel::IDEAL };
    w.sim.fault(Fault::AllLinks(Some(dead))).unwrap();
    w.sim.fault(Fault::Pause(w.nodes[1])).unwrap();
    w.send(0, 1, b"lost");
    assert_eq!(w.run(at_ms(50)), []);
    w.sim.fault(Fault::Crash(w.nodes[0])).unwrap();
    assert_eq!(w.sim.heal_all(), [w.nodes[0]]);
    let fresh = Puppet::echoing(address(0), w.sim.rng("puppet", 0));
    w.sim.fault(Fault::Restart(w.nodes[0], Box::new(fresh))).unwrap();
    w.send(0, 1, b"x");
    assert_eq!(w.run(at_ms(100)), [(at_ms(53), w.nodes[1], Said::Got(address(0), b"x".to_vec()))]);
}

#[test]
fn a_slower_cpu_takes_longer_and_recovers() {
    let cost = FixedCost { receive: ms(2), ..FixedCost::default() };
    let mut w = costly(2, cost, HostConfig::default());
    w.sim.fault(Fault::Cpu(w.hosts[1], Some(Cpu { quota: None, speed: 0.5 }))).unwrap();
    w.run(at_ms(100));
    w.send(0, 1, b"x");
    assert_eq!(w.run(at_ms(200))[0].0, at_ms(105));
    w.sim.heal_all();
    w.send(0, 1, b"x");
    assert_eq!(w.run(at_ms(300))[0].0, at_ms(203));
}

#[test]
fn nodes_come_and_go_while_it_runs() {
    let mut w = plain(2, ms(10));
    w.send(0, 9, b"nobody");
    w.send(0, 1, b"too late");
    w.run(at_ms(5));
    assert!(w.sim.remove_node(w.nodes[1]).is_some());
    assert!(w.sim.remove_node(w.nodes[1]).is_none(), "it is gone already");
    assert_eq!(w.run(at_ms(50)), []);
    assert_eq!(w.sim.totals().drops.of(DropReason::UnknownDestination), 2);
    let puppet = |w: &World<FreeCpu>, n: usize| Puppet::echoing(address(n), w.sim.rng("puppet", n as u64));
    let (taken, free) = (puppet(&w, 0), puppet(&w, 1));
    assert_eq!(w.sim.add_node(w.hosts[1], address(0), taken), Err(Refused::AddressInUse(address(0))));
    let node = w.sim.add_node(w.hosts[1], address(1), free).unwrap();
    assert_ne!(node, w.nodes[1], "numbers are never used again");
    w.send(0, 1, b"x");
    assert_eq!(w.run(at_ms(100)), [(at_ms(60), node, Said::Got(address(0), b"x".to_vec()))]);
}

#[test]
fn a_runaway_experiment_ends_with_a_reason() {
    let limits = Limits { in_flight_max: 100, ..Limits::default() };
    let config = Config { link: LinkModel::with_delay(ms(1000)), limits, ..Config::default() };
    let mut w = World::new(1, 2, config, HostConfig::default(), FreeCpu);
    w.sim.command(w.nodes[0], Order::Stream { to: address(1), mean: us(100), len: 100 }).unwrap();
    assert_eq!(w.sim.run_until(at_ms(5000)), Err(Capacity::InFlight { max: 100 }));
    assert_eq!(w.sim.run_until(at_ms(5000)), Err(Capacity::InFlight { max: 100 }), "it stays over");
    assert!(w.sim.totals().is_balanced());

    let limits = Limits { steps_per_instant_max: 1000, ..Limits::default() };
    let mut w = World::new(1, 2, Config { limits, ..Config::default() }, HostConfig::default(), FreeCpu);
    w.send(0, 1, &[b'?'; 2000]);
    let result = loop {
        match w.sim.run_until(at_ms(1)) {
            Ok(Progress::Events) => while w.sim.poll_event().is_some() {},
            other => break other,
        }
    };
    assert!(matches!(result, Err(Capacity::Standstill { max: 1000, .. })), "{result:?}");
}
