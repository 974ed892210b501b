//! User agents: a fleet of software phones in one node, behind one address. Its users register, make calls at planned
//! times and answer calls; every call and registration is told once, when it has ended.
//!
//! Open loop: a planned call starts at its time whatever has become of the others, and all its delays count from that
//! time. A fleet at its limit of calls says so instead of waiting.

mod callee;
mod caller;
mod config;
mod plan;
mod record;
mod register;
#[cfg(test)]
mod tests;
mod text;

use std::collections::VecDeque;

use busyhour_engine::{Instant, Message, Node, PrehashedMap, Rng, Sink, Wheel};
use busyhour_sip as sip;
use slotmap::{SlotMap, new_key_type};

use crate::transactions::{self, Signal, Transactions, client_key};

use callee::Leg;
use caller::Call;
pub use config::{Answering, Config, User};
use plan::Plan;
pub use record::{CallRecord, Outcome, PlannedCall, RegisterRecord};
use register::{Line, Registration};

new_key_type! {
    struct CallId;
    struct LegId;
}

/// What a fleet is told to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Register a user, at a time.
    Register {
        /// The user.
        user: u32,
        /// When.
        at: Instant,
    },
    /// Make these calls.
    Call(Vec<PlannedCall>),
    /// Forget what is planned and end what is going on; every unfinished call is told as such.
    Stop,
    /// Send an [`Event::Report`].
    Report,
}

/// What a fleet tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call has ended.
    Call(CallRecord),
    /// A registration has ended.
    Register(RegisterRecord),
    /// A user answered a call (only with `tell_answers`).
    Answered {
        /// A hash of its Call-ID and From tag.
        call: u64,
    },
    /// The answer to [`Command::Report`].
    Report(Box<Stats>),
}

/// Counters of a fleet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls going on that users of the fleet made.
    pub calls: usize,
    /// Calls going on that users of the fleet were called for.
    pub legs: usize,
    /// Calls planned and not begun.
    pub planned: usize,
    /// Datagrams that could not be understood.
    pub malformed: u64,
    /// Responses that belonged to nothing.
    pub stray: u64,
    /// Answered calls whose ACK never came.
    pub unacknowledged: u64,
    /// Answered calls whose BYE never came.
    pub abandoned: u64,
    /// 200s sent again for want of an ACK.
    pub answer_retransmissions: u64,
    /// Calls that two phones answered.
    pub second_answers: u64,
    /// Server and client transactions alive.
    pub live: (usize, usize),
    /// What the transaction layer counted.
    pub transactions: transactions::Stats,
}

/// What a client transaction is for.
#[derive(Copy, Clone, Debug)]
enum For {
    Invite(CallId),
    Bye(CallId),
    Register(Registration),
    /// The INVITE of a call that is over; with a hash of the tag of the phone that answered it last.
    Ended {
        answered: Option<u64>,
    },
    /// Its response concerns nobody.
    Nothing,
}

enum Timer {
    Ring(LegId),
    Answer(LegId),
    Repeat(LegId),
    Abandon(LegId),
    HangUp(CallId),
    Impatient(CallId),
    Register(u32, Instant),
    Refresh(u32),
}

/// A fleet of user agents.
pub struct Fleet {
    config: Config,
    /// Makes Call-IDs and tags unlike those of other fleets and earlier runs.
    id: u64,
    transactions: Transactions<(), For>,
    calls: SlotMap<CallId, Call>,
    legs: SlotMap<LegId, Leg>,
    leg_index: PrehashedMap<LegId>,
    planned: Plan,
    timers: Wheel<Timer>,
    lines: Vec<Line>,
    rng: Rng,
    call_numbers: u64,
    malformed: u64,
    stray: u64,
    unacknowledged: u64,
    abandoned: u64,
    answer_retransmissions: u64,
    second_answers: u64,
    events: VecDeque<Event>,
}

