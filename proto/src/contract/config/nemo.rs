//! What the two NEMO roles are told: plain values, checked by whoever builds them.

use crate::contract::config::flow::FlowRule;
use crate::crypto::esp::SecurityAssociation;
use core::time::Duration;
use roam6_wire::{Bid, DomainName, HomeAddress, Prefix};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A mobility security association with a shared key (RFC 4285 §5).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedKey {
    /// Mobility SPI, 256 or more.
    pub spi: u32,
    /// The key of HMAC-SHA1.
    #[serde(with = "crate::base::hex")]
    pub secret: Vec<u8>,
}

impl fmt::Debug for SharedKey {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey {{ spi: {} }}", self.spi)
    }
}

/// How updates and acknowledgements of one mobile router are authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// Not at all; must be asked for by name.
    None,
    /// MN-HA mobility message authentication option with timestamps against replay (RFC 4285).
    SharedKey(SharedKey),
    /// ESP in transport mode with keys set by hand (RFC 3776, RFC 4877 §4.3).
    Ipsec(Box<SecurityPair>),
}

/// The two security associations of a mobile router and its home agent; the same at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityPair {
    /// Of Binding Updates.
    pub to_home_agent: SecurityAssociation,
    /// Of Binding Acknowledgements and Binding Refresh Requests.
    pub to_mobile: SecurityAssociation,
}

/// A home agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeAgentConfig {
    /// Its address: destination of updates, near end of the tunnels.
    pub address: Ipv6Addr,
    /// Home addresses must lie in one of these.
    pub home_prefixes: Vec<Prefix>,
    /// Name of the interface on the home link; `None` for a virtual home network (no neighbours to defend against).
    pub home_link: Option<String>,
    /// Who may register what; shared with whoever read it, because it may be long.
    pub table: Arc<PrefixTable>,
    /// Longest lifetime granted.
    pub max_lifetime: Duration,
    /// Interval put into Binding Refresh Advice; `None`: not sent.
    pub refresh_advice: Option<Duration>,
    /// Whether several care-of addresses may be registered (RFC 5648).
    pub multiple_care_of: bool,
    /// Whether a mobile router on the home link may be registered elsewhere too (RFC 5648 §5.6); needs `home_link`.
    #[serde(default = "yes")]
    pub home_and_away: bool,
    /// Most home addresses with a binding.
    pub max_bindings: usize,
    /// Duplicate address detection for a home address at its first binding (RFC 6275 §10.3.1); needs `home_link`.
    pub duplicate_detection: bool,
    /// Preference in Home Agent Information (RFC 6275 §7.4).
    pub preference: u16,
    /// Router Advertisements on the home link: longest interval; `None`: none sent.
    pub advertise: Option<Duration>,
    /// Largest outer packet towards care-of addresses until a Packet Too Big says less, octets.
    pub path_mtu: u32,
    /// How mobile routers whose uplinks have IPv4 only are served (RFC 5555); `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Service>,
    /// IPv4 prefixes for mobile routers that ask for one and have none in the prefix table (RFC 5555 §2.5); `None`: they
    /// get none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4_pool: Option<Ipv4Pool>,
}

/// How a home agent serves mobile routers whose uplinks have IPv4 only (RFC 5555).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipv4Service {
    /// Its IPv4 address, where it hears updates on UDP port 4191.
    pub address: Ipv4Addr,
    /// How often a mobile router behind a NAT is to refresh its mapping, whole seconds.
    pub keepalive: Duration,
    /// Whether data is carried by UDP where there is no NAT too.
    pub force_udp: bool,
}

/// IPv4 prefixes to give away, all of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipv4Pool {
    /// They are taken from this IPv4 prefix.
    pub prefix: Prefix,
    /// Length of each as an IPv4 prefix, at least that of `prefix`; 32: single addresses.
    pub length: u8,
}

/// Home address -> what its owner may register (the Prefix Table of RFC 3963 §6.1.1).
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixTable {
    /// The rows, at most one for each home address; best in their order.
    pub rows: Vec<PrefixTableRow>,
}

/// One mobile router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixTableRow {
    /// Its home address.
    pub home_address: HomeAddress,
    /// Prefixes it may register; those of IPv6 it gets in implicit mode, those of IPv4 if it asks (RFC 5555 §4.5).
    pub prefixes: Arc<[Prefix]>,
    /// How its messages are authenticated.
    pub authentication: Authentication,
    /// A second key that proves updates as well, while the mobile router changes from one to the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_key: Option<SharedKey>,
}

impl PrefixTableRow {
    /// The shared keys that prove an update of this router, if it has shared keys.
    pub fn shared_keys(&self) -> impl Iterator<Item = &SharedKey> {
        let key = match &self.authentication {
            Authentication::SharedKey(key) => Some(key),
            Authentication::None | Authentication::Ipsec(_) => None,
        };
        key.into_iter().chain(self.next_key.as_ref().filter(|_| key.is_some()))
    }
}

