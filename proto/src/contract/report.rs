//! What happened, as values: a log line, a counter, the event stream and the handover timeline are renderings of these.

use crate::base::ids::{ContextId, Pair};
use crate::base::ids::{LinkId, Token};
use crate::contract::item::Key;
use core::fmt;
use core::time::Duration;
use roam6_wire::geo::Place;
use roam6_wire::mobility::{ErrorStatus, Status};
use roam6_wire::{Bid, HomeAddress, Ipv4End, LinkAddress, Prefix, Sequence};
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
    Solicited { link: LinkId },
    /// An advertisement of a router not known on this link until now.
    RouterFound { link: LinkId, router: Ipv6Addr, prefix: Option<Prefix> },
    /// A router is no longer used.
    RouterLost { link: LinkId, router: Ipv6Addr, why: Lost },
    /// A care-of address was formed.
    CareOfFormed { link: LinkId, bid: Bid, address: Ipv6Addr },
    /// A care-of address was given up.
    CareOfGone { link: LinkId, bid: Bid, address: Ipv6Addr },
    /// Another node holds an address we formed.
    Duplicate { link: LinkId, address: Ipv6Addr },
    /// A Binding Update was sent.
    UpdateSent { home_agent: Ipv6Addr, care_of: Vec<Ipv6Addr>, sequence: Sequence, lifetime: Duration },
    /// A Binding Acknowledgement was accepted.
    AckReceived { home_agent: Ipv6Addr, status: u8, sequence: Sequence, lifetime: Duration },
    /// The mobile router is registered with these care-of addresses; the first carries traffic.
    Bound { home_agent: Ipv6Addr, care_of: Vec<Ipv6Addr>, lifetime: Duration },
    /// The mobile router is no longer registered.
    Unbound { home_agent: Ipv6Addr, why: String },
    /// The mobile router is on its home link and de-registered.
    AtHome { link: LinkId },
    /// A path answers probes again, or for the first time.
    PathUp { bid: Bid, care_of: Ipv6Addr },
    /// A path is dead.
    PathDown { bid: Bid, care_of: Ipv6Addr, why: Lost },
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
    Refused { home_address: HomeAddress, care_of: Ipv6Addr, status: u8 },
    /// Signalling or a path does not work: with a mobile router, by uplink `bid` if it is about one path, or at a mobile
    /// router with its home agent. Reported when it begins, not each time it shows.
    Fault { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, why: String },
    /// It works again, after so long.
    FaultCleared { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, after: Duration },
    /// Items were missing in the kernel and were put back.
    Restored { items: usize },
    /// A Binding Error was sent (1) or received.
    BindingError { peer: Ipv6Addr, status: u8, sent: bool },
    /// An address became one the kernel's MPTCP makes subflows from.
    EndpointUp { link: LinkId, address: Ipv6Addr, backup: bool },
    /// Subflows are no longer made from an address, and those there were end.
    EndpointDown { link: LinkId, address: Ipv6Addr },
    /// A subflow of a connection stands; `first` of the connection.
    SubflowUp { token: Token, local: SocketAddrV6, remote: SocketAddrV6, backup: bool, first: bool },
    /// The peer made a subflow a backup, or no longer one (MP_PRIO).
    SubflowChanged { token: Token, local: SocketAddrV6, remote: SocketAddrV6 },
    /// A subflow ended, by this error number if not 0.
    SubflowDown { token: Token, local: SocketAddrV6, remote: SocketAddrV6, error: u8 },
    /// A connection of the kernel's MPTCP ended.
    Disconnected { token: Token },
    /// Shim: an address of its own making stands.
    AddressMade { link: LinkId, address: Ipv6Addr, prefix: Prefix },
    /// Shim: it stands no more.
    AddressLeft { link: LinkId, address: Ipv6Addr },
    /// Shim: a context stands, its packets take this path for now; so many locators of the peer are known.
    ContextUp { context: ContextId, path: Pair, locators: usize },
    /// Shim: a context was made anew, or the peer has told of itself again.
    ContextRenewed { context: ContextId, path: Pair, locators: usize },
    /// Shim: a context ended.
    ContextDown { context: ContextId, why: String },
    /// Shim: the path seems not to work, or another is wanted; others are being tried.
    PathLost { context: ContextId, path: Pair, why: String },
    /// Shim: packets of the context take this path from now on, found so long after the search began.
    PathChanged { context: ContextId, path: Pair, after: Duration },
    /// Shim: the path works after all.
    PathWorks { context: ContextId, path: Pair },
    /// Shim: a peer is not asked for a context for a while.
    NoShim { peer: Ipv6Addr, why: String },
    /// A router nearby has a network behind it, to which packets go straight from now on.
    NetworkFound { link: LinkId, router: Ipv6Addr, prefix: Prefix },
    /// They no longer do.
    NetworkLost { link: LinkId, router: Ipv6Addr, prefix: Prefix, why: Lost },
    /// GeoNetworking: a station has answered a question; `arrived` says whether the question was for it or only ended its
    /// way there, `again` whether it has answered before.
    Echo {
        identifier: u32,
        sequence: u32,
        mid: LinkAddress,
        kind: String,
        place: Place,
        hops: u8,
        octets: usize,
        rtt: Duration,
        arrived: bool,
        again: bool,
    },
    /// Another station tells of an event (DENM), for the first time or otherwise than before.
    EventHeard { station: u32, sequence: u16, cause: u8, sub_cause: u8 },
    /// An event is over, says who may.
    EventOver { station: u32, sequence: u16 },
    /// Another station announces services (SAM), and maybe a way to the Internet, for the first time or otherwise than
    /// before.
    ServicesHeard { station: u32, services: usize, routing: bool },
    /// GeoNetworking: a question was not asked.
    EchoRefused { identifier: u32, sequence: u32, why: String },
    /// A packet was dropped.
    Dropped { reason: DropReason, from: Option<Ipv6Addr>, detail: String },
    /// A named table is full: what would have been added was not.
    TableFull { table: String, limit: usize },
    /// The host refused an item, in the kernel's own words.
    Failed { key: Key, why: String },
    /// Something an operator should look at.
    Notice { text: String },
}

