//! Runs a world of vehicles to its end and checks it: after the last fault every packet is delivered that an omniscient
//! observer could route, and a ferry carries packets to the far shore.

use super::attacker::Attacker;
use super::invariants::{DeliveryInvariants, number};
use super::reachability::Graph;
use super::scenario::{ATTACKER, CROSSING, FAULTS_SPAN, RANGE, SETTLE, VehicleEvent, VehicleKind, VehicleScenario};
use super::world::owner;
use crate::failure::WorldFamily;
use crate::net::{Event, Observation, StationId, World};
use crate::run::{Network, SeededWorld};
use core::time::Duration;
use roam6_proto::Time;
use roam6_proto::contract::config::geo::{AreaForwarding, TransportType};
use roam6_proto::geo::PacketRequest;
use roam6_proto::geo::geometry::{self, Offset};
use roam6_wire::geo::{Area, TrafficClass};
use std::collections::BTreeSet;

/// Requests after the last fault, and their interval.
const REQUESTS: u32 = 10;
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);
/// Time for the delivery of each.
const MAX_TRANSIT: Duration = Duration::from_secs(3);
/// Hops of a packet at most (itsGnDefaultHopLimit).
const MAX_HOPS: usize = 10;
/// Tolerance in metres at the border of an area, and the distance that a vehicle of a convoy moves while a packet is in
/// transit.
const BORDER: f64 = 2.0;
const DRIVEN: f64 = 60.0;
/// Interval of the attacker's bursts, and frames in each.
const BURST: Duration = Duration::from_millis(700);
const FRAMES: u32 = 6;

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// The kind of the world.
    pub kind: VehicleKind,
    /// Stations.
    pub stations: u32,
    /// Steps handled.
    pub steps: u64,
    /// Frames sent.
    pub frames: u64,
    /// Payloads delivered.
    pub deliveries: usize,
    /// Requests after the last fault whose delivery was required.
    pub expected: u32,
}

/// A world of stations.
pub struct VehicleWorld {
    scenario: VehicleScenario,
    invariants: DeliveryInvariants,
    attacker: Option<Attacker>,
    next_burst: Time,
    steps: u64,
}

/// A request and the stations that must receive it.
struct ExpectedDelivery {
    number: u64,
    by: StationId,
    to: TransportType,
    receivers: Receivers,
}

/// The stations that must receive a packet.
enum Receivers {
    /// All of them.
    All(BTreeSet<StationId>),
    /// One of them, if there is any.
    AnyOf(BTreeSet<StationId>),
}

impl Receivers {
    fn is_empty(&self) -> bool {
        let (Receivers::All(stations) | Receivers::AnyOf(stations)) = self;
        stations.is_empty()
    }
}

impl SeededWorld for VehicleWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "vehicle world", replay: "vehicles" };
    type Result = RunResult;

    fn generate(seed: u64) -> VehicleWorld {
        let scenario = VehicleScenario::new(seed);
        let attacker = scenario.kind.is_hostile().then(|| Attacker::new(ATTACKER, seed));
        let next_burst = Time::ZERO + Duration::from_secs(2);
        let invariants = DeliveryInvariants::default();
        VehicleWorld { scenario, invariants, attacker, next_burst, steps: 0 }
    }

    fn kind(&self) -> Option<String> {
        Some(self.scenario.kind.to_string())
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let mut expected = Vec::new();
        if self.scenario.kind.has_shores() {
            expected.extend(self.send_to_far_shore()?);
        }
        for (at, action) in core::mem::take(&mut self.scenario.script) {
            self.wait_until(at)?;
            self.apply_action(action)?;
        }
        if self.scenario.kind.has_shores() {
            self.wait_until(Time::ZERO + CROSSING)?;
        } else {
            self.wait_until(Time::ZERO + FAULTS_SPAN + SETTLE)?;
            for _ in 0..REQUESTS {
                expected.push(self.request_and_expect()?);
                self.wait_until(self.scenario.world.now() + REQUEST_INTERVAL)?;
            }
            self.wait_until(self.scenario.world.now() + MAX_TRANSIT)?;
        }
        expected.iter().try_for_each(|delivery| self.check_delivered(delivery))?;
        let owed = |delivery: &&ExpectedDelivery| !delivery.receivers.is_empty();
        Ok(RunResult {
            kind: self.scenario.kind,
            stations: self.scenario.stations,
            steps: self.steps,
            frames: self.invariants.frames,
            deliveries: self.invariants.deliveries(),
            expected: u32::try_from(expected.iter().filter(owed).count()).unwrap_or(u32::MAX),
        })
    }
}

impl Network for VehicleWorld {
    fn network(&mut self) -> &mut World {
        &mut self.scenario.world.network
    }

