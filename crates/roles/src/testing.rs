//! A sink for unit tests: keeps what a node sent.

use std::net::SocketAddr;

use busyhour_engine::{Flow, Full, Sink};

/// Everything that was sent, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Where each message went, and the message.
    pub(crate) messages: Vec<(Flow, Vec<u8>)>,
    /// Whether the sink refuses messages, as a driver does that has no room.
    pub(crate) is_full: bool,
}

impl Sent {
    /// The one message that was sent: where to, and its text.
    ///
    /// # Panics
    /// When none was sent, or several.
    pub(crate) fn take_one(&mut self) -> (SocketAddr, String) {
        assert_eq!(self.messages.len(), 1, "one message is sent: {self:?}");
        let (flow, bytes) = self.messages.remove(0);
        (flow.peer, String::from_utf8(bytes).expect("test messages are UTF-8"))
    }
}

impl Sink for Sent {
    fn send(&mut self, to: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full> {
        if self.is_full {
            return Err(Full);
        }
        let mut buf = vec![0; len_max];
        let len = fill(&mut buf);
        buf.truncate(len);
        self.messages.push((to, buf));
        Ok(())
    }
}
