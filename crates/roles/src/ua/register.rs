//! Registrations (RFC 3261 section 10.2), with their challenge and their refreshes.

use busyhour_engine::{Instant, Sink};
use busyhour_sip::value::{Challenge, NameAddr, delta_seconds};
use busyhour_sip::{HeaderName, Message, Method};

use crate::transactions::client_key;

use super::caller::{best_challenge, branch};
use super::text::{REQUEST_LEN_MAX, Request, put_contact};
use super::{Event, Fleet, For, RegisterRecord, Timer};

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
        self.register_cseq[index] += 1;
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
            cseq: self.register_cseq[index],
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
            let latest = std::time::Duration::from_secs(u64::from(granted)) * 5 / 6;
            self.timers.insert(now + after.min(latest), Timer::Refresh(r.user));
        }
        self.registered(now, r, Some(status));
    }

    /// Tells how a registration went.
    pub(super) fn registered(&mut self, now: Instant, r: Registration, status: Option<u16>) {
        let rrd = (status == Some(200)).then(|| now - r.at);
        self.events.push_back(Event::Register(RegisterRecord {
            user: r.user,
            at: r.at,
            ended: now,
            rrd,
            status,
        }));
    }

    /// The `expires` that the registrar granted for this fleet's contact: the longest one shown.
    fn granted(&self, message: &Message<'_>) -> Option<u32> {
        let contacts = message.elements(HeaderName::Contact).filter_map(|e| NameAddr::parse(e.text).ok());
        contacts.filter_map(|c| delta_seconds(c.params.value("expires")?)).max()
    }
}
