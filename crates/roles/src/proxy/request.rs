//! What becomes of a request that belongs to no transaction yet (RFC 3261 sections 16.3 to 16.5).

use std::net::SocketAddr;

use busyhour_engine::{Flow, Instant, Sink};
use busyhour_sip::value::{Host, NameAddr, Param, Scheme, SipUri, Uri, Via, unescape};
use busyhour_sip::{Defect, Edits, Essentials, HeaderName, Message, Method, Reply};

use crate::address::is_sendable;
use crate::auth::{Kind, Verdict};
use crate::registrar;
use crate::transactions::{ServerId, server_key};

use super::answer::{Answer, reply_flow, room, send};
use super::context::{BranchId, Context};
use super::forward::Original;
use super::route::{COOKIE_PARAM, Routing, spiral_pass};
use super::targets::{Targets, hop, hop_of_binding};
use super::{Drop, Incoming, Proxy};

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
        let trusted = self.config.trusted.binary_search(&flow.peer).is_ok();
        let passed = trusted && via.params.get("passed").is_some();
        let Some(reply_to) = reply_flow(via, flow, passed) else {
            return self.stats.drop_for(Drop::Malformed);
        };
        let r = Incoming { message, essentials, flow, reply_to, passed, trusted };
        let method = essentials.cseq.method;
        let seed = self.transactions.seed();
        if let Some(id) = self.transactions.find_server(server_key(seed, message, &essentials, method)) {
            if method != Method::Ack {
                self.transactions.repeat_request(now, id, out);
            } else if self.transactions.acknowledge(now, id) {
                self.handle_ack(now, &r, out);
            }
            return;
        }
        let cancels = method == Method::Cancel;
        let cancelled = cancels
            .then(|| server_key(seed, message, &essentials, Method::Invite))
            .and_then(|key| self.transactions.find_server(key));
        if let (None, Some((param, owners))) = (cancelled, r.other_owners()) {
            self.pass_on(&r, param, owners, out);
        } else if method == Method::Ack {
            self.handle_ack(now, &r, out);
        } else if cancels {
            self.handle_cancel(now, &r, cancelled, out);
        } else {
            self.stats.invites += u64::from(method == Method::Invite);
            if let Err(answer) = self.handle_new(now, &r, out) {
                self.answer(now, &r, answer, out);
            }
        }
    }

    /// A request that begins something, or goes along a dialog.
    fn handle_new(&mut self, now: Instant, r: &Incoming<'_, '_>, out: &mut impl Sink) -> Result<(), Answer> {
        let method = r.essentials.cseq.method;
        let routing = Routing::of(&self.config, self.key, r.message, &r.essentials);
        let uri = request_uri(r, &routing)?;
        let for_us = routing.next.is_none() && self.config.is_own(&uri);
        if method == Method::Options && for_us && uri.user.is_none() {
            return Err(self.answer_options(r.message));
        }
        let registers = method == Method::Register && for_us;
        if r.essentials.max_forwards == Some(0) && !registers {
            return Err(Answer::of(483));
        }
        let loop_hash = self.loop_hash(r.message, &r.essentials);
        if self.is_loop(r.message, loop_hash) {
            return Err(Answer::of(482));
        }
        if r.message.elements(HeaderName::ProxyRequire).next().is_some() {
            return Err(Answer::bad_extension(HeaderName::ProxyRequire));
        }
        if registers {
            return self.register(now, r, out);
        }
        if self.closing && method == Method::Invite && r.essentials.is_initial() {
            return Err(Answer::draining());
        }
        let granted = self.authorize(now, r, &routing, method)?;
        let original = Original {
            message: r.message,
            essentials: &r.essentials,
            routing,
            loop_hash,
            stamp: r.stamp(),
            local: r.flow.local,
            granted,
        };
        let mut targets = std::mem::take(&mut self.targets);
        let outcome = self
            .find_targets(now, r.flow.local, &routing, &mut targets)
            .and_then(|()| self.forward_new(now, r, &original, &targets, out));
        self.targets = targets;
        outcome
    }

    /// An OPTIONS whose target this proxy is (section 11.2). Its status tells a load balancer whether to send new calls.
    fn answer_options(&self, message: &Message<'_>) -> Answer {
        if message.elements(HeaderName::Require).next().is_some() {
            Answer::bad_extension(HeaderName::Require)
        } else if self.draining {
            Answer::draining()
        } else {
            Answer::capabilities()
        }
    }

    /// Whether this very request has been here before and would go where it went (RFC 5393 section 4.2).
    fn is_loop(&self, message: &Message<'_>, loop_hash: u64) -> bool {
        let vias = message.elements(HeaderName::Via).filter_map(|e| Via::parse(e.text).ok());
        let mut mine =
            vias.filter(|v| self.config.is_own_via(v)).filter_map(|v| BranchId::loop_hash_of(v.branch()?));
        mine.any(|hash| hash == loop_hash)
    }

    /// A hash of all that decides where a request goes (RFC 5393 section 4.2.1): not the Vias, since they differ each
    /// time round.
    pub(super) fn loop_hash(&self, message: &Message<'_>, e: &Essentials<'_>) -> u64 {
        let routes = message
            .elements(HeaderName::Route)
            .fold(0u64, |hash, route| self.key.hash(&[&hash.to_be_bytes(), route.text]));
        self.key.hash(&[
            message.request_uri(),
            e.from.tag().unwrap_or(b""),
            e.to.tag().unwrap_or(b""),
            e.call_id,
            &e.cseq.number.to_be_bytes(),
            &routes.to_be_bytes(),
        ])
    }

    /// Checks credentials where they are needed (section 16.3 step 6). A request along a dialog that began with some needs
    /// none. Whether the sender is known.
    fn authorize(
        &mut self,
        now: Instant,
        r: &Incoming<'_, '_>,
        routing: &Routing<'_>,
        method: Method<'_>,
    ) -> Result<bool, Answer> {
        if routing.in_dialog || !self.needs_credentials(method) {
            return Ok(routing.in_dialog);
        }
        if self.has_pass(r) {
            return Ok(true);
        }
        let user = self.authenticate(now, r, Kind::Proxy)?;
        // Who calls with our name in From must be who they say.
        match r.essentials.from.parse_uri() {
            Ok(Uri::Sip(from)) if self.config.is_own(&from) && !is_user(&from, user) => {
                Err(Answer::because(403, "From Is Somebody Else"))
            }
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// Whether this is a spiral of a request whose sender was known: the Via of that time says so.
    fn has_pass(&self, r: &Incoming<'_, '_>) -> bool {
        let pass = spiral_pass(self.key, &r.essentials, r.message.request_uri());
        let vias = r.message.elements(HeaderName::Via).filter_map(|e| Via::parse(e.text).ok());
        vias.filter_map(|via| via.params.value(COOKIE_PARAM)).any(|value| value == pass)
    }

    fn needs_credentials(&self, method: Method<'_>) -> bool {
        self.config.authenticate.iter().any(|m| m.as_bytes() == method.as_bytes())
    }

    fn authenticate<'a>(
        &mut self,
        now: Instant,
        r: &Incoming<'a, '_>,
        kind: Kind,
    ) -> Result<&'a [u8], Answer> {
        match self.auth.check(now, r.message, r.essentials.cseq.method, kind) {
            Verdict::Granted(user) => Ok(user),
            verdict @ (Verdict::Challenge | Verdict::Stale) => {
                self.stats.challenged += 1;
                Err(Answer::challenge(kind, verdict == Verdict::Stale))
            }
        }
    }

    /// A REGISTER for a domain of ours (section 10.3).
    fn register(&mut self, now: Instant, r: &Incoming<'_, '_>, out: &mut impl Sink) -> Result<(), Answer> {
        // RFC 4475 section 3.3.4: an address-of-record is a SIP URI, so this is malformed rather than unknown.
        let to = r.essentials.to.parse_uri().ok().and_then(Uri::sip);
        let to = to.ok_or(Answer::because(400, "To Is No SIP URI"))?;
        if self.needs_credentials(Method::Register) {
            let user = self.authenticate(now, r, Kind::Www)?;
            if !is_user(&to, user) {
                return Err(Answer::because(403, "To Is Somebody Else"));
            }
        }
        // Step 5: the address-of-record must be one of this domain.
        if !self.config.is_own(&to) {
            return Err(Answer::of(404));
        }
        let aor = registrar::aor_in(&to, self.auth.realm().as_bytes()).ok_or(Answer::of(404))?;
        self.stats.registers += 1;
        let tag = self.tag(r.message);
        let outcome = self.registrar.handle(now, r.message, &r.essentials, &aor, self.location.as_mut());
        let mut reply = Reply::new(r.message, outcome.status).reason(outcome.reason).to_tag(&tag);
        if let Some(source) = r.stamp() {
            reply = reply.source(source);
        }
        let status = outcome.status;
        let fill =
            |buf: &mut [u8]| reply.write(buf, |w| outcome.write_headers(w)).expect("the room was reckoned");
        let sent = send(out, r.reply_to, room(r.message, outcome.headers_len()), fill);
        self.count_sent(status, sent);
        self.sweep(now);
        Ok(())
    }

    /// Where a request goes (section 16.5).
    fn find_targets(
        &self,
        now: Instant,
        local: SocketAddr,
        routing: &Routing<'_>,
        targets: &mut Targets,
    ) -> Result<(), Answer> {
        targets.clear();
        if let Some(next) = routing.next {
            let uri = NameAddr::parse(next.text).ok().and_then(|a| a.parse_uri().ok()?.sip());
            let uri = uri.ok_or(Answer::because(400, "Bad Route"))?;
            targets.push_unchanged(hop(&uri, local).ok_or(unresolvable())?);
            return Ok(());
        }
        let uri = Uri::parse(routing.uri).ok().and_then(Uri::sip).ok_or(Answer::of(416))?;
        let maddr = uri.param("maddr").map(|maddr| self.is_own_maddr(&uri, maddr));
        // A foreign maddr is the only target (section 16.5), one of our own counts as not being there (section 16.4).
        if maddr == Some(false) || !self.config.is_own(&uri) {
            let named = match maddr {
                Some(true) => hop(&SipUri { params: Default::default(), port: None, ..uri }, local),
                Some(false) | None => hop(&uri, local),
            };
            let hop = if maddr == Some(false) { named } else { self.config.next_hop.or(named) };
            let hop = hop.ok_or(unresolvable())?;
            match maddr {
                Some(true) => targets.push_stripped(routing.uri, &uri, hop),
                Some(false) | None => targets.push_unchanged(hop),
            }
            return Ok(());
        }
        match (self.find_contacts(now, local, &uri, targets), self.config.next_hop) {
            (Found::Contacts, _) => Ok(()),
            (Found::None | Found::Unreachable, Some(next_hop)) => {
                targets.push_unchanged(next_hop);
                Ok(())
            }
            (Found::None, None) => Err(Answer::of(404)),
            (Found::Unreachable, None) => Err(Answer::of(480)),
        }
    }

    fn is_own_maddr(&self, uri: &SipUri<'_>, maddr: Param<'_>) -> bool {
        let host = maddr.value.and_then(|v| Host::parse_with_port(v).ok());
        host.is_some_and(|(host, _)| self.config.is_own(&SipUri { host, ..*uri }))
    }

    fn find_contacts(
        &self,
        now: Instant,
        local: SocketAddr,
        uri: &SipUri<'_>,
        targets: &mut Targets,
    ) -> Found {
        let Some(aor) = registrar::aor_in(uri, self.auth.realm().as_bytes()) else { return Found::None };
        let mut seen = false;
        self.location.lookup(now, &aor, &mut |contact| {
            seen = true;
            let Ok(Uri::Sip(uri)) = Uri::parse(contact.uri) else { return };
            // A contact in a domain of ours is a user here, to whom calls are forwarded: the request comes back to this
            // proxy (a spiral, section 16.3), whatever way the registration has come.
            let (path, next_hop) = match self.config.is_own(&uri).then_some(self.config.address) {
                Some(own) if is_sendable(own, local) => (&b""[..], Some(own)),
                Some(_) | None => (contact.path, hop_of_binding(contact.path, &uri, local)),
            };
            if let Some(next_hop) = next_hop {
                targets.push(contact.q, contact.uri, &uri, path, next_hop);
            }
        });
        match (targets.is_empty(), seen) {
            (false, _) => Found::Contacts,
            (true, true) => Found::Unreachable,
            (true, false) => Found::None,
        }
    }

    /// A message of a call that another member owned before the membership changed, and perhaps still does: it goes
    /// there as it came, but for the list of owners that are left to ask.
    fn pass_on(&mut self, r: &Incoming<'_, '_>, param: Param<'_>, owners: &[u8], out: &mut impl Sink) {
        let comma = owners.iter().position(|&b| b == b',').unwrap_or(owners.len());
        let (next, rest) = (&owners[..comma], owners.get(comma + 1..).unwrap_or(b""));
        let Some(peer) = std::str::from_utf8(next).ok().and_then(|t| t.parse::<SocketAddr>().ok()) else {
            return self.stats.drop_for(Drop::Malformed);
        };
        let mut edits = Edits::new(r.message);
        // No parameter twice (section 7.3.1): who comes third finds `passed` there already.
        match (r.passed, rest) {
            (false, []) => edits.replace_param(param, &[b"passed"]),
            (false, rest) => edits.replace_param(param, &[b"passed;next=\"", rest, b"\""]),
            (true, rest) => edits.replace_param(param, &[b"next=\"", rest, b"\""]),
        }
        let sent = match edits.len() {
            Ok(len) => send(out, Flow { local: r.flow.local, peer }, len, |buf| edits.write(buf)),
            Err(_) => Err(Drop::TooLong),
        };
        match sent {
            Ok(()) => self.stats.passed_on += 1,
            Err(why) => self.stats.drop_for(why),
        }
    }

    /// CANCEL is a transaction of its own, and makes the INVITE's branches end (sections 9.2 and 16.10). One that cancels
    /// nothing is answered without a transaction: every INVITE that went through here had one, so it is not passed on
    /// blindly either.
    fn handle_cancel(
        &mut self,
        now: Instant,
        r: &Incoming<'_, '_>,
        invite: Option<ServerId>,
        out: &mut impl Sink,
    ) {
        let Some(invite) = invite else { return self.answer(now, r, Answer::of(481), out) };
        match self.begin(now, r, Context { epoch: self.epoch, ..Context::default() }) {
            Ok(id) => self.answer_local(now, id, 200, out),
            // Without room for its transaction, it gets the same answer whenever it comes.
            Err(_) => self.answer(now, r, Answer::of(200), out),
        }
        self.cancel_all(now, invite, out);
    }

    /// An ACK that belongs to no transaction here: that of a 2xx, forwarded without state, or of an answer that was
    /// given without state, which ends here.
    fn handle_ack(&mut self, now: Instant, r: &Incoming<'_, '_>, out: &mut impl Sink) {
        let e = &r.essentials;
        if e.to.tag() == Some(&self.tag(r.message)) {
            return;
        }
        let routing = Routing::of(&self.config, self.key, r.message, e);
        let allowed = routing.in_dialog || !self.needs_credentials(Method::Invite) || r.trusted;
        let loop_hash = self.loop_hash(r.message, e);
        if !allowed || e.max_forwards == Some(0) || self.is_loop(r.message, loop_hash) {
            return self.stats.drop_for(Drop::StrayAck);
        }
        let mut targets = std::mem::take(&mut self.targets);
        if self.find_targets(now, r.flow.local, &routing, &mut targets).is_ok() {
            let original = Original {
                message: r.message,
                essentials: e,
                routing,
                loop_hash,
                stamp: r.stamp(),
                local: r.flow.local,
                granted: routing.in_dialog,
            };
            self.forward_ack(&original, targets.get(0), out);
        } else {
            self.stats.drop_for(Drop::StrayAck);
        }
        self.targets = targets;
    }
}

