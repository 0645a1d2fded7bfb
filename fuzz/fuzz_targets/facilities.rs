//! Fuzzes the story of `roam6_proto::facilities::scenario`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::facilities::scenario::scenario(data));
