//! A world as a literal of a few lines in a test: a topology, a script, and what is expected when.
//!
//! ```
//! use roam6_sim::literal::*;
//!
//! play(
//!     topology().home_agents(1).visited_networks(2).mobile_router(&["eth0"]),
//!     script().at(0, attach("mr0", "eth0", "visited 0")).at(20, attach("mr0", "eth0", "visited 1")),
//!     expect().at(10, registered("mr0")).between(25, 40, no_loss("mr0")),
//! )
//! .unwrap();
//! ```
//!
//! Hosts, interfaces and media are named as in the log: home agents `ha0`, mobile routers `mr0` with the nodes `mnn0`
//! inside, visited networks `visited 0`, the home network `home link`. The invariants of NEMO worlds are checked too.

use crate::failure::ensure;
use crate::nemo::config;
use crate::nemo::invariants::Invariants;
use crate::nemo::topology::{MobileRouterHost, Topology};
use crate::net::{Event, HostId, MediumId, Observation, World};
use crate::run::{MAX_TRANSIT, Network};
use core::ops::Range;
use core::time::Duration;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, LinkId, Time};
use std::rc::Rc;

/// A topology to be built.
#[derive(Debug, Clone)]
pub struct TopologySpec {
    home_agents: u16,
    visited: u16,
    mobile_routers: Vec<Vec<String>>,
    lifetime: Duration,
    seed: u64,
}

/// A topology with one home agent, without visited networks and mobile routers; bindings live for 10 minutes.
pub fn topology() -> TopologySpec {
    TopologySpec { home_agents: 1, visited: 0, mobile_routers: Vec::new(), lifetime: Duration::from_secs(600), seed: 1 }
}

impl TopologySpec {
    /// So many home agents with the same prefix table.
    #[must_use]
    pub fn home_agents(self, home_agents: u16) -> TopologySpec {
        TopologySpec { home_agents, ..self }
    }

    /// So many visited networks.
    #[must_use]
    pub fn visited_networks(self, visited: u16) -> TopologySpec {
        TopologySpec { visited, ..self }
    }

