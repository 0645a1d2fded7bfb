//! What happened, as values: a log line, a counter, the event stream and the handover timeline are renderings of these.

use crate::base::ids::{AddressPair, ContextId};
use crate::base::ids::{LinkId, MptcpToken};
use crate::contract::item::Key;
use core::fmt;
use core::time::Duration;
use roam6_wire::geo::Coordinates;
use roam6_wire::mobility::{ErrorStatus, Status};
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint, LinkAddress, Prefix, Sequence};
use serde::{Deserialize, Serialize};
use std::net::{Ipv6Addr, SocketAddrV6};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the standard's own terms, and their types say what they hold")]
pub enum Report {
    /// An interface in use came up.
    LinkUp { link: LinkId, name: String },
    /// An interface in use went down.
    LinkDown { link: LinkId, name: String },
    /// A Router Solicitation was sent.
    #[serde(rename = "solicited")]
    RouterSolicitationSent { link: LinkId },
    /// An advertisement of a router not known on this link until now.
    RouterFound { link: LinkId, router: Ipv6Addr, prefix: Option<Prefix> },
    /// A router is no longer used.
    RouterLost { link: LinkId, router: Ipv6Addr, why: LossReason },
    /// A care-of address was formed.
    CareOfFormed { link: LinkId, bid: Bid, address: Ipv6Addr },
    /// A care-of address was given up.
    #[serde(rename = "care_of_gone")]
    CareOfRemoved { link: LinkId, bid: Bid, address: Ipv6Addr },
    /// Another node holds an address we formed.
    #[serde(rename = "duplicate")]
    DuplicateAddress { link: LinkId, address: Ipv6Addr },
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
    /// A path answers probes again, or for the first time.
    PathUp { bid: Bid, care_of: Ipv6Addr },
    /// A path is dead.
    PathDown { bid: Bid, care_of: Ipv6Addr, why: LossReason },
    /// Path MTU to a peer was learnt, octets.
    PathMtu { remote: Ipv6Addr, mtu: u32 },
    /// A visited network has delegated a prefix to us, for nodes inside to use.
    PrefixDelegated { link: LinkId, bid: Bid, prefix: Prefix, valid: Duration },
    /// Nodes inside share the prefix of the visited link itself.
    PrefixShared { link: LinkId, bid: Bid, prefix: Prefix },
    /// A prefix of a visited network is no longer to be used.
    PrefixLost { link: LinkId, bid: Bid, prefix: Prefix, why: String },
    /// A visited network has no prefix for us.
    PrefixUnavailable { link: LinkId, bid: Bid, why: String },
    /// Home agents that answered discovery, best first.
    HomeAgents { addresses: Vec<Ipv6Addr> },
    /// The prefixes of the home link changed, or one became deprecated (mobile prefix discovery).
    HomePrefixes { home_agent: Ipv6Addr, prefixes: Vec<Prefix> },
    /// Home agent: a binding is made, moved or refreshed, forwarding stands and the journal is written.
    Registered {
        home_address: HomeAddress,
        care_of: Vec<Ipv6Addr>,
        sequence: Sequence,
        lifetime: Duration,
        moved: bool,
    },
    /// Home agent: a binding ended.
    Deregistered { home_address: HomeAddress, why: String },
    /// Home agent: an update was answered with an error status (RFC 6275 §6.1.8).
    #[serde(rename = "refused")]
    UpdateRejected { home_address: HomeAddress, care_of: Ipv6Addr, status: u8 },
    /// Signalling or a path does not work: with a mobile router, by uplink `bid` if it is about one path, or at a mobile
    /// router with its home agent. Reported when it begins, not each time it shows.
    Fault { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, why: String },
    /// It works again, after so long.
    FaultCleared { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, after: Duration },
    /// Items were missing in the kernel and were put back.
    #[serde(rename = "restored")]
    ItemsRestored { items: usize },
    /// A Binding Error was sent (1) or received.
    BindingError { peer: Ipv6Addr, status: u8, sent: bool },
    /// An address became one the kernel's MPTCP makes subflows from.
    EndpointUp { link: LinkId, address: Ipv6Addr, backup: bool },
    /// Subflows are no longer made from an address, and those there were end.
    EndpointDown { link: LinkId, address: Ipv6Addr },
    /// A subflow of a connection stands; `first` of the connection.
    SubflowUp { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6, backup: bool, first: bool },
    /// The peer made a subflow a backup, or no longer one (MP_PRIO).
    #[serde(rename = "subflow_changed")]
    SubflowPriorityChanged { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6 },
    /// A subflow ended, by this error number if not 0.
    SubflowDown { token: MptcpToken, local: SocketAddrV6, remote: SocketAddrV6, error: u8 },
    /// A connection of the kernel's MPTCP ended.
    #[serde(rename = "disconnected")]
    ConnectionClosed { token: MptcpToken },
    /// Shim: an address of its own making stands.
    #[serde(rename = "address_made")]
    AddressConfigured { link: LinkId, address: Ipv6Addr, prefix: Prefix },
    /// Shim: it stands no more.
    #[serde(rename = "address_left")]
    AddressRemoved { link: LinkId, address: Ipv6Addr },
    /// Shim: a context stands, its packets take this path for now; so many locators of the peer are known.
    ContextUp { context: ContextId, path: AddressPair, locators: usize },
    /// Shim: a context was made anew, or the peer has told of itself again.
    ContextRenewed { context: ContextId, path: AddressPair, locators: usize },
    /// Shim: a context ended.
    ContextDown { context: ContextId, why: String },
    /// Shim: the path seems not to work, or another is wanted; others are being tried.
    PathLost { context: ContextId, path: AddressPair, why: String },
    /// Shim: packets of the context take this path from now on, found so long after the search began.
    PathChanged { context: ContextId, path: AddressPair, after: Duration },
    /// Shim: the path works after all.
    #[serde(rename = "path_works")]
    PathRecovered { context: ContextId, path: AddressPair },
    /// Shim: a peer is not asked for a context for a while.
    #[serde(rename = "no_shim")]
    ShimUnavailable { peer: Ipv6Addr, why: String },
    /// A router nearby has a network behind it, to which packets go straight from now on.
    NetworkFound { link: LinkId, router: Ipv6Addr, prefix: Prefix },
    /// They no longer do.
    NetworkLost { link: LinkId, router: Ipv6Addr, prefix: Prefix, why: LossReason },
    /// GeoNetworking: a station has answered a question; `arrived` says whether the question was for it or only ended its
    /// way there, `again` whether it has answered before.
    #[serde(rename = "echo")]
    EchoReply {
        identifier: u32,
        sequence: u32,
        mid: LinkAddress,
        kind: String,
        place: Coordinates,
        hops: u8,
        octets: usize,
        rtt: Duration,
        arrived: bool,
        again: bool,
    },
    /// Another station tells of an event (DENM), for the first time or otherwise than before.
    #[serde(rename = "event_heard")]
    DenmReceived { station: u32, sequence: u16, cause: u8, sub_cause: u8 },
    /// An event is over, says who may.
    #[serde(rename = "event_over")]
    DenmTerminated { station: u32, sequence: u16 },
    /// Another station announces services (SAM), and maybe a way to the Internet, for the first time or otherwise than
    /// before.
    #[serde(rename = "services_heard")]
    SamReceived { station: u32, services: usize, routing: bool },
    /// GeoNetworking: a question was not asked.
    #[serde(rename = "echo_refused")]
    EchoNotSent { identifier: u32, sequence: u32, why: String },
    /// A packet was dropped.
    Dropped { reason: DropReason, from: Option<Ipv6Addr>, detail: String },
    /// A named table is full: what would have been added was not.
    TableFull { table: String, limit: usize },
    /// The host refused an item, in the kernel's own words.
    #[serde(rename = "failed")]
    ItemRefused { key: Key, why: String },
    /// Something an operator should look at.
    Notice { text: String },
}

