//! Fuzzes the Shim6 engine by `roam6_proto::shim::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::shim::fuzz::run(data));
