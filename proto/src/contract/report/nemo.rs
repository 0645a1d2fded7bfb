//! Reports of the mobile router and of the home agent.

use super::LossReason;
use super::text::{CareOfText, ListText, captive_portal, care_of_list, fault_place, registration_text};
use crate::base::ids::LinkId;
use core::time::Duration;
use roam6_wire::mobility::{ErrorStatus, Status};
use roam6_wire::{Bid, HomeAddress, Prefix, Sequence};
use std::net::Ipv6Addr;

reports! {
    /// A report.
    NemoReport {
        /// A care-of address was configured.
        #[display("{link}: care-of address {}, bid {bid}", CareOfText(address))]
        CareOfFormed { link: LinkId, bid: Bid, address: Ipv6Addr },
        /// A care-of address was removed.
        #[display("{link}: care-of address {}, bid {bid}, removed", CareOfText(address))]
        CareOfRemoved as "care_of_gone" { link: LinkId, bid: Bid, address: Ipv6Addr },
        /// A Binding Update was sent.
        #[display("binding update {sequence} to {home_agent}: {}", registration_text(care_of, *lifetime))]
        UpdateSent { home_agent: Ipv6Addr, care_of: Vec<Ipv6Addr>, sequence: Sequence, lifetime: Duration },
        /// A Binding Acknowledgement was accepted.
        #[display(
            "binding acknowledgement {sequence} from {home_agent}: status {} for {}s",
            Status(*status),
            lifetime.as_secs()
        )]
        AcknowledgementReceived as "ack_received" {
            home_agent: Ipv6Addr,
            status: u8,
            sequence: Sequence,
            lifetime: Duration,
        },
        /// The mobile router is registered with these care-of addresses; the first carries traffic.
        #[display("bound at {home_agent}: {} for {}s", care_of_list(care_of), lifetime.as_secs())]
        Bound { home_agent: Ipv6Addr, care_of: Vec<Ipv6Addr>, lifetime: Duration },
        /// The mobile router is no longer registered.
        #[display("binding at {home_agent} ended: {why}")]
        Unbound { home_agent: Ipv6Addr, why: String },
        /// The mobile router is on its home link and de-registered.
        #[display("{link}: at home")]
        AtHome { link: LinkId },
        /// Probes of a path are answered again, or for the first time.
        #[display("path {bid} by {} is up", CareOfText(care_of))]
        PathUp { bid: Bid, care_of: Ipv6Addr },
        /// A path has failed.
        #[display("path {bid} by {} is down: {why}", CareOfText(care_of))]
        PathDown { bid: Bid, care_of: Ipv6Addr, why: LossReason },
        /// The round trip or the loss of a path exceeds the limits: others are used as long as one is better.
        #[display("path {bid} by {} is degraded: {why}", CareOfText(care_of))]
        PathDegraded { bid: Bid, care_of: Ipv6Addr, why: String },
        /// A path that was degraded, or silent, has been good for long enough to be used as before.
        #[display("path {bid} by {} is as good as before", CareOfText(care_of))]
        PathRestored { bid: Bid, care_of: Ipv6Addr },
        /// Packets of an uplink are encapsulated differently from now on: `udp`, or `native` again.
        #[display("{link}: {to} to the home agent, bid {bid}: {why}")]
        TransportChanged { link: LinkId, bid: Bid, to: String, why: String },
        /// An uplink has carried what its data plan has.
        #[display("{link}: data plan used up: {used} of {cap} octets, bid {bid}")]
        PlanExhausted { link: LinkId, bid: Bid, used: u64, cap: u64 },
        /// An uplink whose data plan was used up may be used again: a new period has begun, or the cap was raised.
        #[display("{link}: data plan renewed, bid {bid}")]
        PlanRenewed { link: LinkId, bid: Bid },
        /// The network of an uplink by which no home agent answers intercepts connections.
        #[display("{link}: {}, bid {bid}", captive_portal(url.as_deref()))]
        CaptivePortal { link: LinkId, bid: Bid, url: Option<String> },
        /// The path MTU to a peer changed, octets.
        #[display("path to {}: MTU {mtu} octets", CareOfText(remote))]
        PathMtu { remote: Ipv6Addr, mtu: u32 },
        /// A visited network has delegated a prefix, for nodes of the mobile network.
        #[display("{link}: prefix {prefix} delegated, bid {bid}, for {}s", valid.as_secs())]
        PrefixDelegated { link: LinkId, bid: Bid, prefix: Prefix, valid: Duration },
        /// Nodes of the mobile network share the on-link prefix of the visited link.
        #[display("{link}: prefix {prefix} shared, bid {bid}")]
        PrefixShared { link: LinkId, bid: Bid, prefix: Prefix },
        /// A prefix of a visited network is no longer used.
        #[display("{link}: prefix {prefix}, bid {bid}, lost: {why}")]
        PrefixLost { link: LinkId, bid: Bid, prefix: Prefix, why: String },
        /// A visited network delegates no prefix.
        #[display("{link}: no prefix available, bid {bid}: {why}")]
        PrefixUnavailable { link: LinkId, bid: Bid, why: String },
        /// The result of Dynamic Home Agent Address Discovery, best first.
        #[display("home agents: {}", ListText(addresses))]
        HomeAgents { addresses: Vec<Ipv6Addr> },
        /// The prefixes of the home link changed, or one became deprecated (Mobile Prefix Discovery).
        #[display("home prefixes by {home_agent}: {}", ListText(prefixes))]
        HomePrefixes { home_agent: Ipv6Addr, prefixes: Vec<Prefix> },
        /// Home agent: a binding was created, moved or refreshed; forwarding is installed and the journal written.
        #[display(
            "{home_address} {}: {} for {}s, update {sequence}",
            if *moved { "moved" } else { "registered" },
            care_of_list(care_of),
            lifetime.as_secs()
        )]
        Registered {
            home_address: HomeAddress,
            care_of: Vec<Ipv6Addr>,
            sequence: Sequence,
            lifetime: Duration,
            moved: bool,
        },
        /// Home agent: a binding ended.
        #[display("{home_address} deregistered: {why}")]
        Deregistered { home_address: HomeAddress, why: String },
        /// Home agent: a Binding Update was rejected with this status (RFC 6275 §6.1.8).
        #[display("{home_address} by {} refused: status {}", CareOfText(care_of), Status(*status))]
        UpdateRejected as "refused" { home_address: HomeAddress, care_of: Ipv6Addr, status: u8 },
        /// A fault of the signalling with a peer, or of the path of uplink `bid`. Reported when it begins, not each
        /// time it is detected.
        #[display("{}: {why}", fault_place(home_address, peer, *bid))]
        Fault { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, why: String },
        /// The fault has ended.
        #[display("{}: works again after {}s", fault_place(home_address, peer, *bid), after.as_secs())]
        FaultCleared { home_address: HomeAddress, peer: Ipv6Addr, bid: Option<Bid>, after: Duration },
        /// Mobile router and home agent have a new key, and the former one is worthless.
        #[display("{home_address}: key exchanged, the new SPI is {spi}")]
        KeyExchanged { home_address: HomeAddress, spi: u32 },
        /// Mobile router: the key stays as it is.
        #[display("{home_address}: key not exchanged: {why}")]
        KeyExchangeFailed { home_address: HomeAddress, why: String },
        /// A Binding Error was sent (1) or received.
        #[display(
            "binding error {} {}: {}",
            if *sent { "to" } else { "from" },
            CareOfText(peer),
            ErrorStatus(*status)
        )]
        BindingError { peer: Ipv6Addr, status: u8, sent: bool },
    }
}

impl NemoReport {
    /// The home address of the mobile router that the report is about, if it names one.
    pub fn home_address(&self) -> Option<HomeAddress> {
        match self {
            NemoReport::Registered { home_address, .. }
            | NemoReport::Deregistered { home_address, .. }
            | NemoReport::UpdateRejected { home_address, .. }
            | NemoReport::Fault { home_address, .. }
            | NemoReport::FaultCleared { home_address, .. } => Some(*home_address),
            _ => None,
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            NemoReport::CareOfFormed { link, .. }
            | NemoReport::CareOfRemoved { link, .. }
            | NemoReport::AtHome { link, .. }
            | NemoReport::PlanExhausted { link, .. }
            | NemoReport::PlanRenewed { link, .. }
            | NemoReport::CaptivePortal { link, .. }
            | NemoReport::PrefixDelegated { link, .. }
            | NemoReport::PrefixShared { link, .. }
            | NemoReport::PrefixLost { link, .. }
            | NemoReport::PrefixUnavailable { link, .. } => Some(*link),
            _ => None,
        }
    }
}
