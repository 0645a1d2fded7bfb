//! Fuzzes the DHCPv6-PD client by `roam6_proto::link::prefix_delegation::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roam6_proto::link::prefix_delegation::fuzz::run(data));
