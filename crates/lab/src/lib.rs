//! The lab: experiments on real sockets or in the simulator, with the same roles and the same policies.
//!
//! An experiment file ([`experiment`]) says what runs under which load ([`arrivals`]) and what is expected; [`run`] runs
//! it; [`measure`] collects what the phones and proxies tell; [`report`] and [`live`] show it. [`swarm`] runs random clusters
//! under random faults, and [`callflow`] shows what happens in them.

pub mod arrivals;
pub mod callflow;
mod driver;
pub mod experiment;
pub mod input;
pub mod live;
pub mod measure;
pub mod report;
pub(crate) mod role;
pub mod run;
pub mod swarm;

pub use driver::Driver;
