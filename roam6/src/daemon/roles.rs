//! Host options for the roles of a configuration.

#[cfg(feature = "geo-security")]
use crate::config::geo_tickets;
use crate::config::{Accel, Config, DataPlane, Firewall};
use crate::exit::Failure;
use core::time::Duration;
use roam6_linux::firewall::Policy;
#[cfg(feature = "fleet")]
use roam6_linux::fleet::FleetOptions;
use roam6_linux::wireguard::{self, Encryption, PublicKeys};
use roam6_linux::{Backend, HostOptions};
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::nemo::{Authentication, MobileRouterConfig, Transport, UplinkConfig};
use roam6_wire::Bid;
use std::net::Ipv6Addr;

/// Name of the tunnel device.
const TUNNEL_DEVICE: &str = "nemo0";
/// Tunnels in addition to those of a home agent's bindings: a mobile router's own, and those being replaced.
const EXTRA_TUNNELS: u32 = 64;

/// The interfaces that the roles use.
pub(super) fn interfaces(config: &Config) -> VecSet<String> {
    let home_link = config.home_agent.iter().filter_map(|agent| agent.config.home_link.clone());
    let shared = config.home_agent.iter().filter_map(|agent| agent.config.shared_prefix.as_ref());
    let shared = shared.map(|shared| shared.interface.clone());
    let router = config.mobile_router.iter();
    let uplinks = router.clone().flat_map(|router| router.uplinks.iter().map(|uplink| uplink.interface.clone()));
    let ingress = router.flat_map(|router| router.ingress.iter().map(|ingress| ingress.interface.clone()));
    let paths = config.mnn.iter().flat_map(|mnn| mnn.interfaces.iter().cloned());
    let providers = config.shim.iter().flat_map(|shim| shim.interfaces.iter().cloned());
    let radios = config.geo.iter().flat_map(|geo| geo.config.interfaces.iter().cloned());
    let virtual_links = config.geo.iter().flat_map(|geo| geo.config.link_names());
    let nearby = config.mnpp.iter().flat_map(|mnpp| mnpp.interfaces.iter().cloned());
    let moving = home_link.chain(shared).chain(uplinks).chain(ingress);
    moving.chain(paths).chain(providers).chain(radios).chain(virtual_links).chain(nearby).collect()
}

/// The names of the roles, for the log.
pub(super) fn describe(config: &Config) -> String {
    let agent = config.home_agent.as_ref().map(|agent| format!("home agent {}", agent.config.address));
    let router = config.mobile_router.as_ref().map(|router| format!("mobile router {}", router.home_address));
    let names = |interfaces: &VecSet<String>| interfaces.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
    let mnn = config.mnn.as_ref().map(|mnn| format!("mobile network node on {}", names(&mnn.interfaces)));
    let shim = config.shim.as_ref().map(|shim| format!("shim on {}", names(&shim.interfaces)));
    let geo = config.geo.as_ref().map(|geo| &geo.config);
    let geo = geo.map(|geo| format!("GeoNetworking {} on {}", geo.station, names(&geo.interfaces)));
    let mnpp = config.mnpp.as_ref().map(|mnpp| format!("MNPP on {}", names(&mnpp.interfaces)));
    agent.into_iter().chain(router).chain(mnn).chain(shim).chain(geo).chain(mnpp).collect::<Vec<_>>().join(", ")
}

/// Whether mobility messages may arrive in ESP.
pub(super) fn uses_esp(config: &Config) -> bool {
    let rows =
        config.home_agent.iter().flat_map(|agent| agent.config.prefix_table.rows.iter().map(|row| &row.authentication));
    let router = config.mobile_router.iter().map(|router| &router.authentication);
    rows.chain(router).any(|authentication| matches!(authentication, Authentication::Ipsec(_)))
}

/// Addresses of the roles in UDP/IPv4 encapsulation (RFC 5555); empty unless the configuration enables it.
fn udp_encap_addresses(config: &Config) -> VecSet<Ipv6Addr> {
    let agent = config.home_agent.iter().filter(|agent| agent.config.ipv4.is_some()).map(|agent| agent.config.address);
    let router = config.mobile_router.iter().filter(|router| !router.home_agents_ipv4.is_empty());
    agent.chain(router.map(|router| router.home_address.0)).collect()
}

