//! The way of WireGuard's outer packets at a mobile router: by the uplink of their path. The device marks them, a rule leads marked
//! ones to a table of their own, and that has the next hop that the kernel uses from the care-of address by the uplink. Without one
//! they are discarded, so that no path goes by the uplink of another.
//!
//! The next hop is that to the home agent, for every destination: a home agent with several addresses sends from the one that its
//! routes prefer until it has received a packet, and WireGuard answers an authentic packet to where it came from.

use crate::error::Error;
use crate::netlink::lookup::route_lookup;
use crate::netlink::message::Message;
use crate::netlink::rule;
use crate::netlink::socket::{Netlink, Request};
use crate::netlink::{STEERING_PROTOCOL, family};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::RuleMessage;
use roam6_proto::LinkId;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::config::encryption::DeviceNumber;
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::net::{IpAddr, Ipv6Addr};

/// Before all rules of mobile routers, which are about other packets.
const PRIORITY: u32 = 900;
/// The table, and the mark, of a device is its number with this added.
const TABLE: u32 = 6_276_000;
/// Of the route that discards.
const LAST_METRIC: u32 = u32::MAX;

/// The ends of a path whose packets are led by an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) local: Ipv6Addr,
    pub(super) remote: Ipv6Addr,
    pub(super) link: LinkId,
}

/// The mark of outer packets.
pub(super) fn mark(device: DeviceNumber) -> u32 {
    TABLE + u32::from(device.0)
}

/// Leads marked packets to their table, which discards them; both families.
pub(super) fn begin(netlink: &mut Netlink, device: DeviceNumber) -> Result<(), Error> {
    let requests = family::BOTH.into_iter().flat_map(|family| {
        [discard(family, device), Request::add(Message::new(libc::RTM_NEWRULE, &rule(family, device)))]
    });
    execute(netlink, &requests.collect::<Vec<_>>())
}

/// Removes what [`begin`] has set; routes go with their device.
pub(super) fn end(netlink: &mut Netlink, device: DeviceNumber) {
    let rules = family::BOTH.map(|family| Request::remove(Message::new(libc::RTM_DELRULE, &rule(family, device))));
    let routes = family::BOTH.map(|family| {
        let mut message = table(family);
        message.attributes = vec![RouteAttribute::Priority(LAST_METRIC)];
        Request::remove(Message::new(libc::RTM_DELROUTE, &named(message, device)))
    });
    let _ = netlink.execute(&rules);
    let _ = netlink.execute(&routes);
}

/// Leads the packets of a path by its uplink. Returns the gateway, `None` for none, if the kernel has a route there.
pub(super) fn lead(netlink: &mut Netlink, device: DeviceNumber, ends: &Ends) -> Result<Option<Option<IpAddr>>, Error> {
    let (family, local, _) = family::to_kernel(Prefix::host(address(ends.local)));
    let Some(gateway) = gateway(netlink, ends)? else { return Ok(None) };
    let mut message = table(family);
    message.header.kind = RouteType::Unicast;
    message.header.scope =
        if gateway.is_none() && family == AddressFamily::Inet { RouteScope::Link } else { RouteScope::Universe };
    message.attributes =
        vec![RouteAttribute::Oif(ends.link.0), RouteAttribute::PrefSource(local.into()), RouteAttribute::Priority(1)];
    message.attributes.extend(gateway.map(|router| RouteAttribute::Gateway(router.into())));
    let request = Request::replace(Message::new(libc::RTM_NEWROUTE, &named(message, device)));
    execute(netlink, &[request])?;
    Ok(Some(gateway))
}

/// The gateway of the kernel's route between the ends by the link: `None` if there is no such route, `Some(None)` if the
/// remote end is a neighbour.
fn gateway(netlink: &mut Netlink, ends: &Ends) -> Result<Option<Option<IpAddr>>, Error> {
    let pair = AddressPair { local: address(ends.local), peer: address(ends.remote) };
    let found = route_lookup(netlink, pair, Some(ends.link)).ok().flatten();
    let found = found.filter(|found| found.link == Some(ends.link));
    Ok(found.map(|found| found.gateway.map(|router| family::to_kernel(Prefix::host(router)).1)))
}

/// The address of an endpoint; one of IPv4 is mapped without its port.
fn address(end: Ipv6Addr) -> Ipv6Addr {
    Ipv4Endpoint::from_ipv6(end).map_or(end, |end| end.address.to_ipv6_mapped())
}

fn discard(family: AddressFamily, device: DeviceNumber) -> Request {
    let mut message = table(family);
    message.header.kind = RouteType::BlackHole;
    message.attributes = vec![RouteAttribute::Priority(LAST_METRIC)];
    Request::replace(Message::new(libc::RTM_NEWROUTE, &named(message, device)))
}

fn table(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family,
        table: RouteHeader::RT_TABLE_UNSPEC,
        protocol: RouteProtocol::Other(STEERING_PROTOCOL),
        scope: RouteScope::Universe,
        ..RouteHeader::default()
    };
    message
}

fn named(mut message: RouteMessage, device: DeviceNumber) -> RouteMessage {
    message.attributes.push(RouteAttribute::Table(mark(device)));
    message
}

fn rule(family: AddressFamily, device: DeviceNumber) -> RuleMessage {
    rule::of_mark(family, PRIORITY, (mark(device), mark(device)), STEERING_PROTOCOL)
}

fn execute(netlink: &mut Netlink, requests: &[Request]) -> Result<(), Error> {
    let results = netlink.execute(requests).into_iter().collect::<Result<(), String>>();
    results.map_err(|why| Error::new("route of encrypted packets", why))
}
