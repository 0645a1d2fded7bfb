//! The items that make the host forward for one binding: tunnel, routes and proxy (RFC 3963 §6.3-6.5, RFC 6275 §10.4).

use super::binding::{CareOf, Registration};
use super::path_mtu::PathMtu;
use crate::input::LinkId;
use crate::plan::{Item, Path, Proxy, Route, Table, Target, Tunnel, TunnelFlow, TunnelId};
use roam6_wire::{HomeAddress, Prefix};
use std::net::Ipv6Addr;

/// Metric of routes into a tunnel: better than any route by which the mobile network is reached at home.
pub(super) const TUNNEL_METRIC: u32 = 100;

/// Octets of the outer header (RFC 2473 §7.1).
pub(super) const ENCAPSULATION: u32 = 40;

/// The tunnel of a registration; care-of addresses in `left` still receive.
pub(super) fn tunnel(
    id: TunnelId,
    local: Ipv6Addr,
    home: HomeAddress,
    registration: &Registration,
    left: &[CareOf],
    mtu: &PathMtu,
) -> Item {
    let best = registration.care_of.iter().map(CareOf::rank).min();
    let path = |care_of: &CareOf, weight| Path {
        bid: care_of.bid,
        local,
        remote: care_of.address,
        link: None,
        mtu: mtu.find(care_of.address).saturating_sub(ENCAPSULATION),
        weight,
        direct: false,
    };
    let weight = |care_of: &CareOf| u16::from(Some(care_of.rank()) == best);
    let in_use = registration.care_of.iter().map(|care_of| path(care_of, weight(care_of)));
    let paths = in_use.chain(left.iter().map(|care_of| path(care_of, 0))).collect();
    let flows = registration.flows.iter().map(|rule| TunnelFlow { selector: rule.selector.clone(), bid: rule.bid });
    Item::Tunnel(Tunnel { id, near: vec![Prefix::ALL], far: far(home, registration), paths, flows: flows.collect() })
}

/// The tunnel of a registration that ended: it carries nothing, yet lets in what is still on its way.
pub(super) fn closing_tunnel(
    id: TunnelId,
    local: Ipv6Addr,
    home: HomeAddress,
    ended: &Registration,
    mtu: &PathMtu,
) -> Item {
    let empty = Registration { care_of: Vec::new(), flows: Vec::new(), ..ended.clone() };
    tunnel(id, local, home, &empty, &ended.care_of, mtu)
}

/// The routes into the tunnel.
pub(super) fn routes(
    id: TunnelId,
    home: HomeAddress,
    registration: &Registration,
) -> impl Iterator<Item = Item> + use<> {
    far(home, registration).into_iter().map(move |destination| route(id, destination))
}

/// One route into a tunnel.
pub(super) fn route(id: TunnelId, destination: Prefix) -> Item {
    Item::Route(Route {
        table: Table::MAIN,
        destination,
        source: Prefix::ALL,
        metric: TUNNEL_METRIC,
        target: Target::Tunnel(id),
        mtu: None,
    })
}

/// The home address, answered for on the home link; as a router if it is one (RFC 3963 §6.2).
pub(super) fn proxy(link: LinkId, home: HomeAddress, registration: &Registration) -> Item {
    Item::Proxy(Proxy { link, address: home.0, router: registration.router })
}

fn far(home: HomeAddress, registration: &Registration) -> Vec<Prefix> {
    let home = Prefix::host(home.0);
    core::iter::once(home).chain(registration.prefixes.iter().copied()).collect()
}
