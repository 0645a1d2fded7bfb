//! Fuzzes the home agent by `roam6_proto::nemo::home_agent::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::nemo::home_agent::fuzz::run(data));
