//! UDP over IPv6 (RFC 6935, RFC 6936, RFC 6040 §4).

use super::outer_ip4::{ip4, udp};
use super::xdp::{self, XDP_DROP, XDP_PASS, XDP_REDIRECT};
use super::{
    CN, COA, DROP, ECN, HA, Ip, MNN, PASS, REDIRECT, TO_NEXT_HOP, TRIES, TestHost, frame, netns_host, path,
    without_label,
};
use crate::tunnel::Tunnels;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelId, TunnelPath};
use roam6_wire::ip4::DSMIP_PORT;

const ROUTER: &str = "2001:db8:2::88";
/// The port of the router's NAT.
const MAPPED: u16 = 50_123;
const NODE: &str = "2001:db8:f8:1::2";
const NODE4: [u8; 4] = [10, 88, 1, 2];
const CN4: [u8; 4] = [198, 51, 100, 2];

fn testbed() -> TestHost {
    let mut testbed = TestHost::new();
    put(&mut testbed, None);
    testbed
}

fn put(testbed: &mut TestHost, dscp: Option<u8>) {
    let encap = Encap::Udp { local: DSMIP_PORT, remote: MAPPED };
    let tunnel = Tunnel {
        id: TunnelId(20),
        local_prefixes: vec!["::/0".parse().unwrap()],
        remote_prefixes: vec!["2001:db8:f8::/48".parse().unwrap(), "10.88.1.0/24".parse().unwrap()],
        paths: vec![TunnelPath { encap, dscp, mtu: 1452, ..path(ROUTER) }],
        flows: vec![],
    };
    testbed.tunnels.put(&tunnel).unwrap();
    assert_eq!(testbed.tunnels.find(TunnelId(20)), Some(tunnel));
}

macro_rules! testbed_or_skip {
    ($name:literal) => {
        match netns_host::obstacle() {
            None => testbed(),
            Some(why) => return println!("skipped: {}: {why}", $name),
        }
    };
}

/// The inner packet from the router, whose NAT has this port.
fn from_router(inner: &[u8], class: u8, port: u16) -> Ip {
    Ip::new(ROUTER, HA, 17, &udp((port, DSMIP_PORT), inner)).traffic_class(class)
}

#[test]
fn packets_get_udp_over_ipv6() {
    let mut testbed = testbed_or_skip!("packets_get_udp_over_ipv6");
    for (dscp, class, outer_class) in
        [(None, 0, 0), (None, 0xb9, 0xb9), (Some(46), 0x29, 0xb9), (Some(0), 0xba, 2), (None, 0xff, 0xff)]
    {
        put(&mut testbed, dscp);
        let inner = Ip::udp(CN, NODE).traffic_class(class);
        let inside = inner.clone().hop_limit(63).0;
        let expected = Ip::new(HA, ROUTER, 17, &udp((DSMIP_PORT, MAPPED), &inside)).traffic_class(outer_class).0;
        for (verdict, out, moves) in testbed.run_twice(&frame(&inner.0)) {
            assert_eq!(verdict, REDIRECT, "{moves:?}");
            assert_eq!((&out[..12], &out[12..14]), (&TO_NEXT_HOP[..], &[0x86, 0xdd][..]));
            assert_eq!(without_label(&out[14..]), expected);
        }
    }
    let longest = |octets: usize| frame(&Ip::new(CN, NODE, 17, &vec![0; octets - 40]).0);
    testbed.expect("as long as the path allows", &longest(1452), (REDIRECT, Some("encapsulated")), None);
    testbed.expect("longer: the kernel answers", &longest(1453), (PASS, None), Some(&longest(1453)));
}

