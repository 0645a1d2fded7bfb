//! NEMO over GeoNetworking: mobile routers drive past roadside units, and their uplink is a virtual link. Every vehicle
//! and every roadside unit runs the node of the daemon: mobile router and GeoNetworking station in one.
//!
//! ```text
//!   cn -- core -- hr -- home link -- ha0
//!          |  |
//!          |  +-- rsu0 )))   rsu1 )))   rsu2 )))       gn0 over radio0
//!          +-- ar0 -- cellular        (((  mr0 -- mnn0
//! ```

use crate::failure::WorldFamily;
use crate::nemo::config;
use crate::nemo::invariants::Invariants;
use crate::nemo::topology::Topology;
use crate::net::event::Event;
use crate::net::ids::{HostId, MediumId};
use crate::net::radio::RadioSpec;
use crate::net::track::Track;
use crate::run::{Convergence, Converging, SeededWorld};
use core::fmt;
use core::time::Duration;
use roam6_proto::contract::config::geo::{GeoConfig, LinkScope, Mib, VirtualLink};
use roam6_proto::geo::geometry::Offset;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, Time};
use roam6_wire::geo::ItsStationType;

/// Communication range, metres.
const RANGE: f64 = 300.0;
/// The virtual link of every station.
const VIRTUAL_LINK: &str = "gn0";
/// Time without loss that counts as converged, and largest transit time of a packet.
const OBSERVED_SPAN: Duration = Duration::from_secs(3);
const MAX_TRANSIT: Duration = Duration::from_millis(500);
/// Convergence after the last fault, and the time after it in which nothing may be lost.
const CONVERGENCE: Convergence = Convergence {
    limit: Duration::from_secs(120),
    step: Duration::from_secs(1),
    observed: Duration::from_millis(3_500),
    calm: Duration::from_secs(20),
};

/// The kind of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoadsideKind {
    /// Roadside units are the only networks.
    Drive,
    /// A cellular network is the second uplink.
    Standby,
    /// Engines of vehicles and roadside units crash.
    Crashes,
    /// The radio loses and duplicates frames.
    Lossy,
}

const KINDS: [RoadsideKind; 4] =
    [RoadsideKind::Drive, RoadsideKind::Standby, RoadsideKind::Crashes, RoadsideKind::Lossy];

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// The kind of the world.
    pub kind: RoadsideKind,
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Accepted Binding Updates.
    pub acknowledged: u64,
}

/// A world of roadside units and vehicles.
pub struct RoadsideWorld {
    kind: RoadsideKind,
    topology: Topology,
    radio: MediumId,
    units: Vec<HostId>,
    script: Vec<(Duration, Event)>,
    last_fault: Duration,
    invariants: Invariants,
    events: u64,
    entropy: Entropy,
}

impl fmt::Display for RoadsideKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl SeededWorld for RoadsideWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "roadside world", replay: "roadside" };
    type Result = RunResult;

    fn generate(seed: u64, verbose: bool) -> RoadsideWorld {
        let kind = KINDS.get(usize::try_from(seed % 4).unwrap_or(0)).copied().unwrap_or(RoadsideKind::Drive);
        let mut topology = Topology::new(seed, 1);
        topology.world.verbose = verbose;
        let spec = RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::default() };
        let radio = topology.world.add_radio("radio", spec);
        let entropy = Entropy::seed_from_u64(seed ^ 0x60ad_0000);
        let (units, script, invariants) = (Vec::new(), Vec::new(), Invariants::default());
        let last_fault = Duration::ZERO;
        let mut world =
            RoadsideWorld { kind, topology, radio, units, script, last_fault, invariants, events: 0, entropy };
        world.build();
        world.write_faults();
        world
    }

    fn kind(&self) -> Option<String> {
        Some(self.kind.to_string())
    }

    fn now(&self) -> Time {
        self.topology.world.now()
    }

    fn run(&mut self) -> Result<RunResult, String> {
        for (after, event) in core::mem::take(&mut self.script) {
            self.invariants.expect_event(&event);
            self.topology.world.schedule(after, event);
        }
        self.topology.start();
        let last_fault = Time::ZERO + self.last_fault;
        self.advance(last_fault)?;
        let converged = CONVERGENCE.reach(self, last_fault)?;
        CONVERGENCE.hold(self, converged)?;
        let missing = self.missing(converged, converged + CONVERGENCE.calm - MAX_TRANSIT);
        if missing > 0 {
            return Err(format!("{missing} packets lost after convergence"));
        }
        Ok(RunResult {
            kind: self.kind,
            settled_after: converged.since(last_fault).saturating_sub(OBSERVED_SPAN),
            events: self.events,
            acknowledged: self.invariants.acknowledged,
        })
    }
}

impl Converging for RoadsideWorld {
    fn advance(&mut self, end: Time) -> Result<(), String> {
        while let Some(observations) = self.topology.world.step(end) {
            self.events += 1;
            if !observations.is_empty() {
                self.invariants.check(&mut self.topology, &observations)?;
            }
            if self.topology.world.losses.contains_key("hop limit") {
                return Err("a packet circulates until its hop limit is exhausted".to_owned());
            }
        }
        Ok(())
    }

    /// Every mobile router is registered, and its packets arrive in both directions.
    fn converged(&self, now: Time) -> Result<(), String> {
        for mobile in &self.topology.mobiles {
            if !self.invariants.is_bound(now, mobile.home_address) {
                return Err(format!("{} is not registered", mobile.home_address));
            }
        }
        match self.missing(now - OBSERVED_SPAN - MAX_TRANSIT, now - MAX_TRANSIT) {
            0 => Ok(()),
            missing => Err(format!("{missing} packets lost lately")),
        }
    }
}

