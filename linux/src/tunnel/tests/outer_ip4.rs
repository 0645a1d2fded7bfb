//! Outer IPv4 headers, with and without UDP (RFC 5555 §4.1, RFC 4213 §3, RFC 6040 §4).

use super::xdp::{self, XDP_DROP, XDP_PASS, XDP_REDIRECT};
use super::{CN, CounterChanges, DROP, ECN, HA, Ip, PASS, REDIRECT, TO_NEXT_HOP, TRIES, TestHost, frame, netns_host};
use crate::tunnel::Tunnels;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelId, TunnelPath};
use roam6_wire::checksum::internet_checksum;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::{Bid, Ipv4Endpoint};
use std::net::Ipv4Addr;

const AGENT: [u8; 4] = [192, 0, 2, 1];
const ROUTER: [u8; 4] = [203, 0, 113, 7];
/// The port of the router's NAT.
const MAPPED: u16 = 50_123;
/// Nodes behind a router in UDP, and in IPv4 alone.
const NODES: [(&str, u16); 2] = [("2001:db8:f8:1::2", MAPPED), ("2001:db8:f9:1::2", 0)];
const NODE4: [u8; 4] = [10, 88, 1, 2];
const CN4: [u8; 4] = [198, 51, 100, 2];

fn testbed() -> TestHost {
    let mut testbed = TestHost::new();
    testbed.host.run("ip address add 192.0.2.1/24 dev up0");
    testbed.host.run("ip neighbour replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev up0 nud permanent");
    testbed.host.run("ip route add default via 192.0.2.2");
    let end = |address: [u8; 4], port| Ipv4Endpoint { address: address.into(), port }.to_ipv6();
    for ((id, far), (_, port)) in [(20, "2001:db8:f8::/48"), (21, "2001:db8:f9::/48")].into_iter().zip(NODES) {
        let path = TunnelPath {
            bid: Bid(1),
            local: end(AGENT, if port == 0 { 0 } else { DSMIP_PORT }),
            remote: end(ROUTER, port),
            link: None,
            mtu: 1472,
            weight: 1,
            direct: false,
            encap: Encap::Native,
            dscp: None,
        };
        let mut remote_prefixes = vec![far.parse().unwrap()];
        if port != 0 {
            remote_prefixes.push("10.88.1.0/24".parse().unwrap());
        }
        let local_prefixes = vec!["::/0".parse().unwrap()];
        // The prefix entry of a tunnel with one path has the path.
        let unused = TunnelPath { bid: Bid(2), weight: 0, ..path.clone() };
        let paths = if port == 0 { vec![path, unused] } else { vec![path] };
        testbed
            .tunnels
            .put(&Tunnel { id: TunnelId(id), local_prefixes, remote_prefixes, paths, flows: vec![] })
            .unwrap();
    }
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

/// An IPv4 packet with this checksum of its header.
pub(super) fn ip4(from: [u8; 4], to: [u8; 4], (service, protocol): (u8, u8), payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 20).unwrap().to_be_bytes();
    let mut packet = vec![0x45, service, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend([from, to].concat());
    let sum = internet_checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

pub(super) fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let words = [ports.0, ports.1, u16::try_from(payload.len() + 8).unwrap(), 0];
    [&words.map(u16::to_be_bytes).concat(), payload].concat()
}

/// The inner packet from the router, whose NAT has this port, or 0.
fn from_router(inner: &[u8], service: u8, port: u16) -> Vec<u8> {
    let protocol = if inner[0] >> 4 == 6 { 41 } else { 4 };
    match port {
        0 => ip4(ROUTER, AGENT, (service, protocol), inner),
        port => ip4(ROUTER, AGENT, (service, 17), &udp((port, DSMIP_PORT), inner)),
    }
}

fn frame4(packet: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[8, 0], packet].concat()
}

impl TestHost {
    /// Verdict, frame and increments, first decided, then from the cache.
    pub(super) fn run_twice(&mut self, frame: &[u8]) -> [(u32, Vec<u8>, CounterChanges); 2] {
        self.tunnels.invalidate_next_hops().unwrap();
        [(); 2].map(|()| {
            let before = self.tunnels.counters();
            let (verdict, out) = self.run_again(frame);
            let after =
                self.tunnels.counters().into_iter().map(|(name, count)| (count - before.get(&name).unwrap(), name));
            (verdict, out, after.filter(|(count, _)| *count > 0).map(|(count, name)| (name, count)).collect())
        })
    }

    /// Fails unless a frame has this verdict twice, with this counter and, if given, this frame afterwards.
    pub(super) fn expect(
        &mut self,
        says: &str,
        frame: &[u8],
        (verdict, counter): (u32, Option<&str>),
        out: Option<&[u8]>,
    ) {
        let moves: CounterChanges = counter.into_iter().map(|name| (name.to_owned(), 1)).collect();
        let fits = |seen: &[(u32, Vec<u8>, CounterChanges); 2]| seen.iter().all(|seen| seen.2 == moves);
        let seen = (0..TRIES).map(|_| self.run_twice(frame)).find(fits);
        assert!(seen.is_some(), "{says}: not counted so: {moves:?}");
        for (seen, after, _) in seen.into_iter().flatten() {
            assert_eq!(seen, verdict, "{says}");
            if let Some(out) = out {
                assert_eq!(after, out, "{says}");
            }
        }
    }
}