#[test]
fn dscp_of_a_path_is_that_of_outer_packets() {
    let mut testbed = testbed_or_skip!("dscp_of_a_path_is_that_of_outer_packets");
    let former = testbed.tunnels.find(TunnelId(1)).unwrap();
    for (dscp, outer_class) in [(None, 0x29), (Some(46), 0xb9), (Some(0), 1)] {
        let paths = vec![TunnelPath { dscp, ..path(COA) }];
        testbed.tunnels.put(&Tunnel { paths, ..former.clone() }).unwrap();
        let inner = Ip::udp(CN, MNN).traffic_class(0x29);
        let expected = inner.clone().hop_limit(63).within(HA, COA).traffic_class(outer_class).0;
        for (verdict, out, _) in testbed.run_twice(&frame(&inner.0)) {
            assert_eq!((verdict, without_label(&out[14..])), (REDIRECT, expected.clone()));
        }
    }
}

#[test]
fn udp_over_ipv6_is_taken_off() {
    let mut testbed = testbed_or_skip!("udp_over_ipv6_is_taken_off");
    for (inside, row) in (0_u8..).zip(&ECN) {
        for (outside, after) in (0_u8..).zip(row) {
            let inner = Ip::udp(NODE, CN).traffic_class(0xb8 | inside);
            let packet = frame(&from_router(&inner.0, outside, MAPPED).0);
            let Some(mark) = after else {
                testbed.expect("a mark that cannot survive", &packet, (DROP, Some("dropped_ecn")), None);
                continue;
            };
            let out = inner.traffic_class(0xb8 | mark).hop_limit(63);
            let out = [&TO_NEXT_HOP[..], &[0x86, 0xdd], &out.0].concat();
            testbed.expect("congestion marks survive", &packet, (REDIRECT, Some("decapsulated")), Some(&out));
        }
    }
    let to_agent = frame(&from_router(&Ip::udp(NODE, HA).0, 0, MAPPED).0);
    testbed.expect("for this host", &to_agent, (REDIRECT, Some("decapsulated")), None);
    let native = frame(&Ip::udp(NODE, CN).within(ROUTER, HA).0);
    testbed.expect("without UDP", &native, (REDIRECT, Some("decapsulated")), None);
    let inner = ip4(NODE4, CN4, (0, 17), &udp((1, 2), &[]));
    let (verdict, out) = testbed.run(&frame(&from_router(&inner, 0, MAPPED).0));
    assert_eq!((verdict, &out[14..]), (REDIRECT, &inner[..]), "IPv4 inside");
}

#[test]
fn forged_and_malformed_udp_over_ipv6() {
    let mut testbed = testbed_or_skip!("forged_and_malformed_udp_over_ipv6");
    let inner = Ip::udp(NODE, CN).0;
    let good = from_router(&inner, 0, MAPPED);
    testbed.expect("what is accepted", &frame(&good.0), (REDIRECT, Some("decapsulated")), None);
    let mut drops =
        |says: &str, packet: Ip, counter| testbed.expect(says, &frame(&packet.0), (DROP, Some(counter)), None);
    let plain = Ip::new(COA, HA, 17, &udp((DSMIP_PORT, DSMIP_PORT), &Ip::udp(MNN, CN).0));
    drops("another port of the NAT", from_router(&inner, 0, MAPPED + 1), "dropped_source");
    drops("a tunnel without UDP", plain, "dropped_source");
    drops("of another router", from_router(&Ip::udp(MNN, CN).0, 0, MAPPED), "dropped_source");
    drops("link-local inside", from_router(&Ip::udp("fe80::1", CN).0, 0, MAPPED), "dropped_scope");
    let mut fifth = inner.clone();
    fifth[0] = 0x50;
    drops("neither IPv4 nor IPv6 inside", from_router(&fifth, 0, MAPPED), "dropped_form");
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet.0);
        packet
    };
    let message =
        |to: &str, protocol| from_router(&Ip::new(NODE, to, protocol, &[59, 0, 5, 0, 0, 0, 0, 0]).0, 0, MAPPED);
    let passed = [
        ("another port of this host", changed(|packet| packet[43] += 1)),
        ("another address of this host", changed(|packet| packet[39] += 1)),
        ("octets behind the packet", changed(|packet| packet.push(0))),
        ("a datagram shorter than the packet", changed(|packet| packet[45] -= 1)),
        ("no inner packet", from_router(&[], 0, MAPPED)),
        ("half a header inside", from_router(&inner[..20], 0, MAPPED)),
        ("a Binding Update", message(HA, 135)),
        ("one in ESP", message(HA, 50)),
        ("from this host", Ip::new(HA, NODE, 17, &udp((DSMIP_PORT, DSMIP_PORT), &inner))),
    ];
    for (says, packet) in passed {
        testbed.expect(says, &frame(&packet.0), (PASS, None), Some(&frame(&packet.0)));
    }
    testbed.expect("ESP of a node", &frame(&message(CN, 50).0), (REDIRECT, Some("decapsulated")), None);
    let transit = frame(&Ip::new(CN, NODE, 17, &udp((9, DSMIP_PORT), &inner)).0);
    testbed.expect("a tunnel through this one", &transit, (REDIRECT, Some("encapsulated")), None);
    for length in 54..frame(&good.0).len() {
        testbed.run(&frame(&good.0)[..length]);
    }
}

