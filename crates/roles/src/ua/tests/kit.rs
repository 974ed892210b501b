//! A fleet in virtual time, and the messages of the servers around it.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Flow, Input, Instant, Message as Datagram, Node, pump};
use busyhour_sip::transaction::Timers;
use busyhour_sip::value::Ha1;

use crate::testing::Sent;
use crate::transactions;
use crate::ua::{
    Answering, CallRecord, Command, Config, Event, Fleet, PlannedCall, RegisterRecord, Stats, User,
};

pub(super) const FLEET: &str = "198.51.100.7:5062";
pub(super) const SERVER: &str = "192.0.2.1:5060";

pub(super) const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Two users, alice and bob; 180 and 200 at once; 20 s of patience.
pub(super) fn config() -> Config {
    let user = |name: &str| User { name: name.to_owned(), ha1: Ha1::of(name, "example.com", "secret") };
    Config {
        address: addr(FLEET),
        outbound: vec![addr(SERVER)],
        domain: "example.com".to_owned(),
        users: vec![user("alice"), user("bob")],
        register_expires_s: 600,
        refresh_after: None,
        answer: Answering::default(),
        patience: s(20),
        bye_within: Duration::from_secs(3600),
        calls_max: 10,
        transactions: transactions::Config { timers: Timers::default(), servers_max: 100, clients_max: 100 },
        tell_answers: false,
    }
}

/// A message that the fleet sent.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// How long after the start of the test.
    pub(super) at: Duration,
    pub(super) to: SocketAddr,
    pub(super) text: String,
}

impl Out {
    /// Method of a request, status of a response.
    pub(super) fn kind(&self) -> &str {
        let mut words = self.text.split(' ');
        match words.next().unwrap() {
            "SIP/2.0" => words.next().unwrap(),
            method => method,
        }
    }

    pub(super) fn value(&self, name: &str) -> &str {
        value(&self.text, name)
    }
}

/// The value of the first header of that name.
pub(super) fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
}

pub(super) struct Lab {
    fleet: Fleet,
    start: Instant,
    now: Instant,
    out: Sent,
}

impl Lab {
    pub(super) fn new(config: Config) -> Self {
        let start = Instant::from_nanos(1_000_000_000_000);
        Lab { fleet: Fleet::new(config, 1), start, now: start, out: Sent::default() }
    }

    /// An instant of the test.
    pub(super) fn at(&self, after: Duration) -> Instant {
        self.start + after
    }

    fn taken(&mut self) -> Vec<Out> {
        let at = self.now - self.start;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        self.out
            .messages
            .drain(..)
            .map(|(flow, bytes)| Out { at, to: flow.peer, text: text(bytes) })
            .collect()
    }

    pub(super) fn command(&mut self, command: Command) -> Vec<Out> {
        pump(&mut self.fleet, self.now, Input::Command(command), &mut self.out);
        self.taken()
    }

    pub(super) fn receive(&mut self, text: &str) -> Vec<Out> {
        let flow = Flow { local: addr(FLEET), peer: addr(SERVER) };
        let datagram = Datagram { flow, bytes: text.as_bytes() };
        pump(&mut self.fleet, self.now, Input::Message(datagram), &mut self.out);
        self.taken()
    }

