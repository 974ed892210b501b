//! Which member of a set gets a call.

mod rendezvous;

pub use rendezvous::{Candidate, select};
