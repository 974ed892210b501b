//! A node that does what it is told, and what the tests need around it.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "clippy does not take this for test code")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use busyhour_engine::{Flow, Instant, Message, Node, Sink, Wheel};
use busyhour_net::{Clock, Handle, Inbox, SocketOptions, UdpSocket, Worker, WorkerOptions};

/// How long a test waits for what must come. Only a failing test ever waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) enum Order {
    /// Remember the number.
    Note(u64),
    /// Arm a timer.
    Arm(Duration),
    /// Send so many numbered messages to the address.
    Flood {
        to: SocketAddr,
        count: u32,
    },
    /// Do this on the worker's thread.
    Run(Box<dyn FnOnce() + Send>),
    Panic,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Noted(u64),
    Fired { deadline: Instant, now: Instant },
    Got(Flow, Vec<u8>),
    Flooded { refused: u32 },
}

/// Sends every message back to where it came from, in as many copies as `copies`, and reports it.
pub(crate) struct Echo {
    local: SocketAddr,
    /// How often each message is sent back.
    pub(crate) copies: u32,
    pub(crate) notes: Vec<u64>,
    wheel: Wheel<Instant>,
    events: VecDeque<Event>,
}

impl Echo {
    pub(crate) fn new(local: SocketAddr) -> Self {
        Echo { local, copies: 1, notes: Vec::new(), wheel: Wheel::new(), events: VecDeque::new() }
    }
}

impl Node for Echo {
    type Command = Order;
    type Event = Event;

    fn handle_message(&mut self, _: Instant, message: Message<'_>, out: &mut impl Sink) {
        self.events.push_back(Event::Got(message.flow, message.bytes.to_vec()));
        for _ in 0..self.copies {
            out.send_bytes(message.flow, message.bytes).expect("the batch has room");
        }
    }

    fn handle_command(&mut self, now: Instant, order: Order, out: &mut impl Sink) {
        match order {
            Order::Note(n) => {
                self.notes.push(n);
                self.events.push_back(Event::Noted(n));
            }
            Order::Arm(after) => {
                self.wheel.insert(now + after, now + after);
            }
            Order::Flood { to, count } => {
                let flow = Flow { local: self.local, peer: to };
                let refused = (0..count).filter(|n| out.send_bytes(flow, &n.to_be_bytes()).is_err()).count();
                self.events.push_back(Event::Flooded { refused: refused as u32 });
            }
            Order::Run(task) => task(),
            Order::Panic => panic!("as ordered"),
        }
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut impl Sink) {
        while let Some(deadline) = self.wheel.pop_expired(now) {
            self.events.push_back(Event::Fired { deadline, now });
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

pub(crate) struct Running {
    pub(crate) worker: Handle<Echo>,
    pub(crate) events: Receiver<Event>,
}

impl Running {
    pub(crate) fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    /// Keeps the worker busy until the returned sender is used; it is busy when this returns.
    pub(crate) fn hold(&self) -> Sender<()> {
        let ((held, is_held), (release, released)) = (channel(), channel());
        let task = move || {
            held.send(()).unwrap();
            released.recv_timeout(PATIENCE).expect("released");
        };
        self.worker.command(Order::Run(Box::new(task))).unwrap();
        is_held.recv_timeout(PATIENCE).expect("held");
        release
    }
}

pub(crate) fn open(addr: &str) -> UdpSocket {
    UdpSocket::bind(addr.parse().unwrap(), &SocketOptions::default()).unwrap()
}

pub(crate) fn echo(socket: UdpSocket) -> Running {
    echo_with(socket, 1, &WorkerOptions::default())
}

pub(crate) fn echo_with(socket: UdpSocket, copies: u32, options: &WorkerOptions) -> Running {
    let (sender, events) = channel();
    let mut node = Echo::new(socket.local_addr());
    node.copies = copies;
    let inbox = Inbox::new(options.commands_max).unwrap();
    let on_event = move |_, event| {
        // A test that has seen enough has dropped its end.
        let _ = sender.send(event);
    };
    let worker = Worker::spawn_with("echo", socket, node, Clock::start(), on_event, inbox, options).unwrap();
    Running { worker, events }
}

/// A peer: a plain socket of the standard library.
pub(crate) fn peer(addr: &str) -> std::net::UdpSocket {
    let socket = std::net::UdpSocket::bind(addr).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

pub(crate) fn receive(peer: &std::net::UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buf = vec![0; 65_536];
    let (len, from) = peer.recv_from(&mut buf).expect("a datagram");
    buf.truncate(len);
    (buf, from)
}
