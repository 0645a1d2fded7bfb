//! What `roam6 setup` finds out about the host of a home agent: its address, its router, and which prefix is routed to it.

use super::plan::SharedLink;
use roam6_linux::probe::{EchoRequest, Hairpin, echo, hairpin};
use roam6_linux::survey::{Address, Interface, KernelFeatures, Route, RouteOrigin};
use roam6_linux::survey::{addresses, interfaces, kernel_features, neighbours, routes};
use roam6_proto::contract::input::AddressState;
use roam6_wire::{LinkAddress, Prefix};
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Lengths of prefixes that providers route, the shortest first.
const USUAL_LENGTHS: [u8; 3] = [48, 56, 64];

/// The host of a home agent.
pub(crate) struct AgentHost {
    /// Its operating system and kernel.
    system: String,
    features: KernelFeatures,
    addresses: Vec<Address>,
    /// The router of its default route.
    router: Option<Router>,
    /// The IPv4 address of its IPv4 default route.
    pub(crate) ipv4: Option<Ipv4Addr>,
}

/// The provider's router.
#[derive(Debug, Clone)]
struct Router {
    interface: u32,
    name: String,
    address: Option<Ipv6Addr>,
    by_advertisement: bool,
}

/// Where packets for a prefix come to, as far as can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// To this host.
    Routed,
    /// To this host if it answers for each address: on-link.
    OnLink,
    /// Nowhere, as a router says.
    NotRouted(Ipv6Addr),
    /// Not known.
    Unknown,
}

impl AgentHost {
    /// Looks at this host.
    ///
    /// # Errors
    /// The kernel's, if it refuses a dump.
    pub(crate) fn read() -> Result<AgentHost, roam6_linux::Error> {
        let (interfaces, addresses, routes) = (interfaces()?, addresses()?, routes()?);
        let router = router(&interfaces, &routes);
        let ipv4 = ipv4(&addresses, &routes);
        Ok(AgentHost { system: system(), features: kernel_features(), addresses, router, ipv4 })
    }

    /// The address of the home agent: of the interface with the default route, or else any; of several, a static one.
    pub(crate) fn address(&self) -> Option<Ipv6Addr> {
        let usable = |held: &&Address| {
            let is_global = held.address.to_bits() >> 125 == 1;
            is_global && matches!(held.state, AddressState::Preferred | AddressState::Tentative)
        };
        let link = self.router.as_ref().map(|router| router.interface);
        let rank = |held: &&Address| (Some(held.interface) != link, low_half(held.address));
        self.addresses.iter().filter(usable).min_by_key(rank).map(|held| held.address)
    }

    /// Whether the host has this address.
    pub(crate) fn has(&self, address: Ipv6Addr) -> bool {
        self.addresses.iter().any(|held| held.address == address)
    }

    /// The networks that the host is on.
    pub(crate) fn on_link(&self) -> impl Iterator<Item = Prefix> {
        let is_network = |held: &&Address| held.prefix.length() < 128 && held.address.to_ipv4_mapped().is_none();
        let global = |held: &&Address| !held.address.is_unicast_link_local() && !held.address.is_loopback();
        self.addresses.iter().filter(is_network).filter(global).map(|held| held.prefix)
    }

    /// The on-link /64 of the home agent's address, and its link: all of it can be one mobile network, but for this host and
    /// the router.
    pub(crate) fn shared_link(&self, own: Ipv6Addr) -> Option<SharedLink> {
        let router = self.router.as_ref()?;
        let on_link = |held: &&Address| held.address == own && held.interface == router.interface;
        let prefix = self.addresses.iter().find(on_link)?.prefix;
        let gateway = router.address.filter(|address| prefix.contains(*address));
        (prefix.length() == 64).then(|| SharedLink { prefix, interface: router.name.clone(), gateway })
    }

    /// The host in a line.
    pub(crate) fn describe(&self, address: Ipv6Addr) -> String {
        let KernelFeatures { btf, ip6_tunnel, .. } = self.features;
        let plane = match (btf && cfg!(feature = "bpf"), ip6_tunnel) {
            (true, _) => "BPF usable",
            (false, true) => "no BPF with type information, ip6_tunnel usable",
            (false, false) => "neither BPF with type information nor ip6_tunnel",
        };
        let router = self.router.as_ref().map_or_else(
            || "no IPv6 default route".to_owned(),
            |router| {
                let via = router.address.map(|address| format!(" via {address}")).unwrap_or_default();
                let how = if router.by_advertisement { " (router advertisement)" } else { "" };
                format!("default route{via} on {}{how}", router.name)
            },
        );
        let ipv4 = self.ipv4.map(|address| format!(" IPv4 {address}.")).unwrap_or_default();
        format!("This host: {}, {plane}. Address {address}, {router}.{ipv4}", self.system)
    }

