//! Stations in a row whose hosts have four virtual links each: hosts solicit one another and exchange packets on every
//! link, with link-local and global addresses (EN 302 636-6-1 §8.2.2). A reply arrives on the link of its request; a
//! request to a global address arrives on the link with that address.

use crate::failure::{WorldFamily, ensure};
use crate::net::datagram::UDP;
use crate::net::host::FIRST_LINK;
use crate::net::items::address_item;
use crate::net::virtual_link::ORIGIN;
use crate::net::{Header, Host, HostId, Observation, RadioSpec, Track, World, datagram};
use crate::run::{Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::contract::config::geo::{AreaForwarding, GeoConfig, LinkScope, Mib, SecurityConfig, VirtualLink};
use roam6_proto::geo::geometry::Offset;
use roam6_proto::role::Role;
use roam6_proto::{Engine, Entropy, Input, LinkId, Node, Outbox, Time, Transmit, Via, View};
use roam6_wire::geo::{Area, ItsStationType};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Virtual links of each station; they follow its radio interface.
const LINKS: u32 = 4;
/// Exchanges in each world, and the time of each, with address resolution.
const EXCHANGES: u64 = 24;
const TRANSIT: Duration = Duration::from_secs(4);
/// Communication range, metres.
const RANGE: f64 = 300.0;
/// The first octet of a request and of a reply; the number of the exchange follows.
const REQUEST: u8 = 0;
const REPLY: u8 = 1;

/// Packets received: host, first octet, number of the exchange, and link.
type Received = Rc<RefCell<BTreeSet<(usize, u8, u64, LinkId)>>>;

/// An exchange of a request and a reply on a link.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    from: usize,
    to: usize,
    link: LinkId,
    global: bool,
}

/// A road of stations with IPv6 hosts.
pub struct Ipv6HostWorld {
    world: World,
    hosts: Vec<HostId>,
    received: Received,
    entropy: Entropy,
}

/// A node with a GeoNetworking station, and an application that replies to requests.
struct Ipv6Host {
    index: usize,
    node: Node,
    received: Received,
}

fn global(host: usize, link: LinkId) -> Ipv6Addr {
    let host = u128::try_from(host + 1).unwrap_or(1);
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(link.0) << 64 | host)
}

fn packet(source: Ipv6Addr, destination: Ipv6Addr, kind: u8, number: u64) -> Vec<u8> {
    let header = Header { source, destination, next: UDP, hop_limit: 64 };
    datagram::udp(header, (7, 7), &[&[kind][..], &number.to_be_bytes()].concat())
}

impl SeededWorld for Ipv6HostWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "virtual link world", replay: "virtual-links" };
    /// The number of completed exchanges.
    type Result = u64;

    fn generate(seed: u64) -> Ipv6HostWorld {
        let entropy = Entropy::seed_from_u64(seed ^ 0x1b6);
        let mut network = World::new(seed);
        let radio = network.add_radio("radio", RadioSpec { range: RANGE, lossless_range: RANGE, ..Default::default() });
        let mut world = Ipv6HostWorld { world: network, hosts: Vec::new(), received: Rc::default(), entropy };
        let mut east = 0.0;
        for _ in 0..3 + world.entropy.below(3) {
            let mut host = world.host();
            host.track = Some(Track::standing(Offset { east, north: 0.0 }));
            let id = world.world.add_attached_host(host, &[(LinkId(FIRST_LINK), radio)]);
            world.hosts.push(id);
            east += 60.0 + world.entropy.below(220) as f64;
        }
        world
    }

    fn run(&mut self) -> Result<u64, String> {
        self.play(Script { events: Vec::new(), last_fault: Duration::from_secs(5) })?;
        (0..EXCHANGES).try_for_each(|number| self.exchange(number))?;
        Ok(EXCHANGES)
    }
}

impl Network for Ipv6HostWorld {
    fn network(&mut self) -> &mut World {
        &mut self.world
    }

    fn check(&mut self, _: &[Observation]) -> Result<(), String> {
        Ok(())
    }
}

