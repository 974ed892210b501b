//! Answers of the proxy itself that need no transaction, as a stateless UAS gives them (RFC 3261 section 8.2.7): the same
//! request gets the same To tag, and an ACK that carries it ends here.

use std::net::SocketAddr;

use busyhour_engine::{Flow, Instant, Sink};
use busyhour_sip::value::Via;
use busyhour_sip::{Defect, HeaderName, MESSAGE_BYTES_MAX, Message, Method, Reply, Writer, reason_phrase};

use crate::auth::Kind;

use super::{Drop, Incoming, Proxy};

/// A status with what belongs to it.
#[derive(Copy, Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    reason: &'static str,
    headers: Headers,
}

#[derive(Copy, Clone, Debug)]
enum Headers {
    None,
    Challenge {
        kind: Kind,
        stale: bool,
    },
    /// The values of that header are not supported.
    Unsupported(HeaderName),
    RetryAfter(u32),
    Capabilities,
}

/// What a client is told to wait, in seconds, when there is no room for its request.
const RETRY_AFTER_S: u32 = 2;

/// What the proxy supports as the target of an OPTIONS (RFC 3261 section 11.2). Allow is left out, as that section asks
/// of proxies: any method passes.
const CAPABILITIES: &[u8] =
    b"Accept: */*\r\nAccept-Encoding: identity\r\nAccept-Language: en\r\nSupported: path\r\n";

/// More than any answer is longer than the headers of its request, besides what is reckoned by itself.
const ANSWER_OVERHEAD: usize = 512;

/// How much longer a line gets when its header becomes Unsupported.
const UNSUPPORTED_GROWTH: usize = "Unsupported: \r\n".len();

impl Answer {
    pub(super) fn of(status: u16) -> Self {
        Answer { status, reason: reason_phrase(status), headers: Headers::None }
    }

    pub(super) fn because(status: u16, reason: &'static str) -> Self {
        Answer { status, reason, headers: Headers::None }
    }

    /// 503 for want of room.
    pub(super) fn overloaded() -> Self {
        Answer { headers: Headers::RetryAfter(RETRY_AFTER_S), ..Answer::of(503) }
    }

    /// 503 to an OPTIONS of a load balancer.
    pub(super) fn draining() -> Self {
        Answer { reason: "Draining", ..Answer::overloaded() }
    }

    pub(super) fn capabilities() -> Self {
        Answer { headers: Headers::Capabilities, ..Answer::of(200) }
    }

    pub(super) fn challenge(kind: Kind, stale: bool) -> Self {
        Answer { headers: Headers::Challenge { kind, stale }, ..Answer::of(kind.status()) }
    }

    /// 420: the extensions that this header names are not supported.
    pub(super) fn bad_extension(name: HeaderName) -> Self {
        Answer { headers: Headers::Unsupported(name), ..Answer::of(420) }
    }
}

impl Proxy {
    /// Answers a request.
    pub(super) fn answer(&mut self, now: Instant, r: &Incoming<'_, '_>, answer: Answer, out: &mut impl Sink) {
        let tag = self.tag(r.message);
        let mut reply = Reply::new(r.message, answer.status).reason(answer.reason).to_tag(&tag);
        if let Some(source) = r.stamp() {
            reply = reply.source(source);
        }
        let auth = &self.auth;
        let more = match answer.headers {
            Headers::None | Headers::RetryAfter(_) => 0,
            Headers::Challenge { .. } => auth.challenge_len_max(),
            Headers::Unsupported(name) => UNSUPPORTED_GROWTH * r.message.all(name).count(),
            Headers::Capabilities => CAPABILITIES.len(),
        };
        let headers = |w: &mut Writer<'_>| match answer.headers {
            Headers::None => {}
            Headers::Challenge { kind, stale } => auth.write_challenge(now, kind, stale, w),
            Headers::Unsupported(name) => {
                for line in r.message.all(name) {
                    w.put(b"Unsupported: ").put(r.message.value_of(line)).put(b"\r\n");
                }
            }
            Headers::RetryAfter(seconds) => {
                w.put(b"Retry-After: ").put_u64(u64::from(seconds)).put(b"\r\n");
            }
            Headers::Capabilities => {
                w.put(CAPABILITIES);
            }
        };
        let len_max = room(r.message, more);
        let fill = |buf: &mut [u8]| reply.write(buf, headers).expect("the room was reckoned");
        let outcome = send(out, r.reply_to, len_max, fill);
        self.count_sent(answer.status, outcome);
    }

    /// Answers a request that has something wrong, when it can be answered.
    pub(super) fn answer_defect(
        &mut self,
        message: &Message<'_>,
        defect: Defect,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        self.stats.last_defect = Some(defect);
        let reply_to = match message.top_via() {
            Ok(via) => reply_flow(&via, flow, false),
            // RFC 4475 section 3.1.2.1 wants an answer to a request whose Via does not say where to: it goes back.
            Err(_) => message.has(HeaderName::Via).then_some(flow),
        };
        let (Some(reply_to), false) = (reply_to, message.method() == Some(Method::Ack)) else {
            return self.stats.drop_for(Drop::Malformed);
        };
        self.stats.defects += 1;
        let (status, reason) = defect.answer();
        let tag = self.tag(message);
        let reply = Reply::new(message, status).reason(reason).to_tag(&tag).source(flow.peer);
        let fill = |buf: &mut [u8]| reply.write(buf, |_| {}).expect("the room was reckoned");
        let outcome = send(out, reply_to, room(message, 0), fill);
        self.count_sent(status, outcome);
    }

    pub(super) fn count_sent(&mut self, status: u16, outcome: Result<(), Drop>) {
        match outcome {
            Ok(()) => self.stats.count_answer(status),
            Err(why) => self.stats.drop_for(why),
        }
    }

    /// The To tag of every answer that this proxy makes itself: a keyed hash of the Call-ID, so that any proxy of the
    /// cluster knows the ACK to one of them, and a CANCEL gets the tag that its INVITE gets (RFC 3261 section 9.2).
    pub(super) fn tag(&self, message: &Message<'_>) -> [u8; 16] {
        super::hex(self.key.hash(&[b"tag", message.value(HeaderName::CallId).unwrap_or(b"")]))
    }
}

/// Room for an answer to this request with so many bytes of headers of its own.
pub(super) fn room(message: &Message<'_>, more: usize) -> usize {
    message.bytes().len() - message.raw_body().len() + ANSWER_OVERHEAD + more
}

/// Sends an answer, unless it could be longer than a datagram.
pub(super) fn send(
    out: &mut impl Sink,
    to: Flow,
    len_max: usize,
    fill: impl FnOnce(&mut [u8]) -> usize,
) -> Result<(), Drop> {
    if len_max > MESSAGE_BYTES_MAX {
        return Err(Drop::TooLong);
    }
    out.send(to, len_max, fill).map_err(|_| Drop::NoRoom)
}

/// Where answers to a request with this topmost Via go over UDP (RFC 3261 section 18.2.2, RFC 3581 section 4). A request
/// that another member passed on still has the Via of the balancer before that on top, whose address is in it. `None`
/// when there is no single host and port to send to.
pub(super) fn reply_flow(via: &Via<'_>, flow: Flow, passed: bool) -> Option<Flow> {
    let peer = if passed || via.params.get("maddr").is_some() {
        via.response_addr()?
    } else if via.wants_rport() {
        flow.peer
    } else {
        SocketAddr::new(flow.peer.ip(), via.port.unwrap_or(5060))
    };
    crate::address::is_sendable(peer, flow.local).then_some(Flow { local: flow.local, peer })
}
