//! The NEMO topology: a core, a correspondent, a home link with its home agents, visited networks, and mobile routers.
//!
//! ```text
//! cn -- core -- hr -- home link -- ha1, ha2
//!        |
//!        +-- ar0 -- visited 0    mr0: uplinks anywhere, mobile network with mnn0, or another mobile router
//!        +-- ar1 -- visited 1 ...
//! ```

use crate::nemo::care_of_prefix::dhcp6_server::{DelegatingRouter, ServerSpec};
use crate::nemo::care_of_prefix::mobile_network_node::{EchoLog, MobileNetworkNode, NodeSpec};
use crate::net::items::{address_item, delay, route_via, unreachable};
use crate::net::{
    AccessRouter, AdvertisementSpec, BoxedEngine, Host, HostId, LinkSpec, MediumId, Track, TrafficLog, TrafficSource,
    TrafficSpec, World,
};
use core::time::Duration;
use roam6_proto::Node;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, LinkId, Time};
use roam6_wire::{HomeAddress, LinkAddress, Prefix};
use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// The hosts and links of a world.
#[derive(Debug)]
pub struct Topology {
    /// The world.
    pub world: World,
    /// The core router.
    pub core: HostId,
    /// The router of the home link.
    pub home_router: (HostId, LinkId),
    /// The home link.
    pub home: MediumId,
    /// Visited networks.
    pub visited: Vec<MediumId>,
    /// Media of the infrastructure, whose faults affect all hosts.
    pub backbone: Vec<MediumId>,
    /// Home agents.
    pub agents: Vec<HomeAgentHost>,
    /// Mobile routers, the outermost first.
    pub mobiles: Vec<MobileRouterHost>,
    /// The delegating router of each visited network, if it has one.
    pub servers: Vec<Option<HostId>>,
    pub(crate) access: Vec<AccessNetwork>,
    next_unit: u16,
}

/// The router of a visited network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessNetwork {
    pub(crate) host: HostId,
    /// Its interface there.
    pub(crate) link: LinkId,
    /// The link by which the core reaches it.
    pub(crate) core_link: LinkId,
    pub(crate) address: Ipv6Addr,
}

/// A home agent.
#[derive(Debug, Clone, Copy)]
pub struct HomeAgentHost {
    /// The host.
    pub host: HostId,
    /// Its interface on the home link.
    pub link: LinkId,
    /// Its address.
    pub address: Ipv6Addr,
}

/// A mobile router with its mobile network node and the correspondent of that.
#[derive(Debug)]
pub struct MobileRouterHost {
    /// The host.
    pub host: HostId,
    /// Its uplinks.
    pub uplinks: Vec<LinkId>,
    /// The ingress link.
    pub ingress_medium: MediumId,
    /// Its home address.
    pub home_address: HomeAddress,
    /// Its mobile network prefix.
    pub prefix: Prefix,
    /// Traffic of the mobile network node.
    pub upstream: Rc<RefCell<TrafficLog>>,
    /// Traffic of the correspondent.
    pub downstream: Rc<RefCell<TrafficLog>>,
    /// Echo log of the node with care-of prefixes, if there is one.
    pub mnn_log: Option<Rc<RefCell<EchoLog>>>,
    /// Its ingress interface.
    pub(crate) ingress: LinkId,
}

impl MobileRouterHost {
    /// The packets between its node and the correspondent, sent from `since` on and before `until`, that have not
    /// arrived.
    pub fn missing(&self, since: Time, until: Time) -> usize {
        self.upstream.borrow().missing(since, until) + self.downstream.borrow().missing(since, until)
    }
}

/// The prefix of the home link.
pub fn home_prefix() -> Prefix {
    prefix(0)
}

/// The address of the `index`-th home agent.
pub fn agent_address(index: u16) -> Ipv6Addr {
    within(home_prefix(), 1 + u64::from(index))
}

/// The home address of the `index`-th mobile router.
pub fn home_address(index: u16) -> HomeAddress {
    HomeAddress(within(home_prefix(), 0x10 + u64::from(index)))
}

