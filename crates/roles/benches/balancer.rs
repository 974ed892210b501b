//! What the balancer costs for each message of a call, parse and copy included: `cargo bench -p busyhour-roles`.

use std::hint::black_box;
use std::net::SocketAddr;

use busyhour_engine::{Flow, Full, HashSeed, Instant, Message, Node, Sink};
use busyhour_roles::balancer::{Balancer, Command, Config, Member, Membership, State};
use criterion::{Criterion, criterion_group, criterion_main};

const INVITE: &str = "INVITE sip:u100001@bench.example SIP/2.0\r\n\
Via: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK-21467-1-0;rport\r\n\
From: <sip:u100000@bench.example>;tag=21467SIPpTag001\r\n\
To: <sip:u100001@bench.example>\r\n\
Call-ID: 1-21467@198.51.100.7\r\n\
CSeq: 1 INVITE\r\n\
Contact: <sip:u100000@198.51.100.7:5062>\r\n\
Max-Forwards: 70\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 129\r\n\r\n\
v=0\r\no=user1 53655765 2353687637 IN IP4 198.51.100.7\r\ns=-\r\nc=IN IP4 198.51.100.7\r\nt=0 0\r\n\
m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

const OK: &str = "SIP/2.0 200 OK\r\n\
Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK0123456789abcdef\r\n\
Via: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK-21467-1-0;rport=5062;received=198.51.100.7\r\n\
Record-Route: <sip:192.0.2.1:5060;lr>\r\n\
Record-Route: <sip:192.0.2.11:5060;lr>\r\n\
Record-Route: <sip:192.0.2.1:5060;lr>\r\n\
From: <sip:u100000@bench.example>;tag=21467SIPpTag001\r\n\
To: <sip:u100001@bench.example>;tag=5317SIPpTag011\r\n\
Call-ID: 1-21467@198.51.100.7\r\n\
CSeq: 1 INVITE\r\n\
Contact: <sip:u100001@203.0.113.9:5064>\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 129\r\n\r\n\
v=0\r\no=user1 53655765 2353687637 IN IP4 198.51.100.7\r\ns=-\r\nc=IN IP4 198.51.100.7\r\nt=0 0\r\n\
m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

const BYE: &str = "BYE sip:u100001@203.0.113.9:5064 SIP/2.0\r\n\
Via: SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK-21467-1-8;rport\r\n\
Route: <sip:192.0.2.1:5060;lr>, <sip:192.0.2.11:5060;lr>, <sip:192.0.2.1:5060;lr>\r\n\
From: <sip:u100000@bench.example>;tag=21467SIPpTag001\r\n\
To: <sip:u100001@bench.example>;tag=5317SIPpTag011\r\n\
Call-ID: 1-21467@198.51.100.7\r\n\
CSeq: 2 BYE\r\n\
Max-Forwards: 70\r\n\
Content-Length: 0\r\n\r\n";

/// Writes every message over the one before.
struct Buffer(Vec<u8>);

impl Sink for Buffer {
    fn send(&mut self, _: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full> {
        let len = fill(&mut self.0[..len_max]);
        black_box(&self.0[..len]);
        Ok(())
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn balancer(members: u8, out: &mut Buffer) -> Balancer {
    let mut balancer = Balancer::new(Config::new(addr("192.0.2.1:5060"), HashSeed(1, 2)));
    let member = |i: u8| Member {
        name: format!("p{i}"),
        address: SocketAddr::new([192, 0, 2, 10 + i].into(), 5060),
        weight: 1,
        state: State::Ready,
    };
    let members = (1..=members).map(member).collect();
    let membership = Membership { version: 1, members, ..Membership::default() };
    balancer.handle_command(Instant::EPOCH, Command::Members(membership), out);
    balancer
}

fn forward(c: &mut Criterion) {
    let mut out = Buffer(vec![0; 65_536]);
    let local = addr("192.0.2.1:5060");
    for (name, members, text, peer) in [
        ("INVITE, 2 members", 2, INVITE, "198.51.100.7:5062"),
        ("INVITE, 32 members", 32, INVITE, "198.51.100.7:5062"),
        ("200", 2, OK, "192.0.2.11:5060"),
        ("BYE with Route", 2, BYE, "198.51.100.7:5062"),
    ] {
        let mut balancer = balancer(members, &mut out);
        let message = Message { flow: Flow { local, peer: addr(peer) }, bytes: text.as_bytes() };
        balancer.handle_message(Instant::EPOCH, message, &mut out);
        let counts = balancer.stats().counts;
        assert_eq!(counts.requests + counts.responses, 1, "{name} is forwarded");
        c.bench_function(name, |b| {
            b.iter(|| balancer.handle_message(Instant::EPOCH, black_box(message), &mut out));
        });
    }
}

criterion_group!(benches, forward);
criterion_main!(benches);
