//! A location table that owns its bindings: compact, without long pauses at any size.
//!
//! An address-of-record is known by the 64-bit seeded hash of its canonical form; the text is not kept. The hash's
//! highest bits choose a segment through a directory (extendible hashing): a segment that has become too large is
//! split in two, and the directory, four bytes an entry, doubles now and then. So growth touches some thousand bindings
//! at a time, never all. Segments are not joined again; an emptied one takes some 200 bytes.
//!
//! Every segment has one timer in a wheel, for when its first binding ends, rounded up to a few seconds. A binding that
//! has ended is not shown, whether it has been swept out or not.

use std::time::Duration;

use busyhour_engine::{HashSeed, Instant, TimerId, Wheel};

use super::change::Request;
use super::segment::Segment;
use super::{Change, Contact, Location, Origin, RegisterError};

/// The most contacts that one change may name.
pub const CHANGES_MAX: usize = 64;

/// A segment is split when it would have more bindings.
const SEGMENT_BINDINGS_MAX: usize = 1024;
/// Segments are swept at most this often, in seconds.
const SWEEP_PERIOD_S: u32 = 8;
/// How much one call of `expire` does: a unit is about the time that it takes to look at one binding.
pub const SWEEP_WORK: usize = 8 * SEGMENT_BINDINGS_MAX;
/// What removing a binding costs in that unit.
const REMOVAL_WORK: usize = 4;
/// The directory does not grow beyond 2 to this power; segments do then.
const DEPTH_MAX: u32 = 22;

/// What a table may hold at most.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Addresses-of-record.
    pub aors_max: usize,
    /// Contacts of one address-of-record.
    pub contacts_per_aor_max: usize,
    /// Bytes of a contact URI.
    pub uri_len_max: usize,
    /// Bytes of a Path.
    pub path_len_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { aors_max: 10_000_000, contacts_per_aor_max: 10, uri_len_max: 512, path_len_max: 1024 }
    }
}

/// What a table counts, since its start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bindings added.
    pub added: u64,
    /// Bindings refreshed.
    pub refreshed: u64,
    /// Bindings removed by request.
    pub removed: u64,
    /// Bindings removed because their time was up.
    pub expired: u64,
    /// Changes that had been made already by the same request.
    pub retransmissions: u64,
    /// Changes refused with [`RegisterError::OutOfOrder`].
    pub out_of_order: u64,
    /// Changes refused with [`RegisterError::TooManyContacts`].
    pub too_many_contacts: u64,
    /// Changes refused with [`RegisterError::TooLong`].
    pub too_long: u64,
    /// Changes refused with [`RegisterError::Full`].
    pub full: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.added += other.added;
        self.refreshed += other.refreshed;
        self.removed += other.removed;
        self.expired += other.expired;
        self.retransmissions += other.retransmissions;
        self.out_of_order += other.out_of_order;
        self.too_many_contacts += other.too_many_contacts;
        self.too_long += other.too_long;
        self.full += other.full;
    }
}

/// See the module documentation.
pub struct Table {
    limits: Limits,
    seed: HashSeed,
    /// Which segment the hashes that start with these `depth` bits are in.
    directory: Vec<u32>,
    depth: u32,
    #[expect(clippy::vec_box, reason = "thousands of them move when the vector grows, and that is a pause")]
    segments: Vec<Box<Part>>,
    wheel: Wheel<u32>,
    /// A later `expire` than this is needed at the earliest.
    rests_until: Instant,
    aors: usize,
    bindings: usize,
    stats: Stats,
}

/// A segment and what the table knows about it.
#[derive(Default)]
struct Part {
    segment: Segment,
    /// How many leading bits of the hash its addresses-of-record have in common.
    depth: u32,
    /// Its timer, and for which second.
    sweep: Option<(TimerId, u32)>,
}

impl Table {
    /// An empty table.
    ///
    /// # Panics
    /// When a limit is 0 (but that of the Path), one address-of-record may have more than 255 contacts, or a URI or
    /// Path more than 8192 bytes.
    pub fn new(limits: Limits, seed: HashSeed) -> Self {
        let Limits { aors_max, contacts_per_aor_max, uri_len_max, path_len_max } = limits;
        assert!(
            aors_max > 0 && u32::try_from(aors_max).is_ok(),
            "aors_max is {aors_max}: 1 to 2^32 - 1 is possible"
        );
        assert!(
            (1..=255).contains(&contacts_per_aor_max),
            "contacts_per_aor_max is {contacts_per_aor_max}: 1 to 255 is possible"
        );
        assert!((1..=8192).contains(&uri_len_max), "uri_len_max is {uri_len_max}: 1 to 8192 is possible");
        assert!(path_len_max <= 8192, "path_len_max is {path_len_max}: up to 8192 is possible");
        Table {
            limits,
            seed,
            directory: vec![0],
            depth: 0,
            segments: vec![Box::default()],
            wheel: Wheel::new(),
            rests_until: Instant::EPOCH,
            aors: 0,
            bindings: 0,
            stats: Stats::default(),
        }
    }

