//! Sending requests on (RFC 3261 section 16.6) and calling them off (sections 9.1 and 16.10).

use std::net::SocketAddr;
use std::ops::Range;

use busyhour_engine::{Flow, Instant, Sink};
use busyhour_sip::value::{Credentials, NameAddr, split_list};
use busyhour_sip::{Edits, Essentials, HeaderName, Message, Method, Writer};

use crate::dialog::may_begin_dialog;
use crate::transactions::{ClientId, ServerId, client_key, server_key};

use super::answer::Answer;
use super::context::{BRANCH_LEN, Best, Branch, BranchId, Context, Forward};
use super::route::{COOKIE_PARAM, Routing, is_loose, push_record_route, spiral_pass};
use super::targets::{Later, Target, Targets};
use super::{Drop, Incoming, Proxy};

/// What of a request decides how its copies are made; parsed once, or again for later targets from what is kept.
pub(super) struct Original<'a, 'm> {
    pub(super) message: &'m Message<'a>,
    pub(super) essentials: &'m Essentials<'a>,
    pub(super) routing: Routing<'a>,
    pub(super) loop_hash: u64,
    /// What the topmost Via is stamped with, unless that has been done.
    pub(super) stamp: Option<SocketAddr>,
    /// The socket that it came through, and leaves by.
    pub(super) local: SocketAddr,
    /// See [`Context::granted`].
    pub(super) granted: bool,
}

impl Proxy {
    /// Begins the server transaction of a request and forwards it to the first group of targets.
    pub(super) fn forward_new(
        &mut self,
        now: Instant,
        r: &Incoming<'_, '_>,
        original: &Original<'_, '_>,
        targets: &Targets,
        out: &mut impl Sink,
    ) -> Result<(), Answer> {
        let breadth = self.breadth(r.message)?;
        let group = targets.group(0, breadth);
        if !self.transactions.has_room_for(group.len()) {
            return Err(Answer::overloaded());
        }
        let method = r.essentials.cseq.method;
        let context = Context {
            invite: method == Method::Invite,
            epoch: self.epoch,
            later: (group.end < targets.len())
                .then(|| Box::new(Later { targets: targets.clone(), from: group.end })),
            breadth,
            granted: original.granted,
            ..Context::default()
        };
        let id = self.begin(now, r, context)?;
        self.fork(now, id, original, targets, group, out);
        self.conclude_if_done(now, id, out);
        Ok(())
    }

