//! Random octets, mutated valid messages, and the fuzz corpus through every fuzz harness.

use crate::samples::{HOME, HOME_AGENT, Random, address, dhcp6_messages, icmp6_messages, mobility_messages, packets};
use roam6_wire::fuzz;
use std::fs;
use std::path::Path;

const ROUNDS: usize = 60_000;

/// Runs `scenario` over mutations of `valid`: changed, removed, duplicated and inserted octets.
pub(crate) fn mutate(seed: u64, valid: &[Vec<u8>], scenario: fn(&[u8])) {
    let mut random = Random(seed);
    for sample in valid {
        scenario(sample);
    }
    for _ in 0..ROUNDS {
        let mut bytes = match random.below(8) {
            0 => {
                let length = random.below(160);
                random.octets(length)
            }
            _ => valid[random.below(valid.len())].clone(),
        };
        for _ in 0..random.below(6) {
            let at = random.below(bytes.len());
            match random.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.extend_from_within(at..),
                2 => bytes.insert(at.min(bytes.len()), random.below(256) as u8),
                _ if bytes.is_empty() => {}
                3 => bytes[at] ^= 1 << random.below(8),
                4 => bytes[at] = random.below(64) as u8,
                _ => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            }
        }
        scenario(&bytes);
    }
}

#[test]
fn mutated_ipv6_packets_never_panic() {
    mutate(0x6275, &packets(), fuzz::ip6);
}

#[test]
fn mutated_icmpv6_messages_never_panic() {
    let valid: Vec<_> =
        icmp6_messages().iter().map(|(header, message)| message.emit(header.source, header.destination)).collect();
    mutate(0x4861, &valid, fuzz::icmp6);
}

#[test]
fn mutated_mobility_headers_never_panic() {
    let valid: Vec<_> =
        mobility_messages().iter().map(|message| message.emit(address(HOME), address(HOME_AGENT))).collect();
    mutate(0x3963, &valid, fuzz::mobility);
}

#[test]
fn mutated_dhcpv6_messages_never_panic() {
    let valid: Vec<_> = dhcp6_messages().iter().map(roam6_wire::dhcp6::Message::emit).collect();
    mutate(0x8415, &valid, fuzz::dhcp6);
}

#[test]
fn the_fuzz_corpus_passes() {
    for (target, scenario) in [
        ("wire_ip6", fuzz::ip6 as fn(&[u8])),
        ("wire_ip4", fuzz::ip4),
        ("wire_icmp6", fuzz::icmp6),
        ("wire_mobility", fuzz::mobility),
        ("wire_dhcp6", fuzz::dhcp6),
        ("wire_shim6", fuzz::shim6),
        ("wire_geo", fuzz::geo),
        ("wire_mnpp", fuzz::mnpp),
        ("wire_relay", fuzz::relay),
        #[cfg(feature = "geo-security")]
        ("wire_security", fuzz::security),
        #[cfg(feature = "geo-security")]
        ("wire_revocation", fuzz::revocation),
        #[cfg(feature = "geo-security")]
        ("wire_trust_list", fuzz::trust_list),
        #[cfg(feature = "geo-security")]
        ("wire_provisioning", fuzz::provisioning),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        let mut read = 0;
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            scenario(&fs::read(entry.unwrap().path()).unwrap());
            read += 1;
        }
        assert!(read > 0, "{} is empty", folder.display());
    }
}
