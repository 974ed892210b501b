//! Every test names the section that it holds the fleet to.

mod callee;
mod caller;
mod kit;
mod register;
