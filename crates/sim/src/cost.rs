//! What a node's work costs in CPU time.

use std::time::Duration;

use busyhour_engine::Node;

/// The CPU time of each thing that a node does, on a host of speed 1. Asked for every message, so cheap: usually a
/// table indexed by the kind of message. The same question must have the same answer; draw nothing at random here.
///
/// A message that is relayed costs `receive` once and `send` once; one that is answered and relayed, `send` twice.
pub trait CostModel<N: Node> {
    /// Taking a message out of the socket and handling it, without what is sent because of it.
    fn receive(&self, node: &N, bytes: &[u8]) -> Duration;
    /// Building and sending one message.
    fn send(&self, node: &N, bytes: &[u8]) -> Duration;
    /// One call of `handle_timeout`, however many timers are due, without what is sent because of it.
    fn timeout(&self, node: &N) -> Duration;
    /// Carrying out a command, without what is sent because of it.
    fn command(&self, node: &N, command: &N::Command) -> Duration;
}

/// Work costs nothing. For tests of correctness: a simulation in which CPU is free cannot be overloaded.
#[derive(Copy, Clone, Debug, Default)]
pub struct FreeCpu;

impl<N: Node> CostModel<N> for FreeCpu {
    fn receive(&self, _: &N, _: &[u8]) -> Duration {
        Duration::ZERO
    }
    fn send(&self, _: &N, _: &[u8]) -> Duration {
        Duration::ZERO
    }
    fn timeout(&self, _: &N) -> Duration {
        Duration::ZERO
    }
    fn command(&self, _: &N, _: &N::Command) -> Duration {
        Duration::ZERO
    }
}

/// The same cost for every message, every timeout and every command.
#[derive(Copy, Clone, Debug, Default)]
pub struct FixedCost {
    /// Per message received.
    pub receive: Duration,
    /// Per message sent.
    pub send: Duration,
    /// Per call of `handle_timeout`.
    pub timeout: Duration,
    /// Per command.
    pub command: Duration,
}

impl<N: Node> CostModel<N> for FixedCost {
    fn receive(&self, _: &N, _: &[u8]) -> Duration {
        self.receive
    }
    fn send(&self, _: &N, _: &[u8]) -> Duration {
        self.send
    }
    fn timeout(&self, _: &N) -> Duration {
        self.timeout
    }
    fn command(&self, _: &N, _: &N::Command) -> Duration {
        self.command
    }
}
