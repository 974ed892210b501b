//! The receive queue of a node: what the kernel holds for a socket, bounded in bytes of kernel memory and in datagrams.

use std::collections::VecDeque;

use crate::flight::FlightId;

/// What `net.core.rmem_default` gives a socket on Linux, unless its program asks for more with `SO_RCVBUF` (which the
/// kernel doubles).
pub const DEFAULT_RECEIVE_BYTES: u64 = 212_992;

/// The kernel memory that a UDP datagram with `len` bytes of payload takes in a receive queue (the `truesize` of its
/// buffer): 256 bytes of bookkeeping, and a block for 379 bytes of headers and trailer besides the payload.
/// Blocks are 576 bytes or a power of two; beyond 16 KiB they are pages. Measured with `SO_MEMINFO` on Linux 6.18,
/// x86-64, over the loopback interface; network cards whose drivers receive into fixed pages take more.
pub const fn datagram_memory(len: usize) -> u64 {
    let block = len as u64 + 379;
    match block {
        0..=576 => 832,
        577..=16_383 => 256 + block.next_power_of_two(),
        16_384.. => len as u64 + 832,
    }
}

/// Datagrams that wait for the node, oldest first. A datagram that the node is working on has left the queue.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    waiting: VecDeque<(FlightId, u64)>,
    bytes: u64,
    bytes_max: u64,
    len_max: usize,
}

impl ReceiveQueue {
    pub(crate) fn new(bytes_max: u64, len_max: usize) -> ReceiveQueue {
        ReceiveQueue { waiting: VecDeque::new(), bytes: 0, bytes_max, len_max }
    }

    /// Queues a datagram of `len` bytes, or says no. The rule is the kernel's: what it takes must fit whole.
    pub(crate) fn push(&mut self, flight: FlightId, len: usize) -> bool {
        let memory = datagram_memory(len);
        if self.waiting.len() >= self.len_max || self.bytes + memory > self.bytes_max {
            return false;
        }
        self.bytes += memory;
        self.waiting.push_back((flight, memory));
        true
    }

    pub(crate) fn pop(&mut self) -> Option<FlightId> {
        let (flight, memory) = self.waiting.pop_front()?;
        self.bytes -= memory;
        Some(flight)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `SO_MEMINFO` said for one queued datagram of each length.
    #[test]
    fn memory_is_what_linux_takes() {
        for (len, memory) in [
            (1, 832),
            (197, 832),
            (198, 1280),
            (645, 1280),
            (646, 2304),
            (1669, 2304),
            (1670, 4352),
            (3718, 8448),
            (7814, 16_640),
            (16_004, 16_640),
            (16_005, 16_837),
            (19_000, 19_832),
        ] {
            assert_eq!(datagram_memory(len), memory, "{len} bytes");
        }
    }

    /// A socket with 10,000 bytes of receive buffer took 7 of 50 datagrams of 500 bytes, 8,960 bytes in all.
    #[test]
    fn it_overflows_where_linux_does() {
        let mut queue = ReceiveQueue::new(10_000, usize::MAX);
        let taken = (0..50).filter(|_| queue.push(FlightId::default(), 500)).count();
        assert_eq!((taken, queue.bytes()), (7, 8960));
        queue.pop().expect("seven wait");
        assert!(queue.push(FlightId::default(), 500));
    }

    #[test]
    fn it_is_bounded_in_datagrams_too() {
        let mut queue = ReceiveQueue::new(u64::MAX, 2);
        assert_eq!((0..5).filter(|_| queue.push(FlightId::default(), 1)).count(), 2);
        assert_eq!(queue.len(), 2);
    }
}
