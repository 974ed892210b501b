//! The location table that the proxies of a process share.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use busyhour_engine::{HashSeed, Instant};
use busyhour_roles::location::{Change, Contact, Limits, Location, Origin, RegisterError, Table};

/// Shards are locked one at a time, so this many proxies can write at once without waiting for each other, on average.
const SHARDS: usize = 64;

/// A location table behind locks, one per shard. Clones share it: what one registers, all see at once.
#[derive(Clone)]
pub struct SharedLocation {
    seed: HashSeed,
    shards: Arc<[RwLock<Table>]>,
}

impl SharedLocation {
    /// An empty table whose limits hold for each of 64 shards. `seed` must not be known to peers.
    pub fn new(limits: Limits, seed: HashSeed) -> Self {
        let shard = |_| RwLock::new(Table::new(limits, seed));
        SharedLocation { seed, shards: (0..SHARDS).map(shard).collect() }
    }

    fn shard(&self, aor: &[u8]) -> &RwLock<Table> {
        &self.shards[self.seed.hash(&[b"shard", aor]) as usize % SHARDS]
    }
}

/// A table is consistent between its operations, and none of them panics half way: poisoning says nothing.
fn read(shard: &RwLock<Table>) -> RwLockReadGuard<'_, Table> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Table>) -> RwLockWriteGuard<'_, Table> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}

impl Default for SharedLocation {
    fn default() -> Self {
        SharedLocation::new(Limits::default(), HashSeed(0, 0))
    }
}

impl Location for SharedLocation {
    fn lookup(&self, now: Instant, aor: &[u8], show: &mut dyn FnMut(Contact<'_>)) {
        read(self.shard(aor)).lookup(now, aor, show);
    }

    fn register(
        &mut self,
        now: Instant,
        aor: &[u8],
        origin: &Origin<'_>,
        change: Change<'_>,
        show: &mut dyn FnMut(Contact<'_>),
    ) -> Result<(), RegisterError> {
        write(self.shard(aor)).register(now, aor, origin, change, show)
    }

    fn len(&self) -> usize {
        self.shards.iter().map(|s| read(s).len()).sum()
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|s| read(s).is_empty())
    }

    fn expire(&mut self, now: Instant) {
        self.shards.iter().for_each(|s| write(s).expire(now));
    }

    fn next_expiry(&self) -> Option<Instant> {
        self.shards.iter().filter_map(|s| read(s).next_expiry()).min()
    }
}
