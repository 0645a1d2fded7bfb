//! Forwarding of IPv4 packets: NATs, and encapsulation.

use super::packet;
use crate::net::datagram::MOBILITY;
use crate::net::{Header, HostId, Port, World};
use roam6_wire::icmp4::Message;
use roam6_wire::{LinkAddress, ip4};

impl World {
    /// A packet for an IPv4 address of the host: echo requests are answered, mobility messages and other ICMPv4 go to the
    /// engine, the rest is decapsulated.
    pub(crate) fn receive_ipv4(&mut self, port: Port, sender: Option<LinkAddress>, packet: &[u8]) {
        if let Some((header, message)) = packet::icmp4(packet) {
            let Message::EchoRequest(echo) = message else { return self.deliver_to_engine(port, sender, packet) };
            let back = ip4::Header { source: header.destination, destination: header.source, ..header };
            return self.send(port.0, back.emit(&Message::EchoReply(echo).emit()), None);
        }
        let Some((_, _, inner)) = packet::decapsulate(packet) else {
            return self.count_loss(port.0, "nothing carried");
        };
        // A mobility message behind an outer header is for a nested mobile router.
        if Header::parse(inner).is_some_and(|header| header.next == MOBILITY) {
            return self.deliver_to_engine(port, sender, packet);
        }
        self.decapsulate(port.0, packet);
    }

    /// Translates a packet for the public address of a NAT.
    pub(crate) fn translate_inward(&self, (host, link): Port, packet: &[u8]) -> Option<Vec<u8>> {
        let nat = self.host(host).nat.as_ref().filter(|nat| nat.inside != link)?;
        let (source, destination, _) = packet::decapsulate(packet)?;
        let inside = nat.inbound(destination.port).filter(|_| destination.address == nat.public)?;
        packet::translate(packet, source, inside)
    }

    /// Whether a packet leaves the inside network of a NAT.
    pub(crate) fn is_translated(&self, (host, link): Port, header: &Header) -> bool {
        let stands_for = self.host(host).nat.as_ref().is_some_and(|nat| nat.inside == link);
        stands_for && header.destination.to_ipv4_mapped().is_some()
    }

    /// Translates a packet of the inside network; `None` for packets without ports.
    pub(crate) fn translate_outward(&mut self, host: HostId, packet: &[u8]) -> Option<Vec<u8>> {
        let (source, destination, _) = packet::decapsulate(packet)?;
        let outside = self.host_mut(host).nat.as_mut()?.outbound(source)?;
        packet::translate(packet, outside, destination)
    }
}
