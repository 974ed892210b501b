//! The algorithms, one file each, pure: numbers in, decisions out. Knows no SIP, no clock and no I/O.
#![forbid(unsafe_code)]

pub mod dispatch;
