//! Responses that the balancer makes itself, as a stateless UAS does (RFC 3261 section 8.2.7): never provisional, never
//! to an ACK or a CANCEL, and the same To tag for the same request.

use std::net::SocketAddr;

use busyhour_engine::{Flow, Sink};
use busyhour_sip::value::{NameAddr, Via};
use busyhour_sip::{Defect, HeaderName, MESSAGE_BYTES_MAX, Message, Method, Reply, Writer};

use super::{Answered, Balancer, Drop, Refusal};
use crate::address::is_sendable;

/// What a response says; [`Answered`] with what it needs for that.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Plain(Answered),
    Malformed(Defect),
}

impl Answer {
    fn counted(self) -> Answered {
        match self {
            Answer::Plain(what) => what,
            Answer::Malformed(_) => Answered::Malformed,
        }
    }

    fn status_and_reason(self) -> (u16, &'static str) {
        match self {
            Answer::Malformed(defect) => defect.answer(),
            Answer::Plain(what) => match what {
                Answered::Options => (200, "OK"),
                Answered::OptionsUnready | Answered::NoMember => (503, "Service Unavailable"),
                Answered::Malformed => (400, "Bad Request"),
                Answered::UnknownHost => (404, "Not Found"),
                Answered::Scheme => (416, "Unsupported URI Scheme"),
                Answered::Extension => (420, "Bad Extension"),
                Answered::TooManyHops => (483, "Too Many Hops"),
                Answered::Unroutable => (500, "Next Hop Unreachable"),
                Answered::TooLong => (513, "Message Too Large"),
            },
        }
    }
}

/// The start of the To tags that the balancer gives: an ACK that comes back with one is for the balancer.
const TAG_PREFIX: &[u8] = b"bh-lb-";
const TAG_LEN: usize = TAG_PREFIX.len() + 16;
/// What a response may hold, in bytes, besides what it copies from the request.
const OWN_BYTES_MAX: usize = 512;

impl Balancer {
    pub(super) fn refuse(
        &mut self,
        m: &Message<'_>,
        method: Method<'_>,
        flow: Flow,
        why: Refusal,
        out: &mut impl Sink,
    ) {
        let answer = match why {
            Refusal::Drop(why) => return self.counts.drop(why),
            Refusal::Answer(answer) => answer,
        };
        if matches!(method, Method::Ack | Method::Cancel) {
            return self.counts.drop(Drop::Unanswerable);
        }
        let to = match m.top_via() {
            Ok(via) => reply_addr(&via, flow.peer),
            // RFC 4475 section 3.1.2.1 wants an answer to a request whose Via does not say where to: it goes back.
            Err(_) if m.has(HeaderName::Via) => Some(flow.peer),
            Err(_) => return self.counts.drop(Drop::RequestVia),
        };
        let Some(to) = to.filter(|&a| !self.is_own(a, flow) && is_sendable(a, flow.local)) else {
            return self.counts.drop(Drop::ReplyAddress);
        };
        let len_max = room(m);
        if len_max > MESSAGE_BYTES_MAX {
            return self.counts.drop(Drop::TooLong);
        }
        let (status, reason) = answer.status_and_reason();
        let tag = self.own_tag(m);
        let reply = Reply::new(m, status).reason(reason).to_tag(&tag).source(flow.peer);
        let write = |buf: &mut [u8]| {
            let len = reply.write(buf, |w| self.write_headers(m, answer, w));
            len.expect("there is room for every header that is copied")
        };
        match out.send(Flow { local: flow.local, peer: to }, len_max, write) {
            Ok(()) => self.counts.answer(answer.counted()),
            Err(busyhour_engine::Full) => self.counts.drop(Drop::Full),
        }
    }

    fn write_headers(&self, m: &Message<'_>, answer: Answer, w: &mut Writer<'_>) {
        match answer {
            // RFC 3261 section 11.2; Allow is left out, as it asks of proxies: they pass any method.
            Answer::Plain(Answered::Options) => {
                w.put(
                    b"Accept: */*\r\nAccept-Encoding: identity\r\nAccept-Language: en\r\nSupported: path\r\n",
                );
            }
            Answer::Plain(Answered::OptionsUnready | Answered::NoMember) => {
                let least = u64::from(self.config.retry_after_s);
                let spread = self.owner_key(m.value(HeaderName::CallId).unwrap_or(b"")) % (least + 1);
                w.put(b"Retry-After: ").put_u64(least + spread).put(b"\r\n");
            }
            Answer::Plain(Answered::Extension) => {
                // One line for all and no space behind commas, so that it is no longer than what it is made from.
                let mut separator: &[u8] = b"Unsupported: ";
                for required in m.elements(HeaderName::Require) {
                    w.put(separator).put(required.text);
                    separator = b",";
                }
                w.put(b"\r\n");
            }
            Answer::Plain(
                Answered::Malformed
                | Answered::UnknownHost
                | Answered::Scheme
                | Answered::TooManyHops
                | Answered::Unroutable
                | Answered::TooLong,
            )
            | Answer::Malformed(_) => {}
        }
    }

    /// The To tag of the balancer's responses to this request: a retransmission gets the same (section 8.2.7).
    fn own_tag(&self, m: &Message<'_>) -> [u8; TAG_LEN] {
        let call_id = m.value(HeaderName::CallId).unwrap_or(b"");
        let from_tag = tag_of(m, HeaderName::From).unwrap_or(b"");
        let mut tag = [0u8; TAG_LEN];
        Writer::new(&mut tag).put(TAG_PREFIX).put_hex(self.seeds.tag.hash(&[call_id, from_tag]));
        tag
    }

    /// Whether an ACK acknowledges a response that the balancer made: no proxy has a transaction for it.
    pub(super) fn is_own_ack(&self, m: &Message<'_>) -> bool {
        tag_of(m, HeaderName::To).is_some_and(|tag| tag.starts_with(TAG_PREFIX) && tag == self.own_tag(m))
    }
}

pub(super) fn tag_of<'a>(m: &Message<'a>, name: HeaderName) -> Option<&'a [u8]> {
    NameAddr::parse(m.value(name)?).ok()?.tag()
}

/// Where a response to a request from `source` goes over UDP (sections 18.2.1 and 18.2.2, RFC 3581 section 4): what
/// [`Via::response_addr`] says once `received` and `rport` are filled in.
fn reply_addr(via: &Via<'_>, source: SocketAddr) -> Option<SocketAddr> {
    if via.params.value("maddr").is_some() {
        return via.response_addr();
    }
    let port = if via.wants_rport() { source.port() } else { via.port.unwrap_or(5060) };
    Some(SocketAddr::new(source.ip(), port))
}

/// Room for any response to this request: the headers that are copied, with a line end should one lack it, and the rest.
fn room(m: &Message<'_>) -> usize {
    let is_copied = |name| {
        use HeaderName::{CSeq, CallId, From, Require, To, Via};
        matches!(name, Via | From | To | CallId | CSeq | Require)
    };
    let copied = m.headers().iter().filter(|h| is_copied(h.name));
    copied.map(|h| m.line_of(h).len() + 2).sum::<usize>() + OWN_BYTES_MAX
}
