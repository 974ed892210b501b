//! What the proxy allocates for calls to one contact, once its tables have grown: nothing.

mod proxy_rig;

use std::time::Duration;

use proxy_rig::{PHONE, Rig, UAC, addr, proxy};

/// Calls that are under way before and while it is counted.
const WARM_UP: u32 = 3_000;
const COUNTED: u32 = 1_000;

/// One call, with all messages made beforehand: nothing but the proxy allocates while it is counted.
struct Call {
    invite: Vec<u8>,
    ack: Vec<u8>,
    bye: Vec<u8>,
    busy: bool,
}

impl Call {
    fn new(n: u32) -> Self {
        let text = |method: &str, uri: &str, tag: &str, more: &str| {
            format!(
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {UAC};branch=z9hG4bK-{n}-{method};rport\r\nMax-Forwards: 70\r\n\
                 From: <sip:alice@example.com>;tag=f{n}\r\nTo: <sip:bob@example.com>{tag}\r\nCall-ID: call-{n}\r\n\
                 CSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n"
            )
            .into_bytes()
        };
        let contact = format!("Contact: <sip:bob@{PHONE}>\r\n");
        Call {
            invite: text("INVITE", "sip:bob@example.com", "", &contact),
            ack: text("ACK", &format!("sip:bob@{PHONE}"), ";tag=b", ""),
            bye: text("BYE", &format!("sip:bob@{PHONE}"), ";tag=b", ""),
            busy: n % 4 == 3,
        }
    }
}

/// Answers what was sent last, from a buffer of its own.
fn answer(rig: &mut Rig, request: &[u8], status: &str, buf: &mut [u8]) -> usize {
    let line_end = request.iter().position(|&b| b == b'\n').expect("a line") + 1;
    let mut w = busyhour_sip::Writer::new(buf);
    w.put(b"SIP/2.0 ").put(status.as_bytes()).put(b"\r\n").put(&request[line_end..]);
    let len = w.finish().expect("room");
    rig.receive(addr(PHONE), &buf[..len]);
    len
}

struct Buffers {
    invite: Vec<u8>,
    other: Vec<u8>,
    response: Vec<u8>,
}

fn copy_of_last(rig: &Rig, to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(rig.out.text());
}

/// A call in which the caller waits for 300 ms: 100, 180, 200 or 486, ACK, BYE.
fn run(rig: &mut Rig, call: &Call, buffers: &mut Buffers) -> u64 {
    let Buffers { invite, other, response } = buffers;
    let before = rig.out.sent;
    rig.receive(addr(UAC), &call.invite);
    copy_of_last(rig, invite);
    rig.wait(Duration::from_millis(250));
    answer(rig, invite, "180 Ringing", response);
    if call.busy {
        answer(rig, invite, "486 Busy Here", response);
    } else {
        answer(rig, invite, "200 OK", response);
        rig.receive(addr(UAC), &call.ack);
        rig.receive(addr(UAC), &call.bye);
        copy_of_last(rig, other);
        answer(rig, other, "200 OK", response);
    }
    rig.wait(Duration::from_millis(50));
    rig.out.sent - before
}

#[test]
fn a_call_to_one_contact_allocates_nothing() {
    let mut rig = Rig::new(proxy(&[("sip:bob@203.0.113.9", 1000)], 1_000_000));
    let calls: Vec<Call> = (0..WARM_UP + COUNTED).map(Call::new).collect();
    let mut buffers = Buffers {
        invite: Vec::with_capacity(4096),
        other: Vec::with_capacity(4096),
        response: vec![0; 4096],
    };
    let (warm_up, counted) = calls.split_at(WARM_UP as usize);
    for call in warm_up {
        run(&mut rig, call, &mut buffers);
    }
    let mut messages = 0;
    let info = allocation_counter::measure(|| {
        for call in counted {
            messages += run(&mut rig, call, &mut buffers);
        }
    });
    let stats = rig.proxy.stats();
    assert!(messages >= u64::from(COUNTED) * 5, "{messages} messages");
    assert!(stats.live.0 > 100, "earlier calls are still remembered: {:?}", stats.live);
    assert_eq!(info.count_total, 0, "{info:?} for {COUNTED} calls with {messages} messages sent");
}

/// A fork allocates for the list of its branches and for what refusals it has to compare: a small, fixed number per call.
#[test]
fn a_fork_allocates_little() {
    let two = [("sip:bob@203.0.113.9", 1000), ("sip:bob@203.0.113.8", 1000)];
    let mut rig = Rig::new(proxy(&two, 1_000_000));
    let calls: Vec<Call> = (0..WARM_UP + COUNTED).map(Call::new).collect();
    let mut response = vec![0; 4096];
    let mut last = Vec::with_capacity(4096);
    let mut fork = |call: &Call, rig: &mut Rig| {
        rig.receive(addr(UAC), &call.invite);
        copy_of_last(rig, &mut last);
        answer(rig, &last, "200 OK", &mut response);
        rig.wait(Duration::from_millis(300));
    };
    let (warm_up, counted) = calls.split_at(WARM_UP as usize);
    warm_up.iter().for_each(|call| fork(call, &mut rig));
    let info = allocation_counter::measure(|| counted.iter().for_each(|call| fork(call, &mut rig)));
    assert!(info.count_total <= 4 * u64::from(COUNTED), "{info:?} for {COUNTED} calls");
}