/// The Request-URI as it was before a strict router moved it, if it is one that can be served.
fn request_uri<'a>(r: &Incoming<'a, '_>, routing: &Routing<'a>) -> Result<SipUri<'a>, Answer> {
    let bad = || {
        let (status, reason) = Defect::RequestUri.answer();
        Answer::because(status, reason)
    };
    let uri = match r.essentials.request_uri {
        Some(uri) if !routing.strict_before_us => uri,
        Some(_) | None => Uri::parse(routing.uri).map_err(|_| bad())?,
    };
    match uri {
        Uri::Sip(uri) if uri.scheme == Scheme::Sip => Ok(uri),
        // Without TLS there is no hop that a sips URI could take.
        Uri::Sip(_) | Uri::Other { .. } => Err(Answer::of(416)),
    }
}

/// Whether a URI's user part, escapes resolved, is that user.
fn is_user(uri: &SipUri<'_>, user: &[u8]) -> bool {
    uri.user.and_then(unescape::<{ registrar::AOR_LEN_MAX }>).is_some_and(|u| u.as_slice() == user)
}

enum Found {
    Contacts,
    /// Bindings, but none that can be reached from here.
    Unreachable,
    None,
}

/// A next hop that is named by a host name, or needs another transport: that counts as a 503 from there (RFC 3263
/// section 4.3, RFC 3261 section 16.9), and a 503 from downstream is not passed on as one (section 16.7 step 6).
fn unresolvable() -> Answer {
    Answer::because(500, "Next Hop Unreachable")
}
