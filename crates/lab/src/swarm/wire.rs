//! What must hold of the messages between the nodes, whatever happens to them: watched on the wire, from outside.
//!
//! - Everything that a node sends is SIP without a defect.
//! - No response without a request: who sends one has received a request with that topmost Via, Call-ID and CSeq.
//! - No wrong delivery: a response arrives only at who sent a request with that topmost Via, and an INVITE arrives only at
//!   a fleet where the user that its Request-URI and To name has a phone.
//! - One proxy for one INVITE: what a caller sent with one branch is forwarded by one proxy, also across changes of the
//!   membership, unless that proxy has crashed or stood still meanwhile.
//! - One outcome: a proxy that forwarded an INVITE gives it no two different final responses (any number of 2xx).
//! - Repetition is bounded: a request goes out no more often than its timers let it, a response no more often than
//!   requests, responses from downstream and timers ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::{HashSeed, Instant, PrehashedMap};
use busyhour_sim::{Datagram, Happening};
use busyhour_sip::value::{Uri, Via};
use busyhour_sip::{Essentials, HeaderName, Message, Method};

use super::scenario::Who;

/// Times that Timer A lets an INVITE go out: at 0, 1, 3, 7, 15, 31 and 63 times T1, before Timer B ends it at 64.
const INVITES_MAX: u32 = 7;
/// Times that Timer E lets another request go out: at 0, 1, 3 and 7 times T1, and every 8 up to 63.
const REQUESTS_MAX: u32 = 11;
/// Times that Timer G, or a callee that waits for its ACK, lets a response go out: the same series.
const RESPONSES_MAX: u32 = 11;
/// Who goes on so soon after it forwarded an INVITE has forgotten nothing.
const STALL_HARMLESS: Duration = Duration::from_secs(10);
/// Violations that are kept; one is enough to fail.
const VIOLATIONS_MAX: usize = 8;

/// Something that must never happen has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Instant,
    /// The call, when it concerns one.
    pub call_id: Option<String>,
    /// What.
    pub what: String,
}

/// What a response is counted and justified by, at one node: topmost Via, Call-ID, CSeq.
#[derive(Copy, Clone, Default)]
struct Asked {
    /// Requests with it that the node sent.
    sent: u32,
    /// Requests with it that the node received.
    received: u32,
}

/// What a proxy did with an INVITE that it received.
#[derive(Default)]
struct Handled {
    forwarded: bool,
    /// The first final response that it gave after it had forwarded it.
    outcome: Option<u16>,
}

/// Everything that was seen so far, as far as it matters.
pub(super) struct Wire {
    seed: HashSeed,
    nodes: BTreeMap<SocketAddr, Who>,
    /// Users by name: the fleets at which they have phones.
    homes: BTreeMap<Vec<u8>, Vec<usize>>,
    asked: PrehashedMap<Asked>,
    /// Responses that a node has sent, by what justifies them and status; and those that it received by call.
    responses_sent: PrehashedMap<u32>,
    responses_received: PrehashedMap<u32>,
    /// Who forwards what a caller sent with one branch.
    forwarders: PrehashedMap<(SocketAddr, Instant)>,
    handled: PrehashedMap<Handled>,
    crashed: BTreeMap<SocketAddr, Instant>,
    /// Until when a node stood still.
    stalled: BTreeMap<SocketAddr, Instant>,
    /// Call-IDs of INVITEs for users with two phones.
    pub(super) forked: BTreeSet<Vec<u8>>,
    pub(super) messages: u64,
    pub(super) violations: Vec<Violation>,
}

impl Wire {
    pub(super) fn new(homes: BTreeMap<Vec<u8>, Vec<usize>>) -> Self {
        Wire {
            seed: HashSeed(1, 2),
            nodes: BTreeMap::new(),
            homes,
            asked: PrehashedMap::default(),
            responses_sent: PrehashedMap::default(),
            responses_received: PrehashedMap::default(),
            forwarders: PrehashedMap::default(),
            handled: PrehashedMap::default(),
            crashed: BTreeMap::new(),
            stalled: BTreeMap::new(),
            forked: BTreeSet::new(),
            messages: 0,
            violations: Vec::new(),
        }
    }

    /// There is a node.
    pub(super) fn add(&mut self, address: SocketAddr, who: Who) {
        self.nodes.insert(address, who);
    }

    /// A node has lost what it knew.
    pub(super) fn crash(&mut self, at: Instant, address: SocketAddr) {
        self.crashed.insert(address, at);
        self.handled.clear();
    }

    /// A node stands still until then.
    pub(super) fn stall(&mut self, until: Instant, address: SocketAddr) {
        let stalled = self.stalled.entry(address).or_insert(until);
        *stalled = until.max(*stalled);
    }

    /// Whether a node may have forgotten an INVITE that it forwarded at `at`: it has crashed since, or stood still for so
    /// long that a transaction ended before it could read what still belonged to it.
    fn may_have_forgotten(&self, address: SocketAddr, at: Instant) -> bool {
        let has_crashed = self.crashed.get(&address).is_some_and(|&crash| crash >= at);
        has_crashed || self.stalled.get(&address).is_some_and(|&until| until > at + STALL_HARMLESS)
    }

