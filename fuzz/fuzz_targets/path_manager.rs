//! Fuzzes the MPTCP path manager by `roam6_proto::mptcp::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::mptcp::fuzz::run(data));
