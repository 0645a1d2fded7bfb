//! Shim6 inside mobile networks: a host behind two mobile routers has an address of each mobile network, and talks to a
//! host outside. When a mobile router loses its uplink, the conversation moves to the other mobile network.
//!
//! ```text
//!   h1 === core -- hr -- home link -- ha0
//!           | |
//!           | +-- ar0, ar1 -- visited 0, visited 1
//!           |       (mr0 -- inside 0 -- eth0 h0)
//!           |       (mr1 -- inside 1 -- eth1 h0)
//! ```

use super::topology::{self as shim, TrafficEnd};
use crate::failure::WorldFamily;
use crate::nemo::config;
use crate::nemo::invariants::Invariants;
use crate::nemo::topology::{Topology, mobile_prefix};
use crate::net::access_router::link_local;
use crate::net::event::Event;
use crate::net::ids::{HostId, MediumId};
use crate::net::link::LinkSpec;
use crate::net::traffic::{TrafficLog, TrafficSpec};
use crate::run::{Convergence, Converging, SeededWorld};
use core::time::Duration;
use roam6_proto::contract::view::ContextView;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, LinkId, Time};
use roam6_wire::Prefix;
use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Interval of packets in each direction.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time without faults at the start, in which mobile routers register and the context is established.
const CALM_BEFORE: Duration = Duration::from_secs(20);
/// Time without loss that counts as converged, and largest transit time of a packet.
const OBSERVED_SPAN: Duration = Duration::from_secs(5);
const MAX_TRANSIT: Duration = Duration::from_millis(500);
const CONVERGENCE: Convergence = Convergence {
    limit: Duration::from_secs(300),
    step: Duration::from_secs(2),
    observed: Duration::from_millis(5_500),
    calm: Duration::from_secs(15),
};

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Whether the path of the conversation has changed.
    pub switched: bool,
}

/// A world of two mobile routers and two Shim6 hosts.
pub struct OnboardWorld {
    topology: Topology,
    invariants: Invariants,
    script: Vec<(Duration, Event)>,
    last_fault: Duration,
    /// Mobile routers that are attached in the end.
    attached: Vec<usize>,
    inside: HostId,
    outside: HostId,
    logs: [Rc<RefCell<TrafficLog>>; 2],
    events: u64,
    entropy: Entropy,
}

impl SeededWorld for OnboardWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "onboard world", replay: "onboard" };
    type Result = RunResult;

    fn generate(seed: u64, verbose: bool) -> OnboardWorld {
        let mut entropy = Entropy::seed_from_u64(seed ^ 0x0b0a_0000);
        let mut topology = Topology::new(seed, 2);
        topology.world.verbose = verbose;
        let rows: Vec<_> = (0..2).map(|index| config::row(index, &mut entropy)).collect();
        let home_agent = Role::HomeAgent(config::home_agent(0, &rows));
        topology.add_agent(config::engine_factory(vec![home_agent], entropy.next_u64()));
        for (index, row) in (0..).zip(&rows) {
            let mut mobile_router = config::mobile_router(index, row, &["eth0"], 1);
            mobile_router.lifetime = Duration::from_secs(if entropy.below(2) == 0 { 600 } else { 3600 });
            let role = Role::MobileRouter(Box::new(mobile_router));
            topology.add_mobile(1, config::engine_factory(vec![role], entropy.next_u64()));
        }
        let logs = <[Rc<RefCell<TrafficLog>>; 2]>::default();
        let (inside, outside) = add_hosts(&mut topology, &logs, &mut entropy);
        let (script, attached, invariants) = (Vec::new(), Vec::new(), Invariants::default());
        let last_fault = CALM_BEFORE + Duration::from_micros(10_000_000 + entropy.below(60_000_000));
        let mut world = OnboardWorld {
            topology,
            invariants,
            script,
            last_fault,
            attached,
            inside,
            outside,
            logs,
            events: 0,
            entropy,
        };
        world.write_script();
        world
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
        let switched = self.context(self.inside).is_some_and(|context| context.path != context.context.ulids);
        let settled_after = converged.since(last_fault).saturating_sub(OBSERVED_SPAN);
        Ok(RunResult { settled_after, events: self.events, switched })
    }
}

impl Converging for OnboardWorld {
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

    /// Attached mobile routers are registered, the conversation continues in both directions, and the path of its
    /// context uses a mobile network that is registered.
    fn converged(&self, now: Time) -> Result<(), String> {
        for index in &self.attached {
            let bound =
                self.topology.mobiles.get(*index).map(|mobile| self.invariants.is_bound(now, mobile.home_address));
            if bound != Some(true) {
                return Err(format!("mr{index} is not registered"));
            }
        }
        let missing = self.missing(now - OBSERVED_SPAN - MAX_TRANSIT, now - MAX_TRANSIT);
        if missing > 0 {
            return Err(format!("{missing} packets lost lately"));
        }
        let Some(context) = self.context(self.inside) else { return Ok(()) };
        let far = self.context(self.outside);
        if far.is_some_and(|far| context.path != context.context.ulids && context.tag_out != Some(far.tag_in)) {
            return Err("the host inside sends with a context tag that its peer does not know".to_owned());
        }
        let serves = |index: &&usize| {
            u16::try_from(**index).is_ok_and(|index| mobile_prefix(index).contains(context.path.local))
        };
        match self.attached.iter().find(serves) {
            Some(_) => Ok(()),
            None => Err(format!("the path from {} uses a mobile network without a registration", context.path.local)),
        }
    }
}

