//! IPv4 home addresses and prefixes: grants those requested, and builds the status option of each (RFC 5555 §2.5,
//! §3.1.1, §3.2.1, §4.5). A granted prefix is registered like any other.

use super::HomeAgent;
use super::cache::Registration;
use super::request::UpdateRequest;
use super::types::Ipv4HomeRequest;
use crate::contract::config::nemo::{Ipv4Pool, PrefixTableRow};
use crate::contract::item::TunnelId;
use roam6_wire::mobility::{Ipv4Status, MobilityOption};
use roam6_wire::{HomeAddress, Ipv4Endpoint, Prefix};
use std::net::Ipv4Addr;

/// Bits of an IPv4 address.
const IPV4_BITS: u8 = 32;
/// Maximum pool prefixes that are tried for one update.
const MAX_POOL_TRIES: u32 = 1024;

/// The result for all IPv4 Home Address options of an update.
#[derive(Debug, Default)]
pub(super) struct Ipv4Grant {
    /// The granted prefixes.
    pub prefixes: Vec<Prefix>,
    /// An IPv4 Address Acknowledgement option for each of them.
    pub options: Vec<MobilityOption>,
}

impl HomeAgent {
    /// Grants the requests one by one; a rejected one does not affect the others.
    pub(super) fn grant_ipv4(
        &self,
        request: &UpdateRequest,
        row: &PrefixTableRow,
        latest: Option<&Registration>,
    ) -> Ipv4Grant {
        let mut grant = Ipv4Grant::default();
        for option in &request.ipv4_homes {
            let answer = self.grant_ipv4_prefix(*option, row, latest, &grant.prefixes);
            let (status, prefix_length, address) = match answer {
                Ok((prefix, address)) => {
                    grant.prefixes.push(prefix);
                    (Ipv4Status::ACCEPTED, prefix.ipv4().map_or(0, |(_, length)| length), address)
                }
                Err(status) => (status, 0, option.address),
            };
            grant.options.push(MobilityOption::Ipv4AddressAcknowledgement { status, prefix_length, address });
        }
        grant
    }

    /// The granted prefix, and the address for the acknowledgement.
    fn grant_ipv4_prefix(
        &self,
        option: Ipv4HomeRequest,
        row: &PrefixTableRow,
        latest: Option<&Registration>,
        granted: &[Prefix],
    ) -> Result<(Prefix, Ipv4Addr), Ipv4Status> {
        let own = self.bindings.get(&row.home_address).map(|binding| binding.tunnel);
        let free = |prefix: Prefix| !granted.contains(&prefix) && self.is_unassigned(prefix, own);
        let requested = Prefix::from_ipv4(option.address, option.prefix_length).filter(|_| option.prefix_length > 0);
        let requested = requested.ok_or(Ipv4Status::INVALID_ADDRESS)?;
        if option.address.is_unspecified() {
            let chosen = self.choose_ipv4_prefix(option.prefix_length, row, latest, free);
            let refused =
                if option.prefix_wanted { Ipv4Status::PREFIX_UNAUTHORISED } else { Ipv4Status::NO_DYNAMIC_ADDRESS };
            let (address, _) = chosen.and_then(Prefix::ipv4).ok_or(refused)?;
            return Ok((chosen.ok_or(refused)?, address));
        }
        if self.config.ipv4_pool.is_none() && !row.prefixes.iter().any(|prefix| prefix.is_ipv4()) {
            return Err(Ipv4Status::ADMINISTRATIVELY_PROHIBITED);
        }
        if !Ipv4Endpoint::dsmip(option.address).is_unicast() {
            return Err(Ipv4Status::INVALID_ADDRESS);
        }
        if self.is_authorised_for(row, requested) && free(requested) {
            return Ok((requested, option.address));
        }
        let address = option.prefix_length == IPV4_BITS && !option.prefix_wanted;
        Err(if address { Ipv4Status::INCORRECT_HOME_ADDRESS } else { Ipv4Status::PREFIX_UNAUTHORISED })
    }

    /// A prefix for a dynamic request: from the prefix table, of the requested length if there is one; else the
    /// present one of the pool; else a free one of the pool.
    fn choose_ipv4_prefix(
        &self,
        length: u8,
        row: &PrefixTableRow,
        latest: Option<&Registration>,
        free: impl Fn(Prefix) -> bool,
    ) -> Option<Prefix> {
        let fits = |prefix: &Prefix| prefix.ipv4().is_some_and(|(_, own)| own == length);
        let mut own = row.prefixes.iter().copied().filter(|prefix| prefix.is_ipv4() && free(*prefix));
        let own = own.clone().find(fits).or_else(|| own.next());
        let pool = self.config.ipv4_pool;
        let known = latest.into_iter().flat_map(|latest| latest.prefixes.iter().copied());
        let known = known.filter(|prefix| pool.is_some_and(|pool| pool.contains(*prefix)));
        own.or_else(|| known.into_iter().find(|prefix| free(*prefix)))
            .or_else(|| pool?.candidates(row.home_address).find(|prefix| free(*prefix)))
    }

    fn is_unassigned(&self, prefix: Prefix, own: Option<TunnelId>) -> bool {
        #[cfg(feature = "fleet")]
        if self.is_claimed_by_another(prefix, own) {
            return false;
        }
        self.prefixes.owner(prefix).is_none_or(|owner| Some(owner) == own)
    }

    /// Whether the owner of `row` may register `prefix`: by the prefix table, or from the pool.
    pub(super) fn is_authorised_for(&self, row: &PrefixTableRow, prefix: Prefix) -> bool {
        row.prefixes.iter().any(|own| own.covers(prefix))
            || self.config.ipv4_pool.is_some_and(|pool| pool.contains(prefix))
    }
}

impl Ipv4Pool {
    /// Whether the prefix is one of the pool.
    pub(super) fn contains(&self, prefix: Prefix) -> bool {
        prefix.ipv4().is_some_and(|(_, length)| length == self.length) && self.prefix.covers(prefix)
    }

    /// The prefixes of the pool in search order. A home address always begins at the same place, and so mostly gets
    /// the same prefix again.
    fn candidates(self, home: HomeAddress) -> impl Iterator<Item = Prefix> {
        let (first, length) = self.prefix.ipv4().unwrap_or((Ipv4Addr::UNSPECIFIED, IPV4_BITS));
        let count = 1_u64 << self.length.saturating_sub(length).min(IPV4_BITS);
        let step = u32::from(IPV4_BITS.saturating_sub(self.length));
        let bits = home.0.to_bits();
        let start = ((bits ^ bits >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        (0..MAX_POOL_TRIES).filter(move |index| u64::from(*index) < count).filter_map(move |index| {
            let place = start.wrapping_add(index.into()) % count;
            let address = u64::from(first.to_bits()) + (place << step);
            Prefix::from_ipv4(Ipv4Addr::from_bits(u32::try_from(address).ok()?), self.length)
        })
    }
}
