//! Where the prefixes of one visited network come from: shared with the visited link until a server delegates some, and for
//! good where none does.

use super::{Grant, GrantKind};
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::config::nemo::{CareOfPrefixConfig, PrefixSharing};
use crate::contract::engine::Outbox;
use crate::contract::report::Report;
use crate::link::nd_messages;
use crate::link::nd_proxy::NdProxy;
use crate::link::prefix_delegation::{DhcpClient, DhcpClientConfig, DhcpEvent, DhcpFailure, DhcpInterface, DnsInfo};
use core::time::Duration;
use roam6_wire::ip6::Datagram;
use roam6_wire::{Bid, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// A server that has made an offer has so long to keep it before the visited link is shared.
const OFFER_TIMEOUT: Duration = Duration::from_secs(4);
/// A lease takes the place of a shared prefix not before the nodes that were told of that one have finished forming their
/// addresses, and are known (RFC 4862 §5.4.2).
const ADDRESS_FORMATION_TIME: Duration = Duration::from_secs(3);
/// Nodes are told that there is a proxy before they use it, so that another proxy hears it in time (RFC 4389 §6).
const PROXY_ANNOUNCEMENT_TIME: Duration = Duration::from_millis(500);
/// The only length of a prefix hosts form addresses in.
const SHARED_LENGTH: u8 = 64;

/// What an uplink on a visited network should have.
#[derive(Debug, Clone)]
pub(in super::super) struct SourceSpec {
    pub(super) config: CareOfPrefixConfig,
    pub(super) bid: Bid,
    pub(super) link: LinkId,
    /// `None` on a link with two ends.
    pub(super) link_address: Option<LinkAddress>,
    /// The visited link's prefix, our address in it, and how long it lasts.
    pub(super) prefix: Prefix,
    pub(super) own_address: Ipv6Addr,
    pub(super) preferred_until: Time,
    pub(super) valid_until: Time,
    /// Where nodes may share it.
    pub(super) downstream: Option<(LinkId, LinkAddress)>,
    /// The visited link is behind a proxy itself: proxies must not be chained (RFC 4389 §4.1.3.3).
    pub(super) behind_proxy: bool,
}

/// The prefixes of one visited network.
#[derive(Debug, Clone)]
pub(in super::super) struct PrefixSource {
    bid: Bid,
    link: LinkId,
    network: Prefix,
    config: CareOfPrefixConfig,
    started_at: Time,
    delegation: Option<DhcpClient>,
    /// What was told of, to tell when it is gone.
    reported_prefixes: Vec<Prefix>,
    shared: Option<SharedPrefix>,
}

/// The visited link's prefix inside.
#[derive(Debug, Clone)]
struct SharedPrefix {
    own: Ipv6Addr,
    inside: LinkId,
    /// `None` if the visited link has but two ends.
    proxy: Option<NdProxy>,
    /// Nodes may use it from then on.
    usable_from: Time,
    /// It was reported.
    reported: bool,
    preferred_until: Time,
    valid_until: Time,
}

impl PrefixSource {
    /// Begins on a network just found.
    pub(super) fn new(now: Time, wanted: &SourceSpec, client: DhcpClientConfig, entropy: &mut Entropy) -> PrefixSource {
        let interface = wanted
            .link_address
            .filter(|_| wanted.config.delegation)
            .map(|address| DhcpInterface { link: wanted.link, source: nd_messages::link_local(address) });
        let delegation = interface.map(|interface| DhcpClient::new(now, interface, client, entropy));
        PrefixSource {
            bid: wanted.bid,
            link: wanted.link,
            network: wanted.prefix,
            config: wanted.config,
            started_at: now,
            delegation,
            reported_prefixes: Vec::new(),
            shared: None,
        }
    }

    /// Whether it is of this network, and come by in this way.
    pub(super) fn matches(&self, wanted: &SourceSpec) -> bool {
        let how = |config: &CareOfPrefixConfig| (config.delegation, config.length);
        (self.link, self.network) == (wanted.link, wanted.prefix) && how(&self.config) == how(&wanted.config)
    }

    /// The uplink.
    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    /// The proxy of the visited link, and its side outside.
    pub(super) fn proxy(&mut self) -> Option<(LinkId, &mut NdProxy)> {
        Some((self.link, self.shared.as_mut()?.proxy.as_mut()?))
    }

    /// Whether all other addresses of the visited link are inside.
    pub(in super::super) fn is_point_to_point(&self) -> bool {
        self.shared.as_ref().is_some_and(|sharing| sharing.proxy.is_none())
    }

    /// The interface inside whose nodes are told of a proxy.
    pub(super) fn proxy_downstream(&self) -> Option<LinkId> {
        self.shared.as_ref().filter(|sharing| sharing.proxy.is_some()).map(|sharing| sharing.inside)
    }

    /// Sends what is due, and shares or no longer shares.
    pub(super) fn update(&mut self, now: Time, wanted: &SourceSpec, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(delegation) = &mut self.delegation {
            let event = delegation.expire(now, entropy, out);
            self.report_event(now, event, out);
        }
        let told = self.shared.as_ref().filter(|sharing| sharing.reported);
        let forming = told.is_some_and(|sharing| now < sharing.usable_from + ADDRESS_FORMATION_TIME);
        let offered =
            self.delegation.as_ref().is_some_and(DhcpClient::has_offer) && now < self.started_at + OFFER_TIMEOUT;
        let may_share = wanted.config.share == PrefixSharing::NdProxy
            && (self.reported_prefixes.is_empty() || forming)
            && (told.is_some() || !offered)
            && !wanted.behind_proxy
            && wanted.prefix.length() == SHARED_LENGTH;
        let inside = wanted.downstream.filter(|_| may_share);
        let kept = self.shared.as_ref().is_some_and(|sharing| {
            inside.is_some_and(|inside| sharing.inside == inside.0 && sharing.own == wanted.own_address)
        });
        if !kept
            && let Some(sharing) = self.shared.take()
            && sharing.reported
        {
            let why = if wanted.behind_proxy { "the network is behind a proxy" } else { "no longer shared" };
            let (link, bid, prefix) = (self.link, self.bid, self.network);
            out.report(Report::PrefixLost { link, bid, prefix, why: why.to_owned() });
        }
        if let Some(inside) = inside {
            self.share(now, wanted, inside, out);
        }
    }

    fn share(&mut self, now: Time, wanted: &SourceSpec, inside: (LinkId, LinkAddress), out: &mut Outbox) {
        let (link, bid, prefix) = (self.link, self.bid, self.network);
        let sharing = self.shared.get_or_insert_with(|| {
            let proxy = |address| NdProxy::new(prefix, wanted.own_address, (link, address), inside);
            SharedPrefix {
                own: wanted.own_address,
                inside: inside.0,
                proxy: wanted.link_address.map(proxy),
                usable_from: now + PROXY_ANNOUNCEMENT_TIME,
                reported: false,
                preferred_until: now,
                valid_until: now,
            }
        });
        (sharing.preferred_until, sharing.valid_until) = (wanted.preferred_until, wanted.valid_until);
        if sharing.usable_from <= now && !core::mem::replace(&mut sharing.reported, true) {
            out.report(Report::PrefixShared { link, bid, prefix });
        }
        if let Some(proxy) = &mut sharing.proxy {
            proxy.expire(now);
        }
    }

    /// Takes a packet to the client port.
    pub(super) fn receive(&mut self, now: Time, datagram: &Datagram<'_>, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(delegation) = &mut self.delegation {
            let event = delegation.receive(now, datagram, entropy, out);
            self.report_event(now, event, out);
        }
    }

    /// Gives back what it has, as far as one message can.
    pub(super) fn stop(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        let shared = self.shared.take().filter(|sharing| sharing.reported).map(|_| self.network);
        for prefix in self.reported_prefixes.drain(..).chain(shared) {
            let (link, bid) = (self.link, self.bid);
            out.report(Report::PrefixLost { link, bid, prefix, why: "the network was left".to_owned() });
        }
        if let Some(delegation) = &mut self.delegation {
            delegation.stop(now, entropy, out);
        }
    }

    /// What nodes inside may use.
    pub(super) fn grants(&self, now: Time, bid: Bid) -> Vec<Grant> {
        let link = self.link;
        let leases = self.delegation.iter().flat_map(DhcpClient::leases).filter(|lease| lease.valid_until > now);
        let mut grants: Vec<Grant> = leases
            .map(|lease| Grant {
                bid,
                link,
                prefix: lease.prefix,
                kind: GrantKind::Delegated,
                preferred_until: lease.preferred_until,
                valid_until: lease.valid_until,
            })
            .collect();
        let alive = |sharing: &&SharedPrefix| sharing.usable_from <= now && sharing.valid_until > now;
        grants.extend(self.shared.as_ref().filter(alive).map(|sharing| Grant {
            bid,
            link,
            prefix: self.network,
            kind: GrantKind::Shared {
                ingress: sharing.inside,
                own_address: sharing.own,
                node_addresses: sharing.proxy.as_ref().map(|proxy| proxy.addresses().collect()),
            },
            preferred_until: sharing.preferred_until,
            valid_until: sharing.valid_until,
        }));
        grants
    }

    /// What the server that has delegated prefixes says of DNS, until the first lease ends.
    pub(in super::super) fn dns(&self) -> Option<(&DnsInfo, Time)> {
        let delegation = self.delegation.as_ref()?;
        let until = delegation.leases().iter().map(|lease| lease.valid_until).min()?;
        Some((delegation.dns(), until))
    }

    /// When [`Source::settle`] has something to do, or a grant changes.
    pub(in super::super) fn deadline(&self, now: Time) -> Option<Time> {
        let delegation = self.delegation.as_ref().and_then(DhcpClient::deadline);
        let sharing =
            self.shared.iter().flat_map(|sharing| [sharing.usable_from, sharing.usable_from + ADDRESS_FORMATION_TIME]);
        let patience = self.delegation.as_ref().map(|_| self.started_at + OFFER_TIMEOUT);
        let proxy = self.shared.as_ref().and_then(|sharing| sharing.proxy.as_ref()?.deadline());
        let leases = self.delegation.iter().flat_map(DhcpClient::leases);
        let ends = leases.map(|lease| lease.preferred_until).chain(sharing).chain(patience).filter(|at| *at > now);
        ends.chain(delegation).chain(proxy).min()
    }

    /// Tells what became of the leases.
    fn report_event(&mut self, now: Time, event: Option<DhcpEvent>, out: &mut Outbox) {
        let (link, bid) = (self.link, self.bid);
        let why = match event {
            None | Some(DhcpEvent::Extended(_)) => return,
            Some(DhcpEvent::Unavailable(why)) => {
                return out.report(Report::PrefixUnavailable { link, bid, why: failure_text(why).to_owned() });
            }
            Some(DhcpEvent::Lost(why)) => failure_text(why),
            Some(DhcpEvent::Delegated(_) | DhcpEvent::Changed(_)) => "another took its place, or it ended",
        };
        let leases = self.delegation.as_ref().map(DhcpClient::leases).unwrap_or_default();
        let before = std::mem::replace(&mut self.reported_prefixes, leases.iter().map(|lease| lease.prefix).collect());
        for prefix in before.iter().copied().filter(|prefix| !self.reported_prefixes.contains(prefix)) {
            out.report(Report::PrefixLost { link, bid, prefix, why: why.to_owned() });
        }
        for lease in leases.iter().filter(|lease| !before.contains(&lease.prefix)) {
            let valid = lease.valid_until.since(now);
            out.report(Report::PrefixDelegated { link, bid, prefix: lease.prefix, valid });
        }
    }
}

fn failure_text(why: DhcpFailure) -> &'static str {
    match why {
        DhcpFailure::NoAnswer => "no server answers",
        DhcpFailure::Rejected(_) => "the servers give none",
        DhcpFailure::Expired => "its lifetime ended",
        DhcpFailure::Withdrawn => "the server took it back",
    }
}
