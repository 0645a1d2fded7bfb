//! Settings of the NEMO roles, home agent and mobile router: plain values, validated by the caller.

pub use super::encryption::{Encryption, EncryptionMethod};
pub use super::key::{InvitationId, RowInvitation, SharedKey};

use crate::contract::config::flow::FlowRule;
use crate::crypto::esp::SecurityAssociation;
use core::time::Duration;
use roam6_wire::{Bid, DomainName, HomeAddress, Prefix};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// How updates and acknowledgements of one mobile router are authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// No authentication; must be configured explicitly.
    None,
    /// MN-HA mobility message authentication option with timestamps against replay (RFC 4285).
    SharedKey(SharedKey),
    /// ESP in transport mode with manual keys (RFC 3776, RFC 4877 §4.3).
    Ipsec(Box<SecurityAssociationPair>),
}

/// The two security associations of a mobile router and its home agent; the same at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityAssociationPair {
    /// For Binding Updates.
    pub to_home_agent: SecurityAssociation,
    /// For Binding Acknowledgements and Binding Refresh Requests.
    #[serde(rename = "to_mobile")]
    pub to_mobile_router: SecurityAssociation,
}

/// A home agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeAgentConfig {
    /// Its address: destination of Binding Updates, local address of the tunnels.
    pub address: Ipv6Addr,
    /// Home addresses must lie in one of these.
    pub home_prefixes: Vec<Prefix>,
    /// Name of the interface on the home link; `None` for a virtual home network.
    pub home_link: Option<String>,
    /// The prefix table; shared, because it may be large.
    #[serde(rename = "table")]
    pub prefix_table: Arc<PrefixTable>,
    /// Maximum lifetime of a binding.
    pub max_lifetime: Duration,
    /// Interval of the Binding Refresh Advice option; `None`: option not sent.
    pub refresh_advice: Option<Duration>,
    /// Whether several care-of addresses may be registered (RFC 5648).
    pub multiple_care_of: bool,
    /// Whether a mobile router may be at home and registered with care-of addresses at the same time (RFC 5648 §5.6);
    /// requires `home_link`.
    #[serde(default = "yes")]
    pub home_and_away: bool,
    /// Maximum number of home addresses with a binding.
    pub max_bindings: usize,
    /// Duplicate Address Detection for a home address at its first binding (RFC 6275 §10.3.1); requires `home_link`.
    pub duplicate_detection: bool,
    /// Preference in Home Agent Information (RFC 6275 §7.4).
    pub preference: u16,
    /// Maximum interval of Router Advertisements on the home link; `None`: not sent.
    #[serde(rename = "advertise")]
    pub advertisement_interval: Option<Duration>,
    /// Initial path MTU to care-of addresses, octets.
    pub path_mtu: u32,
    /// Service for mobile routers with IPv4-only uplinks (RFC 5555); `None`: not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<DsmipService>,
    /// Pool of dynamic IPv4 prefixes for mobile routers without one in the prefix table (RFC 5555 §2.5); `None`: none are
    /// assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4_pool: Option<Ipv4Pool>,
    /// Pool from which prefixes of mobile networks are allocated, routed to this host as a whole; `None`: only those of the
    /// prefix table are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_pool: Option<Prefix>,
    /// The on-link prefix of this host's own link as a mobile network prefix, where nothing is routed to this host; `None`:
    /// mobile network prefixes are routed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_prefix: Option<SharedPrefix>,
    /// Whether mobile routers are served in UDP over IPv6 too, where networks pass nothing else.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub udp6: bool,
    /// Whether packets are replicated over two paths for flows of which mobile routers ask so, and second copies eliminated.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub replication: bool,
    /// Updates of one mobile router that are accepted per second; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_update_rate: Option<u32>,
    /// Whether mobile routers may exchange their keys: not where the journal is lost with the power.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub key_exchange: bool,
    /// Encryption of data; `None`: none is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Box<Encryption>>,
    /// Whether TCP connections of mobile networks are relayed, so that they use all uplinks at once.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub bond: bool,
    /// The fleet that this home agent is a member of; `None`: it serves alone.
    #[cfg(feature = "fleet")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Box<super::fleet::FleetConfig>>,
}

impl HomeAgentConfig {
    /// Whether subflows of relayed connections take encrypted paths.
    pub fn has_encrypted_subflows(&self) -> bool {
        self.bond && self.encryption.is_some()
    }
}

