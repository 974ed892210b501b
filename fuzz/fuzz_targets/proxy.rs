//! A script of any bytes against the proxy in virtual time: datagrams, broken or nearly right, answers to what it sent, and
//! time. It must not panic, spin, send without end, or keep anything once all is over.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/roles/tests/proxy_rig/mod.rs"]
mod proxy_rig;

fuzz_target!(|script: &[u8]| proxy_rig::fuzz::exercise(script));
