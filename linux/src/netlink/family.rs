//! Prefixes as rtnetlink has them: address family, address, length.

use netlink_packet_route::AddressFamily;
use roam6_wire::Prefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Both address families.
pub(crate) const BOTH: [AddressFamily; 2] = [AddressFamily::Inet6, AddressFamily::Inet];

/// The family of an address; an IPv4-mapped one is of IPv4.
pub(crate) fn of(address: Ipv6Addr) -> AddressFamily {
    to_kernel(Prefix::host(address)).0
}

/// A prefix in rtnetlink's terms.
pub(crate) fn to_kernel(prefix: Prefix) -> (AddressFamily, IpAddr, u8) {
    match prefix.ipv4() {
        Some((address, length)) => (AddressFamily::Inet, IpAddr::V4(address), length),
        None => (AddressFamily::Inet6, IpAddr::V6(prefix.address()), prefix.length()),
    }
}

/// A prefix from rtnetlink's terms.
pub(crate) fn prefix(address: IpAddr, length: u8) -> Option<Prefix> {
    match address {
        IpAddr::V4(address) => Prefix::from_ipv4(address, length),
        IpAddr::V6(address) => Prefix::new(address, length),
    }
}

/// The unspecified address, which the kernel omits.
pub(crate) fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        AddressFamily::Inet => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        AddressFamily::Inet6 => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        _ => None,
    }
}
