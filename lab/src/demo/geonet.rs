//! GeoNetworking: three vehicles leave a roadside unit one behind the other until the first is three hops away, and come
//! back; ping and TCP continue between the first vehicle and the roadside unit (EN 302 636-6-1).

use super::Demo;
use crate::bed::{Process, access_router, dissector};
use crate::clock;
use crate::load::{Endpoint, Protocol, Transfer, TransferLoad};
use crate::report::chart::Chart;
use crate::statistics::percentile;
use crate::topology::road::{Road, RoadStation, VIRTUAL_LINK, host_address, road_position};
use crate::ui::LineStyle;
use anyhow::{Context, Result};
use roam6_sim::{RadioSpec, Track};
use std::net::Ipv6Addr;
use std::thread::sleep;
use std::time::Duration;

/// The prefix that the roadside unit advertises.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x90, 0, 0, 0, 0, 0);
/// Radio range, metres.
const RANGE: f64 = 300.0;
/// Frequent beacons and a short neighbour lifetime, because the next hops change.
const SETTINGS: &str = "beacon = \"300ms\"\nneighbour_lifetime = \"1s\"\npacket_data_rate = 4000000000\n";
/// Metres per second.
const SPEED: f64 = 35.0;
/// The moves, with the positions of the first, second and third vehicle afterwards, metres from the roadside unit.
const MOVES: [(&str, [f64; 3]); 4] = [
    ("all vehicles at the roadside unit", [120.0, 80.0, 40.0]),
    ("the first drives away, the second follows", [450.0, 230.0, 40.0]),
    ("all drive on: three hops", [690.0, 460.0, 230.0]),
    ("the first comes back", [100.0, 460.0, 230.0]),
];
/// Echo requests after each move.
const ECHOES: usize = 20;
/// Maximum silence of the connection, microseconds.
const MAX_SILENCE: u64 = 6_000_000;
/// How long initial connectivity may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The stations.
struct RoadScene {
    road: Road,
    rsu: RoadStation,
    vehicles: [RoadStation; 3],
    _radvd: Process,
}

/// The scene.
pub(crate) fn scene(demo: &mut Demo) -> Result<Option<Chart>> {
    show(demo, Road::new(RadioSpec::its_g5(RANGE), SETTINGS)?)
}

/// The scene with stations that sign their packets, and accept no others.
pub(crate) fn secured_scene(demo: &mut Demo) -> Result<Option<Chart>> {
    demo.status("certificates: a root authority, an authorisation authority, and a ticket for each station");
    show(demo, Road::new(RadioSpec::its_g5(RANGE), SETTINGS)?.secured()?)
}

fn show(demo: &mut Demo, road: Road) -> Result<Option<Chart>> {
    demo.status("building a road: a roadside unit, three vehicles, one radio channel with a range of 300 m");
    let is_secured = road.is_secured();
    let mut scene = RoadScene::build(road)?;
    scene.road.emulator.capture(&demo.capture)?;
    let addresses = scene.vehicle_addresses()?;
    for (vehicle, address) in scene.vehicles.iter().zip(&addresses) {
        demo.status(format!("{:<6} has configured {address} from the advertised prefix", vehicle.host.name()));
    }
    let [address, ..] = addresses;
    let [first, ..] = &scene.vehicles;
    let ends =
        [Endpoint { host: &first.host, address }, Endpoint { host: &scene.rsu.host, address: host_address(PREFIX, 1) }];
    let load = TransferLoad { message: 1000, ..TransferLoad::steady(Protocol::Tcp, 9700, 50_000) };
    let transfer = Transfer::start(ends, load)?;
    demo.action("a TCP transfer begins between the first vehicle and the roadside unit");
    let moves = MOVES.iter().map(|(what, positions)| scene.drive_and_measure(demo, &transfer, what, *positions));
    let moves: Result<Vec<(bool, String)>> = moves.collect();
    let deliveries = transfer.finish(TIMEOUT);
    let moves = moves.with_context(|| scene.log_tails())?;
    scene.road.emulator.finish_capture()?;
    demo.line(LineStyle::Action, table_row("", ["distance", "hops", "echoes", "round trip", "TCP silent"]));
    moves.into_iter().for_each(|(passed, row)| demo.check(passed, row));
    demo.check_deliveries("TCP", &deliveries?);
    for station in scene.vehicles.iter_mut().chain([&mut scene.rsu]) {
        demo.stop(&mut station.daemon, VIRTUAL_LINK)?;
    }
    demo.check_capture(|capture, _| {
        let packets = dissector::tshark(capture, "gnw", &[])?.lines().count();
        // Next header of the Basic Header: a secured packet.
        let signed = dissector::tshark(capture, "geonw.bh.nh == 2", &[])?.lines().count();
        let expected = if is_secured { packets } else { 0 };
        Ok((packets > 0 && signed == expected, format!("{packets} GeoNetworking packets, {signed} of them signed")))
    })?;
    Ok(None)
}

