//! Dispatch of received packets: message type and context lookup (RFC 5533 §12.3, §12.4).

use super::Shim;
use super::context::ContextIndex;
use super::messages::{I2Message, MessageOptions, ReceivedMessage};
use super::uplinks;
use crate::{AddressPair, DropReason, Outbox, Packet, Time};
use roam6_wire::icmp6;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::shim6::{self, Message, PayloadHeader, Tag, error_code};

impl Shim {
    pub(super) fn receive_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Ok(datagram) = Datagram::parse(&packet.bytes) else { return };
        match datagram.protocol {
            protocol::ICMPV6 => self.receive_icmp(now, packet, &datagram, out),
            shim6::PROTOCOL => {
                let path = AddressPair { local: datagram.destination, peer: datagram.source };
                // A router also receives packets for other destinations.
                if self.uplinks.link_of(path.local).is_some() && uplinks::is_global(path.peer) {
                    let received = ReceivedMessage {
                        now,
                        path,
                        link: packet.link,
                        packet: &packet.bytes,
                        message_offset: datagram.payload_at,
                        options: MessageOptions::default(),
                    };
                    self.receive_shim6(received, datagram.payload, out);
                }
            }
            _ => {}
        }
    }

    fn receive_icmp(&mut self, now: Time, packet: &Packet, datagram: &Datagram<'_>, out: &mut Outbox) {
        let Ok(message) = icmp6::Message::parse(datagram) else { return };
        match &message {
            icmp6::Message::RouterAdvertisement(advertisement) => {
                if message.check_on_link(datagram).is_ok() {
                    self.uplinks.put_router(now, packet.link, datagram.source, advertisement);
                    self.addresses.handle_advertisement(now, packet.link, advertisement);
                }
            }
            _ => self.receive_icmp_error(now, datagram, out),
        }
    }

    fn receive_shim6(&mut self, received: ReceivedMessage<'_>, bytes: &[u8], out: &mut Outbox) {
        if let Some(header) = PayloadHeader::parse(bytes) {
            // If tag and source are known, the packet arrived before the data plane had the context.
            if self.find_context(header.tag, received.path).is_none() {
                self.send_r1bis(received.now, received.path, header.tag, out);
            }
            return;
        }
        match Message::parse(bytes) {
            Ok(message) => self.dispatch(received, &message, out),
            Err(malformed) => {
                if let Some(code) = error_code(&malformed) {
                    self.send_error(received, code, malformed.at, out);
                }
                out.report_drop(DropReason::Malformed, received.path.peer, malformed.to_string());
            }
        }
    }

    fn dispatch(&mut self, received: ReceivedMessage<'_>, message: &Message, out: &mut Outbox) {
        let received = ReceivedMessage { options: MessageOptions::of_message(message), ..received };
        let now = received.now;
        match message {
            Message::I1 { tag, nonce, .. } => self.receive_i1(received, (*tag, *nonce), out),
            Message::R1 { initiator_nonce, responder_nonce, .. } => {
                self.receive_r1(received, (*initiator_nonce, *responder_nonce), out);
            }
            Message::I2 { tag, initiator_nonce, responder_nonce, .. } => {
                let nonces = (*initiator_nonce, *responder_nonce);
                self.receive_i2(received, I2Message { tag: *tag, nonces, lost_tag: None }, out);
            }
            Message::I2bis { tag, initiator_nonce, responder_nonce, packet_tag, .. } => {
                let nonces = (*initiator_nonce, *responder_nonce);
                let lost = Some(*packet_tag);
                self.receive_i2(received, I2Message { tag: *tag, nonces, lost_tag: lost }, out);
            }
            Message::R2 { tag, nonce, .. } => self.receive_r2(received, (*tag, *nonce), out),
            Message::R1bis { packet_tag, responder_nonce, .. } => {
                self.receive_r1bis(received, (*packet_tag, *responder_nonce), out);
            }
            Message::UpdateRequest { tag, nonce, .. } => {
                if let Some(index) = self.find_context_or_send_r1bis(now, *tag, received.path, out) {
                    self.receive_update_request(index, received, *nonce, out);
                }
            }
            Message::UpdateAck { tag, nonce, .. } => {
                if let Some(index) = self.find_context_or_send_r1bis(now, *tag, received.path, out) {
                    self.receive_update_ack(now, index, *nonce);
                }
            }
            Message::Keepalive { tag, .. } => {
                if let Some(index) = self.find_context_or_send_r1bis(now, *tag, received.path, out) {
                    self.receive_keepalive(now, index, out);
                }
            }
            Message::Probe(probe) => {
                if let Some(index) = self.find_context_or_send_r1bis(now, probe.tag, received.path, out) {
                    self.receive_probe(now, index, received.path, probe, out);
                }
            }
            Message::Error(error) => self.receive_error(received.path.peer, error, out),
            Message::Unknown { .. } => {
                self.send_error(received, shim6::ErrorCode::UNKNOWN_TYPE, 2, out);
            }
        }
    }

    /// The context of CT(local), if the source address is one of the peer's (RFC 5533 §12.4).
    fn find_context(&mut self, tag: Tag, path: AddressPair) -> Option<ContextIndex> {
        let index = self.contexts.find_tag(tag)?;
        let context = self.contexts.get(index)?;
        // Until the peer has sent its locators, only its ULID is a valid source.
        let known =
            context.accepts_source(path.peer) || (!context.is_established() && path.peer == context.id.ulids.peer);
        known.then_some(index)
    }

    fn find_context_or_send_r1bis(
        &mut self,
        now: Time,
        tag: Tag,
        path: AddressPair,
        out: &mut Outbox,
    ) -> Option<ContextIndex> {
        let Some(index) = self.find_context(tag, path) else {
            self.send_r1bis(now, path, tag, out);
            return None;
        };
        self.contexts.get(index)?.is_established().then_some(index)
    }
}
