//! The send batch: nodes write into it, the worker sends it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use busyhour_engine::{Flow, Full, Sink};

use crate::mmsg::{self, Outgoing};
use crate::stats::Counters;

/// The longest payload of a UDP datagram over IPv4: 65,535 less the headers of IP and UDP. Longer over IPv6 is not worth
/// a second limit.
const DATAGRAM_MAX: usize = 65_507;

/// A chunk holds at least four of the largest datagrams. Only touched pages are resident.
const CHUNK_BYTES: usize = 256 << 10;

/// Messages start on cache lines.
const ALIGN: usize = 64;

/// How often a flush waits for room in the kernel's send buffer, at most, and how long each time: together the longest
/// that a full send buffer stalls a worker per flush.
const WAITS_MAX: u32 = 8;

/// What the worker's socket can do for a flush. A trait, so that tests can be a kernel that fails.
pub(crate) trait Outlet {
    /// Sends a prefix of the messages, in one system call; says how many.
    fn send<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize>;
    /// Waits until the kernel may have room again, for at most a millisecond.
    fn wait_for_room(&mut self);
}

struct Entry {
    to: Flow,
    chunk: u32,
    start: u32,
    len: u32,
}

/// Messages wait here, one after the other, in an arena of chunks that are kept and used again from the first one on,
/// so that the bytes of small batches stay in the processor's cache.
///
/// Invariants: `entries` lie in the chunks before `chunk`, or in `chunk` before `start`; `chunk < chunks.len()`.
pub(crate) struct Outbox {
    chunks: Vec<Box<[u8]>>,
    chunks_max: usize,
    chunk: usize,
    start: usize,
    entries: Vec<Entry>,
    messages_max: usize,
    batch_max: usize,
    /// Whether the socket must be told the source address of each datagram.
    wildcard: bool,
    counters: Arc<Counters>,
}

impl Outbox {
    /// An outbox for at most `bytes_max` bytes (rounded up to whole chunks) that sends `batch_max` messages at a time.
    pub(crate) fn new(bytes_max: usize, batch_max: usize, wildcard: bool, counters: Arc<Counters>) -> Self {
        let chunks_max = bytes_max.div_ceil(CHUNK_BYTES).max(1);
        Outbox {
            chunks: vec![new_chunk()],
            chunks_max,
            chunk: 0,
            start: 0,
            entries: Vec::with_capacity(4 * batch_max),
            // Of messages shorter than this the count is the limit, not the bytes.
            messages_max: chunks_max * (CHUNK_BYTES / 256),
            batch_max,
            wildcard,
            counters,
        }
    }

    /// How many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Finds `len` contiguous bytes; they lie in `chunk` from `start` on.
    fn make_room(&mut self, len: usize) -> Result<(), Full> {
        if len > DATAGRAM_MAX || self.entries.len() == self.messages_max {
            return Err(Full);
        }
        if self.start + len > CHUNK_BYTES {
            if self.chunk + 1 == self.chunks_max {
                return Err(Full);
            }
            if self.chunk + 1 == self.chunks.len() {
                self.chunks.push(new_chunk());
            }
            self.chunk += 1;
            self.start = 0;
        }
        Ok(())
    }

    /// Sends all that waits. Whatever the kernel says, the outbox is empty afterwards and the time spent is bounded.
    pub(crate) fn flush(&mut self, outlet: &mut impl Outlet) {
        let mut waits_left = WAITS_MAX;
        let mut done = 0;
        while done < self.entries.len() {
            let batch = &self.entries[done..self.entries.len().min(done + self.batch_max)];
            let sent = outlet.send(batch.iter().map(|entry| self.outgoing(entry)));
            done += match sent {
                Ok(0) => panic!("the kernel sent no datagram and gave no reason"),
                Ok(sent) => {
                    let bytes: u64 = batch[..sent].iter().map(|entry| u64::from(entry.len)).sum();
                    self.counters.tx_batches.add(1);
                    self.counters.tx_datagrams.add(sent as u64);
                    self.counters.tx_bytes.add(bytes);
                    sent
                }
                Err(error) => self.after(&error, &mut waits_left, outlet),
            };
        }
        self.entries.clear();
        (self.chunk, self.start) = (0, 0);
    }

