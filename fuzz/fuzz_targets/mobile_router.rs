//! Fuzzes the story of `roam6_proto::nemo::mobile_router::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::nemo::mobile_router::scenario::scenario(data));
