//! Checks of a configuration against this host, by `roam6 check` and at the start of the daemon. They yield warnings, because
//! addresses and interfaces may appear later.

use crate::config::Config;
use roam6_linux::survey::{self, Address, Interface, InterfaceKind};
use roam6_proto::contract::config::nemo::{HomeAgentConfig, MobileRouterConfig};
use roam6_wire::Prefix;
use std::fs::OpenOptions;

/// What the configuration needs and this host lacks, each with a remedy.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let interfaces = survey::interfaces().unwrap_or_default();
    let mut warnings = Vec::new();
    if let Some(agent) = &config.home_agent {
        let addresses = survey::addresses().unwrap_or_default();
        warnings.extend(home_agent_warnings(&agent.config, &addresses, &interfaces));
        warnings.extend(forwarding_warning());
    }
    let invited =
        config.mobile_router.as_ref().is_some_and(|router| router.invitation.is_some() && !router.key_exchange)
            || config.home_agent.as_ref().is_some_and(|agent| {
                !agent.config.key_exchange && agent.config.prefix_table.rows.iter().any(|row| row.invitation.is_some())
            });
    if invited {
        warnings.push(format!(
            "state_dir {} is in memory: keys of invitations are not exchanged, and end with them; name a folder on a disk",
            config.state_dir.display()
        ));
    }
    warnings.extend(config.mobile_router.as_ref().and_then(shared_invitation));
    for (role, interface) in roles(config).into_iter().filter(|(_, name)| !is_there(&interfaces, name)) {
        warnings.push(format!("{role} {interface}: no such interface at present; `ip link` lists the interfaces"));
    }
    warnings
}

/// Each home agent would exchange the key of an invitation for another one.
fn shared_invitation(router: &MobileRouterConfig) -> Option<String> {
    let agents = router.home_agents.len();
    (router.invitation.is_some() && agents > 1).then(|| {
        format!(
            "[mobile_router] the key of an invitation is exchanged with one home agent, and {agents} are named: it stays as it \
             is, and ends when the invitation expires; name one home agent, or use a key of `roam6 enroll`"
        )
    })
}

/// The mobile router's interfaces with their roles.
fn roles(config: &Config) -> Vec<(&str, &str)> {
    let router = config.mobile_router.iter();
    let uplinks = router.clone().flat_map(|router| router.uplinks.iter().map(|uplink| ("uplink", &*uplink.interface)));
    let ingress = router.flat_map(|router| router.ingress.iter().map(|ingress| ("ingress", &*ingress.interface)));
    uplinks.chain(ingress).collect()
}

fn is_there(interfaces: &[Interface], name: &str) -> bool {
    interfaces.iter().any(|interface| interface.name == name)
}

fn home_agent_warnings(
    config: &HomeAgentConfig,
    addresses: &[Address],
    interfaces: &[Interface],
) -> impl Iterator<Item = String> {
    let HomeAgentConfig { address, home_link, prefix_table: table, .. } = config;
    let absent = addresses.iter().all(|held| held.address != *address).then(|| {
        let (length, link) = home_link.as_ref().map_or((128, "lo"), |link| (64, link));
        format!("[home_agent] address {address} is not configured on any interface; run: ip address add {address}/{length} dev {link}")
    });
    let unknown = home_link.as_ref().filter(|link| !is_there(interfaces, link)).map(|link| {
        format!("[home_agent] home_link \"{link}\": no such interface at present; `ip link` lists the interfaces")
    });
    let on_link = on_link_home(config, addresses, interfaces).map(|(home, interface)| {
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

/// The home prefix, if any, that is on-link at an interface, while no home link is configured where home addresses would be
/// defended.
pub(crate) fn on_link_home<'a>(
    config: &HomeAgentConfig,
    addresses: &[Address],
    interfaces: &'a [Interface],
) -> Option<(Prefix, &'a str)> {
    let held = addresses.iter().filter(|held| config.home_link.is_none() && held.prefix.length() < 128);
    held.into_iter().find_map(|held| {
        let home = config.home_prefixes.iter().find(|home| home.contains(held.address))?;
        let interface = interfaces.iter().find(|one| one.index == held.interface)?;
        let real = !matches!(interface.kind, InterfaceKind::Loopback | InterfaceKind::Tunnel);
        real.then_some((*home, interface.name.as_str()))
    })
}

/// Where sysctl settings are read-only, as in some containers, forwarding must already be enabled.
fn forwarding_warning() -> Option<String> {
    const SETTING: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
    let off = survey::sysctl("net.ipv6.conf.all.forwarding").is_some_and(|value| value == "0");
    let opened = OpenOptions::new().write(true).open(SETTING);
    let refused = opened.err().filter(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem)?;
    let hint = "run on the host of this container: sysctl -w net.ipv6.conf.all.forwarding=1";
    off.then(|| format!("[home_agent] IPv6 forwarding is disabled and cannot be enabled here ({refused}); {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use roam6_proto::contract::config::nemo::InvitationId;
    use roam6_proto::contract::input::AddressState;

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
        let interface = |index, name: &str, kind| {
            let name = name.to_owned();
            Interface { index, name, kind, up: true, carrier: true, mtu: 1500, master: None, link_address: None }
        };
        let interfaces = [interface(1, "lo", InterfaceKind::Loopback), interface(2, "eth0", InterfaceKind::Ethernet)];
        let held = |interface, address: &str, prefix: &str| Address {
            interface,
            address: address.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
            state: AddressState::Preferred,
        };
        let addresses = [held(2, "2001:db8:1::1", "2001:db8:1::/64"), held(1, "::1", "::1/128")];
        home_agent_warnings(&config(address, home_link), &addresses, &interfaces).collect()
    }

    #[test]
    fn invitation_with_several_home_agents_is_warned_of() {
        let mut router = MobileRouterConfig { invitation: Some(InvitationId([1; 8])), ..Default::default() };
        for (agent, warned) in [(1, false), (2, true)] {
            router.home_agents.push(std::net::Ipv6Addr::from(agent));
            assert_eq!(shared_invitation(&router).is_some(), warned, "{agent}");
        }
        router.invitation = None;
        assert_eq!(shared_invitation(&router), None);
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
