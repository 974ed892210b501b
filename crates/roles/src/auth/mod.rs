//! Digest authentication at a registrar or proxy (RFC 3261 section 22, RFC 8760), with nonces that need no state.
//!
//! A nonce is a time and a keyed MAC over it, so every proxy that has the cluster's key can check what any other made.
//! What that gives up: a nonce count is not remembered, so within a nonce's lifetime a request that was overheard could
//! be replayed (RFC 7616 section 5.12 leaves one-time nonces as an option). CSeq and the transaction layer bound the use.
//!
//! The MAC is SipHash-2-4 with 128 bits, made for the purpose; the 1-3 variant that tables hash with is not.

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hasher as _;
use std::time::Duration;

use busyhour_engine::{HashSeed, Instant};
use busyhour_sip::value::{Algorithm, Challenge, Credentials, Ha1};
use busyhour_sip::{HeaderName, Message, Method, Writer};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The subscribers that a realm knows.
pub trait Subscribers {
    /// The stored hashes of a user; `None` for a user that does not exist.
    fn ha1(&self, username: &[u8]) -> Option<Ha1>;
}

/// How a challenge is carried.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By a registrar: 401, WWW-Authenticate, Authorization.
    Www,
    /// By a proxy: 407, Proxy-Authenticate, Proxy-Authorization.
    Proxy,
}

impl Kind {
    /// The status of the challenge.
    pub const fn status(self) -> u16 {
        match self {
            Kind::Www => 401,
            Kind::Proxy => 407,
        }
    }

    /// The header that carries credentials.
    pub const fn credentials(self) -> HeaderName {
        match self {
            Kind::Www => HeaderName::Authorization,
            Kind::Proxy => HeaderName::ProxyAuthorization,
        }
    }

    const fn challenge(self) -> HeaderName {
        match self {
            Kind::Www => HeaderName::WwwAuthenticate,
            Kind::Proxy => HeaderName::ProxyAuthenticate,
        }
    }
}

/// What the credentials of a request are worth.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// They are those of this user.
    Granted(&'a [u8]),
    /// None for this realm, or wrong ones: challenge.
    Challenge,
    /// Right, but the nonce is too old: challenge with `stale=true`, so that the client answers without asking its user.
    Stale,
}

/// Settings of an authenticator.
#[derive(Clone)]
pub struct Config {
    /// The realm.
    pub realm: String,
    /// The cluster's key; the same on every proxy. Must not be known to others.
    pub key: HashSeed,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// Nanoseconds from the Unix epoch to the driver's: nonces of one proxy are good at another, so they count from there.
    pub unix_offset_nanos: u64,
}

impl fmt::Debug for Config {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { realm, key: _, nonce_lifetime, unix_offset_nanos } = self;
        f.debug_struct("Config")
            .field("realm", realm)
            .field("nonce_lifetime", nonce_lifetime)
            .field("unix_offset_nanos", unix_offset_nanos)
            .finish_non_exhaustive()
    }
}

/// Challenges requests and checks credentials for one realm.
pub struct Authenticator {
    config: Config,
    subscribers: Box<dyn Subscribers + Send>,
    /// What is offered and accepted, most preferred first.
    algorithms: Vec<Algorithm>,
}

/// Hexadecimal digits of the milliseconds since the Unix epoch: enough until the year 10889.
const TIME_LEN: usize = 12;
/// These, and a MAC of 128 bits in hexadecimal.
const NONCE_LEN: usize = TIME_LEN + 32;
/// A nonce from the near future is a fresh one: the clocks of a cluster differ a little.
const CLOCK_SKEW_MILLIS_MAX: u64 = 5_000;
/// The most credentials for its realm that one request is checked for: a client that does not know which algorithm is
/// wanted may send several, but a request must not buy any number of digests.
const CREDENTIALS_MAX: usize = 3;
/// Stands in for the hashes of users that do not exist, so that they take as long to refuse as a wrong password.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };

impl Authenticator {
    /// An authenticator for these subscribers that offers every algorithm, the best one first.
    pub fn new(config: Config, subscribers: Box<dyn Subscribers + Send>) -> Self {
        Authenticator { config, subscribers, algorithms: Algorithm::ALL.to_vec() }
    }

