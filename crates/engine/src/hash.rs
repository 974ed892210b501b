//! Seeded hashing. Every table keyed by what peers send is keyed by a 64-bit SipHash under a secret seed, so that
//! nobody who does not know the seed can make two keys collide; the tables then store the hash itself.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use siphasher::sip::SipHasher13;

/// The secret of a seeded 64-bit hash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HashSeed(pub u64, pub u64);

impl HashSeed {
    /// The hash of `parts`, one after the other. Each part's length is hashed too: `["ab", "c"]` and `["a", "bc"]` differ.
    pub fn hash(self, parts: &[&[u8]]) -> u64 {
        let mut h = SipHasher13::new_with_keys(self.0, self.1);
        for part in parts {
            h.write(part);
            h.write_u32(part.len() as u32);
        }
        h.finish()
    }
}

/// A map whose keys are already 64-bit hashes.
pub type PrehashedMap<V> = HashMap<u64, V, BuildHasherDefault<Prehashed>>;
/// A set whose keys are already 64-bit hashes.
pub type PrehashedSet = HashSet<u64, BuildHasherDefault<Prehashed>>;

/// Passes a `u64` through; anything else is a programming error.
#[derive(Default)]
pub struct Prehashed(u64);

impl Hasher for Prehashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 keys are prehashed");
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
