//! Uplinks by which packets leave and none comes back: they take no traffic from one that works in both directions, since
//! the home agent sends by what it has registered, whether its answer arrives or not.

use super::pair::{Pair, UPLINK, agent_config};
use super::several::{Family, PAIRS, SECOND, active, arrivals, attach, both, build_with, config};
use crate::contract::config::nemo::{HomeAgentConfig, LoadSharing, Transport};
use core::time::Duration;
use roam6_wire::Bid;

/// The second uplink is registered, the first one is down and deaf.
fn start(transport: Transport, sharing: LoadSharing, families: (Family, Family)) -> Pair {
    let mut router = config(sharing);
    router.uplinks.iter_mut().for_each(|uplink| uplink.transport = transport);
    let mut pair = build_with(families, router, HomeAgentConfig { udp6: true, ..agent_config() });
    pair.deaf.insert(UPLINK);
    attach(&mut pair, SECOND);
    pair.advance(Duration::from_secs(3));
    assert_eq!(active(&pair), [Some(Bid(2)); 2]);
    pair
}

/// How long, of so many seconds, packets are sent by the first uplink: by the home agent and by the router, milliseconds.
fn stolen(pair: &mut Pair, seconds: u64) -> [u64; 2] {
    const STEP: u64 = 20;
    let mut stolen = [0, 0];
    for _ in 0..seconds * 1000 / STEP {
        pair.millis(STEP);
        let carries = |plan| {
            pair.tunnel(plan)
                .is_some_and(|tunnel| tunnel.paths.iter().any(|path| path.bid == Bid(1) && path.weight > 0))
        };
        for (stolen, carries) in stolen.iter_mut().zip([&pair.agent_plan, &pair.router_plan].map(carries)) {
            *stolen += if carries { STEP } else { 0 };
        }
    }
    stolen
}

fn check(transport: Transport) {
    for sharing in [LoadSharing::Standby, LoadSharing::Weighted] {
        for families in PAIRS {
            let what = format!("{transport:?} {sharing:?} {families:?}");
            let mut pair = start(transport, sharing, families);
            attach(&mut pair, UPLINK);
            assert_eq!(stolen(&mut pair, 70), [0, 0], "{what}");
            // Its network is left and found again.
            pair.link_on(UPLINK, "up0", false);
            pair.millis(500);
            attach(&mut pair, UPLINK);
            assert_eq!(stolen(&mut pair, 20), [0, 0], "{what}: again");
            pair.deaf.clear();
            pair.advance(Duration::from_secs(70));
            assert_eq!((active(&pair), arrivals(&pair)), ([Some(Bid(1)); 2], both()), "{what}: it works");
            assert!(pair.is_connected(), "{what}: {:?}", pair.active_paths());
        }
    }
}

#[test]
fn deaf_uplink_takes_nothing() {
    check(Transport::Native);
}

#[test]
fn deaf_uplink_takes_nothing_where_udp_may_be_tried() {
    check(Transport::Auto);
}

#[test]
fn deaf_uplink_in_udp_takes_nothing() {
    check(Transport::Udp);
}

/// Its return direction fails while it carries the traffic: the other one takes over, and keeps it.
#[test]
fn uplink_that_becomes_deaf_is_left_and_stays_so() {
    for families in PAIRS {
        let mut pair = start(Transport::Auto, LoadSharing::Standby, families);
        pair.deaf.clear();
        attach(&mut pair, UPLINK);
        pair.advance(Duration::from_secs(5));
        assert_eq!(active(&pair), [Some(Bid(1)); 2], "{families:?}");
        pair.deaf.insert(UPLINK);
        pair.advance(Duration::from_secs(2));
        assert_eq!(stolen(&mut pair, 70), [0, 0], "{families:?}");
    }
}
