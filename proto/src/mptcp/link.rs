//! One interface of an MPTCP host: its addresses and their routers (RFC 4861 §6.3.4, RFC 7559 §2, RFC 8028 §3.1).

use super::advertised_prefixes::AdvertisedPrefixes;
use crate::contract::input::{AddressState, RouteEvent};
use crate::{AddressEvent, LinkEvent, LinkId, Outbox, Time, VecMap};
use core::time::Duration;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Addresses remembered of one interface; further ones are ignored.
pub const MAX_ADDRESSES: usize = 32;

/// First and longest interval between Router Solicitations (RFC 7559 §2; the first interval is shorter than there).
const SOLICITATION_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Delay before the kernel's deprecated state of an address counts: the kernel reports the addresses one by one, before
/// or after the advertisement that covers them all.
const DEPRECATION_DELAY: Duration = Duration::from_millis(100);
/// Prefix length assumed where no advertisement is known, bits.
const DEFAULT_PREFIX_LENGTH: u8 = 64;

/// One interface.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) mtu: u32,
    /// Usable addresses; the time from which the kernel's deprecated state counts, if it is set.
    pub(super) addresses: VecMap<Ipv6Addr, Option<Time>>,
    pub(super) advertised: AdvertisedPrefixes,
    /// Router of a static default route.
    static_router: Option<Ipv6Addr>,
    solicit_at: Time,
    interval: Duration,
}

/// Prefix and router of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressRoute {
    pub(super) prefix: Prefix,
    pub(super) router: Ipv6Addr,
    /// The address is not for new connections.
    pub(super) deprecated: bool,
}

impl Link {
    pub(super) fn new(event: &LinkEvent) -> Link {
        Link {
            name: event.name.clone(),
            up: false,
            mtu: event.mtu,
            addresses: VecMap::new(),
            advertised: AdvertisedPrefixes::default(),
            static_router: None,
            solicit_at: Time::ZERO,
            interval: SOLICITATION_INTERVAL.0,
        }
    }

    pub(super) fn handle_link(&mut self, now: Time, event: &LinkEvent) {
        if event.up && !self.up {
            (self.solicit_at, self.interval) = (now, SOLICITATION_INTERVAL.0);
        }
        if !event.up {
            // The interface may come up on another link; the kernel has removed its routes.
            self.advertised = AdvertisedPrefixes::default();
            self.static_router = None;
        }
        (self.up, self.mtu) = (event.up, event.mtu);
        self.name.clone_from(&event.name);
    }

    pub(super) fn handle_address(&mut self, now: Time, event: &AddressEvent, out: &mut Outbox) {
        let address = event.address;
        let special = address.is_multicast() || address.is_loopback() || address.to_ipv4_mapped().is_some();
        if special || address.is_unicast_link_local() {
            return;
        }
        if !event.state.is_usable() {
            self.addresses.remove(&address);
        } else if self.addresses.len() < MAX_ADDRESSES || self.addresses.contains_key(&address) {
            let deprecated = event.state == AddressState::Deprecated;
            let known = self.addresses.get(&address).copied().flatten();
            self.addresses.insert(address, deprecated.then(|| known.unwrap_or(now + DEPRECATION_DELAY)));
        } else {
            out.report_full_table("addresses", MAX_ADDRESSES);
        }
    }

    pub(super) fn handle_route(&mut self, event: &RouteEvent) {
        if event.present {
            self.static_router = Some(event.router);
        } else if self.static_router == Some(event.router) {
            self.static_router = None;
        }
    }

    /// Prefix and router of an address of this link; `None` if it has no route.
    pub(super) fn route_of(&self, now: Time, address: Ipv6Addr) -> Option<AddressRoute> {
        let deprecated = self.addresses.get(&address).filter(|_| self.up)?.is_some_and(|from| from <= now);
        if let Some((prefix, router, until)) = self.advertised.find(now, address) {
            return Some(AddressRoute { prefix, router, deprecated: deprecated || until.preferred_until <= now });
        }
        Some(AddressRoute {
            prefix: Prefix::new(address, DEFAULT_PREFIX_LENGTH)?,
            router: self.static_router?,
            deprecated,
        })
    }

    /// A reachable router, or the static one.
    pub(super) fn router(&self, now: Time) -> Option<Ipv6Addr> {
        self.advertised.router(now).or(self.static_router)
    }

    /// Whether the link has no router, so that Router Solicitations are needed.
    pub(super) fn needs_router(&self, now: Time) -> bool {
        self.up && self.router(now).is_none()
    }

    /// Whether a Router Solicitation is due now; schedules the next one with back-off.
    pub(super) fn take_due_solicitation(&mut self, now: Time) -> bool {
        let asks = self.needs_router(now) && self.solicit_at <= now;
        if asks {
            self.solicit_at = now + self.interval;
            self.interval = (self.interval * 2).min(SOLICITATION_INTERVAL.1);
        }
        asks
    }

    /// When a lifetime ends, or the next Router Solicitation is due.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let solicitation = self.needs_router(now).then_some(self.solicit_at);
        let settled = self.addresses.values().flatten().filter(|from| **from > now).min().copied();
        [solicitation, settled, self.advertised.deadline(now)].into_iter().flatten().min().filter(|_| self.up)
    }
}

/// The interfaces of a host.
pub(super) type Links = VecMap<LinkId, Link>;
