//! A hierarchical timing wheel: 1 ms ticks, insert and cancel in O(1), generation-checked ids.
//!
//! Six levels of 64 slots reach 2³⁶ ms (over two years); what lies beyond waits in the last level and is placed again.
//! Invariant: `tick` never passes an occupied slot; every entry sits in the lowest level whose block holds both its
//! deadline and `tick`. A timer never fires early: deadlines are rounded up to the next tick.

use std::time::Duration;

use crate::Instant;

const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const NONE: u32 = u32::MAX;
const TICK_NANOS: u64 = 1_000_000;

/// Names one armed timer. A stale id (fired or cancelled) is recognised and ignored.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

struct Entry<T> {
    value: Option<T>,
    deadline: u64,
    next: u32,
    prev: u32,
    slot: u16,
    generation: u32,
}

/// Timers of one node; `T` says what each is for. Grows to the largest number of timers armed at once: bounding that
/// number is up to the tables whose entries they belong to.
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
    /// Every tick up to and including this one has been expired.
    tick: u64,
    occupied: [u64; LEVELS],
    heads: [u32; LEVELS * SLOTS],
    /// Head of the list of entries that are due and not yet taken.
    due: u32,
}

const DUE: u16 = (LEVELS * SLOTS) as u16;

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Wheel {
            entries: Vec::new(),
            free: NONE,
            len: 0,
            tick: 0,
            occupied: [0; LEVELS],
            heads: [NONE; LEVELS * SLOTS],
            due: NONE,
        }
    }
}

impl<T> Wheel<T> {
    /// A wheel without timers.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer. One that lies in the past fires at the next millisecond.
    pub fn insert(&mut self, at: Instant, value: T) -> TimerId {
        let deadline = at.as_nanos().div_ceil(TICK_NANOS).max(self.tick + 1);
        let index = if self.free == NONE {
            self.entries.push(Entry {
                value: None,
                deadline,
                next: NONE,
                prev: NONE,
                slot: 0,
                generation: 0,
            });
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 timers")
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            index
        };
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        entry.deadline = deadline;
        let generation = entry.generation;
        self.len += 1;
        self.place(index);
        TimerId { index, generation }
    }

