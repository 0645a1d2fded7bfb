//! The uplinks of this host: usable locators, and the router for each source address.

use crate::contract::config::shim::UplinkPreference;
use crate::contract::input::AddressState;
use crate::mptcp::advertised_prefixes::AdvertisedPrefixes;
use crate::{AddressEvent, LinkEvent, LinkId, Time, VecMap, VecSet};
use roam6_wire::icmp6::RouterAdvertisement;
use roam6_wire::shim6::LocatorPreference;
use std::net::Ipv6Addr;

/// Addresses remembered of one interface; more are ignored.
const MAX_ADDRESSES: usize = 32;

/// All interfaces that the configuration names and the host has.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    links: VecMap<LinkId, Uplink>,
}

#[derive(Debug)]
struct Uplink {
    /// The last event of the interface, with the name that it had first.
    event: LinkEvent,
    advertised: AdvertisedPrefixes,
    addresses: VecSet<Ipv6Addr>,
}

impl Uplinks {
    /// Updates the state of an interface; returns whether it went up or down.
    pub(super) fn put_link(&mut self, event: &LinkEvent) -> bool {
        let fresh = || Uplink {
            event: LinkEvent { up: !event.up, ..event.clone() },
            advertised: AdvertisedPrefixes::default(),
            addresses: VecSet::new(),
        };
        let known = &mut self.links.entry(event.link).or_insert_with(fresh).event;
        (known.mtu, known.address) = (event.mtu, event.address);
        core::mem::replace(&mut known.up, event.up) != event.up
    }

    /// Updates the state of an address; returns whether the set of locators has changed.
    pub(super) fn put_address(&mut self, event: &AddressEvent) -> bool {
        let Some(link) = self.links.get_mut(&event.link) else { return false };
        match event.state {
            AddressState::Preferred | AddressState::Deprecated => {
                let room = link.addresses.len() < MAX_ADDRESSES;
                room && is_global(event.address) && link.addresses.insert(event.address)
            }
            AddressState::Tentative => false,
            AddressState::DadFailed | AddressState::Removed => link.addresses.remove(&event.address),
        }
    }

    /// Processes a Router Advertisement that passed the checks of RFC 4861 §6.1.2.
    pub(super) fn put_router(&mut self, now: Time, link: LinkId, router: Ipv6Addr, message: &RouterAdvertisement) {
        if let Some(link) = self.links.get_mut(&link) {
            link.advertised.handle_advertisement(now, router, message);
        }
    }

    /// Records the kernel's reachability state of a neighbour, which may be a router.
    pub(super) fn set_reachable(&mut self, link: LinkId, router: Ipv6Addr, reachable: bool) {
        if let Some(link) = self.links.get_mut(&link) {
            link.advertised.set_reachable(router, reachable);
        }
    }

    /// Removes the interfaces that are not in `kept`, and returns them.
    pub(super) fn retain(&mut self, kept: &VecSet<String>) -> Vec<LinkId> {
        let (stay, go) =
            core::mem::take(&mut self.links).into_iter().partition(|(_, link)| kept.contains(&link.event.name));
        self.links = stay;
        let go: VecMap<LinkId, Uplink> = go;
        go.into_keys().collect()
    }

    /// The last event of each interface.
    pub(super) fn link_events(&self) -> Vec<LinkEvent> {
        self.links.values().map(|link| link.event.clone()).collect()
    }

    /// The addresses that can be locators now.
    pub(super) fn locators(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.links.values().filter(|link| link.event.up).flat_map(|link| link.addresses.iter().copied())
    }

    /// The interface with `address`, up or down.
    pub(super) fn link_of(&self, address: Ipv6Addr) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| link.addresses.contains(&address)).map(|(id, _)| *id)
    }

    /// The configured preference for an address, by its interface.
    pub(super) fn preference(&self, address: Ipv6Addr, of: &VecMap<String, UplinkPreference>) -> LocatorPreference {
        let link = self.links.values().find(|link| link.addresses.contains(&address));
        link.and_then(|link| of.get(&link.event.name))
            .map_or(LocatorPreference::default(), |preference| preference.emit())
    }

    /// Whether `address` can be a locator now.
    pub(super) fn is_usable(&self, address: Ipv6Addr) -> bool {
        self.links.values().any(|link| link.event.up && link.addresses.contains(&address))
    }

    /// A default router of the link, if one is known.
    pub(super) fn default_router(&self, now: Time, link: LinkId) -> Option<Ipv6Addr> {
        self.links.get(&link)?.advertised.router(now)
    }

    /// The router that advertises the prefix of `address`.
    pub(super) fn router_for_source(&self, now: Time, link: LinkId, address: Ipv6Addr) -> Option<Ipv6Addr> {
        self.links.get(&link)?.advertised.find(now, address).map(|(_, router, _)| router)
    }

    /// The last event and the addresses of each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&LinkEvent, &VecSet<Ipv6Addr>)> {
        self.links.values().map(|link| (&link.event, &link.addresses))
    }
}

/// Whether `address` may be announced to peers.
pub(super) fn is_global(address: Ipv6Addr) -> bool {
    let special = address.is_multicast() || address.is_unspecified() || address.is_loopback();
    !(special || address.is_unicast_link_local() || address.to_ipv4_mapped().is_some())
}
