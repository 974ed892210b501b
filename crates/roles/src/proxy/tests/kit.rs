//! A proxy in virtual time, and the messages of the user agents around it.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{Flow, HashSeed, Input, Instant, Message as Datagram, Node, pump};
use busyhour_sip::transaction::Timers;
use busyhour_sip::value::{Challenge, Ha1};

use crate::auth::{self, Authenticator, Subscribers};
use crate::location::{Change, ContactChange, Limits, Location, Origin, Table};
use crate::proxy::{Command, Config, Domain, Event, Proxy, Stats};
use crate::registrar::{self, Registrar};
use crate::testing::Sent;
use crate::transactions;

pub(super) const PROXY: &str = "192.0.2.10:5060";
pub(super) const LB: &str = "192.0.2.1:5060";
pub(super) const UAC: &str = "198.51.100.7:5062";
pub(super) const BOB: &str = "203.0.113.9:5064";
pub(super) const CAROL: &str = "203.0.113.20:5060";
pub(super) const DAVE: &str = "203.0.113.30:5060";
pub(super) const KEY: HashSeed = HashSeed(11, 12);

pub(super) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Everybody's password is their name and "-secret".
struct Everybody;

impl Subscribers for Everybody {
    fn ha1(&self, username: &[u8]) -> Option<Ha1> {
        matches!(username, b"alice" | b"bob" | b"carol").then(|| ha1(std::str::from_utf8(username).unwrap()))
    }
}

pub(super) fn ha1(user: &str) -> Ha1 {
    Ha1::of(user, "example.com", &format!("{user}-secret"))
}

/// A binding: user, contact, q in thousandths, Path.
pub(super) type Binding = (&'static str, &'static str, u16, &'static str);

pub(super) const BOB_BOUND: Binding = ("bob", "sip:bob@203.0.113.9:5064", 1000, "");
pub(super) const CAROL_BOUND: Binding = ("bob", "sip:bob@203.0.113.20", 1000, "");

pub(super) fn config() -> Config {
    Config {
        address: addr(PROXY),
        domains: vec![Domain::Name("example.com".to_owned())],
        record_route: true,
        authenticate: Vec::new(),
        next_hop: None,
        trusted: vec![addr(LB)],
        max_forwards: 70,
        max_breadth: 60,
        timer_c: s(181),
        transactions: transactions::Config {
            timers: Timers::default(),
            servers_max: 1000,
            clients_max: 1000,
        },
    }
}

/// One message that the proxy sent.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// How long after the start of the test.
    pub(super) at: Duration,
    pub(super) to: SocketAddr,
    pub(super) text: String,
}

impl Out {
    /// The status of a response, 0 for a request.
    pub(super) fn status(&self) -> u16 {
        status(&self.text)
    }

    pub(super) fn first_line(&self) -> &str {
        self.text.lines().next().unwrap()
    }

    pub(super) fn method(&self) -> &str {
        self.first_line().split(' ').next().unwrap()
    }
}

pub(super) struct Lab {
    pub(super) proxy: Proxy,
    pub(super) now: Instant,
    start: Instant,
    out: Sent,
}

impl Lab {
    pub(super) fn new(config: Config, bindings: &[Binding]) -> Self {
        let start = Instant::from_nanos(1_000_000_000_000);
        let mut table = Table::new(Limits::default(), HashSeed(3, 4));
        for (index, &(user, uri, q, path)) in bindings.iter().enumerate() {
            let call_id = format!("binding-{index}");
            let origin = Origin { call_id: call_id.as_bytes(), cseq: 1, branch: 1, path: path.as_bytes() };
            let contacts = [ContactChange { uri: uri.as_bytes(), q, expires_s: 86_400 }];
            let aor = format!("{user}@example.com");
            table.register(start, aor.as_bytes(), &origin, Change::Contacts(&contacts), &mut |_| ()).unwrap();
        }
        let auth = auth::Config {
            realm: "example.com".to_owned(),
            key: KEY,
            nonce_lifetime: s(60),
            unix_offset_nanos: 1_700_000_000_000_000_000,
        };
        let proxy = Proxy::new(
            config,
            Authenticator::new(auth, Box::new(Everybody)),
            Registrar::new(registrar::Config::default(), HashSeed(5, 6)),
            Box::new(table),
            KEY,
            7,
        );
        Lab { proxy, now: start, start, out: Sent::default() }
    }

