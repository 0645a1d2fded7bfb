//! Decapsulation of IPv4 packets of a mobile network (RFC 5555 §4.5.1, RFC 6040 §4.2).

use super::{COA, DROP, ECN, HA, Ip, MNN, REDIRECT, TestHost, frame, netns_host, path};
use crate::tunnel::Tunnels;
use roam6_proto::contract::item::{Tunnel, TunnelId};
use roam6_wire::checksum::internet_checksum;
use std::net::Ipv4Addr;

const MNN4: [u8; 4] = [10, 77, 1, 2];
const CN4: [u8; 4] = [198, 51, 100, 2];

/// An IPv4 packet without a payload.
fn ip4(from: [u8; 4], to: [u8; 4], service: u8) -> Vec<u8> {
    let mut packet = vec![0x45, service, 0, 20, 0x12, 0x34, 0x40, 0, 64, 59, 0, 0];
    packet.extend([from, to].concat());
    let sum = internet_checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn within(inner: &[u8], outside: u8) -> Ip {
    Ip::new(COA, HA, 4, inner).traffic_class(outside)
}

fn testbed() -> TestHost {
    let mut testbed = TestHost::new();
    let far = ["2001:db8:f0::/48", "10.77.1.0/24"].map(|prefix| prefix.parse().unwrap());
    let tunnel = Tunnel {
        id: TunnelId(1),
        local_prefixes: vec!["::/0".parse().unwrap()],
        remote_prefixes: far.to_vec(),
        paths: vec![path(COA)],
        flows: Vec::new(),
    };
    testbed.tunnels.put(&tunnel).unwrap();
    testbed
}

macro_rules! testbed_or_skip {
    ($name:literal) => {
        match netns_host::obstacle() {
            None => testbed(),
            Some(why) => return println!("skipped: {}: {why}", $name),
        }
    };
}

#[test]
fn ecn_is_copied_to_the_inner_ipv4_header_with_its_checksum() {
    let mut testbed = testbed_or_skip!("ecn_is_copied_to_the_inner_ipv4_header_with_its_checksum");
    for (inside, row) in (0_u8..).zip(&ECN) {
        for (outside, after) in (0_u8..).zip(row) {
            for class in [0, 0xb8] {
                let packet = within(&ip4(MNN4, CN4, class | inside), outside);
                let (verdict, out) = testbed.run(&frame(&packet.0));
                match after {
                    Some(mark) => {
                        assert_eq!(verdict, REDIRECT, "{outside} outside, {inside} inside");
                        assert_eq!(out[14..], ip4(MNN4, CN4, class | mark), "{outside} outside, {inside} inside");
                    }
                    None => assert_eq!(verdict, DROP, "{outside} outside, {inside} inside"),
                }
            }
        }
    }
}

#[test]
fn forbidden_inner_ipv4_sources_are_dropped() {
    let mut testbed = testbed_or_skip!("forbidden_inner_ipv4_sources_are_dropped");
    let mut drops = |says: &str, packet: &Ip, counter: &str| {
        let before = *testbed.tunnels.counters().get(counter).unwrap();
        assert_eq!(testbed.run(&frame(&packet.0)).0, DROP, "{says}");
        assert_eq!(testbed.tunnels.counters().get(counter), Some(&(before + 1)), "{says}");
    };
    let good = ip4(MNN4, CN4, 0);
    drops("a stranger's source", &within(&ip4([10, 77, 2, 2], CN4, 0), 0), "dropped_source");
    drops("a stranger's outer source", &Ip::new("2001:db8:2::99", HA, 4, &good), "dropped_source");
    for wrong in ["127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"] {
        let wrong = wrong.parse::<Ipv4Addr>().unwrap().octets();
        drops("of one link only", &within(&ip4(wrong, CN4, 0), 0), "dropped_scope");
        drops("to one link only", &within(&ip4(MNN4, wrong, 0), 0), "dropped_scope");
    }
    drops("too short", &within(&good[..19], 0), "dropped_form");
    drops("IPv6 in a header that says IPv4", &within(&Ip::udp(MNN, HA).0, 0), "dropped_form");
    drops("IPv4 in a header that says IPv6", &Ip::new(COA, HA, 41, &[&good[..], &[0; 20]].concat()), "dropped_form");
}
