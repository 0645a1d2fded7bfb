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

use super::run::MultihomedWorld;
use super::topology::{self as shim, TrafficEnd};
use crate::failure::{WorldFamily, ensure};
use crate::nemo::config;
use crate::nemo::invariants::Invariants;
use crate::nemo::topology::{Topology, mobile_prefix};
use crate::net::{Choice, Event, HostId, LinkSpec, MediumId, Observation, TrafficLog, TrafficSpec, World};
use crate::run::{Convergence, Converging, Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::contract::config::shim::Identity;
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
    script: Script,
    /// Mobile routers that are attached in the end.
    attached: Vec<usize>,
    inside: HostId,
    outside: HostId,
    logs: [Rc<RefCell<TrafficLog>>; 2],
    entropy: Entropy,
}

impl SeededWorld for OnboardWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "onboard world", replay: "onboard" };
    type Result = RunResult;

    fn generate(seed: u64) -> OnboardWorld {
        let mut entropy = Entropy::seed_from_u64(seed ^ 0x0b0a_0000);
        let mut topology = Topology::new(seed, 2);
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
        let (attached, invariants) = (Vec::new(), Invariants::default());
        let last_fault = CALM_BEFORE + Duration::from_micros(10_000_000 + entropy.below(60_000_000));
        let script = Script { events: Vec::new(), last_fault };
        let mut world = OnboardWorld { topology, invariants, script, attached, inside, outside, logs, entropy };
        world.write_script();
        world
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let script = core::mem::take(&mut self.script);
        let settled_after = self.converge(script)?;
        let switched = self.context(self.inside).is_some_and(|context| context.path != context.context.ulids);
        Ok(RunResult { settled_after, events: self.topology.world.events, switched })
    }
}

impl Network for OnboardWorld {
    fn network(&mut self) -> &mut World {
        &mut self.topology.world
    }

    fn check(&mut self, observations: &[Observation]) -> Result<(), String> {
        self.invariants.check(&mut self.topology, observations)?;
        self.topology.world.check_circulation()
    }
}

impl Converging for OnboardWorld {
    const CONVERGENCE: Convergence = MultihomedWorld::CONVERGENCE;

    /// Whether attached mobile routers are registered, and the path of the context uses a mobile network that is.
    fn converged(&self, now: Time) -> Result<(), String> {
        for index in &self.attached {
            let mobile = self.topology.mobiles.get(*index);
            let is_bound = mobile.is_some_and(|mobile| self.invariants.is_bound(now, mobile.home_address));
            ensure!(is_bound, "mr{index} is not registered");
        }
        let Some(context) = self.context(self.inside) else { return Ok(()) };
        let far = self.context(self.outside);
        let is_known = |far: ContextView| context.path == context.context.ulids || context.tag_out == Some(far.tag_in);
        ensure!(far.is_none_or(is_known), "the host inside sends with a context tag that its peer does not know");
        let serves =
            |index: &usize| u16::try_from(*index).is_ok_and(|index| mobile_prefix(index).contains(context.path.local));
        let is_served = self.attached.iter().any(serves);
        ensure!(is_served, "the path from {} uses a mobile network without a registration", context.path.local);
        Ok(())
    }

    fn delivered(&self, since: Time, until: Time) -> Result<(), String> {
        match self.logs.iter().map(|log| log.borrow().missing(since, until)).sum() {
            0 => Ok(()),
            missing => Err(format!("{missing} packets lost")),
        }
    }
}