    /// The kernel refused the first message of a batch: how many to skip.
    fn after(&self, error: &io::Error, waits_left: &mut u32, outlet: &mut impl Outlet) -> usize {
        match error.raw_os_error() {
            Some(libc::EINTR) => 0,
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                if *waits_left == 0 {
                    self.counters.tx_dropped.add(1);
                    return 1;
                }
                *waits_left -= 1;
                outlet.wait_for_room();
                0
            }
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EOPNOTSUPP) | None => {
                panic!("sendmmsg was called wrongly: {error}")
            }
            // The destination's fault: no route, refused by ICMP or a filter, wrong family, port 0, too long a datagram.
            Some(_) => {
                self.counters.tx_errors.add(1);
                1
            }
        }
    }

    fn outgoing(&self, entry: &Entry) -> Outgoing<'_> {
        let bytes = &self.chunks[entry.chunk as usize][entry.start as usize..][..entry.len as usize];
        let from = self.wildcard.then(|| entry.to.local.ip()).filter(is_a_source);
        Outgoing { bytes, peer: entry.to.peer, from }
    }
}

impl Sink for Outbox {
    #[inline]
    fn send(&mut self, to: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full> {
        if let Err(full) = self.make_room(len_max) {
            self.counters.tx_refused.add(1);
            return Err(full);
        }
        let room = &mut self.chunks[self.chunk][self.start..self.start + len_max];
        let len = fill(room);
        assert!(len <= len_max, "a message of {len} bytes was written into {len_max}");
        self.entries.push(Entry { to, chunk: self.chunk as u32, start: self.start as u32, len: len as u32 });
        // May point past the end of the chunk: the next message then goes to the next chunk.
        self.start = (self.start + len).next_multiple_of(ALIGN);
        Ok(())
    }
}

/// Whether datagrams can be sent from this address; otherwise the kernel chooses.
fn is_a_source(ip: &IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast()
}

/// The pages come from the kernel, zeroed and not resident until written.
fn new_chunk() -> Box<[u8]> {
    vec![0; CHUNK_BYTES].into_boxed_slice()
}

/// The socket itself.
pub(crate) struct SocketOutlet<'a>(pub(crate) &'a crate::UdpSocket);

