//! How IPv4 packets pass where others do not: through translators, and into the tunnel they carry.

use super::packet;
use crate::datagram::{Header, MOBILITY};
use crate::host::TUNNELS;
use crate::kernel::Opened;
use crate::medium::Port;
use crate::world::World;
use roam6_wire::LinkAddress;

impl World {
    /// A packet for one of our IPv4 addresses: the engine hears what is about mobility, all else comes out of a tunnel.
    pub(crate) fn carried(&mut self, port: Port, sender: Option<LinkAddress>, packet: &[u8]) {
        let Some((_, _, inner)) = packet::open(packet) else { return self.lose(port.0, "nothing carried") };
        // Behind other headers it is of somebody inside a mobile network.
        if Header::parse(inner).is_some_and(|header| header.next == MOBILITY) {
            return self.hear(port, sender, packet);
        }
        match self.host(port.0).kernel.open(packet) {
            Opened::Inner(inner) => {
                let inner = inner.to_vec();
                self.enter((port.0, TUNNELS), None, &inner);
            }
            Opened::Refused => self.lose(port.0, "not for this tunnel"),
            Opened::Foreign => self.lose(port.0, "no such tunnel"),
        }
    }

    /// A packet for the address a translator has outside, as it goes on inside.
    pub(crate) fn translate_inward(&self, (host, link): Port, packet: &[u8]) -> Option<Vec<u8>> {
        let nat = self.host(host).nat.as_ref().filter(|nat| nat.inside != link)?;
        let (source, destination, _) = packet::open(packet)?;
        let inside = nat.enter(destination.port).filter(|_| destination.address == nat.public)?;
        packet::translate(packet, source, inside)
    }

    /// A packet that leaves the network a translator stands for: as it goes on outside, if it can. `None`: it does not leave.
    pub(crate) fn translate_outward(
        &mut self,
        (host, link): Port,
        header: &Header,
        packet: &[u8],
    ) -> Option<Option<Vec<u8>>> {
        header.destination.to_ipv4_mapped()?;
        let nat = self.host_mut(host).nat.as_mut().filter(|nat| nat.inside == link)?;
        let ends = packet::open(packet);
        let outside = ends.and_then(|(source, destination, _)| Some((nat.leave(source)?, destination)));
        Some(outside.and_then(|(source, destination)| packet::translate(packet, source, destination)))
    }
}
