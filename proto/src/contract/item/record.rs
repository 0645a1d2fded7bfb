//! Journal records: state that persists across restarts of the daemon.

use crate::base::ids::LinkId;
use crate::contract::config::encryption::DeviceNumber;
use crate::contract::config::flow::FlowRule;
use crate::contract::config::nemo::{InvitationId, SharedKey};
use crate::crypto::cga::Parameters;
use crate::crypto::key_agreement::{EphemeralSecret, Point};
use crate::crypto::path_esp::EspEnd;
use crate::crypto::wireguard::PublicKey;
use derive_more::Display;
use roam6_wire::{Bid, HomeAddress, LinkAddress, Prefix, Sequence};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A journal record. A later record of the same key replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRecord {
    /// A binding that a home agent has acknowledged, or is about to acknowledge.
    Binding(BindingRecord),
    /// The last sequence number of a home address: sent by its mobile router, or accepted by a home agent that needs it
    /// after the binding has ended.
    Sequence(SequenceRecord),
    /// A set of hash-based addresses.
    #[serde(rename = "address_set")]
    HbaSet(HbaSetRecord),
    /// A prefix of a visited network that was advertised in the mobile network.
    #[serde(rename = "lent")]
    CareOfPrefix(CareOfPrefixRecord),
    /// The traffic of an uplink.
    Usage(UsageRecord),
    /// A visited network that passes UDP only.
    Network(NetworkRecord),
    /// Home agent: what the key of a row was exchanged for.
    RowKeys(Box<RowKeysRecord>),
    /// Mobile router: what the key of the configuration was exchanged for.
    OwnKeys(OwnKeysRecord),
}

/// The key of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalKey {
    /// See [`BindingRecord`].
    #[display("the binding of {_0}")]
    Binding(HomeAddress),
    /// See [`SequenceRecord`].
    #[display("the sequence number of {_0}")]
    Sequence(HomeAddress),
    /// See [`AddressSetRecord`].
    #[serde(rename = "address_set")]
    #[display("HBA set {_0}")]
    HbaSet(u8),
    /// See [`LentRecord`].
    #[serde(rename = "lent")]
    #[display("care-of prefix {_0}")]
    CareOfPrefix(Prefix),
    /// See [`UsageRecord`].
    #[display("the traffic of uplink {_0}")]
    Usage(Bid),
    /// See [`NetworkRecord`].
    #[display("the transport in network {_0:016x}")]
    Network(u64),
    /// See [`RowKeysRecord`].
    #[display("the exchanged key of {_0}")]
    RowKeys(HomeAddress),
    /// See [`OwnKeysRecord`].
    #[display("our exchanged key of {_0}")]
    OwnKeys(HomeAddress),
}

/// What a record of exchanged keys belongs to: another key in the file ends it. The identifier of an invitation, or the first
/// octets of a digest of SPI and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySource(pub InvitationId);

/// What the key of a row of the prefix table was exchanged for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowKeysRecord {
    /// The mobile router.
    pub home_address: HomeAddress,
    /// The row that it belongs to.
    pub source: KeySource,
    /// The key in force, which the mobile router has used; `None`: still that of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<SharedKey>,
    /// A key that was offered, and that the mobile router has not used so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<KeyOffer>,
    /// The last invitation that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<UsedInvitation>,
}

/// A key that a home agent has offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyOffer {
    /// The mobile router's public key: only a request with this one gets the same answer.
    pub router: Point,
    /// The home agent's public key.
    pub agent: Point,
    /// The key.
    pub key: SharedKey,
    /// The invitation whose key authenticated the request; `None`: the key in force did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<InvitationId>,
    /// When it was made, seconds since 1970-01-01T00:00Z; 0 if the time was unknown.
    pub made_unix: u64,
}

/// An invitation that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedInvitation {
    /// Its identifier.
    pub id: InvitationId,
    /// When, seconds since 1970-01-01T00:00Z.
    pub used_unix: u64,
    /// From which address.
    pub by: Ipv6Addr,
}

