//! What must outlive the daemon: lines of the journal.

use crate::contract::config::flow::FlowRule;
use crate::crypto::cga::Parameters;
use roam6_wire::Bid;
use roam6_wire::HomeAddress;
use roam6_wire::LinkAddress;
use roam6_wire::Prefix;
use roam6_wire::Sequence;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A line of the journal: what must outlive the daemon. A later record of the same key takes the place of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A binding a home agent has acknowledged, or is about to.
    Binding(BindingRecord),
    /// The last sequence number used for a home address: sent by its mobile router, or accepted by a home agent that must
    /// remember it beyond the binding.
    Sequence(SequenceRecord),
    /// Addresses of a host with several providers.
    AddressSet(AddressSetRecord),
    /// A prefix of a visited network that nodes inside a mobile router believe in.
    Lent(LentRecord),
}

/// What a record is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKey {
    /// See [`BindingRecord`].
    Binding(HomeAddress),
    /// See [`SequenceRecord`].
    Sequence(HomeAddress),
    /// See [`AddressSetRecord`].
    AddressSet(u8),
    /// See [`LentRecord`].
    Lent(Prefix),
}

/// A prefix of a visited network that nodes inside were told of: a later life in another network tells them that it is over
/// (RFC 9096 §3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentRecord {
    /// The prefix.
    pub prefix: Prefix,
    /// Name of the interface inside.
    pub interface: String,
    /// Whether nodes were told that all of it is on their link.
    pub on_link: bool,
}

/// A set of hash-based addresses, which cost work to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressSetRecord {
    /// Its place in the store.
    pub number: u8,
    /// What its addresses are made of.
    pub parameters: Parameters,
}

/// All bindings of one home address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRecord {
    /// The mobile router.
    pub home_address: HomeAddress,
    /// Its care-of addresses: identifier (0 if it registered without one), address, priority (RFC 6089, 0 for none).
    pub care_of: Vec<(Bid, Ipv6Addr, u8)>,
    /// Its prefixes.
    pub prefixes: Vec<Prefix>,
    /// The prefixes were listed in the update (explicit mode) and not taken from the prefix table.
    pub explicit: bool,
    /// Flow rules it registered.
    pub flows: Vec<FlowRule>,
    /// Last sequence number accepted.
    pub sequence: Sequence,
    /// Last replay protection timestamp accepted (RFC 4285 §6, NTP format); 0 for none.
    pub timestamp: u64,
    /// End of life of the care-of address that lives longest, microseconds since 1970-01-01T00:00Z.
    pub expires_unix_micros: u64,
    /// End of life of each of `care_of`, in their order; empty if they all end together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_expires_unix_micros: Vec<u64>,
    /// The R flag.
    pub router: bool,
    /// Its link-local address is kept for it on the home link (RFC 6275 §10.3.1, L=1).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub link_local: bool,
    /// Where on the home link it is, if one of `care_of` is the home address itself (RFC 5648 §5.6.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_home: Option<LinkAddress>,
}

/// The last sequence number used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRecord {
    /// Whose.
    pub home_address: HomeAddress,
    /// The number.
    pub sequence: Sequence,
}
