//! Addresses and messages that several tests share.

use std::net::Ipv6Addr;

pub(crate) const HOME: &str = "2001:db8::100";
pub(crate) const HOME_AGENT: &str = "2001:db8::1";
pub(crate) const CARE_OF: &str = "2001:db8:1::100";

pub(crate) fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(crate) fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
