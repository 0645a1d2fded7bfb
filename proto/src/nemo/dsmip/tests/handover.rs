//! From one family to the other, and which is chosen (RFC 5555 §4.4.1).

use super::pair::{BEHIND_NAT, Pair};
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::{Command, Input};
use core::time::Duration;
use std::net::Ipv4Addr;

const NETWORK: &str = "2001:db8:2::/64";

#[test]
fn ipv6_is_preferred_and_ipv4_is_the_fallback() {
    let mut pair = Pair::behind_nat();
    pair.advertise(NETWORK, 1800);
    pair.advance(Duration::from_secs(3));
    assert!(pair.is_connected() && pair.remote4().is_none());
    for _ in 0..3 {
        pair.link(false);
        pair.link(true);
        pair.advance(Duration::from_millis(550));
        assert!(pair.is_connected() && pair.remote4().is_some(), "IPv4 while there is no IPv6");
        pair.advance(Duration::from_secs(2));
        pair.advertise(NETWORK, 1800);
        pair.millis(20);
        assert!(pair.is_connected() && pair.remote4().is_none(), "IPv6 as soon as there is some");
        let [_, router] = pair.active_paths();
        assert_eq!(router.unwrap().mtu, 1460);
    }
}

#[test]
fn former_path_receives_until_acknowledgement() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    pair.advertise(NETWORK, 1800);
    // The update is in transit.
    pair.millis(2);
    let [_, router] = pair.active_paths();
    assert!(roam6_wire::Ipv4Endpoint::from_ipv6(router.unwrap().local).is_some());
    pair.millis(20);
    let tunnel = |plan: &crate::contract::item::Plan| {
        plan.iter().find_map(|(_, item)| match item {
            crate::contract::item::Item::Tunnel(tunnel) => Some(tunnel.paths.clone()),
            _ => None,
        })
    };
    for paths in [tunnel(&pair.agent_plan), tunnel(&pair.router_plan)].map(Option::unwrap) {
        assert_eq!(paths.iter().map(|path| path.weight).collect::<Vec<_>>(), [1, 0], "{paths:?}");
    }
}

#[test]
fn dead_ipv6_path_falls_back_to_ipv4() {
    for probes in [true, false] {
        let mut config = super::pair::router_config();
        config.probe = config.probe.filter(|_| probes);
        let mut pair = Pair::new(config, super::pair::agent_config());
        pair.ipv6 = false;
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.advertise(NETWORK, 1800);
        let within = if probes { 620 } else { 1_500 + 3_000 + 6_000 + 50 };
        pair.millis(within - 100);
        assert!(!pair.is_connected());
        pair.millis(100);
        assert!(pair.is_connected(), "probes: {probes}");
        let updates = pair.updates();
        pair.advance(Duration::from_secs(60));
        assert!(pair.is_connected() && pair.remote4().is_some());
        assert_eq!(pair.updates(), updates, "it does not try again and again");
        pair.ipv6 = true;
        pair.advertise(NETWORK, 1800);
        pair.advance(Duration::from_secs(260));
        assert!(pair.is_connected() && pair.remote4().is_none(), "but once, later");
    }
}

#[test]
fn ipv4_address_change_sends_an_update() {
    let mut pair = Pair::behind_nat();
    pair.nat = None;
    pair.advance(Duration::from_secs(2));
    let updates = pair.updates();
    pair.address4(Ipv4Addr::new(10, 9, 9, 9), true);
    pair.advance(Duration::from_secs(2));
    assert_eq!(pair.updates(), updates, "the first stays in use");
    pair.address4(Ipv4Addr::new(10, 9, 9, 9), false);
    pair.address4(BEHIND_NAT, false);
    pair.advance(Duration::from_secs(2));
    let [_, router] = pair.active_paths();
    assert!(router.is_none_or(|path| path.weight == 0));
}

#[test]
fn ipv4_link_local_address_is_no_care_of_address() {
    let mut pair = Pair::behind_nat();
    pair.address4(BEHIND_NAT, false);
    for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(169, 254, 3, 4), Ipv4Addr::UNSPECIFIED] {
        pair.address4(address, true);
    }
    pair.advance(Duration::from_secs(5));
    assert_eq!(pair.updates(), 0);
}

#[test]
fn deregistration_leaves_over_ipv4() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    assert_eq!(pair.view().bindings.len(), 1);
    pair.feed_router(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    pair.millis(20);
    assert!(pair.view().bindings.is_empty());
}

#[test]
fn reload_turns_ipv4_fallback_off_and_on() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    let config = super::pair::router_config();
    let without = crate::contract::config::nemo::MobileRouterConfig { home_agents_ipv4: Vec::new(), ..config.clone() };
    pair.feed_router(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(without)))));
    pair.advance(Duration::from_secs(1));
    let [_, router] = pair.active_paths();
    assert!(router.is_none(), "{router:?}");
    pair.feed_router(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config)))));
    pair.advance(Duration::from_secs(2));
    assert!(pair.is_connected());
}