    /// Lets time pass; what was sent meanwhile.
    pub(super) fn wait(&mut self, d: Duration) -> Vec<Out> {
        let until = self.now + d;
        let mut sent = Vec::new();
        while let Some(at) = self.fleet.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            pump(&mut self.fleet, self.now, Input::Timeout, &mut self.out);
            sent.extend(self.taken());
        }
        self.now = until;
        sent
    }

    /// Lets time pass in which the fleet does not run, as on a machine that is too slow.
    pub(super) fn stand_still(&mut self, d: Duration) {
        self.now += d;
    }

    pub(super) fn stats(&self) -> Stats {
        self.fleet.stats()
    }

    /// The call that has ended since the last question; there must be one.
    pub(super) fn ended(&mut self) -> CallRecord {
        let record = self.ended_if_any();
        record.expect("a call has ended")
    }

    pub(super) fn ended_if_any(&mut self) -> Option<CallRecord> {
        match self.fleet.poll_event() {
            Some(Event::Call(record)) => Some(record),
            None => None,
            other => panic!("told {other:?}"),
        }
    }

    pub(super) fn registered(&mut self) -> RegisterRecord {
        match self.fleet.poll_event() {
            Some(Event::Register(record)) => record,
            other => panic!("told {other:?}"),
        }
    }

    pub(super) fn answered(&mut self) -> Option<u64> {
        match self.fleet.poll_event() {
            Some(Event::Answered { call }) => Some(call),
            None => None,
            other => panic!("told {other:?}"),
        }
    }

    /// Alice calls bob at once, and holds for 5 s; the INVITE.
    pub(super) fn call(&mut self) -> Out {
        let plan = PlannedCall { at: self.now, caller: 0, callee: 1, hold: s(5) };
        only(self.command(Command::Call(vec![plan])), "INVITE")
    }

    /// Alice calls bob and is answered; the 200 and the ACK to it.
    pub(super) fn talk(&mut self) -> (String, Out) {
        let invite = self.call();
        let answer = accept(&invite.text, "bob-1");
        let ack = only(self.receive(&answer), "ACK");
        (answer, ack)
    }
}

/// The one message that was sent, of that method or status.
pub(super) fn only(mut sent: Vec<Out>, kind: &str) -> Out {
    assert_eq!(sent.iter().map(Out::kind).collect::<Vec<_>>(), [kind], "{sent:#?}");
    sent.remove(0)
}

/// Methods and statuses with their times in milliseconds.
pub(super) fn times(sent: &[Out]) -> Vec<(u128, &str)> {
    sent.iter().map(|out| (out.at.as_millis(), out.kind())).collect()
}

/// A response with header lines of its own.
pub(super) fn reply_with(request: &str, status: u16, tag: &str, lines: &str) -> String {
    let mut text = format!("SIP/2.0 {status} Whatever\r\n");
    for line in request.lines().take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap();
        match name {
            "Via" | "From" | "Call-ID" | "CSeq" => text += &format!("{line}\r\n"),
            "To" if tag.is_empty() || line.contains(";tag=") => text += &format!("{line}\r\n"),
            "To" => text += &format!("{line};tag={tag}\r\n"),
            _ => {}
        }
    }
    text + lines + "Content-Length: 0\r\n\r\n"
}

pub(super) fn reply(request: &str, status: u16, tag: &str) -> String {
    reply_with(request, status, tag, "")
}

/// A 200 to an INVITE, through a proxy that stays in the way.
pub(super) fn accept(invite: &str, tag: &str) -> String {
    let lines = format!("Contact: <sip:{tag}@203.0.113.9>\r\nRecord-Route: <sip:192.0.2.1;lr>\r\n");
    reply_with(invite, 200, tag, &lines)
}

/// A challenge with a nonce that nobody checks.
pub(super) fn challenge(request: &str, status: u16, lines: &str) -> String {
    let name = if status == 401 { "WWW-Authenticate" } else { "Proxy-Authenticate" };
    let line =
        format!("{name}: Digest realm=\"example.com\", nonce=\"n\", algorithm=SHA-256, qop=\"auth\"\r\n");
    reply_with(request, status, "proxy", &(line + lines))
}

/// A request to bob as a proxy sends it; the From tag is part of the Call-ID's dialog.
pub(super) fn request(method: &str, call_id: &str, branch: &str, cseq: u32, to_tag: &str) -> String {
    let to_tag = if to_tag.is_empty() { String::new() } else { format!(";tag={to_tag}") };
    format!(
        "{method} sip:bob@{FLEET} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\r\n\
         Record-Route: <sip:192.0.2.1;lr>\r\nMax-Forwards: 69\r\nFrom: <sip:carol@example.com>;tag=c\r\n\
         To: <sip:bob@example.com>{to_tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:carol@203.0.113.20>\r\nContent-Length: 0\r\n\r\n"
    )
}
