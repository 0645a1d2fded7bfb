//! Worlds written as literals: a topology, a script and expectations in a few lines each.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use roam6_sim::literal::{
    attach, black_hole, detach, expect, loss_at_most, no_loss, not_registered, play, power_off, registered, script,
    topology,
};

/// The default lifetime and the one of the examples, seconds.
const LIFETIMES: [u64; 2] = [600, 3600];

#[test]
fn a_handover_between_visited_networks_loses_packets_for_a_second_at_most() {
    for lifetime in LIFETIMES {
        play(
            topology().visited_networks(2).mobile_router(&["eth0"]).lifetime(lifetime),
            script().at(1, attach("mr0", "eth0", "visited 0")).at(30, attach("mr0", "eth0", "visited 1")),
            expect()
                .at(5, registered("mr0"))
                .between(6, 30, no_loss("mr0"))
                .between(30, 40, loss_at_most("mr0", 10))
                .between(40, 60, no_loss("mr0")),
        )
        .unwrap();
    }
}

#[test]
fn a_standby_home_agent_takes_over_within_seconds_whatever_the_lifetime() {
    for lifetime in LIFETIMES {
        play(
            topology().home_agents(2).visited_networks(1).mobile_router(&["eth0"]).lifetime(lifetime),
            script().at(1, attach("mr0", "eth0", "visited 0")).at(30, power_off("ha0")),
            expect().between(6, 30, no_loss("mr0")).at(35, registered("mr0")).between(35, 120, no_loss("mr0")),
        )
        .unwrap();
    }
}

/// Losses at most: of a black hole until three probes are unanswered, of a lost carrier what was on its way.
#[test]
fn a_standby_uplink_takes_over_when_the_preferred_one_fails() {
    let faults = [(black_hole("visited 0", true), 10), (detach("mr0", "eth0"), 2)];
    for (lifetime, (fault, losses)) in
        LIFETIMES.into_iter().flat_map(|lifetime| faults.clone().map(|one| (lifetime, one)))
    {
        play(
            topology().visited_networks(2).mobile_router(&["eth0", "eth1"]).lifetime(lifetime),
            script().at(1, attach("mr0", "eth0", "visited 0")).at(1, attach("mr0", "eth1", "visited 1")).at(20, fault),
            expect()
                .at(5, registered("mr0"))
                .between(6, 20, no_loss("mr0"))
                .between(20, 30, loss_at_most("mr0", losses))
                .between(21, 60, no_loss("mr0")),
        )
        .unwrap();
    }
}

/// Expectations can fail, and a misspelt name is an error.
#[test]
fn a_failed_expectation_names_its_condition_and_time() {
    let world = |expectations| {
        let script = script().at(1, attach("mr0", "eth0", "visited 0")).at(20, detach("mr0", "eth0"));
        play(topology().visited_networks(1).mobile_router(&["eth0"]), script, expectations)
    };
    assert_eq!(world(expect().at(10, not_registered("mr0"))), Err("at 10.500000: mr0 is registered".to_owned()));
    let lost = world(expect().between(21, 25, no_loss("mr0"))).unwrap_err();
    assert!(lost.contains("packets of mr0 lost"), "{lost}");
    assert_eq!(world(expect().at(5, registered("mr7"))), Err("at 5.500000: no host mr7".to_owned()));
}
