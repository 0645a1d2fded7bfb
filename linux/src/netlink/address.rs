//! Addresses as the kernel holds them.

use super::PROTOCOL;
use super::socket::Request;
use netlink_packet_core::{DefaultNla, Nla};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, CacheInfo};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use roam6_proto::input::{AddressEvent, AddressState, LinkId};
use roam6_proto::plan::Address;
use std::net::{IpAddr, Ipv6Addr};

/// Who made an address (IFA_PROTO), which the crate does not name yet.
const IFA_PROTO: u16 = 11;
const FOREVER: u32 = u32::MAX;

/// Adds `address`, usable at once, or changes its lifetime.
pub(crate) fn put(address: &Address) -> Request {
    let mut message = write(address);
    message.header.flags = AddressHeaderFlags::Nodad;
    let mut lifetime = CacheInfo::default();
    lifetime.ifa_valid = FOREVER;
    lifetime.ifa_preferred = if address.preferred { FOREVER } else { 0 };
    message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    message.attributes.push(AddressAttribute::CacheInfo(lifetime));
    message.attributes.push(AddressAttribute::Other(DefaultNla::new(IFA_PROTO, vec![PROTOCOL])));
    Request::replace(RouteNetlinkMessage::NewAddress(message))
}

/// Removes `address`.
pub(crate) fn remove(address: &Address) -> Request {
    Request::remove(RouteNetlinkMessage::DelAddress(write(address)))
}

/// Asks for all addresses.
pub(crate) fn dump() -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet6;
    RouteNetlinkMessage::GetAddress(message)
}

/// Reads an address; `None` if it is not ours.
pub(crate) fn read(message: &AddressMessage) -> Option<Address> {
    let ours = message.attributes.iter().any(|attribute| match attribute {
        AddressAttribute::Other(other) if other.kind() == IFA_PROTO => {
            let mut octet = [0];
            other.value_len() == 1 && {
                other.emit_value(&mut octet);
                octet == [PROTOCOL]
            }
        }
        _ => false,
    });
    let preferred = message
        .attributes
        .iter()
        .any(|attribute| matches!(attribute, AddressAttribute::CacheInfo(lifetime) if lifetime.ifa_preferred > 0));
    let link = LinkId(message.header.index);
    let (address, prefix_length) = (address_of(message)?, message.header.prefix_len);
    ours.then_some(Address { link, address, prefix_length, preferred })
}

/// What is true of an address now, `gone` or not; `None` for what is not IPv6.
pub(crate) fn event(message: &AddressMessage, gone: bool) -> Option<AddressEvent> {
    let flags = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    let flags = flags.unwrap_or(AddressFlags::from_bits_retain(u32::from(message.header.flags.bits())));
    let state = if gone {
        AddressState::Gone
    } else if flags.contains(AddressFlags::Dadfailed) {
        AddressState::Duplicated
    } else if flags.contains(AddressFlags::Tentative) && !flags.contains(AddressFlags::Optimistic) {
        AddressState::Tentative
    } else if flags.contains(AddressFlags::Deprecated) {
        AddressState::Deprecated
    } else {
        AddressState::Assigned
    };
    Some(AddressEvent { link: LinkId(message.header.index), address: address_of(message)?, state })
}

fn address_of(message: &AddressMessage) -> Option<Ipv6Addr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(IpAddr::V6(address)) => Some(*address),
        _ => None,
    });
    local.or(message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(IpAddr::V6(address)) => Some(*address),
        _ => None,
    }))
}

fn write(address: &Address) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.index = address.link.0;
    message.header.prefix_len = address.prefix_length;
    message.attributes = vec![AddressAttribute::Local(IpAddr::V6(address.address))];
    message
}
