//! A thousand vehicles on a street grid, in the simulator: delivery to reachable stations, hops, and frames. Independent
//! of the machine.

use crate::experiments::prelude::*;
use roam6_proto::contract::config::geo::{Mib, NonAreaForwarding, TransportType};
use roam6_proto::geo::PacketRequest;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::{Entropy, Time};
use roam6_sim::net::radio::StationId;
use roam6_sim::vehicles::invariants::number;
use roam6_sim::vehicles::reachability::Graph;
use roam6_sim::vehicles::world::{RadioWorld, StationStep, StepCause, geo_address};
use roam6_sim::{RadioSpec, Track};
use roam6_wire::geo::{Area, Packet, TrafficClass, UpperProtocol};
use std::collections::{BTreeMap, BTreeSet};

/// Distance between crossings, metres, and crossings in a row.
const BLOCK: f64 = 200.0;
const CROSSINGS: u64 = 11;
/// Radio range, metres.
const RANGE: f64 = 250.0;
/// No message is sent before all stations know their neighbours.
const WARM_UP: Duration = Duration::from_secs(10);
/// Interval of messages, and how long the last one may take.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(500);
const DRAIN_TIME: Duration = Duration::from_secs(12);
/// Radius of the areas, metres.
const AREA: u16 = 300;
/// Maximum hops of a packet.
const HOPS: u32 = 10;

/// A forwarding algorithm outside of the destination area, with or without store-carry-forward.
struct ForwardingVariant {
    name: &'static str,
    non_area: NonAreaForwarding,
    recovery: bool,
    class: TrafficClass,
}

const GREEDY: ForwardingVariant =
    ForwardingVariant { name: "greedy", non_area: NonAreaForwarding::Greedy, recovery: false, class: TrafficClass(0) };
const VARIANTS: [ForwardingVariant; 4] = [
    GREEDY,
    ForwardingVariant { name: "greedy_round_gaps", recovery: true, ..GREEDY },
    ForwardingVariant { name: "greedy_carried", class: TrafficClass(0x80), ..GREEDY },
    ForwardingVariant { name: "contention", non_area: NonAreaForwarding::Contention, ..GREEDY },
];

/// A message, and where it arrived.
struct SentMessage {
    to: TransportType,
    /// Stations that were reachable, with the minimum number of hops.
    reachable: BTreeMap<StationId, u32>,
    /// Stations that were reached, with the number of hops.
    reached: BTreeMap<StationId, u32>,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (vehicles, requests) = if run.quick { (200, 20) } else { (1000, 120) };
    run.set_steps(requests * VARIANTS.len());
    for way in VARIANTS {
        // The same vehicles, tracks and messages for each variant.
        let mut city = City::new(vehicles, way);
        city.advance(Time::ZERO + WARM_UP);
        city.frames = 0;
        for number in 0..requests as u64 {
            run.step(city.variant.name);
            city.send_message(number);
            city.advance(city.world.now() + MESSAGE_INTERVAL);
        }
        city.advance(city.world.now() + DRAIN_TIME);
        city.report_rows(run);
    }
    Ok(())
}

struct City {
    world: RadioWorld,
    variant: ForwardingVariant,
    rng: Entropy,
    vehicles: u32,
    messages: BTreeMap<u64, SentMessage>,
    frames: u64,
    octets: u64,
}

