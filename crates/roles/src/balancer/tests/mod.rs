//! The balancer against its rules, each with the section that it comes from.

mod epochs;
mod fuzz;
mod membership;
mod replies;
mod requests;
mod responses;

use std::net::SocketAddr;

use busyhour_engine::{Flow, HashSeed, Input, Instant, Message as Datagram, pump};

use super::*;
use crate::testing::Sent;

const LB: &str = "192.0.2.1:5060";
const P1: &str = "192.0.2.11:5060";
const P2: &str = "192.0.2.12:5070";
const P3: &str = "192.0.2.13:5060";
const UAC: &str = "198.51.100.7:5062";
const UAS: &str = "203.0.113.9:5064";
const KEY: HashSeed = HashSeed(1, 2);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn member(name: &str, address: &str, state: State) -> Member {
    Member { name: name.to_owned(), address: addr(address), weight: 1, state }
}

fn table(version: u64, members: &[Member]) -> Membership {
    Membership { version, members: members.to_vec(), ..Membership::default() }
}

/// A balancer and what it sent.
struct Lab {
    lb: Balancer,
    local: SocketAddr,
    out: Sent,
}

impl Lab {
    fn with(config: Config, membership: Membership) -> Self {
        let local = config.address;
        let mut lab = Lab { lb: Balancer::new(config), local, out: Sent::default() };
        lab.members(membership).unwrap();
        lab
    }

    /// One ready member, P1, and all defaults.
    fn new() -> Self {
        Lab::with(Config::new(addr(LB), KEY), table(1, &[member("p1", P1, State::Ready)]))
    }

    fn members(&mut self, membership: Membership) -> Result<(), Refused> {
        let sent = membership.version;
        pump(&mut self.lb, Instant::EPOCH, Input::Command(Command::Members(membership)), &mut self.out);
        match self.lb.poll_event() {
            Some(Event::Table { version, outcome }) => {
                assert_eq!(version, sent);
                outcome
            }
            other => panic!("every table is answered: {other:?}"),
        }
    }

    fn receive(&mut self, from: &str, bytes: &[u8]) {
        let flow = Flow { local: self.local, peer: addr(from) };
        pump(&mut self.lb, Instant::EPOCH, Input::Message(Datagram { flow, bytes }), &mut self.out);
    }

    /// Hands a message in that leads to exactly one message out.
    fn pass(&mut self, from: &str, text: &str) -> (SocketAddr, String) {
        self.receive(from, text.as_bytes());
        self.out.take_one()
    }

    /// Hands a message in that is dropped, and checks the reason that is counted.
    fn drops(&mut self, from: &str, text: &str, why: Drop) {
        let before = self.lb.stats().counts.dropped(why);
        self.receive(from, text.as_bytes());
        assert!(self.out.messages.is_empty(), "sent: {:?}", self.out);
        assert_eq!(self.lb.stats().counts.dropped(why), before + 1, "{why:?} is counted for {text}");
    }

    /// Hands a request in that the balancer answers itself, and checks status and address.
    fn answers(&mut self, from: &str, text: &str, status: u16, what: Answered) -> String {
        let before = self.lb.stats().counts.answered(what);
        let (to, reply) = self.pass(from, text);
        assert_eq!(to, addr(from), "{reply}");
        assert!(reply.starts_with(&format!("SIP/2.0 {status} ")), "{reply}");
        assert_eq!(self.lb.stats().counts.answered(what), before + 1, "{what:?}");
        reply
    }
}

/// A request as a user agent sends it; `more` are header lines between Via and From.
fn request(method: &str, uri: &str, more: &[&str]) -> String {
    request_of("call-1", method, uri, more)
}

fn request_of(call_id: &str, method: &str, uri: &str, more: &[&str]) -> String {
    let via = format!("Via: SIP/2.0/UDP {UAC};branch=z9hG4bK-{call_id}-1;rport");
    let more: String = more.iter().map(|line| format!("{line}\r\n")).collect();
    format!(
        "{method} {uri} SIP/2.0\r\n{via}\r\nMax-Forwards: 70\r\n{more}From: <sip:a@example.com>;tag=f1\r\n\
         To: <sip:b@example.com>\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The values of all header lines of that name, in order.
fn values<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    let head = message.split("\r\n\r\n").next().unwrap();
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

fn branch(message: &str) -> &str {
    let via = values(message, "Via")[0];
    via.split(';').find_map(|p| p.strip_prefix("branch=")).unwrap()
}

/// Where a forwarded request goes and, if that does not have the transaction, where next.
fn chain(to: SocketAddr, message: &str) -> Vec<SocketAddr> {
    let via = values(message, "Via")[0];
    let next = via.split_once(";next=\"").map_or("", |(_, rest)| rest.strip_suffix('"').unwrap());
    let next = next.split(',').filter(|t| !t.is_empty()).map(addr);
    [to].into_iter().chain(next).collect()
}
