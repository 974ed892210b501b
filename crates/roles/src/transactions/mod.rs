//! The transaction layer of a stateful role: matches messages to transactions, runs their machines, keeps what may have
//! to be sent again, and retransmits it. The role above is the *transaction user* (TU) of RFC 3261 section 17.
//!
//! Owns: every live transaction, its retained bytes and its timer. Each transaction has at most one entry in the wheel:
//! a deadline that moves away leaves the entry where it is, and it is armed anew when it fires.
//! Lacks: the messages' meaning. What a request asks for and where it goes is the TU's business.

mod derived;
mod key;
mod machine;

use std::collections::VecDeque;

use busyhour_engine::{Flow, Full, HashSeed, Instant, PrehashedMap, Sink, TimerId, Wheel};
use busyhour_sip::transaction::Timers;
use busyhour_sip::{Message, Method, Reply};
use slotmap::{SlotMap, new_key_type};

pub use key::{client_key, server_key};
use machine::{ClientMachine, ServerMachine};

new_key_type! {
    /// Names a server transaction; stale once that has ended.
    pub struct ServerId;
    /// Names a client transaction; stale once that has ended.
    pub struct ClientId;
}

/// Limits and timers of a transaction layer.
#[derive(Copy, Clone, Debug)]
pub struct Config {
    /// Durations of the timers.
    pub timers: Timers,
    /// The most server transactions at once.
    pub servers_max: usize,
    /// The most client transactions at once.
    pub clients_max: usize,
}

/// What the layer has counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Server transactions begun.
    pub servers: u64,
    /// Client transactions begun.
    pub clients: u64,
    /// Requests sent again.
    pub request_retransmissions: u64,
    /// Final responses sent again, by a timer or because the request came again.
    pub response_retransmissions: u64,
    /// Requests and ACKs that came again.
    pub absorbed: u64,
    /// Client transactions that nobody answered (Timers B and F).
    pub timeouts: u64,
    /// INVITEs whose non-2xx response nobody acknowledged (Timer H).
    pub unacknowledged: u64,
    /// Transactions refused because there were too many.
    pub refused: u64,
    /// Messages that the driver had no room for.
    pub unsent: u64,
}

/// What a timer has to tell the TU. The transaction is over except after an `Alarm`.
#[derive(Debug)]
pub enum Signal<S, C> {
    /// Nobody answered: Timer B or F. With how often the request was sent again.
    ClientTimedOut(ClientId, C, u16),
    /// An alarm that the TU set has gone off.
    Alarm(ClientId),
    /// A server transaction is over; this is what the TU kept with it.
    ServerEnded(ServerId, S),
}

struct Server<S> {
    machine: ServerMachine,
    key: u64,
    reply_to: Flow,
    request: Vec<u8>,
    last_response: Vec<u8>,
    timer: Option<(TimerId, Instant)>,
    /// Counted in `Transactions::open`.
    open: bool,
    data: S,
}

struct Client<C> {
    machine: ClientMachine,
    key: u64,
    to: Flow,
    /// The request; once a final response has come, the ACK to it.
    request: Vec<u8>,
    timer: Option<(TimerId, Instant)>,
    alarm: Option<TimerId>,
    retransmissions: u16,
    data: C,
}

#[derive(Copy, Clone)]
enum Due {
    Server(ServerId),
    Client(ClientId),
    Alarm(ClientId),
}

/// The transactions of one node. `S` and `C` are what the TU keeps with each server and client transaction.
pub struct Transactions<S, C> {
    config: Config,
    seed: HashSeed,
    servers: SlotMap<ServerId, Server<S>>,
    clients: SlotMap<ClientId, Client<C>>,
    server_index: PrehashedMap<ServerId>,
    client_index: PrehashedMap<ClientId>,
    /// Server transactions that wait for a final response.
    open: usize,
    wheel: Wheel<Due>,
    signals: VecDeque<Signal<S, C>>,
    buffers: Buffers,
    stats: Stats,
}

impl<S, C> Transactions<S, C> {
    /// No transactions. `seed` must not be known to peers.
    pub fn new(config: Config, seed: HashSeed) -> Self {
        Transactions {
            config,
            seed,
            servers: SlotMap::with_key(),
            clients: SlotMap::with_key(),
            server_index: PrehashedMap::default(),
            client_index: PrehashedMap::default(),
            open: 0,
            wheel: Wheel::new(),
            signals: VecDeque::new(),
            buffers: Buffers::default(),
            stats: Stats::default(),
        }
    }

    /// The secret that transaction keys are hashed with.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// What has been counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How many server and client transactions there are.
    pub fn len(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// How many server transactions wait for a final response.
    pub fn open(&self) -> usize {
        self.open
    }

    /// True when there is no transaction at all.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.clients.is_empty()
    }

    // Server transactions.

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

    /// Drops a server transaction without a (further) response: for non-INVITE requests that nobody answered, which
    /// RFC 4320 section 4.2 forbids to answer.
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

    // Client transactions.

    /// The client transaction with that key.
    pub fn find_client(&self, key: u64) -> Option<ClientId> {
        self.client_index.get(&key).copied()
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
        if self.clients.len() >= self.config.clients_max {
            self.stats.refused += 1;
            return Err(Full);
        }
        let mut request = Vec::new();
        self.buffers.resize(&mut request, len);
        let used = fill(&mut request);
        request.truncate(used);
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
        Ok(id)
    }

