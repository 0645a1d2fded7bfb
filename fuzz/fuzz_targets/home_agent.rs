//! Fuzzes the story of `roam6_proto::nemo::home_agent::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::nemo::home_agent::scenario::scenario(data));