/// Why a path, router or link is no longer used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// Its interface is down.
    LinkDown,
    /// Its lifetime ended.
    Expired,
    /// Neighbour unreachability detection gave up.
    Unreachable,
    /// The advertised prefixes changed: this is another network.
    #[serde(rename = "replaced")]
    PrefixChanged,
    /// Probes remain unanswered.
    #[serde(rename = "silent")]
    ProbesLost,
    /// The home agent does not accept it.
    Refused,
    /// No longer announced, or no longer accepted.
    Withdrawn,
}

/// Why a packet was dropped; each is a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Not the message it claims to be.
    Malformed,
    /// For an address or a role this node does not have.
    NotForUs,
    /// A neighbour discovery message that failed the checks of RFC 4861 §6.1 and §7.1, or a Binding Update from a home
    /// address that did not come by the home link.
    NotOnLink,
    /// No mobility security association with the sender.
    NoAssociation,
    /// The authenticator does not verify.
    BadAuthenticator,
    /// The authentication or replay protection option is missing.
    NotAuthenticated,
    /// Timestamp seen before or too far away.
    Replayed,
    /// Sequence number out of window.
    StaleSequence,
    /// An acknowledgement nobody waits for.
    Unsolicited,
    /// More of the kind than the limiter lets through.
    RateLimited,
    /// A validator that was never made, not for this, or too long ago.
    BadValidator,
    /// Addresses the sender has not proved to be its own.
    Unverified,
    /// A peer says that it did not like a message of ours.
    PeerError,
    /// Received before.
    Duplicate,
    /// In a security envelope, which nothing here opens.
    Secured,
    /// For an area larger than allowed.
    AreaTooLarge,
    /// Waited until its lifetime ended.
    Expired,
    /// Given up for others that wait.
    BufferFull,
    /// Nobody is there to send it to.
    NoNeighbour,
    /// Sent by a station that does not know where it is.
    NoPosition,
    /// Longer than can be sent.
    TooLong,
    /// A position that its source cannot have: of a time to come, or too far away for a neighbour.
    Implausible,
}

