//! Fuzzes the story of `roam6_proto::mnpp::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::mnpp::scenario::fuzz(data));