impl RoadsideWorld {
    fn missing(&self, since: Time, until: Time) -> usize {
        let logs = self.topology.mobiles.iter().flat_map(|mobile| [&mobile.upstream, &mobile.downstream]);
        logs.map(|log| log.borrow().missing(since, until)).sum()
    }

    /// Roadside units along a road, and vehicles that drive past them and stop in range of one.
    fn build(&mut self) {
        let units = 2 + self.entropy.below(2);
        let spacing = 400.0 + self.metres(300.0);
        let scope = match self.entropy.below(3) {
            0 => LinkScope::Hops(1),
            1 => LinkScope::Hops(3),
            _ => LinkScope::Around(400),
        };
        for index in 0..units {
            let place = Offset { east: spacing * index as f64, north: 5.0 };
            let role = Role::Geo(Box::new(station(ItsStationType::ROADSIDE_UNIT, scope)));
            let (track, seed) = (Track::standing(place), self.entropy.next_u64());
            let index = u16::try_from(index).unwrap_or(0);
            self.units.push(self.topology.add_roadside_unit(index, self.radio, track, role, seed));
        }
        let vehicles = 1 + u16::try_from(self.entropy.below(2)).unwrap_or(0);
        let rows: Vec<_> = (0..vehicles).map(|index| config::row(index, &mut self.entropy)).collect();
        let home_agent = Role::HomeAgent(config::home_agent(0, &rows));
        self.topology.add_agent(config::engine_factory(vec![home_agent], self.entropy.next_u64()));
        for (index, row) in (0..).zip(&rows) {
            let has_cellular = self.kind == RoadsideKind::Standby;
            let uplinks: &[&str] = if has_cellular { &[VIRTUAL_LINK, "eth0"] } else { &[VIRTUAL_LINK] };
            let mut mobile_router = config::mobile_router(index, row, uplinks, 1);
            let lifetimes = [60, 600, 3600];
            let choice = usize::try_from(self.entropy.below(3)).unwrap_or(0);
            mobile_router.lifetime = Duration::from_secs(lifetimes.get(choice).copied().unwrap_or(600));
            let roles = vec![
                Role::MobileRouter(Box::new(mobile_router)),
                Role::Geo(Box::new(station(ItsStationType::BUS, scope))),
            ];
            let factory = config::engine_factory(roles, self.entropy.next_u64());
            self.topology.add_mobile(usize::from(has_cellular), factory);
            let stop = spacing * self.entropy.below(units) as f64 + self.metres(400.0) - 200.0;
            let (begin, speed) = (self.metres(spacing * units as f64) - 100.0, 8.0 + self.metres(25.0));
            let place = |east| Offset { east, north: 0.0 };
            let track = Track::standing(place(begin)).pause(Duration::from_secs(5)).drive_to(place(stop), speed);
            self.last_fault = self.last_fault.max(track.last().0.since(Time::ZERO));
            let Some(host) = self.topology.mobiles.last().map(|mobile| mobile.host) else { continue };
            self.topology.add_station(host, self.radio, track);
            let cellular = self.topology.visited.first().copied();
            if let (true, Some(port)) =
                (has_cellular, self.topology.mobiles.last().and_then(|mobile| mobile.uplinks.first().copied()))
            {
                self.script.push((Duration::from_secs(1), Event::Attach(host, port, cellular)));
            }
        }
        self.last_fault += Duration::from_secs(1);
    }

    fn write_faults(&mut self) {
        let span = u64::try_from(self.last_fault.as_micros()).unwrap_or(0);
        if self.kind == RoadsideKind::Crashes {
            let mobiles = self.topology.mobiles.iter().map(|mobile| mobile.host);
            let hosts: Vec<HostId> = self.units.iter().copied().chain(mobiles).collect();
            for _ in 0..1 + self.entropy.below(5) {
                let choice = usize::try_from(self.entropy.below(hosts.len() as u64)).unwrap_or(0);
                let Some(host) = hosts.get(choice).copied() else { continue };
                let at = Duration::from_micros(self.entropy.below(span));
                let down = Duration::from_micros(self.entropy.below(8_000_000));
                let fault = if self.entropy.below(2) == 0 { Event::Kill(host) } else { Event::PowerOff(host) };
                self.script.extend([(at, fault), ((at + down).min(self.last_fault), Event::Start(host))]);
            }
            self.script.extend(hosts.iter().map(|host| (self.last_fault, Event::Start(*host))));
        }
        if self.kind == RoadsideKind::Lossy {
            let (loss, duplicate) = (self.metres(0.2), self.metres(0.2));
            let calm = RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::default() };
            let spec = RadioSpec { loss, duplicate, lossless_range: 200.0, rate_bps: Some(6_000_000), ..calm };
            self.script.push((Duration::ZERO, Event::SetRadio(self.radio, spec)));
            self.script.push((self.last_fault, Event::SetRadio(self.radio, calm)));
        }
    }

    /// From 0 to less than `most`.
    fn metres(&mut self, most: f64) -> f64 {
        self.entropy.below(1 << 32) as f64 / (1_u64 << 32) as f64 * most
    }
}

/// A station with one virtual link. Beacons and neighbour lifetimes are those of a fast road.
fn station(station: ItsStationType, scope: LinkScope) -> GeoConfig {
    let link = VirtualLink { name: VIRTUAL_LINK.to_owned(), reach: scope, class: VirtualLink::CLASS, lifetime: None };
    let mib = Mib {
        is_mobile: station != ItsStationType::ROADSIDE_UNIT,
        beacon_timer: Duration::from_millis(300),
        neighbour_lifetime: Duration::from_secs(1),
        ..Mib::default()
    };
    GeoConfig { interfaces: ["radio0".to_owned()].into(), station, virtual_links: vec![link], facilities: None, mib }
}