    /// Begins the transaction of the CANCEL of an INVITE that is still pending (RFC 3261 section 9.1).
    ///
    /// # Errors
    /// [`Full`] at the limit, or when the INVITE is no longer pending.
    pub fn cancel(
        &mut self,
        now: Instant,
        id: ClientId,
        branch: &[u8],
        data: C,
        out: &mut impl Sink,
    ) -> Result<(), Full> {
        let client = self.clients.get_mut(id).filter(|c| c.machine.needs_request()).ok_or(Full)?;
        let (to, request) = (client.to, std::mem::take(&mut client.request));
        let mut text = self.buffers.copy_of(&[]);
        text.resize(request.len() + 16, 0);
        let invite = Message::parse(&request).expect("what was sent can be parsed");
        let len = derived::write_cancel(&invite, &mut text);
        self.clients[id].request = request;
        let key = client_key(self.seed, branch, Method::Cancel);
        let begun = match len {
            Some(len) => {
                let copy = |buf: &mut [u8]| {
                    buf[..len].copy_from_slice(&text[..len]);
                    len
                };
                self.begin_client(now, key, Method::Cancel, to, len, copy, data, out).map(|_| ())
            }
            None => Err(Full),
        };
        self.buffers.give(text);
        begun
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
        let first_final = client.machine.needs_request();
        let action = client.machine.on_response(now, &self.config.timers, status);
        if action.ack {
            if first_final {
                let mut ack = self.buffers.copy_of(&[]);
                ack.resize(client.request.len() + response.bytes().len(), 0);
                let invite = Message::parse(&client.request).expect("what was sent can be parsed");
                let len = derived::write_ack(&invite, response, &mut ack).unwrap_or(0);
                ack.truncate(len);
                self.buffers.give(std::mem::replace(&mut client.request, ack));
            }
            self.stats.unsent += u64::from(out.send_bytes(client.to, &client.request).is_err());
        } else if !client.machine.needs_request() && !client.request.is_empty() && first_final {
            self.buffers.give(std::mem::take(&mut client.request));
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

    // Time.

    /// When [`Transactions::handle_timeout`] wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Does all that is due; [`Transactions::poll_signal`] tells the TU about it.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink) {
        while let Some(due) = self.wheel.pop_expired(now) {
            match due {
                Due::Server(id) => self.server_timeout(now, id, out),
                Due::Client(id) => self.client_timeout(now, id, out),
                Due::Alarm(id) => {
                    if let Some(client) = self.clients.get_mut(id) {
                        client.alarm = None;
                        self.signals.push_back(Signal::Alarm(id));
                    }
                }
            }
        }
    }

    /// What the last timeouts have to tell the TU, oldest first.
    pub fn poll_signal(&mut self) -> Option<Signal<S, C>> {
        self.signals.pop_front()
    }

    fn server_timeout(&mut self, now: Instant, id: ServerId, out: &mut impl Sink) {
        let Some(server) = self.servers.get_mut(id) else { return };
        server.timer = None;
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

    fn client_timeout(&mut self, now: Instant, id: ClientId, out: &mut impl Sink) {
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

    /// 100 (Trying), made from the request that is kept.
    fn send_trying(&mut self, id: ServerId, out: &mut impl Sink) {
        let server = &mut self.servers[id];
        let Ok(request) = Message::parse(&server.request) else { return };
        self.buffers.resize(&mut server.last_response, server.request.len() + 128);
        let reply = Reply::new(&request, 100);
        let used = reply.write(&mut server.last_response, |_| {}).unwrap_or(0);
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
            if let Some(data) = self.end_server(id) {
                self.signals.push_back(Signal::ServerEnded(id, data));
            }
            return;
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

    fn settle_client(&mut self, id: ClientId) {
        match self.clients.get(id) {
            Some(client) if client.machine.is_terminated() => {
                self.end_client(id);
            }
            Some(_) => self.rearm_client(id),
            None => {}
        }
    }

    fn rearm_server(&mut self, id: ServerId) {
        let server = &mut self.servers[id];
        rearm(&mut self.wheel, &mut server.timer, server.machine.deadline(), Due::Server(id));
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

/// Makes sure that the wheel wakes the transaction at its deadline or before.
fn rearm(
    wheel: &mut Wheel<Due>,
    timer: &mut Option<(TimerId, Instant)>,
    deadline: Option<Instant>,
    due: Due,
) {
    let Some(deadline) = deadline else { return };
    if let Some((id, at)) = *timer {
        if at <= deadline {
            return;
        }
        wheel.cancel(id);
    }
    *timer = Some((wheel.insert(deadline, due), deadline));
}

/// Byte buffers used again and again; a burst's surplus is given back to the allocator.
#[derive(Default)]
struct Buffers {
    free: Vec<Vec<u8>>,
}

/// The most idle buffers kept, and the largest one worth keeping.
const IDLE_BUFFERS_MAX: usize = 1024;
const KEPT_CAPACITY_MAX: usize = 4096;

impl Buffers {
    fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Makes `buffer` exactly `len` bytes long; what is in them does not matter.
    fn resize(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if buffer.capacity() == 0
            && let Some(free) = self.free.pop()
        {
            *buffer = free;
        }
        buffer.resize(len, 0);
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0
            && buffer.capacity() <= KEPT_CAPACITY_MAX
            && self.free.len() < IDLE_BUFFERS_MAX
        {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}
