//! Seeded worlds of vehicles.

mod common;

use roam6_sim::vehicles::ipv6_hosts::Ipv6HostWorld;
use roam6_sim::vehicles::run::{RunResult, VehicleWorld};

/// Number of worlds unless `ROAM6_WORLDS` is set.
const WORLDS: u64 = 2_000;

#[test]
fn vehicle_worlds_deliver_each_reachable_packet_once() {
    common::run_all::<VehicleWorld>(WORLDS, report);
}

/// Number of worlds of IPv6 hosts unless `ROAM6_WORLDS` is set.
const STREETS: u64 = 200;

#[test]
fn ipv6_hosts_communicate_on_every_virtual_link() {
    common::run_all::<Ipv6HostWorld>(STREETS, |_| {});
}

fn report(results: &[RunResult]) {
    for (kind, results) in common::by_kind(results, |result| result.kind) {
        let sum = |of: fn(&RunResult) -> u64| results.iter().map(|result| of(result)).sum::<u64>();
        println!(
            "{:>8}: {} worlds, {} stations, {} steps, {} frames, {} payloads handed up, {} that had to arrive",
            kind.to_string(),
            results.len(),
            sum(|result| result.stations.into()),
            sum(|result| result.steps),
            sum(|result| result.frames),
            sum(|result| result.deliveries as u64),
            sum(|result| result.expected.into()),
        );
    }
}