    /// Whether it has a default route, without which it is unreachable.
    pub(crate) fn has_router(&self) -> bool {
        self.router.is_some()
    }

    /// The router, for people.
    pub(crate) fn router_name(&self) -> String {
        let address = self.router.as_ref().and_then(|router| router.address);
        address.map_or_else(|| "the provider's router".to_owned(), |address| address.to_string())
    }

    /// Asks the router where packets for a prefix go.
    pub(crate) fn delivery(&self, own: Ipv6Addr, prefix: Prefix) -> Delivery {
        let Some(router) = &self.router else { return Delivery::Unknown };
        let found = hairpin(router.interface, own, self.router_link_address(router), prefix);
        match found {
            Ok(Hairpin::Routed) => Delivery::Routed,
            Ok(Hairpin::OnLink) => Delivery::OnLink,
            Ok(Hairpin::NotRouted(from)) => Delivery::NotRouted(from),
            Ok(Hairpin::Unknown) | Err(_) => Delivery::Unknown,
        }
    }

    /// The link-layer address of the router, which a packet to it brings into the neighbour cache.
    fn router_link_address(&self, router: &Router) -> Option<LinkAddress> {
        let address = router.address?;
        let known = || {
            let all = neighbours(router.interface).unwrap_or_default();
            all.into_iter().find(|neighbour| neighbour.address == address).and_then(|neighbour| neighbour.link_address)
        };
        known().or_else(|| {
            echo(&EchoRequest { interface: Some(router.interface), ..EchoRequest::to(address) });
            known()
        })
    }

    /// The shortest prefix of usual length around one of the host's addresses that is routed to it, beyond the network of the
    /// address itself; two seconds.
    pub(crate) fn routed_prefix(&self, own: Ipv6Addr) -> Option<Prefix> {
        let networks: Vec<Prefix> = self.on_link().collect();
        let candidates: Vec<Prefix> = USUAL_LENGTHS
            .iter()
            .filter_map(|length| Prefix::new(own, *length))
            .filter(|prefix| !networks.iter().any(|network| network.covers(*prefix)))
            .collect();
        std::thread::scope(|scope| {
            let asked: Vec<_> =
                candidates.iter().map(|prefix| (prefix, scope.spawn(|| self.delivery(own, *prefix)))).collect();
            let answered = asked.into_iter().map(|(prefix, asked)| (*prefix, asked.join()));
            // All are awaited, the first one counts.
            let routed: Vec<Prefix> =
                answered.filter(|(_, found)| matches!(found, Ok(Delivery::Routed))).map(|(prefix, _)| prefix).collect();
            routed.first().copied()
        })
    }
}

fn low_half(address: Ipv6Addr) -> u128 {
    address.to_bits() & u128::from(u64::MAX)
}

fn router(interfaces: &[Interface], routes: &[Route]) -> Option<Router> {
    let ipv6 = routes.iter().filter(|route| route.is_default() && route.destination == Prefix::ALL);
    let best = ipv6.min_by_key(|route| route.metric)?;
    let interface = interfaces.iter().find(|interface| Some(interface.index) == best.interface)?;
    Some(Router {
        interface: interface.index,
        name: interface.name.clone(),
        address: best.via,
        by_advertisement: best.origin == RouteOrigin::RouterAdvertisement,
    })
}

fn ipv4(addresses: &[Address], routes: &[Route]) -> Option<Ipv4Addr> {
    let ipv4 = routes.iter().filter(|route| route.is_default() && route.destination.is_ipv4());
    let interface = ipv4.min_by_key(|route| route.metric)?.interface?;
    let own = addresses.iter().filter(|held| held.interface == interface);
    own.into_iter().find_map(|held| held.address.to_ipv4_mapped())
}

/// Names of the distribution and of the kernel.
fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux").trim_matches('"');
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, kernel {}", name.escape_debug(), kernel.trim())
}
