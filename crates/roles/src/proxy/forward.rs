//! Sending requests on (RFC 3261 section 16.6) and calling them off (sections 9.1 and 16.10).

use std::net::SocketAddr;

use busyhour_engine::{Flow, Instant, Sink};
use busyhour_sip::value::{Credentials, NameAddr, Uri};
use busyhour_sip::{Edits, Essentials, HeaderName, Message, Method, Writer};

use crate::transactions::{ClientId, ServerId, client_key, server_key};

use super::context::{BRANCH_LEN, Best, Branch, BranchId, Forward, Target};
use super::request::Answer;
use super::route::{Routing, push_record_route};
use super::{Drop, Incoming, Proxy};

/// Targets in groups of equal preference, the most preferred first.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<(u16, Vec<Target>)>);

impl Groups {
    pub(super) fn one(target: Target) -> Self {
        Groups(vec![(1000, vec![target])])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, q: u16, target: Target) {
        match self.0.iter_mut().find(|(preference, _)| *preference == q) {
            Some((_, group)) => group.push(target),
            None => {
                let at = self.0.iter().position(|(preference, _)| *preference < q).unwrap_or(self.0.len());
                self.0.insert(at, (q, vec![target]));
            }
        }
    }

    /// The most preferred target.
    pub(super) fn into_first(self) -> Option<Target> {
        self.0.into_iter().flat_map(|(_, group)| group).next()
    }

    /// Groups in reverse order, none larger than the breadth there is (RFC 5393 section 5.3.3: what may not go out in
    /// parallel goes out one after the other).
    fn into_later(self, breadth: u32) -> Vec<Vec<Target>> {
        let breadth = breadth as usize;
        let mut later: Vec<Vec<Target>> = self
            .0
            .into_iter()
            .flat_map(|(_, group)| group.chunks(breadth).map(<[_]>::to_vec).collect::<Vec<_>>())
            .collect();
        later.reverse();
        later
    }
}

/// What of a request decides how its copies are made; parsed once, or again for a later group from what is kept.
struct Original<'a, 'm> {
    message: &'m Message<'a>,
    essentials: Essentials<'a>,
    stamp: Option<SocketAddr>,
    local: SocketAddr,
    loop_hash: u64,
}

