//! Two vehicles with networks inside, a roadside unit and a cellular network: NEMO with several care-of addresses, and
//! networks of vehicles nearby, over GeoNetworking (document P3: V2V, V2R, V2I).
//!
//! ```text
//!   cn ── core ── ha                    cellular: 25 ms each way, reaches everywhere
//!          │  ╲
//!          │   rsu ))) ((( mr0 ── mnn0     gn0, 300 m
//!          │           )))
//!         ar1 ~ ~ ~ ~ ~ mr0, mr1 ── mnn1   cell0
//! ```

use crate::bed::ObservedFrame;
use crate::bed::sandbox::WORK_DIR;
use crate::bed::{Port, Process, access_router};
use crate::clock;
use crate::threads::{Shared, Workers};
use crate::topology::nemo::{self, NemoNetwork, Vehicle};
use crate::topology::road::{Road, RoadStation, VIRTUAL_LINK, host_address, road_position};
use anyhow::{Context, Result};
use roam6_sim::{LinkSpec, RadioSpec, Track};
use roam6_wire::LinkAddress;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Duration;

/// The prefix that the roadside unit advertises.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xb0, 0, 0, 0, 0, 0);
/// Radio range, metres.
const RANGE: f64 = 300.0;
/// One-way delay to the cellular network's router.
const CELLULAR_DELAY: Duration = Duration::from_millis(25);
const SETTINGS: &str = "beacon = \"300ms\"\nneighbour_lifetime = \"1s\"\npacket_data_rate = 4000000000\n";
/// SPI of the key that all vehicles share for MNPP.
const MNPP_SPI: u32 = 4096;
/// Minimum octets of a frame that counts as data.
const MIN_DATA_FRAME: usize = 300;

/// The networks.
pub(crate) struct RoadsideNetwork {
    pub(crate) network: NemoNetwork,
    pub(crate) road: Road,
    pub(crate) vehicles: [ConnectedVehicle; 2],
    _rsu: RoadStation,
    _radvd: Process,
}

/// A vehicle on the road.
pub(crate) struct ConnectedVehicle {
    pub(crate) vehicle: Vehicle,
    pub(crate) radio: Port,
    _gps: Workers,
}

/// The path of a data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathKind {
    /// Direct to the other vehicle (V2V).
    Direct,
    /// By the roadside unit (V2R).
    Roadside,
    /// By the cellular network (V2I).
    Cellular,
}

/// Octets of data that each vehicle has sent on each path.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathUsage(Shared<OctetsByPath>);

/// The same at one time: octets by vehicle and path.
pub(crate) type OctetsByPath = BTreeMap<(usize, PathKind), u64>;

impl RoadsideNetwork {
    /// Builds the networks with the vehicles at these distances (metres) from the roadside unit, and waits until both
    /// are registered.
    pub(crate) fn build(places: [f64; 2]) -> Result<RoadsideNetwork> {
        let network = NemoNetwork::build(Duration::from_millis(1), 2, "")?;
        let [cellular, _] = &network.visited;
        network.emulator.shape(cellular.cable, LinkSpec { delay: CELLULAR_DELAY, ..LinkSpec::default() });
        let spec = RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) };
        let road = Road::with_emulator(network.emulator.clone(), spec, SETTINGS);
        let (rsu, radvd) = roadside_unit(&network, &road)?;
        let [one, other] = places;
        let cars = [connected_vehicle(&network, &road, 0, one)?, connected_vehicle(&network, &road, 1, other)?];
        let built = RoadsideNetwork { network, road, vehicles: cars, _rsu: rsu, _radvd: radvd };
        for car in &built.vehicles {
            car.vehicle.wait_until_connected(nemo::CORRESPONDENT).with_context(|| built.log_tails())?;
        }
        Ok(built)
    }

    /// Moves the vehicles to these positions (metres) at `speed` metres per second; returns once they have arrived.
    pub(crate) fn drive(&self, places: [f64; 2], speed: f64) -> Result<()> {
        let goals = self.vehicles.iter().map(|car| car.radio).zip(places);
        std::thread::sleep(self.road.set_destinations(goals, speed)?);
        Ok(())
    }

    /// Observes the data frames of the vehicles from now on.
    pub(crate) fn watch_paths(&self) -> PathUsage {
        let ports = self.vehicles.each_ref().map(|car| (car.radio, car.vehicle.uplinks.first().copied()));
        let macs = ports.map(|(radio, _)| self.road.emulator.link_layer_address(radio));
        PathUsage(self.road.emulator.collect(move |octets, observed| record(octets, observed, ports, macs)))
    }

    /// The last lines of every log.
    pub(crate) fn log_tails(&self) -> String {
        self.vehicles.iter().map(|car| car.vehicle.daemon.log_tail()).collect()
    }
}