/// What is cached for one encapsulation admits no other port.
#[test]
fn cached_decision_is_for_one_port() {
    let mut testbed = testbed_or_skip!("cached_decision_is_for_one_port");
    let inner = Ip::udp(NODE, CN);
    let native = frame(&inner.within(ROUTER, HA).0);
    let genuine = frame(&from_router(&inner.0, 0, MAPPED).0);
    let forged = frame(&from_router(&inner.0, 0, MAPPED + 1).0);
    for _ in 0..TRIES {
        assert_eq!(testbed.run_again(&genuine).0, REDIRECT);
        assert_eq!(testbed.run_again(&forged).0, DROP);
        assert_eq!(testbed.run_again(&native).0, REDIRECT);
        assert_eq!(testbed.run_again(&forged).0, DROP);
    }
}

#[test]
fn xdp_puts_udp_over_ipv6_on_and_takes_it_off() {
    let mut testbed = testbed_or_skip!("xdp_puts_udp_over_ipv6_on_and_takes_it_off");
    xdp::allow_xdp_redirect(&mut testbed);
    let inner = Ip::udp(NODE, CN).traffic_class(0xb9);
    let packet = frame(&from_router(&inner.0, 3, MAPPED).0);
    let out = [&TO_NEXT_HOP[..], &[0x86, 0xdd], &inner.traffic_class(0xbb).hop_limit(63).0].concat();
    xdp::expect(&mut testbed, "off", &packet, (XDP_REDIRECT, Some("decapsulated_xdp")), Some(&out));
    let inner = Ip::udp(CN, NODE).traffic_class(0xb9);
    let inside = inner.clone().hop_limit(63).0;
    let expected = Ip::new(HA, ROUTER, 17, &udp((DSMIP_PORT, MAPPED), &inside)).traffic_class(0xb9).0;
    for out in xdp::expect(&mut testbed, "on", &frame(&inner.0), (XDP_REDIRECT, Some("encapsulated_xdp")), None) {
        assert_eq!((&out[..12], &out[12..14]), (&TO_NEXT_HOP[..], &[0x86, 0xdd][..]));
        assert_eq!(without_label(&out[14..]), expected);
    }
    let to_agent = frame(&from_router(&Ip::udp(NODE, HA).0, 0, MAPPED).0);
    xdp::expect(&mut testbed, "for this host", &to_agent, (XDP_PASS, None), Some(&to_agent));
    let forged = frame(&from_router(&Ip::udp(NODE, CN).0, 0, MAPPED + 1).0);
    xdp::expect(&mut testbed, "another port of the NAT", &forged, (XDP_DROP, Some("dropped_source")), None);
}
