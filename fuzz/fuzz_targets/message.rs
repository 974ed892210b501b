//! Any datagram: parse it, ask for everything, edit it, reply to it, and hold the results to the oracle of the property
//! tests. The first byte says how many of the next ones are the edit script.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/sip/tests/common/mod.rs"]
mod common;

fuzz_target!(|data: &[u8]| {
    let Some((&count, rest)) = data.split_first() else {
        return;
    };
    let (script, bytes) = rest.split_at(usize::from(count % 25).min(rest.len()));
    common::exercise(bytes, script);
    common::parse_value(bytes);
});
