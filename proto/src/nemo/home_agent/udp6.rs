//! Binding Updates in UDP over IPv6, from networks that pass nothing else: like those over IPv4 (RFC 5555 §4.2), they are
//! authenticated by the inner packet, and the care-of address is the source that a NAT may have translated.

use super::HomeAgent;
use super::dsmip::{Dropped, malformed};
use super::request::UpdateRequest;
use crate::contract::config::nemo::Authentication;
use crate::nemo::ipsec::drop_reason;
use crate::{DropReason, Outbox, Packet, Time, Transmit, Via};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{self, Capabilities, MobilityOption};
use roam6_wire::udp6::{self, Encapsulated6};
use roam6_wire::{HomeAddress, Ipv6Endpoint};

impl HomeAgent {
    /// Processes a UDP packet to this home agent. Only a Binding Update is answered, since the answer goes to an
    /// unauthenticated source address.
    pub(super) fn receive_udp6(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        if udp6::destination_port(&packet.bytes) != Some(DSMIP_PORT) {
            return;
        }
        let encapsulated = match Encapsulated6::parse(&packet.bytes) {
            Ok(encapsulated) => encapsulated,
            Err(why) => return out.report_malformed(None, &why),
        };
        if let Err((reason, detail)) = self.decapsulate_udp6(now, packet, &encapsulated, out) {
            out.report_drop(reason, Some(encapsulated.source.address), detail);
        }
    }

    fn decapsulate_udp6(
        &mut self,
        now: Time,
        packet: &Packet,
        encapsulated: &Encapsulated6<'_>,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let datagram = Datagram::parse(encapsulated.inner).map_err(malformed)?;
        let plain = datagram.home_address.is_none() && datagram.routing_home.is_none();
        if datagram.destination != self.config.address || !plain || !self.is_valid_care_of(encapsulated.source.address)
        {
            return Err((DropReason::NotForUs, "encapsulated in UDP".to_owned()));
        }
        let from = (packet, encapsulated.source);
        match datagram.protocol {
            protocol::MOBILITY => self.receive_udp6_update(now, from, &datagram, false, out),
            protocol::ESP => {
                let row = self.prefix_table_row(HomeAddress(datagram.source)).map(|row| row.authentication.clone());
                let Some(Authentication::Ipsec(pair)) = row else {
                    return Err((DropReason::NoAssociation, "ESP encapsulated in UDP".to_owned()));
                };
                let opened = pair.to_home_agent.open(datagram.payload);
                let opened = opened.map_err(|why| (drop_reason(&why), why.to_string()))?;
                if opened.protocol != protocol::MOBILITY {
                    return Err((DropReason::NotForUs, format!("protocol {} in ESP", opened.protocol)));
                }
                let inner = Datagram { protocol: opened.protocol, payload: opened.payload, ..datagram.clone() };
                self.receive_udp6_update(now, from, &inner, true, out)
            }
            other => Err((DropReason::NotForUs, format!("protocol {other} encapsulated in UDP"))),
        }
    }

    fn receive_udp6_update(
        &mut self,
        now: Time,
        (packet, source): (&Packet, Ipv6Endpoint),
        datagram: &Datagram<'_>,
        in_esp: bool,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let message = mobility::Message::parse(datagram.payload, datagram.source, datagram.destination);
        let mobility::Message::BindingUpdate(update) = message.map_err(malformed)? else {
            return Err((DropReason::NotForUs, "a mobility message other than a Binding Update".to_owned()));
        };
        let request = UpdateRequest::parse(packet, datagram, &update, false);
        self.receive_update(now, UpdateRequest { in_esp, udp6_source: Some(source), ..request }, out);
        Ok(())
    }

    /// Sends an inner packet to the source of an update in UDP over IPv6.
    pub(super) fn transmit_udp6(&self, destination: Ipv6Endpoint, inner: &[u8], out: &mut Outbox) {
        let source = Ipv6Endpoint { address: self.config.address, port: DSMIP_PORT };
        let bytes = Encapsulated6 { source, destination, inner }.emit();
        out.transmit(Transmit { via: Via::Route, bytes });
    }

    /// What this home agent can do, for acknowledgements.
    pub(super) fn capabilities(&self) -> MobilityOption {
        let udp = Capabilities::UDP_OVER_IPV6 | Capabilities::ZERO_CHECKSUM;
        let elimination = if self.config.replication { Capabilities::ELIMINATION } else { 0 };
        let flags = if self.config.udp6 { udp } else { 0 } | elimination;
        MobilityOption::Capabilities(Capabilities { flags, encapsulations: Vec::new() })
    }
}
