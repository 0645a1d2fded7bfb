//! Base chains of nftables, which `iptables-nft`, ufw and firewalld make too, the chain of forwarded packets of the legacy
//! ip6tables, and what their tables name: enough to see whether a chain that drops the rest has a rule for certain interfaces
//! or prefixes at all. What the rules decide is not computed. Messages and attributes are those of
//! linux/netfilter/nf_tables.h.

use crate::error::Error;
use crate::nft::dump::{self, Rule, Set};
use crate::nft::iptables_legacy;
use nix::libc;
use nix::net::if_::if_nametoindex;
use roam6_wire::Prefix;

/// Where a base chain sees packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainHook {
    /// Packets for this host.
    Input,
    /// Packets that this host forwards.
    Forward,
    /// Packets that this host sends.
    Output,
}

/// The family of a chain of the legacy ip6tables.
pub const LEGACY: &str = "ip6tables";

/// A base chain of another program, for packets of IPv6, IPv4 or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseChain {
    /// Its family, as nft(8) names it: `inet`, `ip6` or `ip`; [`LEGACY`] for one of the legacy ip6tables.
    pub family: &'static str,
    /// Its table.
    pub table: String,
    /// Its name.
    pub chain: String,
    /// Where it sees packets.
    pub hook: ChainHook,
    /// Whether it drops or rejects what no rule accepts: by its policy, or by a rule without a condition.
    pub drops: bool,
    /// What the rules and sets of its table compare packets with.
    compared: Vec<Vec<u8>>,
}

impl BaseChain {
    /// Whether it sees IPv6 packets.
    pub fn is_for_ipv6(&self) -> bool {
        self.family != "ip"
    }

    /// Whether a rule or set of its table names this interface: by name, by the beginning of the name, or by index.
    pub fn names_interface(&self, interface: &str) -> bool {
        let index = if_nametoindex(interface).ok().map(u32::to_ne_bytes);
        self.compared.iter().any(|value| {
            let text = value.split(|octet| *octet == 0).next().unwrap_or_default();
            let ended = value.len() > text.len();
            let by_name = if ended { text == interface.as_bytes() } else { interface.as_bytes().starts_with(text) };
            (by_name && !text.is_empty()) || index.is_some_and(|index| value == &index)
        })
    }

    /// Whether a rule or set of its table names an address of this prefix, or a prefix that covers it.
    pub fn names_prefix(&self, prefix: Prefix) -> bool {
        let address = prefix.address().octets();
        // nft(8) compares leading octets only, where the length of a prefix is a multiple of eight.
        self.compared.iter().any(|value| match <[u8; 16]>::try_from(value.as_slice()) {
            Ok(octets) => prefix.contains(octets.into()),
            Err(_) => value.len() >= 2 && address.starts_with(value),
        })
    }
}

/// The base chains for packets to, by or from this host, but those of roam6; none without a firewall.
///
/// # Errors
/// The kernel's, if it refuses a dump: this takes CAP_NET_ADMIN.
pub fn base_chains() -> Result<Vec<BaseChain>, Error> {
    let legacy = iptables_legacy::forward_chain()?.map(|chain| BaseChain {
        family: LEGACY,
        table: "filter".to_owned(),
        chain: "FORWARD".to_owned(),
        hook: ChainHook::Forward,
        drops: chain.drops,
        compared: chain.compared,
    });
    let chains = dump::base_chains()?;
    if chains.is_empty() {
        return Ok(legacy.into_iter().collect());
    }
    let (rules, sets) = (dump::rules()?, dump::sets()?);
    let compared = |family: u8, table: &str| {
        let rules = rules.iter().filter(|Rule { family: of, table: on, .. }| (*of, on.as_str()) == (family, table));
        let sets = sets.iter().filter(|Set { family: of, table: on, .. }| (*of, on.as_str()) == (family, table));
        let rules = rules.flat_map(|rule| rule.compared.iter().cloned());
        rules.chain(sets.flat_map(|set| set.keys.iter().map(|key| beginning_of_name(key)))).collect()
    };
    let read = |chain: dump::Chain| {
        let family = dump::family_name(chain.family)?;
        let hook = match chain.hook {
            libc::NF_INET_LOCAL_IN => ChainHook::Input,
            libc::NF_INET_FORWARD => ChainHook::Forward,
            libc::NF_INET_LOCAL_OUT => ChainHook::Output,
            _ => return None,
        };
        let compared = compared(chain.family, &chain.table);
        let is_end = |rule: &Rule| {
            rule.drops_all && (rule.family, &rule.table, &rule.chain) == (chain.family, &chain.table, &chain.name)
        };
        let drops = chain.drops || rules.iter().any(is_end);
        Some(BaseChain { family, table: chain.table, chain: chain.name, hook, drops, compared })
    };
    Ok(chains.into_iter().filter_map(read).chain(legacy).collect())
}

/// A key of a set. Where beginnings of names are among its keys, the kernel has all of them as intervals: any name is taken
/// for a beginning.
fn beginning_of_name(key: &[u8]) -> Vec<u8> {
    let end = key.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    let is_name = key.len() == libc::IFNAMSIZ && key.first().is_some_and(u8::is_ascii_alphanumeric);
    key.get(..if is_name { end } else { key.len() }).unwrap_or_default().to_vec()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;

    fn chain(compared: &[&[u8]]) -> BaseChain {
        BaseChain {
            family: "inet",
            table: "filter".to_owned(),
            chain: "forward".to_owned(),
            hook: ChainHook::Forward,
            drops: true,
            compared: compared.iter().map(|value| value.to_vec()).collect(),
        }
    }

    #[test]
    fn names_of_interfaces_and_prefixes_are_recognised() {
        let prefix: Prefix = "2001:db8:100::/56".parse().unwrap();
        let named = chain(&[b"nemo0\0\0\0\0\0\0\0\0\0\0\0", b"br-", b"\x06"]);
        assert!(named.names_interface("nemo0") && named.names_interface("br-lan"));
        assert!(!named.names_interface("nemo01") && !named.names_interface("lan0") && !named.names_prefix(prefix));
        assert!(chain(&[&[0x20, 1, 0xd, 0xb8, 1, 0, 0]]).names_prefix(prefix), "its leading octets");
        assert!(chain(&[&"2001:db8:100:20::".parse::<std::net::Ipv6Addr>().unwrap().octets()]).names_prefix(prefix));
        assert!(!chain(&[&[0x20, 1, 0xd, 0xb8, 2, 0, 0], &[0x20]]).names_prefix(prefix));
        assert!(!chain(&[&[], &[0]]).names_interface("lan0"), "an empty name is none");
    }
}