impl Default for HomeAgentConfig {
    /// The defaults of the configuration file; addresses and prefixes are unspecified.
    fn default() -> HomeAgentConfig {
        HomeAgentConfig {
            address: Ipv6Addr::UNSPECIFIED,
            home_prefixes: Vec::new(),
            home_link: None,
            prefix_table: Arc::default(),
            max_lifetime: Duration::from_secs(3600),
            refresh_advice: None,
            multiple_care_of: true,
            home_and_away: true,
            max_bindings: 100_000,
            duplicate_detection: false,
            preference: 0,
            advertisement_interval: None,
            path_mtu: 1500,
            ipv4: None,
            ipv4_pool: None,
            prefix_pool: None,
            shared_prefix: None,
            udp6: false,
            replication: false,
            max_update_rate: None,
            key_exchange: true,
            encryption: None,
            bond: false,
            #[cfg(feature = "fleet")]
            fleet: None,
        }
    }
}

/// An on-link prefix as a mobile network prefix: the home agent answers Neighbour Solicitations for its addresses, except for
/// those of this host and of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPrefix {
    /// The prefix, a /64 that contains the home agent's address.
    pub prefix: Prefix,
    /// Name of the interface on its link.
    pub interface: String,
    /// The address of the provider's router in the prefix; `None`: it has none there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv6Addr>,
}

/// Service of a home agent for mobile routers with IPv4-only uplinks (RFC 5555).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DsmipService {
    /// Its IPv4 address, where it receives Binding Updates on UDP port 4191.
    pub address: Ipv4Addr,
    /// NAT keepalive interval of mobile routers, whole seconds (RFC 5555 §5.4).
    pub keepalive: Duration,
    /// Whether data is encapsulated in UDP without a NAT too (the F flag).
    pub force_udp: bool,
}

/// A pool of dynamic IPv4 prefixes of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipv4Pool {
    /// The IPv4 prefix that is divided.
    pub prefix: Prefix,
    /// IPv4 prefix length of each, at least that of `prefix`; 32 for single addresses.
    pub length: u8,
}

/// The Prefix Table (RFC 3963 §6.1.1): the prefixes that each home address may register.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixTable {
    /// The rows, at most one for each home address; preferably sorted.
    pub rows: Vec<PrefixTableRow>,
}

/// The row of one mobile router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixTableRow {
    /// Its home address.
    pub home_address: HomeAddress,
    /// Prefixes it may register. IPv6 prefixes are used in implicit mode, IPv4 prefixes if requested (RFC 5555 §4.5).
    pub prefixes: Arc<[Prefix]>,
    /// How its messages are authenticated.
    pub authentication: Authentication,
    /// A second key that is accepted during a key rollover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_key: Option<SharedKey>,
    /// The invitation by which the mobile router gets its key; boxed, because most rows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<Box<RowInvitation>>,
}

impl PrefixTableRow {
    /// The shared key of the row, if it has one.
    pub fn shared_key(&self) -> Option<&SharedKey> {
        match &self.authentication {
            Authentication::SharedKey(key) => Some(key),
            Authentication::None | Authentication::Ipsec(_) => None,
        }
    }
}

/// A mobile router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MobileRouterConfig {
    /// Its home address.
    pub home_address: HomeAddress,
    /// Home subnet prefix: a Router Advertisement with this prefix identifies the home link, unless the home network is
    /// virtual.
    pub home_prefix: Prefix,
    /// Physical or virtual home network.
    #[serde(default, skip_serializing_if = "HomeNetwork::is_physical")]
    #[serde(rename = "home")]
    pub home_network: HomeNetwork,
    /// Home agents, in order of preference. If empty, Dynamic Home Agent Address Discovery is used.
    pub home_agents: Vec<Ipv6Addr>,
    /// Their IPv4 addresses in the same order, for IPv4-only uplinks (RFC 5555); home agents without an entry have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub home_agents_ipv4: Vec<Ipv4Addr>,
    /// Mobile network prefixes. IPv4 prefixes are registered too, and used while away from home (RFC 5555 §4.4.2,
    /// §4.4.4).
    pub prefixes: Vec<Prefix>,
    /// Length of the requested dynamic IPv4 prefix; 32 for an address; `None`: not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_ipv4: Option<u8>,
    /// Prefix mode of Binding Updates (RFC 3963 §5.2).
    #[serde(rename = "mode")]
    pub prefix_mode: PrefixMode,
    /// How messages are authenticated.
    pub authentication: Authentication,
    /// The invitation that the key came by: it is exchanged for another one by the first update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<InvitationId>,
    /// Whether the key may be exchanged: not where the journal is lost with the power.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub key_exchange: bool,
    /// Requested lifetime.
    pub lifetime: Duration,
    /// Egress interfaces, in order of preference.
    pub uplinks: Vec<UplinkConfig>,
    /// Load sharing among uplinks.
    #[serde(rename = "sharing")]
    pub load_sharing: LoadSharing,
    /// Whether other uplinks stay registered while one is attached to the home link, which then is an additional path
    /// (RFC 5648 §5.6); else returning home ends all bindings (§5.5.1).
    #[serde(default)]
    pub home_and_away: bool,
    /// Ingress interfaces.
    pub ingress: Vec<IngressConfig>,
    /// Duplicate Address Detection of care-of addresses.
    pub duplicate_detection: DadMode,
    /// Path probing; `None`: a path fails only with its link or router.
    pub probe: Option<ProbeConfig>,
    /// Flow bindings.
    pub flows: Vec<FlowRule>,
    /// Whether relayed connections are accepted before the home agent has connected to the destination.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub early: bool,
    /// Advertisement of prefixes of visited networks in the mobile network; `None`: only mobile network prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub care_of_prefixes: Option<CareOfPrefixConfig>,
    /// Whether the network of an uplink is asked for a captive portal while no home agent answers by it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub portal_check: bool,
    /// Encryption of data, which is required then; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

