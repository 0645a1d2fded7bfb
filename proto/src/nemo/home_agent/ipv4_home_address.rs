//! IPv4 home addresses and prefixes: which of those asked for are granted, and what the acknowledgement says of each
//! (RFC 5555 §2.5, §3.1.1, §3.2.1, §4.5). A prefix granted is one of the registration's like any other.

use super::HomeAgent;
use super::cache::Registration;
use super::request::UpdateRequest;
use crate::contract::config::nemo::{Ipv4Pool, PrefixTableRow};
use crate::contract::item::TunnelId;
use roam6_wire::mobility::{Ipv4Status, MobilityOption};
use roam6_wire::{HomeAddress, Ipv4Endpoint, Prefix};
use std::net::Ipv4Addr;

/// Bits of an IPv4 address.
const IPV4_BITS: u8 = 32;
/// Prefixes of a pool looked at in search of a free one, for each update.
const MAX_POOL_TRIES: u32 = 1024;

/// An IPv4 Home Address option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ipv4HomeRequest {
    /// Prefix-len: [`BITS`] for an address.
    pub prefix_length: u8,
    /// P: a prefix is wanted.
    pub prefix_wanted: bool,
    /// `0.0.0.0`: any.
    pub address: Ipv4Addr,
}

/// What became of all IPv4 Home Address options of an update.
#[derive(Debug, Default)]
pub(super) struct Ipv4Grant {
    /// The prefixes granted.
    pub prefixes: Vec<Prefix>,
    /// An IPv4 Address Acknowledgement option for each of them.
    pub options: Vec<MobilityOption>,
}

impl HomeAgent {
    /// Grants what may be granted; the rest refuses nothing but itself.
    pub(super) fn grant_ipv4(
        &self,
        request: &UpdateRequest,
        row: &PrefixTableRow,
        latest: Option<&Registration>,
    ) -> Ipv4Grant {
        let mut grant = Ipv4Grant::default();
        for wish in &request.ipv4_homes {
            let answer = self.grant_ipv4_prefix(*wish, row, latest, &grant.prefixes);
            let (status, prefix_length, address) = match answer {
                Ok((prefix, address)) => {
                    grant.prefixes.push(prefix);
                    (Ipv4Status::ACCEPTED, prefix.ipv4().map_or(0, |(_, length)| length), address)
                }
                Err(status) => (status, 0, wish.address),
            };
            grant.options.push(MobilityOption::Ipv4AddressAcknowledgement { status, prefix_length, address });
        }
        grant
    }

    /// The prefix, and the address that the acknowledgement says.
    fn grant_ipv4_prefix(
        &self,
        wish: Ipv4HomeRequest,
        row: &PrefixTableRow,
        latest: Option<&Registration>,
        granted: &[Prefix],
    ) -> Result<(Prefix, Ipv4Addr), Ipv4Status> {
        let own = self.bindings.get(&row.home_address).map(|binding| binding.tunnel);
        let free = |prefix: Prefix| !granted.contains(&prefix) && self.is_unassigned(prefix, own);
        let asked = Prefix::from_ipv4(wish.address, wish.prefix_length).filter(|_| wish.prefix_length > 0);
        let asked = asked.ok_or(Ipv4Status::INVALID_ADDRESS)?;
        if wish.address.is_unspecified() {
            let chosen = self.choose_ipv4_prefix(wish.prefix_length, row, latest, free);
            let refused =
                if wish.prefix_wanted { Ipv4Status::PREFIX_UNAUTHORISED } else { Ipv4Status::NO_DYNAMIC_ADDRESS };
            let (address, _) = chosen.and_then(Prefix::ipv4).ok_or(refused)?;
            return Ok((chosen.ok_or(refused)?, address));
        }
        if self.config.ipv4_pool.is_none() && !row.prefixes.iter().any(|prefix| prefix.is_ipv4()) {
            return Err(Ipv4Status::ADMINISTRATIVELY_PROHIBITED);
        }
        if !Ipv4Endpoint::dsmip(wish.address).is_unicast() {
            return Err(Ipv4Status::INVALID_ADDRESS);
        }
        if self.is_authorised_for(row, asked) && free(asked) {
            return Ok((asked, wish.address));
        }
        let address = wish.prefix_length == IPV4_BITS && !wish.prefix_wanted;
        Err(if address { Ipv4Status::INCORRECT_HOME_ADDRESS } else { Ipv4Status::PREFIX_UNAUTHORISED })
    }

    /// A prefix for who has not named one: that of the prefix table, of the length wished for if there is one; else the one
    /// it has of the pool already; else a free one.
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
        self.prefixes.owner(prefix).is_none_or(|owner| Some(owner) == own)
    }

    /// Whether the owner of `row` may register `prefix`: by the prefix table, or as one of the pool.
    pub(super) fn is_authorised_for(&self, row: &PrefixTableRow, prefix: Prefix) -> bool {
        row.prefixes.iter().any(|own| own.covers(prefix))
            || self.config.ipv4_pool.is_some_and(|pool| pool.contains(prefix))
    }
}

impl Ipv4Pool {
    /// Whether it is one of those given away.
    fn contains(&self, prefix: Prefix) -> bool {
        prefix.ipv4().is_some_and(|(_, length)| length == self.length) && self.prefix.covers(prefix)
    }

    /// Where to look for a free one, in this order: the same home address begins at the same place, and so most often has
    /// the same prefix again after a time without a binding.
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
