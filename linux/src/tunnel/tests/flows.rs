//! Flow rules by address family, DSCP and ingress interface (RFC 6088 §3, RFC 6089 §4.3).

use super::{CN, COA, HA, Ip, REDIRECT, TRIES, TestHost, frame, netns_host, path};
use crate::tunnel::Tunnels;
use roam6_proto::LinkId;
use roam6_proto::contract::config::flow::FlowSelector;
use roam6_proto::contract::item::{Tunnel, TunnelFlow, TunnelId, TunnelPath};
use roam6_wire::Bid;
use roam6_wire::checksum::internet_checksum;
use std::net::Ipv6Addr;

/// A node behind the tunnel with two paths, by the first of which packets go that match no rule.
const NODE: &str = "2001:db8:f8::2";
const NODE4: [u8; 4] = [10, 88, 1, 2];
/// A node behind the tunnel of `COA`.
const OTHER4: [u8; 4] = [10, 77, 1, 2];
const FIRST: &str = "2001:db8:2::11";
const SECOND: &str = "2001:db8:2::12";
/// Where frames of test runs come from.
const INGRESS: LinkId = LinkId::LOOPBACK;

/// A tunnel whose rules lead to the second path.
fn put(testbed: &mut TestHost, flows: &[(Option<LinkId>, FlowSelector)]) {
    let paths =
        [(1, FIRST, 1), (2, SECOND, 0)].map(|(bid, at, weight)| TunnelPath { bid: Bid(bid), weight, ..path(at) });
    let flow = |(ingress, selector): &(Option<LinkId>, FlowSelector)| TunnelFlow {
        selector: selector.clone(),
        ingress: *ingress,
        bid: Bid(2),
        replica: None,
    };
    let far = ["2001:db8:f8::/48", "10.88.1.0/24"].map(|prefix| prefix.parse().unwrap());
    let tunnel = Tunnel {
        id: TunnelId(30),
        local_prefixes: vec!["::/0".parse().unwrap()],
        remote_prefixes: far.to_vec(),
        paths: paths.to_vec(),
        flows: flows.iter().map(flow).collect(),
    };
    testbed.tunnels.put(&tunnel).unwrap();
}

/// The outer header of a packet, which is redirected; with what earlier ones have left in the caches.
fn outer(testbed: &mut TestHost, packet: &Ip) -> (Ipv6Addr, u8) {
    let sent = (0..TRIES).map(|_| testbed.run_again(&frame(&packet.0))).find(|(verdict, _)| *verdict == REDIRECT);
    let (_, out) = sent.unwrap();
    let destination: [u8; 16] = out[38..54].try_into().unwrap();
    (destination.into(), out[14] << 4 | out[15] >> 4)
}

/// An IPv4 packet from one mobile network to the other, in the tunnel it comes by.
fn within(protocol: u8, service: u8, upper: &[u8]) -> Ip {
    let length = 20 + u8::try_from(upper.len()).unwrap();
    let mut packet = vec![0x45, service, 0, length, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend([OTHER4, NODE4].concat());
    let sum = internet_checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(upper);
    Ip::new(COA, HA, 4, &packet)
}

const UDP: [u8; 8] = [0x13, 0x88, 0x13, 0x89, 0, 8, 0, 0];

/// What it is about, a rule's ingress interface and selector, and the traffic classes that match.
type Case<'a> = (&'a str, Option<LinkId>, FlowSelector, &'a dyn Fn(u8) -> bool);

#[test]
fn rules_match_dscp_and_ingress_interface() {
    let mut testbed = testbed_or_skip!("rules_match_dscp_and_ingress_interface");
    let plain = FlowSelector::default;
    let marked = || FlowSelector { dscp: Some(46), ..plain() };
    // Classes in turn, so that a cached decision of one would show at the next.
    let classes = [0, 0xb8, 0, 0xbb, 0xb4, 0xb8];
    let by_class = |class: u8| class >> 2 == 46;
    let cases: [Case; 5] = [
        ("any packet", None, plain(), &|_| true),
        ("one DSCP", None, marked(), &by_class),
        ("the interface", Some(INGRESS), plain(), &|_| true),
        ("another interface", Some(LinkId(4711)), plain(), &|_| false),
        ("both", Some(INGRESS), marked(), &by_class),
    ];
    for (says, ingress, selector, matches) in cases {
        put(&mut testbed, &[(ingress, selector)]);
        for class in classes {
            let expected = if matches(class) { SECOND } else { FIRST };
            let packet = Ip::udp(CN, NODE).traffic_class(class);
            let expected = (expected.parse().unwrap(), class);
            assert_eq!(outer(&mut testbed, &packet), expected, "{says}, traffic class {class:#x}");
        }
    }
}

#[test]
fn ipv4_rules_match_ipv4_packets_only() {
    let mut testbed = testbed_or_skip!("ipv4_rules_match_ipv4_packets_only");
    let mut other = testbed.tunnels.find(TunnelId(1)).unwrap();
    other.remote_prefixes.push("10.77.1.0/24".parse().unwrap());
    testbed.tunnels.put(&other).unwrap();
    let icmp = [8, 0, 0xf7, 0xfe, 0, 1, 0, 0];
    let ipv4 =
        |protocol| FlowSelector { source: Some("10.77.0.0/16".parse().unwrap()), protocol, ..FlowSelector::default() };
    let everything = FlowSelector { source: Some("0.0.0.0/0".parse().unwrap()), ..FlowSelector::default() };
    let marked = FlowSelector { dscp: Some(46), destination_ports: Some((5001, 5001)), ..ipv4(Some(17)) };
    // By the rules: UDP, UDP with the DSCP, ICMP, IPv6.
    let cases = [
        ("a prefix", ipv4(None), [true, true, true, false]),
        ("all of IPv4", everything, [true, true, true, false]),
        ("ICMP", ipv4(Some(1)), [false, false, true, false]),
        ("DSCP and port", marked, [false, true, false, false]),
        ("ICMPv6", FlowSelector { protocol: Some(58), ..FlowSelector::default() }, [false; 4]),
    ];
    for (says, selector, matches) in cases {
        put(&mut testbed, &[(None, selector)]);
        let packets = [within(17, 0, &UDP), within(17, 0xb8, &UDP), within(1, 0, &icmp), Ip::udp(CN, NODE)];
        for (at, (packet, matches)) in packets.iter().zip(matches).enumerate() {
            let expected: Ipv6Addr = if matches { SECOND } else { FIRST }.parse().unwrap();
            assert_eq!(outer(&mut testbed, packet).0, expected, "{says}: packet {at}");
        }
    }
}
