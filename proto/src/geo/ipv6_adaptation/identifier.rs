//! Resolution of addresses without neighbour discovery: an interface identifier in the modified EUI-64 format
//! (RFC 4291 appendix A) holds the link-layer address, which is the MID of the station's GeoNetworking address.

use super::{IPV6, Ipv6Adaptation};
use crate::contract::input::Frame;
use core::net::Ipv6Addr;
use roam6_wire::LinkAddress;
use roam6_wire::icmp6::{Message, NeighbourAdvertisement, NeighbourOption, ON_LINK_HOP_LIMIT};
use roam6_wire::ip6::{self, Datagram, Header, protocol};

impl Ipv6Adaptation {
    /// The answer to a Neighbour Solicitation of this host, on a link where the identifier resolves the target. Duplicate
    /// address detection, which has no source address, is not answered.
    pub fn resolve(&self, frame: &Frame) -> Option<Frame> {
        let known = self.links.iter().find(|known| known.link == Some(frame.link))?;
        if !known.config.resolves_by_identifier {
            return None;
        }
        let datagram = Datagram::parse(&frame.bytes).ok().filter(|datagram| datagram.protocol == protocol::ICMPV6)?;
        let Ok(Message::NeighbourSolicitation(solicitation)) = Message::parse(&datagram) else { return None };
        let (host, target) = (datagram.source, solicitation.target);
        let station = link_address(target).filter(|station| *station != frame.source && !host.is_unspecified())?;
        let options = vec![NeighbourOption::TargetLinkAddress(station)];
        let answer = NeighbourAdvertisement { router: false, solicited: true, overrides: true, target, options };
        let message = Message::NeighbourAdvertisement(answer).emit(target, host);
        let header = Header::new(target, host).with_hop_limit(ON_LINK_HOP_LIMIT);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message);
        Some(Frame { link: frame.link, source: station, destination: frame.source, ethertype: IPV6, bytes })
    }
}

/// The link-layer address in an interface identifier.
fn link_address(address: Ipv6Addr) -> Option<LinkAddress> {
    let [.., a, b, c, 0xff, 0xfe, d, e, f] = address.octets() else { return None };
    Some(LinkAddress([a ^ 0x02, b, c, d, e, f])).filter(|station| station.is_unicast() && !address.is_multicast())
}
