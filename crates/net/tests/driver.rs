//! Workers over loopback: datagrams, addresses, commands, timers, ends.

#![allow(clippy::unwrap_used, reason = "clippy does not take helpers for test code")]

mod common;

use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use busyhour_engine::Flow;
use busyhour_net::{BindError, CommandRefused, SocketOptions, SpawnError, UdpSocket, WorkerOptions};
use common::{Event, Order, Running, echo, echo_with, open, peer, receive};

fn echoes(running: &Running, peer: &std::net::UdpSocket, to: SocketAddr, bytes: &[u8]) {
    peer.send_to(bytes, to).unwrap();
    assert_eq!(receive(peer), (bytes.to_vec(), to));
    let flow = Flow { local: to, peer: peer.local_addr().unwrap() };
    assert_eq!(running.event(), Event::Got(flow, bytes.to_vec()));
}

#[test]
fn a_datagram_comes_back_over_ipv4() {
    let running = echo(open("127.0.0.1:0"));
    let peer = peer("127.0.0.1:0");
    for bytes in [&b"OPTIONS"[..], b"", &[7; 65_507]] {
        echoes(&running, &peer, running.worker.local_addr(), bytes);
    }
    let stats = running.worker.stats();
    assert_eq!((stats.rx_datagrams, stats.rx_bytes, stats.rx_batches), (3, 65_514, 3));
    assert_eq!((stats.rx_truncated, stats.rx_errors, stats.rx_kernel_drops), (0, 0, 0));
    assert!(stats.cpu_nanos > 0);
    // The last send is counted after the peer has it: only the end of the worker makes it certain.
    running.worker.join();
}

#[test]
fn a_datagram_comes_back_over_ipv6() {
    for bound in ["[::1]:0", "[::]:0"] {
        let socket = match UdpSocket::bind(bound.parse().unwrap(), &SocketOptions::default()) {
            Err(BindError::FamilyNotHere { .. } | BindError::AddressNotHere { .. }) => {
                eprintln!("this machine has no IPv6: not tested");
                return;
            }
            socket => socket.unwrap(),
        };
        let running = echo(socket);
        let to = SocketAddr::new("::1".parse().unwrap(), running.worker.local_addr().port());
        echoes(&running, &peer("[::1]:0"), to, b"OPTIONS");
    }
}

#[test]
fn a_wildcard_socket_answers_from_the_address_that_was_asked() {
    let running = echo(open("0.0.0.0:0"));
    assert!(running.worker.local_addr().ip().is_unspecified());
    let peer = peer("127.0.0.9:0");
    for ip in ["127.0.0.1", "127.0.0.2", "127.0.0.1"] {
        let to = SocketAddr::new(ip.parse::<IpAddr>().unwrap(), running.worker.local_addr().port());
        echoes(&running, &peer, to, ip.as_bytes());
    }
}

#[test]
fn a_wildcard_socket_sends_of_its_own_accord() {
    let running = echo(open("0.0.0.0:0"));
    let peer = peer("127.0.0.1:0");
    running.worker.command(Order::Flood { to: peer.local_addr().unwrap(), count: 1 }).unwrap();
    assert_eq!(receive(&peer).1.port(), running.worker.local_addr().port());
}

#[test]
fn a_datagram_longer_than_its_slot_is_dropped_and_counted() {
    let options = WorkerOptions { datagram_max: 2_000, ..WorkerOptions::default() };
    let running = echo_with(open("127.0.0.1:0"), 1, &options);
    let (peer, to) = (peer("127.0.0.1:0"), running.worker.local_addr());
    peer.send_to(&[1; 2_001], to).unwrap();
    echoes(&running, &peer, to, &[2; 2_000]);
    let stats = running.worker.stats();
    assert_eq!((stats.rx_truncated, stats.rx_datagrams, stats.rx_bytes), (1, 1, 2_000));
}