/// The mobile network prefix of the `index`-th mobile router.
pub fn mobile_prefix(index: u16) -> Prefix {
    prefix(0x8000 + index)
}

/// The prefix of the `index`-th visited network.
pub fn visited_prefix(index: u16) -> Prefix {
    prefix(0xf0 + index)
}

/// The pool from which the `index`-th visited network delegates.
pub fn pool(index: u16) -> Prefix {
    Prefix::new(prefix(0xd000 + (index << 8)).address(), 40).unwrap_or(Prefix::ALL)
}

/// Name of the home agents' interface, and of the first uplink of mobile routers.
pub const FIRST_INTERFACE: &str = "eth0";
/// Name of the second uplink of mobile routers.
pub const SECOND_INTERFACE: &str = "eth1";
/// Name of the ingress interface of mobile routers.
pub const INSIDE_INTERFACE: &str = "veh0";

impl Topology {
    /// A topology with `visited` networks, without home agents and mobile routers.
    pub fn new(seed: u64, visited: u16) -> Topology {
        let mut world = World::new(seed);
        let home = world.add_medium("home link", delay(3));
        let core = world.add_host(Host::router("core"));
        let mut topology = Topology {
            world,
            core,
            home_router: (core, LinkId(0)),
            home,
            visited: Vec::new(),
            backbone: vec![home],
            agents: Vec::new(),
            mobiles: Vec::new(),
            servers: Vec::new(),
            access: Vec::new(),
            next_unit: 0,
        };
        topology.add_home_router();
        for index in 0..visited {
            topology.add_visited(index);
        }
        topology
    }

    /// Adds a home agent, whose engine `birth` creates.
    pub fn add_agent(&mut self, spawn: impl Fn(u32) -> BoxedEngine + 'static) {
        let index = u16::try_from(self.agents.len()).unwrap_or(0);
        let address = agent_address(index);
        let mut host = Host::new(&format!("ha{index}"), spawn);
        host.forwards = true;
        let link = self.add_interface(&mut host, FIRST_INTERFACE);
        host.kernel.add_static(address_item(link, address, 64));
        let router = self.link_address(self.home_router).link_local();
        host.kernel.add_static(route_via(Prefix::ALL, link, router));
        let host = self.world.add_attached_host(host, &[(link, self.home)]);
        self.agents.push(HomeAgentHost { host, link, address });
    }

    /// Adds a mobile router with `uplinks` detached uplinks, a mobile network node and its correspondent.
    pub fn add_mobile(&mut self, uplinks: usize, spawn: impl Fn(u32) -> BoxedEngine + 'static) {
        let index = u16::try_from(self.mobiles.len()).unwrap_or(0);
        let mut host = Host::new(&format!("mr{index}"), spawn);
        host.forwards = true;
        let names = [FIRST_INTERFACE, SECOND_INTERFACE];
        let uplinks = names.iter().take(uplinks).map(|name| self.add_interface(&mut host, name)).collect();
        let ingress = self.add_interface(&mut host, INSIDE_INTERFACE);
        let inside = self.world.add_medium(&format!("inside {index}"), LinkSpec::default());
        let host = self.world.add_attached_host(host, &[(ingress, inside)]);
        let (upstream, downstream) = <(Rc<RefCell<TrafficLog>>, Rc<RefCell<TrafficLog>>)>::default();
        let (prefix, home_address) = (mobile_prefix(index), home_address(index));
        let (node, peer) = (within(prefix, 0x100), within(self::prefix(0xc000 + index), 2));
        let interval = Duration::from_millis(200);
        let spec = TrafficSpec { own: node, peer, interval };
        let router = self.link_address((host, ingress)).link_local();
        self.add_traffic_source(&format!("mnn{index}"), spec, (&upstream, &downstream), (inside, router));
        let spec = TrafficSpec { own: peer, peer: node, interval };
        let outside = self.world.add_medium(&format!("cn link {index}"), delay(3));
        let (_, router) = self.attach_core(outside, &format!("cn{index}"), Some(self::prefix(0xc000 + index)));
        self.add_traffic_source(&format!("cn{index}"), spec, (&downstream, &upstream), (outside, router));
        self.mobiles.push(MobileRouterHost {
            host,
            uplinks,
            ingress_medium: inside,
            home_address,
            prefix,
            upstream,
            downstream,
            mnn_log: None,
            ingress,
        });
        self.announce(index.into(), 0);
    }