impl Default for MobileRouterConfig {
    /// The defaults of the configuration file; addresses and prefixes are unspecified, and there are no interfaces.
    fn default() -> MobileRouterConfig {
        MobileRouterConfig {
            home_address: HomeAddress(Ipv6Addr::UNSPECIFIED),
            home_prefix: Prefix::ALL,
            home_network: HomeNetwork::default(),
            home_agents: Vec::new(),
            home_agents_ipv4: Vec::new(),
            prefixes: Vec::new(),
            dynamic_ipv4: None,
            prefix_mode: PrefixMode::Explicit,
            authentication: Authentication::None,
            invitation: None,
            key_exchange: true,
            lifetime: Duration::from_secs(600),
            uplinks: Vec::new(),
            load_sharing: LoadSharing::Single,
            home_and_away: false,
            ingress: Vec::new(),
            duplicate_detection: DadMode::Optimistic,
            probe: None,
            flows: Vec::new(),
            early: false,
            care_of_prefixes: None,
            portal_check: false,
            encryption: None,
        }
    }
}

/// Type of the home network (RFC 4887 §3 and §4).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeNetwork {
    /// A link, identified by its prefix in Router Advertisements.
    #[default]
    Physical,
    /// No link: the mobile router is never at home.
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
    /// The prefixes are configured at the home agent.
    Implicit,
    /// The Binding Update lists the prefixes.
    Explicit,
}

/// Load sharing among uplinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadSharing {
    /// One care-of address at a time, without BID (RFC 3963).
    Single,
    /// All registered (RFC 5648); the best carries all traffic.
    Standby,
    /// All registered; flows are hashed over those of the best priority by weight.
    #[serde(rename = "weights")]
    Weighted,
}

/// An egress interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UplinkConfig {
    /// Its name.
    pub interface: String,
    /// Binding identifier, unique, not 0.
    pub bid: Bid,
    /// Priority; lower is preferred; BID-PRI of RFC 6089 §4.1, 1 to 127.
    pub priority: u8,
    /// Weight among uplinks of the same priority.
    pub weight: u16,
    /// Whether a prefix of its visited network may be advertised; requires [`CareOfPrefixConfig`].
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub care_of_prefix: bool,
    /// Static care-of address, where neither SLAAC nor DHCPv6 assigns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<StaticAddress>,
    /// Round-trip time to the home agent beyond which other uplinks are used; `None`: none, nor is a full queue noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rtt: Option<Duration>,
    /// Loss of probes beyond which other uplinks are used, percent; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_loss: Option<u8>,
    /// Its own probing; `None`: that of the mobile router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeConfig>,
    /// Whether its traffic is paid for: it is probed only while it carries packets, or may have to soon.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub metered: bool,
    /// Count of its traffic, with or without a cap; `None`: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<DataPlan>,
    /// Differentiated services code point of outer headers, 0 to 63; `None`: that of the inner packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// What packets to the home agent are encapsulated in.
    #[serde(default, skip_serializing_if = "Transport::is_native")]
    pub transport: Transport,
}

/// What packets between an uplink and the home agent are encapsulated in.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// IPv6 in IPv6, and what RFC 5555 has over IPv4.
    #[default]
    Native,
    /// The same, and UDP over IPv6 where a network does not pass it.
    Auto,
    /// Always UDP.
    Udp,
}

impl Transport {
    fn is_native(&self) -> bool {
        *self == Transport::Native
    }
}

/// A data plan: the traffic of an uplink in a period, both directions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPlan {
    /// Octets of a period; `None`: as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u64>,
    /// The period, in UTC.
    pub period: PlanPeriod,
    /// Its first day: 1 to 31 of a month, the last day of a shorter one; 1 (Monday) to 7 of a week.
    pub starts: u8,
    /// The use of the uplink beyond the cap.
    pub beyond: BeyondCap,
}

impl Default for DataPlan {
    /// A month's count without a cap.
    fn default() -> DataPlan {
        DataPlan { cap: None, period: PlanPeriod::Month, starts: 1, beyond: BeyondCap::Backup }
    }
}

