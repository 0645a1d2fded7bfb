//! Fuzzes the reader of case files and the roles that they create: a recording is untrusted input.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::case::scenario(data));
