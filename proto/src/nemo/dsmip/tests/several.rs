//! Several uplinks of any family, registered together: each IPv4 one by an update over its own path, so that the home
//! agent has the mapping of its own NAT (RFC 5648 §5.2, §8.1, RFC 5555 §4.2).

use super::pair::{Access, BEHIND_NAT, NAT_ADDRESS, Nat, Pair, UPLINK, agent_config, net, router_config};
use crate::contract::config::nemo::{HomeAgentConfig, LoadSharing, MobileRouterConfig, UplinkConfig};
use crate::contract::report::NemoReport;
use crate::{Entropy, LinkId, Report};
use core::time::Duration;
use roam6_wire::{Bid, Ipv4Endpoint};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

pub(super) const SECOND: LinkId = LinkId(3);
const NETWORK: &str = "2001:db8:2::/64";
const SECOND_NETWORK: &str = "2001:db8:3::/64";
const SECOND_NAT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 8);
const SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 8, 2);

/// What an uplink has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Ipv6,
    Ipv4,
    Translated,
    /// Behind the NAT of the first uplink, with the same private address.
    SameNat,
}

pub(super) fn config(sharing: LoadSharing) -> MobileRouterConfig {
    let uplink = |interface: &str, bid: u16, priority: u8| UplinkConfig {
        interface: interface.into(),
        bid: Bid(bid),
        priority,
        ..Default::default()
    };
    let second = if sharing == LoadSharing::Weighted { 1 } else { 2 };
    MobileRouterConfig {
        load_sharing: sharing,
        uplinks: vec![uplink("up0", 1, 1), uplink("up1", 2, second)],
        ..router_config()
    }
}

/// The networks are there, the uplinks are down.
pub(super) fn build(first: Family, second: Family, sharing: LoadSharing) -> Pair {
    build_with((first, second), config(sharing), agent_config())
}

pub(super) fn build_with(
    (first, second): (Family, Family),
    router: MobileRouterConfig,
    agent: HomeAgentConfig,
) -> Pair {
    let mut pair = Pair::new(router, agent);
    pair.ipv6 = first == Family::Ipv6;
    pair.nat = (first != Family::Ipv4).then(Nat::default);
    let access = match second {
        Family::Ipv6 => Access { prefix: Some(net(SECOND_NETWORK)), ..Access::default() },
        Family::Ipv4 => Access { address: Some(SECOND_ADDRESS), ..Access::default() },
        Family::Translated => Access { address: Some(SECOND_ADDRESS), public: Some(SECOND_NAT), ..Access::default() },
        Family::SameNat => Access { address: Some(BEHIND_NAT), public: Some(NAT_ADDRESS), ..Access::default() },
    };
    pair.others.insert(SECOND, access);
    pair
}

/// An uplink comes up, and gets what its network has.
pub(super) fn attach(pair: &mut Pair, link: LinkId) {
    let (name, network) = if link == UPLINK { ("up0", NETWORK) } else { ("up1", SECOND_NETWORK) };
    pair.link_on(link, name, true);
    let (ipv6, address) = match pair.others.get(&link) {
        Some(access) => (access.prefix.is_some(), access.address),
        None => (pair.ipv6, Some(BEHIND_NAT).filter(|_| !pair.ipv6)),
    };
    if ipv6 {
        pair.advertise_on(link, network, 1800);
    }
    if let Some(address) = address {
        pair.address4_on(link, address, true);
    }
}

pub(super) fn start(first: Family, second: Family, sharing: LoadSharing) -> Pair {
    let mut pair = build(first, second, sharing);
    attach(&mut pair, UPLINK);
    attach(&mut pair, SECOND);
    pair.advance(Duration::from_secs(2));
    pair
}

/// The uplinks on which packets to the registered care-of addresses arrive, by BID.
pub(super) fn arrivals(pair: &Pair) -> BTreeMap<Bid, Option<LinkId>> {
    let origin = |care_of: std::net::Ipv6Addr, port: u16| match care_of.to_ipv4_mapped() {
        Some(address) => pair.origin(Ipv4Endpoint { address, port }).map(|(link, _)| link),
        None if net(SECOND_NETWORK).contains(care_of) => Some(SECOND),
        None => Some(UPLINK),
    };
    let rows = pair.view().bindings.into_iter();
    rows.filter_map(|row| Some((row.bid, origin(row.care_of?, row.udp_port.unwrap_or(0))))).collect()
}

