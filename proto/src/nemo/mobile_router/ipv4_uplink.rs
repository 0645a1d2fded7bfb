//! The IPv4 state of an uplink: its addresses, the one in use, and when IPv4 is used instead of IPv6 (RFC 5555 §4.4.1).

use super::dsmip::DsmipEncapsulation;
use super::mapping::Mapping;
use super::probe::Prober;
use crate::{LinkId, Time};
use core::time::Duration;
use roam6_wire::{CareOfAddress, Ipv4Endpoint};
use std::net::Ipv4Addr;

/// IPv6 is preferred (RFC 5555 §4.4.1): time for an IPv6 router to answer our solicitation (RFC 4861 §6.2.6).
const ROUTER_WAIT: Duration = Duration::from_millis(500);

/// The IPv4 state of an uplink.
#[derive(Debug, Default, Clone)]
pub struct Ipv4Uplink {
    /// Its addresses, in order of appearance.
    pub(super) addresses: Vec<Ipv4Addr>,
    /// The IPv4 care-of address.
    pub(super) in_use: Option<Ipv4Addr>,
    /// The link, while it is up.
    pub(super) up: Option<LinkId>,
    /// Until when an IPv6 router may still answer.
    pub(super) wait_for_router_until: Option<Time>,
    /// Until when its IPv6 is not used.
    pub(super) ipv6_hold_down_until: Option<Time>,
    /// When a silent path that cannot be probed is used again.
    pub(super) silent_hold_down_until: Option<Time>,
    /// How packets are encapsulated on its path.
    pub(super) encapsulation: DsmipEncapsulation,
    /// Its care-of address at the home agent.
    pub(super) mapping: Mapping,
    /// It was reported that IPv4 alone is of no use here.
    pub(super) ipv4_only_reported: bool,
}

impl Ipv4Uplink {
    /// Whether the interface has this address.
    pub(super) fn has(&self, address: CareOfAddress) -> bool {
        Ipv4Endpoint::from_ipv6(address.0).is_some_and(|end| self.addresses.contains(&end.address))
    }

    /// The care-of address in use, as a UDP end.
    pub(super) fn in_use(&self) -> Option<CareOfAddress> {
        self.in_use.map(|address| CareOfAddress(Ipv4Endpoint::dsmip(address).to_ipv6()))
    }

    /// When [`Ipv4Uplink::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.wait_for_router_until, self.ipv6_hold_down_until, self.silent_hold_down_until].into_iter().flatten().min()
    }

    /// Records whether the link is up: from then on its routers have time to answer.
    pub(super) fn update_link(&mut self, now: Time, up: Option<LinkId>) {
        if self.up != up {
            self.up = up;
            self.wait_for_router_until = up.map(|_| now + ROUTER_WAIT);
        }
    }

    /// Ends waits and hold-downs that are over.
    pub(super) fn expire(&mut self, now: Time, prober: &mut Prober) {
        self.wait_for_router_until.take_if(|at| *at <= now);
        self.ipv6_hold_down_until.take_if(|at| *at <= now);
        if self.silent_hold_down_until.take_if(|at| *at <= now).is_some() {
            prober.restart(now);
        }
    }
}
