//! Responses on their way back (RFC 3261 section 16.7), and branches that end without one (sections 16.8 and 16.9).

use busyhour_engine::{Instant, Sink};
use busyhour_sip::{Edits, Essentials, HeaderName, Message, Reply};

use crate::transactions::{ClientId, ServerId, client_key};

use super::answer::room;
use super::context::{Best, Branch, Forward};
use super::{Drop, Proxy};

impl Proxy {
    pub(super) fn handle_response(&mut self, now: Instant, message: &Message<'_>, out: &mut impl Sink) {
        self.stats.responses += 1;
        let status = message.status().expect("a response");
        let Some(key) = self.response_key(message) else { return self.stats.drop_for(Drop::Malformed) };
        let Some(client) = self.transactions.find_client(key) else {
            return self.stats.drop_for(Drop::StrayResponse);
        };
        let branch = match self.transactions.client_data(client).expect("it was found") {
            Branch::Forward(branch) => Some(branch.server),
            Branch::Cancel => None,
        };
        // Section 16.7 step 3: a response that has no Via but ours is not to be forwarded, so it answers nothing.
        if branch.is_some() && message.elements(HeaderName::Via).nth(1).is_none() {
            return self.stats.drop_for(Drop::Malformed);
        }
        let delivered = self.transactions.handle_response(now, client, message, out);
        let (true, Some(server)) = (delivered, branch) else { return };
        match status {
            100..=199 => self.provisional(now, client, message, out),
            200..=299 => {
                self.forward_response(now, server, message, out);
                self.close_branch(server, client);
                self.accepted(now, server, out);
            }
            _ => self.failed(now, server, client, message, out),
        }
    }

    /// The transaction that a response belongs to (section 17.1.3): by the topmost Via, which must be ours, and the method
    /// of CSeq. One that is malformed, or whose body is cut off, is discarded (section 18.3).
    fn response_key(&self, message: &Message<'_>) -> Option<u64> {
        let essentials = Essentials::of(message).ok().filter(|e| self.config.is_own_via(&e.via))?;
        Some(client_key(self.transactions.seed(), essentials.via.branch()?, essentials.cseq.method))
    }

    fn provisional(&mut self, now: Instant, client: ClientId, message: &Message<'_>, out: &mut impl Sink) {
        let Some(Branch::Forward(branch)) = self.transactions.client_data(client) else { return };
        let (server, first, wanted) = (branch.server, !branch.provisional, branch.cancel_wanted);
        let cancelled = branch.cancelled;
        branch.provisional = true;
        let status = message.status().expect("a response");
        if status > 100 {
            // Section 16.7 step 2: Timer C starts anew with every 101 to 199.
            if self.transactions.is_invite_client(client) && !cancelled {
                self.transactions.set_alarm(client, now + self.config.timer_c);
            }
            self.forward_response(now, server, message, out);
        }
        if first && wanted {
            self.cancel_branch(now, client, out);
        }
    }

    /// A 2xx has been forwarded: other branches are called off (step 10).
    fn accepted(&mut self, now: Instant, server: ServerId, out: &mut impl Sink) {
        let Some(context) = self.transactions.server_data(server) else { return };
        context.answered = true;
        context.best = None;
        context.later = None;
        self.cancel_all(now, server, out);
    }

    /// A branch has got a 3xx to 6xx.
    fn failed(
        &mut self,
        now: Instant,
        server: ServerId,
        client: ClientId,
        message: &Message<'_>,
        out: &mut impl Sink,
    ) {
        let status = message.status().expect("a response");
        self.close_branch(server, client);
        let Some(context) = self.transactions.server_data(server) else { return };
        if context.answered {
            return;
        }
        // RFC 4320 section 4.2: a 408 tells nothing about a request other than INVITE, and must not be sent for one.
        if status == 408 && !context.invite {
            return self.conclude_if_done(now, server, out);
        }
        let alone = context.open.is_empty() && context.later.is_none() && context.best.is_none();
        if alone && status != 503 && status != 408 {
            self.forward_response(now, server, message, out);
            return;
        }
        let mut edits = Edits::new(message);
        edits.pop_via();
        let bytes = edits.to_vec().ok();
        if let Some(context) = self.transactions.server_data(server) {
            Best::consider(&mut context.best, Best { status, bytes, challenges: Vec::new() });
        }
        if status >= 600 {
            self.cancel_all(now, server, out);
        }
        self.conclude_if_done(now, server, out);
    }

