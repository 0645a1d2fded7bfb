//! A vehicle with an uplink in each access network, for faults of the preferred one.

use super::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::bed::Segment;
use crate::load::handover::OBSERVATION_TIME;
use anyhow::{Result, anyhow};
use roam6_sim::LinkSpec;
use std::thread::sleep;
use std::time::Duration;

/// A vehicle with both uplinks registered, the first in the first access network; `home` is the one-way delay between the
/// backbone and the home agent, `access` between an access network and the backbone.
pub(crate) fn two_uplinks(home: Duration, access: LinkSpec) -> Result<(NemoNetwork, Vehicle)> {
    let (network, [vehicle]) = vehicles_with_two_uplinks(home, access)?;
    Ok((network, vehicle))
}

/// [`two_uplinks`] of several vehicles in the same networks.
pub(crate) fn vehicles_with_two_uplinks<const COUNT: usize>(
    home: Duration,
    access: LinkSpec,
) -> Result<(NemoNetwork, [Vehicle; COUNT])> {
    let count = u8::try_from(COUNT)?;
    let network = NemoNetwork::build(home, count, "")?;
    let vehicles: Vec<Vehicle> =
        (0..count).map(|number| network.vehicle(number, &["up0", "up1"])).collect::<Result<_>>()?;
    let [fn1, fn2] = &network.visited;
    for visited in [fn1, fn2] {
        network.emulator.shape(visited.cable, access);
    }
    for vehicle in &vehicles {
        plug(&network, vehicle, 0, fn1.link)?;
        vehicle.wait_until_connected(CORRESPONDENT)?;
        let at = plug(&network, vehicle, 1, fn2.link)?;
        vehicle.wait_registered(at, 2)?;
    }
    sleep(OBSERVATION_TIME);
    let vehicles = vehicles.try_into().map_err(|_| anyhow!("too few vehicles"))?;
    Ok((network, vehicles))
}

fn plug(network: &NemoNetwork, vehicle: &Vehicle, uplink: usize, to: Segment) -> Result<u64> {
    network.emulator.plug(vehicle.uplink(uplink)?, to)
}

/// Ends a fault of the first cable, which is as `access` again, and waits until both uplinks of each vehicle are registered. A
/// path that was left is used again only after a while; a new attachment is used at once.
pub(crate) fn start_afresh(network: &NemoNetwork, vehicles: &[&Vehicle], access: LinkSpec) -> Result<()> {
    let fn1 = &network.visited[0];
    network.emulator.shape(fn1.cable, access);
    for vehicle in vehicles {
        network.emulator.unplug(vehicle.uplink(0)?)?;
    }
    sleep(OBSERVATION_TIME);
    let plugged: Vec<u64> =
        vehicles.iter().map(|vehicle| plug(network, vehicle, 0, fn1.link)).collect::<Result<_>>()?;
    vehicles.iter().zip(plugged).try_for_each(|(vehicle, at)| vehicle.wait_registered(at, 2))
}
