//! A bounded part of a table: an index, the bindings themselves, and the Paths that they share.
//!
//! Bindings lie one after the other in one buffer (the arena) and are named by their offset. Those of one
//! address-of-record form a list, in the order in which a lookup shows them. A binding that goes leaves dead bytes
//! behind; the arena is packed anew when they are too many. Nothing here is larger than what one address-of-record
//! splits off, so the longest pause is that of copying one segment.

use busyhour_engine::Instant;

use super::Contact;
use super::index::Index;
use super::paths::{PathId, Paths};
use super::record::{HEADER_LEN, Header, next_of, set_next};

/// See the module documentation. A head is the offset of a first binding plus 1; 0 is an empty list.
#[derive(Debug, Default)]
pub(super) struct Segment {
    index: Index,
    arena: Vec<u8>,
    dead: usize,
    bindings: usize,
    paths: Paths,
}

/// What one binding is made of, apart from its place.
#[derive(Copy, Clone, Debug)]
pub(super) struct Binding<'a> {
    pub(super) hash: u64,
    pub(super) ends_s: u32,
    pub(super) call_id: u64,
    pub(super) cseq: u32,
    pub(super) branch: u32,
    pub(super) q: u16,
    pub(super) uri: &'a [u8],
    pub(super) path: &'a [u8],
}

impl Segment {
    /// How many addresses-of-record it has.
    pub(super) fn aors(&self) -> usize {
        self.index.used()
    }

    /// How many bindings it has, expired ones included.
    pub(super) fn bindings(&self) -> usize {
        self.bindings
    }