    /// Forwards a response through the server transaction: topmost Via off, nothing else changed.
    fn forward_response(
        &mut self,
        now: Instant,
        server: ServerId,
        message: &Message<'_>,
        out: &mut impl Sink,
    ) {
        let mut edits = Edits::new(message);
        edits.pop_via();
        let status = message.status().expect("a response");
        match edits.len() {
            Ok(len) => {
                self.transactions.respond(now, server, status, len, |buf| edits.write(buf), out);
            }
            Err(_) => self.stats.drop_for(Drop::TooLong),
        }
    }

    fn close_branch(&mut self, server: ServerId, client: ClientId) {
        if let Some(context) = self.transactions.server_data(server) {
            context.open.remove(client);
        }
    }

    /// Timer B or F: nobody answered.
    pub(super) fn branch_timed_out(
        &mut self,
        now: Instant,
        client: ClientId,
        branch: Branch,
        out: &mut impl Sink,
    ) {
        let Branch::Forward(Forward { server, .. }) = branch else { return };
        self.give_up(now, server, client, out);
    }

    /// Timer C, or the end of the patience with a branch that was cancelled (section 16.8).
    pub(super) fn alarm(&mut self, now: Instant, client: ClientId, out: &mut impl Sink) {
        let pending = self.transactions.is_pending(client);
        let Some(Branch::Forward(branch)) = self.transactions.client_data(client) else { return };
        if !pending {
            return;
        }
        if branch.provisional && !branch.cancelled {
            return self.cancel_branch(now, client, out);
        }
        let server = branch.server;
        self.transactions.end_client(client);
        self.give_up(now, server, client, out);
    }

    /// A branch ends as if it had got a 408.
    fn give_up(&mut self, now: Instant, server: ServerId, client: ClientId, out: &mut impl Sink) {
        self.close_branch(server, client);
        let Some(context) = self.transactions.server_data(server) else { return };
        if context.invite && !context.answered {
            Best::consider(&mut context.best, Best { status: 408, bytes: None, challenges: Vec::new() });
        }
        self.conclude_if_done(now, server, out);
    }

    /// Once no branch is open: the next group of targets, or else the best response.
    pub(super) fn conclude_if_done(&mut self, now: Instant, server: ServerId, out: &mut impl Sink) {
        loop {
            let Some(context) = self.transactions.server_data(server) else { return };
            if !context.open.is_empty() || context.answered {
                return;
            }
            // None are left once a 6xx has come, or the caller has cancelled.
            if context.later.is_some() {
                self.fork_next_group(now, server, out);
                continue;
            }
            let best = context.best.take();
            let (invite, cancelled) = (context.invite, context.cancelled);
            return match best {
                Some(best) => self.answer_best(now, server, best, cancelled, out),
                None if invite => self.answer_local(now, server, if cancelled { 487 } else { 408 }, out),
                None => self.transactions.abandon(now, server),
            };
        }
    }

    fn answer_best(
        &mut self,
        now: Instant,
        server: ServerId,
        best: Best,
        cancelled: bool,
        out: &mut impl Sink,
    ) {
        let status = match best.status {
            // Step 6: that this way is overloaded does not mean that this proxy is.
            503 => 500,
            408 if cancelled => 487,
            other => other,
        };
        let message =
            best.bytes.as_deref().filter(|_| status == best.status).and_then(|b| Message::parse(b).ok());
        let Some(message) = message else { return self.answer_local(now, server, status, out) };
        let mut edits = Edits::new(&message);
        if matches!(status, 401 | 407) {
            for line in &best.challenges {
                edits.add_line(line);
            }
        }
        match edits.len() {
            Ok(len) => {
                self.transactions.respond(now, server, status, len, |buf| edits.write(buf), out);
            }
            Err(_) => self.answer_local(now, server, status, out),
        }
    }

    /// A final response of the proxy's own through the server transaction.
    pub(super) fn answer_local(&mut self, now: Instant, server: ServerId, status: u16, out: &mut impl Sink) {
        let bytes = self.transactions.take_request(server);
        if let Ok(request) = Message::parse(&bytes) {
            let tag = self.tag(&request);
            let reply = Reply::new(&request, status).to_tag(&tag);
            let fill = |buf: &mut [u8]| reply.write(buf, |_| {}).expect("the room was reckoned");
            self.transactions.respond(now, server, status, room(&request, 0), fill, out);
            self.stats.count_answer(status);
        }
        self.transactions.put_request_back(server, bytes);
    }
}
