//! The world of a seed: places and tracks of stations, their requests, and the script of faults.

use super::world::{World, geo_address};
use crate::radio::{RadioSpec, StationId};
use crate::track::Track;
use core::fmt;
use core::time::Duration;
use roam6_proto::contract::config::geo::{AreaForwarding, Mib, NonAreaForwarding, TransportType};
use roam6_proto::geo::Request;
use roam6_proto::geo::geometry::Offset;
use roam6_proto::{Entropy, Time};
use roam6_wire::geo::{Area, Shape, TrafficClass, UpperProtocol};

/// Time with faults; then stations stand still and the medium has no loss.
pub const TROUBLE: Duration = Duration::from_secs(40);
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

/// The kind of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

const KINDS: [Kind; 10] = [
    Kind::Row,
    Kind::Plane,
    Kind::Road,
    Kind::Lossy,
    Kind::Convoy,
    Kind::Crashes,
    Kind::Ferry,
    Kind::Hostile,
    Kind::Siege,
    Kind::Storm,
];

impl Kind {
    /// Whether all stations are on one line.
    pub fn is_line(self) -> bool {
        !matches!(self, Kind::Plane | Kind::Hostile)
    }

    /// Whether there are two shores.
    pub fn has_shores(self) -> bool {
        matches!(self, Kind::Ferry | Kind::Siege)
    }

    /// Whether there is an attacker.
    pub fn is_hostile(self) -> bool {
        matches!(self, Kind::Hostile | Kind::Siege)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// An event of the script.
#[derive(Debug, Clone)]
pub enum Act {
    /// A station sends a packet.
    Ask(StationId, Request),
    /// A station is switched off, or on.
    Switch(StationId, bool),
    /// The properties of the medium change.
    Quality(RadioSpec),
}

/// A world and its script.
#[derive(Debug)]
pub struct Scenario {
    /// The kind of the world.
    pub kind: Kind,
    /// The configuration of every station.
    pub mib: Mib,
    /// The stations.
    pub world: World,
    /// The number of stations.
    pub stations: u32,
    /// Events in order of time.
    pub script: Vec<(Time, Act)>,
    /// The generator of further choices.
    pub author: Author,
}

impl Scenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Scenario {
        let kind = KINDS.get(usize::try_from(seed % 10).unwrap_or(0)).copied().unwrap_or(Kind::Storm);
        let mut author = Author { chance: Entropy::seed_from_u64(seed ^ 0x8947), next: 1 };
        // Where all stand still: who moves may come to be nearer than where a gap began, on a way it was passed before.
        let recovery = matches!(kind, Kind::Row | Kind::Plane) && (seed / 10).is_multiple_of(2);
        let mib = Mib { recovery, ..author.mib(kind) };
        let mut world = World::new(RadioSpec { range: RANGE, sure: RANGE, ..RadioSpec::default() }, seed);
        let tracks = author.tracks(kind);
        let stations = u32::try_from(tracks.len()).unwrap_or(0);
        for (id, track) in (1..).zip(tracks) {
            world.add(StationId(id), track, mib.clone());
        }
        if kind.is_hostile() {
            let place = Offset { east: -100.0, north: if kind.has_shores() { 120.0 } else { 0.0 } };
            world.radio().put(ATTACKER, Track::still(place));
        }
        let mut script = author.script(kind, &world, stations);
        script.sort_by_key(|(at, _)| *at);
        Scenario { kind, mib, world, stations, script, author }
    }
}

/// Makes random choices.
#[derive(Debug)]
pub struct Author {
    chance: Entropy,
    /// The number of the next payload.
    next: u64,
}

impl Author {
    fn mib(&mut self, kind: Kind) -> Mib {
        let mut mib = Mib::default();
        if kind.is_hostile() {
            // A station that repeats what one sends looks like one with the same address.
            mib.automatic_address = false;
            // It takes less to fill.
            (mib.unicast_buffer, mib.broadcast_buffer, mib.cbf_buffer) = (16 << 10, 16 << 10, 16 << 10);
        } else if !kind.has_shores() {
            // On a plane whoever is first may keep still the only one who hears somebody (§F.3).
            mib.in_area = match self.below(4) {
                0 | 1 if kind.is_line() => AreaForwarding::Contention,
                2 if kind.is_line() => AreaForwarding::Advanced,
                _ => AreaForwarding::Simple,
            };
            mib.non_area = if kind.is_line() && self.one_in(3) { NonAreaForwarding::Contention } else { NonAreaForwarding::Greedy };
        }
        if kind.is_hostile() || kind.has_shores() || !kind.is_line() {
            mib.in_area = AreaForwarding::Simple;
        }
        if self.one_in(4) {
            mib.beacon_hops = 3;
        }
        mib
    }

    fn tracks(&mut self, kind: Kind) -> Vec<Track> {
        let count = 4 + self.below(8);
        let line = |east: f64| Offset { east, north: 0.0 };
        match kind {
            Kind::Row | Kind::Crashes => {
                let mut east = 0.0;
                let mut next = || {
                    east += 60.0 + self.metres(220.0);
                    Track::still(line(east))
                };
                (0..count).map(|_| next()).collect()
            }
            Kind::Plane | Kind::Hostile => (0..count + 6).map(|_| Track::still(self.anywhere(900.0))).collect(),
            Kind::Road | Kind::Lossy | Kind::Storm => (0..count + 4).map(|_| self.drive()).collect(),
            Kind::Convoy => {
                let (speed, mut east) = (8.0 + self.metres(7.0), 0.0);
                let mut next = || {
                    east += 170.0 + self.metres(110.0);
                    Track::still(line(east)).go(line(east + 100_000.0), speed)
                };
                (0..count.min(8)).map(|_| next()).collect()
            }
            Kind::Ferry | Kind::Siege => self.shores(),
        }
    }

