//! Fuzzes the mobile router by `roam6_proto::nemo::mobile_router::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::nemo::mobile_router::fuzz::run(data));
