//! End to end: the binary as a user starts it, and software that nobody here wrote on the other side of the wire.
//!
//! Every test has loopback addresses of its own (`place`), so they run side by side. SIPp plays callers and callees by the
//! scenarios in `scenarios/`; sipsak asks with OPTIONS; Kamailio is a proxy behind our balancer; `wire` sends by hand what
//! none of them would. All runs are bounded in calls and time.

mod calls;
mod kamailio;
mod membership;
mod operation;
mod place;
mod registration;
mod sipp;
mod tool;
mod torture;
mod up;
mod wire;
