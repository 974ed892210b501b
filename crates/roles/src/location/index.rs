//! The index of a segment: open addressing with linear probing, eight bytes a slot.
//!
//! A slot holds the lower half of an address-of-record's hash (the tag) and where its first binding lies. The upper
//! half lies with the bindings. Positions come from the highest bits of the tag; the lowest are left to whoever shares
//! address-of-records out over tables. Removal moves later entries back, so there are no tombstones.

/// See the module documentation. A head is an offset plus 1; 0 marks an empty slot.
#[derive(Debug, Default)]
pub(super) struct Index {
    slots: Vec<u64>,
    used: usize,
}

impl Index {
    /// An index with room for `used` entries.
    pub(super) fn with_room_for(used: usize) -> Self {
        Index { slots: vec![0; Self::capacity_for(used)], used: 0 }
    }

    /// Two thirds full; it grows at four fifths.
    fn capacity_for(used: usize) -> usize {
        used * 3 / 2 + 4
    }

    /// How many entries there are.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The head in a slot; 0 when it is empty.
    pub(super) fn head(&self, slot: usize) -> u32 {
        self.slots[slot] as u32
    }

    /// The tag in a slot.
    pub(super) fn tag(&self, slot: usize) -> u32 {
        (self.slots[slot] >> 32) as u32
    }

    /// The slot with this tag whose head `is_it`.
    pub(super) fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == tag && is_it(slot as u32) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Adds an entry that is not there.
    pub(super) fn insert(&mut self, tag: u32, head: u32) {
        if (self.used + 1) * 5 > self.slots.len() * 4 {
            self.resize();
        }
        self.place(tag, head);
        self.used += 1;
    }

    /// Gives the entry in a slot another head.
    pub(super) fn set_head(&mut self, slot: usize, head: u32) {
        debug_assert!(head != 0 && self.slots[slot] != 0);
        self.slots[slot] = self.slots[slot] >> 32 << 32 | u64::from(head);
    }

    /// Removes the entry in a slot. Another entry may move there, never one from a lower slot.
    pub(super) fn remove(&mut self, slot: usize) {
        let (mut hole, mut at) = (slot, slot);
        loop {
            at = self.after(at);
            let entry = self.slots[at];
            if entry == 0 {
                break;
            }
            let home = self.home((entry >> 32) as u32);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.slots[hole] = entry;
                hole = at;
            }
        }
        self.slots[hole] = 0;
        self.used -= 1;
    }

    /// Gives back memory when most slots are empty.
    pub(super) fn shrink(&mut self) {
        if self.slots.len() > 2 * Self::capacity_for(self.used) {
            self.resize();
        }
    }

    fn resize(&mut self) {
        let old = std::mem::replace(&mut self.slots, vec![0; Self::capacity_for(self.used + 1)]);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            self.place((slot >> 32) as u32, slot as u32);
        }
    }

    fn place(&mut self, tag: u32, head: u32) {
        debug_assert!(head != 0);
        let mut at = self.home(tag);
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = u64::from(tag) << 32 | u64::from(head);
    }

    /// Maps the tag's range onto the slots in order, whatever their number.
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map; tags are few, so that entries collide and wrap around.
        #[test]
        fn it_does_what_a_map_does(ops in prop::collection::vec((0u8..3, 0u32..24), 1..400)) {
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            let tag_of = |key: u32| if key < 12 { u32::MAX - key % 5 } else { (key % 7) << 29 };
            for (op, key) in ops {
                let (tag, head) = (tag_of(key), key + 1);
                let found = index.find(tag, |h| h == head);
                prop_assert_eq!(found.is_some(), model.contains_key(&key));
                match (op, found) {
                    (0 | 1, None) => {
                        index.insert(tag, head);
                        model.insert(key, tag);
                    }
                    (0 | 1, Some(slot)) => index.set_head(slot, head),
                    (_, Some(slot)) => {
                        index.remove(slot);
                        model.remove(&key);
                        index.shrink();
                    }
                    (_, None) => {}
                }
                prop_assert_eq!(index.used(), model.len());
                for (&key, &tag) in &model {
                    prop_assert!(index.find(tag, |h| h == key + 1).is_some());
                }
            }
        }
    }
}