impl PathUsage {
    /// The octets so far.
    pub(crate) fn snapshot(&self) -> OctetsByPath {
        self.0.lock().clone()
    }
}

/// Counts a frame by its path.
fn record(
    used: &mut OctetsByPath,
    observed: &ObservedFrame<'_>,
    ports: [(Port, Option<Port>); 2],
    macs: [Option<LinkAddress>; 2],
) {
    if observed.frame.len() < MIN_DATA_FRAME {
        return;
    }
    let to = observed.frame.first_chunk().map(|octets| LinkAddress(*octets));
    for (car, (radio, cellular)) in ports.into_iter().enumerate() {
        let way = match observed.port {
            port if port == radio && macs.contains(&to) => PathKind::Direct,
            port if port == radio => PathKind::Roadside,
            port if Some(port) == cellular => PathKind::Cellular,
            _ => continue,
        };
        *used.entry((car, way)).or_default() += observed.frame.len() as u64;
    }
}

/// The roadside unit at metre 0, with a cable to the backbone.
fn roadside_unit(network: &NemoNetwork, road: &Road) -> Result<(RoadStation, Process)> {
    let rsu = road.add_station("rsu", "roadside-unit", Track::standing(road_position(0.0)))?;
    let ports = [network.emulator.add_port(&network.core, "rsu0")?, network.emulator.add_port(&rsu.host, "net0")?];
    network.emulator.cable(ports, LinkSpec::default())?;
    network
        .core
        .ip(&["address add 2001:db8:f9::1/64 dev rsu0 nodad", &format!("route add {PREFIX}/64 via 2001:db8:f9::2")])?;
    rsu.host.ip(&[
        "address add 2001:db8:f9::2/64 dev net0 nodad",
        &format!("address add {}/64 dev {VIRTUAL_LINK} nodad", host_address(PREFIX, 1)),
        "route add default via 2001:db8:f9::1",
    ])?;
    let radvd = access_router::advertise_at_roadside(&rsu.host, VIRTUAL_LINK, &format!("{PREFIX}/64"))?;
    Ok((rsu, radvd))
}

fn connected_vehicle(network: &NemoNetwork, road: &Road, number: u8, metres: f64) -> Result<ConnectedVehicle> {
    let key = Path::new(WORK_DIR).join("nearby.key");
    nemo::write_key(&key, MNPP_SPI)?;
    let extra = format!(
        "\n{}\n[mnpp]\nkey_file = \"{key}\"\ninterval = \"300ms\"\n\n[[mnpp.accept]]\nkey_file = \"{key}\"\n\
         prefixes = [\"2001:db8:100::/40\"]\n",
        road.config("passenger-car"),
        key = key.display(),
    );
    let vehicle = network.vehicle_with_ports(number, &[VIRTUAL_LINK, "cell0"], &["cell0"], &extra)?;
    let [cellular, _] = &network.visited;
    network.emulator.plug(vehicle.uplink(0)?, cellular.link)?;
    let (radio, gps) = road.add_radio(&vehicle.mr, Track::standing(road_position(metres)))?;
    let appears = || vehicle.mr.interface_index(VIRTUAL_LINK).ok();
    clock::wait_for(Duration::from_secs(15), appears)
        .with_context(|| format!("{} has no {VIRTUAL_LINK}", vehicle.mr.name()))?;
    Ok(ConnectedVehicle { vehicle, radio, _gps: gps })
}