    /// Bytes of heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes() + self.arena.capacity() + self.paths.heap_bytes()
    }

    /// The bytes that a binding takes here at most.
    pub(super) fn binding_len_max(uri: &[u8], path: &[u8]) -> usize {
        HEADER_LEN + uri.len() + path.len()
    }

    /// The slot of an address-of-record, by its hash.
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        self.index.find(hash as u32, |head| self.header(head).high == (hash >> 32) as u32)
    }

    /// The first binding in a slot.
    pub(super) fn head(&self, slot: Option<usize>) -> u32 {
        slot.map_or(0, |slot| self.index.head(slot))
    }

    /// Puts a list in its slot, or takes it out when it has become empty. `slot` is what [`Segment::find`] found.
    pub(super) fn set_head(&mut self, hash: u64, slot: Option<usize>, head: u32) {
        match (slot, head) {
            (None, 0) => {}
            (None, head) => self.index.insert(hash as u32, head),
            (Some(slot), 0) => self.index.remove(slot),
            (Some(slot), head) => self.index.set_head(slot, head),
        }
    }

    /// The bindings of a list.
    pub(super) fn list(&self, head: u32) -> impl Iterator<Item = (u32, Header)> + Clone + '_ {
        let mut head = head;
        std::iter::from_fn(move || {
            let this = head;
            let header = (this != 0).then(|| self.header(this))?;
            head = header.next;
            Some((this, header))
        })
    }

    /// The URI of a binding.
    pub(super) fn uri(&self, head: u32, header: &Header) -> &[u8] {
        let start = offset(head) + HEADER_LEN;
        &self.arena[start..start + usize::from(header.uri_len)]
    }

    fn path(&self, head: u32, header: &Header) -> &[u8] {
        if header.path == PathId::INLINE {
            let start = offset(head) + HEADER_LEN + usize::from(header.uri_len);
            &self.arena[start..start + usize::from(header.path_len)]
        } else {
            self.paths.text(header.path)
        }
    }

    /// Shows the bindings of a list that have not ended.
    pub(super) fn show(&self, head: u32, now_s: u32, show: &mut dyn FnMut(Contact<'_>)) {
        for (at, header) in self.list(head).filter(|(_, header)| header.ends_s > now_s) {
            show(Contact {
                uri: self.uri(at, &header),
                q: header.q,
                path: self.path(at, &header),
                expires_at: Instant::from_nanos(u64::from(header.ends_s) * 1_000_000_000),
            });
        }
    }

    /// Makes room for `len` more bytes of bindings. Lists found before lie elsewhere afterwards.
    pub(super) fn reserve(&mut self, len: usize) {
        if self.arena.capacity() - self.arena.len() >= len {
            return;
        }
        if self.dead * 4 >= self.arena.len() && self.dead >= len {
            self.pack(len);
        } else {
            self.arena.reserve_exact(len.max(self.arena.len() / 8));
        }
    }

    /// Adds a binding to a list; returns the list's new head. Room must have been made.
    pub(super) fn add(&mut self, head: u32, binding: &Binding<'_>) -> u32 {
        let path = self.paths.add(binding.path);
        let header = Header {
            next: 0,
            high: (binding.hash >> 32) as u32,
            ends_s: binding.ends_s,
            call_id: binding.call_id,
            cseq: binding.cseq,
            branch: binding.branch,
            q: binding.q,
            uri_len: binding.uri.len() as u16,
            path_len: if path == PathId::INLINE { binding.path.len() as u16 } else { 0 },
            path,
        };
        let start = self.arena.len();
        assert!(start + header.len() <= self.arena.capacity(), "room was made for every binding");
        self.arena.resize(start + HEADER_LEN, 0);
        header.write(&mut self.arena[start..]);
        self.arena.extend_from_slice(binding.uri);
        if path == PathId::INLINE {
            self.arena.extend_from_slice(binding.path);
        }
        self.bindings += 1;
        let at = u32::try_from(start + 1).expect("a segment has less than 4 GiB");
        self.link(head, at, header.q)
    }

    /// Replaces the binding at `at` by `binding`; returns the list's new head. Room must have been made.
    pub(super) fn replace(&mut self, head: u32, at: u32, binding: &Binding<'_>) -> u32 {
        let header = self.header(at);
        if self.uri(at, &header) != binding.uri || self.path(at, &header) != binding.path {
            let head = self.remove(head, at);
            return self.add(head, binding);
        }
        let head = self.unlink(head, at, header.next);
        let Binding { ends_s, call_id, cseq, branch, q, .. } = *binding;
        Header { ends_s, call_id, cseq, branch, q, ..header }.write(&mut self.arena[offset(at)..]);
        self.link(head, at, q)
    }

    /// Removes the binding at `at` from a list; returns the list's new head.
    pub(super) fn remove(&mut self, head: u32, at: u32) -> u32 {
        let header = self.header(at);
        self.paths.release(header.path);
        self.dead += header.len();
        self.bindings -= 1;
        self.unlink(head, at, header.next)
    }

    /// Removes the bindings of a list that have ended; returns the list's new head and how many they were.
    pub(super) fn remove_ended(&mut self, mut head: u32, now_s: u32) -> (u32, u64) {
        let (mut at, mut removed) = (head, 0);
        while at != 0 {
            let header = self.header(at);
            if header.ends_s <= now_s {
                head = self.remove(head, at);
                removed += 1;
            }
            at = header.next;
        }
        (head, removed)
    }

    /// Removes every binding that has ended, and gives back memory when much is unused. Returns how many they were and
    /// when the next one ends.
    pub(super) fn sweep(&mut self, now_s: u32) -> (u64, Option<u32>) {
        let (mut removed, mut next_s) = (0, None);
        for slot in 0..self.index.len() {
            // Another list moves into the slot of one that goes.
            while self.index.head(slot) != 0 {
                let (head, ended) = self.remove_ended(self.index.head(slot), now_s);
                removed += ended;
                if head != 0 {
                    self.index.set_head(slot, head);
                    let earliest = self.list(head).map(|(_, header)| header.ends_s).min();
                    next_s = earliest.into_iter().chain(next_s).min();
                    break;
                }
                self.index.remove(slot);
            }
        }
        if self.dead * 2 > self.arena.len() {
            self.pack(0);
            self.index.shrink();
        }
        (removed, next_s)
    }

    /// The two halves of this segment, by the bit of the hash's upper half that `bit` masks.
    pub(super) fn split(&self, bit: u32) -> [Segment; 2] {
        let side = |head: u32| usize::from(self.header(head).high & bit != 0);
        let heads =
            || (0..self.index.len()).map(|slot| (slot, self.index.head(slot))).filter(|&(_, head)| head != 0);
        let (mut aors, mut bytes) = ([0; 2], [0; 2]);
        for (_, head) in heads() {
            aors[side(head)] += 1;
            bytes[side(head)] += self.list(head).map(|(_, header)| header.len()).sum::<usize>();
        }
        let mut halves = [0, 1].map(|i| Segment {
            index: Index::with_room_for(aors[i]),
            arena: Vec::with_capacity(bytes[i] + bytes[i] / 8),
            dead: 0,
            bindings: 0,
            paths: self.paths.without_references(),
        });
        for (slot, head) in heads() {
            let half = &mut halves[side(head)];
            let moved = copy_list(&self.arena, head, &mut half.arena, |header| {
                half.paths.keep(header.path);
                half.bindings += 1;
            });
            half.index.insert(self.index.tag(slot), moved);
        }
        for half in &mut halves {
            half.paths.trim();
        }
        halves
    }

    /// Copies the living bindings to a new arena that has room for at least `len` more bytes.
    fn pack(&mut self, len: usize) {
        let live = self.arena.len() - self.dead;
        let mut packed = Vec::with_capacity(live + len.max(live / 8));
        for slot in 0..self.index.len() {
            let head = self.index.head(slot);
            if head != 0 {
                self.index.set_head(slot, copy_list(&self.arena, head, &mut packed, |_| ()));
            }
        }
        assert_eq!(packed.len(), live, "every byte is either alive or counted as dead");
        (self.arena, self.dead) = (packed, 0);
    }

    fn header(&self, head: u32) -> Header {
        Header::read(&self.arena[offset(head)..])
    }

    /// Puts the binding at `at` before the first one that is not preferred to it.
    fn link(&mut self, head: u32, at: u32, q: u16) -> u32 {
        let (mut before, mut after) = (0, head);
        while after != 0 {
            let header = self.header(after);
            if header.q <= q {
                break;
            }
            (before, after) = (after, header.next);
        }
        set_next(&mut self.arena[offset(at)..], after);
        self.join(head, before, at)
    }

    fn unlink(&mut self, head: u32, at: u32, next: u32) -> u32 {
        if head == at {
            return next;
        }
        let mut before = head;
        loop {
            let follows = next_of(&self.arena[offset(before)..]);
            if follows == at {
                return self.join(head, before, next);
            }
            before = follows;
        }
    }

    /// Makes `at` follow `before`, or the first when that is 0.
    fn join(&mut self, head: u32, before: u32, at: u32) -> u32 {
        if before == 0 {
            return at;
        }
        set_next(&mut self.arena[offset(before)..], at);
        head
    }
}

fn offset(head: u32) -> usize {
    head as usize - 1
}

/// Copies a list to the end of another arena, in order; returns its head there.
fn copy_list(from: &[u8], head: u32, to: &mut Vec<u8>, mut copied: impl FnMut(&Header)) -> u32 {
    let first = to.len() as u32 + 1;
    let mut at = head;
    while at != 0 {
        let start = offset(at);
        let header = Header::read(&from[start..]);
        let copy = to.len();
        to.extend_from_slice(&from[start..start + header.len()]);
        let next = if header.next == 0 { 0 } else { to.len() as u32 + 1 };
        set_next(&mut to[copy..], next);
        copied(&header);
        at = header.next;
    }
    first
}
