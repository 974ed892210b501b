//! Byte buffers that transactions keep messages in.

/// Byte buffers used again and again; a burst's surplus is given back to the allocator.
#[derive(Default)]
pub(super) struct Buffers {
    free: Vec<Vec<u8>>,
}

/// The most idle buffers kept, and the largest one worth keeping.
const IDLE_BUFFERS_MAX: usize = 1024;
const KEPT_CAPACITY_MAX: usize = 4096;

impl Buffers {
    /// Makes `buffer` exactly `len` bytes long; what is in them does not matter.
    pub(super) fn resize(&mut self, buffer: &mut Vec<u8>, len: usize) {
        if buffer.capacity() == 0
            && let Some(free) = self.free.pop()
        {
            *buffer = free;
        }
        buffer.resize(len, 0);
    }

    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0
            && buffer.capacity() <= KEPT_CAPACITY_MAX
            && self.free.len() < IDLE_BUFFERS_MAX
        {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}
