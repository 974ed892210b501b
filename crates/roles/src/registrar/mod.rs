//! The registrar: what a REGISTER asks for, and the answer (RFC 3261 section 10.3, RFC 3327 section 5.3).
//!
//! [`Registrar::handle`] carries out steps 2 and 6 to 8 of section 10.3 for a request whose sender the proxy has let
//! in; the domain, authentication and authorisation (steps 1, 3, 4) are the proxy's, and [`aor_of`] is step 5. The
//! bindings live in a [`Location`]; this module only reads requests and writes the headers of answers, into a buffer
//! that is used again, so that a registration allocates nothing in steady state.
//!
//! A Path from a user agent that does not list `path` in Supported is stored all the same. RFC 3327 section 5.3 leaves
//! that to local policy; here the Path is that of the cluster's own balancers, without which the user agent could not
//! be reached at all.

mod aor;
mod contacts;
mod date;
#[cfg(test)]
mod tests;

use arrayvec::ArrayVec;
use busyhour_engine::{HashSeed, Instant};
use busyhour_sip::value::{NameAddr, Via};
use busyhour_sip::{Essentials, HeaderName, Message, Writer};

use crate::location::{Change, Contact, ContactChange, Location, Origin, RegisterError};

pub use aor::{AOR_LEN_MAX, Aor, aor_in, aor_of};

use contacts::{Asked, Bad};
use date::Date;

/// The most contacts that one REGISTER may name.
pub const CONTACTS_PER_REQUEST_MAX: usize = 32;
/// The option tags that a REGISTER may require.
const SUPPORTED: &[u8] = b"path";

/// Settings of a registrar.
#[derive(Clone, Debug)]
pub struct Config {
    /// The shortest expiration that is granted, in seconds; shorter ones under an hour are answered with 423.
    pub min_expires_s: u32,
    /// The longest expiration that is granted, in seconds; longer ones are shortened to it.
    pub max_expires_s: u32,
    /// What is granted to contacts that ask for nothing, in seconds.
    pub default_expires_s: u32,
    /// Nanoseconds from the Unix epoch to the driver's: for the Date header.
    pub unix_offset_nanos: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config { min_expires_s: 60, max_expires_s: 7200, default_expires_s: 3600, unix_offset_nanos: 0 }
    }
}

/// What a registrar counts, since its start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that changed bindings, or asked for a change that had been made already.
    pub changes: u64,
    /// Requests that only asked which bindings there are.
    pub queries: u64,
    /// Refused with 400: Contact, Expires or Path do not follow their grammar or the rules for `*`.
    pub malformed: u64,
    /// Refused with 420: an extension is required that is not supported.
    pub bad_extension: u64,
    /// Refused with 423: the expiration is too short.
    pub too_brief: u64,
    /// Refused with 500: out of order.
    pub out_of_order: u64,
    /// Refused with 403: too many contacts.
    pub too_many_contacts: u64,
    /// Refused with 400: a contact or Path is longer than the table keeps.
    pub too_long: u64,
    /// Refused with 500: the table is full.
    pub full: u64,
}

/// The answer to a REGISTER: what `Reply` needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Outcome<'s> {
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'static str,
    headers: &'s [u8],
}

impl Outcome<'_> {
    /// Writes the header lines that belong to this answer: exactly [`Outcome::headers_len`] bytes.
    pub fn write_headers(&self, w: &mut Writer<'_>) {
        w.put(self.headers);
    }

    /// How long those header lines are, in bytes.
    pub fn headers_len(&self) -> usize {
        self.headers.len()
    }
}

/// Answers REGISTERs.
pub struct Registrar {
    config: Config,
    seed: HashSeed,
    date: Date,
    /// The Path of the request in hand.
    path: Vec<u8>,
    /// The header lines of the answer in hand.
    headers: Vec<u8>,
    stats: Stats,
}