    /// Adds a delegating router in the visited network `index`; `manner` gets its interface, link-layer address and
    /// pool.
    pub fn add_server(&mut self, index: u16, spec: impl Fn(LinkId, LinkAddress, Prefix) -> ServerSpec) {
        let at = usize::from(index);
        let (Some(access), Some(medium)) = (self.access.get(at).copied(), self.visited.get(at).copied()) else {
            return;
        };
        let pool = pool(index);
        let mut host = Host::idle(&format!("pd{index}"));
        let link = self.add_interface(&mut host, FIRST_INTERFACE);
        let address = host.link_address(link);
        let spec = spec(link, address, pool);
        host.spawn = Box::new(move |instance| Box::new(DelegatingRouter::new(spec, instance)));
        let host = self.world.add_attached_host(host, &[(link, medium)]);
        if let Some(server) = self.servers.get_mut(at) {
            *server = Some(host);
        }
        self.world.host_mut(access.host).kernel.add_static(unreachable(pool));
        self.world.host_mut(self.core).kernel.add_static(route_via(pool, access.core_link, access.address));
    }

    /// Adds a route in the visited network `index` for a delegated prefix.
    pub fn delegate(&mut self, index: usize, prefix: Prefix, client: Ipv6Addr) {
        let Some(access) = self.access.get(index).copied() else { return };
        self.world.host_mut(access.host).kernel.add_static(route_via(prefix, access.link, client));
    }

    /// Adds a node to the mobile network `index` that uses every advertised prefix, and observes packets that leave.
    pub fn add_mobile_network_node(&mut self, index: usize) {
        let Some(mobile) = self.mobiles.get(index) else { return };
        let (inside, home, router) =
            (mobile.ingress_medium, mobile.prefix, self.link_address((mobile.host, mobile.ingress)).link_local());
        let watched: Vec<_> = mobile.uplinks.iter().map(|link| (mobile.host, *link)).collect();
        self.world.watched.extend(watched);
        let log: Rc<RefCell<EchoLog>> = Rc::default();
        let peer = self.peer();
        let mut host = Host::idle(&format!("pax{index}"));
        let link = self.add_interface(&mut host, FIRST_INTERFACE);
        let address = host.link_address(link);
        host.kernel.add_static(route_via(Prefix::ALL, link, router));
        let (spec, shared) = (NodeSpec { link, address, peer, home }, Rc::clone(&log));
        host.spawn = Box::new(move |_| Box::new(MobileNetworkNode::new(spec, &shared)));
        self.world.add_attached_host(host, &[(link, inside)]);
        if let Some(mobile) = self.mobiles.get_mut(index) {
            mobile.mnn_log = Some(log);
        }
    }

    /// The correspondent of nodes with care-of prefixes: the core router, which answers echo requests.
    pub fn peer(&self) -> Ipv6Addr {
        within(self::prefix(0xc000), 1)
    }

    /// Routing of the home network: the mobile network of `mobile` is reached through `agent`.
    pub fn announce(&mut self, mobile: usize, agent: usize) {
        let (Some(mobile), Some(agent)) = (self.mobiles.get(mobile), self.agents.get(agent)) else { return };
        let (host, link) = self.home_router;
        let item = route_via(mobile.prefix, link, agent.address);
        self.world.host_mut(host).kernel.add_static(item);
    }

