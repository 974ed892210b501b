//! The location service: which contacts are bound to an address-of-record (RFC 3261 section 10).
//!
//! Lookups are local and synchronous. The workers of one process share one [`Location`]; what it is made of is decided
//! by whoever wires the process, so the trait is object-safe. [`Table`] is the one that owns its bindings itself.

mod change;
mod index;
mod paths;
mod record;
mod segment;
mod table;
#[cfg(test)]
mod tests;

use busyhour_engine::Instant;

pub use table::{CHANGES_MAX, Limits, SWEEP_WORK, Stats, Table};

/// One binding, as a lookup shows it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Contact<'a> {
    /// The contact URI, as registered.
    pub uri: &'a [u8],
    /// Preference in thousandths: 0 to 1000. 1000 when the contact gave none.
    pub q: u16,
    /// The Path that leads to it (RFC 3327): Route values separated by commas, in order; empty without one.
    pub path: &'a [u8],
    /// When it ends.
    pub expires_at: Instant,
}

/// What a REGISTER asks for one contact.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ContactChange<'a> {
    /// The contact URI.
    pub uri: &'a [u8],
    /// Preference in thousandths.
    pub q: u16,
    /// For how long, in seconds; 0 removes the binding.
    pub expires_s: u32,
}

/// What a REGISTER asks for an address-of-record.
#[derive(Copy, Clone, Debug)]
pub enum Change<'a> {
    /// Nothing: the bindings are only shown.
    Query,
    /// `Contact: *` with `Expires: 0`.
    RemoveAll,
    /// Each of these is added, refreshed or removed; all or none.
    Contacts(&'a [ContactChange<'a>]),
}

/// Where a change comes from: what section 10.3 step 7 orders changes by.
#[derive(Copy, Clone, Debug)]
pub struct Origin<'a> {
    /// Call-ID of the REGISTER.
    pub call_id: &'a [u8],
    /// Its CSeq number.
    pub cseq: u32,
    /// A hash of its branch: a REGISTER with the same Call-ID, CSeq and branch is a retransmission, and changes nothing.
    pub branch: u32,
    /// Its Path, Route values separated by commas.
    pub path: &'a [u8],
}

/// Why a change was refused. Nothing was changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// A binding was made by a request with the same Call-ID and a CSeq that is not lower: out of order (500).
    OutOfOrder,
    /// The address-of-record would have more contacts than it may have.
    TooManyContacts,
    /// A contact URI or the Path is longer than the table keeps.
    TooLong,
    /// The table is full.
    Full,
}

/// The bindings of all addresses-of-record. An address-of-record is given in canonical form (section 10.3 step 5):
/// `user@domain`, escapes resolved, domain in lower case.
pub trait Location {
    /// Shows every binding of `aor` that has not expired, in order of preference, then of registration or refreshment
    /// (latest first; those of one REGISTER in its order). `show` must not call back into the table.
    fn lookup(&self, now: Instant, aor: &[u8], show: &mut dyn FnMut(Contact<'_>));

    /// Carries out a change, then shows every binding there is, as [`Location::lookup`] does.
    ///
    /// Contacts are compared by the rules for URIs (section 19.1.4). Of equivalent contacts in one change the last one
    /// counts. A binding lasts for whole seconds, counted from the next full second of the driver's clock. Nothing is
    /// changed, and the bindings are shown, when one of them was made by this very request: see [`Origin::branch`].
    ///
    /// # Errors
    /// [`RegisterError`] says why nothing was changed; nothing is shown then.
    fn register(
        &mut self,
        now: Instant,
        aor: &[u8],
        origin: &Origin<'_>,
        change: Change<'_>,
        show: &mut dyn FnMut(Contact<'_>),
    ) -> Result<(), RegisterError>;

    /// How many bindings there are, expired ones that have not been removed included.
    fn len(&self) -> usize;

    /// True when there is no binding.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes bindings that have expired, a bounded number at a time. Drivers call it, or nodes from their timers.
    fn expire(&mut self, now: Instant);

    /// When [`Location::expire`] has something to do. Later than the `now` of an `expire` that has just returned.
    fn next_expiry(&self) -> Option<Instant>;
}
