//! The forwarding items of one binding: tunnel, routes, proxies and neighbour (RFC 3963 §6.3-6.5, RFC 6275 §10.4, RFC
//! 5648 §5.6, RFC 5555 §4.1).

use super::HomeAgent;
use super::cache::{Binding, Registration};
use super::types::CareOf;
use crate::contract::config::nemo::DsmipService;
use crate::contract::item::{
    Encap, Neighbour, NextHop, ProxyNeighbour, RouteTable, Tunnel, TunnelFlow, TunnelId, TunnelPath,
};
use crate::{Item, LinkId};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::{HomeAddress, Ipv4Endpoint, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Metric of routes into a tunnel: better than those of a mobile network at home.
pub(super) const TUNNEL_METRIC: u32 = 100;

/// Octets of the outer header (RFC 2473 §7.1).
pub(super) const OUTER_HEADER: u32 = 40;

impl HomeAgent {
    /// The items on the home link for a registration: its proxies and the neighbour entry; none without a home link.
    pub(super) fn home_link_items(&self, home: HomeAddress, registration: &Registration) -> Vec<Item> {
        let Some(link) = self.home_link.link() else { return Vec::new() };
        let neighbour = registration.home_link_address.map(|at| neighbour_item(link, at));
        proxy_items(link, home, registration).chain(neighbour).collect()
    }

    /// The tunnel of a binding with this registration, and the routes into it.
    pub(super) fn tunnel_items(&self, home: HomeAddress, binding: &Binding, registration: &Registration) -> Vec<Item> {
        let id = binding.tunnel;
        let tunnel = self.tunnel(id, home, registration, &binding.lingering_after(registration));
        let routes: Vec<Item> = tunnel.remote_prefixes.iter().map(|prefix| tunnel_route(id, *prefix)).collect();
        core::iter::once(Item::Tunnel(tunnel)).chain(routes).collect()
    }

    /// The tunnel of a registration; the care-of addresses `left` only receive.
    pub(super) fn tunnel(&self, id: TunnelId, home: HomeAddress, of: &Registration, left: &[CareOf]) -> Tunnel {
        let path = |care_of: &CareOf, weight| match of.home_link_address.filter(|_| care_of.simultaneous_home) {
            Some(at) => self.direct_path(care_of, at, weight),
            None => Some(self.path(care_of, weight)),
        };
        let usable: Vec<&CareOf> = of.care_of.iter().filter(|care_of| path(care_of, 0).is_some()).collect();
        let best = usable.iter().map(|care_of| care_of.rank()).min();
        let in_use = usable.iter().filter_map(|care_of| path(care_of, u16::from(Some(care_of.rank()) == best)));
        let paths = in_use.chain(left.iter().map(|care_of| self.path(care_of, 0))).collect();
        let flows = of.flows.iter().map(|rule| TunnelFlow {
            selector: rule.selector.clone(),
            ingress: None,
            bid: rule.bid,
            replica: rule.replication.and_then(|replication| replication.second),
        });
        let host = core::iter::once(Prefix::host(home.0));
        let remote_prefixes = host.chain(self.tunnelled_prefixes(id, home, of)).collect();
        let local_prefixes = vec![Prefix::ALL];
        Tunnel { id, local_prefixes, remote_prefixes, paths, flows: flows.collect() }
    }

    /// The tunnel of an ended registration, which only receives.
    pub(super) fn receive_only_tunnel(&self, id: TunnelId, home: HomeAddress, ended: &Registration) -> Item {
        let empty = Registration { care_of: Vec::new(), flows: Vec::new(), ..ended.clone() };
        let left: Vec<CareOf> = ended.away().cloned().collect();
        Item::Tunnel(self.tunnel(id, home, &empty, &left))
    }

    /// The local end of the tunnel to a care-of address, and the octets of the outer headers.
    fn local_end(&self, remote: Ipv6Addr) -> (Ipv6Addr, u32) {
        match Ipv4Endpoint::from_ipv6(remote).zip(self.config.ipv4) {
            Some((end, DsmipService { address, .. })) => {
                let port = if end.port == 0 { 0 } else { DSMIP_PORT };
                (Ipv4Endpoint { address, port }.to_ipv6(), end.overhead())
            }
            None => (self.config.address, OUTER_HEADER),
        }
    }

    fn path(&self, care_of: &CareOf, weight: u16) -> TunnelPath {
        let (local, overhead) = self.local_end(care_of.address);
        if let Some(peer) = care_of.wireguard.as_deref() {
            return self.encrypted_path(care_of, (local, *peer), weight);
        }
        if let Some(agreed) = care_of.esp.as_deref() {
            return self.esp_path(care_of, agreed.pair, weight);
        }
        let encap = care_of.udp.map_or(Encap::Native, |remote| Encap::Udp { local: DSMIP_PORT, remote });
        let overhead = overhead + encap.overhead();
        TunnelPath {
            bid: care_of.bid,
            local,
            remote: care_of.address,
            link: None,
            mtu: self.path_mtu.mtu_to(care_of.address).saturating_sub(overhead),
            weight,
            direct: false,
            encap,
            dscp: None,
        }
    }

    /// Over the home link, while it is up (RFC 5648 §5.6.2).
    fn direct_path(&self, care_of: &CareOf, at: LinkAddress, weight: u16) -> Option<TunnelPath> {
        let (link, mtu) = self.home_link.direct()?;
        let remote = at.link_local();
        Some(TunnelPath {
            bid: care_of.bid,
            local: self.config.address,
            remote,
            link: Some(link),
            mtu,
            weight,
            direct: true,
            encap: Encap::Native,
            dscp: None,
        })
    }
}

/// One route into a tunnel.
pub(super) fn tunnel_route(id: TunnelId, destination: Prefix) -> Item {
    Item::route(RouteTable::MAIN, destination, TUNNEL_METRIC, NextHop::Tunnel(id))
}

/// The neighbour entry of a mobile router on the home link: it must not answer solicitations for its home address (RFC
/// 5648 §6.3), so an address derived from its link-layer address stands for it.
pub(super) fn neighbour_item(link: LinkId, at: LinkAddress) -> Item {
    Item::Neighbour(Neighbour { link, address: at.link_local(), link_address: at })
}

/// The proxy entries on the home link: the home address, with the R flag if it is a router's (RFC 3963 §6.2), the
/// link-local address if requested (RFC 6275 §10.4.1), and IPv4 home addresses (RFC 5555 §4.5). Routes to IPv4
/// prefixes are the administrator's task.
pub(super) fn proxy_items(link: LinkId, home: HomeAddress, registration: &Registration) -> impl Iterator<Item = Item> {
    let router = registration.router;
    let ipv6 = registration.defended_addresses(home).map(move |address| ProxyNeighbour { link, address, router });
    let addresses =
        registration.prefixes.iter().filter(|prefix| prefix.is_ipv4() && **prefix == Prefix::host(prefix.address()));
    let ipv4 = addresses.map(move |prefix| ProxyNeighbour { link, address: prefix.address(), router: false });
    ipv6.chain(ipv4).map(Item::ProxyNeighbour)
}
