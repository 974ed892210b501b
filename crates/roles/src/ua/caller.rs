//! The calling side: INVITE with its challenge, ACK, a while, BYE (RFC 3261 sections 13.2, 15 and 22.2).

use std::time::Duration;

use busyhour_engine::{Flow, Instant, Sink, TimerId};
use busyhour_sip::value::{CSeq, Challenge, NameAddr, Uri};
use busyhour_sip::{Element, HeaderName, Message, Method};

use crate::transactions::{ClientId, client_key};

use super::text::{REQUEST_LEN_MAX, Request, SDP, put_contact};
use super::{CallId, CallRecord, Event, Fleet, For, Outcome, PlannedCall, Timer};

/// A call that a user of this fleet makes.
pub(super) struct Call {
    plan: PlannedCall,
    sent: Instant,
    srd: Option<Duration>,
    answered: Option<Duration>,
    sdd: Option<Duration>,
    retransmissions: u16,
    number: u64,
    cseq: u32,
    invite: ClientId,
    phase: Phase,
    /// What goes off when the caller has waited long enough.
    patience: Option<TimerId>,
    dialog: Dialog,
    /// The tag hash of the last other phone that answered, and was hung up on.
    second: Option<u64>,
}

/// What later requests of a call need (section 12.1.2).
#[derive(Clone, Default)]
struct Dialog {
    to_tag: Vec<u8>,
    target: Vec<u8>,
    route: Vec<u8>,
    next_hop: Option<std::net::SocketAddr>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Phase {
    Inviting {
        challenged: bool,
        /// A provisional response has come, so a CANCEL may be sent (section 9.1).
        provisional: bool,
    },
    /// The caller has given up. The CANCEL is sent, or waits for a provisional response.
    GivingUp {
        cancelled: bool,
    },
    Talking,
    Ending {
        since: Instant,
    },
}

impl Fleet {
    /// Starts the calls whose time has come.
    pub(super) fn start_due_calls(&mut self, now: Instant, out: &mut impl Sink) {
        while let Some(plan) = self.planned.pop_due(now) {
            if self.calls.len() + self.legs.len() >= self.config.calls_max {
                self.tell_not_started(now, plan);
                continue;
            }
            self.start_call(now, plan, out);
        }
    }

    fn tell_not_started(&mut self, now: Instant, plan: PlannedCall) {
        let outcome = Outcome::NotStarted;
        let record = CallRecord {
            plan,
            sent: now,
            srd: None,
            answered: None,
            sdd: None,
            ended: now,
            retransmissions: 0,
            outcome,
        };
        self.events.push_back(Event::Call(record));
    }

    fn start_call(&mut self, now: Instant, plan: PlannedCall, out: &mut impl Sink) {
        self.call_numbers += 1;
        let call = Call {
            plan,
            sent: now,
            srd: None,
            answered: None,
            sdd: None,
            retransmissions: 0,
            number: self.call_numbers,
            cseq: 1,
            invite: ClientId::default(),
            phase: Phase::Inviting { challenged: false, provisional: false },
            patience: None,
            dialog: Dialog::default(),
            second: None,
        };
        let id = self.calls.insert(call);
        self.calls[id].patience = Some(self.timers.insert(now + self.config.patience, Timer::Impatient(id)));
        self.send_invite(now, id, None, out);
    }

