//! Addresses in rtnetlink.

use super::attribute::find_attribute;
use super::message::Message;
use super::rtnl::RtnlMessage;
use super::socket::{Netlink, Request};
use super::{PROTOCOL, family};
use crate::error::Error;
use netlink_packet_core::{DefaultNla, Nla};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, CacheInfo};
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::input::{AddressEvent, AddressState};
use roam6_proto::contract::item::Address;
use roam6_wire::Prefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The origin of an address (IFA_PROTO), which the netlink crate has no name for.
const IFA_PROTO: u16 = 11;
/// The kernel, from a Router Advertisement (since Linux 5.18).
const KERNEL_RA: u8 = 2;
const FOREVER: u32 = u32::MAX;

/// Adds `address`, or changes its lifetime.
pub(crate) fn put(address: &Address) -> Request {
    let mut message = write(address);
    if !address.dad {
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    let mut lifetime = CacheInfo::default();
    lifetime.ifa_valid = FOREVER;
    lifetime.ifa_preferred = if address.preferred { FOREVER } else { 0 };
    message.attributes.push(AddressAttribute::CacheInfo(lifetime));
    message.attributes.push(AddressAttribute::Other(DefaultNla::new(IFA_PROTO, vec![PROTOCOL])));
    Request::replace(Message::new(libc::RTM_NEWADDR, &message))
}

/// Removes `address`.
pub(crate) fn remove(address: &Address) -> Request {
    Request::remove(Message::new(libc::RTM_DELADDR, &write(address)))
}

/// Deprecates an address that the kernel has autoconfigured on `link`, so that new connections do not choose it; `None`
/// for other addresses.
pub(crate) fn deprecate(message: &AddressMessage, link: LinkId) -> Option<Request> {
    let made = message.header.index == link.0 && origin(message) == Some(KERNEL_RA);
    let lifetime =
        find_attribute!(message, AddressAttribute::CacheInfo(lifetime) if lifetime.ifa_preferred > 0 => *lifetime);
    let mut lifetime = lifetime.filter(|_| made)?;
    lifetime.ifa_preferred = 0;
    let kept = |attribute: &&AddressAttribute| !matches!(attribute, AddressAttribute::CacheInfo(_));
    let mut new = AddressMessage::default();
    new.header = message.header.clone();
    new.attributes = message.attributes.iter().filter(kept).cloned().collect();
    new.attributes.push(AddressAttribute::CacheInfo(lifetime));
    Some(Request::replace(Message::new(libc::RTM_NEWADDR, &new)))
}

/// Whether this is the address `wanted`, and the kernel still checks whether it is a duplicate. Such a check goes on when
/// the address is replaced: until it ends, the kernel answers no neighbour solicitation for it (RFC 4862 §5.4).
pub(crate) fn is_tentative(message: &AddressMessage, wanted: &Address) -> bool {
    event(message, false).is_some_and(|event| {
        (event.link, event.address, event.state) == (wanted.link, wanted.address, AddressState::Tentative)
    })
}

/// The IPv6 addresses of this host.
///
/// # Errors
/// The kernel's.
pub(crate) fn all_ipv6(netlink: &mut Netlink) -> Result<Vec<AddressMessage>, Error> {
    let address = |message| if let RtnlMessage::NewAddress(address) = message { Some(address) } else { None };
    Ok(netlink.dump(dump(AddressFamily::Inet6))?.into_iter().filter_map(address).collect())
}

/// Dumps all addresses of one family.
pub(crate) fn dump(family: AddressFamily) -> Message {
    let mut message = AddressMessage::default();
    message.header.family = family;
    Message::new(libc::RTM_GETADDR, &message)
}

/// Reads an address; `None` if it is not of roam6. Whether DAD was requested is not part of a dump.
pub(crate) fn read(message: &AddressMessage) -> Option<Address> {
    let ours = origin(message) == Some(PROTOCOL);
    let preferred = find_attribute!(message, AddressAttribute::CacheInfo(lifetime) => lifetime.ifa_preferred > 0);
    let link = LinkId(message.header.index);
    let prefix_length = message.header.prefix_len;
    let (address, prefix_length) = match (address_of(message), ipv4_of(message)) {
        (Some(address), _) => (address, prefix_length),
        (None, address) => (address?, Prefix::from_ipv4(Ipv4Addr::UNSPECIFIED, prefix_length)?.length()),
    };
    ours.then_some(Address { link, address, prefix_length, preferred: preferred == Some(true), dad: false })
}

/// The event of an address, `gone` or not. An IPv4 address becomes an IPv4-mapped one.
pub(crate) fn event(message: &AddressMessage, gone: bool) -> Option<AddressEvent> {
    let flags = find_attribute!(message, AddressAttribute::Flags(flags) => *flags);
    let flags = flags.unwrap_or(AddressFlags::from_bits_retain(u32::from(message.header.flags.bits())));
    let state = if gone {
        AddressState::Removed
    } else if flags.contains(AddressFlags::Dadfailed) {
        AddressState::DadFailed
    } else if flags.contains(AddressFlags::Tentative) && !flags.contains(AddressFlags::Optimistic) {
        AddressState::Tentative
    } else if flags.contains(AddressFlags::Deprecated) {
        AddressState::Deprecated
    } else {
        AddressState::Preferred
    };
    let address = address_of(message).or_else(|| ipv4_of(message))?;
    Some(AddressEvent { link: LinkId(message.header.index), address, state })
}

/// The origin of an address.
fn origin(message: &AddressMessage) -> Option<u8> {
    let other = find_attribute!(message, AddressAttribute::Other(other) if other.kind() == IFA_PROTO => other)?;
    let mut octet = [0];
    (other.value_len() == 1).then(|| other.emit_value(&mut octet))?;
    Some(octet[0])
}

fn address_of(message: &AddressMessage) -> Option<Ipv6Addr> {
    let local = find_attribute!(message, AddressAttribute::Local(IpAddr::V6(address)) => *address);
    local.or_else(|| find_attribute!(message, AddressAttribute::Address(IpAddr::V6(address)) => *address))
}

/// The local address: on point-to-point links the other attribute is the peer's.
fn ipv4_of(message: &AddressMessage) -> Option<Ipv6Addr> {
    find_attribute!(message, AddressAttribute::Local(IpAddr::V4(address)) => address.to_ipv6_mapped())
}

fn write(address: &Address) -> AddressMessage {
    let mut message = AddressMessage::default();
    let prefix = Prefix::new(address.address, address.prefix_length).unwrap_or(Prefix::host(address.address));
    let (family, _, prefix_length) = family::to_kernel(prefix);
    message.header.family = family;
    message.header.index = address.link.0;
    message.header.prefix_len = prefix_length;
    message.attributes = vec![AddressAttribute::Local(address.address.to_canonical())];
    message
}
