//! Datagrams on their way: where from, where to, and their bytes, in recycled storage.
//!
//! A flight is allocated when a node sends and lives until its last copy was delivered or dropped. Storage is in
//! blocks of powers of two, carved out of chunks that are never given back: memory follows the largest number of
//! datagrams that were ever on their way at once, not the number that passed.

use twox_hash::XxHash3_64;

/// The longest payload of a UDP datagram over IPv4.
pub const DATAGRAM_BYTES_MAX: usize = 65_535 - 28;

const SMALLEST_LOG2: u32 = 8;
const CHUNK_LOG2: u32 = 16;
const CLASSES: usize = (CHUNK_LOG2 - SMALLEST_LOG2 + 1) as usize;

/// Names a flight for as long as it lives; ids are used again afterwards.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlightId(pub(crate) u32);

/// One datagram that is on its way.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The link that it is on, or came by.
    pub(crate) link: u32,
    /// XXH3 of the payload, for the trace.
    pub(crate) hash: u64,
    block: u32,
    len: u16,
    class: u8,
    /// How many copies are still on their way; zero when the entry is free.
    copies: u8,
}

impl Flight {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

/// All datagrams on their way.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    entries: Vec<Flight>,
    free: Vec<u32>,
    classes: [Class; CLASSES],
}

#[derive(Debug, Default)]
struct Class {
    chunks: Vec<Box<[u8]>>,
    free: Vec<u32>,
}

impl Flights {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// A new flight with one copy and a copy of `bytes`. Where it goes is not known yet.
    pub(crate) fn add(&mut self, from: u32, bytes: &[u8]) -> FlightId {
        assert!(bytes.len() <= DATAGRAM_BYTES_MAX, "the sender's outbox refuses longer datagrams");
        let class = class_of(bytes.len());
        let block = self.classes[class].take(class);
        self.classes[class].block_mut(class, block)[..bytes.len()].copy_from_slice(bytes);
        let hash = XxHash3_64::oneshot(bytes);
        let flight = Flight {
            from,
            to: u32::MAX,
            link: u32::MAX,
            hash,
            block,
            len: bytes.len() as u16,
            class: class as u8,
            copies: 1,
        };
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = flight;
                FlightId(index)
            }
            None => {
                let index = u32::try_from(self.entries.len()).expect("limited by in_flight_max");
                self.entries.push(flight);
                FlightId(index)
            }
        }
    }

    pub(crate) fn get(&self, id: FlightId) -> &Flight {
        &self.entries[id.0 as usize]
    }

    pub(crate) fn set_destination(&mut self, id: FlightId, to: u32) {
        self.entries[id.0 as usize].to = to;
    }

    pub(crate) fn set_link(&mut self, id: FlightId, link: usize) {
        self.entries[id.0 as usize].link = link as u32;
    }

    pub(crate) fn bytes(&self, id: FlightId) -> &[u8] {
        let flight = self.get(id);
        let class = flight.class as usize;
        &self.classes[class].block(class, flight.block)[..flight.len()]
    }

    /// One more copy of it is on its way.
    pub(crate) fn duplicate(&mut self, id: FlightId) {
        self.entries[id.0 as usize].copies += 1;
    }

    /// One copy has ended.
    pub(crate) fn release(&mut self, id: FlightId) {
        let flight = &mut self.entries[id.0 as usize];
        assert!(flight.copies > 0, "a flight ends once for each copy");
        flight.copies -= 1;
        if flight.copies == 0 {
            self.classes[flight.class as usize].free.push(flight.block);
            self.free.push(id.0);
        }
    }
}

fn class_of(len: usize) -> usize {
    let log2 = len.next_power_of_two().trailing_zeros();
    log2.saturating_sub(SMALLEST_LOG2) as usize
}

impl Class {
    fn take(&mut self, class: usize) -> u32 {
        if let Some(block) = self.free.pop() {
            return block;
        }
        let first = (self.chunks.len() as u32) << Self::blocks_log2(class);
        self.chunks.push(vec![0; 1 << CHUNK_LOG2].into_boxed_slice());
        self.free.extend((first..first + (1 << Self::blocks_log2(class))).rev());
        self.free.pop().expect("a chunk has at least one block")
    }

    fn blocks_log2(class: usize) -> u32 {
        CHUNK_LOG2 - SMALLEST_LOG2 - class as u32
    }

    fn place(class: usize, block: u32) -> (usize, std::ops::Range<usize>) {
        let chunk = block >> Self::blocks_log2(class);
        let size = 1usize << (SMALLEST_LOG2 + class as u32);
        let start = (block & ((1 << Self::blocks_log2(class)) - 1)) as usize * size;
        (chunk as usize, start..start + size)
    }

    fn block(&self, class: usize, block: u32) -> &[u8] {
        let (chunk, range) = Self::place(class, block);
        &self.chunks[chunk][range]
    }

    fn block_mut(&mut self, class: usize, block: u32) -> &mut [u8] {
        let (chunk, range) = Self::place(class, block);
        &mut self.chunks[chunk][range]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_flight_keeps_its_bytes(ops in prop::collection::vec((any::<bool>(), 0usize..DATAGRAM_BYTES_MAX + 1, 0u32..16), 1..200)) {
            let mut flights = Flights::default();
            let mut model: Vec<(FlightId, Vec<u8>)> = Vec::new();
            for (n, (add, len, shift)) in ops.into_iter().enumerate() {
                if add || model.is_empty() {
                    let bytes = vec![n as u8; len >> shift];
                    model.push((flights.add(n as u32, &bytes), bytes));
                } else {
                    let (id, _) = model.swap_remove(len % model.len());
                    flights.release(id);
                }
                prop_assert_eq!(flights.len(), model.len());
                for (id, bytes) in &model {
                    prop_assert_eq!(flights.bytes(*id), &bytes[..]);
                }
            }
        }
    }

    #[test]
    fn a_duplicate_lives_as_long_as_its_last_copy() {
        let mut flights = Flights::default();
        let id = flights.add(0, b"INVITE");
        flights.duplicate(id);
        flights.release(id);
        assert_eq!((flights.bytes(id), flights.len()), (&b"INVITE"[..], 1));
        flights.release(id);
        assert_eq!(flights.len(), 0);
    }
}
