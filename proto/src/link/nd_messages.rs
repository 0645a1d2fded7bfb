//! Neighbour discovery messages that engines send themselves, since the kernel's own timing and source addresses would
//! delay a handover by milliseconds (RFC 4861 §4, RFC 4862 §5.4.2).

use crate::{LinkId, Transmit, Via};
use roam6_wire::icmp6::{self, Message, NeighbourOption, NeighbourSolicitation, RouterSolicitation};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// The Source Link-Layer Address option (RFC 4861 §4.6.1).
pub fn source_link_address(options: &[NeighbourOption]) -> Option<LinkAddress> {
    options.iter().find_map(|option| match option {
        NeighbourOption::SourceLinkAddress(address) => Some(*address),
        _ => None,
    })
}

/// The Target Link-Layer Address option (RFC 4861 §4.6.1).
pub fn target_link_address(options: &[NeighbourOption]) -> Option<LinkAddress> {
    options.iter().find_map(|option| match option {
        NeighbourOption::TargetLinkAddress(address) => Some(*address),
        _ => None,
    })
}

/// A Router Solicitation from the link-local address with the link-layer address, so that the router may answer at
/// once and by unicast.
pub fn router_solicitation(link: LinkId, own: Option<LinkAddress>) -> Transmit {
    let options = own.map(NeighbourOption::SourceLinkAddress).into_iter().collect();
    let message = Message::RouterSolicitation(RouterSolicitation { options });
    let source = own.map_or(Ipv6Addr::UNSPECIFIED, LinkAddress::link_local);
    transmit_on_link(Via::Link(link), &message, source, icmp6::ALL_ROUTERS)
}

/// A Neighbour Solicitation of NUD to one neighbour, by unicast if its link-layer address is known.
pub fn nud_solicitation(
    link: LinkId,
    own: Option<LinkAddress>,
    neighbour: Ipv6Addr,
    link_address: Option<LinkAddress>,
) -> Transmit {
    let options = own.map(NeighbourOption::SourceLinkAddress).into_iter().collect();
    let message = Message::NeighbourSolicitation(NeighbourSolicitation { target: neighbour, options });
    let source = own.map_or(Ipv6Addr::UNSPECIFIED, LinkAddress::link_local);
    let unicast = link_address.filter(|_| own.is_some());
    let destination = if unicast.is_some() { neighbour } else { icmp6::solicited_node(neighbour) };
    transmit_on_link(Via::on_link(link, unicast), &message, source, destination)
}

/// A Neighbour Solicitation for `target` from the unspecified address, as in duplicate address detection.
pub fn dad_solicitation(link: LinkId, target: Ipv6Addr) -> Transmit {
    let message = Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
    transmit_on_link(Via::Link(link), &message, Ipv6Addr::UNSPECIFIED, icmp6::solicited_node(target))
}

/// Emits a neighbour discovery message. It bypasses routing, because the source address may be tentative in the kernel.
pub fn transmit_on_link(via: Via, message: &Message, source: Ipv6Addr, destination: Ipv6Addr) -> Transmit {
    let header = Header::new(source, destination).with_hop_limit(icmp6::ON_LINK_HOP_LIMIT);
    let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, destination));
    Transmit { via, bytes }
}

/// Whether `prefix` is within `fe80::/10`.
pub fn is_link_local(prefix: Prefix) -> bool {
    prefix.length() >= 10 && prefix.address().is_unicast_link_local()
}
