//! The receive batch: slots that the kernel fills and nodes read in place.

use std::io;
use std::net::SocketAddr;

use busyhour_engine::{Flow, Message};

use crate::mmsg::{self, Received};
use crate::stats::Counters;
use crate::{UdpSocket, WorkerOptions};

/// The fewest datagrams that a receive call asks for.
const WANT_MIN: usize = 4;

/// Added to the distance of slots. Slots of exactly 64 KiB would all begin in the same few sets of the processor's caches,
/// and a full batch of SIP messages would evict itself; 17 cache lines are about one such message.
const SKEW_BYTES: usize = 17 * 64;

pub(crate) struct ReceiveBatch {
    /// One mapping; pages that no datagram has reached are not resident.
    slots: Vec<u8>,
    slot_distance: usize,
    datagram_max: usize,
    batch_max: usize,
    /// How many datagrams the next call asks for.
    want: usize,
    received: Vec<Received>,
    local: SocketAddr,
    wildcard: bool,
}

impl ReceiveBatch {
    pub(crate) fn new(socket: &UdpSocket, options: &WorkerOptions) -> Self {
        let slot_distance = options.datagram_max.next_multiple_of(64) + SKEW_BYTES;
        ReceiveBatch {
            slots: vec![0; slot_distance * options.batch_max],
            slot_distance,
            datagram_max: options.datagram_max,
            batch_max: options.batch_max,
            want: WANT_MIN.min(options.batch_max),
            received: Vec::with_capacity(options.batch_max),
            local: socket.local_addr(),
            wildcard: socket.is_wildcard(),
        }
    }

    /// Takes what waits in the socket, up to the size of a batch. True when more may be there.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, counters: &Counters) -> bool {
        let datagram_max = self.datagram_max;
        let slots = self
            .slots
            .chunks_exact_mut(self.slot_distance)
            .take(self.want)
            .map(|slot| &mut slot[..datagram_max]);
        let result = mmsg::receive(socket, slots, self.wildcard, &mut self.received);
        if let Err(error) = result {
            return after(&error, counters);
        }
        let count = self.received.len();
        let more = count == self.want;
        // Twice what came: a batch that keeps its size is met with one call, and one that grows is caught up with.
        self.want = (2 * count).clamp(WANT_MIN, self.batch_max.max(WANT_MIN)).min(self.batch_max);
        self.count(counters);
        more
    }

    /// Forgets the datagrams: they were handled.
    pub(crate) fn clear(&mut self) {
        self.received.clear();
    }

    /// The datagrams of the batch that are whole and have a source, in the order of their arrival.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        self.received.iter().zip(self.slots.chunks_exact(self.slot_distance)).filter_map(
            |(received, slot)| {
                let peer = received.peer.filter(|_| !received.truncated)?;
                let local = match received.local {
                    Some(ip) => SocketAddr::new(ip, self.local.port()),
                    None => self.local,
                };
                Some(Message { flow: Flow { local, peer }, bytes: &slot[..received.len] })
            },
        )
    }

    fn count(&self, counters: &Counters) {
        let (mut datagrams, mut bytes, mut truncated, mut errors) = (0, 0, 0, 0);
        for received in &self.received {
            match received {
                Received { truncated: true, .. } => truncated += 1,
                Received { peer: None, .. } => errors += 1,
                Received { len, .. } => {
                    datagrams += 1;
                    bytes += *len as u64;
                }
            }
        }
        counters.rx_batches.add(1);
        counters.rx_datagrams.add(datagrams);
        counters.rx_bytes.add(bytes);
        if truncated + errors > 0 {
            counters.rx_truncated.add(truncated);
            counters.rx_errors.add(errors);
        }
    }
}

/// A receive call failed: whether more may be there.
fn after(error: &io::Error, counters: &Counters) -> bool {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => false,
        Some(libc::EINTR) => true,
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL) | None => {
            panic!("recvmmsg was called wrongly: {error}")
        }
        // What ICMP reported about an earlier datagram, or a lack of memory. Reading the error has cleared it.
        Some(_) => {
            counters.rx_errors.add(1);
            false
        }
    }
}
