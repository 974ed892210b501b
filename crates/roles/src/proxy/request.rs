//! What becomes of a request that belongs to no transaction yet (RFC 3261 sections 16.3 to 16.5).

use std::net::SocketAddr;

use busyhour_engine::{Flow, Instant, Sink};
use busyhour_sip::value::{NameAddr, Scheme, SipUri, Uri};
use busyhour_sip::{Defect, Essentials, HeaderName, Message, Method, Reply, reason_phrase};

use crate::auth::{Kind, Verdict};
use crate::registrar;
use crate::transactions::{ServerId, server_key};

use super::context::{BranchId, Context, Target};
use super::forward::Groups;
use super::route::Routing;
use super::{Drop, Incoming, Proxy};

/// An answer of the proxy itself, given without a transaction.
#[derive(Copy, Clone, Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    reason: &'static str,
    headers: Headers<'a>,
}

#[derive(Copy, Clone, Debug)]
enum Headers<'a> {
    None,
    Challenge { kind: Kind, stale: bool },
    Unsupported(&'a [u8]),
    RetryAfter(u32),
    Capabilities,
}

impl<'a> Answer<'a> {
    pub(super) fn of(status: u16) -> Self {
        Answer { status, reason: reason_phrase(status), headers: Headers::None }
    }

    pub(super) fn because(status: u16, reason: &'static str) -> Self {
        Answer { status, reason, headers: Headers::None }
    }

    fn with(status: u16, headers: Headers<'a>) -> Self {
        Answer { status, reason: reason_phrase(status), headers }
    }

    /// 503 for want of room.
    pub(super) fn overloaded() -> Self {
        Answer::with(503, Headers::RetryAfter(RETRY_AFTER_S))
    }
}

/// What a client is told to wait, in seconds, when there is no room for its request.
const RETRY_AFTER_S: u32 = 2;

/// What the proxy supports as the target of an OPTIONS (RFC 3261 section 11.2).
const CAPABILITIES: &[u8] = b"Accept: */*\r\nAccept-Encoding: identity\r\nAccept-Language: en\r\n\
    Allow: INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, MESSAGE, SUBSCRIBE, NOTIFY, INFO, UPDATE, PRACK, REFER, PUBLISH\r\n\
    Supported: path\r\n";

