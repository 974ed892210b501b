//! Client transactions.

use busyhour_engine::{Flow, Full, Instant, Sink};
use busyhour_sip::{HeaderName, Message, Method};

use super::buffers::Buffers;
use super::machine::ClientMachine;
use super::{Client, ClientId, Due, Signal, Transactions, client_key, derived, rearm};

impl<S, C> Transactions<S, C> {
    /// The client transaction with that key.
    pub fn find_client(&self, key: u64) -> Option<ClientId> {
        self.client_index.get(&key).copied()
    }

    /// Whether there is room for `count` more client transactions; a refusal is counted.
    pub fn has_room_for(&mut self, count: usize) -> bool {
        let room = self.clients.len() + count <= self.config.clients_max;
        self.stats.refused += u64::from(!room);
        room
    }

    /// Sends a request of `len` bytes, written by `fill`, and begins its client transaction. `key` is the
    /// [`client_key`] of its branch.
    ///
    /// # Errors
    /// [`Full`] at the limit; nothing was sent.
    #[allow(clippy::too_many_arguments, reason = "each is a different thing")]
    pub fn begin_client(
        &mut self,
        now: Instant,
        key: u64,
        method: Method<'_>,
        to: Flow,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
        data: C,
        out: &mut impl Sink,
    ) -> Result<ClientId, Full> {
        if !self.has_room_for(1) {
            return Err(Full);
        }
        let mut request = Vec::new();
        self.buffers.resize(&mut request, len);
        let used = fill(&mut request);
        request.truncate(used);
        Ok(self.start_client(now, key, method, to, request, data, out))
    }

    #[allow(clippy::too_many_arguments, reason = "each is a different thing")]
    fn start_client(
        &mut self,
        now: Instant,
        key: u64,
        method: Method<'_>,
        to: Flow,
        request: Vec<u8>,
        data: C,
        out: &mut impl Sink,
    ) -> ClientId {
        // A datagram that the driver had no room for is as good as lost on the way: the timers send it again.
        self.stats.unsent += u64::from(out.send_bytes(to, &request).is_err());
        let machine = ClientMachine::start(now, &self.config.timers, method);
        let id = self.clients.insert(Client {
            machine,
            key,
            to,
            request,
            timer: None,
            alarm: None,
            retransmissions: 0,
            data,
        });
        self.client_index.insert(key, id);
        self.stats.clients += 1;
        self.rearm_client(id);
        id
    }

    /// Begins the transaction of the CANCEL of an INVITE that is still pending (RFC 3261 section 9.1).
    ///
    /// # Errors
    /// [`Full`] when the INVITE is no longer pending.
    pub fn cancel(
        &mut self,
        now: Instant,
        id: ClientId,
        branch: &[u8],
        data: C,
        out: &mut impl Sink,
    ) -> Result<(), Full> {
        let client = self.clients.get(id).filter(|c| c.machine.needs_request()).ok_or(Full)?;
        let to = client.to;
        let invite = Message::parse(&client.request).expect("what was sent can be parsed");
        let mut text = Vec::new();
        self.buffers.resize(&mut text, client.request.len() + derived::LONGER_MAX);
        let len = derived::write_cancel(&invite, &mut text).expect("the room was reckoned");
        text.truncate(len);
        let key = client_key(self.seed, branch, Method::Cancel);
        self.start_client(now, key, Method::Cancel, to, text, data, out);
        Ok(())
    }

