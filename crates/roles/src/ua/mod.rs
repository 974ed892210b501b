//! User agents: a fleet of software phones in one node.
mod record;

pub use record::{CallRecord, Outcome, PlannedCall, RegisterRecord};
