//! Fuzzes the reader of certificate trust lists of `roam6_wire::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_wire::fuzz::trust_list(data));