pub(super) fn both() -> BTreeMap<Bid, Option<LinkId>> {
    BTreeMap::from([(Bid(1), Some(UPLINK)), (Bid(2), Some(SECOND))])
}

pub(super) fn active(pair: &Pair) -> [Option<Bid>; 2] {
    pair.active_paths().map(|path| path.map(|path| path.bid))
}

fn path_went_down(pair: &Pair) -> bool {
    pair.reports.iter().any(|(_, report)| matches!(report, Report::Nemo(NemoReport::PathDown { .. })))
}

pub(super) const PAIRS: [(Family, Family); 9] = [
    (Family::Ipv6, Family::Ipv6),
    (Family::Ipv6, Family::Ipv4),
    (Family::Ipv6, Family::Translated),
    (Family::Ipv4, Family::Ipv6),
    (Family::Ipv4, Family::Ipv4),
    (Family::Translated, Family::Ipv6),
    (Family::Translated, Family::Ipv4),
    (Family::Translated, Family::Translated),
    (Family::Translated, Family::SameNat),
];

#[test]
fn uplinks_of_any_two_families_are_registered_together() {
    for sharing in [LoadSharing::Standby, LoadSharing::Weighted] {
        for (first, second) in PAIRS {
            let mut pair = start(first, second, sharing);
            let what = format!("{first:?} {second:?} {sharing:?}");
            assert_eq!(arrivals(&pair), both(), "{what}");
            assert!(pair.is_connected(), "{what}: {:?}", pair.active_paths());
            assert_eq!(active(&pair), [Some(Bid(1)); 2], "{what}");
            if sharing == LoadSharing::Weighted {
                for plan in [&pair.agent_plan, &pair.router_plan] {
                    let carrying = pair.tunnel(plan).unwrap().paths.iter().filter(|path| path.weight > 0).count();
                    assert_eq!(carrying, 2, "{what}: both carry packets");
                }
            }
            let updates = pair.updates();
            pair.advance(Duration::from_secs(20));
            assert_eq!(pair.updates(), updates, "{what}: nothing to report");
            assert!(!path_went_down(&pair), "{what}: each path answers its probes");
        }
    }
}

#[test]
fn lost_uplink_hands_over_within_a_round_trip() {
    for (first, second) in PAIRS {
        let what = format!("{first:?} {second:?}");
        let mut pair = start(first, second, LoadSharing::Standby);
        pair.link_on(UPLINK, "up0", false);
        assert_eq!(active(&pair)[1], Some(Bid(2)), "{what}: at once");
        pair.millis(6);
        assert_eq!(active(&pair)[0], Some(Bid(2)), "{what}: when the update arrives");
        pair.millis(500);
        attach(&mut pair, UPLINK);
        pair.millis(800);
        assert_eq!((active(&pair), arrivals(&pair)), ([Some(Bid(1)); 2], both()), "{what}: back again");
    }
}

#[test]
fn black_hole_is_left_and_its_uplink_comes_back() {
    for (first, second) in PAIRS {
        let what = format!("{first:?} {second:?}");
        let mut pair = start(first, second, LoadSharing::Standby);
        pair.black_holes.insert(UPLINK);
        pair.millis(850);
        assert_eq!(active(&pair), [Some(Bid(2)); 2], "{what}");
        assert!(pair.is_connected(), "{what}");
        pair.advance(Duration::from_secs(60));
        assert_eq!(active(&pair), [Some(Bid(2)); 2], "{what}");
        pair.black_holes.clear();
        pair.advance(Duration::from_secs(30));
        assert_eq!((active(&pair), arrivals(&pair)), ([Some(Bid(1)); 2], both()), "{what}: back again");
    }
}

