//! Reports of the mobile router and of the home agent.

use super::LossReason;
use super::text::{CareOfText, ListText, care_of_list};
use crate::base::ids::LinkId;
use core::fmt;
use core::time::Duration;
use roam6_wire::mobility::{ErrorStatus, Status};
use roam6_wire::{Bid, HomeAddress, Prefix, Sequence};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum NemoReport {
    /// A care-of address was configured.
    CareOfFormed { link: LinkId, bid: Bid, address: Ipv6Addr },
    /// A care-of address was removed.
    #[serde(rename = "care_of_gone")]
    CareOfRemoved { link: LinkId, bid: Bid, address: Ipv6Addr },
    /// A Binding Update was sent.
    UpdateSent { home_agent: Ipv6Addr, care_of: Vec<Ipv6Addr>, sequence: Sequence, lifetime: Duration },
    /// A Binding Acknowledgement was accepted.
    #[serde(rename = "ack_received")]
    AcknowledgementReceived { home_agent: Ipv6Addr, status: u8, sequence: Sequence, lifetime: Duration },
    /// The mobile router is registered with these care-of addresses; the first carries traffic.
    Bound { home_agent: Ipv6Addr, care_of: Vec<Ipv6Addr>, lifetime: Duration },
    /// The mobile router is no longer registered.
    Unbound { home_agent: Ipv6Addr, why: String },
    /// The mobile router is on its home link and de-registered.
    AtHome { link: LinkId },
    /// Probes of a path are answered again, or for the first time.
    PathUp { bid: Bid, care_of: Ipv6Addr },
    /// A path has failed.
    PathDown { bid: Bid, care_of: Ipv6Addr, why: LossReason },
    /// The path MTU to a peer changed, octets.
    PathMtu { remote: Ipv6Addr, mtu: u32 },
    /// A visited network has delegated a prefix, for nodes of the mobile network.
    PrefixDelegated { link: LinkId, bid: Bid, prefix: Prefix, valid: Duration },
    /// Nodes of the mobile network share the on-link prefix of the visited link.
    PrefixShared { link: LinkId, bid: Bid, prefix: Prefix },
    /// A prefix of a visited network is no longer used.
    PrefixLost { link: LinkId, bid: Bid, prefix: Prefix, why: String },
    /// A visited network delegates no prefix.
    PrefixUnavailable { link: LinkId, bid: Bid, why: String },
    /// The result of Dynamic Home Agent Address Discovery, best first.
    HomeAgents { addresses: Vec<Ipv6Addr> },
    /// The prefixes of the home link changed, or one became deprecated (Mobile Prefix Discovery).
    HomePrefixes { home_agent: Ipv6Addr, prefixes: Vec<Prefix> },
    /// Home agent: a binding was created, moved or refreshed; forwarding is installed and the journal written.
    Registered {
        home_address: HomeAddress,
        care_of: Vec<Ipv6Addr>,
        sequence: Sequence,
        lifetime: Duration,
        moved: bool,
    },
    /// Home agent: a binding ended.
    Deregistered { home_address: HomeAddress, why: String },
    /// Home agent: a Binding Update was rejected with this status (RFC 6275 §6.1.8).
    #[serde(rename = "refused")]
    UpdateRejected { home_address: HomeAddress, care_of: Ipv6Addr, status: u8 },
    /// A fault of the signalling with a peer, or of the path of uplink `bid`. Reported when it begins, not each time it is
    /// detected.
    Fault { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, why: String },
    /// The fault has ended.
    FaultCleared { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, after: Duration },
    /// A Binding Error was sent (1) or received.
    BindingError { peer: Ipv6Addr, status: u8, sent: bool },
}

impl NemoReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            NemoReport::CareOfFormed { .. } => "care_of_formed",
            NemoReport::CareOfRemoved { .. } => "care_of_gone",
            NemoReport::UpdateSent { .. } => "update_sent",
            NemoReport::AcknowledgementReceived { .. } => "ack_received",
            NemoReport::Bound { .. } => "bound",
            NemoReport::Unbound { .. } => "unbound",
            NemoReport::AtHome { .. } => "at_home",
            NemoReport::PathUp { .. } => "path_up",
            NemoReport::PathDown { .. } => "path_down",
            NemoReport::PathMtu { .. } => "path_mtu",
            NemoReport::PrefixDelegated { .. } => "prefix_delegated",
            NemoReport::PrefixShared { .. } => "prefix_shared",
            NemoReport::PrefixLost { .. } => "prefix_lost",
            NemoReport::PrefixUnavailable { .. } => "prefix_unavailable",
            NemoReport::HomeAgents { .. } => "home_agents",
            NemoReport::HomePrefixes { .. } => "home_prefixes",
            NemoReport::Registered { .. } => "registered",
            NemoReport::Deregistered { .. } => "deregistered",
            NemoReport::UpdateRejected { .. } => "refused",
            NemoReport::Fault { .. } => "fault",
            NemoReport::FaultCleared { .. } => "fault_cleared",
            NemoReport::BindingError { .. } => "binding_error",
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            NemoReport::CareOfFormed { link, .. }
            | NemoReport::CareOfRemoved { link, .. }
            | NemoReport::AtHome { link, .. }
            | NemoReport::PrefixDelegated { link, .. }
            | NemoReport::PrefixShared { link, .. }
            | NemoReport::PrefixLost { link, .. }
            | NemoReport::PrefixUnavailable { link, .. } => Some(*link),
            NemoReport::UpdateSent { .. }
            | NemoReport::AcknowledgementReceived { .. }
            | NemoReport::Bound { .. }
            | NemoReport::Unbound { .. }
            | NemoReport::PathUp { .. }
            | NemoReport::PathDown { .. }
            | NemoReport::PathMtu { .. }
            | NemoReport::HomeAgents { .. }
            | NemoReport::HomePrefixes { .. }
            | NemoReport::Registered { .. }
            | NemoReport::Deregistered { .. }
            | NemoReport::UpdateRejected { .. }
            | NemoReport::Fault { .. }
            | NemoReport::FaultCleared { .. }
            | NemoReport::BindingError { .. } => None,
        }
    }
}

