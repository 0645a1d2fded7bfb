//! Fuzzes the scenario of the same name in `roam6_wire::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_wire::scenario::ip4(data));