impl OnboardWorld {
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
            self.script.events.push((Duration::from_secs(1), Event::Attach(*host, *link, Some(*medium))));
        }
        let mut at = CALM_BEFORE;
        while at < self.script.last_fault {
            let (router, medium) = (self.entropy.pick(&routers), self.entropy.pick(&visited));
            let Some((host, link)) = router else { break };
            let event = match self.entropy.below(4) {
                0 => Event::Attach(host, link, None),
                1 => Event::Kill(host),
                2 => Event::PowerOff(host),
                _ => Event::Attach(host, link, medium),
            };
            self.script.events.push((at, event));
            let back = at + Duration::from_micros(self.entropy.below(20_000_000));
            self.script.events.push((back.min(self.script.last_fault), Event::Start(host)));
            at += Duration::from_micros(1_000_000 + self.entropy.below(15_000_000));
        }
        let only = self.entropy.below(3);
        for (index, (host, link)) in routers.into_iter().enumerate() {
            let is_attached = u64::try_from(index) != Ok(only);
            let medium: Option<MediumId> = visited.get(index).copied().filter(|_| is_attached);
            self.script.events.extend([
                (self.script.last_fault, Event::Start(host)),
                (self.script.last_fault, Event::Attach(host, link, medium)),
            ]);
            if is_attached {
                self.attached.push(index);
            }
        }
    }
}

/// Adds the host behind both mobile routers and its peer with two providers, with traffic in both directions.
fn add_hosts(
    topology: &mut Topology,
    [near, far]: &[Rc<RefCell<TrafficLog>>; 2],
    entropy: &mut Entropy,
) -> (HostId, HostId) {
    let mut seeds = [[0; 32]; 2];
    seeds.iter_mut().for_each(|seed| entropy.fill(seed));
    let providers = [shim::prefix(1, 0), shim::prefix(1, 1)];
    let [first, second] = seeds;
    let inside = ShimHost::new(0, first, &[mobile_prefix(0), mobile_prefix(1)]);
    let outside = ShimHost::new(1, second, &providers);
    let mobiles = topology.mobiles.iter();
    let ingress = mobiles.map(|mobile| (mobile.ingress_medium, (mobile.host, mobile.ingress)));
    let routers = ingress.map(|(medium, port)| (medium, topology.link_address(port).link_local())).collect();
    let attach_provider = |(uplink, prefix): (usize, &Prefix)| {
        let medium = topology.world.add_medium(&format!("h1 uplink {uplink}"), LinkSpec::default());
        let (_, router) = topology.attach_core(medium, &format!("h1-{uplink}"), Some(*prefix));
        (medium, router)
    };
    let uplinks = providers.iter().enumerate().map(attach_provider).collect();
    let inside_id = inside.add(topology, routers, &outside, (near, far));
    (inside_id, outside.add(topology, uplinks, &inside, (far, near)))
}

/// A host of the conversation: its addresses and what proves them.
struct ShimHost {
    index: usize,
    seed: [u8; 32],
    addresses: Vec<Ipv6Addr>,
    identities: Vec<Identity>,
}

impl ShimHost {
    fn new(index: usize, seed: [u8; 32], prefixes: &[Prefix]) -> ShimHost {
        let (addresses, identities) = shim::hash_based_addresses(index, seed, prefixes);
        ShimHost { index, seed, addresses, identities }
    }

    fn ulid(&self) -> Ipv6Addr {
        self.addresses.first().copied().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// Adds the host with an uplink to each router, and its traffic to `peer`.
    fn add(
        &self,
        topology: &mut Topology,
        routers: Vec<(MediumId, Ipv6Addr)>,
        peer: &ShimHost,
        (mine, others): (&Rc<RefCell<TrafficLog>>, &Rc<RefCell<TrafficLog>>),
    ) -> HostId {
        let spec = TrafficSpec { own: self.ulid(), peer: peer.ulid(), interval: INTERVAL };
        let end: TrafficEnd = (spec, Rc::clone(mine), Rc::clone(others));
        let role = shim::role(self.addresses.len(), self.identities.clone(), shim::config());
        let mut host = shim::host(&format!("h{}", self.index), role, self.seed, &topology.world.clock, vec![end]);
        let mut ports = Vec::new();
        for (uplink, ((medium, router), address)) in routers.into_iter().zip(&self.addresses).enumerate() {
            let link = topology.add_interface(&mut host, &format!("eth{uplink}"));
            shim::add_uplink(&mut host, uplink, (link, router), *address);
            ports.push((link, medium));
        }
        topology.world.add_attached_host(host, &ports)
    }
}