/// A mobile router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MobileRouterConfig {
    /// Its home address.
    pub home_address: HomeAddress,
    /// Prefix of the home network: seen in an advertisement, it means being at home, unless that network is virtual.
    pub home_prefix: Prefix,
    /// Whether there is a link one can be at home on.
    #[serde(default, skip_serializing_if = "HomeNetwork::is_physical")]
    pub home: HomeNetwork,
    /// Home agents, the preferred first. Empty: found by dynamic home agent address discovery.
    pub home_agents: Vec<Ipv6Addr>,
    /// Their IPv4 addresses in the same order, for uplinks that have IPv4 only (RFC 5555); those left out have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub home_agents_ipv4: Vec<Ipv4Addr>,
    /// Prefixes of the mobile network. Those of IPv4 are registered too, and hold while the router is away (RFC 5555
    /// §4.4.2, §4.4.4).
    pub prefixes: Vec<Prefix>,
    /// Length of the IPv4 prefix the home agent is asked to choose; 32 for an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_ipv4: Option<u8>,
    /// Whether updates list the prefixes (RFC 3963 §5.2).
    pub mode: PrefixMode,
    /// How messages are authenticated.
    pub authentication: Authentication,
    /// Lifetime asked for.
    pub lifetime: Duration,
    /// Interfaces that may attach to visited networks, the preferred first.
    pub uplinks: Vec<Uplink>,
    /// How several uplinks share the load.
    pub sharing: Sharing,
    /// Whether other uplinks stay registered while one is on the home link, which then is one path among them
    /// (RFC 5648 §5.6); else coming home ends everything (§5.5.1).
    #[serde(default)]
    pub home_and_away: bool,
    /// Interfaces of the mobile network.
    pub ingress: Vec<Ingress>,
    /// What is done about duplicate care-of addresses.
    pub duplicate_detection: DuplicateDetection,
    /// How a dead path is noticed; `None`: only by the link and its router.
    pub probe: Option<Probe>,
    /// Flows with an uplink of their own.
    pub flows: Vec<FlowRule>,
    /// Whether nodes inside also get prefixes of the visited networks; `None`: the mobile network's only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub care_of_prefixes: Option<CareOfPrefixes>,
}

/// What the home network is (RFC 4887 §3 and §4).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeNetwork {
    /// A link: its prefix in an advertisement means being at home.
    #[default]
    Physical,
    /// It exists at the home agent only: the mobile router is never at home, whatever is advertised where it is.
    Virtual,
}

impl HomeNetwork {
    fn is_physical(&self) -> bool {
        *self == HomeNetwork::Physical
    }
}

/// Modes of RFC 3963 §5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefixMode {
    /// The home agent knows the prefixes.
    Implicit,
    /// The update lists the prefixes.
    Explicit,
}

/// How several uplinks share the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// One care-of address at a time, no BID (RFC 3963 alone).
    Single,
    /// All registered (RFC 5648), the best carries everything.
    Standby,
    /// All registered, flows hashed over those of the best priority by their weights.
    Weights,
}

/// An interface that may attach to visited networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// Its name.
    pub interface: String,
    /// Binding identifier, unique, not 0.
    pub bid: Bid,
    /// Lower is preferred; BID-PRI in the update (RFC 6089 §4.1), 1 to 127.
    pub priority: u8,
    /// Share of flows among uplinks of the same priority.
    pub weight: u16,
    /// Whether nodes inside may have a prefix of its network; matters with [`CareOfPrefixes`] only.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub care_of_prefix: bool,
    /// Its care-of address, where neither Router Advertisements nor DHCPv6 assign one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<StaticAddress>,
}

/// An address that the operator of the visited network has assigned by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticAddress {
    /// The address.
    pub address: Ipv6Addr,
    /// The prefix of its link.
    pub prefix: Prefix,
    /// The router of the link: a link-local address, or one in the prefix.
    pub gateway: Ipv6Addr,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_true(value: &bool) -> bool {
    *value
}

/// An interface of the mobile network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ingress {
    /// Its name.
    pub interface: String,
    /// The /64 it carries: advertised, and the router takes its address with identifier 1.
    pub prefix: Prefix,
    /// Longest interval between advertisements.
    pub advertise: Duration,
    /// Recursive DNS servers advertised to its nodes (RFC 8106); `None`: those of the uplinks' networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<Vec<Ipv6Addr>>,
    /// DNS search domains advertised to its nodes (RFC 8106); `None`: those of the uplinks' networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Vec<DomainName>>,
}

/// How nodes inside come by addresses of the visited networks, and so to paths past the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareOfPrefixes {
    /// Whether the visited network is asked for a prefix of our own (DHCPv6 prefix delegation, RFC 8415).
    pub delegation: bool,
    /// Length wished for, bits; 0 leaves it to the server.
    pub length: u8,
    /// What is done where nobody delegates.
    pub share: Share,
    /// Which addresses nodes inside choose for new connections.
    pub prefer: Prefer,
}

/// Whether nodes inside may use the prefix of the visited link itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// No.
    Never,
    /// Neighbours are answered for them (RFC 4389); on a point-to-point link, whose prefix is ours alone, nobody has to
    /// be (RFC 7278).
    Proxy,
}

/// Which prefix is advertised as preferred while there are both kinds; of the other, addresses are deprecated: in use
/// where a program asks for them (RFC 4862 §5.5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// The mobile network's: connections live through moves.
    Home,
    /// The visited network's: connections take the direct path, and end with it unless they have several (MPTCP).
    CareOf,
    /// Both; each node decides (RFC 6724).
    Either,
}

/// What is done about duplicate care-of addresses (RFC 4862 §5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicateDetection {
    /// Used at once, checked beside (in the manner of RFC 4429).
    Optimistic,
    /// Used once checked.
    Wait,
    /// Not checked.
    Off,
}

/// Path probes: an echo to the home agent through the tunnel, pinned to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Between probes.
    pub interval: Duration,
    /// Unanswered in a row before the path is dead.
    pub lost: u32,
    /// Answered in a row before a dead path is alive again; doubles with each relapse (damping).
    pub recovered: u32,
}

impl Default for Probe {
    /// Noticed within 800 ms, back after one second.
    fn default() -> Probe {
        Probe { interval: Duration::from_millis(200), lost: 3, recovered: 5 }
    }
}