/// What is refused, and how.
enum Refusal {
    Malformed(&'static str),
    BadExtension,
    TooBrief,
    Table(RegisterError),
}

impl From<Bad> for Refusal {
    fn from(bad: Bad) -> Self {
        Refusal::Malformed(bad.0)
    }
}

impl Registrar {
    /// A registrar; `seed` is for hashing branches.
    ///
    /// # Panics
    /// When the shortest expiration is longer than the longest, or the default lies outside the two.
    pub fn new(config: Config, seed: HashSeed) -> Self {
        let Config { min_expires_s, max_expires_s, default_expires_s, .. } = config;
        assert!(
            (min_expires_s..=max_expires_s).contains(&default_expires_s),
            "expirations: {min_expires_s} s ≤ {default_expires_s} s ≤ {max_expires_s} s does not hold"
        );
        Registrar {
            date: Date::new(config.unix_offset_nanos),
            config,
            seed,
            path: Vec::new(),
            headers: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// What has been counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Carries out a REGISTER for `aor` (see [`aor_of`]) and says what to answer. The answer's headers are valid until
    /// the next request.
    pub fn handle(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        aor: &[u8],
        location: &mut dyn Location,
    ) -> Outcome<'_> {
        self.headers.clear();
        match self.carry_out(now, message, essentials, aor, location) {
            Ok(()) => Outcome { status: 200, reason: "OK", headers: &self.headers },
            Err(refusal) => {
                let (status, reason) = self.refuse(message, &refusal);
                Outcome { status, reason, headers: &self.headers }
            }
        }
    }

    fn carry_out(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        aor: &[u8],
        location: &mut dyn Location,
    ) -> Result<(), Refusal> {
        if unsupported(message).next().is_some() {
            return Err(Refusal::BadExtension);
        }
        let mut changes = ArrayVec::new();
        let asked = contacts::read(message, &mut changes)?;
        let change = match asked {
            Asked::Query => Change::Query,
            Asked::RemoveAll => Change::RemoveAll,
            Asked::Contacts { expires_s } => {
                self.grant(&mut changes, expires_s)?;
                Change::Contacts(&changes)
            }
        };
        self.read_path(message)?;
        let origin = Origin {
            call_id: essentials.call_id,
            cseq: essentials.cseq.number,
            branch: self.branch_hash(message),
            path: &self.path,
        };
        let headers = &mut self.headers;
        let mut show = |contact: Contact<'_>| put_contact(headers, now, &contact);
        location.register(now, aor, &origin, change, &mut show).map_err(Refusal::Table)?;
        if asked == Asked::Query {
            self.stats.queries += 1;
        } else {
            self.stats.changes += 1;
            self.put_path();
        }
        self.headers.extend_from_slice(b"Supported: ");
        self.headers.extend_from_slice(SUPPORTED);
        self.headers.extend_from_slice(b"\r\nDate: ");
        self.headers.extend_from_slice(self.date.at(now));
        self.headers.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Chooses the expiration of every contact (section 10.3 step 7). `expires_s` is that of the Expires header.
    fn grant(
        &self,
        changes: &mut ArrayVec<ContactChange<'_>, CONTACTS_PER_REQUEST_MAX>,
        expires_s: Option<u32>,
    ) -> Result<(), Refusal> {
        let default = expires_s.unwrap_or(self.config.default_expires_s);
        for change in changes {
            let asked = if change.expires_s == contacts::UNSAID { default } else { change.expires_s };
            if asked > 0 && asked < 3600 && asked < self.config.min_expires_s {
                return Err(Refusal::TooBrief);
            }
            change.expires_s = asked.min(self.config.max_expires_s);
        }
        Ok(())
    }

    /// Joins the values of the Path headers with commas, each on one line.
    fn read_path(&mut self, message: &Message<'_>) -> Result<(), Refusal> {
        self.path.clear();
        for element in message.elements(HeaderName::Path) {
            // RFC 3327 section 4: a Path value is a name-addr, so its brackets are not optional.
            let good = NameAddr::parse(element.text).is_ok_and(|p| {
                !element.text.starts_with(p.uri) && p.parse_uri().is_ok_and(|uri| uri.sip().is_some())
            });
            if !good {
                return Err(Refusal::Malformed("Bad Path"));
            }
            if !self.path.is_empty() {
                self.path.push(b',');
            }
            self.path.extend(element.text.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
        }
        Ok(())
    }

    /// The hash of the branch that the user agent made: the last Via, so that a retransmission is known as one even
    /// when it came through another balancer. Without a branch (RFC 2543), the same Call-ID and CSeq have to do.
    fn branch_hash(&self, message: &Message<'_>) -> u32 {
        let last = message.elements(HeaderName::Via).last();
        let branch = last.and_then(|e| Via::parse(e.text).ok()).and_then(|via| via.branch());
        self.seed.hash(&[branch.unwrap_or(b"")]) as u32
    }

    /// The registrar repeats the Path in its 200 (RFC 3327 section 5.3).
    fn put_path(&mut self) {
        if !self.path.is_empty() {
            self.headers.extend_from_slice(b"Path: ");
            self.headers.extend_from_slice(&self.path);
            self.headers.extend_from_slice(b"\r\n");
        }
    }

    fn refuse(&mut self, message: &Message<'_>, refusal: &Refusal) -> (u16, &'static str) {
        self.headers.clear();
        let stats = &mut self.stats;
        match refusal {
            Refusal::Malformed(reason) => {
                stats.malformed += 1;
                (400, reason)
            }
            Refusal::BadExtension => {
                stats.bad_extension += 1;
                for tag in unsupported(message) {
                    let joint: &[u8] = if self.headers.is_empty() { b"Unsupported: " } else { b", " };
                    self.headers.extend_from_slice(joint);
                    self.headers.extend_from_slice(tag);
                }
                self.headers.extend_from_slice(b"\r\n");
                (420, "Bad Extension")
            }
            Refusal::TooBrief => {
                stats.too_brief += 1;
                self.headers.extend_from_slice(b"Min-Expires: ");
                put_decimal(&mut self.headers, u64::from(self.config.min_expires_s));
                self.headers.extend_from_slice(b"\r\n");
                (423, "Interval Too Brief")
            }
            Refusal::Table(RegisterError::OutOfOrder) => {
                stats.out_of_order += 1;
                (500, "REGISTER Out Of Order")
            }
            // Not a fault of the server, and asking again does not help: nothing in RFC 3261 fits better than 403.
            Refusal::Table(RegisterError::TooManyContacts) => {
                stats.too_many_contacts += 1;
                (403, "Too Many Contacts")
            }
            Refusal::Table(RegisterError::TooLong) => {
                stats.too_long += 1;
                (400, "Contact Or Path Too Long")
            }
            Refusal::Table(RegisterError::Full) => {
                stats.full += 1;
                (500, "Location Table Full")
            }
        }
    }
}

/// The required option tags that are not supported.
fn unsupported<'m>(message: &'m Message<'_>) -> impl Iterator<Item = &'m [u8]> {
    message.elements(HeaderName::Require).map(|e| e.text).filter(|tag| !tag.eq_ignore_ascii_case(SUPPORTED))
}

/// One binding as section 10.3 step 8 wants it: with the time that is left of it, in whole seconds. A binding that
/// is shown is alive, so its last second counts as one.
fn put_contact(headers: &mut Vec<u8>, now: Instant, contact: &Contact<'_>) {
    headers.extend_from_slice(b"Contact: <");
    headers.extend_from_slice(contact.uri);
    headers.extend_from_slice(b">;expires=");
    put_decimal(headers, contact.expires_at.since(now).as_secs().max(1));
    if contact.q < 1000 {
        let thousandths = contact.q;
        let digits = [100, 10, 1].map(|unit| b'0' + (thousandths / unit % 10) as u8);
        headers.extend_from_slice(b";q=0.");
        let used = digits.iter().rposition(|&d| d != b'0').map_or(1, |last| last + 1);
        headers.extend_from_slice(&digits[..used]);
    }
    headers.extend_from_slice(b"\r\n");
}

fn put_decimal(to: &mut Vec<u8>, n: u64) {
    let mut digits = [0; 20];
    let mut w = Writer::new(&mut digits);
    let len = w.put_u64(n).finish().expect("a u64 has at most 20 digits");
    to.extend_from_slice(&digits[..len]);
}
