//! Routes in rtnetlink.

use super::message::Message;
use super::socket::Request;
use super::{PROTOCOL, family};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use roam6_proto::LinkId;
use roam6_proto::contract::input::RouteEvent;
use roam6_proto::contract::item::RouteTable;
use roam6_wire::Prefix;
use std::net::{IpAddr, Ipv6Addr};

/// The metric that the kernel uses for 0 (IP6_RT_PRIO_USER).
pub(crate) const DEFAULT_METRIC: u32 = 1024;

/// A route of roam6 in rtnetlink's terms: tunnels are interfaces here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KernelRoute {
    pub(crate) table: RouteTable,
    pub(crate) destination: Prefix,
    pub(crate) source: Prefix,
    pub(crate) metric: u32,
    /// `None`: refused with Destination Unreachable, or discarded.
    pub(crate) device: Option<LinkId>,
    /// Without a device: packets are discarded silently, not rejected.
    pub(crate) blackhole: bool,
    pub(crate) gateway: Option<Ipv6Addr>,
    pub(crate) mtu: Option<u32>,
}

impl KernelRoute {
    /// Adds the route, in place of any with the same table, prefixes and metric.
    pub(crate) fn put(&self) -> Request {
        self.put_as(PROTOCOL)
    }

    /// The same with another protocol number: such a route is none that [`KernelRoute::read`] reads.
    pub(crate) fn put_as(&self, protocol: u8) -> Request {
        let mut message = self.named(protocol);
        message.header.scope = RouteScope::Universe;
        match self.device {
            None if self.blackhole => message.header.kind = RouteType::BlackHole,
            None => message.header.kind = RouteType::Unreachable,
            Some(device) => {
                message.header.kind = RouteType::Unicast;
                message.attributes.push(RouteAttribute::Oif(device.0));
            }
        }
        message.attributes.extend(self.gateway.map(|router| RouteAttribute::Gateway(RouteAddress::Inet6(router))));
        message.attributes.extend(self.mtu.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)])));
        Request::replace(Message::new(libc::RTM_NEWROUTE, &message))
    }

    /// Removes the route of roam6 with the same table, prefixes and metric.
    pub(crate) fn remove(&self) -> Request {
        self.remove_as(PROTOCOL)
    }

    /// The same of a route with another protocol number.
    pub(crate) fn remove_as(&self, protocol: u8) -> Request {
        Request::remove(Message::new(libc::RTM_DELROUTE, &self.named(protocol)))
    }

    /// Reads a route; `None` if it is not of roam6.
    pub(crate) fn read(message: &RouteMessage) -> Option<KernelRoute> {
        let header = &message.header;
        if header.protocol != RouteProtocol::Other(PROTOCOL) {
            return None;
        }
        let everything = family::unspecified(header.address_family)?;
        let mut route = KernelRoute {
            table: RouteTable(u32::from(header.table)),
            destination: family::prefix(everything, header.destination_prefix_length)?,
            source: Prefix::new(Ipv6Addr::UNSPECIFIED, header.source_prefix_length)?,
            metric: DEFAULT_METRIC,
            device: None,
            blackhole: header.kind == RouteType::BlackHole,
            gateway: None,
            mtu: None,
        };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(address) => {
                    route.destination = family::prefix(read_address(address)?, header.destination_prefix_length)?;
                }
                RouteAttribute::Source(RouteAddress::Inet6(address)) => {
                    route.source = Prefix::new(*address, header.source_prefix_length)?;
                }
                RouteAttribute::Table(table) => route.table = RouteTable(*table),
                RouteAttribute::Priority(metric) => route.metric = *metric,
                RouteAttribute::Oif(device) if header.kind == RouteType::Unicast => {
                    route.device = Some(LinkId(*device));
                }
                RouteAttribute::Gateway(RouteAddress::Inet6(router)) => route.gateway = Some(*router),
                RouteAttribute::Metrics(metrics) => route.mtu = mtu_of(metrics),
                _ => {}
            }
        }
        Some(route)
    }

    /// The route as the kernel dumps it once it is installed.
    pub(crate) fn normalised(self) -> KernelRoute {
        KernelRoute { metric: self.shown_metric(), ..self }
    }

    /// Dumps all routes of roam6 of one family.
    pub(crate) fn dump(family: AddressFamily) -> Message {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.protocol = RouteProtocol::Other(PROTOCOL);
        Message::new(libc::RTM_GETROUTE, &message)
    }

    fn shown_metric(&self) -> u32 {
        if self.metric == 0 { DEFAULT_METRIC } else { self.metric }
    }

    fn named(&self, protocol: u8) -> RouteMessage {
        let mut message = RouteMessage::default();
        let (address_family, destination, destination_prefix_length) = family::to_kernel(self.destination);
        message.header = RouteHeader {
            address_family,
            destination_prefix_length,
            source_prefix_length: self.source.length(),
            table: u8::try_from(self.table.0).unwrap_or(RouteHeader::RT_TABLE_UNSPEC),
            protocol: RouteProtocol::Other(protocol),
            scope: RouteScope::NoWhere,
            kind: RouteType::Unspec,
            ..RouteHeader::default()
        };
        message.attributes = vec![
            RouteAttribute::Destination(destination.into()),
            RouteAttribute::Table(self.table.0),
            RouteAttribute::Priority(self.shown_metric()),
        ];
        if self.source != Prefix::ALL {
            message.attributes.push(RouteAttribute::Source(RouteAddress::Inet6(self.source.address())));
        }
        message
    }
}

