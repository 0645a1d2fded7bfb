//! The source of the care-of prefixes of one visited network: the visited link's prefix is shared until a server
//! delegates one, or permanently where none does.

use super::{Grant, GrantKind};
use crate::contract::config::nemo::{CareOfPrefixConfig, PrefixSharing};
use crate::contract::report::NemoReport;
use crate::link::nd_proxy::NdProxy;
use crate::link::prefix_delegation::{DhcpClient, DhcpClientConfig, DhcpEvent, DhcpFailure, DhcpInterface, DnsInfo};
use crate::{Entropy, LinkId, Outbox, Time, Transmit};
use core::time::Duration;
use roam6_wire::ip6::Datagram;
use roam6_wire::{Bid, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Time from the attachment for a server that made an offer to grant it before the visited link's prefix is offered to nodes.
/// Clients collect offers for a second (RFC 8415 §18.2.1), and most nodes keep every address that they form.
const OFFER_TIMEOUT: Duration = Duration::from_millis(1500);
/// A lease replaces a shared prefix only after this time, when nodes that received the latter have formed their
/// addresses and are known (RFC 4862 §5.4.2).
const ADDRESS_FORMATION_TIME: Duration = Duration::from_secs(3);
/// A proxy is advertised before nodes may use it, so that another proxy detects it in time (RFC 4389 §6, which names no
/// time): the direct path has to be usable half a second after the attachment.
const PROXY_ANNOUNCEMENT_TIME: Duration = Duration::from_millis(200);
/// The only prefix length for address autoconfiguration.
const SHARED_LENGTH: u8 = 64;

/// What the prefix source of an uplink depends on.
#[derive(Debug, Clone)]
pub(in super::super) struct SourceSpec {
    pub(super) config: CareOfPrefixConfig,
    pub(super) bid: Bid,
    pub(super) link: LinkId,
    /// `None` on a point-to-point link.
    pub(super) link_address: Option<LinkAddress>,
    /// The visited link's prefix, this router's address in it, and its lifetimes.
    pub(super) prefix: Prefix,
    pub(super) own_address: Ipv6Addr,
    pub(super) preferred_until: Time,
    pub(super) valid_until: Time,
    /// The ingress interface whose nodes may share it.
    pub(super) downstream: Option<(LinkId, LinkAddress)>,
    /// Nodes may have addresses of the visited link's prefix, from an earlier visit.
    pub(super) has_former_nodes: bool,
    /// The visited link is behind a proxy: proxies must not be chained (RFC 4389 §4.1.3.3).
    pub(super) behind_proxy: bool,
}

/// The source of care-of prefixes of one visited network.
#[derive(Debug, Clone)]
pub(in super::super) struct PrefixSource {
    bid: Bid,
    link: LinkId,
    network: Prefix,
    config: CareOfPrefixConfig,
    started_at: Time,
    delegation: Option<DhcpClient>,
    /// Delegated prefixes that were reported.
    reported_prefixes: Vec<Prefix>,
    /// The nodes that were proxied here in an earlier visit.
    former_nodes: Vec<Ipv6Addr>,
    shared: Option<SharedPrefix>,
}

/// The visited link's prefix, shared with an ingress interface.
#[derive(Debug, Clone)]
struct SharedPrefix {
    own: Ipv6Addr,
    inside: LinkId,
    /// `None` if the visited link is point-to-point.
    proxy: Option<NdProxy>,
    /// When nodes may begin to use it.
    usable_from: Time,
    /// Nodes may use it, or have used it.
    reported: bool,
    /// A delegated prefix has replaced it: it is advertised as withdrawn, and the proxy still serves the nodes that have an
    /// address of it.
    replaced: bool,
    preferred_until: Time,
    valid_until: Time,
}

impl PrefixSource {
    /// A source on a network just found.
    pub(super) fn new(
        now: Time,
        (wanted, former_nodes): (&SourceSpec, Vec<Ipv6Addr>),
        client: DhcpClientConfig,
        entropy: &mut Entropy,
    ) -> PrefixSource {
        let interface = wanted
            .link_address
            .filter(|_| wanted.config.delegation)
            .map(|address| DhcpInterface { link: wanted.link, source: address.link_local() });
        let delegation = interface.map(|interface| DhcpClient::new(now, interface, client, entropy));
        PrefixSource {
            bid: wanted.bid,
            link: wanted.link,
            network: wanted.prefix,
            config: wanted.config,
            started_at: now,
            delegation,
            reported_prefixes: Vec::new(),
            former_nodes,
            shared: None,
        }
    }

    /// Whether it is of this network and this configuration.
    pub(super) fn matches(&self, wanted: &SourceSpec) -> bool {
        let how = |config: &CareOfPrefixConfig| (config.delegation, config.length);
        (self.link, self.network) == (wanted.link, wanted.prefix) && how(&self.config) == how(&wanted.config)
    }

    /// The uplink.
    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    /// The visited link's prefix.
    pub(super) fn network(&self) -> Prefix {
        self.network
    }

    /// The downstream addresses that are proxied, or that were in the earlier visit if none is.
    pub(super) fn proxied_addresses(&self) -> Vec<Ipv6Addr> {
        let proxy = self.shared.as_ref().and_then(|sharing| sharing.proxy.as_ref());
        let addresses: Vec<Ipv6Addr> = proxy.into_iter().flat_map(NdProxy::addresses).collect();
        if addresses.is_empty() { self.former_nodes.clone() } else { addresses }
    }

    /// The proxy of the visited link, and its upstream interface.
    pub(super) fn proxy(&mut self) -> Option<(LinkId, &mut NdProxy)> {
        Some((self.link, self.shared.as_mut()?.proxy.as_mut()?))
    }

    /// The Neighbour Advertisements of the proxy on the visited link; none while its prefix is not routed.
    pub(super) fn take_proxy_advertisements(&mut self) -> Vec<Transmit> {
        let Some(sharing) = &mut self.shared else { return Vec::new() };
        let messages = sharing.proxy.as_mut().map(NdProxy::take_advertisements).unwrap_or_default();
        if sharing.reported { messages } else { Vec::new() }
    }

    /// Whether all other addresses of the visited link are downstream.
    pub(in super::super) fn is_point_to_point(&self) -> bool {
        self.shared.as_ref().is_some_and(|sharing| sharing.proxy.is_none())
    }

    /// The downstream interface of the proxy, if its prefix is offered there. A prefix that a delegated one has replaced is
    /// not offered: a router behind this one has to know that it may share the delegated prefix.
    pub(super) fn offered_downstream(&self) -> Option<LinkId> {
        let offered = |sharing: &&SharedPrefix| sharing.proxy.is_some() && !sharing.replaced;
        self.shared.as_ref().filter(offered).map(|sharing| sharing.inside)
    }

    /// Sends DHCPv6 messages that are due, and starts or ends sharing.
    pub(super) fn update(&mut self, now: Time, wanted: &SourceSpec, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(delegation) = &mut self.delegation {
            let event = delegation.expire(now, entropy, out);
            self.report_event(now, event, out);
        }
        let replaced = self.is_replaced(now);
        let may_share = wanted.config.share == PrefixSharing::NdProxy
            && (!replaced || wanted.has_former_nodes || self.is_reported())
            && !wanted.behind_proxy
            && wanted.prefix.length() == SHARED_LENGTH;
        let inside = wanted.downstream.filter(|_| may_share);
        let kept = self.shared.as_ref().is_some_and(|sharing| {
            inside.is_some_and(|inside| sharing.inside == inside.0 && sharing.own == wanted.own_address)
        });
        if !kept
            && let Some(sharing) = self.shared.take()
            && sharing.reported
            && !sharing.replaced
        {
            let why = if wanted.behind_proxy { "the network is behind a proxy" } else { "no longer shared" };
            let (link, bid, prefix) = (self.link, self.bid, self.network);
            out.report(NemoReport::PrefixLost { link, bid, prefix, why: why.to_owned() });
        }
        if let Some(inside) = inside {
            self.share(now, wanted, (inside, replaced), out);
        }
    }

    /// Whether the shared prefix was offered to nodes.
    fn is_reported(&self) -> bool {
        self.shared.as_ref().is_some_and(|sharing| sharing.reported)
    }

    /// Whether a server is about to delegate a prefix, so that the shared one is not needed.
    fn awaits_lease(&self, now: Time) -> bool {
        now < self.started_at + OFFER_TIMEOUT && self.delegation.as_ref().is_some_and(DhcpClient::has_offer)
    }

    /// Whether a delegated prefix takes the place of the shared one.
    fn is_replaced(&self, now: Time) -> bool {
        let shared = self.shared.as_ref().filter(|sharing| sharing.reported && !sharing.replaced);
        let forming = shared.is_some_and(|sharing| now < sharing.usable_from + ADDRESS_FORMATION_TIME);
        !self.reported_prefixes.is_empty() && !forming
    }

    /// Shares the visited link's prefix; one that is `replaced` is not offered, and serves the nodes that have an address
    /// of it.
    fn share(
        &mut self,
        now: Time,
        wanted: &SourceSpec,
        (inside, replaced): ((LinkId, LinkAddress), bool),
        out: &mut Outbox,
    ) {
        let (link, bid, prefix) = (self.link, self.bid, self.network);
        let awaits_lease = self.awaits_lease(now);
        let sharing = self.shared.get_or_insert_with(|| {
            let former = || self.former_nodes.clone();
            let proxy = |address| NdProxy::new((prefix, wanted.own_address), (link, address), inside, former());
            SharedPrefix {
                own: wanted.own_address,
                inside: inside.0,
                proxy: wanted.link_address.map(proxy),
                usable_from: if replaced { now } else { now + PROXY_ANNOUNCEMENT_TIME },
                reported: false,
                replaced,
                preferred_until: now,
                valid_until: now,
            }
        });
        (sharing.preferred_until, sharing.valid_until) = (wanted.preferred_until, wanted.valid_until);
        let was_offered = sharing.reported && !sharing.replaced;
        sharing.replaced = replaced;
        if !sharing.reported && sharing.usable_from <= now && !awaits_lease {
            sharing.usable_from = now;
            sharing.reported = true;
            if let Some(proxy) = &mut sharing.proxy {
                proxy.query_former_addresses(now, out);
            }
        }
        match (was_offered, sharing.reported && !replaced) {
            (false, true) => out.report(NemoReport::PrefixShared { link, bid, prefix }),
            (true, false) => {
                let why = "no longer shared".to_owned();
                out.report(NemoReport::PrefixLost { link, bid, prefix, why });
            }
            _ => {}
        }
        if let Some(proxy) = &mut sharing.proxy {
            proxy.expire(now);
        }
    }

    /// Processes a packet to the client port.
    pub(super) fn receive(&mut self, now: Time, datagram: &Datagram<'_>, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(delegation) = &mut self.delegation {
            let event = delegation.receive(now, datagram, entropy, out);
            self.report_event(now, event, out);
        }
    }

    /// Releases the leases, with a single message.
    pub(super) fn stop(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        let shared = self.shared.take().filter(|sharing| sharing.reported && !sharing.replaced);
        let shared = shared.map(|_| self.network);
        for prefix in self.reported_prefixes.drain(..).chain(shared) {
            let (link, bid) = (self.link, self.bid);
            out.report(NemoReport::PrefixLost { link, bid, prefix, why: "the network was left".to_owned() });
        }
        if let Some(delegation) = &mut self.delegation {
            delegation.stop(now, entropy, out);
        }
    }

    /// The prefixes that nodes may use.
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
        let alive = |sharing: &&SharedPrefix| sharing.reported && sharing.valid_until > now;
        grants.extend(self.shared.as_ref().filter(alive).map(|sharing| Grant {
            bid,
            link,
            prefix: self.network,
            kind: GrantKind::Shared {
                ingress: sharing.inside,
                own_address: sharing.own,
                node_addresses: sharing.proxy.as_ref().map(|proxy| proxy.addresses().collect()),
                replaced: sharing.replaced,
            },
            preferred_until: sharing.preferred_until,
            valid_until: sharing.valid_until,
        }));
        grants
    }

    /// The DNS configuration from the delegating server, and the end of the first lease.
    pub(in super::super) fn dns(&self) -> Option<(&DnsInfo, Time)> {
        let delegation = self.delegation.as_ref()?;
        let until = delegation.leases().iter().map(|lease| lease.valid_until).min()?;
        Some((delegation.dns(), until))
    }

    /// When [`PrefixSource::update`] has something to do, or a grant changes.
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

    /// Reports a change of the leases.
    fn report_event(&mut self, now: Time, event: Option<DhcpEvent>, out: &mut Outbox) {
        let (link, bid) = (self.link, self.bid);
        let why = match event {
            None | Some(DhcpEvent::Extended(_)) => return,
            Some(DhcpEvent::Unavailable(why)) => {
                return out.report(NemoReport::PrefixUnavailable { link, bid, why: failure_text(why).to_owned() });
            }
            Some(DhcpEvent::Lost(why)) => failure_text(why),
            Some(DhcpEvent::Delegated(_) | DhcpEvent::Changed(_)) => "replaced, or its lifetime ended",
        };
        let leases = self.delegation.as_ref().map(DhcpClient::leases).unwrap_or_default();
        let before = std::mem::replace(&mut self.reported_prefixes, leases.iter().map(|lease| lease.prefix).collect());
        for prefix in before.iter().copied().filter(|prefix| !self.reported_prefixes.contains(prefix)) {
            out.report(NemoReport::PrefixLost { link, bid, prefix, why: why.to_owned() });
        }
        for lease in leases.iter().filter(|lease| !before.contains(&lease.prefix)) {
            let valid = lease.valid_until.since(now);
            out.report(NemoReport::PrefixDelegated { link, bid, prefix: lease.prefix, valid });
        }
    }
}

fn failure_text(why: DhcpFailure) -> &'static str {
    match why {
        DhcpFailure::NoAnswer => "no server answers",
        DhcpFailure::Rejected(_) => "no server delegates one",
        DhcpFailure::Expired => "its lifetime ended",
        DhcpFailure::Withdrawn => "the server withdrew it",
    }
}