/// What the key of a mobile router's configuration was exchanged for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnKeysRecord {
    /// The mobile router.
    pub home_address: HomeAddress,
    /// The key of the configuration that it belongs to.
    pub source: KeySource,
    /// The key in force; `None`: that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<SharedKey>,
    /// The private key of an exchange that is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<EphemeralSecret>,
}

/// A visited network that passes UDP only: there a later visit begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// A hash of interface, prefix and router.
    pub network: u64,
    /// When to try again without UDP, seconds since 1970-01-01T00:00Z; 0 if the time was unknown.
    pub native_retry_unix: u64,
    /// Number of such trials without success.
    pub failures: u8,
}

/// The traffic of an uplink: what its data plan has left outlives restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRecord {
    /// The uplink.
    pub bid: Bid,
    /// Name of its interface.
    pub interface: String,
    /// Begin of the present period, seconds since 1970-01-01T00:00Z; 0 if it was counted without a clock.
    pub period_start_unix: u64,
    /// Octets sent and received in the period.
    pub tx: u64,
    /// See `tx`.
    pub rx: u64,
    /// Octets sent and received since the uplink was first counted.
    pub total_tx: u64,
    /// See `total_tx`.
    pub total_rx: u64,
    /// The interface's own counters then: what it carries while no instance runs counts too.
    pub link: LinkId,
    /// Octets sent, by the interface's counter.
    pub link_tx: u64,
    /// Octets received, by the interface's counter.
    pub link_rx: u64,
}

/// A prefix of a visited network that was advertised in the mobile network: a later instance in another network deprecates
/// it (RFC 9096 §3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareOfPrefixRecord {
    /// The prefix.
    pub prefix: Prefix,
    /// Name of the ingress interface.
    pub interface: String,
    /// The L flag of the Prefix Information option.
    pub on_link: bool,
}

/// A set of hash-based addresses, whose generation is expensive (RFC 5535).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HbaSetRecord {
    /// Its index in the store.
    pub number: u8,
    /// The CGA parameters of its addresses.
    pub parameters: Parameters,
}

/// All bindings of one home address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRecord {
    /// The mobile router.
    pub home_address: HomeAddress,
    /// Its care-of addresses: binding identifier (0 for none), address, priority (RFC 6089; 0 for none).
    pub care_of: Vec<(Bid, Ipv6Addr, u8)>,
    /// Its mobile network prefixes.
    pub prefixes: Vec<Prefix>,
    /// Explicit mode: the prefixes stem from the update, not from the prefix table.
    pub explicit: bool,
    /// Its flow bindings.
    pub flows: Vec<FlowRule>,
    /// Last accepted sequence number.
    pub sequence: Sequence,
    /// Last accepted replay protection timestamp (RFC 4285 §6, NTP format); 0 for none.
    pub timestamp: u64,
    /// Expiry of the care-of address with the longest lifetime, microseconds since 1970-01-01T00:00Z.
    pub expires_unix_micros: u64,
    /// Expiry of each of `care_of`, in their order; empty if they all expire together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_expires_unix_micros: Vec<u64>,
    /// The R flag.
    pub router: bool,
    /// The L flag: its link-local address is defended on the home link (RFC 6275 §10.3.1).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub link_local: bool,
    /// Its link-layer address on the home link, if one of `care_of` is the home address itself (RFC 5648 §5.6.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "at_home")]
    pub home_link_address: Option<LinkAddress>,
    /// The UDP ports of those of `care_of` that are reached in UDP over IPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp_ports: Vec<(Bid, u16)>,
    /// The path MTUs to those of `care_of` for which the mobile router has reported one, octets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_mtus: Vec<(Bid, u16)>,
    /// The WireGuard devices of those of `care_of` that are encrypted, each with the mobile router's public key and UDP port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wireguard: Vec<(DeviceNumber, PublicKey, u16)>,
    /// What was agreed for those of `care_of` that are encrypted by ESP: the ends of the mobile router and of the home agent. The keys
    /// are not among it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub esp: Vec<(Bid, EspEnd, EspEnd)>,
}

/// The last sequence number used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRecord {
    /// The home address.
    pub home_address: HomeAddress,
    /// The number.
    pub sequence: Sequence,
}
