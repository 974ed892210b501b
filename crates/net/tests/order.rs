//! The order contract: events reach others in the process before peers can react to the messages of the same turn.

mod common;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc::channel;

use busyhour_engine::{Flow, Instant, Message, Node, Sink};
use busyhour_net::{Clock, Inbox, Worker, WorkerOptions};
use common::{Echo, Event, Order, PATIENCE, open, peer, receive};

/// On loopback a datagram is in the receiver's socket when the send call returns. So if an event comes after its
/// message was sent, the message can be read while the event is handled.
#[test]
fn no_message_leaves_before_the_events_of_its_input() {
    const COUNT: u8 = 40;
    const COPIES: u32 = 300;
    let options = WorkerOptions { batch_max: 8, ..WorkerOptions::default() };
    let socket = open("127.0.0.1:0");
    let to = socket.local_addr();
    let asker = peer("127.0.0.1:0");
    let looker = asker.try_clone().unwrap();
    // Shared with `asker`: nobody may wait on either until the worker has ended.
    looker.set_nonblocking(true).unwrap();
    let (sender, reports) = channel();
    let on_event = move |_, event| {
        let Event::Got(_, bytes) = event else { return };
        let mut buf = [0; 16];
        let early = std::iter::from_fn(|| looker.recv(&mut buf).ok().map(|_| buf[0])).any(|n| n >= bytes[0]);
        sender.send((bytes[0], early)).unwrap();
    };
    let mut node = Echo::new(to);
    node.copies = COPIES;
    let inbox = Inbox::new(4).unwrap();
    let (release, released) = channel();
    // Held, the worker finds several datagrams in one batch.
    let hold = move || released.recv_timeout(PATIENCE).unwrap();
    inbox.commander().command(Order::Run(Box::new(hold))).unwrap();
    let worker =
        Worker::spawn_with("order", socket, node, Clock::start(), on_event, inbox, &options).unwrap();
    for n in 0..COUNT {
        asker.send_to(&[n], to).unwrap();
    }
    release.send(()).unwrap();
    for n in 0..COUNT {
        assert_eq!(
            reports.recv_timeout(PATIENCE),
            Ok((n, false)),
            "which event, and whether its message was there"
        );
    }
    worker.join();
}

/// Commands that wait when a batch has been received are handled before the batch.
#[test]
fn commands_are_handled_before_the_messages_of_the_batch() {
    let (socket, options) = (open("127.0.0.1:0"), WorkerOptions::default());
    let to = socket.local_addr();
    let asker = peer("127.0.0.1:0");
    let (sender, events) = channel();
    let inbox = Inbox::new(16).unwrap();
    // All of this waits before the worker's first turn.
    asker.send_to(b"a message", to).unwrap();
    for n in 0..10 {
        inbox.commander().command(Order::Note(n)).unwrap();
    }
    let on_event = move |_, event| sender.send(event).unwrap();
    let worker =
        Worker::spawn_with("order", socket, Echo::new(to), Clock::start(), on_event, inbox, &options)
            .unwrap();
    assert_eq!(receive(&asker).0, b"a message");
    let seen: Vec<Event> = events.try_iter().collect();
    assert_eq!(seen[..10], (0..10).map(Event::Noted).collect::<Vec<_>>());
    assert!(matches!(seen[10], Event::Got(..)) && seen.len() == 11);
    worker.join();
}