impl Fleet {
    /// A fleet with these settings.
    ///
    /// # Panics
    /// When `outbound` is empty.
    pub fn new(config: Config, seed: u64) -> Self {
        assert!(!config.outbound.is_empty(), "a fleet needs somewhere to send to");
        let mut rng = Rng::from_seed(seed);
        Fleet {
            id: rng.next_u64(),
            transactions: Transactions::new(config.transactions, rng.hash_seed()),
            calls: SlotMap::with_key(),
            legs: SlotMap::with_key(),
            leg_index: PrehashedMap::default(),
            planned: Plan::default(),
            timers: Wheel::new(),
            lines: vec![Line::default(); config.users.len()],
            rng,
            call_numbers: 0,
            malformed: 0,
            stray: 0,
            unacknowledged: 0,
            abandoned: 0,
            answer_retransmissions: 0,
            second_answers: 0,
            events: VecDeque::new(),
            config,
        }
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Stats {
        Stats {
            calls: self.calls.len(),
            legs: self.legs.len(),
            planned: self.planned.len(),
            malformed: self.malformed,
            stray: self.stray,
            unacknowledged: self.unacknowledged,
            abandoned: self.abandoned,
            answer_retransmissions: self.answer_retransmissions,
            second_answers: self.second_answers,
            live: self.transactions.len(),
            transactions: self.transactions.stats(),
        }
    }

    fn handle_response(&mut self, now: Instant, message: &sip::Message<'_>, out: &mut impl Sink) {
        let key = sip::Essentials::of(message)
            .ok()
            .and_then(|e| Some(client_key(self.transactions.seed(), e.via.branch()?, e.cseq.method)));
        let Some(key) = key else {
            self.malformed += 1;
            return;
        };
        let Some(id) = self.transactions.find_client(key) else {
            self.stray += 1;
            return;
        };
        let Some(&mut purpose) = self.transactions.client_data(id) else { return };
        if !self.transactions.handle_response(now, id, message, out) {
            return;
        }
        match purpose {
            For::Invite(call) => self.invite_response(now, call, message, out),
            For::Bye(call) => self.bye_response(now, call, id, message.status().expect("a response")),
            For::Register(registration) => self.register_response(now, registration, message, out),
            For::Ended { answered } => self.answered_late(now, id, answered, message, out),
            For::Nothing => {}
        }
    }

    fn timed_out(&mut self, now: Instant, purpose: For, retransmissions: u16) {
        match purpose {
            For::Invite(call) => {
                self.note_retransmissions(call, retransmissions);
                self.end_call(now, call, Outcome::InviteTimeout);
            }
            For::Bye(call) => {
                self.note_retransmissions(call, retransmissions);
                self.end_call(now, call, Outcome::ByeTimeout);
            }
            For::Register(registration) => self.registered(now, registration, None),
            For::Ended { .. } | For::Nothing => {}
        }
    }

    fn timer(&mut self, now: Instant, timer: Timer, out: &mut impl Sink) {
        match timer {
            Timer::Ring(leg) => self.ring(now, leg, out),
            Timer::Answer(leg) => self.answer(now, leg, out),
            Timer::Repeat(leg) => self.repeat_answer(now, leg, out),
            Timer::Abandon(leg) => self.abandon(leg),
            Timer::HangUp(call) => self.hang_up(now, call, out),
            Timer::Impatient(call) => self.impatient(now, call, out),
            Timer::Register(user, at) => self.register(now, user, at, out),
            Timer::Refresh(user) => self.register(now, user, now, out),
        }
    }
}

impl Node for Fleet {
    type Command = Command;
    type Event = Event;

    fn handle_message(&mut self, now: Instant, message: Message<'_>, out: &mut impl Sink) {
        match sip::Message::parse(message.bytes) {
            Ok(parsed) if parsed.method().is_some() => self.handle_request(now, &parsed, message.flow, out),
            Ok(parsed) => self.handle_response(now, &parsed, out),
            Err(_) => self.malformed += 1,
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command, out: &mut impl Sink) {
        match command {
            Command::Register { user, at } if at <= now => self.register(now, user, at, out),
            Command::Register { user, at } => {
                self.timers.insert(at, Timer::Register(user, at));
            }
            Command::Call(calls) => {
                calls.into_iter().for_each(|call| self.planned.add(call));
                self.start_due_calls(now, out);
            }
            Command::Stop => {
                self.planned.clear();
                self.end_all(now);
            }
            Command::Report => self.events.push_back(Event::Report(Box::new(self.stats()))),
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink) {
        self.start_due_calls(now, out);
        self.transactions.handle_timeout(now, out);
        while let Some(signal) = self.transactions.poll_signal() {
            match signal {
                Signal::ClientTimedOut(_, purpose, retransmissions) => {
                    self.timed_out(now, purpose, retransmissions)
                }
                // An INVITE that was cancelled; the alarm of one that was answered all the same means nothing.
                Signal::Alarm(id) if self.transactions.is_pending(id) => {
                    let retransmissions = self.transactions.retransmissions(id);
                    if let Some(purpose) = self.transactions.end_client(id) {
                        self.timed_out(now, purpose, retransmissions);
                    }
                }
                Signal::Alarm(_) => {}
                Signal::ServerEnded(..) => {}
            }
        }
        while let Some(timer) = self.timers.pop_expired(now) {
            self.timer(now, timer, out);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines =
            [self.planned.next_deadline(), self.transactions.next_deadline(), self.timers.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
