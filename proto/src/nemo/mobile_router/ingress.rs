//! Ingress interfaces: their addresses and Router Advertisements (RFC 3963 §5.4.3 and §5.5, RFC 4861 §6.2).

use super::MobileRouter;
use super::care_of_prefix::AdvertisedPrefixes;
use super::dns::IngressDns;
use super::uplink::Interface;
use crate::contract::config::nemo::IngressConfig;
use crate::link::advertiser::{Advertiser, RaContent};
use crate::{Entropy, LinkEvent, LinkId, Outbox, Time};
use core::time::Duration;
use roam6_wire::ip6::MINIMUM_MTU;
use std::net::Ipv6Addr;

/// RFC 4389 §4.1.3.3: how long another router on an ingress interface is remembered.
const OTHER_ROUTER_TIMEOUT: Duration = Duration::from_secs(3600);

/// An ingress interface.
#[derive(Debug, Default, Clone)]
pub(super) struct IngressInterface {
    pub(super) config: IngressConfig,
    pub(super) interface: Option<Interface>,
    pub(super) advertiser: Option<Advertiser>,
    /// Care-of prefixes that its nodes may consider valid.
    pub(super) advertised_prefixes: AdvertisedPrefixes,
    /// DNS configuration that its nodes may consider valid.
    pub(super) dns: IngressDns,
    /// Another router advertises here; remembered until then.
    pub(super) other_router_until: Option<Time>,
    /// A router that offers itself as default router here, until then.
    default_router: Option<(Ipv6Addr, Time)>,
}

impl IngressInterface {
    /// An interface that has not appeared yet.
    pub(super) fn new(config: IngressConfig) -> IngressInterface {
        IngressInterface { config, ..IngressInterface::default() }
    }

    /// The interface's index, once it exists.
    pub(super) fn link(&self) -> Option<LinkId> {
        self.interface.as_ref().map(|interface| interface.link)
    }

    /// The router's own address.
    pub(super) fn address(&self) -> Option<Ipv6Addr> {
        self.config.prefix.with_identifier(self.config.identifier.unwrap_or(1))
    }

    /// Records the advertisement of another router here: nodes take it as default router for `lifetime` (RFC 4861 §6.3.4).
    fn note_advertisement(&mut self, now: Time, router: Ipv6Addr, lifetime: Duration) {
        if !lifetime.is_zero() {
            self.default_router = Some((router, now + lifetime));
        } else if self.default_router.is_some_and(|(known, _)| known == router) {
            self.default_router = None;
        }
    }

    /// What is in the way of its nodes.
    pub(super) fn hints(&self, now: Time) -> Vec<String> {
        let other = self.default_router.filter(|(_, until)| *until > now);
        other.map(|(router, _)| format!("another router advertises here: {router}")).into_iter().collect()
    }

    /// Processes a link event.
    pub(super) fn receive_link_event(&mut self, event: &LinkEvent) {
        let interface = Interface::of(event);
        let same = self.interface.as_ref().is_some_and(|before| before.link == interface.link);
        if !event.up || !same {
            self.advertiser = None;
            self.default_router = None;
        }
        self.interface = Some(interface);
    }

    /// Sends the advertisement that is due.
    pub(super) fn expire(&mut self, now: Time, entropy: &mut Entropy, out: &mut Outbox) {
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.send_due(now, entropy, out);
        }
    }

    /// Applies a changed configuration. A former prefix is advertised as withdrawn.
    pub(super) fn configure(&mut self, now: Time, wanted: &IngressConfig, out: &mut Outbox) {
        let former = core::mem::replace(&mut self.config, wanted.clone()).prefix;
        if former != wanted.prefix && self.advertiser.is_some() {
            self.advertised_prefixes.withdraw(now, former, &self.config.interface, out);
        }
    }

    fn advertise(&mut self, now: Time, content: RaContent) {
        let Some(interface) = self.interface.as_ref().filter(|interface| interface.up) else {
            return;
        };
        match (&mut self.advertiser, interface.address) {
            (Some(advertiser), _) => advertiser.update(now, content),
            (None, Some(address)) => {
                self.advertiser = Some(Advertiser::new(now, interface.link, address, content));
            }
            (None, None) => {}
        }
    }
}

impl MobileRouter {
    /// Updates the Router Advertisements: prefixes, and the MTU of the tunnel.
    pub(super) fn update_ingress(&mut self, now: Time, out: &mut Outbox) {
        let tunnel = self.paths().iter().filter(|path| path.weight > 0).map(|path| path.mtu.max(MINIMUM_MTU)).min();
        self.advertised_mtu =
            if self.home_link.is_some() && !self.is_home_and_away() { None } else { tunnel.or(self.advertised_mtu) };
        let mtu = self.advertised_mtu;
        let names = self.learned_dns(now);
        for (index, live) in self.advertisable_prefixes(now).into_iter().enumerate() {
            let content = self.ra_content(now, index, live, out);
            let Some(inside) = self.ingress.get_mut(index) else { continue };
            let link_mtu = inside.interface.as_ref().map_or(u32::MAX, |interface| interface.mtu);
            // Present also if it equals the link's: an absent option would not undo an earlier one.
            let mtu = Some(mtu.unwrap_or(link_mtu).min(link_mtu)).filter(|mtu| *mtu < u32::MAX);
            let (resolvers, search) = inside.dns.update(now, &inside.config, &names);
            inside.advertise(now, RaContent { mtu, resolvers, search_domains: search, ..content });
            inside.expire(now, &mut self.entropy, out);
        }
    }

    /// Records what an advertisement on the ingress interface `link`, if it is one, offers to nodes inside.
    pub(super) fn note_inside_advertisement(&mut self, now: Time, link: LinkId, router: Ipv6Addr, lifetime: u16) {
        if let Some(inside) = self.ingress_on(link) {
            inside.note_advertisement(now, router, Duration::from_secs(lifetime.into()));
        }
    }

    /// Another router advertises on the ingress interface `link`: it may be a proxy for the link that would be shared
    /// there (RFC 4389 §4.1.3.3).
    pub(super) fn note_other_router(&mut self, now: Time, link: LinkId) {
        if let Some(inside) = self.ingress_on(link) {
            inside.other_router_until = Some(now + OTHER_ROUTER_TIMEOUT);
        }
    }

    /// The index of each ingress interface that exists, in the order of the configuration.
    pub(super) fn ingress_links(&self) -> impl Iterator<Item = Option<LinkId>> {
        self.ingress.iter().map(IngressInterface::link)
    }

    /// This router's addresses on its ingress interfaces.
    pub(super) fn ingress_addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.ingress.iter().filter_map(IngressInterface::address)
    }

    /// The ingress interface on `link`.
    pub(super) fn ingress_on(&mut self, link: LinkId) -> Option<&mut IngressInterface> {
        let on_link = |inside: &&mut IngressInterface| inside.interface.as_ref().is_some_and(|held| held.link == link);
        self.ingress.iter_mut().find(on_link)
    }
}
