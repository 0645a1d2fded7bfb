//! Neighbour cache and proxy entries in rtnetlink (RFC 4861 §5.1, §7.2.8).

use super::PROTOCOL;
use super::attribute::find_attribute;
use super::message::Message;
use super::socket::Request;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteProtocol, RouteType};
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::input::NeighbourEvent;
use roam6_proto::contract::item::{Neighbour, ProxyNeighbour};
use roam6_wire::LinkAddress;
use std::net::Ipv6Addr;

/// Adds or changes a permanent entry.
pub(crate) fn put(neighbour: &Neighbour) -> Request {
    let mut message = write(neighbour.link, neighbour.address);
    message.header.state = NeighbourState::Permanent;
    message.attributes.push(NeighbourAttribute::LinkLocalAddress(neighbour.link_address.0.to_vec()));
    Request::replace(Message::new(libc::RTM_NEWNEIGH, &message))
}

/// Adds an entry that the kernel verifies before long, as that of a router heard (RFC 4861 §6.3.4), unless it has one. The
/// limit of the neighbour table does not apply to an entry that is learned elsewhere.
pub(crate) fn put_learned(neighbour: &Neighbour) -> Request {
    let mut message = write(neighbour.link, neighbour.address);
    // It is not an item of the plan.
    message.attributes.retain(|attribute| !matches!(attribute, NeighbourAttribute::Protocol(_)));
    message.header.state = NeighbourState::Stale;
    message.header.flags = NeighbourFlags::ExtLearned;
    message.attributes.push(NeighbourAttribute::LinkLocalAddress(neighbour.link_address.0.to_vec()));
    Request::add(Message::new(libc::RTM_NEWNEIGH, &message))
}

/// Removes the entry.
pub(crate) fn remove(neighbour: &Neighbour) -> Request {
    Request::remove(Message::new(libc::RTM_DELNEIGH, &write(neighbour.link, neighbour.address)))
}

/// Fails a next hop whose link-layer address is being resolved, and drops the packets queued for it. `None` for entries
/// that are resolved.
pub(crate) fn fail(message: &NeighbourMessage) -> Option<(LinkId, Ipv6Addr, Request)> {
    let (link, address) = (LinkId(message.header.ifindex), address_of(message)?);
    let waits = message.header.state == NeighbourState::Incomplete;
    waits.then(|| (link, address, Request::remove(Message::new(libc::RTM_DELNEIGH, &write(link, address)))))
}

/// Adds a proxy entry.
pub(crate) fn put_proxy(proxy: &ProxyNeighbour) -> Request {
    let mut message = write_proxy(proxy);
    if proxy.router {
        message.header.flags |= NeighbourFlags::Router;
    }
    Request::replace(Message::new(libc::RTM_NEWNEIGH, &message))
}

/// Removes a proxy entry.
pub(crate) fn remove_proxy(proxy: &ProxyNeighbour) -> Request {
    Request::remove(Message::new(libc::RTM_DELNEIGH, &write_proxy(proxy)))
}

/// Dumps the neighbour cache of a family.
pub(crate) fn dump(family: AddressFamily) -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    Message::new(libc::RTM_GETNEIGH, &message)
}

/// Dumps the proxy entries of a family.
pub(crate) fn dump_proxies(family: AddressFamily) -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    message.header.flags = NeighbourFlags::Proxy;
    Message::new(libc::RTM_GETNEIGH, &message)
}

/// Reads an entry of the neighbour cache; `None` if it is not of roam6.
pub(crate) fn read(message: &NeighbourMessage) -> Option<Neighbour> {
    let entry = event(message)?;
    let link_address = entry.link_address?;
    is_ours(message).then_some(Neighbour { link: entry.link, address: entry.address, link_address })
}

/// Reads a proxy entry; `None` if it is not of roam6.
pub(crate) fn read_proxy(message: &NeighbourMessage) -> Option<ProxyNeighbour> {
    let flags = message.header.flags;
    (flags.contains(NeighbourFlags::Proxy) && is_ours(message)).then_some(ProxyNeighbour {
        link: LinkId(message.header.ifindex),
        address: address_of(message)?,
        router: flags.contains(NeighbourFlags::Router),
    })
}

/// The event of a neighbour; `None` for states in between, and for proxies.
pub(crate) fn event(message: &NeighbourMessage) -> Option<NeighbourEvent> {
    let header = &message.header;
    let undecided = matches!(header.state, NeighbourState::Incomplete | NeighbourState::None);
    if header.family != AddressFamily::Inet6 || header.flags.contains(NeighbourFlags::Proxy) || undecided {
        return None;
    }
    let octets = find_attribute!(message, NeighbourAttribute::LinkLocalAddress(octets) => octets.as_slice());
    let link_address = octets.and_then(|octets| octets.try_into().ok()).map(LinkAddress);
    Some(NeighbourEvent {
        link: LinkId(header.ifindex),
        address: address_of(message)?,
        link_address,
        reachable: header.state != NeighbourState::Failed,
    })
}

fn is_ours(message: &NeighbourMessage) -> bool {
    message.attributes.contains(&NeighbourAttribute::Protocol(RouteProtocol::Other(PROTOCOL)))
}

fn address_of(message: &NeighbourMessage) -> Option<Ipv6Addr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(*address),
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(address.to_ipv6_mapped()),
        _ => None,
    })
}

fn write_proxy(proxy: &ProxyNeighbour) -> NeighbourMessage {
    let mut message = write(proxy.link, proxy.address);
    message.header.flags = NeighbourFlags::Proxy;
    message
}

/// An entry for an address, IPv4-mapped if it is one of IPv4.
fn write(link: LinkId, address: Ipv6Addr) -> NeighbourMessage {
    let (family, destination) = match address.to_ipv4_mapped() {
        Some(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        None => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    message.header.ifindex = link.0;
    message.header.kind = RouteType::Unspec;
    message.attributes = vec![
        NeighbourAttribute::Destination(destination),
        NeighbourAttribute::Protocol(RouteProtocol::Other(PROTOCOL)),
    ];
    message
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use crate::netlink::socket::Netlink;
    use nix::sched::{CloneFlags, unshare};
    use std::process::Command;

    fn ip(arguments: &str) -> String {
        let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn entry_of_a_router_is_exempt_from_the_table_limit_and_replaces_none() {
        let test = "entry_of_a_router_is_exempt_from_the_table_limit_and_replaces_none";
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("skipped: {test}: no network namespace: {error}");
        }
        ip("link add near0 type veth peer name far0");
        ip("link set near0 up");
        let mut netlink = Netlink::open().unwrap();
        let link = LinkId(nix::net::if_::if_nametoindex("near0").unwrap());
        let entry = |last| Neighbour {
            link,
            address: "fe80::1".parse().unwrap(),
            link_address: LinkAddress([2, 0, 0, 0, 0, last]),
        };
        for last in [1, 2] {
            assert_eq!(netlink.execute(&[put_learned(&entry(last))]), [Ok(())]);
            let shown = ip("-6 neighbour show dev near0");
            assert!(shown.starts_with("fe80::1 lladdr 02:00:00:00:00:01 extern_learn"), "{shown}");
        }
    }
}