#[test]
fn a_burst_is_received_whole_and_in_large_batches() {
    const COUNT: u64 = 5_000;
    let options = SocketOptions { receive_buffer_bytes: 32 << 20, ..SocketOptions::default() };
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let granted = socket.receive_buffer_bytes() >= options.receive_buffer_bytes;
    let running = echo(socket);
    let release = running.hold();
    let peer = peer("127.0.0.1:0");
    for n in 0..COUNT {
        peer.send_to(&[&n.to_be_bytes()[..], &[0; 492]].concat(), running.worker.local_addr()).unwrap();
    }
    let dropped = running.worker.stats().rx_kernel_drops;
    assert!(dropped == 0 || !granted, "{dropped} dropped in spite of the buffer that was granted");
    release.send(()).unwrap();
    for n in 0..COUNT - dropped {
        let Event::Got(_, bytes) = running.event() else { panic!("nothing but datagrams was sent") };
        assert_eq!((bytes.len(), &bytes[..8]), (500, &n.to_be_bytes()[..]));
    }
    let stats = running.worker.stats();
    assert_eq!((stats.rx_datagrams, stats.rx_kernel_drops), (COUNT - dropped, dropped));
    // 4, 8, 16 and 32 at first, 64 from then on.
    assert!(stats.rx_batches <= 4 + COUNT.div_ceil(64), "{} batches", stats.rx_batches);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    const COUNT: u64 = 1_000;
    let options = SocketOptions { receive_buffer_bytes: 8 << 10, ..SocketOptions::default() };
    let running = echo(UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap());
    let release = running.hold();
    let peer = peer("127.0.0.1:0");
    for _ in 0..COUNT {
        peer.send_to(&[0; 500], running.worker.local_addr()).unwrap();
    }
    let dropped = running.worker.stats().rx_kernel_drops;
    assert!(dropped > COUNT / 2 && dropped < COUNT, "{dropped} of {COUNT}");
    release.send(()).unwrap();
    for _ in 0..COUNT - dropped {
        assert!(matches!(running.event(), Event::Got(..)));
    }
    assert_eq!(running.worker.stats().rx_datagrams, COUNT - dropped);
}

#[test]
fn timers_fire_in_order_and_never_early() {
    let running = echo(open("127.0.0.1:0"));
    let mut delays_us = [0, 300, 1_000, 1_700, 5_000, 12_345, 40_000];
    for us in delays_us.iter().rev() {
        running.worker.command(Order::Arm(Duration::from_micros(*us))).unwrap();
    }
    let mut last = None;
    delays_us.sort_unstable();
    for _ in delays_us {
        let Event::Fired { deadline, now } = running.event() else { panic!("only timers were armed") };
        assert!(now >= deadline, "fired at {now:?}, due at {deadline:?}");
        assert!(Some(now) >= last);
        last = Some(now);
    }
}

#[test]
fn timers_fire_while_traffic_never_ceases() {
    let running = echo(open("127.0.0.1:0"));
    let (peer, to) = (peer("127.0.0.1:0"), running.worker.local_addr());
    running.worker.command(Order::Arm(Duration::from_millis(5))).unwrap();
    // One datagram is always under way, so the worker is woken by traffic again and again.
    for _ in 0..1_000_000 {
        peer.send_to(b"x", to).unwrap();
        receive(&peer);
        if running.events.try_iter().any(|event| matches!(event, Event::Fired { .. })) {
            return;
        }
    }
    panic!("the timer did not fire");
}

#[test]
fn a_sleeping_worker_sleeps_until_a_command_wakes_it() {
    let running = echo(open("127.0.0.1:0"));
    for n in 0..3 {
        running.worker.command(Order::Note(n)).unwrap();
        assert_eq!(running.event(), Event::Noted(n));
        // Whatever it does after the event, it ends up asleep and nothing wakes it: its CPU time stands still.
        let idle = (0..200).any(|_| {
            let before = running.worker.stats();
            std::thread::sleep(Duration::from_millis(20));
            running.worker.stats() == before
        });
        assert!(idle, "the worker never came to rest");
    }
    assert_eq!(running.worker.stats().commands, 3);
}

#[test]
fn a_refused_destination_neither_kills_nor_stalls() {
    let running = echo(open("127.0.0.1:0"));
    let closed = peer("127.0.0.1:0").local_addr().unwrap();
    let (peer, to) = (peer("127.0.0.1:0"), running.worker.local_addr());
    for _ in 0..20 {
        running.worker.command(Order::Flood { to: closed, count: 10 }).unwrap();
        assert_eq!(running.event(), Event::Flooded { refused: 0 });
        echoes(&running, &peer, to, b"still here");
    }
    let stats = running.worker.stats();
    assert_eq!((stats.rx_errors, stats.tx_dropped), (0, 0));
}

