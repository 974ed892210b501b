//! The proxy against the RFCs, in virtual time. Every test names the section that its expectation comes from.

mod kit;

mod auth;
mod cancel;
mod cluster;
mod forking;
mod forwarding;
mod non_invite;
mod properties;
mod responses;
mod timers;
mod validation;