    /// Something happened.
    pub(super) fn see(&mut self, at: Instant, what: Happening<'_>) {
        let (datagram, sent) = match what {
            Happening::Sent(datagram) => (datagram, true),
            Happening::Delivered(datagram) => (datagram, false),
            Happening::Duplicated(_)
            | Happening::Dropped(..)
            | Happening::Timeout(_)
            | Happening::Command(_)
            | Happening::Fault(_) => return,
        };
        self.messages += 1;
        let parsed = Message::parse(datagram.bytes);
        let message = match &parsed {
            Ok(message) => message,
            Err(error) => {
                return self.violate(at, None, format!("{} sent what is not SIP: {error:?}", datagram.from));
            }
        };
        let essentials = match Essentials::of(message) {
            Ok(essentials) => essentials,
            Err(defect) => {
                let text = String::from_utf8_lossy(datagram.bytes);
                return self.violate(at, None, format!("{} sent {defect:?}: {text}", datagram.from));
            }
        };
        let seen = Seen { at, datagram, message, essentials };
        match (message.status(), sent) {
            (None, true) => self.request_sent(&seen),
            (None, false) => self.request_received(&seen),
            (Some(status), true) => self.response_sent(&seen, status),
            (Some(_), false) => self.response_received(&seen),
        }
    }

    fn request_sent(&mut self, seen: &Seen<'_, '_>) {
        let from = seen.datagram.from;
        let method = seen.essentials.cseq.method;
        let key = seen.key(self.seed, from);
        let asked = self.asked.entry(key).or_default();
        asked.sent += 1;
        let count = asked.sent;
        let own = sent_by(&seen.essentials.via) == Some(from);
        let origin = match self.nodes.get(&from) {
            Some(Who::Proxy(_) | Who::Fleet(_)) => own,
            Some(Who::Balancer(_)) | None => false,
        };
        if !origin || method == Method::Ack {
            return;
        }
        let max = if method == Method::Invite { INVITES_MAX } else { REQUESTS_MAX };
        if count > max {
            self.violate_seen(seen, format!("{from} sent the same request {count} times"));
        }
        if method == Method::Invite && matches!(self.nodes.get(&from), Some(Who::Proxy(_))) {
            self.forwarded_by(seen, from);
        }
    }

    /// A proxy has forwarded an INVITE, and put its Via on it.
    fn forwarded_by(&mut self, seen: &Seen<'_, '_>, proxy: SocketAddr) {
        let Some(caller) = seen.message.elements(HeaderName::Via).last() else { return };
        let key = self.seed.hash(&[b"caller", caller_branch(caller.text), seen.essentials.call_id]);
        let before = self.forwarders.insert(key, (proxy, seen.at));
        if let Some((other, at)) = before
            && other != proxy
            && !self.may_have_forgotten(other, at)
        {
            self.violate_seen(
                seen,
                format!("{proxy} forwarded an INVITE that {other} has forwarded at {at:?}"),
            );
        }
        // The Via below the proxy's own names the transaction in which it got the request.
        if let Some(below) =
            seen.message.elements(HeaderName::Via).nth(1).and_then(|e| Via::parse(e.text).ok())
        {
            let key = handled_key(self.seed, proxy, &below, seen.essentials.call_id);
            self.handled.entry(key).or_default().forwarded = true;
        }
    }

    fn request_received(&mut self, seen: &Seen<'_, '_>) {
        let key = seen.key(self.seed, seen.datagram.to);
        self.asked.entry(key).or_default().received += 1;
        if seen.essentials.cseq.method == Method::Invite
            && let Some(Who::Fleet(fleet)) = self.nodes.get(&seen.datagram.to).copied()
        {
            self.invited(seen, fleet);
        }
    }

    fn invited(&mut self, seen: &Seen<'_, '_>, fleet: usize) {
        let called = seen.essentials.request_uri.and_then(Uri::sip);
        let address = called.and_then(|uri| uri.socket_addr());
        let user = called.and_then(|uri| uri.user).unwrap_or(b"");
        let named =
            seen.essentials.to.parse_uri().ok().and_then(Uri::sip).and_then(|uri| uri.user).unwrap_or(b"");
        let homes = self.homes.get(user).map_or(&[][..], Vec::as_slice);
        let is_right = address == Some(seen.datagram.to) && user == named && homes.contains(&fleet);
        if homes.len() > 1 {
            self.forked.insert(seen.essentials.call_id.to_vec());
        }
        if !is_right {
            let (user, named) = (String::from_utf8_lossy(user), String::from_utf8_lossy(named));
            self.violate_seen(
                seen,
                format!("an INVITE for {user} (To: {named}) at {address:?} arrived at {}", seen.datagram.to),
            );
        }
    }

