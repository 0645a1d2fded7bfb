//! Items that an operator configures on a host.

use crate::net::link::LinkSpec;
use core::time::Duration;
use roam6_proto::contract::item::{Address, NextHop, Route, RouteTable};
use roam6_proto::{Item, LinkId};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Metric of default routes and of routes to other networks.
pub(crate) const DEFAULT_METRIC: u32 = 1024;
/// Metric of unreachable routes.
const UNREACHABLE_METRIC: u32 = 4096;

/// An address of an interface; with a length below 128 its prefix is on-link.
pub(crate) fn address_item(link: LinkId, address: Ipv6Addr, prefix_length: u8) -> Item {
    Item::Address(Address { link, address, prefix_length, preferred: true, dad: false })
}

/// A route of the main table.
pub(crate) fn route(destination: Prefix, metric: u32, target: NextHop) -> Item {
    route_in(RouteTable::MAIN, destination, metric, target)
}

/// A route through a router.
pub(crate) fn route_via(destination: Prefix, link: LinkId, router: Ipv6Addr) -> Item {
    route(destination, DEFAULT_METRIC, NextHop::Gateway { link, router })
}

/// A route for what a router's own links lack, which must not loop.
pub(crate) fn unreachable(destination: Prefix) -> Item {
    route(destination, UNREACHABLE_METRIC, NextHop::Unreachable)
}

/// A route of any table.
pub(crate) fn route_in(table: RouteTable, destination: Prefix, metric: u32, target: NextHop) -> Item {
    Item::Route(plain_route(table, destination, metric, target))
}

/// A route for packets from any source, with the MTU of its link.
pub(crate) fn plain_route(table: RouteTable, destination: Prefix, metric: u32, target: NextHop) -> Route {
    Route { table, destination, source: Prefix::ALL, metric, target, mtu: None }
}

/// A link without impairments but its delay.
pub fn delay(milliseconds: u64) -> LinkSpec {
    LinkSpec { delay: Duration::from_millis(milliseconds), ..LinkSpec::default() }
}