impl Report {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            Report::LinkUp { .. } => "link_up",
            Report::LinkDown { .. } => "link_down",
            Report::RouterSolicitationSent { .. } => "solicited",
            Report::RouterFound { .. } => "router_found",
            Report::RouterLost { .. } => "router_lost",
            Report::CareOfFormed { .. } => "care_of_formed",
            Report::CareOfRemoved { .. } => "care_of_gone",
            Report::DuplicateAddress { .. } => "duplicate",
            Report::UpdateSent { .. } => "update_sent",
            Report::AcknowledgementReceived { .. } => "ack_received",
            Report::Bound { .. } => "bound",
            Report::Unbound { .. } => "unbound",
            Report::AtHome { .. } => "at_home",
            Report::PathUp { .. } => "path_up",
            Report::PathDown { .. } => "path_down",
            Report::PathMtu { .. } => "path_mtu",
            Report::PrefixDelegated { .. } => "prefix_delegated",
            Report::PrefixShared { .. } => "prefix_shared",
            Report::PrefixLost { .. } => "prefix_lost",
            Report::PrefixUnavailable { .. } => "prefix_unavailable",
            Report::HomeAgents { .. } => "home_agents",
            Report::HomePrefixes { .. } => "home_prefixes",
            Report::Registered { .. } => "registered",
            Report::Deregistered { .. } => "deregistered",
            Report::UpdateRejected { .. } => "refused",
            Report::Fault { .. } => "fault",
            Report::FaultCleared { .. } => "fault_cleared",
            Report::ItemsRestored { .. } => "restored",
            Report::BindingError { .. } => "binding_error",
            Report::EndpointUp { .. } => "endpoint_up",
            Report::EndpointDown { .. } => "endpoint_down",
            Report::SubflowUp { .. } => "subflow_up",
            Report::SubflowPriorityChanged { .. } => "subflow_changed",
            Report::SubflowDown { .. } => "subflow_down",
            Report::ConnectionClosed { .. } => "disconnected",
            Report::AddressConfigured { .. } => "address_made",
            Report::AddressRemoved { .. } => "address_left",
            Report::ContextUp { .. } => "context_up",
            Report::ContextRenewed { .. } => "context_renewed",
            Report::ContextDown { .. } => "context_down",
            Report::PathLost { .. } => "path_lost",
            Report::PathChanged { .. } => "path_changed",
            Report::PathRecovered { .. } => "path_works",
            Report::ShimUnavailable { .. } => "no_shim",
            Report::NetworkFound { .. } => "network_found",
            Report::NetworkLost { .. } => "network_lost",
            Report::EchoReply { .. } => "echo",
            Report::DenmReceived { .. } => "event_heard",
            Report::DenmTerminated { .. } => "event_over",
            Report::SamReceived { .. } => "services_heard",
            Report::EchoNotSent { .. } => "echo_refused",
            Report::Dropped { .. } => "dropped",
            Report::TableFull { .. } => "table_full",
            Report::ItemRefused { .. } => "failed",
            Report::Notice { .. } => "notice",
        }
    }
}

