//! What a message costs a role in CPU time: the table by which simulated hosts are charged.

use std::time::Duration;

use busyhour_engine::Node;
use busyhour_sim::CostModel;

use crate::role::Role;

/// Service times of the roles on a host of speed 1. User agents cost nothing: they stand for many machines.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceTimes {
    /// A balancer takes in a message.
    balancer_receive: Duration,
    /// A balancer sends a message on.
    balancer_send: Duration,
    /// A proxy takes in an INVITE: matching, credentials, look-up, a new transaction.
    proxy_invite: Duration,
    /// A proxy takes in a REGISTER: credentials, bindings.
    proxy_register: Duration,
    /// A proxy takes in any other request.
    proxy_request: Duration,
    /// A proxy takes in a response.
    proxy_response: Duration,
    /// A proxy sends a message.
    proxy_send: Duration,
    /// A node looks after its timers.
    timeout: Duration,
}

const fn micros_tenths(n: u64) -> Duration {
    Duration::from_nanos(n * 100)
}

impl ServiceTimes {
    /// Where [`ServiceTimes::MEASURED`] comes from, for reports.
    pub(super) const CONDITIONS: &str = "from 1,500 calls/s through one balancer and one proxy on sockets: 155 µs of \
        CPU per call in the balancer (13 messages in and out), 152 µs in the proxy (7 in, 6 out), system calls included; \
        2-core x86-64 virtual machine with other work on it, Linux 6.18; shared out over the kinds of message by estimate";

    /// The table in use: it adds up to the CPU time per call that [`ServiceTimes::CONDITIONS`] tells.
    pub(super) const MEASURED: ServiceTimes = ServiceTimes {
        balancer_receive: micros_tenths(45),
        balancer_send: micros_tenths(75),
        proxy_invite: micros_tenths(200),
        proxy_register: micros_tenths(180),
        proxy_request: micros_tenths(120),
        proxy_response: micros_tenths(120),
        proxy_send: micros_tenths(80),
        timeout: micros_tenths(10),
    };
}

impl CostModel<Role> for ServiceTimes {
    fn receive(&self, node: &Role, bytes: &[u8]) -> Duration {
        match node {
            Role::Balancer(_) => self.balancer_receive,
            Role::Proxy(_) if bytes.starts_with(b"INVITE ") => self.proxy_invite,
            Role::Proxy(_) if bytes.starts_with(b"REGISTER ") => self.proxy_register,
            Role::Proxy(_) if bytes.starts_with(b"SIP/") => self.proxy_response,
            Role::Proxy(_) => self.proxy_request,
            Role::Fleet(_) => Duration::ZERO,
        }
    }

    fn send(&self, node: &Role, _: &[u8]) -> Duration {
        match node {
            Role::Balancer(_) => self.balancer_send,
            Role::Proxy(_) => self.proxy_send,
            Role::Fleet(_) => Duration::ZERO,
        }
    }

    fn timeout(&self, node: &Role) -> Duration {
        match node {
            Role::Balancer(_) | Role::Proxy(_) => self.timeout,
            Role::Fleet(_) => Duration::ZERO,
        }
    }

    fn command(&self, _: &Role, _: &<Role as Node>::Command) -> Duration {
        Duration::ZERO
    }
}