/// The period of a data plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanPeriod {
    /// From a day of the month to that of the next.
    Month,
    /// Seven days.
    Week,
    /// A day.
    Day,
}

/// The use of an uplink whose data plan is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeyondCap {
    /// It is used if no other uplink works.
    Backup,
    /// Nothing but signalling of the link crosses it.
    Never,
}

impl Default for UplinkConfig {
    /// An uplink without a name and without a binding identifier.
    fn default() -> UplinkConfig {
        let (interface, bid) = (String::new(), Bid(0));
        UplinkConfig {
            interface,
            bid,
            priority: 1,
            weight: 1,
            care_of_prefix: true,
            address: None,
            max_rtt: None,
            max_loss: None,
            probe: None,
            metered: false,
            plan: None,
            dscp: None,
            transport: Transport::Native,
        }
    }
}

/// A static address, assigned by the operator of the visited network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticAddress {
    /// The address.
    pub address: Ipv6Addr,
    /// The on-link prefix.
    pub prefix: Prefix,
    /// The default router: a link-local address, or one in the prefix.
    pub gateway: Ipv6Addr,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_true(value: &bool) -> bool {
    *value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// An ingress interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngressConfig {
    /// Its name.
    pub interface: String,
    /// Its /64: advertised.
    pub prefix: Prefix,
    /// Interface identifier of the mobile router's own address; `None`: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identifier: Option<u64>,
    /// Maximum interval of Router Advertisements.
    #[serde(rename = "advertise")]
    pub advertisement_interval: Duration,
    /// Advertised recursive DNS servers (RFC 8106); `None`: those of the visited networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<Vec<Ipv6Addr>>,
    /// Advertised DNS search domains (RFC 8106); `None`: those of the visited networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "search")]
    pub search_domains: Option<Vec<DomainName>>,
}

impl Default for IngressConfig {
    /// An ingress interface without a name and without a prefix.
    fn default() -> IngressConfig {
        let (interface, prefix, advertisement_interval) = (String::new(), Prefix::ALL, Duration::from_secs(600));
        IngressConfig { interface, prefix, identifier: None, advertisement_interval, dns: None, search_domains: None }
    }
}

/// Care-of prefixes: prefixes of visited networks for nodes of the mobile network, whose packets bypass the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareOfPrefixConfig {
    /// Whether prefixes are requested by DHCPv6 prefix delegation (RFC 8415).
    pub delegation: bool,
    /// Requested prefix length (hint); 0: none.
    pub length: u8,
    /// Sharing of the on-link prefix without prefix delegation.
    pub share: PrefixSharing,
    /// Preferred prefixes of nodes of the mobile network.
    pub prefer: PrefixPreference,
}

/// Whether nodes of the mobile network may use the prefix of the visited link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefixSharing {
    /// Not shared.
    Never,
    /// Shared by proxy neighbour discovery (RFC 4389); on a point-to-point link without a proxy (RFC 7278).
    #[serde(rename = "proxy")]
    NdProxy,
}

/// The prefix that is advertised as preferred if there are both kinds; addresses of the other are deprecated (RFC 4862
/// §5.5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefixPreference {
    /// The mobile network prefix: connections survive handovers.
    Home,
    /// The care-of prefix: connections use the direct path, and end with it unless they have several paths (MPTCP).
    CareOf,
    /// Both; source address selection of the node decides (RFC 6724).
    Either,
}

/// Duplicate Address Detection of care-of addresses (RFC 4862 §5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DadMode {
    /// The address is used during the detection (RFC 4429).
    Optimistic,
    /// The address is used after the detection.
    Wait,
    /// No detection.
    Off,
}

/// Path probing: echo requests to the home agent through the tunnel, pinned to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeConfig {
    /// Interval of probes.
    pub interval: Duration,
    /// Consecutive unanswered probes before the path is down.
    #[serde(rename = "lost")]
    pub down_after: u32,
    /// Consecutive answered probes before the path is up again; doubled with each failure (damping).
    #[serde(rename = "recovered")]
    pub up_after: u32,
    /// Whether further probes follow at once after one whose answer is overdue.
    #[serde(default, skip_serializing_if = "is_false")]
    pub burst: bool,
    /// Interval of probes of a path that would carry traffic, while there is none; `None`: `interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
    /// Interval of probes of a path that is only kept in reserve; `None`: `interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<Duration>,
}

impl Default for ProbeConfig {
    /// Failure detection within 800 ms, recovery after 1 s.
    fn default() -> ProbeConfig {
        ProbeConfig {
            interval: Duration::from_millis(200),
            down_after: 3,
            up_after: 5,
            burst: false,
            idle: None,
            standby: None,
        }
    }
}