    fn send_invite(
        &mut self,
        now: Instant,
        id: CallId,
        challenge: Option<&Challenge<'_>>,
        out: &mut impl Sink,
    ) {
        let call = &self.calls[id];
        let caller = &self.config.users[call.plan.caller as usize];
        let callee = self.peer_name(call.plan.callee);
        let uri = [b"sip:", callee.as_slice(), b"@", self.config.domain.as_bytes()].concat();
        let (call_id, tag) = (self.call_id(call.number), self.tag(call.number));
        let branch = branch(self.rng.next_u64());
        let request = Request {
            method: b"INVITE",
            uri: &uri,
            address: self.config.address,
            branch: &branch,
            route: b"",
            from: (caller.name.as_bytes(), &tag),
            to: &callee,
            to_tag: b"",
            domain: self.config.domain.as_bytes(),
            call_id: &call_id,
            cseq: call.cseq,
        };
        let (name, ha1, address) = (caller.name.as_bytes(), &caller.ha1, self.config.address);
        let cnonce = self.rng.next_u64();
        let headers = |w: &mut busyhour_sip::Writer<'_>| {
            put_contact(w, name, address);
            w.put(b"\r\nAllow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n");
            if let Some(challenge) = challenge {
                w.put(b"Proxy-Authorization: ");
                challenge.write_credentials(w, name, ha1, b"INVITE", &uri, 1, cnonce);
                w.put(b"\r\n");
            }
        };
        let to = self.outbound(call.plan.caller);
        let key = client_key(self.transactions.seed(), &branch, Method::Invite);
        let len = REQUEST_LEN_MAX + SDP.len() + challenge.map_or(0, |c| 512 + c.realm.len() + c.nonce.len());
        let fill = |buf: &mut [u8]| request.write(buf, headers, SDP);
        match self.transactions.begin_client(now, key, Method::Invite, to, len, fill, For::Invite(id), out) {
            Ok(client) => self.calls[id].invite = client,
            Err(_) => self.end_call(now, id, Outcome::NotStarted),
        }
    }

    /// A response to an INVITE of this fleet.
    pub(super) fn invite_response(
        &mut self,
        now: Instant,
        id: CallId,
        message: &Message<'_>,
        out: &mut impl Sink,
    ) {
        let status = message.status().expect("a response");
        match status {
            100..=199 => self.invite_provisional(now, id, status, out),
            200..=299 => self.invite_accepted(now, id, message, out),
            _ => self.invite_refused(now, id, message, out),
        }
    }