#[test]
fn ipv6_packets_get_outer_ipv4_headers() {
    let mut testbed = testbed_or_skip!("ipv6_packets_get_outer_ipv4_headers");
    for (node, port) in NODES {
        for class in [0, 0xb9] {
            let inner = Ip::udp(CN, node).traffic_class(class);
            let mut numbers = Vec::new();
            for (verdict, out, moves) in testbed.run_twice(&frame(&inner.0)) {
                assert_eq!(verdict, REDIRECT, "{moves:?}");
                assert_eq!((&out[..12], &out[12..14]), (&TO_NEXT_HOP[..], &[8, 0][..]));
                let (header, rest) = out[14..].split_at(20);
                assert_eq!(internet_checksum(header), 0);
                let inside = inner.clone().hop_limit(63).0;
                let (payload, protocol) = if port == 0 { (inside, 41) } else { (udp((DSMIP_PORT, port), &inside), 17) };
                assert_eq!(rest, payload);
                let mut expected = ip4(AGENT, ROUTER, (class, protocol), &payload);
                numbers.push([header[4], header[5]]);
                expected[4..6].copy_from_slice(&header[4..6]);
                assert_eq!((&header[..10], &header[12..]), (&expected[..10], &expected[12..20]));
            }
            println!("identifications {numbers:?}");
        }
    }
    let longest = |octets: usize| frame(&Ip::new(CN, NODES[0].0, 17, &vec![0; octets - 40]).0);
    testbed.expect("as long as the path allows", &longest(1472), (REDIRECT, Some("encapsulated")), None);
    testbed.expect("longer: the kernel answers", &longest(1473), (PASS, None), Some(&longest(1473)));
}

#[test]
fn outer_ipv4_headers_are_taken_off() {
    let mut testbed = testbed_or_skip!("outer_ipv4_headers_are_taken_off");
    for (node, port) in NODES {
        for (inside, row) in (0_u8..).zip(&ECN) {
            for (outside, after) in (0_u8..).zip(row) {
                let inner = Ip::udp(node, CN).traffic_class(0xb8 | inside);
                let packet = frame4(&from_router(&inner.0, outside, port));
                let Some(mark) = after else {
                    testbed.expect("a mark that cannot survive", &packet, (DROP, Some("dropped_ecn")), None);
                    continue;
                };
                let out = inner.traffic_class(0xb8 | mark).hop_limit(63);
                let out = [&TO_NEXT_HOP[..], &[0x86, 0xdd], &out.0].concat();
                testbed.expect("congestion marks survive", &packet, (REDIRECT, Some("decapsulated")), Some(&out));
            }
        }
        let to_agent = Ip::udp(node, HA);
        let packet = frame4(&from_router(&to_agent.0, 0, port));
        testbed.expect("for this host", &packet, (REDIRECT, Some("decapsulated")), None);
    }
}

#[test]
fn inner_ipv4_packets_lose_outer_ipv4_headers() {
    let mut testbed = testbed_or_skip!("inner_ipv4_packets_lose_outer_ipv4_headers");
    let inner = |from: [u8; 4]| ip4(from, CN4, (0, 17), &udp((1, 2), &[]));
    let packet = frame4(&from_router(&inner(NODE4), 0, MAPPED));
    let (verdict, out) = testbed.run(&packet);
    assert_eq!((verdict, &out[14..]), (REDIRECT, &inner(NODE4)[..]));
    let stranger = frame4(&from_router(&inner([10, 88, 2, 2]), 0, MAPPED));
    testbed.expect("of no tunnel", &stranger, (DROP, Some("dropped_source")), None);
    let loopback = frame4(&from_router(&inner(Ipv4Addr::LOCALHOST.octets()), 0, MAPPED));
    testbed.expect("of one host only", &loopback, (DROP, Some("dropped_scope")), None);
}

