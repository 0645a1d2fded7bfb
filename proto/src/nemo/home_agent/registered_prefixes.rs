//! The registered prefixes of all bindings: owners, longest matches, and the prefix lengths in use.

use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::item::{MAX_PREFIX_LENGTHS, TunnelId, subflow};
use crate::{VecMap, VecSet};
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Maximum prefix lengths of one mobile router beside those of the prefix table.
const MAX_UNLISTED_LENGTHS: usize = 4;
/// Length of a home address as a prefix.
const HOST_LENGTH: u8 = 128;
/// Bits of an IPv4-mapped address before the IPv4 address.
const IPV4_MAPPED_LENGTH: u8 = 96;

/// Registered and pending prefixes.
#[derive(Debug, Default)]
pub(super) struct RegisteredPrefixes {
    /// A tunnel identifier is a quarter as long as a home address.
    owners: BTreeMap<Prefix, TunnelId>,
    /// Number of prefixes of each length.
    lengths: VecMap<u8, usize>,
    /// Lengths that are reserved for rows of the prefix table.
    reserved: VecSet<u8>,
}

impl RegisteredPrefixes {
    /// The tunnel `prefix` belongs to.
    pub(super) fn owner(&self, prefix: Prefix) -> Option<TunnelId> {
        self.owners.get(&prefix).copied()
    }

    /// Gives `prefix` to `tunnel`.
    pub(super) fn insert(&mut self, prefix: Prefix, tunnel: TunnelId) {
        if self.owners.insert(prefix, tunnel).is_none() {
            *self.lengths.entry(prefix.length()).or_default() += 1;
        }
    }

    /// Removes `prefix`.
    pub(super) fn remove(&mut self, prefix: Prefix) {
        if self.owners.remove(&prefix).is_none() {
            return;
        }
        let length = prefix.length();
        if let Some(count) = self.lengths.get_mut(&length) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
    }

    /// The tunnels of all prefixes that contain `address`: one look-up for each length in use.
    pub(super) fn covering(&self, address: Ipv6Addr) -> impl Iterator<Item = TunnelId> + '_ {
        let prefixes = self.lengths.keys().filter_map(move |length| Prefix::new(address, *length));
        prefixes.filter_map(|prefix| self.owner(prefix))
    }

    /// Reserves the lengths of all rows of `config`, and those that every home agent needs: of home addresses, of the
    /// addresses of subflows, of the IPv4 pool, and 0, for a mobile router on the same host.
    pub(super) fn reserve_lengths(&mut self, config: &HomeAgentConfig) {
        let rows = config.prefix_table.rows.iter().flat_map(|row| row.prefixes.iter().map(|prefix| prefix.length()));
        let pool = config.ipv4_pool.map(|pool| pool.length.saturating_add(IPV4_MAPPED_LENGTH));
        self.reserved = VecSet::default();
        let of_subflows = config.has_encrypted_subflows().then_some(subflow::PREFIX_LENGTH);
        for length in rows.chain(pool).chain(of_subflows).chain([0, HOST_LENGTH]) {
            self.reserved.insert(length);
        }
    }

    /// Whether the data plane supports the lengths of `requested` beside those in use and reserved; those of the prefix
    /// table always are.
    pub(super) fn has_room_for(&self, requested: &[Prefix]) -> bool {
        let mut own = VecSet::default();
        let other = requested.iter().map(|prefix| prefix.length()).filter(|length| !self.reserved.contains(length));
        for length in other {
            own.insert(length);
        }
        let added = own.iter().filter(|length| !self.lengths.contains_key(*length)).count();
        let in_use = self.lengths.keys().filter(|length| !self.reserved.contains(*length)).count();
        let room = MAX_PREFIX_LENGTHS.saturating_sub(self.reserved.len());
        own.is_empty() || own.len() <= MAX_UNLISTED_LENGTHS && in_use + added <= room
    }

    /// Every prefix with its tunnel.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Prefix, &TunnelId)> {
        self.owners.iter()
    }

    /// Whether there are none.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.lengths.is_empty()
    }
}

/// The address that packets to a care-of address are routed by: the address itself, or the IPv4-mapped address of an
/// IPv4 end.
pub(super) fn routed_address(care_of: Ipv6Addr) -> Ipv6Addr {
    Ipv4Endpoint::from_ipv6(care_of).map_or(care_of, |end| end.address.to_ipv6_mapped())
}