#[test]
fn path_receives_before_the_acknowledgement_of_its_update() {
    let mut pair = build(Family::Translated, Family::Ipv6, LoadSharing::Standby);
    attach(&mut pair, SECOND);
    pair.advance(Duration::from_secs(2));
    attach(&mut pair, UPLINK);
    pair.millis(506);
    assert_eq!(active(&pair), [Some(Bid(2)); 2], "registered, and nothing has come back by it yet");
    let receives = pair.tunnel(&pair.router_plan).unwrap().paths.iter().any(|path| path.bid == Bid(1));
    assert!(receives);
    pair.millis(6);
    assert_eq!(active(&pair), [Some(Bid(2)), Some(Bid(1))], "acknowledged");
    pair.millis(6);
    assert_eq!(active(&pair), [Some(Bid(1)); 2], "the home agent uses the better path already");
}

#[test]
fn restarted_router_receives_by_the_path_in_use() {
    for first in [Family::Ipv4, Family::Translated] {
        let mut pair = start(first, Family::Ipv6, LoadSharing::Standby);
        assert_eq!(active(&pair), [Some(Bid(1)); 2]);
        pair.restart_router(config(LoadSharing::Standby));
        attach(&mut pair, UPLINK);
        attach(&mut pair, SECOND);
        for _ in 0..2000 {
            pair.millis(1);
            let [sending, _] = pair.active_paths();
            let to = sending.unwrap().remote;
            let expected = Ipv4Endpoint::from_ipv6(to).map_or(to, |to| pair.origin(to).unwrap().1.to_ipv6());
            let accepted = &pair.tunnel(&pair.router_plan).unwrap().paths;
            assert!(accepted.iter().any(|path| path.local == expected), "{first:?}, {to}: {accepted:?}");
        }
        assert_eq!((arrivals(&pair), active(&pair)), (both(), [Some(Bid(1)); 2]), "{first:?}");
        assert_eq!(pair.tunnel(&pair.router_plan).unwrap().paths.len(), 2, "{first:?}");
    }
}

#[test]
fn lost_mapping_of_a_standby_is_mended_by_its_own_update() {
    let mut pair = start(Family::Translated, Family::Translated, LoadSharing::Standby);
    pair.advance(Duration::from_secs(10));
    let updates = pair.updates();
    pair.others.get_mut(&SECOND).unwrap().nat.forget();
    pair.millis(430);
    assert_eq!((arrivals(&pair), pair.updates()), (both(), updates + 1));
    pair.nat.as_mut().unwrap().forget();
    pair.advance(Duration::from_secs(4));
    assert_eq!((arrivals(&pair), active(&pair)), (both(), [Some(Bid(1)); 2]));
    assert!(!path_went_down(&pair));
}

#[test]
fn mappings_that_a_nat_has_exchanged_are_registered_again() {
    let mut pair = start(Family::Translated, Family::SameNat, LoadSharing::Standby);
    for link in [UPLINK, SECOND, UPLINK] {
        // The first packet after the restart gets the port of the other uplink.
        pair.nat.as_mut().unwrap().restart();
        pair.black_holes.insert(link);
        pair.millis(250);
        pair.black_holes.clear();
        pair.advance(Duration::from_secs(30));
        assert_eq!((arrivals(&pair), active(&pair)), (both(), [Some(Bid(1)); 2]));
    }
}

#[test]
fn lost_update_of_one_path_is_repeated() {
    let mut pair = build(Family::Ipv6, Family::Translated, LoadSharing::Standby);
    attach(&mut pair, UPLINK);
    pair.black_holes.insert(SECOND);
    attach(&mut pair, SECOND);
    pair.advance(Duration::from_secs(3));
    assert_eq!(active(&pair), [Some(Bid(1)); 2], "it does not delay the other");
    let updates = pair.updates();
    pair.advance(Duration::from_secs(60));
    assert!(pair.updates() - updates <= 6, "each pause is longer: {}", pair.updates() - updates);
    pair.black_holes.clear();
    pair.advance(Duration::from_secs(20));
    assert_eq!(arrivals(&pair), both());
}

#[test]
fn dead_ipv4_uplink_does_not_block_the_next() {
    for sharing in [LoadSharing::Standby, LoadSharing::Weighted] {
        let mut pair = build(Family::Translated, Family::Translated, sharing);
        pair.black_holes.insert(UPLINK);
        attach(&mut pair, UPLINK);
        attach(&mut pair, SECOND);
        pair.millis(500 + 600 + 50);
        assert_eq!(active(&pair), [Some(Bid(2)); 2], "{sharing:?}");
        pair.black_holes.clear();
        pair.advance(Duration::from_secs(20));
        assert_eq!(arrivals(&pair), both(), "{sharing:?}");
    }
}

