//! The location table that the proxies of a process share.
//!
//! It is cut into shards, each a [`Table`] behind a lock of its own. A lookup shares the lock of its shard with other
//! lookups; a REGISTER has it alone for as long as its change takes (about a microsecond, rarely some hundred when a
//! part of the table is split), and is seen by all as soon as it lets go. What every proxy asks with every message, how
//! many bindings there are and when the next one ends, is kept beside the shards and read without a lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

use busyhour_engine::{HashSeed, Instant};
use busyhour_roles::location::{
    Change, Contact, Limits, Location, Origin, RegisterError, SWEEP_WORK, Stats, Table,
};

/// So many proxies seldom wait for each other.
const SHARDS: usize = 64;
/// Stands for "never" where the next expiry is kept.
const NEVER: u64 = u64::MAX;

/// See the module documentation. Clones share the table.
#[derive(Clone)]
pub struct SharedLocation(Arc<Shared>);

struct Shared {
    seed: HashSeed,
    aors_max: usize,
    shards: [RwLock<Table>; SHARDS],
    /// Sums over the shards. A shard's share is updated while its lock is held.
    aors: AtomicUsize,
    bindings: AtomicUsize,
    /// Not later than the next expiry of any shard, in nanoseconds of the driver's clock.
    earliest: AtomicU64,
    /// [`Location::expire`] rests until then.
    rests_until: AtomicU64,
    /// The shard at which the next `expire` starts.
    next_shard: AtomicUsize,
}

impl SharedLocation {
    /// An empty table. The limits are for all shards together; as many addresses-of-record too many can come in as
    /// there are proxies that register one at the same instant. `seed` must not be known to peers.
    pub fn new(limits: Limits, seed: HashSeed) -> Self {
        SharedLocation(Arc::new(Shared {
            seed,
            aors_max: limits.aors_max,
            shards: std::array::from_fn(|_| RwLock::new(Table::new(limits, seed))),
            aors: AtomicUsize::new(0),
            bindings: AtomicUsize::new(0),
            earliest: AtomicU64::new(NEVER),
            rests_until: AtomicU64::new(0),
            next_shard: AtomicUsize::new(0),
        }))
    }

    /// How many addresses-of-record have bindings, expired ones that have not been removed included.
    pub fn aors(&self) -> usize {
        self.0.aors.load(Relaxed)
    }

    /// What has been counted, all shards together.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.0.shards.iter().for_each(|shard| sum += read(shard).stats());
        sum
    }
}

impl Shared {
    fn hash(&self, aor: &[u8]) -> u64 {
        self.seed.hash(&[aor])
    }

    /// The lowest bits of the hash are the ones that a table does not use.
    fn shard(&self, hash: u64) -> &RwLock<Table> {
        &self.shards[hash as usize % SHARDS]
    }

    /// Does something to a shard that is locked for writing, and keeps the sums.
    fn change<T>(&self, table: &mut Table, what: impl FnOnce(&mut Table) -> T) -> T {
        let (aors, bindings) = (table.aors(), table.len());
        let result = what(table);
        add_difference(&self.aors, aors, table.aors());
        add_difference(&self.bindings, bindings, table.len());
        if let Some(next) = table.next_expiry() {
            self.lower_earliest(next.as_nanos());
        }
        result
    }

    fn lower_earliest(&self, nanos: u64) {
        if nanos < self.earliest.load(Relaxed) {
            self.earliest.fetch_min(nanos, Relaxed);
        }
    }

    fn expire(&self, now: Instant) {
        let rest = now + Duration::from_millis(1);
        self.rests_until.fetch_max(rest.as_nanos(), Relaxed);
        // From here on every shard that is visited, and every change, says anew when its next binding ends.
        self.earliest.store(NEVER, Relaxed);
        let first = self.next_shard.load(Relaxed);
        let mut work = SWEEP_WORK;
        for i in 0..SHARDS {
            let at = (first + i) % SHARDS;
            if work == 0 {
                self.next_shard.store(at, Relaxed);
                return self.lower_earliest(rest.as_nanos());
            }
            match self.shards[at].try_write() {
                Ok(mut table) => work = self.change(&mut table, |t| t.expire_within(now, work)),
                // Somebody works there; the shard's turn comes with the next call.
                Err(TryLockError::WouldBlock) => self.lower_earliest(rest.as_nanos()),
                Err(TryLockError::Poisoned(_)) => panic!("{POISONED}"),
            }
        }
    }
}