#[test]
fn forged_and_malformed_outer_ipv4_headers() {
    let mut testbed = testbed_or_skip!("forged_and_malformed_outer_ipv4_headers");
    let (node, _) = NODES[0];
    let inner = Ip::udp(node, CN).0;
    let good = from_router(&inner, 0, MAPPED);
    testbed.expect("what is accepted", &frame4(&good), (REDIRECT, Some("decapsulated")), None);
    let mut drops =
        |says: &str, packet: &[u8], counter| testbed.expect(says, &frame4(packet), (DROP, Some(counter)), None);
    drops("another port of the NAT", &from_router(&inner, 0, MAPPED + 1), "dropped_source");
    drops("without UDP", &from_router(&inner, 0, 0), "dropped_source");
    drops("of another router", &from_router(&Ip::udp(NODES[1].0, CN).0, 0, MAPPED), "dropped_source");
    drops("link-local inside", &from_router(&Ip::udp("fe80::1", CN).0, 0, MAPPED), "dropped_scope");
    let mut fifth = inner.clone();
    fifth[0] = 0x50;
    drops("neither IPv4 nor IPv6 inside", &from_router(&fifth, 0, MAPPED), "dropped_form");
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        packet
    };
    let message =
        |to: &str, protocol| from_router(&Ip::new(node, to, protocol, &[59, 0, 5, 0, 0, 0, 0, 0]).0, 0, MAPPED);
    let passed = [
        ("another port of this host", changed(|packet| packet[23] += 1)),
        ("another address of this host", changed(|packet| packet[19] += 1)),
        ("a fragment", changed(|packet| packet[6] = 0x20)),
        ("a later fragment", changed(|packet| packet[7] = 1)),
        ("options", changed(|packet| packet[0] = 0x46)),
        ("octets behind the packet", changed(|packet| packet.push(0))),
        ("a datagram shorter than the packet", changed(|packet| packet[25] -= 1)),
        ("no inner packet", ip4(ROUTER, AGENT, (0, 17), &udp((MAPPED, DSMIP_PORT), &[]))),
        ("half a header inside", from_router(&inner[..20], 0, MAPPED)),
        ("a Binding Update", message(HA, 135)),
        ("one in ESP", message(HA, 50)),
    ];
    for (says, packet) in passed {
        testbed.expect(says, &frame4(&packet), (PASS, None), Some(&frame4(&packet)));
    }
    testbed.expect("ESP of a node", &frame4(&message(CN, 50)), (REDIRECT, Some("decapsulated")), None);
    for length in 34..frame4(&good).len() {
        testbed.run(&frame4(&good)[..length]);
    }
}

/// An IPv6 header that encodes IPv4 endpoints comes from the daemon alone, whatever is cached.
#[test]
fn ipv6_header_with_ipv4_endpoints_is_not_taken_off() {
    let mut testbed = testbed_or_skip!("ipv6_header_with_ipv4_endpoints_is_not_taken_off");
    let inner = Ip::udp(NODES[0].0, CN);
    let end = |address: [u8; 4], port| Ipv4Endpoint { address: address.into(), port }.to_ipv6().to_string();
    let forged = frame(&inner.within(&end(ROUTER, MAPPED), &end(AGENT, DSMIP_PORT)).0);
    let genuine = frame4(&from_router(&inner.0, 0, MAPPED));
    for _ in 0..TRIES {
        assert_eq!(testbed.run_again(&genuine).0, REDIRECT);
        assert_eq!(testbed.run_again(&forged), (PASS, forged.clone()));
    }
}

#[test]
fn xdp_puts_outer_ipv4_headers_on_and_takes_them_off() {
    let mut testbed = testbed_or_skip!("xdp_puts_outer_ipv4_headers_on_and_takes_them_off");
    xdp::allow_xdp_redirect(&mut testbed);
    for (node, port) in NODES {
        let inner = Ip::udp(node, CN).traffic_class(0xb9);
        let packet = frame4(&from_router(&inner.0, 3, port));
        let out = [&TO_NEXT_HOP[..], &[0x86, 0xdd], &inner.traffic_class(0xbb).hop_limit(63).0].concat();
        xdp::expect(&mut testbed, "off", &packet, (XDP_REDIRECT, Some("decapsulated_xdp")), Some(&out));
        let inner = Ip::udp(CN, node).traffic_class(0xb9);
        let inside = inner.clone().hop_limit(63).0;
        let expected = if port == 0 { inside } else { udp((DSMIP_PORT, port), &inside) };
        let on = (XDP_REDIRECT, Some("encapsulated_xdp"));
        for out in xdp::expect(&mut testbed, "on", &frame(&inner.0), on, None) {
            assert_eq!((&out[..12], &out[12..14]), (&TO_NEXT_HOP[..], &[8, 0][..]));
            let (header, rest) = out[14..].split_at(20);
            assert_eq!((internet_checksum(header), header[1], rest), (0, 0xb9, &expected[..]));
        }
    }
    let (node, _) = NODES[0];
    let good = from_router(&Ip::udp(node, CN).0, 0, MAPPED);
    let mut fragment = good.clone();
    fragment[6] = 0x20;
    let update = Ip::new(node, HA, 135, &[59, 0, 5, 0, 0, 0, 0, 0]);
    for (says, packet) in [
        ("for this host", from_router(&Ip::udp(node, HA).0, 0, MAPPED)),
        ("a fragment", fragment),
        ("a Binding Update", from_router(&update.0, 0, MAPPED)),
        ("IPv4 inside", from_router(&ip4(NODE4, CN4, (0, 17), &udp((1, 2), &[])), 0, MAPPED)),
    ] {
        xdp::expect(&mut testbed, says, &frame4(&packet), (XDP_PASS, None), Some(&frame4(&packet)));
    }
    let forged = frame4(&from_router(&Ip::udp(node, CN).0, 0, MAPPED + 1));
    xdp::expect(&mut testbed, "another port of the NAT", &forged, (XDP_DROP, Some("dropped_source")), None);
    for length in 14..frame4(&good).len() {
        xdp::run(&mut testbed, &frame4(&good)[..length]);
    }
}
