//! What the store of a fleet tells a member: results of its commits, records of the others, members, faults.
//!
//! The host owns the connection to the store, this member's heartbeat (its key `m/NAME`, with a lease, put again each
//! [`HEARTBEAT_INTERVAL`]) and the copy of the store on disk. It gives all events in the order of their revisions, except for
//! the results of commits, which come as the store answers.

use crate::contract::config::nemo::PrefixTableRow;
use crate::contract::item::{BindingRecord, Revision};
use core::time::Duration;
use derive_more::Display;
use roam6_wire::{HomeAddress, Prefix};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use strum::IntoStaticStr;

/// Interval of a member's heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(400);

/// What became of a [`FleetRecord`](crate::contract::item::FleetRecord).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// A quorum of the store has it, at this revision.
    Kept(Revision),
    /// The store has another revision than the expected one: the newest.
    Conflict(Stored),
    /// Another home address holds this prefix of the pool, which the record claims.
    PrefixTaken(Prefix),
    /// The store did not answer in time: the record may have been committed. If it was, it comes as [`FleetEvent::Stored`].
    Unknown,
    /// The record was not committed, and why.
    Unavailable(String),
}

/// The newest state of a home address in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The home address.
    pub home_address: HomeAddress,
    /// Of the record; if there is none, of its deletion or of the answer that says so.
    pub revision: Revision,
    /// The record; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<BindingRecord>>,
}

/// An event of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetEvent {
    /// The store answers, and events will follow. At the start, and after [`FleetEvent::Disconnected`].
    Connected,
    /// The store does not answer, and why; the connection is established again and again.
    Disconnected(String),
    /// The copy on disk was given, and the store does not answer.
    Copied,
    /// The state of a home address: from the copy on disk before the first [`FleetEvent::Connected`], in a snapshot, or as
    /// it changes. Changes that this member has made come too.
    Stored(Stored),
    /// A snapshot of all home addresses begins, as of this revision: the changes before it are not known.
    SnapshotBegins(Revision),
    /// The snapshot is complete: home addresses that it did not name have no record. Changes follow.
    SnapshotEnds(Revision),
    /// All changes up to this revision were given.
    Head {
        /// The revision.
        revision: Revision,
        /// The event was a heartbeat of this member: the time since it was written, by the monotonic clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own_heartbeat: Option<Duration>,
    },
    /// The heartbeat of another member.
    Member(MemberRecord),
    /// The lease of another member has expired, or it has left.
    MemberGone(String),
    /// A row of the prefix table.
    Row(Box<PrefixTableRow>),
    /// A row of the prefix table was deleted.
    RowGone(HomeAddress),
    /// A path MTU that another member has learnt.
    PathMtu {
        /// The care-of address.
        remote: Ipv6Addr,
        /// Octets.
        mtu: u32,
    },
    /// The store cannot be used, or a part of it.
    Fault(StoreFault),
}

/// A heartbeat of a member, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: MemberState,
    /// All changes up to this revision were given to it.
    pub applied: Revision,
    /// Its wall clock when it wrote this, microseconds since 1970-01-01T00:00Z.
    pub unix_micros: u64,
    /// Its version of roam6.
    pub version: String,
    /// Addresses of its machine, for the operator.
    #[serde(default)]
    pub addresses: Vec<Ipv6Addr>,
}

/// States of a member.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Display, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// It reads the store: it is not announced, and acknowledges nothing.
    #[default]
    #[display("joining")]
    Joining,
    /// It serves.
    #[display("healthy")]
    Healthy,
    /// It has lost the store: it is announced with a worse metric, forwards what it knows, and acknowledges nothing.
    #[display("degraded")]
    Degraded,
    /// It hands over to others: it is announced with a worse metric, and still acknowledges.
    #[display("draining")]
    Draining,
    /// It has handed over: it is not announced, and acknowledges nothing.
    #[display("gone")]
    Gone,
}

/// Why the store, or a part of it, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreFault {
    /// It is that of another fleet.
    #[display("the store has another fleet of this name: {difference}")]
    OtherFleet {
        /// What differs.
        difference: String,
    },
    /// Its format is one that this version does not speak.
    #[display("the store has format {has}, and this version speaks {speaks}: update roam6")]
    OtherFormat {
        /// The store's.
        has: u32,
        /// The newest one of this version.
        speaks: u32,
    },
    /// The other members have other WireGuard keys: packets that reach this one could not be decrypted.
    #[display(
        "the members of the fleet have other WireGuard keys ({theirs}) than this one ({own}): stop roam6 here, copy wireguard.keys \
         from the state_dir of another member into the state_dir of this one, and start it; if the keys of all members were \
         replaced, stop all, run etcdctl del {key}, and start them"
    )]
    OtherKeys {
        /// The key of the store.
        key: String,
        /// The fingerprint of theirs.
        theirs: String,
        /// That of this member's.
        own: String,
    },
    /// The other members encrypt, and this one does not.
    #[display(
        "the members of the fleet encrypt, and this one does not: write encrypt in [home_agent] as the others, and copy \
         wireguard.keys from the state_dir of another member; if none shall encrypt any more, run etcdctl del {key}"
    )]
    Unencrypted {
        /// The key of the store.
        key: String,
    },
    /// It refuses user or password, or permits too little.
    #[display("the store refuses the user, or permits too little: {_0}")]
    Credentials(String),
    /// It is full: it refuses writes.
    #[display("the store is full: compact and defragment it, or raise its quota")]
    Full,
    /// A value is malformed; what this member knows of it stays.
    #[display("{key} in the store is malformed: {why}")]
    Damaged {
        /// Its key.
        key: String,
        /// Why.
        why: String,
    },
    /// The majority of its nodes does not answer.
    #[display("the store has no quorum")]
    NoQuorum,
    /// This member's copy of it on disk is not written any more, or begins again.
    #[display("the copy of the store on disk: {why}")]
    Copy {
        /// Why.
        why: String,
    },
    /// It is older than what this member has seen of it: it was wiped, or restored from a backup.
    #[display(
        "the store is at revision {head}, and this member has seen {seen}: it was wiped, or restored from a backup"
    )]
    RolledBack {
        /// Its head.
        head: Revision,
        /// The last revision seen.
        seen: Revision,
    },
}
