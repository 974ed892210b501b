//! What a message costs: parse, the checks that every element makes, and forwarding with a Via on top.
//!
//! `cargo bench -p busyhour-sip`; the messages are of the size that phones send.

use std::hint::black_box;
use std::net::SocketAddr;

use busyhour_sip::{Edits, Essentials, HeaderName, Message, Reply};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const INVITE: &[u8] = b"INVITE sip:bob@biloxi.example.com SIP/2.0\r\n\
Via: SIP/2.0/UDP client.atlanta.example.com:5060;branch=z9hG4bK74bf9;rport\r\n\
Max-Forwards: 70\r\n\
Route: <sip:192.0.2.10;lr>\r\n\
From: \"Alice\" <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
To: \"Bob\" <sip:bob@biloxi.example.com>\r\n\
Call-ID: 3848276298220188511@atlanta.example.com\r\n\
CSeq: 1 INVITE\r\n\
Contact: <sip:alice@client.atlanta.example.com;transport=udp>\r\n\
Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, PRACK, UPDATE\r\n\
Supported: timer, 100rel, replaces\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 151\r\n\r\n\
v=0\r\n\
o=alice 2890844526 2890844526 IN IP4 client.atlanta.example.com\r\n\
s=-\r\n\
c=IN IP4 192.0.2.101\r\n\
t=0 0\r\n\
m=audio 49172 RTP/AVP 0\r\n\
a=rtpmap:0 PCMU/8000\r\n";

const OK: &[u8] = b"SIP/2.0 200 OK\r\n\
Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK2d4790.1;received=192.0.2.10\r\n\
Via: SIP/2.0/UDP client.atlanta.example.com:5060;branch=z9hG4bK74bf9;rport=5060;received=192.0.2.101\r\n\
Record-Route: <sip:192.0.2.10;lr>\r\n\
From: \"Alice\" <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
To: \"Bob\" <sip:bob@biloxi.example.com>;tag=314159\r\n\
Call-ID: 3848276298220188511@atlanta.example.com\r\n\
CSeq: 1 INVITE\r\n\
Contact: <sip:bob@client.biloxi.example.com;transport=udp>\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 147\r\n\r\n\
v=0\r\n\
o=bob 2890844527 2890844527 IN IP4 client.biloxi.example.com\r\n\
s=-\r\n\
c=IN IP4 192.0.2.201\r\n\
t=0 0\r\n\
m=audio 3456 RTP/AVP 0\r\n\
a=rtpmap:0 PCMU/8000\r\n";

const REGISTER: &[u8] = b"REGISTER sip:example.com SIP/2.0\r\n\
Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bKnashds7;rport\r\n\
Max-Forwards: 70\r\n\
From: <sip:alice@example.com>;tag=a73kszlfl\r\n\
To: <sip:alice@example.com>\r\n\
Call-ID: 1j9FpLxk3uxtm8tn@192.0.2.101\r\n\
CSeq: 2 REGISTER\r\n\
Contact: <sip:alice@192.0.2.101:5060>;expires=3600\r\n\
Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"ea9c8e88df84f1cec4341ae6cbe5a359\", \
uri=\"sip:example.com\", response=\"dfe56131d1958046689d83306477ecc1dfe56131d1958046689d83306477ecc1\", \
algorithm=SHA-256, qop=auth, nc=00000001, cnonce=\"0a4f113b0a4f113b\"\r\n\
Content-Length: 0\r\n\r\n";

fn parse(c: &mut Criterion) {
    for (name, bytes) in [("invite", INVITE), ("200", OK), ("register", REGISTER)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("parse", |b| {
            b.iter(|| Message::parse(black_box(bytes)).expect("a message").headers().len());
        });
        group.bench_function("parse+essentials", |b| {
            b.iter(|| {
                let message = Message::parse(black_box(bytes)).expect("a message");
                Essentials::of(&message).expect("no defect").cseq.number
            });
        });
        group.finish();
    }
}

fn forward(c: &mut Criterion) {
    let mut buf = [0u8; 2048];
    let source: SocketAddr = "192.0.2.101:5061".parse().expect("an address");
    c.bench_function("invite/parse+push_via+write", |b| {
        b.iter(|| {
            let message = Message::parse(black_box(INVITE)).expect("a message");
            let mut edits = Edits::new(&message);
            edits.push_via(&[b"SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK", b"2d4790a1b2c3d4e5"]);
            edits.write(&mut buf)
        });
    });
    c.bench_function("invite/forwarded as a proxy does", |b| {
        b.iter(|| {
            let message = Message::parse(black_box(INVITE)).expect("a message");
            let essentials = Essentials::of(&message).expect("no defect");
            let mut edits = Edits::new(&message);
            edits.stamp_via(&essentials.via, source);
            edits.push_via(&[b"SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK", b"2d4790a1b2c3d4e5"]);
            edits.pop_route();
            edits.push_record_route(&[b"<sip:192.0.2.10;lr>"]);
            edits.set_number(HeaderName::MaxForwards, 69);
            edits.set_request_uri(b"sip:bob@192.0.2.201:5060");
            edits.write(&mut buf)
        });
    });
    c.bench_function("200/forwarded", |b| {
        b.iter(|| {
            let message = Message::parse(black_box(OK)).expect("a message");
            let mut edits = Edits::new(&message);
            edits.pop_via();
            edits.write(&mut buf)
        });
    });
    c.bench_function("register/parse+401", |b| {
        b.iter(|| {
            let message = Message::parse(black_box(REGISTER)).expect("a message");
            Reply::new(&message, 401).to_tag(b"a1b2c3d4").source(source).write(&mut buf, |_| {})
        });
    });
}

criterion_group!(benches, parse, forward);
criterion_main!(benches);