    fn response_sent(&mut self, seen: &Seen<'_, '_>, status: u16) {
        let from = seen.datagram.from;
        let received = self.asked.get(&seen.key(self.seed, from)).map_or(0, |a| a.received);
        if received == 0 {
            return self
                .violate_seen(seen, format!("{from} sent a response and had received no such request"));
        }
        let from_below =
            self.responses_received.get(&seen.response_key(self.seed, from, status)).copied().unwrap_or(0);
        let key = self.seed.hash(&[&seen.key(self.seed, from).to_be_bytes(), &status.to_be_bytes()]);
        let count = self.responses_sent.entry(key).or_default();
        *count += 1;
        let count = *count;
        // A transaction that has timed out during a stall begins anew with what waited.
        let times = if self.stalled.contains_key(&from) { 2 } else { 1 };
        if count > received + from_below + times * RESPONSES_MAX {
            self.violate_seen(
                seen,
                format!("{from} sent the same response {count} times, and was asked {received} times"),
            );
        }
        let is_proxy = matches!(self.nodes.get(&from), Some(Who::Proxy(_)));
        if is_proxy && status >= 200 && seen.essentials.cseq.method == Method::Invite {
            self.concluded(seen, from, status);
        }
    }

    /// A proxy has given an INVITE a final response.
    fn concluded(&mut self, seen: &Seen<'_, '_>, proxy: SocketAddr, status: u16) {
        let key = handled_key(self.seed, proxy, &seen.essentials.via, seen.essentials.call_id);
        let Some(handled) = self.handled.get_mut(&key).filter(|h| h.forwarded) else { return };
        let before = *handled.outcome.get_or_insert(status);
        if before != status && !(before < 300 && status < 300) {
            self.violate_seen(
                seen,
                format!("{proxy} answered an INVITE with {before}, and then with {status}"),
            );
        }
    }

    fn response_received(&mut self, seen: &Seen<'_, '_>) {
        let to = seen.datagram.to;
        let status = seen.message.status().expect("a response");
        *self.responses_received.entry(seen.response_key(self.seed, to, status)).or_default() += 1;
        let asked = self.asked.get(&seen.key(self.seed, to)).is_some_and(|a| a.sent > 0);
        if !asked || sent_by(&seen.essentials.via) != Some(to) {
            self.violate_seen(seen, format!("a response arrived at {to}, which has not asked"));
        }
    }

    fn violate_seen(&mut self, seen: &Seen<'_, '_>, what: String) {
        let first = seen.datagram.bytes.split(|&b| b == b'\r').next().unwrap_or(b"");
        let what =
            format!("{what} ({}, CSeq {})", String::from_utf8_lossy(first), seen.essentials.cseq.number);
        self.violate(seen.at, Some(String::from_utf8_lossy(seen.essentials.call_id).into_owned()), what);
    }

    fn violate(&mut self, at: Instant, call_id: Option<String>, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { at, call_id, what });
        }
    }
}

/// A message that was seen.
struct Seen<'a, 'm> {
    at: Instant,
    datagram: Datagram<'a>,
    message: &'m Message<'a>,
    essentials: Essentials<'a>,
}

impl Seen<'_, '_> {
    /// What a request and its responses have in common at `node`.
    fn key(&self, seed: HashSeed, node: SocketAddr) -> u64 {
        let e = &self.essentials;
        let (branch, number) = (e.via.branch().unwrap_or(b""), e.cseq.number.to_be_bytes());
        seed.hash(&[
            &address_bytes(node),
            branch,
            e.via.sent_by,
            e.call_id,
            &number,
            e.cseq.method.as_bytes(),
        ])
    }

    /// What a response has in common before and after it was relayed by `node`.
    fn response_key(&self, seed: HashSeed, node: SocketAddr, status: u16) -> u64 {
        let (e, status) = (&self.essentials, status.to_be_bytes());
        seed.hash(&[
            &address_bytes(node),
            e.call_id,
            &e.cseq.number.to_be_bytes(),
            e.cseq.method.as_bytes(),
            &status,
        ])
    }
}

fn handled_key(seed: HashSeed, proxy: SocketAddr, via: &Via<'_>, call_id: &[u8]) -> u64 {
    seed.hash(&[b"handled", &address_bytes(proxy), via.branch().unwrap_or(b""), via.sent_by, call_id])
}

fn caller_branch(via: &[u8]) -> &[u8] {
    Via::parse(via).ok().and_then(|via| via.branch()).unwrap_or(b"")
}

/// Simulated nodes have IPv4 addresses.
fn address_bytes(address: SocketAddr) -> [u8; 6] {
    let SocketAddr::V4(v4) = address else { unreachable!("simulated nodes have IPv4 addresses: {address}") };
    let [a, b, c, d] = v4.ip().octets();
    let [e, f] = v4.port().to_be_bytes();
    [a, b, c, d, e, f]
}

/// The sent-by of a Via as an address, whatever `received` and `rport` say.
fn sent_by(via: &Via<'_>) -> Option<SocketAddr> {
    Some(SocketAddr::new(via.host.ip()?, via.port.unwrap_or(5060)))
}
