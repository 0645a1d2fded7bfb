//! Fuzzes the reader of certificate revocation lists of `roam6_wire::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_wire::fuzz::revocation(data));
