//! The contract between a role and its driver.

use std::net::SocketAddr;

use crate::Instant;

/// Where a message came from, or goes to: a UDP socket of this node and the peer's address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The node's own address.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
}

/// One received message, as it was on the wire.
#[derive(Copy, Clone, Debug)]
pub struct Message<'a> {
    /// How it came.
    pub flow: Flow,
    /// The whole message; over UDP, the datagram.
    pub bytes: &'a [u8],
}

/// The driver's send queue is full: the message was dropped and counted by the driver.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Full;

/// Where a node puts outgoing messages: straight into the driver's send batch.
pub trait Sink {
    /// Queues one message to `to`. `fill` writes it into a buffer of `len_max` bytes and returns how many it used.
    ///
    /// # Errors
    /// [`Full`] when there is no room; `fill` has then not been called.
    fn send(&mut self, to: Flow, len_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), Full>;

    /// Queues a message that is already serialised.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    fn send_bytes(&mut self, to: Flow, bytes: &[u8]) -> Result<(), Full> {
        self.send(to, bytes.len(), |buf| {
            buf[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        })
    }
}

/// A sans-IO state machine. `now` never goes backwards from one call to the next.
pub trait Node {
    /// What the rest of the system orders it to do.
    type Command;
    /// What it tells the rest of the system.
    type Event;

    /// A message arrived.
    fn handle_message(&mut self, now: Instant, message: Message<'_>, out: &mut impl Sink);
    /// An order from the rest of the system.
    fn handle_command(&mut self, now: Instant, command: Self::Command, out: &mut impl Sink);
    /// Does all that is due. Afterwards [`Node::next_deadline`] is later than `now`.
    fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink);
    /// When [`Node::handle_timeout`] wants to be called next, at the latest.
    fn next_deadline(&self) -> Option<Instant>;
    /// The next event, oldest first. Drivers ask after every batch of inputs, before they flush what was sent:
    /// what an event tells others in this process is known to them before a peer can react to the messages.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// One thing that a driver gives a node.
#[derive(Debug)]
pub enum Input<'a, C> {
    /// A message arrived.
    Message(Message<'a>),
    /// An order from the rest of the system.
    Command(C),
    /// A deadline passed, or may have.
    Timeout,
}

/// The one way by which drivers run nodes: does what is due first, then the input.
///
/// # Panics
/// When the node still has a deadline at or before `now` after its `handle_timeout`: it would spin.
pub fn pump<N: Node>(node: &mut N, now: Instant, input: Input<'_, N::Command>, out: &mut impl Sink) {
    if node.next_deadline().is_some_and(|at| at <= now) {
        node.handle_timeout(now, out);
        assert!(
            node.next_deadline().is_none_or(|at| at > now),
            "a deadline is left behind after handle_timeout({now:?})"
        );
    }
    match input {
        Input::Message(message) => node.handle_message(now, message, out),
        Input::Command(command) => node.handle_command(now, command, out),
        Input::Timeout => {}
    }
}
