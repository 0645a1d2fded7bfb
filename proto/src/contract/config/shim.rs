//! What the shim is told: plain values, checked by whoever builds them.

use crate::base::few;
use crate::contract::item::Trigger;
use crate::crypto::cga::{Parameters, Sec};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::shim6::Preference;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;

/// A host with several uplinks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimConfig {
    /// Names of the uplinks; they may come and go. Their global addresses are this host's locators.
    pub interfaces: few::Set<String>,
    /// What is thought of locators on an uplink, by its name, where it is not as good as any.
    #[serde(default, skip_serializing_if = "has_no_preferences")]
    pub preferences: few::Map<String, UplinkPreference>,
    /// How addresses on the uplinks are made; `None`: others see to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressPolicy>,
    /// When a context is asked for; `None`: only peers ask.
    pub trigger: Option<Trigger>,
    /// With whom.
    pub peers: PeerRules,
    /// Contexts at once. When there are so many, those of the prefix that holds most give way, then the least recently
    /// used whose peer has proved nothing.
    pub max_contexts: usize,
    /// Send Timeout of RFC 5534 §6.1, 100 ms at least; peers are told, rounded up to whole seconds.
    pub send_timeout: Duration,
    /// So long after it has left its ULIDs a context asks whether they work again, and again; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_after: Option<Duration>,
    /// A context in which nothing was sent or received for so long ends (RFC 5533 §11).
    pub idle_timeout: Duration,
    /// What proves that our addresses are one host's. Addresses that none of them proves are used alone: as ULID only.
    pub identities: Vec<Identity>,
    /// Peers' signatures verified each second, at most; in between only what is cheap.
    pub verifications_per_second: u32,
}

fn has_no_preferences(preferences: &few::Map<String, UplinkPreference>) -> bool {
    preferences.is_empty()
}

/// What is thought of an uplink's locators (RFC 5533 §5.15.3). Peers are told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UplinkPreference {
    /// Lower is better.
    pub priority: u8,
    /// Share among those of one priority, as of DNS SRV records.
    pub weight: u8,
    /// It will not last.
    pub transient: bool,
}

impl UplinkPreference {
    /// As peers are told.
    pub fn emit(self) -> Preference {
        let flags = if self.transient { Preference::TRANSIENT } else { 0 };
        Preference { flags, priority: self.priority, weight: self.weight }
    }
}

/// How addresses are made in advertised prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPolicy {
    /// What proves that they are one host's.
    pub proof: Proof,
    /// Work in sets that are made while it runs, 0 or 1. Sets made ahead may have more.
    pub sec: Sec,
}

/// What proves addresses. A key is that of the first identity that has a private one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// They are a set; another prefix makes another set (RFC 5535).
    Hba,
    /// Each is made of the key (RFC 3972).
    Cga,
    /// They are a set with the key in it: CGA-compatible.
    Both,
}

/// With whom contexts are asked for. A peer may always ask us.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRules {
    /// If not empty, peers in here only.
    pub only: Vec<Prefix>,
    /// Never peers in here.
    pub except: Vec<Prefix>,
    /// Not with peers whose identifier is made of a link-layer address: it can be no CGA.
    pub skip_eui64: bool,
}

/// A set of addresses that prove one another.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// CGA parameters; with a Multi-Prefix extension they are of an HBA set (RFC 5535).
    pub parameters: Parameters,
    /// The key that goes with the parameters' public key, PKCS #8 DER, where there is one: what it signs need not be in
    /// the set.
    #[serde(with = "crate::base::hex", default, skip_serializing_if = "Vec::is_empty")]
    pub private_key: Vec<u8>,
}

/// The least Send Timeout.
pub const SHORTEST_SEND_TIMEOUT: Duration = Duration::from_millis(100);

impl Default for ShimConfig {
    fn default() -> ShimConfig {
        ShimConfig {
            interfaces: few::Set::new(),
            preferences: few::Map::new(),
            addresses: None,
            trigger: Some(Trigger::default()),
            peers: PeerRules::default(),
            max_contexts: 10_000,
            send_timeout: Duration::from_secs(15),
            return_after: Some(Duration::from_secs(60)),
            idle_timeout: Duration::from_secs(300),
            identities: Vec::new(),
            verifications_per_second: 200,
        }
    }
}

impl PeerRules {
    /// Whether a context with `peer` may be asked for.
    pub fn allow(&self, peer: Ipv6Addr) -> bool {
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
    fn a_peer_must_be_inside_and_not_outside() {
        let peer: Ipv6Addr = "2001:db8:1::ff:fe00:1".parse().unwrap();
        let (around, within) = (vec!["2001:db8::/32".parse().unwrap()], vec!["2001:db8:1::/64".parse().unwrap()]);
        let rules = PeerRules { only: around.clone(), ..PeerRules::default() };
        assert!(PeerRules::default().allow(peer) && rules.allow(peer));
        assert!(!PeerRules { except: within.clone(), ..rules.clone() }.allow(peer));
        assert!(!PeerRules { skip_eui64: true, ..rules }.allow(peer));
        assert!(!PeerRules { only: within, ..PeerRules::default() }.allow("2001:db8:2::1".parse().unwrap()));
    }
}
