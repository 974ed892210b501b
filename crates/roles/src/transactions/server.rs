//! Server transactions.

use busyhour_engine::{Flow, Full, Instant, Sink};
use busyhour_sip::{Message, Method, Reply};

use super::machine::ServerMachine;
use super::{Due, Server, ServerId, Signal, Transactions, rearm};

impl<S, C> Transactions<S, C> {
    /// The server transaction with that key.
    pub fn find_server(&self, key: u64) -> Option<ServerId> {
        self.server_index.get(&key).copied()
    }

    /// Begins a server transaction for a request that has just come: `len` bytes, written by `fill` with the topmost
    /// Via stamped (RFC 3261 section 18.2.1), so that every response can copy what is kept. Responses go to `reply_to`.
    ///
    /// # Errors
    /// [`Full`] at the limit; the data is lost.
    #[allow(clippy::too_many_arguments, reason = "each is a different thing")]
    pub fn begin_server(
        &mut self,
        now: Instant,
        key: u64,
        method: Method<'_>,
        reply_to: Flow,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
        data: S,
    ) -> Result<ServerId, Full> {
        if self.servers.len() >= self.config.servers_max {
            self.stats.refused += 1;
            return Err(Full);
        }
        let machine = ServerMachine::start(now, &self.config.timers, method);
        let mut request = Vec::new();
        self.buffers.resize(&mut request, len);
        let used = fill(&mut request);
        request.truncate(used);
        let id = self.servers.insert(Server {
            machine,
            key,
            reply_to,
            request,
            last_response: Vec::new(),
            timer: None,
            abandoned_until: None,
            open: true,
            data,
        });
        self.server_index.insert(key, id);
        self.open += 1;
        self.stats.servers += 1;
        self.rearm_server(id);
        Ok(id)
    }

    /// The request came again: the last response goes out again if the state wants it.
    pub fn repeat_request(&mut self, now: Instant, id: ServerId, out: &mut impl Sink) {
        let Some(server) = self.servers.get_mut(id) else { return };
        let action = server.machine.on_request(now);
        self.stats.absorbed += 1;
        if action.resend {
            self.resend_response(id, out);
        }
    }

    /// An ACK came for an INVITE transaction. True when the TU has to see it: it belongs to a 2xx.
    pub fn acknowledge(&mut self, now: Instant, id: ServerId) -> bool {
        let Some(server) = self.servers.get_mut(id) else { return false };
        let action = server.machine.on_ack(now, &self.config.timers);
        if !action.deliver {
            self.stats.absorbed += 1;
        }
        self.settle_server(id);
        action.deliver
    }

    /// Gives a response of `len` bytes to a server transaction; `fill` writes it. False when the state refuses it (a
    /// final response was given before) or the transaction is gone.
    pub fn respond(
        &mut self,
        now: Instant,
        id: ServerId,
        status: u16,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
        out: &mut impl Sink,
    ) -> bool {
        let Some(server) = self.servers.get_mut(id) else { return false };
        let action = server.machine.respond(now, &self.config.timers, status);
        if action.send {
            let sent = if server.machine.repeats_response() {
                self.buffers.resize(&mut server.last_response, len);
                let used = fill(&mut server.last_response);
                server.last_response.truncate(used);
                out.send_bytes(server.reply_to, &server.last_response)
            } else {
                out.send(server.reply_to, len, fill)
            };
            self.stats.unsent += u64::from(sent.is_err());
        }
        self.settle_server(id);
        action.send
    }

    /// Where a server transaction's responses go.
    pub fn reply_to(&self, id: ServerId) -> Option<Flow> {
        self.servers.get(id).map(|s| s.reply_to)
    }

    /// What the TU keeps with a server transaction.
    pub fn server_data(&mut self, id: ServerId) -> Option<&mut S> {
        self.servers.get_mut(id).map(|s| &mut s.data)
    }

    /// Whether a server transaction still waits for a final response.
    pub fn is_open(&self, id: ServerId) -> bool {
        self.servers.get(id).is_some_and(|s| s.machine.is_open())
    }

    /// The request of a server transaction, as it came; empty once it is no longer needed. Taken out to be worked on:
    /// [`Transactions::put_request_back`] returns it.
    pub fn take_request(&mut self, id: ServerId) -> Vec<u8> {
        self.servers.get_mut(id).map(|s| std::mem::take(&mut s.request)).unwrap_or_default()
    }