    /// The same with these algorithms only, in this order. A client takes the first that it knows (RFC 8760 section 2.4);
    /// one from before that RFC may look at the first challenge alone.
    ///
    /// # Panics
    /// Without any: nobody could be let in.
    pub fn offering(mut self, algorithms: &[Algorithm]) -> Self {
        assert!(!algorithms.is_empty(), "an authenticator offers at least one algorithm");
        self.algorithms = algorithms.to_vec();
        self
    }

    /// The realm.
    pub fn realm(&self) -> &str {
        &self.config.realm
    }

    /// Checks the credentials of a request for this realm.
    pub fn check<'a>(
        &self,
        now: Instant,
        message: &Message<'a>,
        method: Method<'_>,
        kind: Kind,
    ) -> Verdict<'a> {
        let mut best = Verdict::Challenge;
        let all =
            message.all(kind.credentials()).filter_map(|h| Credentials::parse(message.value_of(h)).ok());
        for credentials in all.filter(|c| c.realm == self.config.realm.as_bytes()).take(CREDENTIALS_MAX) {
            match self.judge(now, &credentials, method) {
                granted @ Verdict::Granted(_) => return granted,
                Verdict::Stale => best = Verdict::Stale,
                Verdict::Challenge => {}
            }
        }
        best
    }

    fn judge<'a>(&self, now: Instant, credentials: &Credentials<'a>, method: Method<'_>) -> Verdict<'a> {
        let Some(age) = self.nonce_age(now, credentials.nonce) else { return Verdict::Challenge };
        if !credentials.algorithm.is_some_and(|a| self.algorithms.contains(&a)) {
            return Verdict::Challenge;
        }
        let ha1 = self.subscribers.ha1(credentials.username);
        let proved = credentials.verify(ha1.as_ref().unwrap_or(&NOBODY), method.as_bytes());
        match ha1.is_some() && proved {
            true if age <= self.config.nonce_lifetime => Verdict::Granted(credentials.username),
            true => Verdict::Stale,
            false => Verdict::Challenge,
        }
    }

    /// Writes the challenge headers, the most preferred algorithm first (RFC 8760 section 2.4).
    pub fn write_challenge(&self, now: Instant, kind: Kind, stale: bool, w: &mut Writer<'_>) {
        let nonce = self.nonce(now);
        for &algorithm in &self.algorithms {
            w.put(kind.challenge().as_str().as_bytes()).put(b": ");
            Challenge {
                realm: self.config.realm.as_bytes(),
                nonce: &nonce,
                opaque: None,
                algorithm: Some(algorithm),
                qop_auth: true,
                stale,
            }
            .write(w);
            w.put(b"\r\n");
        }
    }

    /// The most bytes that [`Authenticator::write_challenge`] writes.
    pub fn challenge_len_max(&self) -> usize {
        self.algorithms.len() * (96 + NONCE_LEN + self.config.realm.len())
    }

    fn unix_millis(&self, now: Instant) -> u64 {
        self.config.unix_offset_nanos.saturating_add(now.as_nanos()) / 1_000_000
    }

    fn nonce(&self, now: Instant) -> [u8; NONCE_LEN] {
        nonce_of(self.config.key, self.config.realm.as_bytes(), self.unix_millis(now))
    }

    /// How old a nonce is; `None` when nobody with the key made it, or it comes from the future.
    fn nonce_age(&self, now: Instant, nonce: &[u8]) -> Option<Duration> {
        let millis = u64::from_str_radix(std::str::from_utf8(nonce.get(..TIME_LEN)?).ok()?, 16).ok()?;
        let made = nonce_of(self.config.key, self.config.realm.as_bytes(), millis);
        // All bytes are compared, so that the time tells nothing about where they differ.
        let differing = made.iter().zip(nonce).fold(0, |d, (a, b)| d | (a ^ b));
        if nonce.len() != NONCE_LEN || differing != 0 {
            return None;
        }
        let now = self.unix_millis(now);
        (millis <= now + CLOCK_SKEW_MILLIS_MAX).then(|| Duration::from_millis(now.saturating_sub(millis)))
    }
}

fn nonce_of(key: HashSeed, realm: &[u8], millis: u64) -> [u8; NONCE_LEN] {
    let mut mac = SipHasher24::new_with_keys(key.0, key.1);
    mac.write(&millis.to_be_bytes());
    mac.write(realm);
    let (high, low) = mac.finish128().as_u64();
    let mut text = [0; 48];
    Writer::new(&mut text).put_hex(millis).put_hex(high).put_hex(low);
    // The four leading zeros of the time carry nothing.
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&text[48 - NONCE_LEN..]);
    nonce
}