    /// Adds a roadside unit beside the core, as the access router of a virtual link; `role` is its station.
    pub fn add_roadside_unit(&mut self, index: u16, radio: MediumId, track: Track, role: Role, seed: u64) -> HostId {
        let prefix = visited_prefix(0x10 + index);
        let mut host = Host::router(&format!("rsu{index}"));
        host.source_validation = true;
        let outside = self.add_interface(&mut host, "core");
        let host = self.world.add_host(host);
        let (radio_link, link) = self.add_station(host, radio, track);
        let cable = self.world.add_medium(&format!("core-rsu{index}"), delay(3));
        self.join_core((host, outside), cable, &format!("rsu{index}"), &[prefix]);
        let spec = AdvertisementSpec {
            link,
            address: self.link_address((host, radio_link)),
            prefix,
            interval: Duration::from_secs(1),
            reply_delay: Duration::from_millis(20),
            router_lifetime: 30,
            prefix_lifetime: 3600,
        };
        let unit = self.world.host_mut(host);
        unit.spawn = Box::new(move |instance| {
            let mut bytes = [0; 32];
            let mut entropy = Entropy::seed_from_u64(seed.wrapping_add(u64::from(instance)));
            entropy.fill(&mut bytes);
            let mut node = Node::from_roles(core::slice::from_ref(&role), bytes);
            node.add(AccessRouter::new(spec, entropy));
            Box::new(node)
        });
        unit.kernel.add_static(address_item(link, within(prefix, 1), 64));
        unit.kernel.add_static(unreachable(prefix));
        host
    }

    /// Makes a host a station on a radio channel: adds `radio0`, attached to the channel, and the virtual interface
    /// `gn0`, in this order.
    pub fn add_station(&mut self, host: HostId, radio: MediumId, track: Track) -> (LinkId, LinkId) {
        self.next_unit += 1;
        let unit = self.next_unit;
        let station = self.world.host_mut(host);
        station.track = Some(track);
        let link = station.add_interface("radio0", unit);
        let virtual_link = station.add_virtual_interface("gn0");
        self.world.attach(host, link, Some(radio));
        (link, virtual_link)
    }

    /// Whether all traffic of mobile networks sent from `since` on and before `until` has arrived.
    ///
    /// # Errors
    /// The number of packets that have not.
    pub fn delivered(&self, since: Time, until: Time) -> Result<(), String> {
        match self.mobiles.iter().map(|mobile| mobile.missing(since, until)).sum() {
            0 => Ok(()),
            missing => Err(format!("{missing} packets lost")),
        }
    }

    /// Adds a host with the address that another would form on `medium`, so that duplicate address detection finds it.
    pub fn add_address_holder(&mut self, medium: MediumId, address: Ipv6Addr) {
        let mut host = Host::idle("squatter");
        let link = self.add_interface(&mut host, FIRST_INTERFACE);
        host.kernel.add_static(address_item(link, address, 64));
        self.world.add_attached_host(host, &[(link, medium)]);
    }

    /// The link-layer address of an interface.
    pub fn link_address(&self, (host, link): (HostId, LinkId)) -> LinkAddress {
        self.world.host(host).link_address(link)
    }

    fn add_home_router(&mut self) {
        let mut host = Host::router("hr");
        let inside = self.add_interface(&mut host, "home");
        let outside = self.add_interface(&mut host, "core");
        host.kernel.add_static(address_item(inside, within(home_prefix(), 0xfe), 64));
        host.kernel.add_static(unreachable(home_prefix()));
        let host = self.world.add_attached_host(host, &[(inside, self.home)]);
        self.home_router = (host, inside);
        let medium = self.world.add_medium("core-home", delay(3));
        self.backbone.push(medium);
        let mobile_networks = Prefix::new(mobile_prefix(0).address(), 34).unwrap_or(Prefix::ALL);
        self.join_core((host, outside), medium, "home", &[home_prefix(), mobile_networks]);
    }

    /// Connects a router with the core by a cable, and routes these prefixes to it; returns the core's interface and the
    /// router's address.
    fn join_core(
        &mut self,
        (host, link): (HostId, LinkId),
        cable: MediumId,
        name: &str,
        prefixes: &[Prefix],
    ) -> (LinkId, Ipv6Addr) {
        self.world.attach(host, link, Some(cable));
        let (core_link, core_address) = self.attach_core(cable, name, None);
        self.world.host_mut(host).kernel.add_static(route_via(Prefix::ALL, link, core_address));
        let router = self.link_address((host, link)).link_local();
        for prefix in prefixes {
            self.world.host_mut(self.core).kernel.add_static(route_via(*prefix, core_link, router));
        }
        (core_link, router)
    }

