//! What happens when: datagrams that arrive, actions that were scheduled, and the next moment of each node.
//!
//! Everything is ordered by time, and at the same time by the order in which it was put in (or by the node's number),
//! so that the order never depends on anything but the seed.

/// A queue of (time, id) pairs: earliest first, and at the same time in the order of insertion.
///
/// A radix heap: entries lie in the bucket of the highest bit in which their time differs from that of the last one
/// taken, and are dealt out into lower buckets when their turn comes near. It needs what a simulation guarantees
/// anyway, that nothing is put in before the time of what was taken out last, and gives constant amortised cost, no
/// comparisons up and down a tree, and sequential memory access. Dealing keeps the order within a bucket, and entries
/// of the same time always share one, hence the order of insertion.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The time of the entry that was taken last; no entry is earlier.
    last: u64,
    len: usize,
    /// Which of the buckets above bucket 0 hold something.
    occupied: u64,
    /// The earliest time in each bucket.
    earliest: [u64; BUCKETS],
    buckets: [Vec<(u64, u32)>; BUCKETS],
    /// How much of bucket 0, whose entries are all of the time `last`, was taken already.
    taken: usize,
}

const BUCKETS: usize = 64;
/// Two hundred and ninety-two years: beyond it lies "never".
const LATEST: u64 = i64::MAX as u64;

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            last: 0,
            len: 0,
            occupied: 0,
            earliest: [u64::MAX; BUCKETS],
            buckets: std::array::from_fn(|_| Vec::new()),
            taken: 0,
        }
    }
}

impl EventQueue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, at: u64, id: u32) {
        assert!(at >= self.last, "an event at {at} ns lies before {} ns, which has passed", self.last);
        self.len += 1;
        self.place(at.min(LATEST), id);
    }

    fn place(&mut self, at: u64, id: u32) {
        let bucket = (u64::BITS - (at ^ self.last).leading_zeros()) as usize;
        self.buckets[bucket].push((at, id));
        if bucket > 0 {
            self.occupied |= 1 << bucket;
            self.earliest[bucket] = self.earliest[bucket].min(at);
        }
    }

    /// The time of the earliest entry; `u64::MAX` when there is none.
    pub(crate) fn next_at(&self) -> u64 {
        if self.taken < self.buckets[0].len() {
            return self.last;
        }
        if self.occupied == 0 { u64::MAX } else { self.earliest[self.occupied.trailing_zeros() as usize] }
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        if self.taken == self.buckets[0].len() && !self.deal() {
            return None;
        }
        let entry = self.buckets[0][self.taken];
        self.taken += 1;
        self.len -= 1;
        if self.taken == self.buckets[0].len() {
            self.buckets[0].clear();
            self.taken = 0;
        }
        Some(entry)
    }

    /// Moves the earliest entries into bucket 0, which is empty; false when there are none anywhere.
    fn deal(&mut self) -> bool {
        if self.occupied == 0 {
            return false;
        }
        let bucket = self.occupied.trailing_zeros() as usize;
        self.last = std::mem::replace(&mut self.earliest[bucket], u64::MAX);
        self.occupied &= !(1 << bucket);
        let mut entries = std::mem::take(&mut self.buckets[bucket]);
        for &(at, id) in &entries {
            self.place(at, id);
        }
        entries.clear();
        self.buckets[bucket] = entries;
        true
    }
}

/// The next moment of every node: when its current work is done or, while it is idle, its next deadline.
/// A tournament: each inner vertex names the node with the earlier moment; of equal ones, the lower number wins.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    at: Vec<u64>,
    winners: Vec<u32>,
}

/// No moment at all.
pub(crate) const NEVER: u64 = u64::MAX;

impl Wakeups {
    /// Adds the next node, without a moment.
    pub(crate) fn add(&mut self, node: usize) {
        if node >= self.at.len() {
            self.at.resize((node + 1).next_power_of_two(), NEVER);
            self.winners = vec![0; self.at.len()];
            for vertex in (1..self.at.len()).rev() {
                self.winners[vertex] = self.winner(vertex);
            }
        }
    }

    /// Sets the moment of a node, or [`NEVER`].
    pub(crate) fn set(&mut self, node: usize, at: u64) {
        if self.at[node] == at {
            return;
        }
        self.at[node] = at;
        let mut vertex = (self.at.len() + node) / 2;
        while vertex >= 1 {
            let before = self.winners[vertex];
            let winner = self.winner(vertex);
            self.winners[vertex] = winner;
            // Neither was nor is it this node's: nothing changes further up.
            if before == winner && winner != node as u32 {
                return;
            }
            vertex /= 2;
        }
    }

    /// When the given node's moment is.
    pub(crate) fn get(&self, node: usize) -> u64 {
        self.at[node]
    }

    /// The earliest moment and whose it is; the moment is [`NEVER`] when there is none.
    pub(crate) fn earliest(&self) -> (u64, usize) {
        match self.at.len() {
            0 => (NEVER, 0),
            1 => (self.at[0], 0),
            _ => {
                let node = self.winners[1] as usize;
                (self.at[node], node)
            }
        }
    }

    fn winner(&self, vertex: usize) -> u32 {
        let side = |child: usize| match child.checked_sub(self.at.len()) {
            Some(node) => node as u32,
            None => self.winners[child],
        };
        let (left, right) = (side(2 * vertex), side(2 * vertex + 1));
        if self.at[right as usize] < self.at[left as usize] { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_as_from_a_sorted_map(ops in prop::collection::vec((0u8..5, any::<u32>(), 0u32..32), 1..400)) {
            let mut queue = EventQueue::default();
            let mut model = BTreeMap::new();
            let mut now = 0u64;
            for (id, (op, ahead, shift)) in ops.into_iter().enumerate() {
                let id = id as u32;
                if op < 3 {
                    let at = now + u64::from(ahead >> shift);
                    queue.push(at, id);
                    model.insert((at, id), ());
                } else {
                    let expected = model.pop_first().map(|(key, ())| key);
                    prop_assert_eq!(queue.next_at(), expected.map_or(u64::MAX, |(at, _)| at));
                    prop_assert_eq!(queue.pop(), expected);
                    now = expected.map_or(now, |(at, _)| at);
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }

        #[test]
        fn the_earliest_node_wins(ops in prop::collection::vec((0usize..40, 0u64..50), 1..200)) {
            let mut wakeups = Wakeups::default();
            let mut model = BTreeMap::new();
            let mut nodes = 0;
            for (node, at) in ops {
                while nodes <= node {
                    wakeups.add(nodes);
                    nodes += 1;
                }
                let at = if at == 0 { NEVER } else { at };
                wakeups.set(node, at);
                model.insert(node, at);
                let expected = model.iter().map(|(&node, &at)| (at, node)).min().expect("not empty");
                let got = wakeups.earliest();
                prop_assert_eq!(got.0, expected.0);
                if expected.0 != NEVER {
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "has passed")]
    fn the_past_is_refused() {
        let mut queue = EventQueue::default();
        queue.push(10, 0);
        queue.pop();
        queue.push(9, 1);
    }
}
