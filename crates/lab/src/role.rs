//! The roles of a simulated cluster as one type of node: a simulator runs nodes of one type.

use busyhour_engine::{Instant, Message, Node, Sink};
use busyhour_roles::balancer::{self, Balancer};
use busyhour_roles::proxy::{self, Proxy};
use busyhour_roles::ua::{self, Fleet};

/// A balancer, a proxy, or a fleet of user agents.
pub(crate) enum Role {
    Balancer(Box<Balancer>),
    Proxy(Box<Proxy>),
    Fleet(Box<Fleet>),
}

/// A command to the role of the same name.
#[derive(Clone, Debug)]
pub(crate) enum RoleCommand {
    Balancer(balancer::Command),
    Proxy(proxy::Command),
    Fleet(ua::Command),
}

/// An event of the role of the same name.
#[derive(Clone, Debug)]
pub(crate) enum RoleEvent {
    Balancer(balancer::Event),
    Proxy(proxy::Event),
    Fleet(ua::Event),
}

impl Role {
    /// The balancer that this is.
    pub(crate) fn as_balancer(&self) -> Option<&Balancer> {
        match self {
            Role::Balancer(balancer) => Some(balancer),
            Role::Proxy(_) | Role::Fleet(_) => None,
        }
    }

    /// The proxy that this is.
    pub(crate) fn as_proxy(&self) -> Option<&Proxy> {
        match self {
            Role::Proxy(proxy) => Some(proxy),
            Role::Balancer(_) | Role::Fleet(_) => None,
        }
    }

    /// The fleet that this is.
    pub(crate) fn as_fleet(&self) -> Option<&Fleet> {
        match self {
            Role::Fleet(fleet) => Some(fleet),
            Role::Balancer(_) | Role::Proxy(_) => None,
        }
    }
}

impl Node for Role {
    type Command = RoleCommand;
    type Event = RoleEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>, out: &mut impl Sink) {
        match self {
            Role::Balancer(node) => node.handle_message(now, message, out),
            Role::Proxy(node) => node.handle_message(now, message, out),
            Role::Fleet(node) => node.handle_message(now, message, out),
        }
    }

    /// # Panics
    /// When the command is for another role: whoever gave it has mixed up its nodes.
    fn handle_command(&mut self, now: Instant, command: RoleCommand, out: &mut impl Sink) {
        match (self, command) {
            (Role::Balancer(node), RoleCommand::Balancer(command)) => node.handle_command(now, command, out),
            (Role::Proxy(node), RoleCommand::Proxy(command)) => node.handle_command(now, command, out),
            (Role::Fleet(node), RoleCommand::Fleet(command)) => node.handle_command(now, command, out),
            (Role::Balancer(_) | Role::Proxy(_) | Role::Fleet(_), command) => {
                panic!("a command for another role: {command:?}")
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut impl Sink) {
        match self {
            Role::Balancer(node) => node.handle_timeout(now, out),
            Role::Proxy(node) => node.handle_timeout(now, out),
            Role::Fleet(node) => node.handle_timeout(now, out),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self {
            Role::Balancer(node) => node.next_deadline(),
            Role::Proxy(node) => node.next_deadline(),
            Role::Fleet(node) => node.next_deadline(),
        }
    }

    fn poll_event(&mut self) -> Option<RoleEvent> {
        match self {
            Role::Balancer(node) => node.poll_event().map(RoleEvent::Balancer),
            Role::Proxy(node) => node.poll_event().map(RoleEvent::Proxy),
            Role::Fleet(node) => node.poll_event().map(RoleEvent::Fleet),
        }
    }
}