    fn add_visited(&mut self, index: u16) {
        let prefix = visited_prefix(index);
        let medium = self.world.add_medium(&format!("visited {index}"), delay(3));
        let cable = self.world.add_medium(&format!("core-ar{index}"), delay(3));
        let entropy = &mut self.world.entropy;
        let seed = entropy.next_u64();
        let mut spec = AdvertisementSpec {
            link: LinkId(0),
            address: LinkAddress([0; 6]),
            prefix,
            interval: Duration::from_millis(1000 + 1000 * entropy.below(4)),
            reply_delay: Duration::from_millis(5 + 100 * entropy.below(5)),
            router_lifetime: 30 + 600 * u16::from(entropy.below(2) == 1),
            prefix_lifetime: 60 + 3600 * u32::from(entropy.below(2) == 1),
        };
        let mut host = Host::router(&format!("ar{index}"));
        spec.link = self.add_interface(&mut host, "visited");
        let outside = self.add_interface(&mut host, "core");
        spec.address = host.link_address(spec.link);
        host.spawn = Box::new(move |instance| {
            Box::new(AccessRouter::new(spec, Entropy::seed_from_u64(seed.wrapping_add(u64::from(instance)))))
        });
        host.source_validation = true;
        host.kernel.add_static(address_item(spec.link, within(prefix, 1), 64));
        host.kernel.add_static(unreachable(prefix));
        let host = self.world.add_attached_host(host, &[(spec.link, medium)]);
        let (core_link, address) = self.join_core((host, outside), cable, &format!("ar{index}"), &[prefix]);
        self.access.push(AccessNetwork { host, link: spec.link, core_link, address });
        self.servers.push(None);
        self.visited.push(medium);
        self.backbone.push(cable);
    }

    /// Attaches the core router to `medium`; returns the interface and its link-local address.
    pub(crate) fn attach_core(&mut self, medium: MediumId, name: &str, on_link: Option<Prefix>) -> (LinkId, Ipv6Addr) {
        self.next_unit += 1;
        let unit = self.next_unit;
        let host = self.world.host_mut(self.core);
        let link = host.add_interface(name, unit);
        let own = host.link_address(link);
        host.kernel.add_static(address_item(link, own.link_local(), 128));
        if let Some(prefix) = on_link {
            host.kernel.add_static(address_item(link, within(prefix, 1), prefix.length()));
        }
        self.world.attach(self.core, link, Some(medium));
        (link, own.link_local())
    }

    fn add_traffic_source(
        &mut self,
        name: &str,
        spec: TrafficSpec,
        (mine, others): (&Rc<RefCell<TrafficLog>>, &Rc<RefCell<TrafficLog>>),
        (medium, router): (MediumId, Ipv6Addr),
    ) {
        let (mine, others) = (Rc::clone(mine), Rc::clone(others));
        let mut host = Host::new(name, move |_| Box::new(TrafficSource::new(spec, &mine, &others)));
        let link = self.add_interface(&mut host, FIRST_INTERFACE);
        host.kernel.add_static(address_item(link, spec.own, 64));
        host.kernel.add_static(route_via(Prefix::ALL, link, router));
        self.world.add_attached_host(host, &[(link, medium)]);
    }

    /// Adds an interface with its link-local address to a host that is not in the world yet.
    pub(crate) fn add_interface(&mut self, host: &mut Host, name: &str) -> LinkId {
        self.next_unit += 1;
        let link = host.add_interface(name, self.next_unit);
        host.kernel.add_static(address_item(link, host.link_local(link), 128));
        link
    }
}

fn prefix(number: u16) -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0), 64).unwrap_or(Prefix::ALL)
}

fn within(prefix: Prefix, identifier: u64) -> Ipv6Addr {
    prefix.with_identifier(identifier).unwrap_or(Ipv6Addr::UNSPECIFIED)
}
