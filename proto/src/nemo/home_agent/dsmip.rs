//! Binding Updates over IPv4 (DSMIPv6): encapsulated in UDP, authenticated by the inner packet (RFC 5555 §4.2, §4.5,
//! §5).

use super::HomeAgent;
use super::request::UpdateRequest;
use super::types::{DsmipEncapsulation, ObservedSource};
use crate::contract::config::nemo::Authentication;
use crate::nemo::dsmip::{NO_KEEPALIVE, encapsulate};
use crate::nemo::ipsec::drop_reason;
use crate::{DropReason, Outbox, Packet, Time, Transmit, Via};
use roam6_wire::ip4::Encapsulated;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{self, BindingIdentifier, CareOfField, MobilityOption};
use roam6_wire::{HomeAddress, Ipv4Endpoint, Malformed};
use std::net::Ipv4Addr;

/// The offset of the destination in an IPv4 header.
const IPV4_DESTINATION: core::ops::Range<usize> = 16..20;

/// Why an encapsulated packet is dropped.
pub(super) type Dropped = (DropReason, String);

impl HomeAgent {
    /// Processes an IPv4 packet. The inner update is validated as any other. Only a Binding Update is answered, since
    /// the answer goes to an unauthenticated source address.
    pub(super) fn receive_dsmip(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Some(service) = self.config.ipv4 else { return };
        if packet.bytes.get(IPV4_DESTINATION) != Some(&service.address.octets()) {
            return;
        }
        let encapsulated = match Encapsulated::parse(&packet.bytes) {
            Ok(encapsulated) if encapsulated.destination == Ipv4Endpoint::dsmip(service.address) => encapsulated,
            Ok(_) => return,
            Err(why) => return report_dropped(None, malformed(why), out),
        };
        if let Err(why) = self.decapsulate_dsmip(now, packet, &encapsulated, out) {
            report_dropped(Some(encapsulated.source), why, out);
        }
    }

    fn decapsulate_dsmip(
        &mut self,
        now: Time,
        packet: &Packet,
        encapsulated: &Encapsulated<'_>,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let datagram = Datagram::parse(encapsulated.inner).map_err(malformed)?;
        let plain = datagram.home_address.is_none() && datagram.routing_home.is_none();
        if datagram.destination != self.config.address || !plain || !self.is_valid_ipv4_care_of(encapsulated.source) {
            return Err((DropReason::NotForUs, "encapsulated in IPv4".to_owned()));
        }
        match datagram.protocol {
            protocol::MOBILITY => self.receive_dsmip_mobility(now, (packet, encapsulated), &datagram, false, out),
            protocol::ESP => {
                let home = HomeAddress(datagram.source);
                let row = self.prefix_table_row(home).map(|row| row.authentication.clone());
                let Some(Authentication::Ipsec(pair)) = row else {
                    return Err((DropReason::NoAssociation, "ESP encapsulated in IPv4".to_owned()));
                };
                let opened = pair.to_home_agent.open(datagram.payload);
                let opened = opened.map_err(|why| (drop_reason(&why), why.to_string()))?;
                let inner = Datagram { protocol: opened.protocol, payload: opened.payload, ..datagram.clone() };
                self.receive_dsmip_mobility(now, (packet, encapsulated), &inner, true, out)
            }
            other => Err((DropReason::NotForUs, format!("protocol {other} encapsulated in IPv4"))),
        }
    }

    fn receive_dsmip_mobility(
        &mut self,
        now: Time,
        (packet, encapsulated): (&Packet, &Encapsulated<'_>),
        datagram: &Datagram<'_>,
        protected: bool,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        if datagram.protocol != protocol::MOBILITY {
            return Err((DropReason::NotForUs, format!("protocol {} in ESP", datagram.protocol)));
        }
        let message = mobility::Message::parse(datagram.payload, datagram.source, datagram.destination);
        let mobility::Message::BindingUpdate(update) = message.map_err(malformed)? else {
            return Err((DropReason::NotForUs, "a mobility message other than a Binding Update".to_owned()));
        };
        let source = encapsulated.source;
        let observed = ObservedSource { source, reported: reported_care_of(&update.options, source.address) };
        let request = UpdateRequest::parse(packet, datagram, &update, false);
        self.receive_update(now, UpdateRequest { in_esp: protected, ipv4_source: Some(observed), ..request }, out);
        Ok(())
    }

    /// The encapsulation towards the mobile router: UDP if there is a NAT or if either end forces it (RFC 5555 §4.2).
    pub(super) fn dsmip_encapsulation(&self, observed: &ObservedSource, forced: bool) -> Option<DsmipEncapsulation> {
        let service = self.config.ipv4?;
        let udp = observed.is_translated() || forced || service.force_udp;
        let port = if udp { observed.source.port } else { 0 };
        Some(DsmipEncapsulation { care_of: Ipv4Endpoint { port, ..observed.source }, observed: *observed, service })
    }

    /// Sends an inner packet to the source of an update over IPv4.
    pub(super) fn transmit_dsmip(&self, to: Ipv4Endpoint, inner: &[u8], out: &mut Outbox) {
        let Some(service) = self.config.ipv4.filter(|_| to.port != 0) else { return };
        out.transmit(Transmit { via: Via::Route, bytes: encapsulate(Ipv4Endpoint::dsmip(service.address), to, inner) });
    }
}

impl DsmipEncapsulation {
    /// The NAT Detection option, which every acknowledgement over UDP has (RFC 5555 §4.2).
    pub(super) fn nat_detection_option(&self) -> MobilityOption {
        let keepalive = u32::try_from(self.service.keepalive.as_secs()).unwrap_or(NO_KEEPALIVE);
        let refresh_seconds = if self.observed.is_translated() { keepalive } else { NO_KEEPALIVE };
        MobilityOption::NatDetection { force_udp: self.service.force_udp, refresh_seconds }
    }
}

/// The IPv4 care-of address as the mobile router knows it: from its own option, or from a Binding Identifier option
/// (RFC 5648 §8.1). Of several, the one equal to the observed source.
fn reported_care_of(options: &[MobilityOption], seen: Ipv4Addr) -> Option<Ipv4Addr> {
    let reported = options.iter().filter_map(|option| match option {
        MobilityOption::Ipv4CareOf(address) => Some(*address),
        MobilityOption::BindingIdentifier(BindingIdentifier { care_of: CareOfField::V4(address), .. }) => {
            Some(*address)
        }
        _ => None,
    });
    reported.reduce(|first, other| if other == seen { other } else { first })
}

pub(super) fn malformed(why: Malformed) -> Dropped {
    (DropReason::Malformed, why.to_string())
}

fn report_dropped(from: Option<Ipv4Endpoint>, (reason, detail): Dropped, out: &mut Outbox) {
    out.report_drop(reason, from.map(Ipv4Endpoint::to_ipv6), detail);
}
