//! Fuzzes the reader of case files and whatever roles they set up: a recording comes from anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::case::scenario(data));