impl Ipv6HostWorld {
    /// The next host: a radio interface, and virtual links with one global address each.
    fn host(&mut self) -> Host {
        let area = |radius| LinkScope::Area(Area::circle(ORIGIN, radius));
        let scopes = [area(1_700), area(1_600), LinkScope::Around(1_500), LinkScope::Hops(5)];
        let virtual_link = |(number, reach)| VirtualLink::new(format!("gn{number}"), reach);
        let role = Role::Geo(Box::new(GeoConfig {
            interfaces: ["radio0".to_owned()].into(),
            station: ItsStationType::PASSENGER_CAR,
            virtual_links: (0..).zip(scopes).map(virtual_link).collect(),
            advertised_links: 0,
            destinations: Vec::new(),
            facilities: None,
            mib: Mib { in_area: AreaForwarding::Simple, ..Mib::default() },
            security: SecurityConfig::default(),
        }));
        let mut seed = [0; 32];
        self.entropy.fill(&mut seed);
        let (index, received) = (self.hosts.len(), Rc::clone(&self.received));
        let mut host = Host::new(&format!("host {index}"), move |_| {
            let node = Node::from_roles(core::slice::from_ref(&role), seed);
            Box::new(Ipv6Host { index, node, received: Rc::clone(&received) })
        });
        host.reports_addresses = true;
        host.add_interface("radio0", u16::try_from(index + 1).unwrap_or(u16::MAX));
        for number in 0..LINKS {
            let link = host.add_virtual_interface(&format!("gn{number}"));
            host.kernel.add_static(address_item(link, global(index, link), 64));
        }
        host
    }

    fn choose(&mut self) -> Exchange {
        let count = self.hosts.len() as u64;
        let from = self.entropy.below(count);
        let to = (from + 1 + self.entropy.below(count - 1)) % count;
        let index = |host: u64| usize::try_from(host).unwrap_or(0);
        let link = u32::try_from(self.entropy.below(LINKS.into())).unwrap_or(0);
        let global = self.entropy.below(2) == 0;
        Exchange { from: index(from), to: index(to), link: LinkId(FIRST_LINK + 1 + link), global }
    }

    /// Sends a request, for which the neighbour is resolved on the link if necessary, and checks the links of request
    /// and reply.
    fn exchange(&mut self, number: u64) -> Result<(), String> {
        let exchange = self.choose();
        let Exchange { from, to, link, global: is_global } = exchange;
        let of = |host: usize| match is_global {
            true => Some(global(host, link)),
            false => Some(self.world.host(*self.hosts.get(host)?).link_local(link)),
        };
        let (Some(sender), Some(source), Some(target)) = (self.hosts.get(from).copied(), of(from), of(to)) else {
            return Err(format!("no such hosts: {exchange:?}"));
        };
        self.world.send(sender, packet(source, target, REQUEST, number), Some(link));
        let end = self.world.now() + TRANSIT;
        self.advance(end)?;
        self.world.wait_until(end);
        let received = self.received.borrow();
        let links = |host, kind| -> Vec<LinkId> {
            let all = received.range((host, kind, number, LinkId(0))..=(host, kind, number, LinkId(u32::MAX)));
            all.map(|(.., link)| *link).collect()
        };
        let (requests, replies) = (links(to, REQUEST), links(from, REPLY));
        ensure!(!is_global || requests == [link], "request {number} of {exchange:?} arrived on {requests:?}");
        ensure!(replies == [link], "reply {number} of {exchange:?} arrived on {replies:?}");
        Ok(())
    }
}

impl Engine for Ipv6Host {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if let Input::Packet(received) = input
            && let Some(header) = Header::parse(&received.bytes)
            && let Some((UDP, [_, _, _, _, _, _, _, _, kind, number @ ..])) = datagram::upper_layer(&received.bytes)
            && let Some(number) = number.first_chunk().map(|octets| u64::from_be_bytes(*octets))
        {
            self.received.borrow_mut().insert((self.index, *kind, number, received.link));
            if *kind == REQUEST {
                let bytes = packet(header.destination, header.source, REPLY, number);
                out.transmit(Transmit { via: Via::Link(received.link), bytes });
            }
        }
        self.node.handle(now, input, out);
    }

    fn deadline(&self) -> Option<Time> {
        self.node.deadline()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.node.view(now, view);
    }
}
