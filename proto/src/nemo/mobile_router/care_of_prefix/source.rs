//! Where the prefixes of one visited network come from: shared with the visited link until a server delegates some, and for
//! good where none does.

use super::{Grant, Kind};
use crate::access::delegation::{Client, Delegation, Event, Interface, Names, Why};
use crate::access::nd_proxy::NdProxy;
use crate::access::neighbour;
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::config::nemo::{CareOfPrefixConfig, PrefixSharing};
use crate::contract::engine::Outbox;
use crate::contract::report::Report;
use core::time::Duration;
use roam6_wire::ip6::Datagram;
use roam6_wire::{Bid, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// A server that has made an offer has so long to keep it before the visited link is shared.
const PATIENCE: Duration = Duration::from_secs(4);
/// A lease takes the place of a shared prefix not before the nodes that were told of that one have finished forming their
/// addresses, and are known (RFC 4862 §5.4.2).
const FORMING: Duration = Duration::from_secs(3);
/// Nodes are told that there is a proxy before they use it, so that another proxy hears it in time (RFC 4389 §6).
const PROVING: Duration = Duration::from_millis(500);
/// The only length of a prefix hosts form addresses in.
const SHARED_LENGTH: u8 = 64;

/// What an uplink on a visited network should have.
#[derive(Debug, Clone)]
pub(in super::super) struct Wanted {
    pub(super) config: CareOfPrefixConfig,
    pub(super) bid: Bid,
    pub(super) link: LinkId,
    /// `None` on a link with two ends.
    pub(super) address: Option<LinkAddress>,
    /// The visited link's prefix, our address in it, and how long it lasts.
    pub(super) prefix: Prefix,
    pub(super) own: Ipv6Addr,
    pub(super) preferred_until: Time,
    pub(super) valid_until: Time,
    /// Where nodes may share it.
    pub(super) inside: Option<(LinkId, LinkAddress)>,
    /// The visited link is behind a proxy itself: proxies must not be chained (RFC 4389 §4.1.3.3).
    pub(super) behind_proxy: bool,
}

/// The prefixes of one visited network.
#[derive(Debug, Clone)]
pub(in super::super) struct Source {
    bid: Bid,
    link: LinkId,
    network: Prefix,
    config: CareOfPrefixConfig,
    began: Time,
    delegation: Option<Delegation>,
    /// What was told of, to tell when it is gone.
    delegated: Vec<Prefix>,
    sharing: Option<Sharing>,
}

/// The visited link's prefix inside.
#[derive(Debug, Clone)]
struct Sharing {
    own: Ipv6Addr,
    inside: LinkId,
    /// `None` if the visited link has but two ends.
    proxy: Option<NdProxy>,
    /// Nodes may use it from then on.
    proven_at: Time,
    /// It was reported.
    told: bool,
    preferred_until: Time,
    valid_until: Time,
}

impl Source {
    /// Begins on a network just found.
    pub(super) fn new(now: Time, wanted: &Wanted, client: Client, entropy: &mut Entropy) -> Source {
        let interface = wanted
            .address
            .filter(|_| wanted.config.delegation)
            .map(|address| Interface { link: wanted.link, source: neighbour::link_local(address) });
        let delegation = interface.map(|interface| Delegation::new(now, interface, client, entropy));
        Source {
            bid: wanted.bid,
            link: wanted.link,
            network: wanted.prefix,
            config: wanted.config,
            began: now,
            delegation,
            delegated: Vec::new(),
            sharing: None,
        }
    }

    /// Whether it is of this network, and come by in this way.
    pub(super) fn is_of(&self, wanted: &Wanted) -> bool {
        let how = |config: &CareOfPrefixConfig| (config.delegation, config.length);
        (self.link, self.network) == (wanted.link, wanted.prefix) && how(&self.config) == how(&wanted.config)
    }

    /// The uplink.
    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    /// The proxy of the visited link, and its side outside.
    pub(super) fn proxy(&mut self) -> Option<(LinkId, &mut NdProxy)> {
        Some((self.link, self.sharing.as_mut()?.proxy.as_mut()?))
    }

    /// Whether all other addresses of the visited link are inside.
    pub(in super::super) fn has_whole_link(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.proxy.is_none())
    }

    /// The interface inside whose nodes are told of a proxy.
    pub(super) fn proxied_inside(&self) -> Option<LinkId> {
        self.sharing.as_ref().filter(|sharing| sharing.proxy.is_some()).map(|sharing| sharing.inside)
    }

    /// Sends what is due, and shares or no longer shares.
    pub(super) fn settle(&mut self, now: Time, wanted: &Wanted, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(delegation) = &mut self.delegation {
            let event = delegation.expire(now, entropy, out);
            self.note(now, event, out);
        }
        let told = self.sharing.as_ref().filter(|sharing| sharing.told);
        let forming = told.is_some_and(|sharing| now < sharing.proven_at + FORMING);
        let offered = self.delegation.as_ref().is_some_and(Delegation::is_offered) && now < self.began + PATIENCE;
        let may_share = wanted.config.share == PrefixSharing::NdProxy
            && (self.delegated.is_empty() || forming)
            && (told.is_some() || !offered)
            && !wanted.behind_proxy
            && wanted.prefix.length() == SHARED_LENGTH;
        let inside = wanted.inside.filter(|_| may_share);
        let kept = self.sharing.as_ref().is_some_and(|sharing| {
            inside.is_some_and(|inside| sharing.inside == inside.0 && sharing.own == wanted.own)
        });
        if !kept
            && let Some(sharing) = self.sharing.take()
            && sharing.told
        {
            let why = if wanted.behind_proxy { "the network is behind a proxy" } else { "no longer shared" };
            let (link, bid, prefix) = (self.link, self.bid, self.network);
            out.report(Report::PrefixLost { link, bid, prefix, why: why.to_owned() });
        }
        if let Some(inside) = inside {
            self.share(now, wanted, inside, out);
        }
    }

    fn share(&mut self, now: Time, wanted: &Wanted, inside: (LinkId, LinkAddress), out: &mut Outbox) {
        let (link, bid, prefix) = (self.link, self.bid, self.network);
        let sharing = self.sharing.get_or_insert_with(|| {
            let proxy = |address| NdProxy::new(prefix, wanted.own, (link, address), inside);
            Sharing {
                own: wanted.own,
                inside: inside.0,
                proxy: wanted.address.map(proxy),
                proven_at: now + PROVING,
                told: false,
                preferred_until: now,
                valid_until: now,
            }
        });
        (sharing.preferred_until, sharing.valid_until) = (wanted.preferred_until, wanted.valid_until);
        if sharing.proven_at <= now && !core::mem::replace(&mut sharing.told, true) {
            out.report(Report::PrefixShared { link, bid, prefix });
        }
        if let Some(proxy) = &mut sharing.proxy {
            proxy.expire(now);
        }
    }

    /// Takes a packet to the client port.
    pub(super) fn hear(&mut self, now: Time, datagram: &Datagram<'_>, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(delegation) = &mut self.delegation {
            let event = delegation.hear(now, datagram, entropy, out);
            self.note(now, event, out);
        }
    }

    /// Gives back what it has, as far as one message can.
    pub(super) fn stop(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        let shared = self.sharing.take().filter(|sharing| sharing.told).map(|_| self.network);
        for prefix in self.delegated.drain(..).chain(shared) {
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
        let leases = self.delegation.iter().flat_map(Delegation::leases).filter(|lease| lease.valid_until > now);
        let mut grants: Vec<Grant> = leases
            .map(|lease| Grant {
                bid,
                link,
                prefix: lease.prefix,
                kind: Kind::Delegated,
                preferred_until: lease.preferred_until,
                valid_until: lease.valid_until,
            })
            .collect();
        let alive = |sharing: &&Sharing| sharing.proven_at <= now && sharing.valid_until > now;
        grants.extend(self.sharing.as_ref().filter(alive).map(|sharing| Grant {
            bid,
            link,
            prefix: self.network,
            kind: Kind::Shared {
                inside: sharing.inside,
                own: sharing.own,
                nodes: sharing.proxy.as_ref().map(|proxy| proxy.nodes().collect()),
            },
            preferred_until: sharing.preferred_until,
            valid_until: sharing.valid_until,
        }));
        grants
    }

    /// What the server that has delegated prefixes says of DNS, until the first lease ends.
    pub(in super::super) fn names(&self) -> Option<(&Names, Time)> {
        let delegation = self.delegation.as_ref()?;
        let until = delegation.leases().iter().map(|lease| lease.valid_until).min()?;
        Some((delegation.names(), until))
    }

    /// When [`Source::settle`] has something to do, or a grant changes.
    pub(in super::super) fn deadline(&self, now: Time) -> Option<Time> {
        let delegation = self.delegation.as_ref().and_then(Delegation::deadline);
        let sharing = self.sharing.iter().flat_map(|sharing| [sharing.proven_at, sharing.proven_at + FORMING]);
        let patience = self.delegation.as_ref().map(|_| self.began + PATIENCE);
        let proxy = self.sharing.as_ref().and_then(|sharing| sharing.proxy.as_ref()?.deadline());
        let leases = self.delegation.iter().flat_map(Delegation::leases);
        let ends = leases.map(|lease| lease.preferred_until).chain(sharing).chain(patience).filter(|at| *at > now);
        ends.chain(delegation).chain(proxy).min()
    }

    /// Tells what became of the leases.
    fn note(&mut self, now: Time, event: Option<Event>, out: &mut Outbox) {
        let (link, bid) = (self.link, self.bid);
        let why = match event {
            None | Some(Event::Extended(_)) => return,
            Some(Event::Unavailable(why)) => {
                return out.report(Report::PrefixUnavailable { link, bid, why: reason(why).to_owned() });
            }
            Some(Event::Lost(why)) => reason(why),
            Some(Event::Delegated(_) | Event::Changed(_)) => "another took its place, or it ended",
        };
        let leases = self.delegation.as_ref().map(Delegation::leases).unwrap_or_default();
        let before = std::mem::replace(&mut self.delegated, leases.iter().map(|lease| lease.prefix).collect());
        for prefix in before.iter().copied().filter(|prefix| !self.delegated.contains(prefix)) {
            out.report(Report::PrefixLost { link, bid, prefix, why: why.to_owned() });
        }
        for lease in leases.iter().filter(|lease| !before.contains(&lease.prefix)) {
            let valid = lease.valid_until.since(now);
            out.report(Report::PrefixDelegated { link, bid, prefix: lease.prefix, valid });
        }
    }
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Silent => "no server answers",
        Why::Refused(_) => "the servers give none",
        Why::Expired => "its lifetime ended",
        Why::Withdrawn => "the server took it back",
    }
}