impl Outlet for SocketOutlet<'_> {
    fn send<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
        mmsg::send(self.0, messages)
    }

    fn wait_for_room(&mut self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let millisecond = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        // Whatever it says, the next send finds out.
        let _ = poll(&mut [PollFd::new(self.0, PollFlags::OUT)], Some(&millisecond));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that answers as told and keeps what it was given.
    #[derive(Default)]
    struct Kernel {
        answers: Vec<Result<usize, i32>>,
        sent: Vec<Vec<u8>>,
        largest_batch: usize,
        waits: u32,
    }

    impl Outlet for Kernel {
        fn send<'a>(&mut self, messages: impl Iterator<Item = Outgoing<'a>>) -> io::Result<usize> {
            let batch: Vec<Vec<u8>> = messages.map(|m| m.bytes.to_vec()).collect();
            self.largest_batch = self.largest_batch.max(batch.len());
            let answer = if self.answers.is_empty() { Ok(batch.len()) } else { self.answers.remove(0) };
            let n = answer.map_err(io::Error::from_raw_os_error)?.min(batch.len());
            self.sent.extend_from_slice(&batch[..n]);
            Ok(n)
        }

        fn wait_for_room(&mut self) {
            self.waits += 1;
        }
    }

    fn outbox(bytes_max: usize) -> Outbox {
        Outbox::new(bytes_max, 16, false, Arc::new(Counters::default()))
    }

    fn flow() -> Flow {
        Flow { local: "127.0.0.1:5060".parse().unwrap(), peer: "127.0.0.1:5070".parse().unwrap() }
    }

    fn numbered(outbox: &mut Outbox, n: u8) {
        for i in 0..n {
            outbox.send_bytes(flow(), &[i; 3]).unwrap();
        }
    }

    #[test]
    fn messages_leave_in_order_and_in_batches() {
        let (mut outbox, mut kernel) = (outbox(1), Kernel { answers: vec![Ok(5)], ..Kernel::default() });
        numbered(&mut outbox, 100);
        outbox.flush(&mut kernel);
        assert_eq!(kernel.sent, (0..100).map(|i| vec![i; 3]).collect::<Vec<_>>());
        assert_eq!((kernel.largest_batch, outbox.len()), (16, 0));
        let stats = outbox.counters.read();
        assert_eq!((stats.tx_datagrams, stats.tx_bytes, stats.tx_batches), (100, 300, 7));
    }

    #[test]
    fn a_refused_destination_costs_only_its_own_datagram() {
        let answers = vec![Ok(2), Err(libc::ECONNREFUSED), Ok(1), Err(libc::EINTR), Err(libc::ENETUNREACH)];
        let (mut outbox, mut kernel) = (outbox(1), Kernel { answers, ..Kernel::default() });
        numbered(&mut outbox, 8);
        outbox.flush(&mut kernel);
        assert_eq!(kernel.sent, [0, 1, 3, 5, 6, 7].map(|i| vec![i; 3]));
        assert_eq!((outbox.counters.tx_errors.get(), kernel.waits), (2, 0));
    }

    #[test]
    fn a_full_kernel_buffer_is_waited_for_within_bounds() {
        let answers =
            [vec![Err(libc::EAGAIN), Err(libc::ENOBUFS)], vec![Ok(1)], vec![Err(libc::EAGAIN); 8]].concat();
        let (mut outbox, mut kernel) = (outbox(1), Kernel { answers, ..Kernel::default() });
        numbered(&mut outbox, 4);
        outbox.flush(&mut kernel);
        // Two waits, one sent, six waits, then two messages given up without a wait, and the last one taken.
        assert_eq!(kernel.sent, [vec![0; 3], vec![3; 3]]);
        assert_eq!((kernel.waits, outbox.counters.tx_dropped.get()), (WAITS_MAX, 2));
    }

    #[test]
    fn the_arena_is_bounded_and_used_again() {
        let (mut outbox, mut kernel) = (outbox(2 * CHUNK_BYTES), Kernel::default());
        for _ in 0..3 {
            let mut taken = 0;
            while outbox.send_bytes(flow(), &[7; 60_000]).is_ok() {
                taken += 1;
            }
            assert_eq!(taken, 8, "four to a chunk");
            outbox.flush(&mut kernel);
            assert_eq!(outbox.chunks.len(), 2);
        }
        assert_eq!(outbox.counters.tx_refused.get(), 3);
        assert!(kernel.sent.iter().all(|m| m == &[7; 60_000]) && kernel.sent.len() == 24);
    }

    #[test]
    fn the_number_of_small_messages_is_bounded() {
        let mut outbox = outbox(1);
        let mut taken = 0;
        while outbox.send_bytes(flow(), b"").is_ok() {
            taken += 1;
        }
        assert_eq!(taken, CHUNK_BYTES / 256);
    }

    #[test]
    fn what_is_reserved_and_not_used_takes_no_room() {
        let (mut outbox, mut kernel) = (outbox(1), Kernel::default());
        for i in 0..100 {
            outbox.send(flow(), 8_192, |buf| buf[..10].fill_with_index(i)).unwrap();
        }
        outbox.flush(&mut kernel);
        assert_eq!(kernel.sent, (0..100).map(|i| vec![i; 10]).collect::<Vec<_>>());
    }

    trait FillWithIndex {
        fn fill_with_index(&mut self, i: u8) -> usize;
    }

    impl FillWithIndex for [u8] {
        fn fill_with_index(&mut self, i: u8) -> usize {
            self.fill(i);
            self.len()
        }
    }

    #[test]
    fn no_datagram_is_longer_than_udp_can_carry() {
        let mut outbox = outbox(1);
        assert_eq!(
            outbox.send(flow(), DATAGRAM_MAX + 1, |_| unreachable!("not called when refused")),
            Err(Full)
        );
        assert_eq!(outbox.send(flow(), DATAGRAM_MAX, |_| DATAGRAM_MAX), Ok(()));
        assert_eq!(outbox.counters.tx_refused.get(), 1);
    }

    #[test]
    #[should_panic(expected = "a message of 5 bytes was written into 4")]
    fn a_message_longer_than_announced_is_a_bug() {
        let _ = outbox(1).send(flow(), 4, |_| 5);
    }
}
