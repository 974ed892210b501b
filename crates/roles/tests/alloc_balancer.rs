//! The balancer forwards without allocating, whatever way a message takes.

use std::net::SocketAddr;

use busyhour_engine::{Flow, Full, HashSeed, Instant, Message, Node, Sink};
use busyhour_roles::balancer::{Balancer, Change, Command, Config, Limits, Member, Membership, State};

/// Writes every message over the one before.
struct Buffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl Sink for Buffer {
    fn send(&mut self, _: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full> {
        let len = fill(&mut self.bytes[..len_max]);
        assert!(len <= len_max);
        self.sent += 1;
        Ok(())
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn member(name: &str, address: &str) -> Member {
    Member { name: name.to_owned(), address: addr(address), weight: 1, state: State::Ready }
}

#[test]
fn no_message_costs_an_allocation() {
    let lb = addr("192.0.2.1:5060");
    let mut balancer = Balancer::new(Config::new(lb, HashSeed(1, 2)));
    let mut out = Buffer { bytes: vec![0; 65_536], sent: 0 };
    let mut membership = Membership {
        version: 1,
        members: vec![member("p1", "192.0.2.11:5060"), member("p2", "192.0.2.12:5060")],
        ..Membership::default()
    };
    // Two earlier epochs, so that owners have to be named, and an address that was left.
    for change in [
        Change::Add(Member { weight: 3, ..member("p3", "192.0.2.13:5060") }),
        Change::SetState("p1".to_owned(), State::Draining),
        Change::Remove("p2".to_owned()),
    ] {
        membership = membership.next(&change, &Limits::default()).expect("the change fits");
    }
    balancer.handle_command(Instant::EPOCH, Command::Members(membership), &mut out);

    let head = "Via: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK1;rport\r\nFrom: <sip:a@x.example>;tag=f\r\n\
                To: <sip:b@x.example>\r\nCall-ID: CALL\r\nCSeq: 1 METHOD\r\n";
    let request = |method: &str, more: &str| {
        format!("{method} sip:b@203.0.113.9 SIP/2.0\r\n{}{more}\r\n", head.replace("METHOD", method))
    };
    let own = "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK0123456789abcdef";
    let phone = "SIP/2.0/UDP 198.51.100.7;received=198.51.100.8;rport=4000";
    let response =
        |vias: &str| format!("SIP/2.0 200 OK\r\n{vias}{}\r\n", &head[head.find("From").unwrap()..]);
    let proxy = "192.0.2.13:5060";
    let phone_at = "198.51.100.7:5062";
    let messages = [
        (phone_at, request("INVITE", "Max-Forwards: 70\r\n")),
        (phone_at, request("REGISTER", "")),
        (
            phone_at,
            request(
                "BYE",
                "Route: <sip:192.0.2.1:5060;lr>, <sip:192.0.2.11:5060;lr>, <sip:192.0.2.1:5060;lr>\r\n",
            ),
        ),
        (phone_at, request("BYE", "Route: <sip:192.0.2.1:5060;lr>\r\nRoute: <sip:192.0.2.12:5060;lr>\r\n")),
        (proxy, request("INVITE", "Route: <sip:192.0.2.1:5060;lr>\r\n")),
        (proxy, response(&format!("Via: {own}\r\nVia: {phone}\r\n"))),
        (proxy, response(&format!("Via: {own};next=\"192.0.2.12:5060,192.0.2.13:5060\", {phone}\r\n"))),
        // Answered and dropped ones cost none either.
        (phone_at, request("INVITE", "Max-Forwards: 0\r\n")),
        (phone_at, "\r\n\r\n".to_owned()),
    ];
    let calls = 50;
    let texts: Vec<(SocketAddr, String)> = (0..calls)
        .flat_map(|i| {
            messages.iter().map(move |(from, m)| (addr(from), m.replace("CALL", &format!("call-{i}"))))
        })
        .collect();
    let info = allocation_counter::measure(|| {
        for (peer, text) in &texts {
            let message = Message { flow: Flow { local: lb, peer: *peer }, bytes: text.as_bytes() };
            balancer.handle_message(Instant::EPOCH, message, &mut out);
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
    assert_eq!(out.sent, calls * 8, "all but the keep-alives lead to a message");
    let counts = balancer.stats().counts;
    assert_eq!((counts.requests, counts.responses), (calls as u64 * 5, calls as u64 * 2));
    assert!(counts.requests_chained > 0);
}
