//! IPv4 in the NEMO topology: home agents have an address, visited networks provide some.

use crate::nemo::topology::{self, Topology};
use crate::net::datagram::UDP;
use crate::net::ipv4::nat::Nat44;
use crate::net::ipv4::{Ipv4Site, all_ipv4};
use crate::net::items::{DEFAULT_METRIC, address_item, route, route_via};
use crate::net::{Header, Host, HostId};
use roam6_proto::contract::item::NextHop;
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The IPv4 service of a visited network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Access {
    /// It has IPv6 as well.
    pub ipv6: bool,
    /// It is behind a NAT.
    pub translated: bool,
}

/// The IPv4 address of the `index`-th home agent.
pub fn agent_address(index: u16) -> Ipv4Addr {
    let [_, low] = index.to_be_bytes();
    Ipv4Addr::new(203, 0, 113, low.saturating_add(1))
}

impl Topology {
    /// Adds an IPv4 address to every home agent, and a DHCP client to every mobile router.
    pub fn add_ipv4(&mut self) {
        let (home_router, home_link) = self.home_router;
        let home = Ipv6Addr::from_bits(agent_address(0).to_ipv6_mapped().to_bits() & !0xff);
        let home = Prefix::new(home, 120).unwrap_or(Prefix::ALL);
        self.world.host_mut(home_router).kernel.add_static(route(home, DEFAULT_METRIC, NextHop::OnLink(home_link)));
        let way =
            Header { source: Ipv6Addr::UNSPECIFIED, destination: topology::agent_address(0), next: UDP, hop_limit: 64 };
        let there = self.world.host(self.core).kernel.route(&way, None, |_| true).unwrap_or(NextHop::Unreachable);
        self.world.host_mut(self.core).kernel.add_static(route(home, DEFAULT_METRIC, there));
        for (index, agent) in (0..).zip(self.agents.clone()) {
            let address = address_item(agent.link, agent_address(index).to_ipv6_mapped(), 128);
            self.world.host_mut(agent.host).kernel.add_static(address);
        }
        for mobile in &self.mobiles {
            self.world.host_mut(mobile.host).dhcp_client = true;
        }
    }

    /// Adds IPv4 to the visited network `index`.
    pub fn add_ipv4_network(&mut self, index: u16, provision: Ipv4Access) {
        let at = usize::from(index);
        let (Some(access), Some(medium)) = (self.access.get(at).copied(), self.visited.get(at).copied()) else {
            return;
        };
        let [_, low] = index.to_be_bytes();
        let network = if provision.translated { [10, low] } else { [198, 18 + low] };
        let router = Ipv4Addr::new(network[0], network[1], 0, 1);
        let public = Ipv4Addr::new(198, 51, 100, low);
        let inside = Prefix::new(Ipv4Addr::new(network[0], network[1], 0, 0).to_ipv6_mapped(), 112);
        self.world.medium_mut(medium).ipv4_site = Some(Ipv4Site { network, router });
        let host = self.world.host_mut(access.host);
        host.kernel.add_static(address_item(access.link, router.to_ipv6_mapped(), 112));
        host.nat = provision.translated.then(|| Nat44::new(access.link, public));
        host.kernel.add_static(route(Prefix::host(public.to_ipv6_mapped()), DEFAULT_METRIC, NextHop::Unreachable));
        if !provision.ipv6 {
            host.spawn = Host::idle("").spawn;
        }
        let known =
            if provision.translated { Prefix::host(public.to_ipv6_mapped()) } else { inside.unwrap_or(Prefix::ALL) };
        self.world.host_mut(self.core).kernel.add_static(route_via(known, access.core_link, access.address));
        // Whatever else is of IPv4 is not to go round in circles.
        self.world.host_mut(self.core).kernel.add_static(route(all_ipv4(), DEFAULT_METRIC, NextHop::Unreachable));
    }

    /// The routers with a NAT.
    pub fn translators(&self) -> Vec<HostId> {
        let hosts = self.access.iter().map(|access| access.host);
        hosts.filter(|host| self.world.host(*host).nat.is_some()).collect()
    }

    /// The owner of a tunnel end behind any NAT: an address without port, if it is IPv4.
    pub fn origin(&self, end: Ipv6Addr) -> Ipv6Addr {
        let Some(Ipv4Endpoint { address, port }) = Ipv4Endpoint::from_ipv6(end) else { return end };
        let nats = self.access.iter().filter_map(|access| self.world.host(access.host).nat.as_ref());
        let owner = nats.filter(|nat| nat.public == address).find_map(|nat| nat.owner(port));
        owner.unwrap_or(address).to_ipv6_mapped()
    }
}
