//! The `busyhour` binary.
fn main() {}
