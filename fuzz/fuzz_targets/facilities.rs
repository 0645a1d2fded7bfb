//! Fuzzes `roam6_proto::facilities::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::facilities::fuzz::run(data));