    /// A further mobile router with these uplinks (`eth0`, `eth1`), the preferred one first.
    #[must_use]
    pub fn mobile_router(mut self, uplinks: &[&str]) -> TopologySpec {
        self.mobile_routers.push(uplinks.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    /// Lifetime of bindings, seconds.
    #[must_use]
    pub fn lifetime(self, seconds: u64) -> TopologySpec {
        TopologySpec { lifetime: Duration::from_secs(seconds), ..self }
    }

    /// The seed of all random choices.
    #[must_use]
    pub fn seed(self, seed: u64) -> TopologySpec {
        TopologySpec { seed, ..self }
    }

    fn build(&self) -> Topology {
        let mut entropy = Entropy::seed_from_u64(self.seed);
        let mut topology = Topology::new(self.seed, self.visited);
        let rows: Vec<_> = (0..).zip(&self.mobile_routers).map(|(index, _)| config::row(index, &mut entropy)).collect();
        for index in 0..self.home_agents {
            let role = Role::HomeAgent(config::home_agent(index, &rows));
            topology.add_agent(config::engine_factory(vec![role], entropy.next_u64()));
        }
        for ((index, uplinks), row) in (0..).zip(&self.mobile_routers).zip(&rows) {
            let names: Vec<&str> = uplinks.iter().map(String::as_str).collect();
            let mut config = config::mobile_router(index, row, &names, self.home_agents);
            config.lifetime = self.lifetime;
            let role = Role::MobileRouter(Box::new(config));
            topology.add_mobile(uplinks.len(), config::engine_factory(vec![role], entropy.next_u64()));
        }
        topology
    }
}

/// Finds the event of an act, with the names resolved in the topology.
type Resolve = dyn Fn(&Topology) -> Result<Event, String>;

/// An act of a script, with names, which are resolved in the topology.
#[derive(Clone)]
pub struct Act(Rc<Resolve>);

impl Act {
    fn of_host(name: &'static str, event: fn(HostId) -> Event) -> Act {
        Act(Rc::new(move |topology| Ok(event(host(topology, name)?))))
    }
}

/// Attaches an interface of a host to a medium.
pub fn attach(name: &'static str, interface: &'static str, to: &'static str) -> Act {
    Act(Rc::new(move |topology| {
        let id = host(topology, name)?;
        Ok(Event::Attach(id, link(topology, id, interface)?, Some(medium(topology, to)?)))
    }))
}

/// Detaches an interface of a host.
pub fn detach(name: &'static str, interface: &'static str) -> Act {
    Act(Rc::new(move |topology| {
        let id = host(topology, name)?;
        Ok(Event::Attach(id, link(topology, id, interface)?, None))
    }))
}

/// Kills the engine of a host; its kernel keeps its state.
pub fn kill(host: &'static str) -> Act {
    Act::of_host(host, Event::Kill)
}

/// Cuts the power of a host.
pub fn power_off(host: &'static str) -> Act {
    Act::of_host(host, Event::PowerOff)
}

/// Powers a host on and starts its engine.
pub fn start(host: &'static str) -> Act {
    Act::of_host(host, Event::Start)
}

/// A medium drops every frame from now on, or carries frames again.
pub fn black_hole(name: &'static str, drops: bool) -> Act {
    Act(Rc::new(move |topology| Ok(Event::BlackHole(medium(topology, name)?, drops))))
}

/// Acts by their time.
#[derive(Clone, Default)]
pub struct Script(Vec<(u64, Act)>);

/// An empty script.
pub fn script() -> Script {
    Script::default()
}

impl Script {
    /// Adds an act, so many seconds after the start.
    #[must_use]
    pub fn at(mut self, seconds: u64, act: Act) -> Script {
        self.0.push((seconds, act));
        self
    }
}

/// A condition of a mobile router.
#[derive(Debug, Clone, Copy)]
pub enum Condition {
    /// See [`registered`].
    Registered(&'static str, bool),
    /// See [`no_loss`].
    LossAtMost(&'static str, usize),
}

/// The mobile router has a binding with a care-of address.
pub fn registered(mobile_router: &'static str) -> Condition {
    Condition::Registered(mobile_router, true)
}

/// The mobile router has no binding.
pub fn not_registered(mobile_router: &'static str) -> Condition {
    Condition::Registered(mobile_router, false)
}

/// No packet between the mobile network and its correspondent is lost.
pub fn no_loss(mobile_router: &'static str) -> Condition {
    Condition::LossAtMost(mobile_router, 0)
}

/// At most so many packets between the mobile network and its correspondent are lost; each side sends five a second.
pub fn loss_at_most(mobile_router: &'static str, packets: usize) -> Condition {
    Condition::LossAtMost(mobile_router, packets)
}

/// Conditions by their time.
#[derive(Debug, Clone, Default)]
pub struct Expectations(Vec<(Range<u64>, Condition)>);

/// No expectations yet.
pub fn expect() -> Expectations {
    Expectations::default()
}

impl Expectations {
    /// Expects a condition so many seconds after the start.
    #[must_use]
    pub fn at(self, seconds: u64, condition: Condition) -> Expectations {
        self.between(seconds, seconds, condition)
    }

    /// Expects a condition of a span of time, in seconds after the start.
    #[must_use]
    pub fn between(mut self, from: u64, until: u64, condition: Condition) -> Expectations {
        self.0.push((from..until, condition));
        self
    }
}

/// Runs a world, and checks its expectations and the invariants of NEMO worlds.
///
/// # Errors
/// The first name that does not exist, and the first expectation or invariant that does not hold, with its time.
pub fn play(topology: TopologySpec, script: Script, expectations: Expectations) -> Result<(), String> {
    let (topology, invariants) = (topology.build(), Invariants::default());
    let mut world = LiteralWorld { topology, invariants };
    let mut events = Vec::new();
    for (seconds, act) in script.0 {
        events.push((Duration::from_secs(seconds), (act.0)(&world.topology)?));
    }
    world.play(crate::run::Script { events, last_fault: Duration::ZERO })?;
    let mut expectations = expectations.0;
    expectations.sort_by_key(|(span, _)| span.end);
    for (span, condition) in expectations {
        let end = Time::ZERO + Duration::from_secs(span.end) + MAX_TRANSIT;
        world.advance(end).map_err(|why| at(world.topology.world.now(), &why))?;
        check(&world.topology, &world.invariants, &span, condition).map_err(|why| at(end, &why))?;
    }
    Ok(())
}

struct LiteralWorld {
    topology: Topology,
    invariants: Invariants,
}

impl Network for LiteralWorld {
    fn network(&mut self) -> &mut World {
        &mut self.topology.world
    }

    fn check(&mut self, observations: &[Observation]) -> Result<(), String> {
        self.invariants.check(&mut self.topology, observations)
    }
}

fn at(now: Time, why: &str) -> String {
    format!("at {now}: {why}")
}

fn check(topology: &Topology, invariants: &Invariants, span: &Range<u64>, condition: Condition) -> Result<(), String> {
    let seconds = |seconds| Time::ZERO + Duration::from_secs(seconds);
    match condition {
        Condition::Registered(name, expected) => {
            let router = mobile_router(topology, name)?;
            let is_bound = invariants.is_bound(seconds(span.end), router.home_address);
            ensure!(is_bound == expected, "{name} is {}registered", if expected { "not " } else { "" });
        }
        Condition::LossAtMost(name, limit) => {
            let router = mobile_router(topology, name)?;
            let (since, until) = (seconds(span.start), seconds(span.end));
            let missing = router.missing(since, until);
            ensure!(missing <= limit, "{missing} packets of {name} lost, {limit} expected");
        }
    }
    Ok(())
}

fn mobile_router<'a>(topology: &'a Topology, name: &str) -> Result<&'a MobileRouterHost, String> {
    let id = host(topology, name)?;
    topology.mobiles.iter().find(|router| router.host == id).ok_or_else(|| format!("{name} is not a mobile router"))
}

fn host(topology: &Topology, name: &str) -> Result<HostId, String> {
    let mut hosts = topology.world.hosts();
    hosts.find(|(_, host)| host.name == name).map(|(id, _)| id).ok_or_else(|| format!("no host {name}"))
}

fn link(topology: &Topology, id: HostId, name: &str) -> Result<LinkId, String> {
    let host = topology.world.host(id);
    let mut interfaces = host.interfaces.iter();
    let found = interfaces.find(|(_, interface)| interface.name == name).map(|(link, _)| *link);
    found.ok_or_else(|| format!("{} has no interface {name}", host.name))
}

fn medium(topology: &Topology, name: &str) -> Result<MediumId, String> {
    let found = topology.world.media().find(|id| topology.world.medium(*id).name == name);
    found.ok_or_else(|| format!("no medium {name}"))
}