    /// Bob at one contact, no authentication.
    pub(super) fn with_bob() -> Self {
        Lab::new(config(), &[BOB_BOUND])
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    fn taken(&mut self) -> Vec<Out> {
        let at = self.elapsed();
        let sent = self.out.messages.drain(..);
        sent.map(|(flow, bytes)| Out { at, to: flow.peer, text: latin1(&bytes) }).collect()
    }

    /// A datagram arrives; what is sent at once.
    pub(super) fn receive(&mut self, from: &str, text: &str) -> Vec<Out> {
        self.receive_bytes(from, text.as_bytes())
    }

    pub(super) fn receive_bytes(&mut self, from: &str, bytes: &[u8]) -> Vec<Out> {
        let flow = Flow { local: addr(PROXY), peer: addr(from) };
        pump(&mut self.proxy, self.now, Input::Message(Datagram { flow, bytes }), &mut self.out);
        self.taken()
    }

    /// A datagram arrives that leads to exactly one message.
    pub(super) fn pass(&mut self, from: &str, text: &str) -> Out {
        let mut sent = self.receive(from, text);
        assert_eq!(sent.len(), 1, "{text} leads to one message: {sent:#?}");
        sent.remove(0)
    }

    /// A datagram arrives that leads to nothing.
    pub(super) fn absorb(&mut self, from: &str, text: &str) {
        let sent = self.receive(from, text);
        assert!(sent.is_empty(), "{text} leads to nothing: {sent:#?}");
    }

    /// A request that the proxy answers itself, to where it came from.
    pub(super) fn answer(&mut self, from: &str, text: &str, expected: u16) -> Out {
        let reply = self.pass(from, text);
        assert_eq!((reply.status(), reply.to), (expected, addr(from)), "{text}\n{}", reply.text);
        reply
    }

    /// A UAS refuses a request: the proxy acknowledges an INVITE's refusal at once (section 17.1.1.3). What else it sends.
    pub(super) fn refuse(&mut self, from: &str, request: &str, status: u16) -> Vec<Out> {
        let mut sent = self.receive(from, &reply(request, status, from));
        if request.starts_with("INVITE") {
            assert_eq!((sent[0].method(), sent[0].to), ("ACK", addr(from)));
            assert_eq!(branch(&sent[0].text), branch(request));
            sent.remove(0);
        }
        sent
    }

    /// Time passes; what is sent meanwhile, and when.
    pub(super) fn wait(&mut self, d: Duration) -> Vec<Out> {
        let end = self.now + d;
        let mut sent = Vec::new();
        for _ in 0..1_000_000 {
            match self.proxy.next_deadline() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    pump(&mut self.proxy, self.now, Input::Timeout, &mut self.out);
                    sent.extend(self.taken());
                }
                Some(_) | None => {
                    self.now = end;
                    return sent;
                }
            }
        }
        panic!("timers fire without end");
    }

    /// Whether the driver has no room.
    pub(super) fn block(&mut self, blocked: bool) {
        self.out.is_full = blocked;
    }

    pub(super) fn command(&mut self, command: Command) {
        pump(&mut self.proxy, self.now, Input::Command(command), &mut self.out);
    }

    pub(super) fn stats(&mut self) -> Stats {
        self.command(Command::Report);
        match self.proxy.poll_event() {
            Some(Event::Report(stats)) => *stats,
            None => panic!("a report is an event"),
        }
    }

    /// After everything is over nothing may be left.
    pub(super) fn assert_no_leak(&mut self) {
        self.wait(s(600));
        let stats = self.stats();
        assert_eq!(stats.live, (0, 0), "no transaction is left");
        assert_eq!(stats.open, 0, "none waits for an answer");
        assert_eq!(stats.live_by_epoch, [], "none is counted under an epoch");
        assert_eq!(self.proxy.transactions.timers(), 0, "no timer is armed");
    }
}

