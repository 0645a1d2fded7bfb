//! Checks nested tunnels over all bindings, so that no packet loops between tunnels or gets more outer headers than
//! the encapsulation limit allows (RFC 2473 §4.1, §6.7).
//!
//! Bindings form a graph: an edge leads from one to another if a care-of address of the first is the home address of
//! the second or lies in one of its prefixes. A packet for the first is then encapsulated again for the second. The
//! graph has no cycle before an update; a cycle that the update would close contains the updated binding.

use super::HomeAgent;
use super::cache::Registration;
use super::registered_prefixes::routed_address;
use crate::contract::item::TunnelId;
use roam6_wire::{HomeAddress, Prefix};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Maximum outer headers of one packet: the default tunnel encapsulation limit (RFC 2473 §5.1, §6.6).
pub(super) const MAX_ENCAPSULATIONS: usize = 4;

/// Maximum bindings in one step of a search.
const MAX_SEARCH_WIDTH: usize = 1024;

/// The destinations of a binding's tunnel: the home address, and prefixes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TunnelDestinations<'a> {
    /// The home address.
    pub home: HomeAddress,
    /// Prefixes of its network.
    pub prefixes: &'a [Prefix],
}

impl TunnelDestinations<'_> {
    /// Whether packets to `address` take this tunnel.
    fn contains(&self, address: Ipv6Addr) -> bool {
        address == self.home.0 || self.prefixes.iter().any(|prefix| prefix.contains(address))
    }

    /// All destinations.
    fn all_prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        core::iter::once(Prefix::host(self.home.0)).chain(self.prefixes.iter().copied())
    }
}

impl HomeAgent {
    /// Whether packets for `reach` may be sent to `care_of`: through no tunnel that leads back, and with at most
    /// [`MAX_ENCAPSULATIONS`] outer headers, bindings nested inside `reach` included.
    pub(super) fn may_nest(&self, reach: TunnelDestinations<'_>, care_of: &[Ipv6Addr]) -> bool {
        let Some(outside) = self.outer_depth(reach, care_of) else { return false };
        let room = MAX_ENCAPSULATIONS.saturating_sub(outside + 1);
        outside == 0 || self.inner_depth(reach, room) <= room
    }

    /// The maximum number of other tunnels on the path to `care_of`; `None` for a loop, or too many.
    fn outer_depth(&self, reach: TunnelDestinations<'_>, care_of: &[Ipv6Addr]) -> Option<usize> {
        let mut addresses: BTreeSet<Ipv6Addr> = care_of.iter().copied().map(routed_address).collect();
        for depth in 0..MAX_ENCAPSULATIONS {
            if addresses.iter().any(|address| reach.contains(*address)) {
                return None;
            }
            let owners: BTreeSet<HomeAddress> =
                addresses.iter().flat_map(|address| self.owners(*address)).filter(|home| *home != reach.home).collect();
            if owners.is_empty() {
                return Some(depth);
            }
            let next = owners.iter().filter_map(|home| self.bindings.get(home)).flat_map(|binding| binding.live());
            addresses = next.flat_map(Registration::away).map(|care_of| routed_address(care_of.address)).collect();
            if addresses.len() > MAX_SEARCH_WIDTH {
                return None;
            }
        }
        None
    }

    /// The depth of bindings nested inside `reach`, counted to one beyond `limit`. Bindings over IPv4 inside IPv4
    /// mobile networks do not count.
    fn inner_depth(&self, reach: TunnelDestinations<'_>, limit: usize) -> usize {
        let mut inside: BTreeSet<HomeAddress> =
            reach.all_prefixes().flat_map(|prefix| self.bound_within(prefix)).collect();
        let mut depth = 0;
        while depth <= limit && !inside.is_empty() && inside.len() <= MAX_SEARCH_WIDTH {
            depth += 1;
            let prefixes = inside.iter().flat_map(|home| {
                let live = self.bindings.get(home).into_iter().flat_map(|binding| binding.live());
                let prefixes: Vec<Prefix> = live.flat_map(|one| one.prefixes.iter().copied()).collect();
                prefixes.into_iter().chain([Prefix::host(home.0)])
            });
            inside = prefixes.flat_map(|prefix| self.bound_within(prefix)).take(MAX_SEARCH_WIDTH + 1).collect();
        }
        depth
    }

    /// The home addresses whose tunnels packets to `address` enter.
    fn owners(&self, address: Ipv6Addr) -> impl Iterator<Item = HomeAddress> + '_ {
        let bound = self.bindings.get(&HomeAddress(address)).filter(|binding| binding.latest().is_some());
        let home = bound.map(|_| HomeAddress(address));
        home.into_iter().chain(self.prefixes.covering(address).filter_map(|tunnel| self.tunnels.get(&tunnel).copied()))
    }

    /// The home addresses with a visited care-of address in `prefix`.
    fn bound_within(&self, prefix: Prefix) -> impl Iterator<Item = HomeAddress> + '_ {
        let hosts = u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
        let last = Ipv6Addr::from_bits(prefix.address().to_bits() | hosts);
        let range = (prefix.address(), TunnelId(0))..=(last, TunnelId(u32::MAX));
        self.care_of_index.range(range).take(MAX_SEARCH_WIDTH).filter_map(|(address, tunnel)| {
            let home = self.tunnels.get(tunnel)?;
            // The home address itself, registered at home, is not encapsulated for.
            (home.0 != *address).then_some(*home)
        })
    }
}