impl City {
    fn new(vehicles: u32, way: ForwardingVariant) -> City {
        let spec = RadioSpec { lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) };
        let ForwardingVariant { non_area, recovery, .. } = way;
        let mib = Mib { non_area, recovery, max_range: RANGE as u32, ..Mib::default() };
        let mut city = City {
            world: RadioWorld::new(spec, 1),
            variant: way,
            rng: Entropy::seed_from_u64(11),
            vehicles,
            messages: BTreeMap::new(),
            frames: 0,
            octets: 0,
        };
        for id in 1..=vehicles {
            let track = city.random_track();
            city.world.add(StationId(id), track, mib.clone());
        }
        city
    }

    /// A random walk over crossings without U-turns, for three minutes.
    fn random_track(&mut self) -> Track {
        let mut at = (self.rng.below(CROSSINGS), self.rng.below(CROSSINGS));
        let mut previous = at;
        let speed = 8.0 + self.rng.below(600) as f64 / 100.0;
        let mut track = Track::standing(crossing_position(at));
        while track.last().0 < Time::ZERO + Duration::from_secs(180) {
            let (east, north) = at;
            let turns =
                [(east + 1, north), (east.wrapping_sub(1), north), (east, north + 1), (east, north.wrapping_sub(1))];
            let turns = turns.into_iter().filter(|way| way.0 < CROSSINGS && way.1 < CROSSINGS && *way != previous);
            let turns: Vec<(u64, u64)> = turns.collect();
            let chosen = usize::try_from(self.rng.below(turns.len() as u64)).unwrap_or(0);
            let Some(next) = turns.get(chosen).copied() else { break };
            (previous, at) = (at, next);
            track = track.drive_to(crossing_position(at), speed);
        }
        track
    }

    fn random_vehicle(&mut self) -> StationId {
        StationId(1 + u32::try_from(self.rng.below(self.vehicles.into())).unwrap_or(0))
    }

    /// Every third message is for an area, the others are for one vehicle.
    fn send_message(&mut self, number: u64) {
        let (by, other) = (self.random_vehicle(), self.random_vehicle());
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
        self.messages.insert(number, SentMessage { to, reachable, reached: BTreeMap::new() });
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(200, 0);
        let (upper, class) = (UpperProtocol::BtpB, self.variant.class);
        let request = PacketRequest { to, upper, payload, class, lifetime: None, hops: None, repetition: None };
        // A refused request counts as one that did not arrive.
        let _ = self.world.request(by, request);
        self.observe_steps();
    }

    fn advance(&mut self, end: Time) {
        while self.world.network.step(end).is_some() {
            self.observe_steps();
        }
        self.world.network.wait_until(end);
    }

    fn observe_steps(&mut self) {
        while let Some(step) = self.world.take_step() {
            self.observe_step(&step);
        }
    }

    fn observe_step(&mut self, step: &StationStep) {
        self.frames += step.sent.len() as u64;
        self.octets += step.sent.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
        let (StepCause::FrameReceived(frame), Some(payload)) = (&step.cause, &step.delivered) else { return };
        let hops = Packet::parse(&frame.bytes)
            .map_or(0, |packet| u32::from(packet.max_hop_limit - packet.remaining_hop_limit) + 1);
        if let Some(message) = number(payload).and_then(|number| self.messages.get_mut(&number)) {
            message.reached.entry(step.station).or_insert(hops);
        }
    }

    fn report_rows(&self, run: &mut Run) {
        let seconds = self.world.now().since(Time::ZERO).as_secs_f64();
        let each = round(self.frames as f64 / self.messages.len().max(1) as f64);
        let octets = round(self.octets as f64 / f64::from(self.vehicles) / seconds);
        for (kind, for_areas) in [("unicast", false), ("broadcast", true)] {
            let count = self.count(for_areas);
            let (delivery, hops) = (share(count.reached, count.reachable), share(count.hops, count.min_hops));
            run.rows.push(json!({
                "forwarding": self.variant.name, "kind": kind, "vehicles": self.vehicles,
                "reachable": count.reachable, "reached": count.reached, "delivery": delivery,
                "hops_mean": share(count.hops, count.reached), "hops_over_least": hops,
                "frames_per_request": each, "octets_per_vehicle_and_second": octets,
            }));
            run.summarise(&format!("{kind}_delivery_{}", self.variant.name), delivery);
            run.summarise(&format!("{kind}_hops_over_least_{}", self.variant.name), hops);
        }
        run.summarise(&format!("frames_per_request_{}", self.variant.name), each);
    }

    fn count(&self, for_areas: bool) -> Count {
        let mut count = Count::default();
        for message in
            self.messages.values().filter(|message| matches!(message.to, TransportType::GeoBroadcast(_)) == for_areas)
        {
            for (id, least) in &message.reachable {
                count.reachable += 1;
                if let Some(hops) = message.reached.get(id) {
                    count.reached += 1;
                    count.min_hops += least;
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
    min_hops: u32,
    hops: u32,
}

fn share(of: u32, all: u32) -> f64 {
    round(f64::from(of) / f64::from(all.max(1)))
}

fn crossing_position((east, north): (u64, u64)) -> Offset {
    Offset { east: east as f64 * BLOCK, north: north as f64 * BLOCK }
}