    /// The counterpart of [`Transactions::take_request`].
    pub fn put_request_back(&mut self, id: ServerId, request: Vec<u8>) {
        match self.servers.get_mut(id) {
            Some(server) if server.machine.is_open() => server.request = request,
            Some(_) | None => self.buffers.give(request),
        }
    }

    /// There will be no final response to a non-INVITE request: RFC 4320 section 4.2 forbids to make up a 408. The
    /// transaction stays for as long as it would after a response (Timer J), so that a retransmission that is still
    /// under way is not taken for a new request.
    pub fn abandon(&mut self, now: Instant, id: ServerId) {
        let Some(server) = self.servers.get_mut(id).filter(|s| s.machine.is_open()) else { return };
        server.abandoned_until.get_or_insert(now + self.config.timers.h());
        self.open -= usize::from(std::mem::take(&mut server.open));
        self.rearm_server(id);
    }

    /// Drops a server transaction without a (further) response.
    pub fn end_server(&mut self, id: ServerId) -> Option<S> {
        let server = self.servers.remove(id)?;
        self.open -= usize::from(server.open);
        if self.server_index.get(&server.key) == Some(&id) {
            self.server_index.remove(&server.key);
        }
        if let Some((timer, _)) = server.timer {
            self.wheel.cancel(timer);
        }
        self.buffers.give(server.request);
        self.buffers.give(server.last_response);
        Some(server.data)
    }

    pub(super) fn server_timeout(&mut self, now: Instant, id: ServerId, out: &mut impl Sink) {
        let Some(server) = self.servers.get_mut(id) else { return };
        server.timer = None;
        if server.abandoned_until.is_some_and(|at| at <= now) {
            return self.end_with_signal(id);
        }
        if server.machine.deadline().is_none_or(|at| at > now) {
            return self.rearm_server(id);
        }
        let action = server.machine.on_timeout(now, &self.config.timers);
        if action.trying {
            self.send_trying(id, out);
        }
        if action.resend {
            self.resend_response(id, out);
        }
        self.stats.unacknowledged += u64::from(action.timed_out);
        self.settle_server(id);
    }

    /// 100 (Trying), made from the request that is kept.
    fn send_trying(&mut self, id: ServerId, out: &mut impl Sink) {
        let server = &mut self.servers[id];
        let Ok(request) = Message::parse(&server.request) else { return };
        self.buffers.resize(&mut server.last_response, server.request.len() + 128);
        let reply = Reply::new(&request, 100);
        let used = reply.write(&mut server.last_response, |_| {}).expect("a 100 is shorter than its request");
        server.last_response.truncate(used);
        self.stats.unsent += u64::from(out.send_bytes(server.reply_to, &server.last_response).is_err());
    }

    fn resend_response(&mut self, id: ServerId, out: &mut impl Sink) {
        let server = &self.servers[id];
        if !server.last_response.is_empty() {
            self.stats.response_retransmissions += 1;
            self.stats.unsent += u64::from(out.send_bytes(server.reply_to, &server.last_response).is_err());
        }
    }

    /// After a transition: ends what is over, frees what will not be needed again, and arms the next deadline.
    fn settle_server(&mut self, id: ServerId) {
        let Some(server) = self.servers.get_mut(id) else { return };
        if server.machine.is_terminated() {
            return self.end_with_signal(id);
        }
        if server.open && !server.machine.is_open() {
            server.open = false;
            self.open -= 1;
        }
        if !server.machine.is_open() && !server.request.is_empty() {
            self.buffers.give(std::mem::take(&mut server.request));
        }
        if !server.machine.repeats_response() && !server.last_response.is_empty() {
            self.buffers.give(std::mem::take(&mut server.last_response));
        }
        self.rearm_server(id);
    }

    fn end_with_signal(&mut self, id: ServerId) {
        if let Some(data) = self.end_server(id) {
            self.signals.push_back(Signal::ServerEnded(id, data));
        }
    }

    fn rearm_server(&mut self, id: ServerId) {
        let server = &mut self.servers[id];
        let deadline = [server.machine.deadline(), server.abandoned_until].into_iter().flatten().min();
        rearm(&mut self.wheel, &mut server.timer, deadline, Due::Server(id));
    }
}
