//! The world of a seed: places and tracks of stations, their requests, and the script of faults.

use super::world::{RadioWorld, geo_address};
use crate::kinds::kinds;
use crate::net::{Choice, RadioSpec, StationId, Track};
use core::time::Duration;
use roam6_proto::contract::config::geo::{AreaForwarding, Mib, NonAreaForwarding, TransportType};
use roam6_proto::geo::PacketRequest;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::{Entropy, Time};
use roam6_wire::geo::{Area, Shape, TrafficClass, UpperProtocol};

/// Time with faults; then stations are stationary and the medium has no loss.
pub const FAULTS_SPAN: Duration = Duration::from_secs(40);
/// Time after which former state has expired (itsGnLifetimeLocTE) and all neighbours are known.
pub const SETTLE: Duration = Duration::from_secs(25);
/// Time in which a ferry reaches the far shore and returns.
pub const CROSSING: Duration = Duration::from_secs(250);
/// Communication range, metres.
pub const RANGE: f64 = 300.0;
/// Where the far shore begins, metres.
const SHORE: f64 = 2_000.0;
/// The attacker's station.
pub const ATTACKER: StationId = StationId(0xffff);

kinds! {
    /// The kind of a world.
    VehicleKind {
        /// A row of standing stations.
        Row,
        /// Standing stations on a plane.
        Plane,
        /// Vehicles in both directions of a road.
        Road,
        /// A road, with frames lost and duplicated.
        Lossy,
        /// A convoy that never stops.
        Convoy,
        /// Stations are switched off and on.
        Crashes,
        /// Two shores out of range of one another, and a ferry.
        Ferry,
        /// An attacker floods a plane.
        Hostile,
        /// An attacker floods a shore.
        Siege,
        /// Motion, loss and restarts.
        Storm,
    }
}

impl VehicleKind {
    /// Whether all stations are on one line.
    pub fn is_line(self) -> bool {
        !matches!(self, VehicleKind::Plane | VehicleKind::Hostile)
    }

    /// Whether there are two shores.
    pub fn has_shores(self) -> bool {
        matches!(self, VehicleKind::Ferry | VehicleKind::Siege)
    }

    /// Whether there is an attacker.
    pub fn is_hostile(self) -> bool {
        matches!(self, VehicleKind::Hostile | VehicleKind::Siege)
    }
}

/// An event of the script.
#[derive(Debug, Clone)]
pub enum VehicleEvent {
    /// A station sends a packet.
    Request(StationId, PacketRequest),
    /// A station is switched off, or on.
    SetPower(StationId, bool),
    /// The properties of the medium change.
    SetRadio(RadioSpec),
}

/// A world and its script.
#[derive(Debug)]
pub struct VehicleScenario {
    /// The kind of the world.
    pub kind: VehicleKind,
    /// The configuration of every station.
    pub mib: Mib,
    /// The stations.
    pub world: RadioWorld,
    /// The number of stations.
    pub stations: u32,
    /// Events in order of time.
    pub script: Vec<(Time, VehicleEvent)>,
    /// The generator of further choices.
    pub builder: ScenarioBuilder,
}

impl VehicleScenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> VehicleScenario {
        let kind = VehicleKind::of_seed(seed);
        let mut builder = ScenarioBuilder { entropy: Entropy::seed_from_u64(seed ^ 0x8947), next: 1 };
        // Without movement only: a moving station can get nearer than the local minimum on a path that the packet has taken.
        let recovery = matches!(kind, VehicleKind::Row | VehicleKind::Plane) && (seed / 10).is_multiple_of(2);
        let mib = Mib { recovery, ..builder.mib(kind) };
        let mut world =
            RadioWorld::new(RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::default() }, seed);
        let tracks = builder.tracks(kind);
        let stations = u32::try_from(tracks.len()).unwrap_or(0);
        for (id, track) in (1..).zip(tracks) {
            world.add(StationId(id), track, mib.clone());
        }
        if kind.is_hostile() {
            let place = Offset { east: -100.0, north: if kind.has_shores() { 120.0 } else { 0.0 } };
            world.add_transmitter(ATTACKER, place);
        }
        let mut script = builder.script(kind, &world, stations);
        script.sort_by_key(|(at, _)| *at);
        VehicleScenario { kind, mib, world, stations, script, builder }
    }
}