    /// A drive along a road in either direction, until the faults end.
    fn drive(&mut self) -> Track {
        let (from, speed) = (self.metres(1_500.0), 5.0 + self.metres(30.0));
        let way = if self.one_in(2) { 1.0 } else { -1.0 };
        let to = from + way * speed * TROUBLE.as_secs_f64();
        Track::still(Offset { east: from, north: 0.0 }).go(Offset { east: to, north: 0.0 }, speed)
    }

    /// Stations on each shore, and a ferry that moves between them, or waits before it departs.
    fn shores(&mut self) -> Vec<Track> {
        let line = |east: f64| Offset { east, north: 0.0 };
        let mut tracks = Vec::new();
        for (count, begin, apart) in [(1 + self.below(3), 0.0, -200.0), (1 + self.below(3), SHORE, 200.0)] {
            tracks.extend((0..count).map(|number| Track::still(line(begin + apart * number as f64))));
        }
        let speed = 20.0 + self.metres(10.0);
        let (near, far) = (line(40.0), line(SHORE - 50.0));
        tracks.push(if self.one_in(2) {
            Track::still(line(-60.0)).pause(Duration::from_secs(20)).go(far, speed)
        } else {
            let mut track = Track::still(near);
            while track.last().0 < Time::ZERO + CROSSING {
                track =
                    track.go(far, speed).pause(Duration::from_secs(4)).go(near, speed).pause(Duration::from_secs(4));
            }
            track
        });
        tracks
    }

    fn script(&mut self, kind: Kind, world: &World, stations: u32) -> Vec<(Time, Act)> {
        let mut script = Vec::new();
        let times: Vec<Time> = (0..20 + self.below(20)).map(|_| self.moment()).collect();
        for at in times {
            let by = self.station(stations);
            let to = self.to(world, stations);
            script.push((at, Act::Ask(by, self.request(to))));
        }
        if matches!(kind, Kind::Crashes | Kind::Storm) {
            for _ in 0..1 + self.below(5) {
                let (at, id) = (self.moment(), self.station(stations));
                let back = at + Duration::from_millis(self.below(10_000));
                script.push((at, Act::Switch(id, false)));
                script.push((back.min(Time::ZERO + TROUBLE), Act::Switch(id, true)));
            }
        }
        if matches!(kind, Kind::Lossy | Kind::Storm) {
            let calm = world.radio_spec();
            let rate_bps = if self.one_in(2) { Some(6_000_000) } else { None };
            let (loss, duplicate) = (self.metres(0.3), self.metres(0.2));
            script.push((Time::ZERO, Act::Quality(RadioSpec { loss, duplicate, rate_bps, sure: 200.0, ..calm })));
            script.push((Time::ZERO + TROUBLE, Act::Quality(calm)));
        }
        script
    }

    /// A request with a payload of its own number.
    pub fn request(&mut self, to: TransportType) -> Request {
        let mut payload = self.next.to_be_bytes().to_vec();
        self.next += 1;
        payload.resize(8 + usize::try_from(self.below(200)).unwrap_or(0), 0x55);
        let class = TrafficClass(if self.one_in(3) { 0x80 } else { 0 });
        Request { to, upper: UpperProtocol::BtpB, payload, class, lifetime: None, hops: None, repetition: None }
    }

    /// A random destination.
    pub fn to(&mut self, world: &World, stations: u32) -> TransportType {
        match self.below(8) {
            0..=2 => TransportType::GeoUnicast(geo_address(self.station(stations))),
            3 | 4 => TransportType::GeoBroadcast(self.area(world, stations)),
            5 => TransportType::GeoAnycast(self.area(world, stations)),
            6 => TransportType::TopologyBroadcast(u8::try_from(1 + self.below(10)).unwrap_or(1)),
            _ => TransportType::SingleHop,
        }
    }

    /// An area of any shape near a station.
    fn area(&mut self, world: &World, stations: u32) -> Area {
        let near = world.place(self.station(stations)).unwrap_or(Offset { east: 0.0, north: 0.0 });
        let (east, north) = (near.east + self.metres(400.0) - 200.0, near.north + self.metres(100.0) - 50.0);
        let center = world.on_earth(Offset { east, north });
        let metres = |author: &mut Author| u16::try_from(100 + author.below(900)).unwrap_or(100);
        let shape = match self.below(4) {
            0 => Shape::Rectangle,
            1 => Shape::Ellipse,
            _ => return Area::circle(center, metres(self)),
        };
        Area { shape, center, a: metres(self), b: metres(self), angle: u16::try_from(self.below(360)).unwrap_or(0) }
    }

    /// One of the stations.
    pub fn station(&mut self, stations: u32) -> StationId {
        StationId(1 + u32::try_from(self.below(u64::from(stations))).unwrap_or(0))
    }

    fn moment(&mut self) -> Time {
        Time::ZERO + Duration::from_millis(self.below(TROUBLE.as_millis() as u64))
    }

    fn anywhere(&mut self, extent: f64) -> Offset {
        Offset { east: self.metres(extent), north: self.metres(extent) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance.below(bound)
    }

    /// From 0 to less than `most`.
    fn metres(&mut self, most: f64) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64 * most
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}