/// One line for the log, without time or level. Interfaces are given by number, as [`LinkId`] displays it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Report as R;
        match self {
            R::LinkUp { name, .. } => write!(f, "{name}: up"),
            R::LinkDown { name, .. } => write!(f, "{name}: down"),
            R::RouterSolicitationSent { link } => write!(f, "{link}: asked for routers"),
            R::RouterFound { link, router, prefix: Some(prefix) } => write!(f, "{link}: router {router} on {prefix}"),
            R::RouterFound { link, router, prefix: None } => write!(f, "{link}: router {router}"),
            R::RouterLost { link, router, why } => write!(f, "{link}: router {router} lost: {why}"),
            R::CareOfFormed { link, bid, address } => {
                write!(f, "{link}: care-of address {}, bid {bid}", CareOfText(address))
            }
            R::CareOfRemoved { link, bid, address } => {
                write!(f, "{link}: care-of address {}, bid {bid}, given up", CareOfText(address))
            }
            R::DuplicateAddress { link, address } => write!(f, "{link}: {address} is used by another node"),
            R::Dropped { reason, from: Some(from), detail } => {
                write!(f, "dropped a packet from {}: {}: {detail}", CareOfText(from), reason.name())
            }
            R::Dropped { reason, from: None, detail } => write!(f, "dropped a packet: {}: {detail}", reason.name()),
            R::TableFull { table, limit } => write!(f, "table {table} is full at {limit}"),
            R::ItemRefused { key, why } => write!(f, "the host refused {key}: {why}"),
            R::Notice { text } => f.write_str(text),
            R::NetworkFound { link, router, prefix } => {
                write!(f, "{link}: {prefix} is behind {router}, and reached directly")
            }
            R::NetworkLost { link, router, prefix, why } => {
                write!(f, "{link}: {prefix} is no longer reached by {router}: {why}")
            }
            R::EchoReply { mid, kind, place, rtt, .. } => {
                write!(f, "echo of {mid}, {kind} at {place}, after {} us", rtt.as_micros())
            }
            R::DenmReceived { station, sequence, cause, sub_cause } => {
                write!(f, "station {station} tells of event {sequence}: cause {cause}, {sub_cause}")
            }
            R::DenmTerminated { station, sequence } => write!(f, "event {sequence} of station {station} is over"),
            R::SamReceived { station, services, routing } => {
                let way = if *routing { ", and a way to the Internet" } else { "" };
                write!(f, "station {station} announces services: {services}{way}")
            }
            R::EchoNotSent { why, .. } => write!(f, "a question was not asked: {why}"),
            R::EndpointUp { .. } | R::EndpointDown { .. } | R::ConnectionClosed { .. } => self.fmt_paths(f),
            R::SubflowUp { .. } | R::SubflowPriorityChanged { .. } | R::SubflowDown { .. } => self.fmt_paths(f),
            R::PrefixDelegated { .. } | R::PrefixShared { .. } | R::PrefixLost { .. } | R::PrefixUnavailable { .. } => {
                self.fmt_prefixes(f)
            }
            other => other.fmt_shim(f),
        }
    }
}

impl Report {
    /// The interface the report is about, if it is about one.
    pub fn link(&self) -> Option<LinkId> {
        use Report as R;
        match self {
            R::LinkUp { link, .. }
            | R::LinkDown { link, .. }
            | R::RouterSolicitationSent { link }
            | R::RouterFound { link, .. }
            | R::RouterLost { link, .. }
            | R::CareOfFormed { link, .. }
            | R::CareOfRemoved { link, .. }
            | R::DuplicateAddress { link, .. }
            | R::AtHome { link }
            | R::PrefixDelegated { link, .. }
            | R::PrefixShared { link, .. }
            | R::PrefixLost { link, .. }
            | R::PrefixUnavailable { link, .. }
            | R::EndpointUp { link, .. }
            | R::EndpointDown { link, .. }
            | R::AddressConfigured { link, .. }
            | R::AddressRemoved { link, .. }
            | R::NetworkFound { link, .. }
            | R::NetworkLost { link, .. } => Some(*link),
            _ => None,
        }
    }

