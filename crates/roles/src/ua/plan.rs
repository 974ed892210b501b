//! What a fleet has been told to do and has not begun.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use busyhour_engine::Instant;

use super::PlannedCall;

/// Planned calls, earliest first; those planned for one instant in the order in which they came.
#[derive(Default)]
pub(super) struct Plan {
    heap: BinaryHeap<Reverse<Entry>>,
    next: u64,
}

#[derive(PartialEq, Eq)]
struct Entry {
    number: u64,
    call: PlannedCall,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.call.at, self.number).cmp(&(other.call.at, other.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Plan {
    pub(super) fn add(&mut self, call: PlannedCall) {
        self.heap.push(Reverse(Entry { number: self.next, call }));
        self.next += 1;
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<PlannedCall> {
        if self.next_deadline()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.call)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.call.at)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}
