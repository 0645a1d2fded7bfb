//! A thousand vehicles on a street grid, in the simulator: delivery of what is reachable, hops, and frames. Independent
//! of the machine.

use super::Experiment;
use crate::figures::{Findings, round};
use crate::progress::Progress;
use anyhow::Result;
use roam6_proto::contract::config::geo::{Mib, NonAreaForwarding, TransportType};
use roam6_proto::geo::PacketRequest;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::{Entropy, Time};
use roam6_sim::radio::StationId;
use roam6_sim::vehicles::invariants::number;
use roam6_sim::vehicles::reachability::Graph;
use roam6_sim::vehicles::world::{RadioWorld, StationStep, StepCause, geo_address};
use roam6_sim::{RadioSpec, Track};
use roam6_wire::geo::{Area, Packet, TrafficClass, UpperProtocol};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "geonet/city",
    about: "1,000 vehicles on a street grid, simulated: delivery of what is reachable, hops, frames",
    run,
};

/// Distance between crossings, metres, and crossings in a row.
const BLOCK: f64 = 200.0;
const CROSSINGS: u64 = 11;
/// Radio range, metres.
const RANGE: f64 = 250.0;
/// No message is sent before all stations know their neighbours.
const WARM: Duration = Duration::from_secs(10);
/// Interval of messages, and how long the last one may take.
const APART: Duration = Duration::from_millis(500);
const TAIL: Duration = Duration::from_secs(12);
/// Radius of the areas, metres.
const AREA: u16 = 300;
/// Maximum hops of a packet.
const HOPS: u32 = 10;

/// A forwarding algorithm outside of the destination area, with or without store-carry-forward.
struct Way {
    name: &'static str,
    non_area: NonAreaForwarding,
    recovery: bool,
    class: TrafficClass,
}

const GREEDY: Way =
    Way { name: "greedy", non_area: NonAreaForwarding::Greedy, recovery: false, class: TrafficClass(0) };
const WAYS: [Way; 4] = [
    GREEDY,
    Way { name: "greedy_round_gaps", recovery: true, ..GREEDY },
    Way { name: "greedy_carried", class: TrafficClass(0x80), ..GREEDY },
    Way { name: "contention", non_area: NonAreaForwarding::Contention, ..GREEDY },
];

/// A message, and where it arrived.
struct Asked {
    to: TransportType,
    /// Stations that were reachable, with the minimum number of hops.
    reachable: BTreeMap<StationId, u32>,
    /// Stations that were reached, with the number of hops.
    reached: BTreeMap<StationId, u32>,
}

fn run(quick: bool) -> Result<Findings> {
    let (vehicles, requests) = if quick { (200, 20) } else { (1000, 120) };
    let mut findings = Findings::default();
    let mut progress = Progress::new(requests * WAYS.len() as u64);
    for way in WAYS {
        // The same vehicles, tracks and messages for each variant.
        let mut city = City::new(vehicles, way);
        city.advance(Time::ZERO + WARM);
        city.frames = 0;
        for number in 0..requests {
            progress.say(city.way.name);
            city.ask(number);
            city.advance(city.world.now() + APART);
            progress.step();
        }
        city.advance(city.world.now() + TAIL);
        city.tell(&mut findings);
    }
    Ok(findings)
}

struct City {
    world: RadioWorld,
    way: Way,
    chance: Entropy,
    vehicles: u32,
    asked: BTreeMap<u64, Asked>,
    frames: u64,
    octets: u64,
}