impl Proxy {
    /// Begins the server transaction of a request and forwards it to the first group of targets.
    pub(super) fn forward_new<'a>(
        &mut self,
        now: Instant,
        r: &Incoming<'a, '_>,
        groups: Groups,
        out: &mut impl Sink,
    ) -> Result<(), Answer<'a>> {
        let mut context = self.new_context(r);
        if context.breadth == 0 {
            return Err(Answer::of(440));
        }
        context.later = groups.into_later(context.breadth);
        let method = r.essentials.cseq.method;
        let key = server_key(self.transactions.seed(), r.message, &r.essentials, method);
        let mut kept = Edits::new(r.message);
        if let Some(source) = r.stamp() {
            kept.stamp_via(&r.essentials.via, source);
        }
        let len = kept.len().map_err(|_| Answer::of(513))?;
        let id = self
            .transactions
            .begin_server(now, key, method, r.reply_to(), len, |buf| kept.write(buf), context)
            .map_err(|_| Answer::overloaded())?;
        self.begun();
        let original = Original {
            message: r.message,
            essentials: r.essentials,
            stamp: r.stamp(),
            local: r.flow.local,
            loop_hash: self.loop_hash(r),
        };
        self.fork(now, id, &original, out);
        self.conclude_if_done(now, id, out);
        Ok(())
    }

    /// Tries the next group of targets from what is kept of the request. False when there is none, or nothing went out.
    pub(super) fn fork_next_group(&mut self, now: Instant, id: ServerId, out: &mut impl Sink) -> bool {
        let Some(context) = self.transactions.server_data(id).filter(|c| !c.later.is_empty()) else {
            return false;
        };
        let _ = context;
        let bytes = self.transactions.take_request(id);
        let message = Message::parse(&bytes).expect("what was kept was parsed before");
        let essentials = Essentials::of(&message).expect("what was kept was checked before");
        let flow = Flow { local: self.config.address, peer: self.config.address };
        let r = Incoming { message: &message, essentials, flow, passed: true, trusted: true };
        let loop_hash = self.loop_hash(&r);
        let original = Original { message: &message, essentials, stamp: None, local: flow.local, loop_hash };
        let forked = self.fork(now, id, &original, out);
        self.transactions.put_request_back(id, bytes);
        forked
    }

    /// Forwards to every target of the next group.
    fn fork(&mut self, now: Instant, id: ServerId, original: &Original<'_, '_>, out: &mut impl Sink) -> bool {
        let context = self.transactions.server_data(id).expect("the transaction is there");
        let Some(group) = context.later.pop() else { return false };
        // RFC 5393 section 5.3.3: what branches may fork further is shared out among them.
        let breadth = context.breadth / group.len() as u32;
        let mut forked = false;
        for target in &group {
            forked |= self.start_branch(now, id, original, target, breadth, out);
        }
        forked
    }

    fn start_branch(
        &mut self,
        now: Instant,
        server: ServerId,
        original: &Original<'_, '_>,
        target: &Target,
        breadth: u32,
        out: &mut impl Sink,
    ) -> bool {
        let branch = BranchId { unique: self.rng.next_u64(), loop_hash: original.loop_hash };
        let text = branch.text();
        let routing = Routing::of(&self.config, self.key, original.message, original.essentials.call_id);
        let mut edits = Edits::new(original.message);
        if let Some(source) = original.stamp {
            edits.stamp_via(&original.essentials.via, source);
        }
        self.edit_request(&mut edits, original.message, &original.essentials, &routing, target, &text);
        edits.set_number(HeaderName::MaxBreadth, u64::from(breadth.max(1)));
        let method = original.essentials.cseq.method;
        let failure = match edits.len() {
            Ok(len) => {
                let key = client_key(self.transactions.seed(), &text, method);
                let data = Branch::Forward(Forward {
                    server,
                    id: branch,
                    provisional: false,
                    cancel_wanted: false,
                    cancelled: false,
                });
                let to = Flow { local: original.local, peer: target.next_hop };
                let begun = self.transactions.begin_client(
                    now,
                    key,
                    method,
                    to,
                    len,
                    |buf| edits.write(buf),
                    data,
                    out,
                );
                match begun {
                    Ok(client) => {
                        self.stats.forwarded += 1;
                        if method == Method::Invite {
                            self.transactions.set_alarm(client, now + self.config.timer_c);
                        }
                        let context =
                            self.transactions.server_data(server).expect("the transaction is there");
                        context.open.push(client);
                        return true;
                    }
                    Err(_) => 503,
                }
            }
            Err(_) => 513,
        };
        if let Some(context) = self.transactions.server_data(server) {
            Best::consider(&mut context.best, Best { status: failure, bytes: None, challenges: Vec::new() });
        }
        false
    }

    /// The edits of section 16.6 that every forwarded request gets.
    fn edit_request(
        &self,
        edits: &mut Edits<'_, '_>,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        routing: &Routing<'_>,
        target: &Target,
        branch: &[u8; BRANCH_LEN],
    ) {
        let mut address = [0u8; 64];
        let address_len = {
            let mut w = Writer::new(&mut address);
            w.put_addr(self.config.address);
            w.finish().expect("an address fits")
        };
        let address = &address[..address_len];
        edits.push_via(&[b"SIP/2.0/UDP ", address, b";branch=", branch]);
        routing.apply(edits);
        if let Some(uri) = &target.uri {
            edits.set_request_uri(uri);
        }
        if !target.path.is_empty() {
            edits.push_route(&[&target.path]);
        }
        if let Some(strict) = routing.next.filter(|next| !is_loose(next.text))
            && !routing.moved_uri()
        {
            // Step 6: a strict router wants itself in the Request-URI and the real one at the end of the Route.
            if let Ok(next) = NameAddr::parse(strict.text) {
                edits.pop_route();
                edits.set_request_uri(next.uri);
                edits.add_header(b"Route", &[b"<", routing.uri, b">"]);
            }
        }
        if self.config.record_route && essentials.is_initial() && creates_dialog(essentials.cseq.method) {
            push_record_route(edits, address, self.key, essentials.call_id);
        }
        let max_forwards = essentials.max_forwards.map_or(self.config.max_forwards, |n| n - 1);
        edits.set_number(HeaderName::MaxForwards, u64::from(max_forwards));
        for line in message.all(HeaderName::ProxyAuthorization) {
            // Credentials for this realm are for nobody further on (section 22.3).
            let ours = Credentials::parse(message.value_of(line))
                .is_ok_and(|c| c.realm == self.auth.realm().as_bytes());
            if ours {
                edits.remove_line(line);
            }
        }
    }

    /// Forwards an ACK to a 2xx; it has no transaction, and gets no answer.
    pub(super) fn forward_ack(
        &mut self,
        r: &Incoming<'_, '_>,
        routing: &Routing<'_>,
        target: &Target,
        out: &mut impl Sink,
    ) {
        let before = r.essentials.via.branch().unwrap_or(b"");
        let branch = BranchId {
            unique: self.key.hash(&[b"ack", before, r.essentials.call_id]),
            loop_hash: self.loop_hash(r),
        };
        let mut edits = Edits::new(r.message);
        if let Some(source) = r.stamp() {
            edits.stamp_via(&r.essentials.via, source);
        }
        self.edit_request(&mut edits, r.message, &r.essentials, routing, target, &branch.text());
        let to = Flow { local: r.flow.local, peer: target.next_hop };
        match edits.len() {
            Ok(len) if out.send(to, len, |buf| edits.write(buf)).is_ok() => self.stats.forwarded += 1,
            Ok(_) => self.stats.drop_for(Drop::NoRoom),
            Err(_) => self.stats.drop_for(Drop::TooLong),
        }
    }

    /// Wants every branch of an INVITE ended and no new ones begun.
    pub(super) fn cancel_all(&mut self, now: Instant, id: ServerId, out: &mut impl Sink) {
        let Some(context) = self.transactions.server_data(id) else { return };
        if !context.invite || context.cancelled {
            return;
        }
        context.cancelled = true;
        context.later.clear();
        let open = std::mem::take(&mut context.open);
        for &client in &open {
            self.cancel_branch(now, client, out);
        }
        if let Some(context) = self.transactions.server_data(id) {
            context.open = open;
        }
    }

    /// Sends a CANCEL as soon as a provisional response has come (section 9.1).
    pub(super) fn cancel_branch(&mut self, now: Instant, client: ClientId, out: &mut impl Sink) {
        let Some(Branch::Forward(branch)) = self.transactions.client_data(client) else { return };
        if branch.cancelled {
            return;
        }
        if !branch.provisional {
            branch.cancel_wanted = true;
            return;
        }
        branch.cancelled = true;
        let text = branch.id.text();
        // Without room for the CANCEL's transaction, the branch ends when its alarm goes off.
        let _ = self.transactions.cancel(now, client, &text, Branch::Cancel, out);
        self.transactions.set_alarm(client, now + self.config.transactions.timers.b());
    }
}

/// Methods that create dialogs: RFC 3261 section 12, RFC 6665 section 4, RFC 3515 section 2.4.4.
fn creates_dialog(method: Method<'_>) -> bool {
    matches!(method, Method::Invite | Method::Subscribe | Method::Refer | Method::Notify)
}

fn is_loose(route: &[u8]) -> bool {
    NameAddr::parse(route)
        .ok()
        .and_then(|a| a.parse_uri().ok().and_then(Uri::sip))
        .is_some_and(|uri| uri.is_loose_router())
}