/// Why a path, router or link is no longer used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// Its interface is down.
    LinkDown,
    /// Its lifetime ended.
    Expired,
    /// Neighbour unreachability detection gave up.
    Unreachable,
    /// The advertised prefixes changed: this is another network.
    Replaced,
    /// Probes remain unanswered.
    Silent,
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
            Report::Solicited { .. } => "solicited",
            Report::RouterFound { .. } => "router_found",
            Report::RouterLost { .. } => "router_lost",
            Report::CareOfFormed { .. } => "care_of_formed",
            Report::CareOfGone { .. } => "care_of_gone",
            Report::Duplicate { .. } => "duplicate",
            Report::UpdateSent { .. } => "update_sent",
            Report::AckReceived { .. } => "ack_received",
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
            Report::Refused { .. } => "refused",
            Report::Fault { .. } => "fault",
            Report::FaultCleared { .. } => "fault_cleared",
            Report::Restored { .. } => "restored",
            Report::BindingError { .. } => "binding_error",
            Report::EndpointUp { .. } => "endpoint_up",
            Report::EndpointDown { .. } => "endpoint_down",
            Report::SubflowUp { .. } => "subflow_up",
            Report::SubflowChanged { .. } => "subflow_changed",
            Report::SubflowDown { .. } => "subflow_down",
            Report::Disconnected { .. } => "disconnected",
            Report::AddressMade { .. } => "address_made",
            Report::AddressLeft { .. } => "address_left",
            Report::ContextUp { .. } => "context_up",
            Report::ContextRenewed { .. } => "context_renewed",
            Report::ContextDown { .. } => "context_down",
            Report::PathLost { .. } => "path_lost",
            Report::PathChanged { .. } => "path_changed",
            Report::PathWorks { .. } => "path_works",
            Report::NoShim { .. } => "no_shim",
            Report::NetworkFound { .. } => "network_found",
            Report::NetworkLost { .. } => "network_lost",
            Report::Echo { .. } => "echo",
            Report::EventHeard { .. } => "event_heard",
            Report::EventOver { .. } => "event_over",
            Report::ServicesHeard { .. } => "services_heard",
            Report::EchoRefused { .. } => "echo_refused",
            Report::Dropped { .. } => "dropped",
            Report::TableFull { .. } => "table_full",
            Report::Failed { .. } => "failed",
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
            R::Solicited { link } => write!(f, "{link}: asked for routers"),
            R::RouterFound { link, router, prefix: Some(prefix) } => write!(f, "{link}: router {router} on {prefix}"),
            R::RouterFound { link, router, prefix: None } => write!(f, "{link}: router {router}"),
            R::RouterLost { link, router, why } => write!(f, "{link}: router {router} lost: {why}"),
            R::CareOfFormed { link, bid, address } => write!(f, "{link}: care-of address {}, bid {bid}", End(address)),
            R::CareOfGone { link, bid, address } => {
                write!(f, "{link}: care-of address {}, bid {bid}, given up", End(address))
            }
            R::Duplicate { link, address } => write!(f, "{link}: {address} is used by another node"),
            R::Dropped { reason, from: Some(from), detail } => {
                write!(f, "dropped a packet from {}: {}: {detail}", End(from), reason.name())
            }
            R::Dropped { reason, from: None, detail } => write!(f, "dropped a packet: {}: {detail}", reason.name()),
            R::TableFull { table, limit } => write!(f, "table {table} is full at {limit}"),
            R::Failed { key, why } => write!(f, "the host refused {key}: {why}"),
            R::Notice { text } => f.write_str(text),
            R::NetworkFound { link, router, prefix } => {
                write!(f, "{link}: {prefix} is behind {router}, and reached directly")
            }
            R::NetworkLost { link, router, prefix, why } => {
                write!(f, "{link}: {prefix} is no longer reached by {router}: {why}")
            }
            R::Echo { mid, kind, place, rtt, .. } => {
                write!(f, "echo of {mid}, {kind} at {place}, after {} us", rtt.as_micros())
            }
            R::EventHeard { station, sequence, cause, sub_cause } => {
                write!(f, "station {station} tells of event {sequence}: cause {cause}, {sub_cause}")
            }
            R::EventOver { station, sequence } => write!(f, "event {sequence} of station {station} is over"),
            R::ServicesHeard { station, services, routing } => {
                let way = if *routing { ", and a way to the Internet" } else { "" };
                write!(f, "station {station} announces services: {services}{way}")
            }
            R::EchoRefused { why, .. } => write!(f, "a question was not asked: {why}"),
            R::EndpointUp { .. } | R::EndpointDown { .. } | R::Disconnected { .. } => self.fmt_paths(f),
            R::SubflowUp { .. } | R::SubflowChanged { .. } | R::SubflowDown { .. } => self.fmt_paths(f),
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
            | R::Solicited { link }
            | R::RouterFound { link, .. }
            | R::RouterLost { link, .. }
            | R::CareOfFormed { link, .. }
            | R::CareOfGone { link, .. }
            | R::Duplicate { link, .. }
            | R::AtHome { link }
            | R::PrefixDelegated { link, .. }
            | R::PrefixShared { link, .. }
            | R::PrefixLost { link, .. }
            | R::PrefixUnavailable { link, .. }
            | R::EndpointUp { link, .. }
            | R::EndpointDown { link, .. }
            | R::AddressMade { link, .. }
            | R::AddressLeft { link, .. }
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
            R::SubflowChanged { token, local, remote } => {
                write!(f, "connection {token}: the peer changed the use of subflow {local} to {remote}")
            }
            R::SubflowDown { token, local, remote, error } => {
                write!(f, "connection {token}: subflow {local} to {remote} ended, error {error}")
            }
            R::Disconnected { token } => write!(f, "connection {token} ended"),
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
            R::AddressMade { address, prefix, .. } => write!(f, "address {address} in {prefix} configured"),
            R::AddressLeft { address, .. } => write!(f, "address {address} removed"),
            R::ContextUp { context, path, locators } => write!(f, "{context}: up by {path}, {locators} locators there"),
            R::ContextRenewed { context, path, locators } => {
                write!(f, "{context}: renewed by {path}, {locators} locators there")
            }
            R::ContextDown { context, why } => write!(f, "{context}: ended: {why}"),
            R::PathLost { context, path, why } => write!(f, "{context}: looks for another path than {path}: {why}"),
            R::PathChanged { context, path, after } => {
                write!(f, "{context}: takes {path}, found after {} ms", after.as_millis())
            }
            R::PathWorks { context, path } => write!(f, "{context}: path {path} recovered"),
            R::NoShim { peer, why } => write!(f, "{peer}: no context: {why}"),
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
                write!(f, "update {sequence} to {home_agent}: {} for {}s", ends(care_of), lifetime.as_secs())
            }
            R::AckReceived { home_agent, status, sequence, lifetime } => {
                let lifetime = lifetime.as_secs();
                write!(f, "acknowledgement {sequence} from {home_agent}: status {} for {lifetime}s", Status(*status))
            }
            R::Bound { home_agent, care_of, lifetime } => {
                write!(f, "bound at {home_agent}: {} for {}s", ends(care_of), lifetime.as_secs())
            }
            R::Unbound { home_agent, why } => write!(f, "no longer bound at {home_agent}: {why}"),
            R::AtHome { link } => write!(f, "{link}: at home"),
            R::PathUp { bid, care_of } => write!(f, "path {bid} by {} is up", End(care_of)),
            R::PathDown { bid, care_of, why } => write!(f, "path {bid} by {} is down: {why}", End(care_of)),
            R::PathMtu { remote, mtu } => write!(f, "path to {}: MTU {mtu} octets", End(remote)),
            R::HomeAgents { addresses } => write!(f, "home agents: {}", List(addresses)),
            R::HomePrefixes { home_agent, prefixes } => write!(f, "home prefixes by {home_agent}: {}", List(prefixes)),
            R::Registered { home_address, care_of, sequence, lifetime, moved } => {
                let (verb, lifetime) = (if *moved { "moved" } else { "registered" }, lifetime.as_secs());
                write!(f, "{home_address} {verb}: {} for {lifetime}s, update {sequence}", ends(care_of))
            }
            R::Deregistered { home_address, why } => write!(f, "{home_address} deregistered: {why}"),
            R::Refused { home_address, care_of, status } => {
                write!(f, "{home_address} by {} refused: status {}", End(care_of), Status(*status))
            }
            R::Fault { home_address, peer, bid: None, why } => write!(f, "{home_address}, {}: {why}", End(peer)),
            R::Fault { peer, bid: Some(bid), why, .. } => write!(f, "path {bid} to {}: {why}", End(peer)),
            R::FaultCleared { home_address, peer, bid: None, after } => {
                write!(f, "{home_address}, {}: works again after {}s", End(peer), after.as_secs())
            }
            R::FaultCleared { peer, bid: Some(bid), after, .. } => {
                write!(f, "path {bid} to {}: works again after {}s", End(peer), after.as_secs())
            }
            R::Restored { items } => write!(f, "restored {items} items that the kernel or another program had removed"),
            R::BindingError { peer, status, sent } => {
                let (status, way) = (ErrorStatus(*status), if *sent { "to" } else { "from" });
                write!(f, "binding error {way} {}: {status}", End(peer))
            }
            other => f.write_str(other.name()),
        }
    }
}

/// Care-of addresses on one line.
fn ends(addresses: &[Ipv6Addr]) -> String {
    let each: Vec<String> = addresses.iter().map(|address| End(address).to_string()).collect();
    List(&each).to_string()
}

/// A care-of address; one of IPv4 as such.
struct End<'a>(&'a Ipv6Addr);

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ipv4End::of(*self.0) {
            Some(end) => end.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// Addresses or prefixes on one line.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
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

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lost::LinkDown => "link down",
            Lost::Expired => "lifetime ended",
            Lost::Unreachable => "neighbour unreachable",
            Lost::Replaced => "another network",
            Lost::Silent => "probes unanswered",
            Lost::Refused => "refused by the home agent",
            Lost::Withdrawn => "withdrawn",
        })
    }
}