/// Makes random choices.
#[derive(Debug)]
pub struct ScenarioBuilder {
    entropy: Entropy,
    /// The number of the next payload.
    next: u64,
}

impl ScenarioBuilder {
    fn mib(&mut self, kind: VehicleKind) -> Mib {
        let mut mib = Mib::default();
        if kind.is_hostile() {
            // A station that repeats what one sends looks like one with the same address.
            mib.automatic_address = false;
            // It takes less to fill.
            (mib.unicast_buffer, mib.broadcast_buffer, mib.cbf_buffer) = (16 << 10, 16 << 10, 16 << 10);
        } else if !kind.has_shores() {
            // On a plane the first forwarder may suppress the only station that reaches another (§F.3).
            mib.in_area = match self.entropy.below(4) {
                0 | 1 if kind.is_line() => AreaForwarding::Contention,
                2 if kind.is_line() => AreaForwarding::Advanced,
                _ => AreaForwarding::Simple,
            };
            mib.non_area = if kind.is_line() && self.entropy.one_in(3) {
                NonAreaForwarding::Contention
            } else {
                NonAreaForwarding::Greedy
            };
        }
        if kind.is_hostile() || kind.has_shores() || !kind.is_line() {
            mib.in_area = AreaForwarding::Simple;
        }
        if self.entropy.one_in(4) {
            mib.beacon_hops = 3;
        }
        mib
    }

    fn tracks(&mut self, kind: VehicleKind) -> Vec<Track> {
        let count = 4 + self.entropy.below(8);
        let line = |east: f64| Offset { east, north: 0.0 };
        match kind {
            VehicleKind::Row | VehicleKind::Crashes => {
                let mut east = 0.0;
                let mut next = || {
                    east += 60.0 + self.entropy.fraction(220.0);
                    Track::standing(line(east))
                };
                (0..count).map(|_| next()).collect()
            }
            VehicleKind::Plane | VehicleKind::Hostile => {
                (0..count + 6).map(|_| Track::standing(self.anywhere(900.0))).collect()
            }
            VehicleKind::Road | VehicleKind::Lossy | VehicleKind::Storm => {
                (0..count + 4).map(|_| self.drive()).collect()
            }
            VehicleKind::Convoy => {
                let (speed, mut east) = (8.0 + self.entropy.fraction(7.0), 0.0);
                let mut next = || {
                    east += 170.0 + self.entropy.fraction(110.0);
                    Track::standing(line(east)).drive_to(line(east + 100_000.0), speed)
                };
                (0..count.min(8)).map(|_| next()).collect()
            }
            VehicleKind::Ferry | VehicleKind::Siege => self.shores(),
        }
    }

    /// A drive along a road in either direction, until the faults end.
    fn drive(&mut self) -> Track {
        let (from, speed) = (self.entropy.fraction(1_500.0), 5.0 + self.entropy.fraction(30.0));
        let way = if self.entropy.one_in(2) { 1.0 } else { -1.0 };
        let to = from + way * speed * FAULTS_SPAN.as_secs_f64();
        Track::standing(Offset { east: from, north: 0.0 }).drive_to(Offset { east: to, north: 0.0 }, speed)
    }

    /// Stations on each shore, and a ferry that moves between them, or waits before it departs.
    fn shores(&mut self) -> Vec<Track> {
        let line = |east: f64| Offset { east, north: 0.0 };
        let mut tracks = Vec::new();
        for (count, begin, apart) in
            [(1 + self.entropy.below(3), 0.0, -200.0), (1 + self.entropy.below(3), SHORE, 200.0)]
        {
            tracks.extend((0..count).map(|number| Track::standing(line(begin + apart * number as f64))));
        }
        let speed = 20.0 + self.entropy.fraction(10.0);
        let (near, far) = (line(40.0), line(SHORE - 50.0));
        tracks.push(if self.entropy.one_in(2) {
            Track::standing(line(-60.0)).pause(Duration::from_secs(20)).drive_to(far, speed)
        } else {
            let mut track = Track::standing(near);
            while track.last().0 < Time::ZERO + CROSSING {
                track = track
                    .drive_to(far, speed)
                    .pause(Duration::from_secs(4))
                    .drive_to(near, speed)
                    .pause(Duration::from_secs(4));
            }
            track
        });
        tracks
    }