    /// A response came for a client transaction. True when the TU has to see it.
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: ClientId,
        response: &Message<'_>,
        out: &mut impl Sink,
    ) -> bool {
        let status = response.status().expect("a response");
        let Some(client) = self.clients.get_mut(id) else { return false };
        let was_pending = client.machine.needs_request();
        let action = client.machine.on_response(now, &self.config.timers, status);
        if was_pending && !client.machine.needs_request() {
            let request = std::mem::take(&mut client.request);
            if action.ack {
                client.request = make_ack(&mut self.buffers, &request, response);
            }
            self.buffers.give(request);
        }
        // A response without a To cannot be acknowledged: there is no ACK then.
        if action.ack && !client.request.is_empty() {
            self.stats.unsent += u64::from(out.send_bytes(client.to, &client.request).is_err());
        }
        self.settle_client(id);
        action.deliver
    }

    /// The branch of a client transaction that is still pending.
    pub fn branch_of(&self, id: ClientId) -> Option<Vec<u8>> {
        let client = self.clients.get(id).filter(|c| c.machine.needs_request())?;
        let request = Message::parse(&client.request).expect("what was sent can be parsed");
        request.top_via().ok()?.branch().map(<[u8]>::to_vec)
    }

    /// What the TU keeps with a client transaction.
    pub fn client_data(&mut self, id: ClientId) -> Option<&mut C> {
        self.clients.get_mut(id).map(|c| &mut c.data)
    }

    /// Whether a client transaction still waits for a final response.
    pub fn is_pending(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|c| c.machine.needs_request())
    }

    /// How often a client transaction's request has been sent again.
    pub fn retransmissions(&self, id: ClientId) -> u16 {
        self.clients.get(id).map_or(0, |c| c.retransmissions)
    }

    /// Sets the alarm of a client transaction (Timer C and the like), in place of the one set before.
    pub fn set_alarm(&mut self, id: ClientId, at: Instant) {
        if let Some(client) = self.clients.get_mut(id) {
            if let Some(old) = client.alarm.take() {
                self.wheel.cancel(old);
            }
            client.alarm = Some(self.wheel.insert(at, Due::Alarm(id)));
        }
    }

    /// Drops a client transaction; what comes for it later belongs to nothing.
    pub fn end_client(&mut self, id: ClientId) -> Option<C> {
        let client = self.clients.remove(id)?;
        if self.client_index.get(&client.key) == Some(&id) {
            self.client_index.remove(&client.key);
        }
        for timer in client.timer.map(|(t, _)| t).into_iter().chain(client.alarm) {
            self.wheel.cancel(timer);
        }
        self.buffers.give(client.request);
        Some(client.data)
    }

    pub(super) fn client_timeout(&mut self, now: Instant, id: ClientId, out: &mut impl Sink) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.timer = None;
        if client.machine.deadline().is_none_or(|at| at > now) {
            return self.rearm_client(id);
        }
        let action = client.machine.on_timeout(now, &self.config.timers);
        if action.retransmit {
            self.stats.request_retransmissions += 1;
            client.retransmissions = client.retransmissions.saturating_add(1);
            self.stats.unsent += u64::from(out.send_bytes(client.to, &client.request).is_err());
        }
        if action.timed_out {
            self.stats.timeouts += 1;
            let retransmissions = client.retransmissions;
            if let Some(data) = self.end_client(id) {
                self.signals.push_back(Signal::ClientTimedOut(id, data, retransmissions));
            }
            return;
        }
        self.settle_client(id);
    }

    fn settle_client(&mut self, id: ClientId) {
        match self.clients.get(id) {
            Some(client) if client.machine.is_terminated() => {
                self.end_client(id);
            }
            Some(_) => self.rearm_client(id),
            None => {}
        }
    }

    fn rearm_client(&mut self, id: ClientId) {
        let client = &mut self.clients[id];
        rearm(&mut self.wheel, &mut client.timer, client.machine.deadline(), Due::Client(id));
    }

    /// Whether a client transaction is that of an INVITE.
    pub fn is_invite_client(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|c| c.machine.is_invite())
    }
}

/// The ACK to a non-2xx; empty when the response has no To.
fn make_ack(buffers: &mut Buffers, request: &[u8], response: &Message<'_>) -> Vec<u8> {
    let invite = Message::parse(request).expect("what was sent can be parsed");
    let to_len = response.value(HeaderName::To).map_or(0, <[u8]>::len);
    let mut ack = Vec::new();
    buffers.resize(&mut ack, request.len() + to_len + derived::LONGER_MAX);
    let len = derived::write_ack(&invite, response, &mut ack).unwrap_or(0);
    ack.truncate(len);
    ack
}
