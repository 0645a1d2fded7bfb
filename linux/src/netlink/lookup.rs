//! A route lookup.

use super::family;
use super::message::Message;
use super::route::mtu_of;
use super::rtnl::RtnlMessage;
use super::socket::Netlink;
use crate::error::Error;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use roam6_proto::LinkId;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::item::RouteTable;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// The result of a route lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouteLookup {
    /// The table that has the route.
    pub(crate) table: RouteTable,
    /// The interface.
    pub(crate) link: Option<LinkId>,
    /// `None`: the destination is a neighbour.
    pub(crate) gateway: Option<Ipv6Addr>,
    /// The MTU, where the route or the path has one.
    pub(crate) mtu: Option<u32>,
}

/// Looks up the route from `pair.local` to `pair.peer`, by `link` only if one is given. `None` if there is none. IPv4-mapped
/// addresses are those of IPv4.
///
/// # Errors
/// The kernel's, if it refuses the request.
pub(crate) fn route_lookup(
    netlink: &mut Netlink,
    pair: AddressPair,
    link: Option<LinkId>,
) -> Result<Option<RouteLookup>, Error> {
    Ok(kernel_route(netlink, pair.peer, Some(pair.local), link)?.as_ref().map(read))
}

/// The kernel's route to a destination, from a source and by an interface if they are given. `None` if there is none.
///
/// # Errors
/// The kernel's, if it refuses the request.
pub(crate) fn kernel_route(
    netlink: &mut Netlink,
    destination: Ipv6Addr,
    source: Option<Ipv6Addr>,
    link: Option<LinkId>,
) -> Result<Option<RouteMessage>, Error> {
    let mut message = RouteMessage::default();
    let (family, destination, length) = family::to_kernel(Prefix::host(destination));
    message.header.address_family = family;
    message.header.destination_prefix_length = length;
    message.attributes = vec![RouteAttribute::Destination(destination.into())];
    if let Some(source) = source {
        message.header.source_prefix_length = length;
        message.attributes.push(RouteAttribute::Source(family::to_kernel(Prefix::host(source)).1.into()));
    }
    message.attributes.extend(link.map(|link| RouteAttribute::Oif(link.0)));
    match netlink.get(Message::new(libc::RTM_GETROUTE, &message))? {
        Some(RtnlMessage::NewRoute(route)) => Ok(Some(route)),
        _ => Ok(None),
    }
}

fn read(route: &RouteMessage) -> RouteLookup {
    let mut way =
        RouteLookup { table: RouteTable(u32::from(route.header.table)), link: None, gateway: None, mtu: None };
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(table) => way.table = RouteTable(*table),
            RouteAttribute::Oif(link) => way.link = Some(LinkId(*link)),
            RouteAttribute::Gateway(RouteAddress::Inet6(router)) => way.gateway = Some(*router),
            RouteAttribute::Gateway(RouteAddress::Inet(router)) => way.gateway = Some(router.to_ipv6_mapped()),
            RouteAttribute::Metrics(metrics) => way.mtu = mtu_of(metrics),
            _ => {}
        }
    }
    way
}
