//! The on-link prefix of the home agent's host as a mobile network prefix.

use super::bench::*;
use super::home_link::messages;
use crate::contract::config::nemo::{Authentication, HomeAgentConfig, PrefixTable, PrefixTableRow, SharedPrefix};
use crate::contract::input::AddressState;
use crate::{AddressEvent, Input, Key, LinkEvent, Output, Packet, Via};
use roam6_wire::icmp6::{Message, NeighbourOption, NeighbourSolicitation, solicited_node};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::{HomeAddress, LinkAddress, Prefix};
use std::net::Ipv6Addr;

const HOST: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);
const GATEWAY: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 9]);

/// The host is `2001:db8::1`, the gateway `2001:db8::ffff`.
fn shared() -> HomeAgentConfig {
    let row = PrefixTableRow {
        home_address: HomeAddress(address("fd00:1::10")),
        prefixes: [prefix("2001:db8::/64")].into(),
        authentication: Authentication::SharedKey(key()),
        next_key: None,
        invitation: None,
    };
    let gateway = Some(address("2001:db8::ffff"));
    HomeAgentConfig {
        home_prefixes: vec![prefix("fd00:1::/64")],
        prefix_table: PrefixTable { rows: vec![row] }.into(),
        shared_prefix: Some(SharedPrefix { prefix: prefix("2001:db8::/64"), interface: "eth0".into(), gateway }),
        duplicate_detection: false,
        ..config()
    }
}

fn started() -> TestBed {
    let mut bench = TestBed::new(shared());
    let (name, link) = ("eth0".to_owned(), HOME_LINK);
    bench.feed(Input::Link(LinkEvent { link, name, address: Some(HOST), up: true, mtu: 1500 }));
    for own in ["2001:db8::1", "2001:db8::5", "fe80::1"] {
        bench.feed(Input::Address(AddressEvent { link, address: address(own), state: AddressState::Preferred }));
    }
    bench
}

fn update(sequence: u16, lifetime: u16) -> Update {
    let source = "2001:db8:2::7";
    Update { home: HomeAddress(address("fd00:1::10")), ..Update::new(sequence, source) }.lifetime(lifetime)
}

/// A solicitation of the gateway, and the answers.
fn asked(bench: &mut TestBed, target: &str, source: &str, unicast: bool) -> Vec<Output> {
    let (target, source) = (address(target), address(source));
    let to = if unicast { target } else { solicited_node(target) };
    let message = Message::NeighbourSolicitation(NeighbourSolicitation { target, options: vec![] });
    let header = Header::new(source, to).with_hop_limit(255);
    let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, to));
    bench.feed(Input::Packet(Packet { link: HOME_LINK, sender: Some(GATEWAY), bytes }))
}

#[test]
fn solicitations_for_the_mobile_network_are_answered_while_it_is_bound() {
    let mut bench = started();
    assert!(asked(&mut bench, "2001:db8::77", "fe80::9", false).is_empty(), "nobody is there");
    assert_eq!(status(&bench.send(&update(1, 15))), 0);
    for unicast in [false, true] {
        let outputs = asked(&mut bench, "2001:db8::77", "fe80::9", unicast);
        let [(source, to, Message::NeighbourAdvertisement(answer))] = &messages(&outputs)[..] else {
            panic!("{outputs:?}")
        };
        assert_eq!((*source, *to), (address("fe80::1"), address("fe80::9")));
        assert_eq!((answer.router, answer.solicited, answer.overrides), (false, true, false), "RFC 4861 §7.2.8");
        assert_eq!(answer.target, address("2001:db8::77"));
        assert_eq!(answer.options, [NeighbourOption::TargetLinkAddress(HOST)]);
        assert_eq!(sent(&outputs)[0].via, Via::Neighbour { link: HOME_LINK, address: GATEWAY });
    }
    bench.send(&update(2, 0));
    assert!(asked(&mut bench, "2001:db8::77", "fe80::9", false).is_empty(), "de-registered");
}

#[test]
fn addresses_of_others_are_left_to_them() {
    let mut bench = started();
    bench.send(&update(1, 15));
    for target in ["2001:db8::1", "2001:db8::5", "2001:db8::ffff", "2001:db8:1::77", "fd00:1::10", "fe80::1"] {
        assert!(asked(&mut bench, target, "fe80::9", false).is_empty(), "{target}");
    }
    assert!(asked(&mut bench, "2001:db8::77", "::", false).is_empty(), "duplicate address detection of another host");
}

#[test]
fn packets_for_the_host_and_the_gateway_bypass_the_tunnel() {
    let mut bench = started();
    for own in ["2001:db8::1", "2001:db8::5", "2001:db8::ffff"] {
        assert!(bench.plan.find(&Key::TunnelBypass(Prefix::host(address(own)))).is_some(), "{own}");
    }
    let (link, gone) = (HOME_LINK, address("2001:db8::5"));
    bench.feed(Input::Address(AddressEvent { link, address: gone, state: AddressState::Removed }));
    assert!(bench.plan.find(&Key::TunnelBypass(Prefix::host(gone))).is_none());
    let routed = |to: Ipv6Addr| {
        let mut keys = bench.plan.iter().map(|(key, _)| key);
        keys.any(|key| matches!(key, Key::Route(_, destination, ..) if *destination == Prefix::host(to)))
    };
    assert!(routed(address("2001:db8::ffff")));
}

#[test]
fn prefix_of_the_host_is_refused_unless_it_is_shared() {
    let mut bench = TestBed::new(HomeAgentConfig { shared_prefix: None, ..shared() });
    assert_ne!(status(&bench.send(&update(1, 15))), 0);
}