/// Addresses of the roles in UDP over IPv6; empty unless the configuration enables it.
fn udp6_addresses(config: &Config) -> VecSet<Ipv6Addr> {
    let agent = config.home_agent.iter().filter(|agent| agent.config.udp6).map(|agent| agent.config.address);
    let may_change = |uplink: &UplinkConfig| uplink.transport != Transport::Native;
    let router = config.mobile_router.iter().filter(|router| router.uplinks.iter().any(may_change));
    agent.chain(router.map(|router| router.home_address.0)).collect()
}

/// Takes replicated flows out of a configuration for a data plane without replication, which may be known only now
/// (`data_plane = "auto"`): the other end would send copies that nobody eliminates. Returns what to tell the operator.
pub(super) fn without_replication(config: &mut Config) -> Option<&'static str> {
    if let Some(agent) = &mut config.home_agent {
        agent.config.replication = false;
    }
    let flows = &mut config.mobile_router.as_mut()?.flows;
    let before = flows.iter().filter(|rule| rule.replication.is_some()).count();
    flows.retain(|rule| rule.replication.is_none() || rule.bid != Bid(0));
    flows.iter_mut().for_each(|rule| rule.replication = None);
    (before > 0).then_some(
        "the kernel's tunnel device is used, which sends no packet twice: flows with duplicate = 2 leave by one uplink; \
         data_plane = \"bpf\" says why BPF cannot be used",
    )
}

/// Whether paths are encrypted. A mobile router that encrypts does so always.
fn encryption(config: &Config) -> Encryption {
    let agent = config.home_agent.as_ref().and_then(|agent| agent.config.encryption.as_deref());
    let router = config.mobile_router.as_ref().and_then(|router| router.encryption.as_ref());
    match (agent, router) {
        (None, None) => Encryption::Off,
        (Some(agent), None) if !agent.required => Encryption::Offered,
        // The tunnels of the other role are unencrypted.
        (None, Some(_)) if config.home_agent.is_some() => Encryption::Offered,
        (Some(agent), Some(_)) if !agent.required => Encryption::Offered,
        (Some(_), None) if config.mobile_router.is_some() => Encryption::Offered,
        _ => Encryption::Required,
    }
}

/// Gives the roles the public keys of this host, whose private ones are made at the first start.
///
/// # Errors
/// They cannot be read or written, or the kernel has no WireGuard.
pub(super) fn take_keys(config: &mut Config) -> Result<Option<PublicKeys>, Failure> {
    if encryption(config) == Encryption::Off {
        return Ok(None);
    }
    let keys = wireguard::load_or_create(&config.state_dir).and_then(|keys| wireguard::public_keys(&keys))?;
    set_keys(config, &keys);
    Ok(Some(keys))
}

/// Gives the roles that encrypt these keys.
pub(super) fn set_keys(config: &mut Config, keys: &PublicKeys) {
    let agent = config.home_agent.as_mut().and_then(|agent| agent.config.encryption.as_deref_mut());
    let router = config.mobile_router.as_mut().and_then(|router| router.encryption.as_mut());
    for settings in agent.into_iter().chain(router) {
        settings.keys.clone_from(&keys.keys);
        settings.former.clone_from(&keys.former);
        settings.renewals = keys.renewals();
    }
}

/// The store of the fleet, with what tells the keys that all members have to have.
#[cfg(feature = "fleet")]
fn fleet_options(config: &Config) -> Option<FleetOptions> {
    let mut options = config.fleet.as_ref()?.host_options(&config.state_dir)?;
    let own = config.home_agent.as_ref().and_then(|agent| agent.config.encryption.as_ref());
    options.store.encryption = own.and_then(|own| own.fingerprint());
    Some(options)
}