#[test]
fn update_that_another_has_overtaken_is_repeated() {
    let mut pair = build(Family::Ipv6, Family::Translated, LoadSharing::Standby);
    pair.delays.insert(SECOND, Duration::from_millis(900));
    attach(&mut pair, UPLINK);
    pair.millis(300);
    attach(&mut pair, SECOND);
    pair.millis(700);
    // The update over the second uplink is in transit; this one arrives first.
    pair.link_on(UPLINK, "up0", false);
    attach(&mut pair, UPLINK);
    pair.advance(Duration::from_secs(10));
    assert_eq!((arrivals(&pair), active(&pair)), (both(), [Some(Bid(1)); 2]));
}

#[test]
fn mappings_of_all_paths_are_kept_without_probes() {
    let mut router = config(LoadSharing::Standby);
    router.probe = None;
    let mut pair = Pair::new(router, agent_config());
    pair.ipv6 = false;
    let access = Access { address: Some(SECOND_ADDRESS), public: Some(SECOND_NAT), ..Access::default() };
    pair.others.insert(SECOND, access);
    attach(&mut pair, UPLINK);
    attach(&mut pair, SECOND);
    pair.advance(Duration::from_secs(5));
    assert_eq!(arrivals(&pair), both());
    pair.others.get_mut(&SECOND).unwrap().nat.forget();
    pair.advance(Duration::from_secs(111));
    assert_eq!(arrivals(&pair), both());
}

#[test]
fn home_agent_for_one_care_of_address_gets_the_best_of_ipv6() {
    let mut agent = agent_config();
    agent.multiple_care_of = false;
    let mut pair = build(Family::Translated, Family::Ipv6, LoadSharing::Standby);
    pair.agent = crate::nemo::home_agent::HomeAgent::new(agent, Entropy::seed_from_u64(2));
    pair.feed_agent(crate::Input::Clock(crate::Clock { unix_micros: super::pair::START_UNIX_MICROS }));
    attach(&mut pair, UPLINK);
    attach(&mut pair, SECOND);
    pair.advance(Duration::from_secs(5));
    assert!(pair.is_connected());
    assert_eq!(arrivals(&pair), BTreeMap::from([(Bid(0), Some(SECOND))]));
    pair.link_on(SECOND, "up1", false);
    pair.advance(Duration::from_secs(2));
    assert_eq!(arrivals(&pair), BTreeMap::from([(Bid(0), Some(UPLINK))]));
}

#[test]
fn random_uplinks_converge_on_all_paths() {
    for seed in 0..60 {
        let mut rng = Entropy::seed_from_u64(seed);
        let (first, second) = PAIRS[usize::try_from(rng.below(9)).unwrap()];
        let sharing = if rng.below(2) == 0 { LoadSharing::Standby } else { LoadSharing::Weighted };
        let mut pair = start(first, second, sharing);
        for _ in 0..25 {
            let link = if rng.below(2) == 0 { UPLINK } else { SECOND };
            let name = if link == UPLINK { "up0" } else { "up1" };
            match rng.below(8) {
                0 => pair.link_on(link, name, false),
                1 | 2 => attach(&mut pair, link),
                3 => drop(pair.black_holes.insert(link)),
                4 => drop(pair.black_holes.remove(&link)),
                5 => pair.loss = rng.below(300),
                6 => drop(pair.delays.insert(link, Duration::from_millis(2 + rng.below(900)))),
                _ => {
                    pair.nat.iter_mut().for_each(Nat::forget);
                    pair.others.values_mut().for_each(|access| access.nat.forget());
                }
            }
            pair.millis(rng.below(4_000));
        }
        pair.loss = 0;
        pair.black_holes.clear();
        pair.delays.clear();
        for (link, name) in [(UPLINK, "up0"), (SECOND, "up1")] {
            pair.link_on(link, name, false);
            attach(&mut pair, link);
        }
        pair.advance(Duration::from_secs(400));
        assert_eq!(arrivals(&pair), both(), "seed {seed}: {first:?} {second:?} {sharing:?}");
        assert!(pair.is_connected(), "seed {seed}: {first:?} {second:?} {sharing:?}");
    }
}
