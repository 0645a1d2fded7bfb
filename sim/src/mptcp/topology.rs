//! The topology: a host in a mobile network, its mobile router, and correspondents.

use super::correspondent::{Correspondent, SubflowTable};
use super::host::{MptcpHost, MptcpKernel};
use super::mobile_router::{AdvertisedPrefixes, PrefixAdvertiser};
use super::slaac::Slaac;
use super::sockets::Sockets;
use crate::net::items::{DEFAULT_METRIC, address_item, delay, route, route_via};
use crate::net::{BoxedEngine, Host, HostId, LinkSpec, MediumId, World};
use roam6_proto::contract::config::mptcp::PathManagerConfig;
use roam6_proto::contract::item::NextHop;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, LinkId, Time};
use roam6_wire::Prefix;
use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Networks that the mobile router visits.
pub const VISITED: u16 = 4;
/// Correspondents, each of one connection.
const PEERS: u16 = 2;
/// Name of the host's interface.
const INTERFACE: &str = "eth0";

/// The hosts and links of a world.
#[derive(Debug)]
pub struct Topology {
    /// The world.
    pub world: World,
    /// The host.
    pub node: HostId,
    /// Its interface.
    pub link: LinkId,
    /// The link of the mobile network.
    pub inside: MediumId,
    /// The host's kernel.
    pub kernel: Rc<RefCell<MptcpKernel>>,
    /// The correspondents, and the subflows each knows.
    pub peers: Vec<(Ipv6Addr, Rc<RefCell<SubflowTable>>)>,
}

impl Topology {
    /// A topology whose mobile router advertises `schedule`.
    pub fn new(seed: u64, schedule: Vec<(Time, AdvertisedPrefixes)>) -> Topology {
        let mut world = World::new(seed);
        let inside = world.add_medium("inside", LinkSpec::default());
        let cable = world.add_medium("core-lender", delay(5));
        let mut core = Host::router("core");
        let down = interface(&mut core, "lender", 1);
        let mut lender = Host::router("lender");
        let up = interface(&mut lender, "core", 2);
        let serves = interface(&mut lender, INTERFACE, 3);
        let (core_address, lender_address) = (core.link_local(down), lender.link_local(up));
        lender.kernel.add_static(route_via(Prefix::ALL, up, core_address));
        for number in 0..=VISITED {
            lender.kernel.add_static(route(prefix(number), DEFAULT_METRIC, NextHop::OnLink(serves)));
            core.kernel.add_static(route_via(prefix(number), down, lender_address));
        }
        let address = lender.link_address(serves);
        lender.spawn = Box::new(move |_| Box::new(PrefixAdvertiser::new(serves, address, schedule.clone())));
        let mut peers = Vec::new();
        let mut ends = Vec::new();
        for number in 0..PEERS {
            let known: Rc<RefCell<SubflowTable>> = Rc::default();
            let medium = world.add_medium(&format!("peer {number}"), delay(5));
            let there = interface(&mut core, &format!("peer{number}"), 10 + number);
            core.kernel.add_static(route(Prefix::host(peer(number)), DEFAULT_METRIC, NextHop::OnLink(there)));
            peers.push((peer(number), Rc::clone(&known)));
            ends.push((number, medium, there, core.link_local(there), known));
        }
        let core = world.add_attached_host(core, &[(down, cable)]);
        world.add_attached_host(lender, &[(up, cable), (serves, inside)]);
        for (number, medium, there, router, known) in ends {
            let mut host = Host::new(&format!("peer{number}"), move |_| Box::new(Correspondent::new(&known)));
            let link = interface(&mut host, INTERFACE, 20 + number);
            host.kernel.add_static(address_item(link, peer(number), 128));
            host.kernel.add_static(route_via(Prefix::ALL, link, router));
            world.add_attached_host(host, &[(link, medium)]);
            world.attach(core, there, Some(medium));
        }
        let (node, link, kernel) = add_node(&mut world, inside, &peers);
        Topology { world, node, link, inside, kernel, peers }
    }

    /// The host's address in the mobile network (0) or of a visited network.
    pub fn address(&self, number: u16) -> Ipv6Addr {
        self.kernel.borrow().autoconf.address_in(prefix(number))
    }
}

fn add_node(
    world: &mut World,
    inside: MediumId,
    peers: &[(Ipv6Addr, Rc<RefCell<SubflowTable>>)],
) -> (HostId, LinkId, Rc<RefCell<MptcpKernel>>) {
    let mut host = Host::idle("node");
    let link = interface(&mut host, INTERFACE, 4);
    let autoconf = Slaac::new(link, host.link_address(link));
    let home = autoconf.address_in(prefix(0));
    let ends: Vec<Ipv6Addr> = peers.iter().map(|(address, _)| *address).collect();
    let kernel = Rc::new(RefCell::new(MptcpKernel { autoconf, sockets: Sockets::new(home, &ends), changes: 0 }));
    let shown = Rc::clone(&kernel);
    host.spawn = Box::new(move |_| -> BoxedEngine {
        let mut bytes = [0; 32];
        Entropy::seed_from_u64(1).fill(&mut bytes);
        let engine = roam6_proto::Node::from_roles(&[Role::PathManager(config())], bytes);
        Box::new(MptcpHost::new(engine, &kernel, link, home))
    });
    let node = world.add_attached_host(host, &[(link, inside)]);
    (node, link, shown)
}

fn config() -> PathManagerConfig {
    PathManagerConfig {
        interfaces: [INTERFACE.to_owned()].into(),
        home_prefixes: vec![prefix(0)],
        signal_home: false,
        signal_care_of: false,
        subflows: 8,
        add_addr_accepted: 0,
        source_routing: false,
    }
}

/// The mobile network prefix (0), or the prefix delegated by a visited network.
pub fn prefix(number: u16) -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0xa00 + number, 0, 0, 0, 0, 0), 64).unwrap_or(Prefix::ALL)
}

fn peer(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xc00 + number, 0, 0, 0, 0, 1)
}

fn interface(host: &mut Host, name: &str, unit: u16) -> LinkId {
    let link = host.add_interface(name, unit);
    host.kernel.add_static(address_item(link, host.link_local(link), 128));
    link
}
