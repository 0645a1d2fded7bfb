//! Seeded worlds of vehicles, and the replay of one.

mod common;

use roam6_sim::vehicles::ipv6_hosts;
use roam6_sim::vehicles::run::{RunResult, run};
use roam6_sim::vehicles::scenario::VehicleKind;
use std::collections::BTreeMap;

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn vehicle_worlds_deliver_each_reachable_packet_once() {
    common::play_all(WORLDS, run, report);
}

/// Runs the world of `ROAM6_SEED` and prints every step.
#[test]
fn one_world() {
    common::play_one(run);
}

/// Number of worlds of IPv6 hosts unless `ROAM6_WORLDS` is set.
const STREETS: u64 = 200;

#[test]
fn ipv6_hosts_communicate_on_every_virtual_link() {
    common::play_all(STREETS, ipv6_hosts::run, |done| println!("{} exchanges", done.iter().sum::<u64>()));
}

/// Runs the world of IPv6 hosts of `ROAM6_SEED`.
#[test]
fn one_world_of_hosts() {
    common::play_one(ipv6_hosts::run);
}

fn report(tales: &[RunResult]) {
    let mut kinds: BTreeMap<VehicleKind, Vec<&RunResult>> = BTreeMap::new();
    for tale in tales {
        kinds.entry(tale.kind).or_default().push(tale);
    }
    for (kind, tales) in kinds {
        let sum = |of: fn(&RunResult) -> u64| tales.iter().map(|tale| of(tale)).sum::<u64>();
        println!(
            "{:>8}: {} worlds, {} stations, {} steps, {} frames, {} payloads handed up, {} that had to arrive",
            kind.to_string(),
            tales.len(),
            sum(|tale| tale.stations.into()),
            sum(|tale| tale.steps),
            sum(|tale| tale.frames),
            sum(|tale| tale.deliveries as u64),
            sum(|tale| tale.expected.into()),
        );
    }
}
