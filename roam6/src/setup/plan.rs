//! The configuration of a home agent that `roam6 setup` writes.

use super::allocate::next_free;
use roam6_wire::Prefix;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Length of a mobile network's prefix, where the pool has room: 16 subnets.
const USUAL_LENGTH: u8 = 60;

/// A home agent to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentPlan {
    /// Its address.
    pub(crate) address: Ipv6Addr,
    /// The home network, a virtual one.
    pub(crate) home: Prefix,
    /// What mobile networks get prefixes of.
    pub(crate) pool: Prefix,
    /// The length of these.
    pub(crate) length: u8,
    /// The link that has the pool itself as its on-link prefix, where that is not routed.
    pub(crate) shared: Option<SharedLink>,
    /// Its IPv4 address, and another one by which others reach it.
    pub(crate) ipv4: Option<(Ipv4Addr, Option<Ipv4Addr>)>,
}

/// The host's link, whose on-link prefix is that of one mobile network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedLink {
    /// Its /64.
    pub(crate) prefix: Prefix,
    /// The name of its interface.
    pub(crate) interface: String,
    /// The address of the router in the prefix, if it has one there.
    pub(crate) gateway: Option<Ipv6Addr>,
}

/// Home network and length of mobile networks in a routed prefix. A prefix that is no more than a /64 is for one mobile
/// network; its home network has unique local addresses (RFC 4193) with the global identifier `random`.
///
/// # Errors
/// The prefix does not suit.
pub(crate) fn divide(
    pool: Prefix,
    address: Ipv6Addr,
    (wanted, on_link): (Option<u8>, &[Prefix]),
    random: [u8; 5],
) -> Result<(Prefix, u8), String> {
    let is_global = pool.address().to_bits() >> 125 == 1 || pool.address().is_unique_local();
    if !is_global || !(16..=64).contains(&pool.length()) {
        return Err(format!("{pool} is no IPv6 prefix of 16 to 64 bits for hosts"));
    }
    if let Some(network) = on_link.iter().find(|network| network.covers(pool)) {
        return Err(format!(
            "{pool} is the network {network} that this host is on itself; mobile networks need another prefix"
        ));
    }
    let length = wanted.unwrap_or(if pool.length() == 64 { 64 } else { USUAL_LENGTH.max(pool.length() + 1) });
    if !(pool.length()..=64).contains(&length) {
        return Err(format!("a mobile network of {length} bits is not in {pool}: choose {} to 64", pool.length()));
    }
    if pool.length() == 64 {
        let [first, rest @ ..] = random;
        let id = rest.iter().fold(u128::from(first), |id, octet| id << 8 | u128::from(*octet));
        let home = Prefix::new(Ipv6Addr::from_bits(0xfd << 120 | id << 80), 64).ok_or("no unique local prefix")?;
        return Ok((home, length));
    }
    let mut taken: Vec<Prefix> = on_link.to_vec();
    taken.extend(Prefix::new(address, 64));
    let home = next_free(pool, 64, &taken).ok_or_else(|| format!("{pool} has no /64 for the home network"))?;
    taken.push(home);
    match next_free(pool, length, &taken) {
        Some(_) => Ok((home, length)),
        None => Err(format!("{pool} has no room for a mobile network of /{length} beside its home network {home}")),
    }
}

impl AgentPlan {
    /// The configuration file.
    pub(crate) fn config(&self) -> String {
        let AgentPlan { address, home, pool, length, shared, ipv4 } = self;
        let mut text = format!(
            "# Written by `roam6 setup`; `man roam6.toml` explains it.\n\n[home_agent]\naddress       = \"{address}\"\n\
             home_prefixes = [\"{home}\"]\nprefix_table  = \"{TABLE_FILE}\"\n\n\
             # `roam6 invite` takes the prefixes of mobile networks from it.\n\
             [home_agent.prefix_pool]\nprefix = \"{pool}\"\nlength = {length}\n"
        );
        if let Some(SharedLink { prefix, interface, gateway }) = shared {
            let _ = write!(
                text,
                "\n# The network of this host is that of the mobile router: nothing is routed here.\n[home_agent.shared_prefix]\n\
                 prefix = \"{prefix}\"\ninterface = \"{interface}\"\n"
            );
            if let Some(gateway) = gateway {
                let _ = writeln!(text, "gateway = \"{gateway}\"");
            }
        }
        if let Some((address, public)) = ipv4 {
            let _ = write!(text, "\n# For uplinks that have IPv4 only.\n[home_agent.ipv4]\naddress = \"{address}\"\n");
            if let Some(public) = public {
                let _ = writeln!(text, "public_address = \"{public}\"");
            }
        }
        text
    }
}

/// Name of the prefix table, beside the configuration.
pub(crate) const TABLE_FILE: &str = "mobiles.toml";

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn divided(pool: &str, wanted: Option<u8>) -> Result<(String, u8), String> {
        let (address, on_link) = ("2001:db8:f::1".parse().unwrap(), [prefix("2001:db8:f::/64")]);
        divide(prefix(pool), address, (wanted, &on_link), [1, 2, 3, 4, 5])
            .map(|(home, length)| (home.to_string(), length))
    }

    #[test]
    fn a_routed_prefix_has_a_home_network_and_mobile_networks() {
        let is = |home: &str, length| Ok((home.to_owned(), length));
        assert_eq!(divided("2001:db8:100::/56", None), is("2001:db8:100::/64", 60));
        assert_eq!(divided("2001:db8:100::/56", Some(64)), is("2001:db8:100::/64", 64));
        assert_eq!(divided("2001:db8:100::/62", None), is("2001:db8:100::/64", 63));
        assert_eq!(divided("2001:db8:100::/63", None), is("2001:db8:100::/64", 64));
        assert_eq!(divided("2001:db8:f::/48", None), is("2001:db8:f:1::/64", 60), "beside the host's own network");
        assert_eq!(divided("2001:db8:7::/64", None), is("fd01:203:405::/64", 64));
    }

    #[test]
    fn other_prefixes_are_refused() {
        for (pool, wanted) in [
            ("2001:db8:f::/64", None),
            ("2001:db8:100::/65", None),
            ("2000::/3", None),
            ("10.0.0.0/8", None),
            ("fe80::/16", None),
            ("ff00::/16", None),
            ("2001:db8:100::/56", Some(48)),
            ("2001:db8:100::/56", Some(56)),
            ("2001:db8:100::/56", Some(65)),
        ] {
            assert!(divided(pool, wanted).is_err(), "{pool} {wanted:?}");
        }
    }
}