impl fmt::Display for NemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NemoReport::CareOfFormed { link, bid, address } => {
                write!(f, "{link}: care-of address {}, bid {bid}", CareOfText(address))
            }
            NemoReport::CareOfRemoved { link, bid, address } => {
                write!(f, "{link}: care-of address {}, bid {bid}, removed", CareOfText(address))
            }
            NemoReport::UpdateSent { home_agent, sequence, lifetime: Duration::ZERO, .. } => {
                write!(f, "binding update {sequence} to {home_agent}: de-registration")
            }
            NemoReport::UpdateSent { home_agent, care_of, sequence, lifetime } => {
                write!(
                    f,
                    "binding update {sequence} to {home_agent}: {} for {}s",
                    care_of_list(care_of),
                    lifetime.as_secs()
                )
            }
            NemoReport::AcknowledgementReceived { home_agent, status, sequence, lifetime } => {
                let lifetime = lifetime.as_secs();
                write!(
                    f,
                    "binding acknowledgement {sequence} from {home_agent}: status {} for {lifetime}s",
                    Status(*status)
                )
            }
            NemoReport::Bound { home_agent, care_of, lifetime } => {
                write!(f, "bound at {home_agent}: {} for {}s", care_of_list(care_of), lifetime.as_secs())
            }
            NemoReport::Unbound { home_agent, why } => write!(f, "binding at {home_agent} ended: {why}"),
            NemoReport::AtHome { link } => write!(f, "{link}: at home"),
            NemoReport::PathUp { bid, care_of } => write!(f, "path {bid} by {} is up", CareOfText(care_of)),
            NemoReport::PathDown { bid, care_of, why } => {
                write!(f, "path {bid} by {} is down: {why}", CareOfText(care_of))
            }
            NemoReport::PathMtu { remote, mtu } => write!(f, "path to {}: MTU {mtu} octets", CareOfText(remote)),
            NemoReport::PrefixDelegated { link, bid, prefix, valid } => {
                write!(f, "{link}: prefix {prefix} delegated, bid {bid}, for {}s", valid.as_secs())
            }
            NemoReport::PrefixShared { link, bid, prefix } => write!(f, "{link}: prefix {prefix} shared, bid {bid}"),
            NemoReport::PrefixLost { link, bid, prefix, why } => {
                write!(f, "{link}: prefix {prefix}, bid {bid}, lost: {why}")
            }
            NemoReport::PrefixUnavailable { link, bid, why } => {
                write!(f, "{link}: no prefix available, bid {bid}: {why}")
            }
            NemoReport::HomeAgents { addresses } => write!(f, "home agents: {}", ListText(addresses)),
            NemoReport::HomePrefixes { home_agent, prefixes } => {
                write!(f, "home prefixes by {home_agent}: {}", ListText(prefixes))
            }
            NemoReport::Registered { home_address, care_of, sequence, lifetime, moved } => {
                let (verb, lifetime) = (if *moved { "moved" } else { "registered" }, lifetime.as_secs());
                write!(f, "{home_address} {verb}: {} for {lifetime}s, update {sequence}", care_of_list(care_of))
            }
            NemoReport::Deregistered { home_address, why } => write!(f, "{home_address} deregistered: {why}"),
            NemoReport::UpdateRejected { home_address, care_of, status } => {
                write!(f, "{home_address} by {} refused: status {}", CareOfText(care_of), Status(*status))
            }
            NemoReport::Fault { home_address, peer, bid: None, why } => {
                write!(f, "{home_address}, {}: {why}", CareOfText(peer))
            }
            NemoReport::Fault { peer, bid: Some(bid), why, .. } => {
                write!(f, "path {bid} to {}: {why}", CareOfText(peer))
            }
            NemoReport::FaultCleared { home_address, peer, bid: None, after } => {
                write!(f, "{home_address}, {}: works again after {}s", CareOfText(peer), after.as_secs())
            }
            NemoReport::FaultCleared { peer, bid: Some(bid), after, .. } => {
                write!(f, "path {bid} to {}: works again after {}s", CareOfText(peer), after.as_secs())
            }
            NemoReport::BindingError { peer, status, sent } => {
                let (status, way) = (ErrorStatus(*status), if *sent { "to" } else { "from" });
                write!(f, "binding error {way} {}: {status}", CareOfText(peer))
            }
        }
    }
}
