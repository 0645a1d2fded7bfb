//! The addresses of the MPTCP subflows (RFC 8684 §3.2) that go by encrypted paths: one for each home address and BID. A subflow from
//! a care-of address would pass beside the devices, in the clear. Both ends derive the address, and the packets of a subflow take
//! the path with its BID in both directions.
//!
//! ```text
//! | fd72:6f61:6d36::/48 | 76 bits of SHA-256 of the home address | 4 bits of BID |
//! ```
//!
//! They are local addresses (RFC 4193), seen by mobile router and home agent alone. All mobile routers share one Global ID, contrary to
//! §3.2.1: so that filters tell these addresses from others without state.

use crate::contract::config::encryption::MAX_WIREGUARD_BID;
use roam6_wire::{Bid, Prefix};
use sha2::{Digest, Sha256};
use std::net::Ipv6Addr;

/// The network of all of them; bpf/abi.h has the same.
const NETWORK: Ipv6Addr = Ipv6Addr::new(0xfd72, 0x6f61, 0x6d36, 0, 0, 0, 0, 0);
const NETWORK_LENGTH: u8 = 48;
/// Length of the prefix of those of one home address.
pub const PREFIX_LENGTH: u8 = 124;
/// Distinguishes the hash from others of the same address.
const LABEL: &[u8] = b"roam6 subflow";
const BIDS: u128 = MAX_WIREGUARD_BID as u128 - 1;

/// The prefix that has all of them.
pub fn subflow_network() -> Prefix {
    truncated(NETWORK, NETWORK_LENGTH)
}

/// The prefix of those of a home address.
pub fn subflow_prefix(home: Ipv6Addr) -> Prefix {
    let digest = Sha256::new().chain_update(LABEL).chain_update(home.octets()).finalize();
    let hash = digest.iter().take(size_of::<u128>()).fold(0_u128, |sum, octet| sum << 8 | u128::from(*octet));
    truncated(Ipv6Addr::from_bits(NETWORK.to_bits() | hash >> NETWORK_LENGTH), PREFIX_LENGTH)
}

/// That of a path; `None`: a path with this BID is not encrypted.
pub fn subflow_address(home: Ipv6Addr, bid: Bid) -> Option<Ipv6Addr> {
    let is_known = bid.0 < MAX_WIREGUARD_BID;
    is_known.then(|| Ipv6Addr::from_bits(subflow_prefix(home).address().to_bits() | u128::from(bid.0)))
}

/// Whether a prefix of a tunnel is one of [`subflow_prefix`].
pub fn is_subflow_prefix(prefix: Prefix) -> bool {
    prefix.length() == PREFIX_LENGTH && is_subflow_address(prefix.address())
}

/// Whether subflows have this address, of whatever home address.
pub fn is_subflow_address(address: Ipv6Addr) -> bool {
    subflow_network().contains(address)
}

/// The part of a prefix of a tunnel that belongs to the path with this BID: all, but one address of those of subflows.
pub fn part_of_path(prefix: Prefix, bid: Bid) -> Prefix {
    if !is_subflow_prefix(prefix) {
        return prefix;
    }
    Prefix::host(Ipv6Addr::from_bits(prefix.address().to_bits() | u128::from(bid.0) & BIDS))
}

fn truncated(address: Ipv6Addr, length: u8) -> Prefix {
    Prefix::new(address, length).unwrap_or(Prefix::host(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn each_path_has_an_address_of_its_own_and_other_implementations_the_same() {
        let home = ip("2001:db8:1::100");
        let one = |bid| subflow_address(home, Bid(bid));
        assert_eq!(subflow_network(), "fd72:6f61:6d36::/48".parse().unwrap());
        assert_eq!(one(1), Some(ip("fd72:6f61:6d36:22d4:e8a4:5201:49cb:3bd1")));
        assert_eq!((one(16), one(u16::MAX)), (None, None));
        let all: std::collections::BTreeSet<_> = (0..16).filter_map(one).collect();
        assert!(all.len() == 16 && all.iter().all(|address| subflow_prefix(home).contains(*address)));
        assert!(!subflow_prefix(ip("2001:db8:1::101")).contains(one(1).unwrap()));
    }

    #[test]
    fn path_has_one_address_of_the_prefix_and_the_whole_of_others() {
        let home = ip("2001:db8:1::100");
        let prefix = subflow_prefix(home);
        assert_eq!(part_of_path(prefix, Bid(3)), Prefix::host(subflow_address(home, Bid(3)).unwrap()));
        for other in ["2001:db8:100::/56", "fd72:6f61:6d36::/64", "fd72:6f61:6d37::10/124", "::/0"] {
            let other: Prefix = other.parse().unwrap();
            assert_eq!(part_of_path(other, Bid(3)), other);
        }
    }
}