    fn check(&mut self, _: &[Observation]) -> Result<(), String> {
        while let Some(step) = self.scenario.world.take_step() {
            self.steps += 1;
            if let Some(attacker) = &mut self.attacker {
                attacker.record_sent(&self.scenario.world, step.station, &step.sent);
            }
            let checked = self.invariants.check(&self.scenario.world, &self.scenario.mib, &step);
            checked.map_err(|what| format!("station {}: {what}", step.station.0))?;
        }
        Ok(())
    }
}

impl VehicleWorld {
    /// Lets time pass until `end`, with the attacker's bursts.
    fn wait_until(&mut self, end: Time) -> Result<(), String> {
        while self.attacker.is_some() && self.next_burst < end {
            self.advance(self.next_burst)?;
            self.scenario.world.network.wait_until(self.next_burst);
            if let Some(attacker) = &mut self.attacker {
                attacker.step(&mut self.scenario.world, FRAMES);
            }
            self.next_burst = self.next_burst + BURST;
        }
        self.advance(end)?;
        self.scenario.world.network.wait_until(end);
        Ok(())
    }

    fn apply_action(&mut self, action: VehicleEvent) -> Result<(), String> {
        let world = &mut self.scenario.world;
        match action {
            VehicleEvent::Request(by, request) => return self.request(by, request).map(drop),
            VehicleEvent::SetPower(id, false) => world.switch_off(id),
            VehicleEvent::SetPower(id, true) => world.switch_on(id),
            VehicleEvent::SetRadio(spec) => {
                world.network.schedule(Duration::ZERO, Event::SetRadio(world.radio, spec));
            }
        }
        Ok(())
    }

    /// Requests a packet; returns the number of its payload.
    fn request(&mut self, by: StationId, request: PacketRequest) -> Result<u64, String> {
        let number = number(&request.payload).unwrap_or(0);
        self.invariants.note_request(number, by, request.to);
        let result = self.scenario.world.request(by, request);
        self.check(&[])?;
        result.map(|()| number).map_err(|refused| format!("refused: {refused}"))
    }

    /// Packets from the near shore to the far one.
    fn send_to_far_shore(&mut self) -> Result<Vec<ExpectedDelivery>, String> {
        self.wait_until(Time::ZERO + Duration::from_secs(5))?;
        let world = &self.scenario.world;
        let far: Vec<Offset> = world.places().into_values().filter(|place| place.east > 1_990.0).collect();
        let middle = far.iter().map(|place| place.east).sum::<f64>() / far.len().max(1) as f64;
        let area = Area::circle(world.on_earth(Offset { east: middle, north: 0.0 }), 900);
        let there: BTreeSet<StationId> =
            world.places().into_iter().filter(|(_, place)| place.east > 1_990.0).map(|(id, _)| id).collect();
        let mut expected = Vec::new();
        for to in
            [TransportType::GeoBroadcast(area), TransportType::GeoAnycast(area), TransportType::GeoBroadcast(area)]
        {
            let request = PacketRequest {
                class: TrafficClass(0x80),
                lifetime: Some(Duration::from_secs(600)),
                ..self.scenario.builder.request(to)
            };
            // Station 1 is nearest to the water.
            let by = StationId(1);
            let number = self.request(by, request)?;
            let receivers = match to {
                TransportType::GeoAnycast(_) => Receivers::AnyOf(there.clone()),
                _ => Receivers::All(there.clone()),
            };
            expected.push(ExpectedDelivery { number, by, to, receivers });
        }
        Ok(expected)
    }

    /// A request after the last fault, and its expected receivers.
    fn request_and_expect(&mut self) -> Result<ExpectedDelivery, String> {
        let VehicleScenario { world, builder, stations, .. } = &mut self.scenario;
        let (by, to) = (builder.station(*stations), builder.to(world, *stations));
        let request = builder.request(to);
        let graph = Graph::new(world.places(), RANGE);
        let receivers = self.expected_receivers(&graph, by, &to);
        let number = self.request(by, request)?;
        Ok(ExpectedDelivery { number, by, to, receivers })
    }

    fn expected_receivers(&self, graph: &Graph, by: StationId, to: &TransportType) -> Receivers {
        match to {
            TransportType::GeoUnicast(station) => {
                let reached = owner(station.mid).filter(|id| *id != by && self.meet(graph, by, *id));
                Receivers::All(reached.into_iter().collect())
            }
            TransportType::SingleHop => Receivers::All(graph.near(by).iter().copied().collect()),
            TransportType::TopologyBroadcast(hops) => {
                let flood = graph.flood_hops(by, |_| true).into_iter();
                let reached = flood.filter(|(id, hop)| *id != by && *hop <= u32::from(*hops));
                Receivers::All(reached.map(|(id, _)| id).collect())
            }
            TransportType::GeoBroadcast(area) => Receivers::All(self.spread(graph, by, area).unwrap_or_default()),
            TransportType::GeoAnycast(area) => {
                let entry = self.entry(graph, by, area);
                Receivers::AnyOf(entry.map(|entry| self.inside(graph, area, entry)).unwrap_or_default())
            }
        }
    }

