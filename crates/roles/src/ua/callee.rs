//! The answering side (RFC 3261 section 13.3): 180 and 200 after their times, 200 again until the ACK, BYE.

use std::time::Duration;

use busyhour_engine::{Flow, Instant, Sink};
use busyhour_sip::{Essentials, HeaderName, Message, Method, Reply};

use crate::transactions::{ServerId, server_key};

use super::text::{SDP, put_contact};
use super::{Event, Fleet, LegId, Timer};

/// A call that a user of this fleet is called for.
pub(super) struct Leg {
    server: ServerId,
    key: u64,
    /// The 200, until its ACK has come.
    answer: Vec<u8>,
    reply_to: Flow,
    interval: Duration,
    answered_at: Option<Instant>,
}

impl Fleet {
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        let Ok(essentials) = Essentials::of(message) else {
            self.malformed += 1;
            return;
        };
        let method = essentials.cseq.method;
        let key = server_key(self.transactions.seed(), message, &essentials, method);
        if let Some(id) = self.transactions.find_server(key) {
            if method == Method::Ack {
                self.transactions.acknowledge(now, id);
            } else {
                self.transactions.repeat_request(now, id, out);
            }
            return;
        }
        let dialog = self.dialog_key(&essentials);
        match method {
            Method::Ack => self.acknowledged(dialog),
            Method::Invite if essentials.is_initial() => {
                self.invited(now, key, dialog, message, &essentials, flow, out)
            }
            Method::Cancel => self.called_off(now, key, message, &essentials, flow, out),
            Method::Bye => {
                let known = self.leg_index.remove(&dialog);
                if let Some(leg) = known {
                    self.legs.remove(leg);
                }
                self.reply_once(
                    now,
                    key,
                    message,
                    &essentials,
                    flow,
                    if known.is_some() { 200 } else { 481 },
                    out,
                );
            }
            Method::Invite
            | Method::Register
            | Method::Options
            | Method::Info
            | Method::Message
            | Method::Notify
            | Method::Prack
            | Method::Publish
            | Method::Refer
            | Method::Subscribe
            | Method::Update
            | Method::Extension(_) => self.reply_once(now, key, message, &essentials, flow, 200, out),
        }
    }

    fn dialog_key(&self, essentials: &Essentials<'_>) -> u64 {
        let from_tag = essentials.from.tag().unwrap_or(b"");
        self.transactions.seed().hash(&[b"leg", essentials.call_id, from_tag])
    }

    #[allow(clippy::too_many_arguments, reason = "each is a different thing")]
    fn invited(
        &mut self,
        now: Instant,
        key: u64,
        dialog: u64,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        let Some(id) = self.begin(now, key, message, essentials, flow) else { return };
        if self.leg_index.contains_key(&dialog) {
            // The same call by another way (section 8.2.2.2).
            return self.respond(now, id, 482, false, out);
        }
        let busy = self.config.answer.busy_share > 0.0 && self.rng.chance(self.config.answer.busy_share);
        if busy || self.calls.len() + self.legs.len() >= self.config.calls_max {
            return self.respond(now, id, 486, false, out);
        }
        let (ring_after, answer_after) = (self.config.answer.ring_after, self.config.answer.answer_after);
        let leg = self.legs.insert(Leg {
            server: id,
            key: dialog,
            answer: Vec::new(),
            reply_to: reply_flow(essentials, flow),
            interval: self.config.transactions.timers.t1,
            answered_at: None,
        });
        self.leg_index.insert(dialog, leg);
        match ring_after {
            Some(Duration::ZERO) => self.respond(now, id, 180, true, out),
            Some(after) if after < answer_after => {
                self.timers.insert(now + after, Timer::Ring(leg));
            }
            Some(_) | None => {}
        }
        if answer_after.is_zero() {
            self.answer(now, leg, out);
        } else {
            self.timers.insert(now + answer_after, Timer::Answer(leg));
        }
    }

    pub(super) fn ring(&mut self, now: Instant, leg: LegId, out: &mut impl Sink) {
        if let Some(leg) = self.legs.get(leg) {
            self.respond(now, leg.server, 180, true, out);
        }
    }

    pub(super) fn answer(&mut self, now: Instant, id: LegId, out: &mut impl Sink) {
        let Some(leg) = self.legs.get(id) else { return };
        let (server, dialog) = (leg.server, leg.key);
        let request = self.transactions.take_request(server);
        let Ok(message) = Message::parse(&request) else { return };
        let mut text = vec![0; request.len() + SDP.len() + 512];
        let len = self.write_response(&message, 200, true, &mut text);
        text.truncate(len);
        let fill = |buf: &mut [u8]| {
            buf[..len].copy_from_slice(&text);
            len
        };
        let sent = self.transactions.respond(now, server, 200, len, fill, out);
        self.transactions.put_request_back(server, request);
        if !sent {
            return;
        }
        if self.config.tell_answers {
            self.events.push_back(Event::Answered { call: dialog });
        }
        let leg = self.legs.get_mut(id).expect("looked up above");
        leg.answer = text;
        leg.answered_at = Some(now);
        let at = now + leg.interval;
        self.timers.insert(at, Timer::Repeat(id));
        self.timers.insert(now + self.config.bye_within, Timer::Abandon(id));
    }

    /// The BYE of an answered call has not come.
    pub(super) fn abandon(&mut self, id: LegId) {
        if let Some(leg) = self.legs.remove(id) {
            self.leg_index.remove(&leg.key);
            self.abandoned += 1;
        }
    }

    /// The 200 goes out again until its ACK comes (section 13.3.1.4); a call without one is given up after 64·T1.
    pub(super) fn repeat_answer(&mut self, now: Instant, id: LegId, out: &mut impl Sink) {
        let timers = self.config.transactions.timers;
        let Some(leg) = self.legs.get_mut(id).filter(|l| !l.answer.is_empty()) else { return };
        if leg.answered_at.is_some_and(|at| now - at >= timers.b()) {
            let key = leg.key;
            self.legs.remove(id);
            self.leg_index.remove(&key);
            self.unacknowledged += 1;
            return;
        }
        self.answer_retransmissions += 1;
        let _ = out.send_bytes(leg.reply_to, &leg.answer);
        leg.interval = (leg.interval * 2).min(timers.t2);
        let at = now + leg.interval;
        self.timers.insert(at, Timer::Repeat(id));
    }

    fn acknowledged(&mut self, dialog: u64) {
        if let Some(leg) = self.leg_index.get(&dialog).and_then(|&id| self.legs.get_mut(id)) {
            leg.answer = Vec::new();
        }
    }

    fn called_off(
        &mut self,
        now: Instant,
        key: u64,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        let invite = server_key(self.transactions.seed(), message, essentials, Method::Invite);
        let invite = self.transactions.find_server(invite);
        self.reply_once(now, key, message, essentials, flow, if invite.is_some() { 200 } else { 481 }, out);
        let Some(invite) = invite.filter(|&id| self.transactions.is_open(id)) else { return };
        self.respond(now, invite, 487, false, out);
        let dialog = self.dialog_key(essentials);
        if let Some(leg) = self.leg_index.remove(&dialog) {
            self.legs.remove(leg);
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        key: u64,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        flow: Flow,
    ) -> Option<ServerId> {
        let mut kept = busyhour_sip::Edits::new(message);
        kept.stamp_via(&essentials.via, flow.peer);
        let len = kept.len().ok()?;
        let to = reply_flow(essentials, flow);
        self.transactions
            .begin_server(now, key, essentials.cseq.method, to, len, |buf| kept.write(buf), ())
            .ok()
    }

    #[allow(clippy::too_many_arguments, reason = "each is a different thing")]
    fn reply_once(
        &mut self,
        now: Instant,
        key: u64,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        flow: Flow,
        status: u16,
        out: &mut impl Sink,
    ) {
        if let Some(id) = self.begin(now, key, message, essentials, flow) {
            self.respond(now, id, status, false, out);
        }
    }

    fn respond(&mut self, now: Instant, id: ServerId, status: u16, dialog: bool, out: &mut impl Sink) {
        let request = self.transactions.take_request(id);
        if let Ok(message) = Message::parse(&request) {
            let mut text = vec![0; request.len() + SDP.len() + 512];
            let len = self.write_response(&message, status, dialog, &mut text);
            let fill = |buf: &mut [u8]| {
                buf[..len].copy_from_slice(&text[..len]);
                len
            };
            self.transactions.respond(now, id, status, len, fill, out);
        }
        self.transactions.put_request_back(id, request);
    }

    /// A response of a user of this fleet; `dialog`: with Contact and Record-Route, and with SDP in a 200.
    fn write_response(&self, request: &Message<'_>, status: u16, dialog: bool, buf: &mut [u8]) -> usize {
        let call_id = request.value(HeaderName::CallId).unwrap_or(b"");
        let mut tag = [0; 16];
        busyhour_sip::Writer::new(&mut tag).put_hex(self.transactions.seed().hash(&[b"tag", call_id]));
        let mut reply = Reply::new(request, status).to_tag(&tag);
        if dialog {
            reply = reply.record_route();
        }
        let user = busyhour_sip::value::Uri::parse(request.request_uri()).ok().and_then(|u| u.sip()?.user);
        let headers = |w: &mut busyhour_sip::Writer<'_>| {
            if dialog {
                put_contact(w, user.unwrap_or(b"fleet"), self.config.address);
                w.put(b"\r\n");
            }
            if dialog && status == 200 {
                w.put(b"Content-Type: application/sdp\r\n");
            }
        };
        let body = if dialog && status == 200 { SDP } else { b"" };
        reply.write_with_body(buf, headers, body).expect("the room was reckoned")
    }
}

/// Where answers to a request go over UDP.
fn reply_flow(essentials: &Essentials<'_>, flow: Flow) -> Flow {
    let via = &essentials.via;
    let port = if via.wants_rport() { flow.peer.port() } else { via.port.unwrap_or(5060) };
    Flow { local: flow.local, peer: std::net::SocketAddr::new(flow.peer.ip(), port) }
}