    /// The lines about connections that take several paths.
    fn fmt_paths(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Report as R;
        let kind = |backup: &bool| if *backup { "backup" } else { "regular" };
        match self {
            R::EndpointUp { link, address, backup } => write!(f, "{link}: endpoint {address}, {}", kind(backup)),
            R::EndpointDown { link, address } => write!(f, "{link}: endpoint {address} given up"),
            R::SubflowUp { token, local, remote, backup, first } => {
                let what = if *first { "connected" } else { "subflow" };
                write!(f, "connection {token}: {what} {local} to {remote}, {}", kind(backup))
            }
            R::SubflowPriorityChanged { token, local, remote } => {
                write!(f, "connection {token}: the peer changed the use of subflow {local} to {remote}")
            }
            R::SubflowDown { token, local, remote, error } => {
                write!(f, "connection {token}: subflow {local} to {remote} ended, error {error}")
            }
            R::ConnectionClosed { token } => write!(f, "connection {token} ended"),
            other => f.write_str(other.name()),
        }
    }

    /// The lines about prefixes of visited networks.
    fn fmt_prefixes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Report as R;
        match self {
            R::PrefixDelegated { link, bid, prefix, valid } => {
                write!(f, "{link}: prefix {prefix} delegated, bid {bid}, for {}s", valid.as_secs())
            }
            R::PrefixShared { link, bid, prefix } => write!(f, "{link}: prefix {prefix} shared, bid {bid}"),
            R::PrefixLost { link, bid, prefix, why } => write!(f, "{link}: prefix {prefix}, bid {bid}, lost: {why}"),
            R::PrefixUnavailable { link, bid, why } => write!(f, "{link}: no prefix to be had, bid {bid}: {why}"),
            other => f.write_str(other.name()),
        }
    }

    /// The lines about contexts.
    fn fmt_shim(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Report as R;
        match self {
            R::AddressConfigured { address, prefix, .. } => write!(f, "address {address} in {prefix} configured"),
            R::AddressRemoved { address, .. } => write!(f, "address {address} removed"),
            R::ContextUp { context, path, locators } => write!(f, "{context}: up by {path}, {locators} locators there"),
            R::ContextRenewed { context, path, locators } => {
                write!(f, "{context}: renewed by {path}, {locators} locators there")
            }
            R::ContextDown { context, why } => write!(f, "{context}: ended: {why}"),
            R::PathLost { context, path, why } => write!(f, "{context}: looks for another path than {path}: {why}"),
            R::PathChanged { context, path, after } => {
                write!(f, "{context}: takes {path}, found after {} ms", after.as_millis())
            }
            R::PathRecovered { context, path } => write!(f, "{context}: path {path} recovered"),
            R::ShimUnavailable { peer, why } => write!(f, "{peer}: no context: {why}"),
            other => other.fmt_signalling(f),
        }
    }

    /// The lines about updates, bindings and paths.
    fn fmt_signalling(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Report as R;
        match self {
            R::UpdateSent { home_agent, sequence, lifetime: Duration::ZERO, .. } => {
                write!(f, "update {sequence} to {home_agent}: de-registers")
            }
            R::UpdateSent { home_agent, care_of, sequence, lifetime } => {
                write!(f, "update {sequence} to {home_agent}: {} for {}s", care_of_list(care_of), lifetime.as_secs())
            }
            R::AcknowledgementReceived { home_agent, status, sequence, lifetime } => {
                let lifetime = lifetime.as_secs();
                write!(f, "acknowledgement {sequence} from {home_agent}: status {} for {lifetime}s", Status(*status))
            }
            R::Bound { home_agent, care_of, lifetime } => {
                write!(f, "bound at {home_agent}: {} for {}s", care_of_list(care_of), lifetime.as_secs())
            }
            R::Unbound { home_agent, why } => write!(f, "no longer bound at {home_agent}: {why}"),
            R::AtHome { link } => write!(f, "{link}: at home"),
            R::PathUp { bid, care_of } => write!(f, "path {bid} by {} is up", CareOfText(care_of)),
            R::PathDown { bid, care_of, why } => write!(f, "path {bid} by {} is down: {why}", CareOfText(care_of)),
            R::PathMtu { remote, mtu } => write!(f, "path to {}: MTU {mtu} octets", CareOfText(remote)),
            R::HomeAgents { addresses } => write!(f, "home agents: {}", ListText(addresses)),
            R::HomePrefixes { home_agent, prefixes } => {
                write!(f, "home prefixes by {home_agent}: {}", ListText(prefixes))
            }
            R::Registered { home_address, care_of, sequence, lifetime, moved } => {
                let (verb, lifetime) = (if *moved { "moved" } else { "registered" }, lifetime.as_secs());
                write!(f, "{home_address} {verb}: {} for {lifetime}s, update {sequence}", care_of_list(care_of))
            }
            R::Deregistered { home_address, why } => write!(f, "{home_address} deregistered: {why}"),
            R::UpdateRejected { home_address, care_of, status } => {
                write!(f, "{home_address} by {} refused: status {}", CareOfText(care_of), Status(*status))
            }
            R::Fault { home_address, peer, bid: None, why } => write!(f, "{home_address}, {}: {why}", CareOfText(peer)),
            R::Fault { peer, bid: Some(bid), why, .. } => write!(f, "path {bid} to {}: {why}", CareOfText(peer)),
            R::FaultCleared { home_address, peer, bid: None, after } => {
                write!(f, "{home_address}, {}: works again after {}s", CareOfText(peer), after.as_secs())
            }
            R::FaultCleared { peer, bid: Some(bid), after, .. } => {
                write!(f, "path {bid} to {}: works again after {}s", CareOfText(peer), after.as_secs())
            }
            R::ItemsRestored { items } => {
                write!(f, "restored {items} items that the kernel or another program had removed")
            }
            R::BindingError { peer, status, sent } => {
                let (status, way) = (ErrorStatus(*status), if *sent { "to" } else { "from" });
                write!(f, "binding error {way} {}: {status}", CareOfText(peer))
            }
            other => f.write_str(other.name()),
        }
    }
}