/// Keeps the encryption of a running daemon, keys included: changing it needs a restart.
pub(super) fn keep_encryption(old: &Config, new: &mut Config) {
    if let (Some(old), Some(new)) = (&old.home_agent, &mut new.home_agent) {
        new.config.encryption.clone_from(&old.config.encryption);
    }
    if let (Some(old), Some(new)) = (&old.mobile_router, &mut new.mobile_router) {
        keep_router_encryption(old, new);
    }
}

/// A file without `encrypt` may have what encryption excludes, such as a home link or connections over all uplinks: nothing of it
/// applies before the restart.
fn keep_router_encryption(old: &MobileRouterConfig, new: &mut MobileRouterConfig) {
    match new.encryption.is_none() && old.encryption.is_some() {
        true => new.clone_from(old),
        false => new.encryption.clone_from(&old.encryption),
    }
}

/// The options of the host for these roles.
pub(super) fn host_options(config: &Config) -> HostOptions {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let bindings = config.home_agent.as_ref().map_or(0, |agent| agent.config.max_bindings);
    HostOptions {
        run_dir: config.run_dir.clone(),
        state_dir: config.state_dir.clone(),
        interfaces: interfaces(config),
        backend: match config.data_plane {
            _ if config.home_agent.is_none() && config.mobile_router.is_none() => Backend::None,
            DataPlane::Auto | DataPlane::Bpf if config.accel == Accel::Xdp => Backend::Xdp,
            DataPlane::Auto => Backend::Auto,
            DataPlane::Bpf => Backend::Bpf,
            DataPlane::Ip6tnl => Backend::Ip6tnl,
        },
        firewall: match config.firewall {
            Firewall::Obey => Policy::Obey,
            Firewall::Bypass => Policy::Bypass,
        },
        #[cfg(feature = "geo-security")]
        signing_keys: config.geo.as_ref().map(|geo| geo_tickets::signing_keys(&geo.keys)).unwrap_or_default(),
        #[cfg(feature = "fleet")]
        fleet: fleet_options(config),
        device: TUNNEL_DEVICE.to_owned(),
        dsmip_addresses: udp_encap_addresses(config),
        udp6_addresses: udp6_addresses(config),
        encryption: encryption(config),
        bonding: config.bonds(),
        max_tunnels: number(bindings).saturating_add(EXTRA_TUNNELS),
        max_contexts: config.shim.as_ref().map_or(0, |shim| number(shim.max_contexts)),
        busy_poll: config.geo.as_ref().map_or(Duration::ZERO, |geo| geo.busy_poll),
        cpu_latency_hold: config.geo.as_ref().map_or(Duration::ZERO, |geo| geo.awake),
        // A home agent refuses the addresses of its own host as care-of addresses, and assigns its anycast address.
        all_addresses: config.home_agent.is_some(),
        packet_sockets: config.home_agent.is_some()
            || config.mobile_router.is_some()
            || config.mnn.is_some()
            || config.mnpp.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::config::nemo::{self, HomeNetwork};

    #[test]
    fn encryption_stays_with_all_that_it_excludes_until_the_restart() {
        let of = |home_network, renewals: Option<u64>| {
            let encryption = renewals.map(|renewals| nemo::Encryption { renewals, ..Default::default() });
            MobileRouterConfig { home_network, encryption, ..Default::default() }
        };
        let kept = |old: &MobileRouterConfig, mut new: MobileRouterConfig| {
            keep_router_encryption(old, &mut new);
            (new.home_network, new.encryption.map(|encryption| encryption.renewals))
        };
        let (encrypted, plain) = (of(HomeNetwork::Virtual, Some(7)), of(HomeNetwork::Physical, None));
        assert_eq!(
            kept(&encrypted, plain.clone()),
            (HomeNetwork::Virtual, Some(7)),
            "a home link would be unencrypted"
        );
        assert_eq!(kept(&encrypted, of(HomeNetwork::Virtual, Some(0))), (HomeNetwork::Virtual, Some(7)), "its keys");
        assert_eq!(kept(&plain, of(HomeNetwork::Virtual, Some(0))), (HomeNetwork::Virtual, None));
    }
}
