//! Addresses from DHCP: the host's own client, not roam6, adds and removes them.

use crate::net::event::Scheduled;
use crate::net::items::{DEFAULT_METRIC, route};
use crate::net::{HostId, MediumId, Port, World};
use core::time::Duration;
use roam6_proto::contract::item::NextHop;
use roam6_proto::{Item, LinkId};
use roam6_wire::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest time until an address is added, and until it is removed, milliseconds.
const MAX_LEASE_DELAY: (u64, u64) = (1500, 500);

/// The IPv4 addressing of a network.
#[derive(Debug, Clone, Copy)]
pub struct Ipv4Site {
    /// The first half of its addresses; the rest is derived from the interface.
    pub network: [u8; 2],
    /// Its router.
    pub router: Ipv4Addr,
}

/// All of IPv4, for routes.
pub(crate) fn all_ipv4() -> Prefix {
    Prefix::new(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(), 96).unwrap_or(Prefix::ALL)
}

impl World {
    /// An interface was attached or detached: the DHCP client of its host, if any, will notice.
    pub(crate) fn request_lease(&mut self, (host, link): Port, medium: Option<MediumId>) {
        if !self.host(host).dhcp_client {
            return;
        }
        let slowest = if medium.is_some() { MAX_LEASE_DELAY.0 } else { MAX_LEASE_DELAY.1 };
        let after = Duration::from_millis(self.entropy.below(slowest));
        self.enqueue(self.now() + after, Scheduled::Lease { host, link });
    }

    /// The DHCP client has its result.
    pub(crate) fn lease(&mut self, host: HostId, link: LinkId) {
        let Some(interface) = self.host(host).interfaces.get(&link) else { return };
        let [.., high, low] = interface.address.0;
        let site = interface.medium.and_then(|medium| self.medium(medium).ipv4_site);
        let given = site.map(|Ipv4Site { network: [a, b], .. }| Ipv4Addr::new(a, b, high, low).to_ipv6_mapped());
        let held: Vec<Ipv6Addr> = self.host(host).kernel.addresses(link);
        let held = held.into_iter().find(|address| address.to_ipv4_mapped().is_some());
        if held == given {
            return;
        }
        if let Some(held) = held {
            self.host_mut(host).kernel.remove_static(&default_route(link, held).key());
            self.set_address(host, link, held, false);
        }
        if let (Some(given), Some(site)) = (given, site) {
            self.host_mut(host).kernel.add_static(default_route(link, site.router.to_ipv6_mapped()));
            self.set_address(host, link, given, true);
        }
    }
}

/// Each interface has a metric of its own.
fn default_route(link: LinkId, router: Ipv6Addr) -> Item {
    route(all_ipv4(), DEFAULT_METRIC + link.0, NextHop::Gateway { link, router })
}
