//! Finds out whether a router sends packets for a prefix to this host: it gets an echo request for an address of the
//! prefix, and what it does with it tells. A packet that returns is routed here; a Neighbour Solicitation or a Redirect
//! shows that the router takes the prefix for on-link (RFC 4861 §7.2, §8); Destination Unreachable, that it has no route.

use super::GIVE_UP;
use super::socket::{LARGEST, nonce};
use crate::sys;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockType, socket};
use roam6_proto::LinkId;
use roam6_wire::checksum::checksum;
use roam6_wire::icmp6::solicited_node;
use roam6_wire::ip6::{Datagram, Header, emit, protocol};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Enough to return once.
const HOP_LIMIT: u8 = 3;
/// When the request is sent.
const SENT_AT: [Duration; 2] = [Duration::ZERO, Duration::from_millis(600)];

/// Where a router sends packets for a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hairpin {
    /// To this host.
    Routed,
    /// It looks for the address on the link.
    OnLink,
    /// Nowhere: it has no route, as this router says.
    NotRouted(Ipv6Addr),
    /// Nothing came back: routers that filter source addresses drop such packets.
    Unknown,
}

/// Asks the router with this link-layer address. `own` is an address of this host on the interface; the prefix must not
/// be in use here, or the answer comes from this host.
///
/// # Errors
/// The kernel's, if it refuses a socket: this takes CAP_NET_RAW.
pub fn hairpin(interface: u32, own: Ipv6Addr, router: Option<LinkAddress>, prefix: Prefix) -> std::io::Result<Hairpin> {
    let link = LinkId(interface);
    let target = target(prefix);
    let listener = socket(AddressFamily::Packet, SockType::Datagram, sys::SOCKET_FLAGS, None)?;
    sys::bind_frames(&listener, link, libc::ETH_P_IPV6 as u16)?;
    // Switches that listen to MLD deliver solicitations only to members of the group.
    let member = socket(AddressFamily::Inet6, SockType::Datagram, sys::SOCKET_FLAGS, None)?;
    let group = libc::ipv6_mreq {
        ipv6mr_multiaddr: libc::in6_addr { s6_addr: solicited_node(target).octets() },
        ipv6mr_interface: interface,
    };
    let _ = sys::set_option(&member, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &group);
    let packet = request(own, target);
    let begun = Instant::now();
    let mut times = SENT_AT.iter().peekable();
    while let Some(rest) = GIVE_UP.checked_sub(begun.elapsed()) {
        if times.next_if(|at| **at <= begun.elapsed()).is_some() {
            sys::send_packet(&listener, link, router, &packet)?;
        }
        let next = times.peek().map_or(rest, |at| at.saturating_sub(begun.elapsed()));
        if let Some(found) = receive(&listener, next.min(rest), own, target) {
            return Ok(found);
        }
    }
    Ok(Hairpin::Unknown)
}

/// What came back, within `limit`.
fn receive(listener: &OwnedFd, limit: Duration, own: Ipv6Addr, target: Ipv6Addr) -> Option<Hairpin> {
    let timeout = PollTimeout::try_from(limit.as_millis().saturating_add(1)).unwrap_or(PollTimeout::ZERO);
    let _ = poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], timeout);
    let mut buffer = [0; LARGEST];
    while let Ok(info) = sys::receive_packet(listener, &mut buffer) {
        let packet = buffer.get(..info.length).unwrap_or_default();
        if let Some(found) = judge(packet, own, target) {
            return Some(found);
        }
    }
    None
}

/// What a received packet tells.
fn judge(packet: &[u8], own: Ipv6Addr, target: Ipv6Addr) -> Option<Hairpin> {
    const UNREACHABLE: u8 = 1;
    const ECHO_REQUEST: u8 = 128;
    const SOLICITATION: u8 = 135;
    const REDIRECT: u8 = 137;
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == protocol::ICMPV6)?;
    let message = datagram.payload;
    // The target of ND messages, or the destination of the packet that an error quotes.
    let named = |at: usize| message.get(at..at + 16).is_some_and(|octets| octets == target.octets());
    match *message.first()? {
        ECHO_REQUEST if (datagram.source, datagram.destination) == (own, target) => Some(Hairpin::Routed),
        SOLICITATION if named(8) => Some(Hairpin::OnLink),
        // RFC 4861 §4.5: target and destination are the same if the destination is a neighbour. A router that sends the
        // packet back to this host may send a Redirect, too, with another target.
        REDIRECT if named(8) && named(24) => Some(Hairpin::OnLink),
        UNREACHABLE if named(8 + 24) => Some(Hairpin::NotRouted(datagram.source)),
        _ => None,
    }
}

/// A random address of the prefix, which no host is likely to have.
fn target(prefix: Prefix) -> Ipv6Addr {
    let [high, low] = [nonce(), nonce()].map(u64::from_ne_bytes);
    let random = u128::from(high) << 64 | u128::from(low);
    let mask = u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
    Ipv6Addr::from(u128::from(prefix.address()) | (random & mask))
}

fn request(own: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut message = [&[128, 0, 0, 0, 0, 1, 0, 1][..], &nonce()].concat();
    let sum = checksum(own, target, protocol::ICMPV6, &message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    emit(&Header::new(own, target).with_hop_limit(HOP_LIMIT), protocol::ICMPV6, &message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests {
    use super::*;

    #[test]
    fn packets_that_come_back_are_told_apart() {
        let [own, router, target, other]: [Ipv6Addr; 4] =
            ["2001:db8::1", "fe80::1", "2001:db8:100::7", "2001:db8:100::8"].map(|text| text.parse().unwrap());
        let packet = |source, to, message: &[u8]| emit(&Header::new(source, to), protocol::ICMPV6, message);
        let sent = request(own, target);
        assert_eq!(judge(&sent, own, target), Some(Hairpin::Routed));
        assert_eq!(judge(&sent, own, other), None, "to another address");
        let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat();
        let group = solicited_node(target);
        assert_eq!(judge(&packet(router, group, &solicitation), own, target), Some(Hairpin::OnLink));
        assert_eq!(judge(&packet(router, group, &solicitation), own, other), None);
        let redirect = |to: Ipv6Addr| {
            let message = [&[137, 0, 0, 0, 0, 0, 0, 0][..], &to.octets(), &target.octets()].concat();
            judge(&packet(router, own, &message), own, target)
        };
        assert_eq!(redirect(target), Some(Hairpin::OnLink));
        assert_eq!(redirect(router), None, "to another router, or to this host");
        let unreachable = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &sent].concat();
        assert_eq!(judge(&packet(router, own, &unreachable), own, target), Some(Hairpin::NotRouted(router)));
        for length in 0..60 {
            let _ = judge(&packet(router, own, &unreachable)[..length], own, target);
        }
    }

    #[test]
    fn target_is_of_the_prefix() {
        for text in ["2001:db8:100::/56", "2001:db8::/127", "2001:db8::9/128", "::/0"] {
            let prefix: Prefix = text.parse().unwrap();
            assert!(prefix.contains(target(prefix)), "{text}");
        }
    }
}
