//! The SIP roles: sans-IO state machines that run unchanged over real sockets and in the simulator.
#![forbid(unsafe_code)]

mod address;
pub mod auth;
pub mod balancer;
mod dialog;
pub mod location;
pub mod proxy;
pub mod registrar;
#[cfg(test)]
mod testing;
pub mod transactions;
pub mod ua;