/// Care-of addresses on one line.
fn care_of_list(addresses: &[Ipv6Addr]) -> String {
    let each: Vec<String> = addresses.iter().map(|address| CareOfText(address).to_string()).collect();
    ListText(&each).to_string()
}

/// A care-of address; one of IPv4 as such.
struct CareOfText<'a>(&'a Ipv6Addr);

impl fmt::Display for CareOfText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ipv4Endpoint::from_ipv6(*self.0) {
            Some(end) => end.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// Addresses or prefixes on one line.
struct ListText<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for ListText<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, address) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

impl DropReason {
    /// Every reason there is.
    pub const ALL: [DropReason; 22] = [
        DropReason::Malformed,
        DropReason::NotForUs,
        DropReason::NotOnLink,
        DropReason::NoAssociation,
        DropReason::BadAuthenticator,
        DropReason::NotAuthenticated,
        DropReason::Replayed,
        DropReason::StaleSequence,
        DropReason::Unsolicited,
        DropReason::RateLimited,
        DropReason::BadValidator,
        DropReason::Unverified,
        DropReason::PeerError,
        DropReason::Duplicate,
        DropReason::Secured,
        DropReason::AreaTooLarge,
        DropReason::Expired,
        DropReason::BufferFull,
        DropReason::NoNeighbour,
        DropReason::NoPosition,
        DropReason::TooLong,
        DropReason::Implausible,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::NotForUs => "not_for_us",
            DropReason::NotOnLink => "not_on_link",
            DropReason::NoAssociation => "no_association",
            DropReason::BadAuthenticator => "bad_authenticator",
            DropReason::NotAuthenticated => "not_authenticated",
            DropReason::Replayed => "replayed",
            DropReason::StaleSequence => "stale_sequence",
            DropReason::Unsolicited => "unsolicited",
            DropReason::RateLimited => "rate_limited",
            DropReason::BadValidator => "bad_validator",
            DropReason::Unverified => "unverified",
            DropReason::PeerError => "peer_error",
            DropReason::Duplicate => "duplicate",
            DropReason::Secured => "secured",
            DropReason::AreaTooLarge => "area_too_large",
            DropReason::Expired => "expired",
            DropReason::BufferFull => "buffer_full",
            DropReason::NoNeighbour => "no_neighbour",
            DropReason::NoPosition => "no_position",
            DropReason::TooLong => "too_long",
            DropReason::Implausible => "implausible",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::LinkDown => "link down",
            LossReason::Expired => "lifetime ended",
            LossReason::Unreachable => "neighbour unreachable",
            LossReason::PrefixChanged => "another network",
            LossReason::ProbesLost => "probes unanswered",
            LossReason::Refused => "refused by the home agent",
            LossReason::Withdrawn => "withdrawn",
        })
    }
}