    /// Whether greedy forwarding works from the one to the other and back.
    fn meet(&self, graph: &Graph, one: StationId, other: StationId) -> bool {
        let path = |from, to| {
            let goal = graph.place(to)?;
            graph.greedy(from, goal, |id| id == to).filter(|path| path.len() <= MAX_HOPS)
        };
        path(one, other).is_some() && path(other, one).is_some()
    }

    /// The first station of the area on the path of a packet, if all stations of the path know on which side of the
    /// border they are.
    fn entry(&self, graph: &Graph, by: StationId, area: &Area) -> Option<StationId> {
        let goal = self.scenario.world.offset(area.center);
        let is_in = |id: StationId| graph.place(id).is_some_and(|place| self.is_in(area, place, 0.0));
        let unsure = |id: StationId| {
            graph.place(id).is_some_and(|place| self.is_in(area, place, 1.0) != self.is_in(area, place, -1.0))
        };
        let path = graph.greedy(by, goal, is_in).filter(|path| path.len() < MAX_HOPS)?;
        // No station is nearer than one in the centre of the area.
        if path.iter().chain([&by]).any(|id| unsure(*id)) {
            return None;
        }
        Some(path.last().copied().unwrap_or(by))
    }

    /// The stations of the area that the packet reaches; `None` if that is not certain.
    fn spread(&self, graph: &Graph, by: StationId, area: &Area) -> Option<BTreeSet<StationId>> {
        let entry = self.entry(graph, by, area)?;
        let is_in = |id: StationId| graph.place(id).is_some_and(|place| self.is_in(area, place, -1.0));
        let inside = || graph.stations().filter(|id| is_in(*id));
        if self.scenario.mib.in_area != AreaForwarding::Simple {
            // A farther station on one side may suppress the only one that reaches a station on the other side (§F.3).
            let east = |id: StationId| graph.place(id).map_or(0.0, |place| place.east);
            let wide = graph.stations().filter(|id| graph.place(*id).is_some_and(|place| self.is_in(area, place, 1.0)));
            let sides: BTreeSet<bool> = wide.filter(|id| *id != entry).map(|id| east(id) > east(entry)).collect();
            if sides.len() > 1 {
                return None;
            }
        }
        let made = if entry == by {
            0
        } else {
            graph.greedy(by, self.scenario.world.offset(area.center), |id| id == entry)?.len()
        };
        let hops = graph.flood_hops(entry, is_in);
        let reached =
            inside().filter(|id| *id != by && hops.get(id).is_some_and(|hop| made + *hop as usize <= MAX_HOPS));
        Some(reached.collect())
    }

    /// Anycast ends at the first station; from inside the area it goes to all neighbours (§10.3.10).
    fn inside(&self, graph: &Graph, area: &Area, entry: StationId) -> BTreeSet<StationId> {
        let is_in = |id: &StationId| graph.place(*id).is_some_and(|place| self.is_in(area, place, -1.0));
        [entry].into_iter().chain(graph.near(entry).iter().copied()).filter(is_in).collect()
    }

    /// Whether a place is in the area widened by so many metres.
    fn is_in(&self, area: &Area, place: Offset, wider: f64) -> bool {
        let border = if self.scenario.kind == VehicleKind::Convoy { DRIVEN } else { BORDER };
        let grown = |metres: u16| (f64::from(metres) + wider * border).clamp(0.0, f64::from(u16::MAX)) as u16;
        let grown = Area { a: grown(area.a), b: grown(area.b), ..*area };
        geometry::contains(&grown, self.scenario.world.on_earth(place))
    }

    fn check_delivered(&self, delivery: &ExpectedDelivery) -> Result<(), String> {
        let ExpectedDelivery { number, by, to, receivers } = delivery;
        let received = self.invariants.receivers(*number);
        let failed = match receivers {
            Receivers::All(all) if !all.is_subset(&received) => {
                let missing: Vec<u32> = all.difference(&received).map(|id| id.0).collect();
                format!("did not reach {missing:?}")
            }
            // A station does not deliver its own packets.
            Receivers::AnyOf(any) if !any.is_empty() && !any.contains(by) && received.is_disjoint(any) => {
                "reached no station of the area".to_owned()
            }
            _ => return Ok(()),
        };
        Err(format!("payload {number} of station {} to {to:?} {failed}", by.0))
    }
}
