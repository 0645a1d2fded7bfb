//! Fuzzes the reader of messages of enrolment and authorisation of `roam6_wire::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_wire::fuzz::provisioning(data));