/// A request under construction.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) uri: String,
    pub(super) vias: Vec<String>,
    pub(super) max_forwards: Option<u32>,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) call_id: String,
    pub(super) cseq: u32,
    pub(super) headers: Vec<String>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn new(method: &str, uri: &str) -> Self {
        Request {
            method: method.to_owned(),
            uri: uri.to_owned(),
            vias: vec![format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-{method}-1;rport")],
            max_forwards: Some(70),
            from: "<sip:alice@example.com>;tag=f1".to_owned(),
            to: "<sip:bob@example.com>".to_owned(),
            call_id: "call-1".to_owned(),
            cseq: 1,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// An INVITE for bob.
    pub(super) fn invite() -> Self {
        Request::new("INVITE", "sip:bob@example.com").header("Contact: <sip:alice@198.51.100.7:5062>")
    }

    pub(super) fn via(mut self, via: &str) -> Self {
        self.vias = vec![via.to_owned()];
        self
    }

    pub(super) fn header(mut self, line: &str) -> Self {
        self.headers.push(line.to_owned());
        self
    }

    pub(super) fn max_forwards(mut self, n: Option<u32>) -> Self {
        self.max_forwards = n;
        self
    }

    pub(super) fn tagged(mut self, tag: &str) -> Self {
        self.to = format!("<sip:bob@example.com>;tag={tag}");
        self
    }

    pub(super) fn call_id(mut self, id: &str) -> Self {
        let branch = id.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        self.call_id = id.to_owned();
        self.vias = vec![format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-{}-{branch};rport", self.method)];
        self
    }

    /// The CANCEL of it (RFC 3261 section 9.1).
    pub(super) fn cancel(&self) -> Self {
        Request { method: "CANCEL".to_owned(), headers: Vec::new(), body: String::new(), ..self.clone() }
    }

    /// The ACK to a response other than 2xx (section 17.1.1.3).
    pub(super) fn ack(&self, response: &str) -> Self {
        let to = value(response, "To").to_owned();
        Request { method: "ACK".to_owned(), headers: Vec::new(), body: String::new(), to, ..self.clone() }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{} {} SIP/2.0\r\n", self.method, self.uri);
        for via in &self.vias {
            text += &format!("Via: {via}\r\n");
        }
        if let Some(n) = self.max_forwards {
            text += &format!("Max-Forwards: {n}\r\n");
        }
        text += &format!("From: {}\r\nTo: {}\r\nCall-ID: {}\r\n", self.from, self.to, self.call_id);
        text += &format!("CSeq: {} {}\r\n", self.cseq, self.method);
        for header in &self.headers {
            text += &format!("{header}\r\n");
        }
        text + &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body)
    }
}

pub(super) fn status(text: &str) -> u16 {
    text.strip_prefix("SIP/2.0 ").map_or(0, |rest| rest[..3].parse().unwrap())
}

/// The values of all header lines of that name, in order.
pub(super) fn values<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    let head = message.split("\r\n\r\n").next().unwrap();
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
}

pub(super) fn value<'a>(message: &'a str, name: &str) -> &'a str {
    values(message, name).first().unwrap_or_else(|| panic!("no {name} in {message}"))
}

pub(super) fn tag<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    value(message, name).split(';').find_map(|p| p.strip_prefix("tag="))
}

pub(super) fn branch(message: &str) -> &str {
    value(message, "Via").split(';').find_map(|p| p.strip_prefix("branch=")).unwrap()
}

/// The response of a UAS to a request as it came there.
pub(super) fn reply(request: &str, status: u16, tag: &str) -> String {
    reply_with(request, status, tag, "")
}

pub(super) fn reply_with(request: &str, status: u16, tag: &str, headers: &str) -> String {
    let mut text = format!("SIP/2.0 {status} Whatever\r\n");
    for via in values(request, "Via") {
        text += &format!("Via: {via}\r\n");
    }
    for route in values(request, "Record-Route") {
        text += &format!("Record-Route: {route}\r\n");
    }
    let to = value(request, "To");
    let tag = if to.contains("tag=") || tag.is_empty() { String::new() } else { format!(";tag={tag}") };
    text += &format!("From: {}\r\nTo: {to}{tag}\r\n", value(request, "From"));
    text += &format!("Call-ID: {}\r\nCSeq: {}\r\n", value(request, "Call-ID"), value(request, "CSeq"));
    text + headers + "Content-Length: 0\r\n\r\n"
}

/// Digest credentials that answer the challenge number `index` of a 401 or 407; the value of the header.
pub(super) fn credentials(response: &str, index: usize, user: &str, method: &str, uri: &str) -> String {
    let name = if status(response) == 401 { "WWW-Authenticate" } else { "Proxy-Authenticate" };
    let challenge = Challenge::parse(values(response, name)[index].as_bytes()).unwrap();
    let mut buf = [0; 1024];
    let mut w = busyhour_sip::Writer::new(&mut buf);
    challenge.write_credentials(
        &mut w,
        user.as_bytes(),
        &ha1(user),
        method.as_bytes(),
        uri.as_bytes(),
        1,
        99,
    );
    let len = w.finish().unwrap();
    String::from_utf8(buf[..len].to_vec()).unwrap()
}

/// Every byte as one character, so that a message with any bytes can be looked at as text.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}