impl City {
    fn new(vehicles: u32, way: Way) -> City {
        let spec = RadioSpec { lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) };
        let Way { non_area, recovery, .. } = way;
        let mib = Mib { non_area, recovery, max_range: RANGE as u32, ..Mib::default() };
        let mut city = City {
            world: RadioWorld::new(spec, 1),
            way,
            chance: Entropy::seed_from_u64(11),
            vehicles,
            asked: BTreeMap::new(),
            frames: 0,
            octets: 0,
        };
        for id in 1..=vehicles {
            let track = city.route();
            city.world.add(StationId(id), track, mib.clone());
        }
        city
    }

    /// A random walk over crossings without U-turns, for three minutes.
    fn route(&mut self) -> Track {
        let mut at = (self.chance.below(CROSSINGS), self.chance.below(CROSSINGS));
        let mut came_from = at;
        let speed = 8.0 + self.chance.below(600) as f64 / 100.0;
        let mut track = Track::standing(place(at));
        while track.last().0 < Time::ZERO + Duration::from_secs(180) {
            let (east, north) = at;
            let ways =
                [(east + 1, north), (east.wrapping_sub(1), north), (east, north + 1), (east, north.wrapping_sub(1))];
            let ways = ways.into_iter().filter(|way| way.0 < CROSSINGS && way.1 < CROSSINGS && *way != came_from);
            let ways: Vec<(u64, u64)> = ways.collect();
            let chosen = usize::try_from(self.chance.below(ways.len() as u64)).unwrap_or(0);
            let Some(next) = ways.get(chosen).copied() else { break };
            (came_from, at) = (at, next);
            track = track.drive_to(place(at), speed);
        }
        track
    }

    fn vehicle(&mut self) -> StationId {
        StationId(1 + u32::try_from(self.chance.below(self.vehicles.into())).unwrap_or(0))
    }

    /// Every third message is for an area, the others are for one vehicle.
    fn ask(&mut self, number: u64) {
        let (by, other) = (self.vehicle(), self.vehicle());
        let graph = Graph::new(self.world.places(), RANGE);
        let hops = graph.flood_hops(by, |_| true);
        let middle = graph.place(other).map(|place| self.world.on_earth(place));
        let (to, wanted): (TransportType, BTreeSet<StationId>) = match middle.filter(|_| number % 3 == 2) {
            Some(middle) => {
                let area = Area::circle(middle, AREA);
                let is_in = |id: &StationId| {
                    graph
                        .place(*id)
                        .is_some_and(|place| roam6_proto::geo::geometry::contains(&area, self.world.on_earth(place)))
                };
                (TransportType::GeoBroadcast(area), graph.stations().filter(is_in).collect())
            }
            None => (TransportType::GeoUnicast(geo_address(other)), [other].into()),
        };
        let reachable = hops.into_iter().filter(|(id, hop)| wanted.contains(id) && *id != by && *hop <= HOPS).collect();
        self.asked.insert(number, Asked { to, reachable, reached: BTreeMap::new() });
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(200, 0);
        let (upper, class) = (UpperProtocol::BtpB, self.way.class);
        let request = PacketRequest { to, upper, payload, class, lifetime: None, hops: None, repetition: None };
        if let Some((step, _)) = self.world.ask(by, request) {
            self.look(&step);
        }
    }

    fn advance(&mut self, end: Time) {
        while let Some(step) = self.world.step(end) {
            self.look(&step);
        }
    }

    fn look(&mut self, step: &StationStep) {
        self.frames += step.sent.len() as u64;
        self.octets += step.sent.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
        let (StepCause::FrameReceived(frame), Some(payload)) = (&step.cause, &step.delivered) else { return };
        let hops = Packet::parse(&frame.bytes)
            .map_or(0, |packet| u32::from(packet.max_hop_limit - packet.remaining_hop_limit) + 1);
        if let Some(asked) = number(payload).and_then(|number| self.asked.get_mut(&number)) {
            asked.reached.entry(step.station).or_insert(hops);
        }
    }

    fn tell(&self, findings: &mut Findings) {
        let seconds = self.world.now().since(Time::ZERO).as_secs_f64();
        let each = round(self.frames as f64 / self.asked.len().max(1) as f64);
        let octets = round(self.octets as f64 / f64::from(self.vehicles) / seconds);
        for (kind, for_areas) in [("unicast", false), ("broadcast", true)] {
            let count = self.count(for_areas);
            let (delivery, hops) = (share(count.reached, count.reachable), share(count.hops, count.least));
            findings.rows.push(json!({
                "forwarding": self.way.name, "kind": kind, "vehicles": self.vehicles,
                "reachable": count.reachable, "reached": count.reached, "delivery": delivery,
                "hops_mean": share(count.hops, count.reached), "hops_over_least": hops,
                "frames_per_request": each, "octets_per_vehicle_and_second": octets,
            }));
            findings.sum_up(&format!("{kind}_delivery_{}", self.way.name), delivery);
            findings.sum_up(&format!("{kind}_hops_over_least_{}", self.way.name), hops);
        }
        findings.sum_up(&format!("frames_per_request_{}", self.way.name), each);
    }

    fn count(&self, for_areas: bool) -> Count {
        let mut count = Count::default();
        for asked in self.asked.values().filter(|asked| matches!(asked.to, TransportType::GeoBroadcast(_)) == for_areas)
        {
            for (id, least) in &asked.reachable {
                count.reachable += 1;
                if let Some(hops) = asked.reached.get(id) {
                    count.reached += 1;
                    count.least += least;
                    count.hops += hops;
                }
            }
        }
        count
    }
}

/// Stations reachable and reached; minimum and actual hops of the latter.
#[derive(Default)]
struct Count {
    reachable: u32,
    reached: u32,
    least: u32,
    hops: u32,
}

fn share(of: u32, all: u32) -> f64 {
    round(f64::from(of) / f64::from(all.max(1)))
}

fn place((east, north): (u64, u64)) -> Offset {
    Offset { east: east as f64 * BLOCK, north: north as f64 * BLOCK }
}