#[test]
fn a_destination_that_the_kernel_will_not_take_costs_only_its_own_datagrams() {
    let running = echo(open("127.0.0.1:0"));
    let peer = peer("127.0.0.1:0");
    for to in ["127.0.0.1:0", "[::1]:5060", "255.255.255.255:5060"] {
        running.worker.command(Order::Flood { to: to.parse().unwrap(), count: 5 }).unwrap();
        assert_eq!(running.event(), Event::Flooded { refused: 0 });
        running.worker.command(Order::Flood { to: peer.local_addr().unwrap(), count: 2 }).unwrap();
        assert_eq!(running.event(), Event::Flooded { refused: 0 });
        assert_eq!((receive(&peer).0, receive(&peer).0), (vec![0; 4], vec![0, 0, 0, 1]));
    }
    assert_eq!(running.worker.stats().tx_errors, 15);
}

#[test]
fn what_exceeds_the_send_limit_is_refused_and_counted() {
    let options = WorkerOptions { send_bytes_max: 1, ..WorkerOptions::default() };
    let running = echo_with(open("127.0.0.1:0"), 1, &options);
    let to = peer("127.0.0.1:0");
    running.worker.command(Order::Flood { to: to.local_addr().unwrap(), count: 2_000 }).unwrap();
    assert_eq!(running.event(), Event::Flooded { refused: 2_000 - 1_024 });
    assert_eq!(running.worker.stats().tx_refused, 2_000 - 1_024);
    // The batch is used again: the next message finds it empty.
    echoes(&running, &peer("127.0.0.1:0"), running.worker.local_addr(), b"room again");
}

#[test]
fn a_full_command_channel_refuses_and_counts() {
    let options = WorkerOptions { commands_max: 2, ..WorkerOptions::default() };
    let running = echo_with(open("127.0.0.1:0"), 1, &options);
    let release = running.hold();
    // The held worker has taken its command, so two more find room.
    while running.worker.command(Order::Note(0)).is_ok() {}
    assert!(matches!(running.worker.command(Order::Note(1)), Err(CommandRefused::Full(Order::Note(1)))));
    assert_eq!(running.worker.stats().commands_refused, 2);
    release.send(()).unwrap();
    assert_eq!(running.worker.join().notes, [0, 0]);
}

#[test]
fn joining_handles_what_was_ordered_before_and_gives_the_node_back() {
    let running = echo(open("127.0.0.1:0"));
    let commander = running.worker.commander();
    for n in 0..1_000 {
        running.worker.command(Order::Note(n)).unwrap();
    }
    running.worker.stop();
    assert_eq!(running.worker.join().notes, (0..1_000).collect::<Vec<_>>());
    assert!(matches!(commander.command(Order::Note(0)), Err(CommandRefused::Stopped(_))));
}

#[test]
fn dropping_the_handle_ends_the_worker_and_frees_the_port() {
    let running = echo(open("127.0.0.1:0"));
    let addr = running.worker.local_addr();
    drop(running);
    UdpSocket::bind(addr, &SocketOptions::default()).expect("the port is free again");
}

#[test]
fn a_panicking_node_is_noticed_and_its_port_freed() {
    let running = echo(open("127.0.0.1:0"));
    let addr = running.worker.local_addr();
    assert!(!running.worker.is_finished());
    running.worker.command(Order::Panic).unwrap();
    while !running.worker.is_finished() {
        std::thread::yield_now();
    }
    assert!(matches!(running.worker.command(Order::Note(0)), Err(CommandRefused::Stopped(_))));
    UdpSocket::bind(addr, &SocketOptions::default()).expect("the port is free again");
    assert!(running.worker.stats().cpu_nanos > 0);
    let panic = catch_unwind(AssertUnwindSafe(|| running.worker.join())).map(|_| ()).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"as ordered"));
}

#[test]
fn a_worker_is_pinned_where_it_can_be() {
    let on = |core| WorkerOptions { core: Some(core), ..WorkerOptions::default() };
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..rustix::thread::CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).unwrap();
    let running = echo_with(open("127.0.0.1:0"), 1, &on(core));
    echoes(&running, &peer("127.0.0.1:0"), running.worker.local_addr(), b"pinned");
    for nowhere in [1_000, 1_000_000] {
        let socket = open("127.0.0.1:0");
        let node = common::Echo::new(socket.local_addr());
        let inbox = busyhour_net::Inbox::new(1).unwrap();
        let clock = busyhour_net::Clock::start();
        let spawned =
            busyhour_net::Worker::spawn_with("nowhere", socket, node, clock, |_, _| {}, inbox, &on(nowhere));
        let Err(error @ SpawnError::Core { .. }) = spawned else { panic!("there is no core {nowhere}") };
        assert!(error.to_string().starts_with(&format!("cannot pin a worker to core {nowhere}")), "{error}");
    }
}