    fn invite_provisional(&mut self, now: Instant, id: CallId, status: u16, out: &mut impl Sink) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if status > 100 {
            call.srd.get_or_insert(now - call.plan.at);
        }
        match &mut call.phase {
            Phase::Inviting { provisional, .. } => *provisional = true,
            Phase::GivingUp { cancelled: false } => self.send_cancel(now, id, out),
            Phase::GivingUp { cancelled: true } | Phase::Talking | Phase::Ending { .. } => {}
        }
    }

    fn invite_accepted(&mut self, now: Instant, id: CallId, message: &Message<'_>, out: &mut impl Sink) {
        let Some(dialog) = dialog_of(message) else {
            // Without a tag or a Contact there is no dialog; the caller waits for a better answer, then gives up.
            self.malformed += 1;
            return;
        };
        let tag_hash = self.tag_hash(&dialog);
        let Some(call) = self.calls.get_mut(id) else { return };
        let hold = match call.phase {
            Phase::Inviting { .. } => call.plan.hold,
            // Answer and CANCEL have crossed.
            Phase::GivingUp { .. } => Duration::ZERO,
            // The ACK was lost: the answer comes again, and so does the ACK (section 13.2.2.4).
            Phase::Talking | Phase::Ending { .. } if dialog.to_tag == call.dialog.to_tag => {
                return self.send_ack(message, &dialog, out);
            }
            Phase::Talking | Phase::Ending { .. } => {
                let known = call.second.replace(tag_hash) == Some(tag_hash);
                return self.second_answer(now, message, &dialog, known, out);
            }
        };
        call.srd.get_or_insert(now - call.plan.at);
        call.answered = Some(now - call.plan.at);
        call.retransmissions += self.transactions.retransmissions(call.invite);
        call.phase = Phase::Talking;
        self.send_ack(message, &dialog, out);
        call_of(&mut self.calls, id).dialog = dialog;
        self.timers.insert(now + hold, Timer::HangUp(id));
    }

    /// A 2xx for a call that is over. Its transaction remembers the phone that answered; another one is hung up on.
    pub(super) fn answered_late(
        &mut self,
        now: Instant,
        client: ClientId,
        answered: Option<u64>,
        message: &Message<'_>,
        out: &mut impl Sink,
    ) {
        let Some(dialog) = dialog_of(message).filter(|_| is_2xx(message)) else { return };
        let tag_hash = self.tag_hash(&dialog);
        if let Some(purpose) = self.transactions.client_data(client) {
            *purpose = For::Ended { answered: Some(tag_hash) };
        }
        self.second_answer(now, message, &dialog, answered == Some(tag_hash), out);
    }

    /// A phone answered that nobody talks to: acknowledged, and hung up on at once, when that was not done before.
    fn second_answer(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        dialog: &Dialog,
        known: bool,
        out: &mut impl Sink,
    ) {
        self.send_ack(message, dialog, out);
        if !known {
            self.second_answers += 1;
            self.send_bye(now, message, dialog, out);
        }
    }

    fn tag_hash(&self, dialog: &Dialog) -> u64 {
        self.transactions.seed().hash(&[b"to tag", &dialog.to_tag])
    }

    /// Acknowledges a 2xx, of which everything is taken that the ACK needs.
    fn send_ack(&mut self, answer: &Message<'_>, dialog: &Dialog, out: &mut impl Sink) {
        let branch = branch(self.rng.next_u64());
        let Some(request) = self.request_after(answer, dialog, b"ACK", 0, &branch) else { return };
        let to = self.in_dialog_hop(dialog);
        let len_max = REQUEST_LEN_MAX + answer.bytes().len();
        let _ = out.send(to, len_max, |buf| request.write(buf, |_| {}, b""));
    }

    /// Hangs up on a phone with which there is no call.
    fn send_bye(&mut self, now: Instant, answer: &Message<'_>, dialog: &Dialog, out: &mut impl Sink) {
        let branch = branch(self.rng.next_u64());
        let Some(request) = self.request_after(answer, dialog, b"BYE", 1, &branch) else { return };
        let mut text = vec![0; REQUEST_LEN_MAX + answer.bytes().len()];
        let len = request.write(&mut text, |_| {}, b"");
        // Without room for its transaction the callee waits for a BYE that never comes, and gives up.
        self.begin_bye(now, &branch, self.in_dialog_hop(dialog), &text[..len], For::Nothing, out);
    }

    fn begin_bye(
        &mut self,
        now: Instant,
        branch: &[u8],
        to: Flow,
        text: &[u8],
        purpose: For,
        out: &mut impl Sink,
    ) -> bool {
        let key = client_key(self.transactions.seed(), branch, Method::Bye);
        let fill = |buf: &mut [u8]| {
            buf.copy_from_slice(text);
            text.len()
        };
        self.transactions.begin_client(now, key, Method::Bye, to, text.len(), fill, purpose, out).is_ok()
    }

    /// A request in the dialog that a 2xx began, `later` after the INVITE in CSeq. `None` when the answer lacks what it
    /// would have to copy.
    fn request_after<'a>(
        &'a self,
        answer: &Message<'a>,
        dialog: &'a Dialog,
        method: &'a [u8],
        later: u32,
        branch: &'a [u8],
    ) -> Option<Request<'a>> {
        let from = NameAddr::parse(answer.value(HeaderName::From)?).ok()?;
        let to = NameAddr::parse(answer.value(HeaderName::To)?).ok()?;
        Some(Request {
            method,
            uri: &dialog.target,
            address: self.config.address,
            branch,
            route: &dialog.route,
            from: (from.parse_uri().ok()?.sip()?.user?, from.tag()?),
            to: to.parse_uri().ok()?.sip()?.user?,
            to_tag: &dialog.to_tag,
            domain: self.config.domain.as_bytes(),
            call_id: answer.value(HeaderName::CallId)?,
            cseq: CSeq::parse(answer.value(HeaderName::CSeq)?).ok()?.number + later,
        })
    }

    fn in_dialog_hop(&self, dialog: &Dialog) -> Flow {
        let peer = dialog.next_hop.unwrap_or(self.config.outbound[0]);
        Flow { local: self.config.address, peer }
    }

    fn invite_refused(&mut self, now: Instant, id: CallId, message: &Message<'_>, out: &mut impl Sink) {
        let status = message.status().expect("a response");
        let Some(call) = self.calls.get_mut(id) else { return };
        call.retransmissions += self.transactions.retransmissions(call.invite);
        match (status, call.phase) {
            (401 | 407, Phase::Inviting { challenged: false, .. }) => {
                if let Some(challenge) = best_challenge(message) {
                    call.phase = Phase::Inviting { challenged: true, provisional: false };
                    call.cseq += 1;
                    return self.send_invite(now, id, Some(&challenge), out);
                }
            }
            (_, Phase::Talking | Phase::Ending { .. }) => return,
            _ => {}
        }
        let call = call_of(&mut self.calls, id);
        if matches!(call.phase, Phase::GivingUp { .. }) {
            return self.end_call(now, id, Outcome::InviteTimeout);
        }
        call.srd = Some(now - call.plan.at);
        self.end_call(now, id, Outcome::Refused(status));
    }

    /// The caller has waited long enough: CANCEL, as soon as that is allowed.
    pub(super) fn impatient(&mut self, now: Instant, id: CallId, out: &mut impl Sink) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let Phase::Inviting { provisional, .. } = call.phase else { return };
        if !self.transactions.is_pending(call.invite) {
            // There was a 2xx that began no dialog.
            return self.end_call(now, id, Outcome::InviteTimeout);
        }
        call.phase = Phase::GivingUp { cancelled: false };
        if provisional {
            self.send_cancel(now, id, out);
        }
    }

    fn send_cancel(&mut self, now: Instant, id: CallId, out: &mut impl Sink) {
        let call = call_of(&mut self.calls, id);
        call.phase = Phase::GivingUp { cancelled: true };
        let invite = call.invite;
        if let Some(branch) = self.transactions.branch_of(invite) {
            // Without room for the CANCEL, the INVITE ends when its alarm goes off.
            let _ = self.transactions.cancel(now, invite, &branch, For::Nothing, out);
        }
        // Section 9.1: without a final response the INVITE counts as cancelled 64·T1 after the CANCEL.
        self.transactions.set_alarm(invite, now + self.config.transactions.timers.b());
    }

    /// It is time to hang up.
    pub(super) fn hang_up(&mut self, now: Instant, id: CallId, out: &mut impl Sink) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.phase = Phase::Ending { since: now };
        let call = &self.calls[id];
        let branch = branch(self.rng.next_u64());
        let request = Request {
            method: b"BYE",
            uri: &call.dialog.target,
            address: self.config.address,
            branch: &branch,
            route: &call.dialog.route,
            from: (self.config.users[call.plan.caller as usize].name.as_bytes(), &self.tag(call.number)),
            to: &self.peer_name(call.plan.callee),
            to_tag: &call.dialog.to_tag,
            domain: self.config.domain.as_bytes(),
            call_id: &self.call_id(call.number),
            cseq: call.cseq + 1,
        };
        let room = call.dialog.route.len() + call.dialog.target.len() + call.dialog.to_tag.len();
        let mut text = vec![0; REQUEST_LEN_MAX + room];
        let len = request.write(&mut text, |_| {}, b"");
        let to = self.in_dialog_hop(&call.dialog);
        if !self.begin_bye(now, &branch, to, &text[..len], For::Bye(id), out) {
            self.end_call(now, id, Outcome::ByeTimeout);
        }
    }

    /// A response to a BYE of this fleet.
    pub(super) fn bye_response(&mut self, now: Instant, id: CallId, client: ClientId, status: u16) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if status < 200 {
            return;
        }
        call.retransmissions += self.transactions.retransmissions(client);
        if let Phase::Ending { since } = call.phase {
            call.sdd = Some(now - since);
        }
        self.end_call(now, id, if status < 300 { Outcome::Completed } else { Outcome::ByeRefused(status) });
    }

    /// Tells how a call went, and forgets it.
    pub(super) fn end_call(&mut self, now: Instant, id: CallId, outcome: Outcome) {
        let Some(call) = self.calls.remove(id) else { return };
        if let Some(timer) = call.patience {
            self.timers.cancel(timer);
        }
        let answered = call.answered.is_some().then(|| self.tag_hash(&call.dialog));
        if let Some(purpose) = self.transactions.client_data(call.invite) {
            *purpose = For::Ended { answered };
        }
        self.events.push_back(Event::Call(CallRecord {
            plan: call.plan,
            sent: call.sent,
            srd: call.srd,
            answered: call.answered,
            sdd: call.sdd,
            ended: now,
            retransmissions: call.retransmissions,
            outcome,
        }));
    }

    pub(super) fn note_retransmissions(&mut self, id: CallId, count: u16) {
        if let Some(call) = self.calls.get_mut(id) {
            call.retransmissions += count;
        }
    }

    /// Everything that is still going on ends as unfinished.
    pub(super) fn end_all(&mut self, now: Instant) {
        let ids: Vec<CallId> = self.calls.keys().collect();
        for id in ids {
            self.end_call(now, id, Outcome::Unfinished);
        }
    }

    pub(super) fn call_id(&self, number: u64) -> Vec<u8> {
        format!("{:x}-{number}@{}", self.id, self.config.address.ip()).into_bytes()
    }

    fn tag(&self, number: u64) -> Vec<u8> {
        format!("c{:x}{number:x}", self.id & 0xffff_ffff).into_bytes()
    }

    /// Users of the answering fleet have the names that this fleet's users would have.
    fn peer_name(&self, index: u32) -> Vec<u8> {
        match self.config.users.get(index as usize) {
            Some(user) => user.name.clone().into_bytes(),
            None => format!("{index:04}").into_bytes(),
        }
    }

    pub(super) fn outbound(&self, user: u32) -> Flow {
        let peer = self.config.outbound[user as usize % self.config.outbound.len()];
        Flow { local: self.config.address, peer }
    }
}

