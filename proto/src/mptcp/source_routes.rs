//! Source-specific default routes: packets from a prefix leave by the router that advertised it, because the router of
//! another network filters their source (RFC 8028 §3.1, BCP 38).

use crate::contract::item::{NextHop, Route, RouteTable};
use crate::{DesiredState, Item, Key, LinkId, Outbox, Time, VecMap};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Metric of these routes.
const METRIC: u32 = 512;

/// Puts and drops source-specific default routes until the host has those of `wanted`: for each prefix its interface and
/// router.
pub(crate) fn reconcile<T>(
    desired_state: &mut DesiredState<T>,
    now: Time,
    wanted: &VecMap<Prefix, (LinkId, Ipv6Addr)>,
    out: &mut Outbox,
) {
    let is_stale = |key: &Key| matches!(key, Key::Route(RouteTable::MAIN, Prefix::ALL, source, METRIC) if !wanted.contains_key(source));
    desired_state.retain(|key| !is_stale(key), out);
    for (&source, &(link, router)) in wanted {
        let target = NextHop::Gateway { link, router };
        let (table, destination, metric) = (RouteTable::MAIN, Prefix::ALL, METRIC);
        let route = Item::Route(Route { table, destination, source, metric, target, mtu: None });
        desired_state.put(now, &route, out);
    }
}
