//! Registrations (RFC 3261 section 10.2), with their challenge and their refreshes.

use std::time::Duration;

use busyhour_engine::{Instant, Sink, TimerId};
use busyhour_sip::value::{Challenge, NameAddr, Uri, delta_seconds};
use busyhour_sip::{HeaderName, Message, Method};

use crate::transactions::client_key;

use super::caller::{best_challenge, branch};
use super::text::{REQUEST_LEN_MAX, Request, put_contact};
use super::{Event, Fleet, For, RegisterRecord, Timer};

/// How long after a failed refresh the next attempt is made: the base time of RFC 5626 section 4.5.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// What a fleet knows of a user's registrations.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    cseq: u32,
    /// It was registered once, so a failure is one of a refresh.
    was_registered: bool,
    refresh: Option<TimerId>,
}

/// One REGISTER on its way.
#[derive(Copy, Clone, Debug)]
pub(super) struct Registration {
    pub(super) user: u32,
    pub(super) at: Instant,
    challenged: bool,
}

impl Fleet {
    /// Starts the registration of a user that was meant to start at `at`.
    pub(super) fn register(&mut self, now: Instant, user: u32, at: Instant, out: &mut impl Sink) {
        self.send_register(now, Registration { user, at, challenged: false }, None, out);
    }

    fn send_register(
        &mut self,
        now: Instant,
        registration: Registration,
        challenge: Option<&Challenge<'_>>,
        out: &mut impl Sink,
    ) {
        let index = registration.user as usize;
        self.lines[index].cseq += 1;
        let user = &self.config.users[index];
        let uri = format!("sip:{}", self.config.domain);
        let branch = branch(self.rng.next_u64());
        let call_id = format!("r{:x}-{index}@{}", self.id, self.config.address.ip());
        let request = Request {
            method: b"REGISTER",
            uri: uri.as_bytes(),
            address: self.config.address,
            branch: &branch,
            route: b"",
            from: (user.name.as_bytes(), b"r"),
            to: user.name.as_bytes(),
            to_tag: b"",
            domain: self.config.domain.as_bytes(),
            call_id: call_id.as_bytes(),
            cseq: self.lines[index].cseq,
        };
        let (address, expires) = (self.config.address, self.config.register_expires_s);
        let cnonce = self.rng.next_u64();
        let headers = |w: &mut busyhour_sip::Writer<'_>| {
            put_contact(w, user.name.as_bytes(), address);
            w.put(b"\r\nExpires: ").put_u64(u64::from(expires)).put(b"\r\nSupported: path\r\n");
            if let Some(challenge) = challenge {
                w.put(b"Authorization: ");
                challenge.write_credentials(
                    w,
                    user.name.as_bytes(),
                    &user.ha1,
                    b"REGISTER",
                    uri.as_bytes(),
                    1,
                    cnonce,
                );
                w.put(b"\r\n");
            }
        };
        let key = client_key(self.transactions.seed(), &branch, Method::Register);
        let len = REQUEST_LEN_MAX + challenge.map_or(0, |c| 512 + c.realm.len() + c.nonce.len());
        let fill = |buf: &mut [u8]| request.write(buf, headers, b"");
        let to = self.outbound(registration.user);
        if self
            .transactions
            .begin_client(now, key, Method::Register, to, len, fill, For::Register(registration), out)
            .is_err()
        {
            self.registered(now, registration, None);
        }
    }

    /// A response to a REGISTER of this fleet.
    pub(super) fn register_response(
        &mut self,
        now: Instant,
        r: Registration,
        message: &Message<'_>,
        out: &mut impl Sink,
    ) {
        let status = message.status().expect("a response");
        if status < 200 {
            return;
        }
        if matches!(status, 401 | 407)
            && !r.challenged
            && let Some(challenge) = best_challenge(message)
        {
            return self.send_register(now, Registration { challenged: true, ..r }, Some(&challenge), out);
        }
        if let (200, Some(after)) = (status, self.config.refresh_after) {
            let granted = self.granted(message).unwrap_or(self.config.register_expires_s);
            let latest = Duration::from_secs(u64::from(granted)) * 5 / 6;
            self.refresh_at(now + after.min(latest), r.user);
            self.lines[r.user as usize].was_registered = true;
        }
        self.registered(now, r, Some(status));
    }

    /// Tells how a registration went.
    pub(super) fn registered(&mut self, now: Instant, r: Registration, status: Option<u16>) {
        if status != Some(200) && self.lines[r.user as usize].was_registered {
            self.refresh_at(now + RETRY_AFTER, r.user);
        }
        let rrd = (status == Some(200)).then(|| now - r.at);
        self.events.push_back(Event::Register(RegisterRecord {
            user: r.user,
            at: r.at,
            ended: now,
            rrd,
            status,
        }));
    }

    /// The next refresh of a user, in place of the one that was planned.
    fn refresh_at(&mut self, at: Instant, user: u32) {
        let timer = self.timers.insert(at, Timer::Refresh(user));
        if let Some(before) = self.lines[user as usize].refresh.replace(timer) {
            self.timers.cancel(before);
        }
    }

    /// The `expires` that the registrar granted for this fleet's contact.
    fn granted(&self, message: &Message<'_>) -> Option<u32> {
        let contacts = message.elements(HeaderName::Contact).filter_map(|e| NameAddr::parse(e.text).ok());
        let is_ours = |c: &NameAddr<'_>| {
            let address = c.parse_uri().ok().and_then(Uri::sip).and_then(|uri| uri.socket_addr());
            address == Some(self.config.address)
        };
        delta_seconds(contacts.filter(is_ours).find_map(|c| c.params.value("expires"))?)
    }
}