/// The channel is drained after the batch was received, not before: what was ordered before a datagram of the batch was
/// sent has been handled when the datagram is. With room for one command the worker takes one a turn, so what the first
/// command does happens between two drains.
#[test]
fn commands_are_drained_after_the_batch_is_received() {
    let (socket, options) = (open("127.0.0.1:0"), WorkerOptions::default());
    let to = socket.local_addr();
    let asker = peer("127.0.0.1:0");
    let sender = asker.try_clone().unwrap();
    let inbox = Inbox::new(1).unwrap();
    let commander = inbox.commander();
    let command_then_send = move || {
        commander.command(Order::Note(1)).unwrap();
        sender.send_to(b"a message", to).unwrap();
    };
    inbox.commander().command(Order::Run(Box::new(command_then_send))).unwrap();
    let (sender, events) = channel();
    let on_event = move |_, event| sender.send(event).unwrap();
    let worker =
        Worker::spawn_with("order", socket, Echo::new(to), Clock::start(), on_event, inbox, &options)
            .unwrap();
    assert_eq!(receive(&asker).0, b"a message");
    let seen: Vec<Event> = events.try_iter().collect();
    assert!(matches!(seen[..], [Event::Noted(1), Event::Got(..)]), "{seen:?}");
    worker.join();
}

/// A node that sends numbers to its peer node, each announced by an event, and knows the numbers announced to it.
struct Announcer {
    local: SocketAddr,
    peer: SocketAddr,
    known: u64,
    surprises: u64,
    last: u64,
    until: u64,
    events: VecDeque<u64>,
}

impl Announcer {
    fn new(local: SocketAddr, peer: SocketAddr, until: u64) -> Self {
        Announcer { local, peer, known: 0, surprises: 0, last: 0, until, events: VecDeque::new() }
    }

    fn announce_and_send(&mut self, n: u64, out: &mut impl Sink) {
        self.last = n;
        self.events.push_back(n);
        out.send_bytes(Flow { local: self.local, peer: self.peer }, &n.to_be_bytes()).expect("room");
    }
}

impl Node for Announcer {
    type Command = u64;
    type Event = u64;

    fn handle_message(&mut self, _: Instant, message: Message<'_>, out: &mut impl Sink) {
        let n = u64::from_be_bytes(message.bytes.try_into().expect("eight bytes"));
        self.surprises += u64::from(self.known < n);
        if n < self.until {
            self.announce_and_send(n + 1, out);
        } else {
            self.events.push_back(u64::MAX);
        }
    }

    fn handle_command(&mut self, _: Instant, n: u64, out: &mut impl Sink) {
        if n == 0 { self.announce_and_send(1, out) } else { self.known = n }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut impl Sink) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll_event(&mut self) -> Option<u64> {
        self.events.pop_front()
    }
}

/// Two workers that command each other and send to each other: what the one announced is always known to the other when
/// the message arrives.
#[test]
fn what_an_event_tells_another_worker_is_known_before_the_message_arrives() {
    const UNTIL: u64 = 20_000;
    let (left_socket, right_socket) = (open("127.0.0.1:0"), open("127.0.0.1:0"));
    let (left_addr, right_addr) = (left_socket.local_addr(), right_socket.local_addr());
    let (left_inbox, right_inbox) = (Inbox::new(64).unwrap(), Inbox::new(64).unwrap());
    let (to_left, to_right) = (left_inbox.commander(), right_inbox.commander());
    let (done, ended) = channel();
    let telling = |to: busyhour_net::Commander<u64>| {
        let done = done.clone();
        move |_, n| {
            if n == u64::MAX { done.send(()).unwrap() } else { to.command(n).unwrap() }
        }
    };
    let (clock, options) = (Clock::start(), WorkerOptions::default());
    let (left, right) =
        (Announcer::new(left_addr, right_addr, UNTIL), Announcer::new(right_addr, left_addr, UNTIL));
    let left = Worker::spawn_with("left", left_socket, left, clock, telling(to_right), left_inbox, &options)
        .unwrap();
    let right =
        Worker::spawn_with("right", right_socket, right, clock, telling(to_left), right_inbox, &options)
            .unwrap();
    left.command(0).unwrap();
    ended.recv_timeout(PATIENCE).expect("the last number arrives");
    let (left, right) = (left.join(), right.join());
    assert_eq!((left.last, right.last), (UNTIL - 1, UNTIL));
    assert_eq!((left.surprises, right.surprises), (0, 0));
}