    fn script(&mut self, kind: VehicleKind, world: &RadioWorld, stations: u32) -> Vec<(Time, VehicleEvent)> {
        let mut script = Vec::new();
        let times: Vec<Time> = (0..20 + self.entropy.below(20)).map(|_| self.moment()).collect();
        for at in times {
            let by = self.station(stations);
            let to = self.to(world, stations);
            script.push((at, VehicleEvent::Request(by, self.request(to))));
        }
        if matches!(kind, VehicleKind::Crashes | VehicleKind::Storm) {
            for _ in 0..1 + self.entropy.below(5) {
                let (at, id) = (self.moment(), self.station(stations));
                let back = at + Duration::from_millis(self.entropy.below(10_000));
                script.push((at, VehicleEvent::SetPower(id, false)));
                script.push((back.min(Time::ZERO + FAULTS_SPAN), VehicleEvent::SetPower(id, true)));
            }
        }
        if matches!(kind, VehicleKind::Lossy | VehicleKind::Storm) {
            let calm = world.radio_spec();
            let rate_bps = if self.entropy.one_in(2) { Some(6_000_000) } else { None };
            let (loss, duplicate) = (self.entropy.fraction(0.3), self.entropy.fraction(0.2));
            script.push((
                Time::ZERO,
                VehicleEvent::SetRadio(RadioSpec { loss, duplicate, rate_bps, lossless_range: 200.0, ..calm }),
            ));
            script.push((Time::ZERO + FAULTS_SPAN, VehicleEvent::SetRadio(calm)));
        }
        script
    }

    /// A request with a payload of its own number.
    pub fn request(&mut self, to: TransportType) -> PacketRequest {
        let mut payload = self.next.to_be_bytes().to_vec();
        self.next += 1;
        payload.resize(8 + usize::try_from(self.entropy.below(200)).unwrap_or(0), 0x55);
        let class = TrafficClass(if self.entropy.one_in(3) { 0x80 } else { 0 });
        PacketRequest { to, upper: UpperProtocol::BtpB, payload, class, lifetime: None, hops: None, repetition: None }
    }

    /// A random destination.
    pub fn to(&mut self, world: &RadioWorld, stations: u32) -> TransportType {
        match self.entropy.below(8) {
            0..=2 => TransportType::GeoUnicast(geo_address(self.station(stations))),
            3 | 4 => TransportType::GeoBroadcast(self.area(world, stations)),
            5 => TransportType::GeoAnycast(self.area(world, stations)),
            6 => TransportType::TopologyBroadcast(u8::try_from(1 + self.entropy.below(10)).unwrap_or(1)),
            _ => TransportType::SingleHop,
        }
    }

    /// An area of any shape near a station.
    fn area(&mut self, world: &RadioWorld, stations: u32) -> Area {
        let near = world.place(self.station(stations)).unwrap_or(Offset { east: 0.0, north: 0.0 });
        let (east, north) =
            (near.east + self.entropy.fraction(400.0) - 200.0, near.north + self.entropy.fraction(100.0) - 50.0);
        let center = world.on_earth(Offset { east, north });
        let metres = |builder: &mut ScenarioBuilder| u16::try_from(100 + builder.entropy.below(900)).unwrap_or(100);
        let shape = match self.entropy.below(4) {
            0 => Shape::Rectangle,
            1 => Shape::Ellipse,
            _ => return Area::circle(center, metres(self)),
        };
        Area {
            shape,
            center,
            a: metres(self),
            b: metres(self),
            angle: u16::try_from(self.entropy.below(360)).unwrap_or(0),
        }
    }

    /// One of the stations.
    pub fn station(&mut self, stations: u32) -> StationId {
        StationId(1 + u32::try_from(self.entropy.below(u64::from(stations))).unwrap_or(0))
    }

    fn moment(&mut self) -> Time {
        Time::ZERO + Duration::from_millis(self.entropy.below(FAULTS_SPAN.as_millis() as u64))
    }

    fn anywhere(&mut self, extent: f64) -> Offset {
        Offset { east: self.entropy.fraction(extent), north: self.entropy.fraction(extent) }
    }
}
