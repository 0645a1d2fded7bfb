//! Fuzzes `roam6_proto::geo::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::geo::fuzz::run(data));