impl RoadScene {
    fn build(road: Road) -> Result<RoadScene> {
        let [(_, begin), ..] = MOVES;
        let rsu = road.add_station("rsu", "roadside-unit", Track::standing(road_position(0.0)))?;
        rsu.host.ip(&[&format!("address add {}/64 dev {VIRTUAL_LINK} nodad", host_address(PREFIX, 1))])?;
        let vehicle = |name, metres| road.add_station(name, "passenger-car", Track::standing(road_position(metres)));
        let [one, two, three] = begin;
        let vehicles = [vehicle("first", one)?, vehicle("second", two)?, vehicle("third", three)?];
        let radvd = access_router::advertise_at_roadside(&rsu.host, VIRTUAL_LINK, &format!("{PREFIX}/64"))?;
        Ok(RoadScene { road, rsu, vehicles, _radvd: radvd })
    }

    /// The address that each vehicle has configured from the advertised prefix.
    fn vehicle_addresses(&self) -> Result<[Ipv6Addr; 3]> {
        let find = |vehicle: &RoadStation| {
            let selectors = ["dev", VIRTUAL_LINK, "scope", "global", "-tentative"];
            let address = || vehicle.host.addresses(&selectors).ok()?.into_iter().next();
            clock::wait_for(TIMEOUT, address).with_context(|| format!("{} has no address", vehicle.host.name()))
        };
        let [one, two, three] = &self.vehicles;
        Ok([find(one)?, find(two)?, find(three)?])
    }

    /// Drives the vehicles to these positions, and measures connectivity there; whether it is as required, and the row
    /// of the table.
    fn drive_and_measure(
        &self,
        demo: &mut Demo,
        transfer: &Transfer,
        what: &str,
        positions: [f64; 3],
    ) -> Result<(bool, String)> {
        demo.action(what);
        let begin = clock::unix_micros();
        let goals = self.vehicles.iter().map(|vehicle| vehicle.radio).zip(positions);
        sleep(self.road.set_destinations(goals, SPEED)? + Duration::from_secs(2));
        let ([first, ..], to) = (&self.vehicles, host_address(PREFIX, 1).to_string());
        let round_trips = first.host.ping(ECHOES, &["-i", "0.1", "-W", "2", &to])?;
        let silence = transfer.longest_silence(begin, clock::unix_micros());
        let ([metres, ..], hops) = (positions, hop_count(&positions));
        let round_trip = percentile(&round_trips, 0.5).map_or("-".to_owned(), |millis| format!("{millis:.1} ms"));
        let (echoes, silent) =
            (format!("{}/{ECHOES}", round_trips.len()), format!("{:.0} ms", silence as f64 / 1000.0));
        let passed = round_trips.len() == ECHOES && silence < MAX_SILENCE;
        let summary = format!("{metres:.0} m, hops: {hops}, round trip {round_trip}, echoes {echoes}");
        demo.timed_check(passed, format!("  {summary}; longest TCP silence {silent}"));
        let distance = format!("{metres:.0} m");
        Ok((passed, table_row(what, [&distance, &hops.to_string(), &echoes, &round_trip, &silent])))
    }

    fn log_tails(&self) -> String {
        self.vehicles.iter().chain([&self.rsu]).map(|station| station.daemon.log_tail()).collect()
    }
}

/// Hops from the first vehicle to the roadside unit, each to the farthest station in range.
fn hop_count(positions: &[f64; 3]) -> usize {
    let [mut here, ..] = *positions;
    let mut hops = 0;
    while here > 0.0 {
        let in_range = |position: &f64| here - position <= RANGE;
        let next = positions.iter().copied().chain([0.0]).filter(in_range).fold(here, f64::min);
        if next >= here {
            return usize::MAX;
        }
        (here, hops) = (next, hops + 1);
    }
    hops
}

fn table_row(what: &str, [metres, hops, echoes, round_trip, silence]: [&str; 5]) -> String {
    format!("{what:<44} {metres:>8} {hops:>5} {echoes:>9} {round_trip:>11} {silence:>11}")
}