    /// Begins the server transaction of a request, of which a stamped copy is kept.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        r: &Incoming<'_, '_>,
        context: Context,
    ) -> Result<ServerId, Answer> {
        let method = r.essentials.cseq.method;
        let key = server_key(self.transactions.seed(), r.message, &r.essentials, method);
        let mut kept = Edits::new(r.message);
        if let Some(source) = r.stamp() {
            kept.stamp_via(&r.essentials.via, source);
        }
        let len = kept.len().map_err(|_| Answer::of(513))?;
        let id = self
            .transactions
            .begin_server(now, key, method, r.reply_to, len, |buf| kept.write(buf), context)
            .map_err(|_| Answer::overloaded())?;
        self.begun();
        Ok(id)
    }

    /// How many branches a request may have at once (RFC 5393 section 5.3.3).
    fn breadth(&self, message: &Message<'_>) -> Result<u32, Answer> {
        let Some(value) = message.value(HeaderName::MaxBreadth) else { return Ok(self.config.max_breadth) };
        match busyhour_sip::value::delta_seconds(value) {
            Some(0) => Err(Answer::of(440)),
            Some(breadth) => Ok(breadth.min(self.config.max_breadth)),
            None => Err(Answer::because(400, "Bad Max-Breadth")),
        }
    }

    /// Tries the next group of targets, from what is kept of the request. False when there is none.
    pub(super) fn fork_next_group(&mut self, now: Instant, id: ServerId, out: &mut impl Sink) -> bool {
        let Some(context) = self.transactions.server_data(id) else { return false };
        let Some(mut later) = context.later.take() else { return false };
        let (breadth, granted) = (context.breadth, context.granted);
        let local = self.transactions.reply_to(id).expect("the transaction is there").local;
        let bytes = self.transactions.take_request(id);
        let message = Message::parse(&bytes).expect("what was kept was parsed before");
        let essentials = Essentials::of(&message).expect("what was kept was checked before");
        let original = Original {
            message: &message,
            essentials: &essentials,
            routing: Routing::of(&self.config, self.key, &message, &essentials),
            loop_hash: self.loop_hash(&message, &essentials),
            stamp: None,
            local,
            granted,
        };
        let group = later.targets.group(later.from, breadth);
        later.from = group.end;
        self.fork(now, id, &original, &later.targets, group, out);
        self.transactions.put_request_back(id, bytes);
        if later.from < later.targets.len()
            && let Some(context) = self.transactions.server_data(id)
        {
            context.later = Some(later);
        }
        true
    }

    /// Forwards to every target of a group.
    fn fork(
        &mut self,
        now: Instant,
        id: ServerId,
        original: &Original<'_, '_>,
        targets: &Targets,
        group: Range<usize>,
        out: &mut impl Sink,
    ) {
        // RFC 5393 section 5.3.3: what branches may fork further is shared out among them.
        let context = self.transactions.server_data(id).expect("the transaction is there");
        let breadth = context.breadth / group.len() as u32;
        for index in group {
            if let Err(status) = self.start_branch(now, id, original, targets.get(index), breadth, out)
                && let Some(context) = self.transactions.server_data(id)
            {
                Best::consider(&mut context.best, Best { status, bytes: None, challenges: Vec::new() });
            }
        }
    }

    /// Sends one copy. When that fails, it counts as an answer with the status that is returned.
    fn start_branch(
        &mut self,
        now: Instant,
        server: ServerId,
        original: &Original<'_, '_>,
        target: Target<'_>,
        breadth: u32,
        out: &mut impl Sink,
    ) -> Result<(), u16> {
        let id = BranchId { unique: self.rng.next_u64(), loop_hash: original.loop_hash };
        let text = id.text();
        let mut edits = Edits::new(original.message);
        self.edit_request(&mut edits, original, target, &text);
        edits.set_number(HeaderName::MaxBreadth, u64::from(breadth));
        let len = edits.len().map_err(|_| 513u16)?;
        let method = original.essentials.cseq.method;
        let key = client_key(self.transactions.seed(), &text, method);
        let data = Branch::Forward(Forward {
            server,
            id,
            provisional: false,
            cancel_wanted: false,
            cancelled: false,
        });
        let to = Flow { local: original.local, peer: target.next_hop };
        let begun =
            self.transactions.begin_client(now, key, method, to, len, |buf| edits.write(buf), data, out);
        let client = begun.map_err(|_| 503u16)?;
        self.stats.forwarded += 1;
        if method == Method::Invite {
            self.transactions.set_alarm(client, now + self.config.timer_c);
        }
        self.transactions.server_data(server).expect("the transaction is there").open.push(client);
        Ok(())
    }

    /// The edits of section 16.6 that every forwarded request gets.
    fn edit_request(
        &self,
        edits: &mut Edits<'_, '_>,
        original: &Original<'_, '_>,
        target: Target<'_>,
        branch: &[u8; BRANCH_LEN],
    ) {
        let Original { message, essentials, routing, .. } = original;
        if let Some(source) = original.stamp {
            edits.stamp_via(&essentials.via, source);
        }
        let mut address = [0u8; 64];
        let address_len =
            Writer::new(&mut address).put_addr(self.config.address).finish().expect("an address fits");
        let address = &address[..address_len];
        if original.granted && target.next_hop == self.config.address {
            let pass = spiral_pass(self.key, essentials, target.uri.unwrap_or(routing.uri));
            let cookie = COOKIE_PARAM.as_bytes();
            edits.push_via(&[b"SIP/2.0/UDP ", address, b";branch=", branch, b";", cookie, b"=", &pass]);
        } else {
            edits.push_via(&[b"SIP/2.0/UDP ", address, b";branch=", branch]);
        }
        routing.apply(edits);
        if let Some(uri) = target.uri {
            edits.set_request_uri(uri);
        }
        push_path(edits, target);
        if let Some(next) = routing.next.filter(|next| !is_loose(next.text))
            && let Ok(strict) = NameAddr::parse(next.text)
        {
            // Step 6: a strict router wants itself in the Request-URI and the real one at the end of the Route.
            edits.pop_route();
            edits.set_request_uri(strict.uri);
            edits.add_header(b"Route", &[b"<", routing.uri, b">"]);
        }
        if self.config.record_route && may_begin_dialog(essentials.cseq.method, !essentials.is_initial()) {
            push_record_route(edits, address, self.key, essentials.call_id, original.granted);
        }
        let max_forwards = match essentials.max_forwards {
            Some(n) => n.checked_sub(1).expect("a request with Max-Forwards 0 is not forwarded"),
            None => self.config.max_forwards,
        };
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
        original: &Original<'_, '_>,
        target: Target<'_>,
        out: &mut impl Sink,
    ) {
        let e = original.essentials;
        // Section 16.11: a copy that comes again leaves with the same branch.
        let number = e.cseq.number.to_be_bytes();
        let parts = [b"ack".as_slice(), e.via.branch().unwrap_or(b""), e.via.sent_by, e.call_id, &number];
        let branch = BranchId { unique: self.key.hash(&parts), loop_hash: original.loop_hash };
        let mut edits = Edits::new(original.message);
        self.edit_request(&mut edits, original, target, &branch.text());
        let to = Flow { local: original.local, peer: target.next_hop };
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
        context.later = None;
        let open = std::mem::take(&mut context.open);
        for client in open.iter() {
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
        // It is refused only when the branch has its final response already.
        let _ = self.transactions.cancel(now, client, &text, Branch::Cancel, out);
        self.transactions.set_alarm(client, now + self.config.transactions.timers.b());
    }
}

/// The Path of a binding becomes the Route (RFC 3327 section 5.4). When it starts with a strict router, that goes into the
/// Request-URI and the contact to the end (RFC 3261 section 16.6 step 6).
fn push_path(edits: &mut Edits<'_, '_>, target: Target<'_>) {
    let Some(first) = split_list(target.path).next() else { return };
    let (false, Ok(strict), Some(contact)) = (is_loose(first), NameAddr::parse(first), target.uri) else {
        return edits.push_route(&[target.path]);
    };
    edits.set_request_uri(strict.uri);
    for index in (1..split_list(target.path).count()).rev() {
        edits.push_route(&[split_list(target.path).nth(index).expect("counted")]);
    }
    edits.add_header(b"Route", &[b"<", contact, b">"]);
}
