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
use crate::kinds::kinds;
use crate::nemo::config;
use crate::nemo::invariants::Invariants;
use crate::nemo::topology::{MobileRouterHost, Topology};
use crate::net::{Choice, Event, HostId, MediumId, Observation, RadioSpec, Track, World};
use crate::run::{Converging, Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::contract::config::geo::{GeoConfig, LinkScope, Mib, SecurityConfig, VirtualLink};
use roam6_proto::geo::geometry::Offset;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, Time};
use roam6_wire::geo::ItsStationType;

/// Communication range, metres.
const RANGE: f64 = 300.0;
/// The virtual link of every station.
const VIRTUAL_LINK: &str = "gn0";
kinds! {
    /// The kind of a world.
    RoadsideKind {
        /// Roadside units are the only networks.
        Drive,
        /// A cellular network is the second uplink.
        Standby,
        /// Engines of vehicles and roadside units crash.
        Crashes,
        /// The radio loses and duplicates frames.
        Lossy,
    }
}

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
    script: Script,
    invariants: Invariants,
    entropy: Entropy,
}

impl SeededWorld for RoadsideWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "roadside world", replay: "roadside" };
    type Result = RunResult;

    fn generate(seed: u64) -> RoadsideWorld {
        let kind = RoadsideKind::of_seed(seed);
        let mut topology = Topology::new(seed, 1);
        let spec = RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::default() };
        let radio = topology.world.add_radio("radio", spec);
        let entropy = Entropy::seed_from_u64(seed ^ 0x60ad_0000);
        let (units, script, invariants) = (Vec::new(), Script::default(), Invariants::default());
        let mut world = RoadsideWorld { kind, topology, radio, units, script, invariants, entropy };
        world.build();
        world.write_faults();
        world
    }

    fn kind(&self) -> Option<String> {
        Some(self.kind.to_string())
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let script = core::mem::take(&mut self.script);
        let settled_after = self.converge(script)?;
        Ok(RunResult {
            kind: self.kind,
            settled_after,
            events: self.topology.world.events,
            acknowledged: self.invariants.acknowledged,
        })
    }
}

impl Network for RoadsideWorld {
    fn network(&mut self) -> &mut World {
        &mut self.topology.world
    }

    fn check(&mut self, observations: &[Observation]) -> Result<(), String> {
        self.invariants.check(&mut self.topology, observations)?;
        self.topology.world.check_circulation()
    }
}

impl Converging for RoadsideWorld {
    /// Whether every mobile router is registered.
    fn converged(&self, now: Time) -> Result<(), String> {
        let is_bound = |mobile: &&MobileRouterHost| self.invariants.is_bound(now, mobile.home_address);
        match self.topology.mobiles.iter().find(|mobile| !is_bound(mobile)) {
            Some(mobile) => Err(format!("{} is not registered", mobile.home_address)),
            None => Ok(()),
        }
    }

    fn delivered(&self, since: Time, until: Time) -> Result<(), String> {
        self.topology.delivered(since, until)
    }
}

impl RoadsideWorld {
    /// Roadside units along a road, and vehicles that drive past them and stop in range of one.
    fn build(&mut self) {
        let units = 2 + self.entropy.below(2);
        let spacing = 400.0 + self.entropy.fraction(300.0);
        let scopes = [LinkScope::Hops(1), LinkScope::Hops(3), LinkScope::Around(400)];
        let scope = self.entropy.pick(&scopes).unwrap_or(LinkScope::Hops(1));
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
            mobile_router.lifetime = Duration::from_secs(self.entropy.pick(&[60, 600, 3600]).unwrap_or(600));
            let roles = vec![
                Role::MobileRouter(Box::new(mobile_router)),
                Role::Geo(Box::new(station(ItsStationType::BUS, scope))),
            ];
            let factory = config::engine_factory(roles, self.entropy.next_u64());
            self.topology.add_mobile(usize::from(has_cellular), factory);
            let stop = spacing * self.entropy.below(units) as f64 + self.entropy.fraction(400.0) - 200.0;
            let (begin, speed) =
                (self.entropy.fraction(spacing * units as f64) - 100.0, 8.0 + self.entropy.fraction(25.0));
            let place = |east| Offset { east, north: 0.0 };
            let track = Track::standing(place(begin)).pause(Duration::from_secs(5)).drive_to(place(stop), speed);
            self.script.last_fault = self.script.last_fault.max(track.last().0.since(Time::ZERO));
            let Some(host) = self.topology.mobiles.last().map(|mobile| mobile.host) else { continue };
            self.topology.add_station(host, self.radio, track);
            let cellular = self.topology.visited.first().copied();
            if let (true, Some(port)) =
                (has_cellular, self.topology.mobiles.last().and_then(|mobile| mobile.uplinks.first().copied()))
            {
                self.script.events.push((Duration::from_secs(1), Event::Attach(host, port, cellular)));
            }
        }
        self.script.last_fault += Duration::from_secs(1);
    }

    fn write_faults(&mut self) {
        let span = u64::try_from(self.script.last_fault.as_micros()).unwrap_or(0);
        if self.kind == RoadsideKind::Crashes {
            let mobiles = self.topology.mobiles.iter().map(|mobile| mobile.host);
            let hosts: Vec<HostId> = self.units.iter().copied().chain(mobiles).collect();
            for _ in 0..1 + self.entropy.below(5) {
                let Some(host) = self.entropy.pick(&hosts) else { continue };
                let at = Duration::from_micros(self.entropy.below(span));
                let down = Duration::from_micros(self.entropy.below(8_000_000));
                let fault = if self.entropy.one_in(2) { Event::Kill(host) } else { Event::PowerOff(host) };
                self.script.events.extend([(at, fault), ((at + down).min(self.script.last_fault), Event::Start(host))]);
            }
            self.script.events.extend(hosts.iter().map(|host| (self.script.last_fault, Event::Start(*host))));
        }
        if self.kind == RoadsideKind::Lossy {
            let (loss, duplicate) = (self.entropy.fraction(0.2), self.entropy.fraction(0.2));
            let calm = RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::default() };
            let spec = RadioSpec { loss, duplicate, lossless_range: 200.0, rate_bps: Some(6_000_000), ..calm };
            self.script.events.push((Duration::ZERO, Event::SetRadio(self.radio, spec)));
            self.script.events.push((self.script.last_fault, Event::SetRadio(self.radio, calm)));
        }
    }
}

/// A station with one virtual link. Beacons and neighbour lifetimes are those of a fast road.
fn station(station: ItsStationType, scope: LinkScope) -> GeoConfig {
    let link = VirtualLink::new(VIRTUAL_LINK, scope);
    let mib = Mib {
        is_mobile: station != ItsStationType::ROADSIDE_UNIT,
        beacon_timer: Duration::from_millis(300),
        neighbour_lifetime: Duration::from_secs(1),
        ..Mib::default()
    };
    GeoConfig {
        interfaces: ["radio0".to_owned()].into(),
        station,
        virtual_links: vec![link],
        advertised_links: 0,
        destinations: Vec::new(),
        facilities: None,
        mib,
        security: SecurityConfig::default(),
    }
}
