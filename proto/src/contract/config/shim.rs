//! Settings of Shim6: plain values, validated by the caller.

use crate::base::vec_map::VecMap;
use crate::base::vec_set::VecSet;
use crate::contract::item::ContextTrigger;
use crate::crypto::cga::{Parameters, Sec};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::shim6::LocatorPreference;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;

/// A multihomed host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimConfig {
    /// Names of the uplinks; they may be added and removed at run time. Their global addresses are the local locators.
    pub interfaces: VecSet<String>,
    /// Locator preferences by uplink name; uplinks without an entry have the default preference.
    #[serde(default, skip_serializing_if = "has_no_preferences")]
    pub preferences: VecMap<String, UplinkPreference>,
    /// Address generation on the uplinks; `None`: addresses are configured elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressGeneration>,
    /// When a context is established; `None`: only by peers.
    pub trigger: Option<ContextTrigger>,
    /// The peers with which contexts are established.
    pub peers: PeerFilter,
    /// Maximum number of contexts. At the limit, contexts of the /64 with the most contexts are evicted first, and among
    /// those the least recently used of peers without a verified locator.
    pub max_contexts: usize,
    /// Send Timeout (RFC 5534 §6.1), at least 100 ms; announced to peers, rounded up to whole seconds.
    pub send_timeout: Duration,
    /// Interval at which a context that has left its ULID pair probes that pair; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_after: Option<Duration>,
    /// Idle time after which a context is discarded (RFC 5533 §11).
    pub idle_timeout: Duration,
    /// CGA and HBA parameters that prove ownership of the local addresses. Other addresses are used as ULIDs only.
    pub identities: Vec<Identity>,
    /// Maximum number of signature verifications each second.
    pub verifications_per_second: u32,
}

fn has_no_preferences(preferences: &VecMap<String, UplinkPreference>) -> bool {
    preferences.is_empty()
}

/// Locator preferences of an uplink, announced to peers (RFC 5533 §5.15.3).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UplinkPreference {
    /// Priority; lower is preferred.
    pub priority: u8,
    /// Weight among locators of one priority, as in DNS SRV records.
    pub weight: u8,
    /// The TRANSIENT flag.
    pub transient: bool,
}

impl UplinkPreference {
    /// Its wire form.
    pub fn emit(self) -> LocatorPreference {
        let flags = if self.transient { LocatorPreference::TEMPORARY } else { 0 };
        LocatorPreference { flags, priority: self.priority, weight: self.weight }
    }
}

/// Address generation in advertised prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressGeneration {
    /// The proof of ownership.
    pub proof: AddressProof,
    /// Sec value of addresses generated at run time, 0 or 1. Sets generated ahead may have a higher one.
    pub sec: Sec,
}

/// Proof of address ownership. The key is that of the first identity with a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressProof {
    /// Hash-based addresses; another prefix requires another set (RFC 5535).
    Hba,
    /// Cryptographically generated addresses (RFC 3972).
    Cga,
    /// CGA-compatible hash-based addresses (RFC 5535 §5.1).
    #[serde(rename = "both")]
    CgaCompatibleHba,
}

/// Filter of the peers with which this host establishes contexts. Peers may establish contexts regardless.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerFilter {
    /// If not empty, only peers within these prefixes.
    pub only: Vec<Prefix>,
    /// No peers within these prefixes.
    pub except: Vec<Prefix>,
    /// No peers with a modified EUI-64 interface identifier, which cannot be a CGA.
    pub skip_eui64: bool,
}

/// CGA parameters, and the key if there is one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// CGA parameters; of an HBA set if they have a Multi-Prefix extension (RFC 5535).
    pub parameters: Parameters,
    /// The private key of the public key of the parameters, PKCS #8 DER; empty if there is none.
    #[serde(with = "crate::base::hex", default, skip_serializing_if = "Vec::is_empty")]
    pub private_key: Vec<u8>,
}

/// Minimum Send Timeout.
pub const MIN_SEND_TIMEOUT: Duration = Duration::from_millis(100);

impl Default for ShimConfig {
    fn default() -> ShimConfig {
        ShimConfig {
            interfaces: VecSet::new(),
            preferences: VecMap::new(),
            addresses: None,
            trigger: Some(ContextTrigger::default()),
            peers: PeerFilter::default(),
            max_contexts: 10_000,
            send_timeout: Duration::from_secs(15),
            return_after: Some(Duration::from_secs(60)),
            idle_timeout: Duration::from_secs(300),
            identities: Vec::new(),
            verifications_per_second: 200,
        }
    }
}

impl PeerFilter {
    /// Whether this host establishes contexts with `peer`.
    pub fn allows(&self, peer: Ipv6Addr) -> bool {
        let inside = |prefixes: &[Prefix]| prefixes.iter().any(|prefix| prefix.contains(peer));
        let [.., a, b, _, _, _] = peer.octets();
        let eui64 = (a, b) == (0xff, 0xfe);
        (self.only.is_empty() || inside(&self.only)) && !inside(&self.except) && !(self.skip_eui64 && eui64)
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.private_key.is_empty() { "without a key" } else { "with a key" };
        write!(f, "Identity {{ {:?}, {key} }}", self.parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_rules_allow_only_what_they_list() {
        let peer: Ipv6Addr = "2001:db8:1::ff:fe00:1".parse().unwrap();
        let (around, within) = (vec!["2001:db8::/32".parse().unwrap()], vec!["2001:db8:1::/64".parse().unwrap()]);
        let rules = PeerFilter { only: around.clone(), ..PeerFilter::default() };
        assert!(PeerFilter::default().allows(peer) && rules.allows(peer));
        assert!(!PeerFilter { except: within.clone(), ..rules.clone() }.allows(peer));
        assert!(!PeerFilter { skip_eui64: true, ..rules }.allows(peer));
        assert!(!PeerFilter { only: within, ..PeerFilter::default() }.allows("2001:db8:2::1".parse().unwrap()));
    }
}
