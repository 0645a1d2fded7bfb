//! Which interfaces of a host are uplinks of a mobile router, and which one leads into the mobile network.

use roam6_linux::survey::{Address, Interface, InterfaceKind, Route, WifiMode};
use roam6_wire::Prefix;

/// What a host has.
pub(crate) struct HostLinks {
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) routes: Vec<Route>,
}

impl HostLinks {
    /// Reads it from the kernel.
    pub(crate) fn read() -> Result<HostLinks, roam6_linux::Error> {
        use roam6_linux::survey::{addresses, interfaces, routes};
        Ok(HostLinks { interfaces: interfaces()?, addresses: addresses()?, routes: routes()? })
    }

    /// The metric of its best default route of either family.
    fn default_metric(&self, interface: &Interface) -> Option<u32> {
        let own = |route: &&Route| route.interface == Some(interface.index) && route.is_default();
        self.routes.iter().filter(own).map(|route| route.metric).min()
    }

    /// The interface of this name, if it leads anywhere.
    pub(crate) fn named(&self, name: &str) -> Option<&Interface> {
        let leads = |interface: &&Interface| interface.kind != InterfaceKind::Loopback && is_plain(name);
        self.interfaces.iter().filter(leads).find(|interface| interface.name == name)
    }

    /// Interfaces that may be uplinks or lead inside: no tunnels, no ports of bridges.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &Interface> {
        use InterfaceKind::*;
        self.interfaces.iter().filter(|interface| {
            let is_link = matches!(interface.kind, Ethernet | Wifi(_) | Modem | Bridge | Veth);
            is_link && interface.master.is_none() && !is_container(&interface.name) && is_plain(&interface.name)
        })
    }

    /// The interface that leads inside by its looks: a bridge, an access point, a name that says so, or else an Ethernet port
    /// with a private IPv4 address and without a default route.
    pub(crate) fn inside(&self) -> Option<&Interface> {
        let free = || self.usable().filter(|interface| self.default_metric(interface).is_none());
        let is = |kind: InterfaceKind| free().find(|interface| interface.kind == kind);
        let named = |interface: &&Interface| ["lan", "br"].iter().any(|begin| interface.name.starts_with(begin));
        let serves = |interface: &&Interface| {
            let is_port = matches!(interface.kind, InterfaceKind::Ethernet | InterfaceKind::Veth);
            is_port && self.has_private_ipv4(interface)
        };
        let made_for_it = is(InterfaceKind::Bridge).or_else(|| is(InterfaceKind::Wifi(WifiMode::AccessPoint)));
        made_for_it.or_else(|| free().find(named)).or_else(|| free().find(serves))
    }

    fn has_private_ipv4(&self, interface: &Interface) -> bool {
        let own = self.addresses.iter().filter(|address| address.interface == interface.index);
        own.into_iter().filter_map(|address| address.address.to_ipv4_mapped()).any(|address| address.is_private())
    }

    /// The uplinks, the preferred first: those with a default route by its metric, then Wi-Fi, Ethernet and modems.
    pub(crate) fn uplinks(&self) -> Vec<&Interface> {
        let inside = self.inside().map(|interface| interface.index);
        let suits = |interface: &&Interface| {
            let access_point = interface.kind == InterfaceKind::Wifi(WifiMode::AccessPoint);
            let leads_out = self.default_metric(interface).is_some();
            let inner = matches!(interface.kind, InterfaceKind::Bridge) || interface.name.starts_with("lan");
            Some(interface.index) != inside && !access_point && (leads_out || !inner)
        };
        let mut found: Vec<&Interface> = self.usable().filter(suits).collect();
        let kind = |interface: &Interface| match interface.kind {
            InterfaceKind::Wifi(_) => 0,
            InterfaceKind::Modem => 2,
            _ => 1_u8,
        };
        found.sort_by_key(|interface| {
            let metric = self.default_metric(interface);
            (metric.is_none(), metric, kind(interface), interface.index)
        });
        found
    }

    /// An interface in a few words.
    pub(crate) fn describe(&self, interface: &Interface) -> String {
        let kind = match interface.kind {
            InterfaceKind::Wifi(WifiMode::AccessPoint) => "Wi-Fi access point",
            InterfaceKind::Wifi(_) => "Wi-Fi",
            InterfaceKind::Modem => "cellular modem",
            InterfaceKind::Bridge => "bridge",
            InterfaceKind::Veth => "virtual Ethernet",
            _ => "Ethernet",
        };
        let state = match (interface.up, interface.carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let own = self.addresses.iter().filter(|address| address.interface == interface.index);
        let global = own.into_iter().filter(|address| !address.address.is_unicast_link_local());
        let shown = global.map(|held| match held.address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => held.address.to_string(),
        });
        let route = self.default_metric(interface).map(|_| "default route".to_owned());
        [kind.to_owned(), state.to_owned()].into_iter().chain(shown).chain(route).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a name can be shown and written into a file as it is; the kernel allows nearly everything.
fn is_plain(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.@".contains(letter))
}

/// Whether a program that runs containers or virtual machines has made it.
fn is_container(name: &str) -> bool {
    ["docker", "br-", "virbr", "veth", "cni", "podman", "lxc"].iter().any(|begin| name.starts_with(begin))
        && name != "br-lan"
}

/// The /64 that is advertised inside: the first of the mobile network; `None` if its prefixes are longer.
pub(crate) fn inside_prefix(prefixes: &[Prefix]) -> Option<Prefix> {
    let native = prefixes.iter().find(|prefix| !prefix.is_ipv4() && prefix.length() <= 64)?;
    Prefix::new(native.address(), 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_linux::survey::{RouteKind, RouteOrigin};
    use roam6_proto::contract::input::AddressState;
    use std::net::Ipv4Addr;

    fn interface(index: u32, name: &str, kind: InterfaceKind) -> Interface {
        Interface {
            index,
            name: name.to_owned(),
            kind,
            up: true,
            carrier: true,
            mtu: 1500,
            master: None,
            link_address: None,
        }
    }

    fn default_route(interface: u32, metric: u32, ipv4: bool) -> Route {
        Route {
            destination: if ipv4 { Prefix::ALL_IPV4 } else { Prefix::ALL },
            via: Some("fe80::1".parse().unwrap()),
            interface: Some(interface),
            metric,
            origin: RouteOrigin::RouterAdvertisement,
            kind: RouteKind::Unicast,
            table: 254,
            mtu: None,
        }
    }

    fn address(interface: u32, text: &str) -> Address {
        let address =
            text.parse::<Ipv4Addr>().map_or_else(|_| text.parse().unwrap(), |address| address.to_ipv6_mapped());
        Address { interface, address, prefix: Prefix::host(address), state: AddressState::Preferred }
    }

    fn names(found: &[&Interface]) -> Vec<String> {
        found.iter().map(|interface| interface.name.clone()).collect()
    }

    #[test]
    fn a_router_in_a_van() {
        use InterfaceKind::*;
        let lan1 = Interface { master: Some(9), ..interface(6, "lan1", Ethernet) };
        let eth1 = Interface { carrier: false, ..interface(3, "eth1", Ethernet) };
        let links = HostLinks {
            interfaces: vec![
                interface(1, "lo", Loopback),
                interface(2, "wlan0", Wifi(WifiMode::Client)),
                eth1,
                interface(4, "wwan0", Modem),
                interface(5, "wlan1", Wifi(WifiMode::AccessPoint)),
                lan1,
                interface(8, "nemo0", Tunnel),
                interface(9, "br-lan", Bridge),
                interface(10, "docker0", Bridge),
                interface(11, "veth12ab", Veth),
            ],
            addresses: vec![address(4, "10.64.3.9"), address(9, "192.168.1.1")],
            routes: vec![default_route(4, 700, true)],
        };
        assert_eq!(names(&links.uplinks()), ["wwan0", "wlan0", "eth1"]);
        assert_eq!(links.inside().unwrap().name, "br-lan", "before the access point");
        assert_eq!(links.describe(links.named("wwan0").unwrap()), "cellular modem, up, 10.64.3.9, default route");
        assert_eq!(links.describe(links.named("eth1").unwrap()), "Ethernet, no carrier");
        assert!(links.named("lo").is_none() && links.named("eth7").is_none());
    }

    #[test]
    fn other_hosts() {
        use InterfaceKind::*;
        let ports = vec![interface(2, "wlan0", Veth), interface(3, "lan0", Veth)];
        let van = HostLinks { interfaces: ports, addresses: Vec::new(), routes: vec![default_route(2, 1024, false)] };
        assert_eq!(
            (names(&van.uplinks()), van.inside().map(|link| &*link.name)),
            (vec!["wlan0".to_owned()], Some("lan0"))
        );

        let ports =
            vec![interface(2, "eth0", Ethernet), interface(3, "eth1", Ethernet), interface(4, "eth2", Ethernet)];
        let routes = vec![default_route(2, 1024, false), default_route(3, 100, true)];
        let board = HostLinks { interfaces: ports, addresses: vec![address(4, "192.168.7.1")], routes };
        assert_eq!(names(&board.uplinks()), ["eth1", "eth0"], "the better metric first");
        assert_eq!(board.inside().unwrap().name, "eth2");

        let ports = vec![interface(2, "wlan0", Wifi(WifiMode::Client)), interface(3, "enp3s0", Ethernet)];
        let routes = vec![default_route(2, 600, true)];
        let laptop = HostLinks { interfaces: ports, addresses: vec![address(2, "192.168.0.7")], routes };
        assert_eq!(names(&laptop.uplinks()), ["wlan0", "enp3s0"]);
        assert!(laptop.inside().is_none(), "a laptop has nothing inside");

        // A bridge with the default route is an uplink.
        let ports = vec![interface(2, "br0", Bridge)];
        let host = HostLinks { interfaces: ports, addresses: Vec::new(), routes: vec![default_route(2, 1, false)] };
        assert_eq!((names(&host.uplinks()), host.inside()), (vec!["br0".to_owned()], None));
    }

    #[test]
    fn the_first_subnet_is_inside() {
        let prefixes = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Prefix>>();
        let first = inside_prefix(&prefixes(&["10.0.0.0/24", "2001:db8:100:10::/60"]));
        assert_eq!(first, "2001:db8:100:10::/64".parse().ok());
        assert_eq!(inside_prefix(&prefixes(&["2001:db8::/80"])), None);
    }
}
