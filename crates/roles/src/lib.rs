//! The SIP roles: sans-IO state machines that run unchanged over real sockets and in the simulator.
#![forbid(unsafe_code)]

pub mod ua;