fn add_difference(sum: &AtomicUsize, before: usize, after: usize) {
    if after > before {
        sum.fetch_add(after - before, Relaxed);
    } else if before > after {
        sum.fetch_sub(before - after, Relaxed);
    }
}

/// Nobody goes on with a table that a panic may have left half changed.
const POISONED: &str = "no proxy panics while it changes a shard";

fn read(shard: &RwLock<Table>) -> RwLockReadGuard<'_, Table> {
    shard.read().expect(POISONED)
}

fn write(shard: &RwLock<Table>) -> RwLockWriteGuard<'_, Table> {
    shard.write().expect(POISONED)
}

impl Default for SharedLocation {
    /// A table with the usual limits and a seed that everybody knows: for the simulator and tests.
    fn default() -> Self {
        SharedLocation::new(Limits::default(), HashSeed(0, 0))
    }
}

impl Location for SharedLocation {
    fn lookup(&self, now: Instant, aor: &[u8], show: &mut dyn FnMut(Contact<'_>)) {
        let hash = self.0.hash(aor);
        read(self.0.shard(hash)).lookup_hashed(now, hash, show);
    }

    fn register(
        &mut self,
        now: Instant,
        aor: &[u8],
        origin: &Origin<'_>,
        change: Change<'_>,
        show: &mut dyn FnMut(Contact<'_>),
    ) -> Result<(), RegisterError> {
        if let Change::Query = change {
            self.lookup(now, aor, show);
            return Ok(());
        }
        let hash = self.0.hash(aor);
        let mut table = write(self.0.shard(hash));
        let room = self.0.aors_max.saturating_sub(self.aors());
        let aors = table.aors();
        table.set_aors_max(aors + room);
        self.0.change(&mut table, |t| t.register_hashed(now, hash, origin, change, show))
    }

    fn len(&self) -> usize {
        self.0.bindings.load(Relaxed)
    }

    fn expire(&mut self, now: Instant) {
        self.0.expire(now);
    }

    fn next_expiry(&self) -> Option<Instant> {
        let earliest = self.0.earliest.load(Relaxed);
        let rests_until = self.0.rests_until.load(Relaxed);
        (earliest != NEVER).then(|| Instant::from_nanos(earliest.max(rests_until)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::thread;

    use busyhour_roles::location::ContactChange;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn origin(cseq: u32) -> Origin<'static> {
        Origin { call_id: b"call", cseq, branch: cseq, path: b"<sip:10.0.0.1;lr>" }
    }

    fn contact(uri: &str, expires_s: u32) -> ContactChange<'_> {
        ContactChange { uri: uri.as_bytes(), q: 1000, expires_s }
    }

    fn register(
        table: &mut SharedLocation,
        now: Instant,
        aor: &str,
        cseq: u32,
        changes: &[ContactChange<'_>],
    ) -> Result<(), RegisterError> {
        table.register(now, aor.as_bytes(), &origin(cseq), Change::Contacts(changes), &mut |_| ())
    }

    fn uris(table: &SharedLocation, now: Instant, aor: &str) -> Vec<String> {
        let mut shown = Vec::new();
        let mut show = |c: Contact<'_>| shown.push(String::from_utf8(c.uri.to_vec()).unwrap());
        table.lookup(now, aor.as_bytes(), &mut show);
        shown
    }

    /// Sweeps until nothing is due any more; `now` is late enough for everything.
    fn sweep(table: &mut SharedLocation, mut now: Instant) {
        for _ in 0..10_000 {
            table.expire(now);
            match table.next_expiry() {
                Some(next) => {
                    assert!(next > now, "a deadline is left behind");
                    now = next;
                }
                None => return,
            }
        }
        panic!("sweeping does not end");
    }

    #[test]
    fn clones_share_one_table() {
        let mut one = SharedLocation::default();
        let other = one.clone();
        assert!(other.is_empty() && other.next_expiry().is_none());
        register(&mut one, at(1), "a@h", 1, &[contact("sip:a@192.0.2.1", 60)]).unwrap();
        assert_eq!(uris(&other, at(1), "a@h"), ["sip:a@192.0.2.1"]);
        assert_eq!((other.len(), other.aors()), (1, 1));
        assert!(other.next_expiry().is_some_and(|next| next <= at(61 + 8)));
        let mut shown = 0;
        one.register(at(1), b"a@h", &origin(0), Change::Query, &mut |_| shown += 1).unwrap();
        assert_eq!(shown, 1);
        sweep(&mut one, at(100));
        assert!(other.is_empty() && other.aors() == 0);
        assert_eq!(other.stats().expired, 1);
    }

    #[test]
    fn the_limit_on_addresses_of_record_holds_for_all_shards_together() {
        let mut table = SharedLocation::new(Limits { aors_max: 100, ..Limits::default() }, HashSeed(7, 8));
        let contacts = [contact("sip:a@192.0.2.1", 60)];
        let mut register_all = |now, range: std::ops::Range<u32>| {
            let refused = |i: &u32| register(&mut table, now, &format!("u{i}@h"), 1, &contacts).is_err();
            range.filter(refused).count()
        };
        assert_eq!(register_all(at(1), 0..150), 50);
        sweep(&mut table, at(100));
        assert_eq!(table.stats().full, 50);
        let again =
            (200..300).all(|i| register(&mut table, at(200), &format!("u{i}@h"), 1, &contacts).is_ok());
        assert!(again && table.aors() == 100);
    }

    /// Each thread tells the next which user it has registered: that one must see the binding.
    #[test]
    fn what_one_thread_registers_all_see_at_once() {
        const THREADS: usize = 4;
        const USERS: u32 = 5_000;
        let table = SharedLocation::default();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<String>()).unzip();
        thread::scope(|scope| {
            for (t, inbox) in receivers.into_iter().enumerate() {
                let (table, next) = (table.clone(), senders[(t + 1) % THREADS].clone());
                scope.spawn(move || {
                    let mut seen = 0;
                    let mut look = |told: String| {
                        assert_eq!(uris(&table, at(1), &told), ["sip:a@192.0.2.1"], "{told}");
                        seen += 1;
                    };
                    let mut mine = table.clone();
                    for i in 0..USERS {
                        let aor = format!("t{t}u{i}@h");
                        register(&mut mine, at(1), &aor, 1, &[contact("sip:a@192.0.2.1", 60)]).unwrap();
                        next.send(aor).unwrap();
                        inbox.try_iter().for_each(&mut look);
                    }
                    drop(next);
                    inbox.into_iter().for_each(&mut look);
                    assert_eq!(seen, USERS);
                });
            }
            drop(senders);
        });
        let expected = THREADS * USERS as usize;
        assert_eq!((table.len(), table.aors()), (expected, expected));
        sweep(&mut table.clone(), at(1000));
        assert_eq!((table.len(), table.aors(), table.stats().expired), (0, 0, expected as u64));
    }

    /// One REGISTER moves two contacts to two others; readers see the former two or the latter, never a mixture, while
    /// other users come, go and expire.
    #[test]
    fn the_change_of_one_register_is_atomic() {
        const ROUNDS: u32 = 20_000;
        let sets = [["sip:1@192.0.2.1", "sip:2@192.0.2.1"], ["sip:1@192.0.2.2", "sip:2@192.0.2.2"]];
        let mut table = SharedLocation::default();
        register(&mut table, at(1), "moving@h", 1, &sets[0].map(|uri| contact(uri, 600))).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for look in 0..100_000_000u64 {
                        let shown = uris(&table, at(1), "moving@h");
                        assert!(sets.iter().any(|set| shown == *set), "{shown:?}");
                        if done.load(Relaxed) && look > 0 {
                            return;
                        }
                    }
                });
            }
            let mut others = table.clone();
            let done = &done;
            scope.spawn(move || {
                for i in 0..1_000_000u64 {
                    // The clock stops before what moves would expire.
                    let now = at((1 + i / 1000).min(500));
                    register(&mut others, now, &format!("u{i}@h"), 1, &[contact("sip:a@192.0.2.1", 1)])
                        .unwrap();
                    others.expire(now);
                    if done.load(Relaxed) {
                        return;
                    }
                }
            });
            let mut moving = table.clone();
            for round in 0..ROUNDS {
                let (from, to) = (sets[round as usize % 2], sets[(round as usize + 1) % 2]);
                let change =
                    [contact(from[0], 0), contact(from[1], 0), contact(to[0], 600), contact(to[1], 600)];
                register(&mut moving, at(1), "moving@h", 2 + round, &change).unwrap();
            }
            done.store(true, Relaxed);
        });
        sweep(&mut table, at(1_000_000));
        assert_eq!((table.len(), table.aors()), (0, 0));
    }
}
