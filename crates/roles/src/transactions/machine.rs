//! The INVITE and the non-INVITE machine behind one face, for UDP.

use busyhour_engine::Instant;
use busyhour_sip::Method;
use busyhour_sip::transaction::{
    ClientAction, InviteClient, InviteServer, NonInviteClient, NonInviteServer, Reliability, ServerAction,
    Timers,
};

const UDP: Reliability = Reliability::Unreliable;

#[derive(Copy, Clone, Debug)]
pub(super) enum ServerMachine {
    Invite(InviteServer),
    NonInvite(NonInviteServer),
}

impl ServerMachine {
    pub(super) fn start(now: Instant, timers: &Timers, method: Method<'_>) -> Self {
        if method == Method::Invite {
            ServerMachine::Invite(InviteServer::start(now, timers))
        } else {
            ServerMachine::NonInvite(NonInviteServer::start(now, timers))
        }
    }

    pub(super) fn on_request(&mut self, now: Instant) -> ServerAction {
        self.step(|m| m.on_request(now), |m| m.on_request(now))
    }

    pub(super) fn on_ack(&mut self, now: Instant, timers: &Timers) -> ServerAction {
        self.step(|m| m.on_ack(now, timers, UDP), |m| (m, ServerAction::NONE))
    }

    pub(super) fn respond(&mut self, now: Instant, timers: &Timers, status: u16) -> ServerAction {
        self.step(|m| m.respond(now, timers, UDP, status), |m| m.respond(now, timers, UDP, status))
    }

    pub(super) fn on_timeout(&mut self, now: Instant, timers: &Timers) -> ServerAction {
        self.step(|m| m.on_timeout(now, timers, UDP), |m| m.on_timeout(now, timers, UDP))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            ServerMachine::Invite(m) => m.deadline(),
            ServerMachine::NonInvite(m) => m.deadline(),
        }
    }

    pub(super) fn is_terminated(&self) -> bool {
        match self {
            ServerMachine::Invite(m) => m.is_terminated(),
            ServerMachine::NonInvite(m) => m.is_terminated(),
        }
    }

    /// No final response has been given yet.
    pub(super) fn is_open(&self) -> bool {
        match self {
            ServerMachine::Invite(m) => matches!(m, InviteServer::Proceeding { .. }),
            ServerMachine::NonInvite(m) => {
                matches!(m, NonInviteServer::Trying { .. } | NonInviteServer::Proceeding)
            }
        }
    }

    /// The last response may have to be sent again.
    pub(super) fn repeats_response(&self) -> bool {
        match self {
            ServerMachine::Invite(m) => {
                matches!(m, InviteServer::Proceeding { .. } | InviteServer::Completed { .. })
            }
            ServerMachine::NonInvite(m) => !m.is_terminated(),
        }
    }

    fn step(
        &mut self,
        invite: impl FnOnce(InviteServer) -> (InviteServer, ServerAction),
        other: impl FnOnce(NonInviteServer) -> (NonInviteServer, ServerAction),
    ) -> ServerAction {
        match *self {
            ServerMachine::Invite(m) => {
                let (next, action) = invite(m);
                *self = ServerMachine::Invite(next);
                action
            }
            ServerMachine::NonInvite(m) => {
                let (next, action) = other(m);
                *self = ServerMachine::NonInvite(next);
                action
            }
        }
    }
}

#[derive(Copy, Clone, Debug)]
pub(super) enum ClientMachine {
    Invite(InviteClient),
    NonInvite(NonInviteClient),
}

impl ClientMachine {
    pub(super) fn start(now: Instant, timers: &Timers, method: Method<'_>) -> Self {
        if method == Method::Invite {
            ClientMachine::Invite(InviteClient::start(now, timers, UDP))
        } else {
            ClientMachine::NonInvite(NonInviteClient::start(now, timers, UDP))
        }
    }

    pub(super) fn on_response(&mut self, now: Instant, timers: &Timers, status: u16) -> ClientAction {
        self.step(|m| m.on_response(now, timers, UDP, status), |m| m.on_response(now, timers, UDP, status))
    }

    pub(super) fn on_timeout(&mut self, now: Instant, timers: &Timers) -> ClientAction {
        self.step(|m| m.on_timeout(now, timers, UDP), |m| m.on_timeout(now, timers, UDP))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            ClientMachine::Invite(m) => m.deadline(),
            ClientMachine::NonInvite(m) => m.deadline(),
        }
    }

    pub(super) fn is_terminated(&self) -> bool {
        match self {
            ClientMachine::Invite(m) => m.is_terminated(),
            ClientMachine::NonInvite(m) => m.is_terminated(),
        }
    }

    /// The request may have to be sent again, or a CANCEL or ACK made from it.
    pub(super) fn needs_request(&self) -> bool {
        match self {
            ClientMachine::Invite(m) => matches!(m, InviteClient::Calling { .. } | InviteClient::Proceeding),
            ClientMachine::NonInvite(m) => {
                matches!(m, NonInviteClient::Trying { .. } | NonInviteClient::Proceeding { .. })
            }
        }
    }

    pub(super) fn is_invite(&self) -> bool {
        matches!(self, ClientMachine::Invite(_))
    }

    fn step(
        &mut self,
        invite: impl FnOnce(InviteClient) -> (InviteClient, ClientAction),
        other: impl FnOnce(NonInviteClient) -> (NonInviteClient, ClientAction),
    ) -> ClientAction {
        match *self {
            ClientMachine::Invite(m) => {
                let (next, action) = invite(m);
                *self = ClientMachine::Invite(next);
                action
            }
            ClientMachine::NonInvite(m) => {
                let (next, action) = other(m);
                *self = ClientMachine::NonInvite(next);
                action
            }
        }
    }
}
