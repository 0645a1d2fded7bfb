//! State of a fleet, as one of its members sees it.

use crate::contract::fleet::MemberState;
use crate::contract::item::Revision;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// The fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetView {
    /// Its name.
    pub name: String,
    /// This member.
    pub member: String,
    /// Its state.
    pub state: MemberState,
    /// Why it is in this state.
    pub why: String,
    /// Age of the last change of its state.
    pub changed: Duration,
    /// All changes of the store up to this revision are known here.
    pub applied: Revision,
    /// The present fault of the store; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_fault: Option<String>,
    /// Time until the first binding ends that nobody can refresh; `None` unless the store is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_end: Option<Duration>,
    /// Commits that the store has kept.
    pub kept: u64,
    /// Commits that found another revision.
    pub conflicts: u64,
    /// Commits whose result is not known.
    pub unknown: u64,
    /// Commits that the store did not take.
    pub unavailable: u64,
    /// The other members.
    pub members: Vec<MemberView>,
}

/// Another member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// Its name.
    pub name: String,
    /// Addresses of its machine.
    pub addresses: Vec<Ipv6Addr>,
    /// Its version of roam6.
    pub version: String,
    /// Its state.
    pub state: MemberState,
    /// All changes of the store up to this revision are known there.
    pub applied: Revision,
    /// By how much the clock here is ahead of its clock, microseconds; negative: behind.
    pub skew_micros: i64,
    /// Time since its last heartbeat came.
    pub seen: Duration,
}
