//! The link-local address of a mobile router that is away, defended on the home link beside the home address if the L
//! flag requests it (RFC 6275 §6.1.7, §10.3.1, §10.4.1).

use super::HomeAgent;
use super::cache::{Binding, Registration};
use roam6_wire::HomeAddress;
use roam6_wire::mobility::Status;
use std::net::Ipv6Addr;

const LINK_LOCAL_PREFIX: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// The link-local address with the interface identifier of `home`.
pub(super) fn link_local_of(home: HomeAddress) -> Ipv6Addr {
    Ipv6Addr::from_bits(LINK_LOCAL_PREFIX.to_bits() | u128::from(interface_identifier(home.0)))
}

fn interface_identifier(address: Ipv6Addr) -> u64 {
    address.to_bits() as u64
}

impl HomeAgent {
    /// The link-local address of `home`, if neither this host nor another home address with the same interface
    /// identifier has it. `None` if no home prefix has room for the identifier.
    pub(super) fn free_link_local(&self, home: HomeAddress) -> Result<Option<Ipv6Addr>, Status> {
        let address = link_local_of(home);
        let mut homes = self.possible_home_addresses(address).peekable();
        if homes.peek().is_none() {
            return Ok(None);
        }
        let others = homes.filter(|other| *other != home);
        let taken =
            others.into_iter().any(|other| self.latest(other).is_some_and(|one| one.link_local == Some(address)));
        if taken || self.home_link.is_own_address(address) { Err(Status::DUPLICATE_ADDRESS) } else { Ok(Some(address)) }
    }

    /// The home address that an address on the home link belongs to.
    pub(super) fn home_address_of(&self, address: Ipv6Addr) -> HomeAddress {
        let has = |home: &HomeAddress| self.latest(*home).is_some_and(|one| one.link_local == Some(address));
        let derived = Some(address).filter(Ipv6Addr::is_unicast_link_local);
        derived.and_then(|address| self.possible_home_addresses(address).find(has)).unwrap_or(HomeAddress(address))
    }

    /// Every possible home address with the interface identifier of `address`.
    fn possible_home_addresses(&self, address: Ipv6Addr) -> impl Iterator<Item = HomeAddress> + '_ {
        self.config
            .home_prefixes
            .iter()
            .filter_map(move |prefix| prefix.with_identifier(interface_identifier(address)))
            .map(HomeAddress)
    }

    fn latest(&self, home: HomeAddress) -> Option<&Registration> {
        self.bindings.get(&home).and_then(|binding| Binding::latest(binding))
    }
}