    /// Disarms a timer and gives back what it was for; `None` when it had already fired or been cancelled.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation != id.generation || entry.value.is_none() {
            return None;
        }
        self.unlink(id.index);
        self.release(id.index)
    }

    /// The next timer that is due at `now`, earliest tick first; `None` when nothing (more) is due.
    pub fn pop_expired(&mut self, now: Instant) -> Option<T> {
        let target = now.as_nanos() / TICK_NANOS;
        loop {
            if self.due != NONE {
                let index = self.due;
                self.unlink(index);
                return self.release(index);
            }
            match self.earliest_slot() {
                Some((level, at)) if at <= target => {
                    self.tick = self.tick.max(at);
                    self.empty_slot(level, at);
                }
                // Nothing occupied lies up to `target`: moving there keeps every placement.
                Some(_) | None => {
                    self.tick = self.tick.max(target);
                    return None;
                }
            }
        }
    }

    /// When [`Wheel::pop_expired`] should be called next. Never later than the earliest timer; it can be earlier, when
    /// far timers have to be placed anew, but is always later than the `now` of a `pop_expired` that returned `None`.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.due != NONE {
            return Some(Instant::from_nanos(self.tick * TICK_NANOS));
        }
        self.earliest_slot().map(|(_, at)| Instant::from_nanos(at * TICK_NANOS))
    }

    /// The longest time that a timer fires after its deadline when the driver is punctual.
    pub const RESOLUTION: Duration = Duration::from_nanos(TICK_NANOS);

    /// The earliest occupied slot: its level and the first tick that it covers. Slots of lower levels come first:
    /// they lie inside the current block of the level above.
    fn earliest_slot(&self) -> Option<(usize, u64)> {
        for level in 0..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let position = (self.tick >> shift) as u32 & (SLOTS as u32 - 1);
            let ahead = self.occupied[level].rotate_right(position);
            if ahead != 0 {
                let distance = u64::from(ahead.trailing_zeros());
                return Some((level, ((self.tick >> shift) + distance) << shift));
            }
        }
        None
    }

    /// Moves every entry of the slot that starts at tick `at` to where it belongs once `tick` is there.
    fn empty_slot(&mut self, level: usize, at: u64) {
        let slot = level * SLOTS + ((at >> (level as u32 * SLOT_BITS)) as usize & (SLOTS - 1));
        let mut index = std::mem::replace(&mut self.heads[slot], NONE);
        self.occupied[level] &= !(1 << (slot % SLOTS));
        while index != NONE {
            let next = self.entries[index as usize].next;
            self.place(index);
            index = next;
        }
    }

    fn place(&mut self, index: u32) {
        let deadline = self.entries[index as usize].deadline;
        if deadline <= self.tick {
            self.link(index, DUE);
            return;
        }
        let highest_bit = 63 - (deadline ^ self.tick).leading_zeros();
        let level = ((highest_bit / SLOT_BITS) as usize).min(LEVELS - 1);
        let block = deadline >> (level as u32 * SLOT_BITS);
        // Past the reach of the last level: the slot farthest ahead, from where it is placed again.
        let here = self.tick >> (level as u32 * SLOT_BITS);
        let block = if level == LEVELS - 1 { block.min(here + SLOTS as u64 - 1) } else { block };
        self.link(index, (level * SLOTS + (block as usize & (SLOTS - 1))) as u16);
    }

    fn link(&mut self, index: u32, slot: u16) {
        let head = if slot == DUE { &mut self.due } else { &mut self.heads[slot as usize] };
        let next = std::mem::replace(head, index);
        if next != NONE {
            self.entries[next as usize].prev = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.next, entry.prev, entry.slot) = (next, NONE, slot);
        if slot != DUE {
            self.occupied[slot as usize / SLOTS] |= 1 << (slot as usize % SLOTS);
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { next, prev, slot, .. } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev != NONE {
            self.entries[prev as usize].next = next;
        } else if slot == DUE {
            self.due = next;
        } else {
            self.heads[slot as usize] = next;
            if next == NONE {
                self.occupied[slot as usize / SLOTS] &= !(1 << (slot as usize % SLOTS));
            }
        }
    }

    fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        let value = entry.value.take();
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * TICK_NANOS)
    }

    #[test]
    fn a_timer_never_fires_early_and_at_most_a_tick_late() {
        let mut wheel = Wheel::new();
        wheel.insert(Instant::from_nanos(1_500_000), "a");
        assert_eq!(wheel.pop_expired(Instant::from_nanos(1_999_999)), None);
        assert_eq!(wheel.pop_expired(ms(2)), Some("a"));
    }

    #[test]
    fn a_stale_id_cancels_nothing() {
        let mut wheel = Wheel::new();
        let first = wheel.insert(ms(5), 1);
        assert_eq!(wheel.cancel(first), Some(1));
        let second = wheel.insert(ms(5), 2);
        assert_eq!(wheel.cancel(first), None);
        assert_eq!(wheel.pop_expired(ms(9)), Some(2));
        assert_eq!(wheel.cancel(second), None);
        assert!(wheel.is_empty());
    }

    #[test]
    fn years_ahead_is_not_lost() {
        let mut wheel = Wheel::new();
        let far = 3 * 365 * 24 * 3600 * 1000;
        wheel.insert(ms(far), ());
        let mut steps = 0;
        while let Some(at) = wheel.next_deadline() {
            assert!(at <= ms(far));
            if wheel.pop_expired(at).is_some() {
                assert_eq!(at, ms(far));
            }
            steps += 1;
            assert!(steps < 1000, "placed anew without end");
        }
        assert!(wheel.is_empty());
    }

    proptest! {
        /// Against a sorted map, over deadlines from milliseconds to weeks.
        #[test]
        fn it_does_what_a_sorted_map_does(ops in prop::collection::vec((0u8..4, 0u64..1u64 << 33, 0u32..32), 1..300)) {
            let mut wheel = Wheel::new();
            let mut model: BTreeMap<u64, (u64, TimerId)> = BTreeMap::new();
            let (mut now, mut key) = (0u64, 0u64);
            for (op, x, scale) in ops {
                let span = x >> scale;
                match op {
                    0 | 1 => {
                        let id = wheel.insert(ms(now + span), key);
                        model.insert(key, ((now + span).max(now + 1), id));
                        key += 1;
                    }
                    2 => {
                        if let Some((&k, &(_, id))) = model.iter().nth(span as usize % model.len().max(1)) {
                            prop_assert_eq!(wheel.cancel(id), Some(k));
                            model.remove(&k);
                        }
                    }
                    _ => {
                        now += span;
                        let mut last = 0;
                        while let Some(k) = wheel.pop_expired(ms(now)) {
                            let (deadline, _) = model.remove(&k).expect("known");
                            prop_assert!(deadline <= now && deadline >= last);
                            last = deadline;
                        }
                        prop_assert!(model.values().all(|&(d, _)| d > now));
                        if let Some(next) = wheel.next_deadline() {
                            prop_assert!(next > ms(now));
                            prop_assert!(next <= ms(model.values().map(|&(d, _)| d).min().unwrap()));
                        }
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }
}