impl Proxy {
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        self.stats.requests += 1;
        let essentials = match Essentials::of(message) {
            Ok(essentials) => essentials,
            Err(defect) => return self.answer_defect(message, defect, flow, out),
        };
        let via = &essentials.via;
        let trusted = self.config.trusted.contains(&flow.peer);
        let passed = trusted && via.params.get("passed").is_some();
        let next_owner = if trusted { via.params.get("next") } else { None };
        let request = Incoming { message, essentials, flow, passed, trusted };
        let method = essentials.cseq.method;
        let seed = self.transactions.seed();
        if let Some(id) = self.transactions.find_server(server_key(seed, message, &essentials, method)) {
            if method == Method::Ack {
                if self.transactions.acknowledge(now, id) {
                    self.handle_ack(now, &request, out);
                }
            } else {
                self.transactions.repeat_request(now, id, out);
            }
            return;
        }
        let cancelled = match method {
            Method::Cancel => {
                self.transactions.find_server(server_key(seed, message, &essentials, Method::Invite))
            }
            _ => None,
        };
        if let (None, Some(owners)) = (cancelled, next_owner) {
            return self.pass_on(message, owners, flow, out);
        }
        match method {
            Method::Ack => self.handle_ack(now, &request, out),
            Method::Cancel => self.handle_cancel(now, &request, cancelled, out),
            _ => {
                if method == Method::Invite {
                    self.stats.invites += 1;
                }
                if let Err(answer) = self.handle_new(now, &request, out) {
                    self.answer(now, &request, answer, out);
                }
            }
        }
    }

    /// A request that begins something, or goes along a dialog.
    fn handle_new<'a>(
        &mut self,
        now: Instant,
        r: &Incoming<'a, '_>,
        out: &mut impl Sink,
    ) -> Result<(), Answer<'a>> {
        let method = r.essentials.cseq.method;
        let uri = match Uri::parse(r.message.request_uri()) {
            Ok(Uri::Sip(uri)) if uri.scheme == Scheme::Sip => uri,
            // Without TLS there is no hop that a sips URI could take.
            Ok(Uri::Sip(_) | Uri::Other { .. }) => return Err(Answer::of(416)),
            Err(_) => {
                let (status, reason) = Defect::RequestUri.answer();
                return Err(Answer::because(status, reason));
            }
        };
        let for_us = uri.user.is_none() && self.config.is_own(&uri) && !r.message.has(HeaderName::Route);
        if method == Method::Options && for_us {
            return Err(if self.draining {
                Answer { reason: "Draining", ..Answer::overloaded() }
            } else {
                Answer::with(200, Headers::Capabilities)
            });
        }
        if r.essentials.max_forwards == Some(0) && !(method == Method::Register && self.config.is_own(&uri)) {
            return Err(Answer::of(483));
        }
        if self.is_loop(r) {
            return Err(Answer::of(482));
        }
        if let Some(required) = r.message.value(HeaderName::ProxyRequire) {
            return Err(Answer::with(420, Headers::Unsupported(required)));
        }
        let routing = Routing::of(&self.config, self.key, r.message, r.essentials.call_id);
        if method == Method::Register && routing.next.is_none() && self.config.is_own(&uri) {
            return self.register(now, r, out);
        }
        self.authorize(now, r, &routing, method)?;
        let groups = self.targets(now, &routing)?;
        self.forward_new(now, r, groups, out)
    }

    /// Whether this very request has been here before and would go where it went (RFC 5393 section 4.2).
    fn is_loop(&self, r: &Incoming<'_, '_>) -> bool {
        let vias =
            r.message.elements(HeaderName::Via).filter_map(|e| busyhour_sip::value::Via::parse(e.text).ok());
        let mut mine = vias
            .filter(|v| {
                v.host.ip() == Some(self.config.address.ip())
                    && v.port.unwrap_or(5060) == self.config.address.port()
            })
            .filter_map(|v| BranchId::loop_hash_of(v.branch()?))
            .peekable();
        if mine.peek().is_none() {
            return false;
        }
        let here = self.loop_hash(r);
        mine.any(|hash| hash == here)
    }

    /// A hash of all that decides where a request goes (RFC 5393 section 4.2.1): not the Vias, since they differ each
    /// time round.
    pub(super) fn loop_hash(&self, r: &Incoming<'_, '_>) -> u64 {
        let e = &r.essentials;
        let routes = self.key.hash(&[r.message.value(HeaderName::Route).unwrap_or(b"")]);
        self.key.hash(&[
            r.message.request_uri(),
            e.from.tag().unwrap_or(b""),
            e.to.tag().unwrap_or(b""),
            e.call_id,
            &e.cseq.number.to_be_bytes(),
            &routes.to_be_bytes(),
        ])
    }

    /// Credentials of requests that need them (section 16.3 step 6). A request along a dialog of ours needs none.
    fn authorize<'a>(
        &mut self,
        now: Instant,
        r: &Incoming<'a, '_>,
        routing: &Routing<'_>,
        method: Method<'_>,
    ) -> Result<(), Answer<'a>> {
        if routing.in_dialog || !self.needs_credentials(method) {
            return Ok(());
        }
        let user = self.authenticate(now, r, Kind::Proxy)?;
        // Who calls with our name in From must be who they say.
        match r.essentials.from.parse_uri() {
            Ok(Uri::Sip(from)) if self.config.is_own(&from) && from.user != Some(user) => {
                Err(Answer::because(403, "From Is Somebody Else"))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub(super) fn needs_credentials(&self, method: Method<'_>) -> bool {
        self.config.authenticate.iter().any(|m| m.as_bytes() == method.as_bytes())
    }

    fn authenticate<'a>(
        &mut self,
        now: Instant,
        r: &Incoming<'a, '_>,
        kind: Kind,
    ) -> Result<&'a [u8], Answer<'a>> {
        match self.auth.check(now, r.message, r.essentials.cseq.method, kind) {
            Verdict::Granted(user) => Ok(user),
            verdict @ (Verdict::Challenge | Verdict::Stale) => {
                self.stats.challenged += 1;
                Err(Answer::with(
                    kind.status(),
                    Headers::Challenge { kind, stale: verdict == Verdict::Stale },
                ))
            }
        }
    }

    /// A REGISTER for a domain of ours (section 10.3).
    fn register<'a>(
        &mut self,
        now: Instant,
        r: &Incoming<'a, '_>,
        out: &mut impl Sink,
    ) -> Result<(), Answer<'a>> {
        let to = r.essentials.to.parse_uri().ok().and_then(Uri::sip).ok_or(Answer::of(404))?;
        if self.needs_credentials(Method::Register) {
            let user = self.authenticate(now, r, Kind::Www)?;
            if to.user != Some(user) {
                return Err(Answer::because(403, "To Is Somebody Else"));
            }
        }
        // Step 5: the address-of-record must be one of this domain.
        if !self.config.is_own(&to) {
            return Err(Answer::of(404));
        }
        let aor = registrar::aor_in(&to, self.auth.realm().as_bytes()).ok_or(Answer::of(404))?;
        self.stats.registers += 1;
        let tag = self.stateless_tag(&r.essentials);
        let outcome = self.registrar.handle(now, r.message, &r.essentials, &aor, self.location.as_mut());
        let mut reply = Reply::new(r.message, outcome.status).reason(outcome.reason).to_tag(&tag);
        if let Some(source) = r.stamp() {
            reply = reply.source(source);
        }
        self.stats.count_answer(outcome.status);
        let len_max = r.message.bytes().len() + ANSWER_OVERHEAD + outcome.headers_len();
        let sent = out.send(r.reply_to(), len_max, |buf| {
            reply.write(buf, |w| outcome.write_headers(w)).expect("the room was reckoned")
        });
        if sent.is_err() {
            self.stats.drop_for(Drop::NoRoom);
        }
        self.sweep(now);
        Ok(())
    }

    /// Where a request goes (section 16.5): groups of targets, each group tried after the one before it.
    fn targets<'a>(&mut self, now: Instant, routing: &Routing<'_>) -> Result<Groups, Answer<'a>> {
        if let Some(next) = routing.next {
            let uri = NameAddr::parse(next.text).ok().and_then(|a| a.parse_uri().ok()?.sip());
            let hop = uri.ok_or(Answer::because(400, "Bad Route"))?.socket_addr();
            return Ok(Groups::one(Target {
                uri: None,
                path: Vec::new(),
                next_hop: hop.ok_or(unresolvable())?,
            }));
        }
        let uri = Uri::parse(routing.uri).ok().and_then(Uri::sip).ok_or(Answer::of(416))?;
        let keep = |next_hop| Groups::one(Target { uri: None, path: Vec::new(), next_hop });
        if !self.config.is_own(&uri) {
            return self.config.next_hop.or_else(|| uri.socket_addr()).map(keep).ok_or(unresolvable());
        }
        let groups = self.contacts(now, &uri);
        match (groups, self.config.next_hop) {
            (Found::Contacts(groups), _) => Ok(groups),
            (Found::None | Found::Unreachable, Some(next_hop)) => Ok(keep(next_hop)),
            (Found::None, None) => Err(Answer::of(404)),
            (Found::Unreachable, None) => Err(Answer::of(480)),
        }
    }

    fn contacts(&self, now: Instant, uri: &SipUri<'_>) -> Found {
        let Some(aor) = registrar::aor_in(uri, self.auth.realm().as_bytes()) else { return Found::None };
        let mut groups = Groups::default();
        let mut seen = false;
        self.location.lookup(now, &aor, &mut |contact| {
            seen = true;
            if let Some(next_hop) = hop_of(contact.path, contact.uri) {
                groups.add(
                    contact.q,
                    Target { uri: Some(contact.uri.to_vec()), path: contact.path.to_vec(), next_hop },
                );
            }
        });
        match (groups.is_empty(), seen) {
            (false, _) => Found::Contacts(groups),
            (true, true) => Found::Unreachable,
            (true, false) => Found::None,
        }
    }

    /// Answers without a transaction. ACKs are never answered.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        r: &Incoming<'_, '_>,
        answer: Answer<'_>,
        out: &mut impl Sink,
    ) {
        let tag = self.stateless_tag(&r.essentials);
        let mut reply = Reply::new(r.message, answer.status).reason(answer.reason).to_tag(&tag);
        if let Some(source) = r.stamp() {
            reply = reply.source(source);
        }
        self.stats.count_answer(answer.status);
        let auth = &self.auth;
        let len_max =
            r.message.bytes().len() + ANSWER_OVERHEAD + CAPABILITIES.len() + auth.challenge_len_max();
        let headers = |w: &mut busyhour_sip::Writer<'_>| match answer.headers {
            Headers::None => {}
            Headers::Challenge { kind, stale } => auth.write_challenge(now, kind, stale, w),
            Headers::Unsupported(what) => {
                w.put(b"Unsupported: ").put(what).put(b"\r\n");
            }
            Headers::RetryAfter(seconds) => {
                w.put(b"Retry-After: ").put_u64(u64::from(seconds)).put(b"\r\n");
            }
            Headers::Capabilities => {
                w.put(CAPABILITIES);
            }
        };
        let sent =
            out.send(r.reply_to(), len_max, |buf| reply.write(buf, headers).expect("the room was reckoned"));
        if sent.is_err() {
            self.stats.drop_for(Drop::NoRoom);
        }
    }

    /// Answers a request that has something wrong, when it can be answered.
    fn answer_defect(&mut self, message: &Message<'_>, defect: Defect, flow: Flow, out: &mut impl Sink) {
        self.stats.last_defect = Some(defect);
        let via = message.top_via().ok();
        let (Some(via), false) = (via, message.method() == Some(Method::Ack)) else {
            return self.stats.drop_for(Drop::Malformed);
        };
        self.stats.defects += 1;
        let (status, reason) = defect.answer();
        self.stats.count_answer(status);
        let port = if via.wants_rport() { flow.peer.port() } else { via.port.unwrap_or(5060) };
        let peer = SocketAddr::new(flow.peer.ip(), port);
        let tag = super::hex(self.key.hash(&[b"defect", message.value(HeaderName::CallId).unwrap_or(b"")]));
        let reply = Reply::new(message, status).reason(reason).to_tag(&tag).source(flow.peer);
        let len_max = message.bytes().len() + ANSWER_OVERHEAD;
        let sent = out.send(Flow { local: flow.local, peer }, len_max, |buf| {
            reply.write(buf, |_| {}).expect("the room was reckoned")
        });
        if sent.is_err() {
            self.stats.drop_for(Drop::NoRoom);
        }
    }

    /// A message of a call that another member owned before the membership changed, and perhaps still does: it goes
    /// there as it came, but for the list of owners that are left to ask.
    fn pass_on(
        &mut self,
        message: &Message<'_>,
        owners: busyhour_sip::value::Param<'_>,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        let list = owners.value.and_then(busyhour_sip::value::quoted_text).unwrap_or(b"");
        let comma = list.iter().position(|&b| b == b',').unwrap_or(list.len());
        let (next, rest) = (&list[..comma], list.get(comma + 1..).unwrap_or(b""));
        let Some(peer) = std::str::from_utf8(next).ok().and_then(|t| t.parse::<SocketAddr>().ok()) else {
            return self.stats.drop_for(Drop::Malformed);
        };
        let mut edits = busyhour_sip::Edits::new(message);
        if rest.is_empty() {
            edits.replace_param(owners, &[b"passed"]);
        } else {
            edits.replace_param(owners, &[b"next=\"", rest, b"\";passed"]);
        }
        match edits.len() {
            Ok(len) => {
                self.stats.passed_on += 1;
                if out.send(Flow { local: flow.local, peer }, len, |buf| edits.write(buf)).is_err() {
                    self.stats.drop_for(Drop::NoRoom);
                }
            }
            Err(_) => self.stats.drop_for(Drop::TooLong),
        }
    }

    /// CANCEL is a transaction of its own, and makes the INVITE's branches end (section 16.10).
    fn handle_cancel(
        &mut self,
        now: Instant,
        r: &Incoming<'_, '_>,
        invite: Option<ServerId>,
        out: &mut impl Sink,
    ) {
        // Every INVITE that went through here had a transaction, so one that is unknown is not to be passed on blindly.
        let status = if invite.is_some() { 200 } else { 481 };
        self.answer(now, r, Answer::of(status), out);
        if let Some(id) = invite {
            self.cancel_all(now, id, out);
        }
    }

    /// An ACK that belongs to no transaction here: that of a 2xx, forwarded without state, or of an answer that was
    /// given without state, which ends here.
    fn handle_ack(&mut self, now: Instant, r: &Incoming<'_, '_>, out: &mut impl Sink) {
        let e = &r.essentials;
        if e.to.tag() == Some(&self.stateless_tag(e)) {
            return;
        }
        let routing = Routing::of(&self.config, self.key, r.message, e.call_id);
        let allowed = routing.in_dialog || !self.needs_credentials(Method::Invite) || r.trusted;
        let target = match e.max_forwards {
            Some(0) => None,
            Some(_) | None if allowed => self.targets(now, &routing).ok().and_then(Groups::into_first),
            Some(_) | None => None,
        };
        match target {
            Some(target) => self.forward_ack(r, &routing, &target, out),
            None => self.stats.drop_for(Drop::StrayAck),
        }
    }

    pub(super) fn new_context(&self, r: &Incoming<'_, '_>) -> Context {
        let breadth = r.message.value(HeaderName::MaxBreadth).and_then(busyhour_sip::value::delta_seconds);
        let breadth = breadth.unwrap_or(self.config.max_breadth);
        Context::new(r.essentials.cseq.method == Method::Invite, self.epoch, breadth)
    }
}

/// More than any answer is longer than its request, besides what is reckoned by itself.
const ANSWER_OVERHEAD: usize = 512;

enum Found {
    Contacts(Groups),
    /// Bindings, but none that names an address.
    Unreachable,
    None,
}

/// The address of the first hop of a Path, or else of the contact itself.
fn hop_of(path: &[u8], uri: &[u8]) -> Option<SocketAddr> {
    let first = busyhour_sip::value::split_list(path).next();
    let uri = match first {
        Some(route) => NameAddr::parse(route).ok()?.uri,
        None => uri,
    };
    Uri::parse(uri).ok()?.sip()?.socket_addr()
}

/// A next hop is named by a host name: without DNS that is a failed resolution, which counts as a 503 from there
/// (RFC 3263 section 4.3), and a 503 from downstream is not passed on as one (RFC 3261 section 16.7 step 6).
fn unresolvable<'a>() -> Answer<'a> {
    Answer::because(500, "Next Hop Is Not An Address")
}
