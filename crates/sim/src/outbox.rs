//! The sink of a node that is running: its messages, one behind the other in one buffer.

use std::net::SocketAddr;

use busyhour_engine::{Flow, Full, Sink};

use crate::flight::DATAGRAM_BYTES_MAX;

/// What one input may make a node send, in bytes. Reached only by a node that runs away.
const BYTES_MAX: usize = 64 << 20;

/// What the node sent in answer to one input. The buffer is used again for every input of every node.
#[derive(Debug)]
pub(crate) struct Outbox {
    local: SocketAddr,
    bytes: Vec<u8>,
    used: usize,
    letters: Vec<Letter>,
    letters_max: usize,
    refused: u64,
}

#[derive(Copy, Clone, Debug)]
struct Letter {
    to: SocketAddr,
    end: usize,
}

impl Outbox {
    pub(crate) fn new(local: SocketAddr, letters_max: usize) -> Outbox {
        Outbox { local, bytes: Vec::new(), used: 0, letters: Vec::new(), letters_max, refused: 0 }
    }

    /// Empties it for the node whose address is `local`.
    pub(crate) fn reset(&mut self, local: SocketAddr) {
        self.local = local;
        self.used = 0;
        self.letters.clear();
        self.refused = 0;
    }

    /// How many messages were refused since the last reset.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// The messages and where they go, in the order in which they were sent.
    pub(crate) fn letters(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let mut start = 0;
        self.letters.iter().map(move |letter| {
            let bytes = &self.bytes[start..letter.end];
            start = letter.end;
            (letter.to, bytes)
        })
    }
}

impl Sink for Outbox {
    fn send(&mut self, to: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full> {
        assert_eq!(to.local, self.local, "a node sends from its own address");
        if self.letters.len() >= self.letters_max || self.used + len_max > BYTES_MAX {
            self.refused += 1;
            return Err(Full);
        }
        if self.bytes.len() < self.used + len_max {
            self.bytes.resize(self.used + len_max, 0);
        }
        let len = fill(&mut self.bytes[self.used..self.used + len_max]);
        assert!(len <= len_max, "a message of {len} bytes was written into a buffer of {len_max}");
        if len > DATAGRAM_BYTES_MAX {
            // The driver took it, and the kernel would answer EMSGSIZE.
            self.refused += 1;
            return Ok(());
        }
        self.used += len;
        self.letters.push(Letter { to: to.peer, end: self.used });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_and_the_limit_holds() {
        let local: SocketAddr = "10.0.0.1:5060".parse().unwrap();
        let peer: SocketAddr = "10.0.0.2:5060".parse().unwrap();
        let flow = Flow { local, peer };
        let mut outbox = Outbox::new(local, 2);
        assert_eq!(
            outbox.send(flow, DATAGRAM_BYTES_MAX + 1, |buf| buf.len()),
            Ok(()),
            "too long for a datagram"
        );
        outbox
            .send(flow, 100, |buf| {
                buf[..3].copy_from_slice(b"ACK");
                3
            })
            .unwrap();
        outbox.send_bytes(flow, b"BYE").unwrap();
        assert_eq!(outbox.send_bytes(flow, b"no"), Err(Full));
        assert_eq!(outbox.letters().collect::<Vec<_>>(), [(peer, &b"ACK"[..]), (peer, &b"BYE"[..])]);
        assert_eq!(outbox.refused(), 2);
        outbox.reset(local);
        assert_eq!((outbox.letters().count(), outbox.refused()), (0, 0));
    }
}
