//! What other programs of this host do that is in the way of an uplink, in words for the operator.

use super::Host;
use crate::netlink::route::{Ipv4Route, dump_ipv4};
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::Netlink;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use roam6_proto::LinkId;
use std::fs;
use std::net::Ipv4Addr;

/// The port of DHCPv6 clients (RFC 8415 §7.2).
const DHCP_CLIENT: u16 = 546;

impl Host {
    /// What other programs do in the way of an uplink. `home_agents` are those that are reached over IPv4.
    pub fn hints(&mut self, interface: &str, home_agents: &[Ipv4Addr]) -> Vec<String> {
        let named = self.links.values().find(|event| event.name == interface && event.up);
        let Some(link) = named.map(|event| event.link) else { return Vec::new() };
        let mut hints = Vec::new();
        if ipv6_is_disabled(interface) {
            hints.push(format!(
                "another program has disabled IPv6 here: sysctl -w net.ipv6.conf.{interface}.disable_ipv6=0"
            ));
        }
        if self.executor.is_udp_port_taken(link, DHCP_CLIENT) {
            let text = "another DHCPv6 client runs here (UDP port 546): let it leave IPv6 of this interface to roam6";
            hints.push(text.to_owned());
        }
        hints.extend(self.executor.contested_sysctls(interface, self.clock.now()));
        let has_ipv4 = self.addresses.iter().any(|(address, on)| *on == link && address.to_ipv4_mapped().is_some());
        if has_ipv4 && !home_agents.is_empty() && has_neighbours(interface) {
            hints.extend(missing_ipv4_route(link, home_agents));
        }
        hints
    }
}

/// What is wrong with the IPv4 routes by an interface to the home agents.
fn missing_ipv4_route(link: LinkId, home_agents: &[Ipv4Addr]) -> Option<String> {
    let routes = Netlink::open().ok()?.dump(dump_ipv4()).ok()?;
    let routes = routes.iter().filter_map(|message| match message {
        RtnlMessage::NewRoute(route) => Ipv4Route::read(route),
        _ => None,
    });
    let routes: Vec<Ipv4Route> = routes.filter(|route| route.leads_to(link)).collect();
    home_agents.iter().find_map(|home_agent| missing_route(&routes, *home_agent))
}

/// What is wrong with these routes by one interface, if packets to `home_agent` cannot take any of them.
fn missing_route(routes: &[Ipv4Route], home_agent: Ipv4Addr) -> Option<String> {
    let leading = |route: &&Ipv4Route| route.destination.contains(home_agent.to_ipv6_mapped());
    let leading: Vec<&Ipv4Route> = routes.iter().filter(leading).collect();
    if leading.iter().any(|route| route.in_main_table) {
        return None;
    }
    Some(match leading.first() {
        None => format!("no IPv4 route to the home agent {home_agent} by this interface: its DHCP client must add one"),
        Some(other) => format!(
            "the IPv4 route to the home agent {home_agent} by this interface is in table {} only: add it to the main table too",
            other.table
        ),
    })
}

/// Whether the kernel has no IPv6 on an interface, as with a profile of NetworkManager that says so.
fn ipv6_is_disabled(interface: &str) -> bool {
    let value = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"));
    value.is_ok_and(|value| value.trim() != "0")
}

/// Whether packets need a router's link-layer address on an interface.
fn has_neighbours(interface: &str) -> bool {
    let Ok(mut all) = getifaddrs() else { return false };
    let without = InterfaceFlags::IFF_POINTOPOINT | InterfaceFlags::IFF_NOARP;
    all.any(|known| known.interface_name == interface && !known.flags.intersects(without))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_to_the_home_agent_are_found_in_the_main_table_only() {
        let route = |destination: &str, table: u32| Ipv4Route {
            destination: destination.parse().unwrap(),
            table,
            in_main_table: table == 254,
            links: vec![LinkId(2)],
        };
        let home_agent = Ipv4Addr::new(203, 0, 113, 1);
        let says = |routes: &[Ipv4Route]| missing_route(routes, home_agent).unwrap_or_default();
        assert!(says(&[]).starts_with("no IPv4 route to the home agent 203.0.113.1"));
        assert!(says(&[route("10.0.0.0/24", 254)]).starts_with("no IPv4 route"), "of the link itself");
        assert!(says(&[route("0.0.0.0/0", 100)]).contains(" in table 100 only"));
        for enough in ["0.0.0.0/0", "128.0.0.0/1", "203.0.113.0/24"] {
            assert_eq!(says(&[route("0.0.0.0/0", 100), route(enough, 254)]), "", "{enough}");
        }
    }
}
