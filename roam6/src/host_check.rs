//! Checks of a configuration against this host, by `roam6 check` and at the start of the daemon. They yield warnings, because
//! addresses and interfaces may appear later.

use crate::config::Config;
use nix::net::if_::if_nametoindex;
use roam6_proto::contract::config::nemo::HomeAgentConfig;
use roam6_wire::Prefix;
use std::fs::{self, OpenOptions};
use std::net::Ipv6Addr;

/// An IPv6 address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostAddress {
    address: Ipv6Addr,
    length: u8,
    interface: String,
}

/// What the configuration needs and this host lacks, each with a remedy.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let addresses = read_addresses(&fs::read_to_string("/proc/net/if_inet6").unwrap_or_default());
    // Not by /sys, which shows the interfaces of the network namespace it was mounted in.
    let is_there = |interface: &str| if_nametoindex(interface).is_ok();
    let mut warnings = Vec::new();
    if let Some(agent) = &config.home_agent {
        warnings.extend(home_agent_warnings(&agent.config, &addresses, is_there));
        warnings.extend(forwarding_warning());
    }
    for (role, interface) in interfaces(config).into_iter().filter(|(_, interface)| !is_there(interface)) {
        warnings.push(format!("{role} {interface}: no such interface at present; `ip link` lists the interfaces"));
    }
    warnings
}

/// The mobile router's interfaces with their roles.
fn interfaces(config: &Config) -> Vec<(&str, &str)> {
    let router = config.mobile_router.iter();
    let uplinks = router.clone().flat_map(|router| router.uplinks.iter().map(|uplink| ("uplink", &*uplink.interface)));
    let ingress = router.flat_map(|router| router.ingress.iter().map(|ingress| ("ingress", &*ingress.interface)));
    uplinks.chain(ingress).collect()
}

fn home_agent_warnings(
    config: &HomeAgentConfig,
    addresses: &[HostAddress],
    is_there: impl Fn(&str) -> bool,
) -> impl Iterator<Item = String> {
    let HomeAgentConfig { address, home_prefixes, home_link, prefix_table: table, .. } = config;
    let absent = addresses.iter().all(|held| held.address != *address).then(|| {
        let (length, link) = home_link.as_ref().map_or((128, "lo"), |link| (64, link));
        format!("[home_agent] address {address} is not configured on any interface; run: ip address add {address}/{length} dev {link}")
    });
    let unknown = home_link.as_ref().filter(|link| !is_there(link)).map(|link| {
        format!("[home_agent] home_link \"{link}\": no such interface at present; `ip link` lists the interfaces")
    });
    let on_link =
        home_link.is_none().then(|| home_prefixes.iter().find_map(|home| link_of_prefix(*home, addresses))).flatten();
    let on_link = on_link.map(|(home, interface)| {
        format!(
            "[home_agent] home prefix {home} is on-link at {interface}: write home_link = \"{interface}\", or neighbour \
             discovery for home addresses will fail there"
        )
    });
    let empty = table.rows.is_empty().then(|| {
        "[home_agent] the prefix table has no rows, so no mobile router can register; add them with `roam6 enroll`"
            .to_owned()
    });
    [absent, unknown, on_link, empty].into_iter().flatten()
}

/// The interface with an address in `home`, if any.
fn link_of_prefix(home: Prefix, addresses: &[HostAddress]) -> Option<(Prefix, &str)> {
    let real = |held: &&HostAddress| held.length < 128 && held.interface != "lo" && !held.interface.starts_with("nemo");
    let found = addresses.iter().filter(real).find(|held| home.contains(held.address))?;
    Some((home, &found.interface))
}

/// Where sysctl settings are read-only, as in some containers, forwarding must already be enabled.
fn forwarding_warning() -> Option<String> {
    const SETTING: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
    let off = fs::read_to_string(SETTING).is_ok_and(|value| value.trim() == "0");
    let opened = OpenOptions::new().write(true).open(SETTING);
    let refused = opened.err().filter(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem)?;
    let hint = "run on the host of this container: sysctl -w net.ipv6.conf.all.forwarding=1";
    off.then(|| format!("[home_agent] IPv6 forwarding is disabled and cannot be enabled here ({refused}); {hint}"))
}

/// Parses `/proc/net/if_inet6`: address, index, prefix length, scope, flags and name of the interface.
fn read_addresses(text: &str) -> Vec<HostAddress> {
    let read = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, length, _, _, interface] = *fields.as_slice() else { return None };
        Some(HostAddress {
            address: Ipv6Addr::from_bits(u128::from_str_radix(address, 16).ok()?),
            length: u8::from_str_radix(length, 16).ok()?,
            interface: interface.to_owned(),
        })
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const ADDRESSES: &str = "\
20010db8000100000000000000000001 02 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
";

    fn config(address: &str, home_link: Option<&str>) -> HomeAgentConfig {
        HomeAgentConfig {
            address: address.parse().unwrap(),
            home_prefixes: vec!["2001:db8:1::/64".parse().unwrap()],
            home_link: home_link.map(str::to_owned),
            max_lifetime: Duration::from_secs(600),
            max_bindings: 10,
            ..Default::default()
        }
    }

    fn warn(address: &str, home_link: Option<&str>) -> Vec<String> {
        home_agent_warnings(&config(address, home_link), &read_addresses(ADDRESSES), |name| name == "eth0").collect()
    }

    #[test]
    fn missing_home_agent_address_and_link_are_warned_of() {
        let [on_link, empty] = &warn("2001:db8:1::1", None)[..] else { panic!() };
        assert!(on_link.contains("write home_link = \"eth0\""), "{on_link}");
        assert!(empty.contains("roam6 enroll"), "{empty}");
        assert_eq!(warn("2001:db8:1::1", Some("eth0")).len(), 1, "nothing but the rows is missing");
        let [absent, unknown, _] = &warn("2001:db8:1::2", Some("ehh0"))[..] else { panic!() };
        assert!(absent.ends_with("run: ip address add 2001:db8:1::2/64 dev ehh0"), "{absent}");
        assert!(unknown.contains("home_link \"ehh0\": no such interface"), "{unknown}");
    }
}