/// The MTU of a route that has one of its own.
pub(crate) fn mtu_of(metrics: &[RouteMetric]) -> Option<u32> {
    metrics.iter().find_map(|metric| if let RouteMetric::Mtu(mtu) = metric { Some(*mtu) } else { None })
}

pub(crate) fn read_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

/// Dumps the routes of the main table by an interface.
pub(crate) fn dump_default_routes(link: LinkId) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet6;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.attributes.push(RouteAttribute::Oif(link.0));
    Message::new(libc::RTM_GETROUTE, &message)
}

/// The event of a default route that is neither of roam6 nor advertised: engines receive advertisements themselves.
pub(crate) fn default_route(message: &RouteMessage, present: bool) -> Option<RouteEvent> {
    let header = &message.header;
    let whole = header.destination_prefix_length == 0 && header.source_prefix_length == 0;
    let made_by = header.protocol;
    let known = [RouteProtocol::Ra, RouteProtocol::Other(PROTOCOL)].contains(&made_by);
    let main = header.table == RouteHeader::RT_TABLE_MAIN && header.kind == RouteType::Unicast;
    let (mut link, mut router) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(device) => link = Some(LinkId(*device)),
            RouteAttribute::Gateway(RouteAddress::Inet6(address)) => router = Some(*address),
            _ => {}
        }
    }
    let event = RouteEvent { link: link?, router: router?, present };
    (header.address_family == AddressFamily::Inet6 && whole && main && !known).then_some(event)
}

/// Dumps the IPv4 routes of all tables.
pub(crate) fn dump_ipv4() -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    Message::new(libc::RTM_GETROUTE, &message)
}

/// An IPv4 route to other hosts, of whatever program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ipv4Route {
    pub(crate) destination: Prefix,
    pub(crate) table: u32,
    pub(crate) in_main_table: bool,
    /// Its interfaces.
    pub(crate) links: Vec<LinkId>,
}

impl Ipv4Route {
    /// Reads a route; `None` if it leads to no other host.
    pub(crate) fn read(message: &RouteMessage) -> Option<Ipv4Route> {
        let header = &message.header;
        if header.address_family != AddressFamily::Inet || header.kind != RouteType::Unicast {
            return None;
        }
        let (mut address, mut table) = (family::unspecified(AddressFamily::Inet)?, u32::from(header.table));
        let mut links = Vec::new();
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(destination) => address = read_address(destination)?,
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Oif(device) => links.push(LinkId(*device)),
                RouteAttribute::MultiPath(hops) => links.extend(hops.iter().map(|hop| LinkId(hop.interface_index))),
                _ => {}
            }
        }
        let destination = family::prefix(address, header.destination_prefix_length)?;
        let in_main_table = table == u32::from(RouteHeader::RT_TABLE_MAIN);
        Some(Ipv4Route { destination, table, in_main_table, links })
    }

    /// Whether packets may leave by this interface.
    pub(crate) fn leads_to(&self, link: LinkId) -> bool {
        self.links.contains(&link)
    }
}