impl OnboardWorld {
    fn missing(&self, since: Time, until: Time) -> usize {
        self.logs.iter().map(|log| log.borrow().missing(since, until)).sum()
    }

    fn context(&self, host: HostId) -> Option<ContextView> {
        let view = self.topology.world.host(host).view(self.topology.world.now());
        view.contexts.into_iter().find(|context| context.tag_out.is_some())
    }

    /// Mobile routers are attached; then their uplinks move, fail and return; in the end at least one is attached.
    fn write_script(&mut self) {
        let routers: Vec<(HostId, LinkId)> =
            self.topology.mobiles.iter().filter_map(|mobile| Some((mobile.host, *mobile.uplinks.first()?))).collect();
        let visited = self.topology.visited.clone();
        for ((host, link), medium) in routers.iter().zip(&visited) {
            self.script.push((Duration::from_secs(1), Event::Attach(*host, *link, Some(*medium))));
        }
        let mut at = CALM_BEFORE;
        while at < self.last_fault {
            let router = usize::try_from(self.entropy.below(2)).unwrap_or(0);
            let medium = visited.get(usize::try_from(self.entropy.below(2)).unwrap_or(0)).copied();
            let Some((host, link)) = routers.get(router).copied() else { break };
            let event = match self.entropy.below(4) {
                0 => Event::Attach(host, link, None),
                1 => Event::Kill(host),
                2 => Event::PowerOff(host),
                _ => Event::Attach(host, link, medium),
            };
            self.script.push((at, event));
            let back = at + Duration::from_micros(self.entropy.below(20_000_000));
            self.script.push((back.min(self.last_fault), Event::Start(host)));
            at += Duration::from_micros(1_000_000 + self.entropy.below(15_000_000));
        }
        let only = self.entropy.below(3);
        for (index, (host, link)) in routers.into_iter().enumerate() {
            let is_attached = u64::try_from(index) != Ok(only);
            let medium: Option<MediumId> = visited.get(index).copied().filter(|_| is_attached);
            self.script
                .extend([(self.last_fault, Event::Start(host)), (self.last_fault, Event::Attach(host, link, medium))]);
            if is_attached {
                self.attached.push(index);
            }
        }
    }
}

/// Adds the host behind both mobile routers and its peer with two providers, with traffic in both directions.
fn add_hosts(topology: &mut Topology, logs: &[Rc<RefCell<TrafficLog>>; 2], entropy: &mut Entropy) -> (HostId, HostId) {
    let prefixes = [vec![mobile_prefix(0), mobile_prefix(1)], vec![shim::prefix(1, 0), shim::prefix(1, 1)]];
    let mut seeds = [[0; 32]; 2];
    seeds.iter_mut().for_each(|seed| entropy.fill(seed));
    let made = [0, 1].map(|index: usize| {
        let prefixes = prefixes.get(index).map(Vec::as_slice).unwrap_or_default();
        shim::hash_based_addresses(index, seeds.get(index).copied().unwrap_or_default(), prefixes)
    });
    let ulids = [0, 1].map(|index: usize| made.get(index).and_then(|(all, _)| all.first()).copied());
    let ulid = |index: usize| ulids.get(index).copied().flatten().unwrap_or(Ipv6Addr::UNSPECIFIED);
    let routers: Vec<(MediumId, Ipv6Addr)> = topology
        .mobiles
        .iter()
        .map(|mobile| (mobile.ingress_medium, link_local(topology.link_address((mobile.host, mobile.ingress)))))
        .collect();
    let providers: Vec<(MediumId, Ipv6Addr)> = prefixes
        .iter()
        .skip(1)
        .flatten()
        .enumerate()
        .map(|(uplink, prefix): (usize, &Prefix)| {
            let medium = topology.world.add_medium(&format!("h1 uplink {uplink}"), LinkSpec::default());
            let (_, router) = topology.attach_core(medium, &format!("h1-{uplink}"), Some(*prefix));
            (medium, router)
        })
        .collect();
    let mut ids = [HostId(0); 2];
    for (index, uplinks) in [routers, providers].into_iter().enumerate() {
        let (Some((addresses, identities)), Some(id)) = (made.get(index), ids.get_mut(index)) else { continue };
        let (own, peer) = (ulid(index), ulid(1 - index));
        let (Some(mine), Some(others)) = (logs.get(index), logs.get(1 - index)) else { continue };
        let end: TrafficEnd = (TrafficSpec { own, peer, interval: INTERVAL }, Rc::clone(mine), Rc::clone(others));
        let seed = seeds.get(index).copied().unwrap_or_default();
        let role = shim::role(addresses.len(), identities.clone(), shim::config());
        let mut host = shim::host(&format!("h{index}"), role, seed, &topology.world.clock, vec![end]);
        let mut ports = Vec::new();
        for (uplink, (medium, router)) in uplinks.into_iter().enumerate() {
            let Some(address) = addresses.get(uplink).copied() else { continue };
            let link = topology.add_interface(&mut host, &format!("eth{uplink}"));
            shim::add_uplink(&mut host, uplink, (link, router), address);
            ports.push((link, medium));
        }
        *id = topology.world.add_host(host);
        for (link, medium) in ports {
            topology.world.attach(*id, link, Some(medium));
        }
    }
    (ids[0], ids[1])
}
