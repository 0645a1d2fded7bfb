//! Fuzzes `roam6_proto::geo::mnpp::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::geo::mnpp::fuzz::run(data));