/// A call that is known to go on.
fn call_of(calls: &mut slotmap::SlotMap<CallId, Call>, id: CallId) -> &mut Call {
    calls.get_mut(id).expect("it goes on")
}

fn is_2xx(message: &Message<'_>) -> bool {
    message.status().is_some_and(|status| (200..=299).contains(&status))
}

/// The challenge to answer: the first with an algorithm that is spoken here (RFC 8760 section 2.4).
pub(super) fn best_challenge<'a>(message: &Message<'a>) -> Option<Challenge<'a>> {
    let values = message.all(HeaderName::ProxyAuthenticate).chain(message.all(HeaderName::WwwAuthenticate));
    values.filter_map(|h| Challenge::parse(message.value_of(h))).find(|c| c.algorithm.is_some())
}

/// The dialog that a 2xx creates: remote target from Contact, route set from Record-Route in reverse.
fn dialog_of(message: &Message<'_>) -> Option<Dialog> {
    let to_tag = NameAddr::parse(message.value(HeaderName::To)?).ok()?.tag()?.to_vec();
    let contact = message.elements(HeaderName::Contact).next()?;
    let target = NameAddr::parse(contact.text).ok()?.uri.to_vec();
    let records: Vec<Element<'_>> = message.elements(HeaderName::RecordRoute).collect();
    let route = records.iter().rev().map(|e| e.text).collect::<Vec<_>>().join(&b", "[..]);
    let first = match records.last() {
        Some(record) => NameAddr::parse(record.text).ok()?.uri,
        None => &target,
    };
    let next_hop = Uri::parse(first).ok().and_then(Uri::sip).and_then(|u| u.socket_addr());
    Some(Dialog { to_tag, target, route, next_hop })
}

/// A branch of RFC 3261.
pub(super) fn branch(unique: u64) -> [u8; 23] {
    let mut text = [0; 23];
    busyhour_sip::Writer::new(&mut text).put(b"z9hG4bK").put_hex(unique);
    text
}
