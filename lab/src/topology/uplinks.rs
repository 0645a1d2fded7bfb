//! Access networks of several address families, for the uplinks of a vehicle: IPv6, IPv4, IPv4 behind a NAT, and IPv6
//! behind a firewall that passes UDP alone of the protocols that roam6 uses.

use super::nemo::{AccessNetwork, NemoNetwork, Vehicle};
use anyhow::{Context, Result};
use std::time::Duration;

/// What an access network offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv6.
    Ipv6,
    /// IPv4 with public addresses.
    Ipv4,
    /// IPv4 with private addresses behind a NAT. Both access networks assign the same ones.
    Nat,
    /// IPv6, but mobility headers, encapsulated packets and fragments are dropped.
    Ipv6Udp,
}

/// The home agent's IPv4 address, as its configuration and that of vehicles name it.
const HOME_AGENT_TABLE: &str = "\n[home_agent.ipv4]\naddress = \"192.0.2.1\"\nforce_udp = false\n";
/// First of a vehicle's own configuration.
pub(crate) const ROUTER_KEYS: &str = "home_agents_ipv4 = [\"192.0.2.1\"]\n";

/// A symmetric NAT: a mapping for each destination, from any port.
const NAT: &str =
    "table ip nat { chain out { type nat hook postrouting priority 100; oifname \"net0\" masquerade fully-random; }; }";
/// What a firewall drops that passes UDP alone of the protocols that roam6 uses.
const ALL_BUT_UDP: &str = "4, 41, 50, 135";

impl Family {
    /// All of them.
    pub(crate) const ALL: [Family; 4] = [Family::Ipv6, Family::Ipv4, Family::Nat, Family::Ipv6Udp];

    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Ipv6 => "IPv6",
            Family::Ipv4 => "IPv4",
            Family::Nat => "IPv4 behind NAT",
            Family::Ipv6Udp => "IPv6 UDP only",
        }
    }

    fn is_ipv4(self) -> bool {
        matches!(self, Family::Ipv4 | Family::Nat)
    }

    /// The first three octets and the offset of the addresses of access network `number`, and their prefix length.
    fn subnet(self, number: usize) -> (&'static str, usize, u8) {
        if self == Family::Nat { ("192.168.8", 0, 24) } else { ("203.0.113", 64 * number, 26) }
    }
}

/// Builds home, backbone, and access networks of these families. `delay` is the one-way delay to the home agent.
pub(crate) fn build(delay: Duration, vehicles: u8, families: [Family; 2]) -> Result<NemoNetwork> {
    build_with(delay, vehicles, families, "")
}

/// [`build`] with these keys of the home agent.
pub(crate) fn build_with(delay: Duration, vehicles: u8, families: [Family; 2], keys: &str) -> Result<NemoNetwork> {
    let mut network = NemoNetwork::build(delay, vehicles, &format!("{keys}{HOME_AGENT_TABLE}"))?;
    network.core.set_sysctl("ipv4/ip_forward", "1")?;
    network.core.ip(&["address add 192.0.2.2/24 dev ha0"])?;
    network.ha.ip(&["address add 192.0.2.1/24 dev net0", "route add default via 192.0.2.2"])?;
    for (number, family) in families.into_iter().enumerate() {
        let core = network.core.clone();
        let Some(access) = network.visited.get_mut(number) else { continue };
        if family.is_ipv4() {
            core.ip(&[&format!("address add 198.51.100.{}/28 dev ar{}", 16 * number + 1, number + 1)])?;
            offer_ipv4(access, family, number)?;
        }
        if family == Family::Ipv4 {
            let (net, offset, length) = family.subnet(number);
            let next = 16 * number + 2;
            core.ip(&[&format!("route add {net}.{offset}/{length} via 198.51.100.{next}")])?;
        }
        if family == Family::Ipv6Udp {
            drop_protocols(access, ALL_BUT_UDP)?;
        }
    }
    Ok(network)
}

/// Has the router of an access network drop forwarded IPv6 packets of these protocols, and fragments.
pub(crate) fn drop_protocols(access: &AccessNetwork, protocols: &str) -> Result<()> {
    let firewall = format!(
        "table ip6 firewall {{ chain passed {{ type filter hook forward priority 0; \
         meta l4proto {{ {protocols} }} drop; exthdr frag exists drop; }}; }}"
    );
    access.router.output("nft", &[&firewall]).map(drop)
}

/// Ends what [`drop_protocols`] began.
pub(crate) fn drop_nothing(access: &AccessNetwork) -> Result<()> {
    access.router.output("nft", &["delete table ip6 firewall"]).map(drop)
}

/// Replaces IPv6 by IPv4.
fn offer_ipv4(access: &mut AccessNetwork, family: Family, number: usize) -> Result<()> {
    access.stop_advertising();
    let (net, offset, length) = family.subnet(number);
    access.router.set_sysctl("ipv4/ip_forward", "1")?;
    access.router.ip(&[
        &format!("address add 198.51.100.{}/28 dev net0", 16 * number + 2),
        &format!("address add {net}.{}/{length} dev lan0", offset + 1),
        &format!("route add default via 198.51.100.{}", 16 * number + 1),
    ])?;
    if family == Family::Nat {
        access.router.output("nft", &[NAT]).context("the NAT")?;
    }
    Ok(())
}

/// Gives uplink `index` of vehicle `vehicle_number` the address and the route that a DHCP client would configure in access
/// network `index`.
pub(crate) fn configure(vehicle: &Vehicle, vehicle_number: u8, index: usize, family: Family) -> Result<()> {
    if !family.is_ipv4() {
        return Ok(());
    }
    let (net, offset, length) = family.subnet(index);
    let host = offset + 10 + usize::from(vehicle_number);
    vehicle.mr.ip(&[
        &format!("address add {net}.{host}/{length} dev up{index}"),
        &format!("route add default via {net}.{} dev up{index} metric {}", offset + 1, 100 + index),
    ])
}