    /// How many addresses-of-record have bindings, expired ones that have not been removed included.
    pub fn aors(&self) -> usize {
        self.aors
    }

    /// What has been counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The hash by which this table, and any with the same seed, knows an address-of-record. Its eight lowest bits are
    /// free for sharing addresses-of-record out over tables.
    pub fn hash(&self, aor: &[u8]) -> u64 {
        self.seed.hash(&[aor])
    }

    /// [`Location::lookup`] by [`Table::hash`].
    pub fn lookup_hashed(&self, now: Instant, hash: u64, show: &mut dyn FnMut(Contact<'_>)) {
        let segment = &self.segments[self.part_of(hash)].segment;
        segment.show(segment.head(segment.find(hash)), seconds(now), show);
    }

    /// [`Location::register`] by [`Table::hash`].
    ///
    /// # Errors
    /// As there.
    pub fn register_hashed(
        &mut self,
        now: Instant,
        hash: u64,
        origin: &Origin<'_>,
        change: Change<'_>,
        show: &mut dyn FnMut(Contact<'_>),
    ) -> Result<(), RegisterError> {
        let result = self.change(now, hash, origin, change);
        match result {
            Ok((part, head)) => self.segments[part].segment.show(head, seconds(now), show),
            Err(RegisterError::OutOfOrder) => self.stats.out_of_order += 1,
            Err(RegisterError::TooManyContacts) => self.stats.too_many_contacts += 1,
            Err(RegisterError::TooLong) => self.stats.too_long += 1,
            Err(RegisterError::Full) => self.stats.full += 1,
        }
        result.map(|_| ())
    }

    /// [`Location::expire`] with a limit of its own: sweeps segments that are due until `work` units are used up, and
    /// returns how many are left. A unit is about the time that it takes to look at one binding, some 10 ns; the last
    /// segment may overdraw.
    pub fn expire_within(&mut self, now: Instant, mut work: usize) -> usize {
        while work > 0
            && let Some(part) = self.wheel.pop_expired(now)
        {
            let part = part as usize;
            self.segments[part].sweep = None;
            work = work.saturating_sub(1 + self.segments[part].segment.bindings());
            work = work.saturating_sub(REMOVAL_WORK * self.sweep(part, now));
        }
        self.rests_until = self.rests_until.max(now + Duration::from_millis(1));
        work
    }

    /// Changes how many addresses-of-record there may be. Those that there are stay.
    pub fn set_aors_max(&mut self, aors_max: usize) {
        self.limits.aors_max = aors_max;
    }

    /// Bytes of heap that the table has claimed, without what the allocator adds.
    pub fn heap_bytes(&self) -> usize {
        let parts: usize = self.segments.iter().map(|p| size_of::<Part>() + p.segment.heap_bytes()).sum();
        parts
            + self.segments.capacity() * size_of::<Box<Part>>()
            + self.directory.capacity() * size_of::<u32>()
    }

    /// Sweeps every segment, whether it is due or not.
    #[cfg(test)]
    pub(super) fn sweep_now(&mut self, now: Instant) {
        for part in 0..self.segments.len() {
            self.sweep(part, now);
        }
    }

    fn change(
        &mut self,
        now: Instant,
        hash: u64,
        origin: &Origin<'_>,
        change: Change<'_>,
    ) -> Result<(usize, u32), RegisterError> {
        let starts_s = u32::try_from(now.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
        let mut first_end_s = None;
        if let Change::Contacts(changes) = change {
            let mut kept = changes.iter().filter(|c| c.expires_s > 0);
            if changes.len() > CHANGES_MAX {
                return Err(RegisterError::TooManyContacts);
            }
            first_end_s = kept.clone().map(|c| starts_s.saturating_add(c.expires_s)).min();
            if kept.any(|c| {
                c.uri.len() > self.limits.uri_len_max || origin.path.len() > self.limits.path_len_max
            }) {
                return Err(RegisterError::TooLong);
            }
            self.make_room(hash, changes.len());
        }
        let request = Request {
            hash,
            now_s: seconds(now),
            starts_s,
            call_id: self.seed.hash(&[origin.call_id]),
            cseq: origin.cseq,
            branch: origin.branch,
            path: origin.path,
            contacts_max: self.limits.contacts_per_aor_max,
            room: self.aors < self.limits.aors_max,
        };
        let part = self.part_of(hash);
        let segment = &mut self.segments[part].segment;
        let (aors, bindings) = (segment.aors(), segment.bindings());
        let result = segment.change(&request, change, &mut self.stats);
        self.aors = self.aors - aors + segment.aors();
        self.bindings = self.bindings - bindings + segment.bindings();
        if let (Ok(_), Some(at_s)) = (result, first_end_s) {
            self.arm(part, at_s);
        }
        result.map(|head| (part, head))
    }

    fn part_of(&self, hash: u64) -> usize {
        // With a directory of one entry all 64 bits go.
        self.directory[hash.checked_shr(64 - self.depth).unwrap_or(0) as usize] as usize
    }

    /// Splits the segment of `hash` when `more` bindings are too many for it. One split almost always makes room; when
    /// not, the segment is larger than others for a while.
    fn make_room(&mut self, hash: u64, more: usize) {
        let left = self.part_of(hash);
        let depth = self.segments[left].depth;
        if self.segments[left].segment.bindings() + more <= SEGMENT_BINDINGS_MAX || depth == DEPTH_MAX {
            return;
        }
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&part| [part, part]).collect();
            self.depth += 1;
        }
        let right = self.segments.len();
        // The entries of a segment stand side by side; those with the next bit set are the latter half of them.
        let half = 1 << (self.depth - depth - 1);
        let first = (hash.checked_shr(64 - depth).unwrap_or(0) as usize) << (self.depth - depth);
        self.directory[first + half..first + 2 * half].fill(right as u32);
        let [zero, one] = self.segments[left].segment.split(1 << (31 - depth));
        self.segments[left].segment = zero;
        self.segments[left].depth = depth + 1;
        self.segments.push(Box::new(Part { segment: one, depth: depth + 1, sweep: None }));
        if let Some((_, at_s)) = self.segments[left].sweep {
            self.arm(right, at_s);
        }
    }

    /// Sweeps one segment; returns how many bindings that removed.
    fn sweep(&mut self, part: usize, now: Instant) -> usize {
        let segment = &mut self.segments[part].segment;
        let aors = segment.aors();
        let (removed, next_s) = segment.sweep(seconds(now));
        self.aors -= aors - segment.aors();
        self.bindings -= removed as usize;
        self.stats.expired += removed;
        if let Some(next_s) = next_s {
            self.arm(part, next_s);
        }
        removed as usize
    }

    /// Sees to it that a segment is swept soon after `end_s`. Segments are spread over the sweep period.
    fn arm(&mut self, part: usize, end_s: u32) {
        let behind_s = (part as u32).wrapping_sub(end_s) % SWEEP_PERIOD_S;
        let at_s = end_s.saturating_add(behind_s);
        let sweep = &mut self.segments[part].sweep;
        if let Some((id, armed_s)) = *sweep {
            if armed_s <= at_s {
                return;
            }
            self.wheel.cancel(id);
        }
        let at = Instant::from_nanos(u64::from(at_s) * 1_000_000_000);
        *sweep = Some((self.wheel.insert(at, part as u32), at_s));
    }
}

fn seconds(now: Instant) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

impl Location for Table {
    fn lookup(&self, now: Instant, aor: &[u8], show: &mut dyn FnMut(Contact<'_>)) {
        self.lookup_hashed(now, self.hash(aor), show);
    }

    fn register(
        &mut self,
        now: Instant,
        aor: &[u8],
        origin: &Origin<'_>,
        change: Change<'_>,
        show: &mut dyn FnMut(Contact<'_>),
    ) -> Result<(), RegisterError> {
        self.register_hashed(now, self.hash(aor), origin, change, show)
    }

    fn len(&self) -> usize {
        self.bindings
    }

    fn expire(&mut self, now: Instant) {
        self.expire_within(now, SWEEP_WORK);
    }

    fn next_expiry(&self) -> Option<Instant> {
        self.wheel.next_deadline().map(|at| at.max(self.rests_until))
    }
}
