//! Addresses, routes and neighbours of this host, of whatever program. IPv4 addresses are IPv4-mapped.

use crate::error::Error;
use crate::netlink::lookup::route_lookup;
use crate::netlink::neighbour;
use crate::netlink::route::{mtu_of, read_address};
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::Netlink;
use crate::netlink::{OWN_PROTOCOLS, address, family, message::Message};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteType};
use nix::libc;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::input::AddressState;
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// An address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Index of its interface.
    pub interface: u32,
    /// The address.
    pub address: Ipv6Addr,
    /// The prefix that the kernel takes for on-link because of it.
    pub prefix: Prefix,
    /// Whether it can be used, is deprecated, still checked, or a duplicate.
    pub state: AddressState,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The destinations.
    pub destination: Prefix,
    /// The next hop; `None`: destinations are neighbours.
    pub via: Option<Ipv6Addr>,
    /// Index of its interface; `None` if it leads nowhere.
    pub interface: Option<u32>,
    /// The lower the better.
    pub metric: u32,
    /// Which program made it.
    pub origin: RouteOrigin,
    /// What it does with packets.
    pub kind: RouteKind,
    /// Its table; 254 is the main one.
    pub table: u32,
    /// Its MTU, octets, if it has its own.
    pub mtu: Option<u32>,
}

impl Route {
    /// Whether it is a default route of the main table to other hosts.
    pub fn is_default(&self) -> bool {
        self.table == u32::from(RouteHeader::RT_TABLE_MAIN)
            && self.kind == RouteKind::Unicast
            && (self.destination == Prefix::ALL || self.destination.ipv4().is_some_and(|(_, length)| length == 0))
    }
}

/// Which program made a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteOrigin {
    /// The kernel.
    Kernel,
    /// The kernel, from a Router Advertisement.
    RouterAdvertisement,
    /// A DHCP client.
    Dhcp,
    /// This program.
    Roam6,
    /// An operator, or another program, by its number in rtnetlink(7).
    Other(u8),
}

/// What a route does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// Forwards them.
    Unicast,
    /// Delivers them on this host.
    Local,
    /// Answers with Destination Unreachable.
    Unreachable,
    /// Discards them, or anything else.
    Other,
}

/// An entry of the neighbour cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of its interface.
    pub interface: u32,
    /// Its address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub link_address: Option<LinkAddress>,
    /// Whether it answers, or did so when it was last asked.
    pub reachable: bool,
}

/// All addresses of both families.
///
/// # Errors
/// The kernel's, if it refuses a dump.
pub fn addresses() -> Result<Vec<Address>, Error> {
    let read = |message: &RtnlMessage| {
        let RtnlMessage::NewAddress(message) = message else { return None };
        let event = address::event(message, false)?;
        let prefix = match event.address.to_ipv4_mapped() {
            Some(address) => Prefix::from_ipv4(address, message.header.prefix_len)?,
            None => Prefix::new(event.address, message.header.prefix_len)?,
        };
        Some(Address { interface: event.link.0, address: event.address, prefix, state: event.state })
    };
    dump_both(address::dump, read)
}

/// All routes of both families and of all tables.
///
/// # Errors
/// The kernel's, if it refuses a dump.
pub fn routes() -> Result<Vec<Route>, Error> {
    let dump = |family| {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        Message::new(libc::RTM_GETROUTE, &message)
    };
    let read = |message: &RtnlMessage| match message {
        RtnlMessage::NewRoute(route) => read_route(route),
        _ => None,
    };
    dump_both(dump, read)
}

/// The neighbours of an interface, of both families; those that are just being resolved are omitted.
///
/// # Errors
/// The kernel's, if it refuses a dump.
pub fn neighbours(interface: u32) -> Result<Vec<Neighbour>, Error> {
    let read = |message: &RtnlMessage| {
        let RtnlMessage::NewNeighbour(message) = message else { return None };
        let event = neighbour::event(message).filter(|event| event.link.0 == interface)?;
        let (address, link_address, reachable) = (event.address, event.link_address, event.reachable);
        Some(Neighbour { interface, address, link_address, reachable })
    };
    dump_both(neighbour::dump, read)
}

/// The next hop and the interface of packets from `source` (or any) to `destination`; `None` if there is no route.
pub fn route_to(source: Option<Ipv6Addr>, destination: Ipv6Addr) -> Option<(Option<Ipv6Addr>, u32)> {
    let pair = AddressPair { local: source.unwrap_or(Ipv6Addr::UNSPECIFIED), peer: destination };
    let found = route_lookup(&mut Netlink::open().ok()?, pair, None).ok()??;
    Some((found.gateway, found.link?.0))
}

/// What `read` takes from the dumps of both families.
fn dump_both<T>(
    dump: impl Fn(AddressFamily) -> Message,
    read: impl Fn(&RtnlMessage) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let mut netlink = Netlink::open()?;
    let mut found = Vec::new();
    for family in family::BOTH {
        found.extend(netlink.dump(dump(family))?.iter().filter_map(&read));
    }
    Ok(found)
}

fn read_route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    let mut address = family::unspecified(header.address_family)?;
    let mut route = Route {
        destination: Prefix::ALL,
        via: None,
        interface: None,
        metric: 0,
        origin: origin(header.protocol),
        kind: kind(header.kind),
        table: u32::from(header.table),
        mtu: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(destination) => address = read_address(destination)?,
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Oif(device) => route.interface = Some(*device),
            RouteAttribute::Gateway(gateway) => route.via = read_address(gateway).map(mapped),
            RouteAttribute::MultiPath(hops) => route.interface = hops.first().map(|hop| hop.interface_index),
            RouteAttribute::Metrics(metrics) => route.mtu = mtu_of(metrics),
            _ => {}
        }
    }
    route.destination = family::prefix(address, header.destination_prefix_length)?;
    Some(route)
}

fn mapped(address: std::net::IpAddr) -> Ipv6Addr {
    match address {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped(),
        std::net::IpAddr::V6(address) => address,
    }
}

fn origin(protocol: RouteProtocol) -> RouteOrigin {
    match protocol {
        RouteProtocol::Kernel => RouteOrigin::Kernel,
        RouteProtocol::Ra => RouteOrigin::RouterAdvertisement,
        RouteProtocol::Dhcp => RouteOrigin::Dhcp,
        RouteProtocol::Other(number) if OWN_PROTOCOLS.contains(&number) => RouteOrigin::Roam6,
        other => RouteOrigin::Other(other.into()),
    }
}

fn kind(kind: RouteType) -> RouteKind {
    match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local => RouteKind::Local,
        RouteType::Unreachable => RouteKind::Unreachable,
        _ => RouteKind::Other,
    }
}
