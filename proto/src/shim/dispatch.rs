//! Dispatch of received packets: message type and context lookup (RFC 5533 §12.3, §12.4).

use super::Shim;
use super::context::ContextIndex;
use crate::base::ids::{AddressPair, ContextId};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::Packet;
use crate::contract::report::{DropReason, HostReport, Report};
use core::time::Duration;
use roam6_wire::icmp6;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::shim6::{
    self, Fork, LocatorList, LocatorPreference, Message, PayloadHeader, ShimOption, Tag, error_code,
};
use std::net::Ipv6Addr;

/// A received control message with its addresses and interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedMessage<'a> {
    /// The packet's addresses: ours is `local`, the sender's `peer`.
    pub(super) path: AddressPair,
    /// The receiving interface.
    pub(super) link: crate::base::ids::LinkId,
    /// The whole packet.
    pub(super) packet: &'a [u8],
    /// Offset of the message in the packet, octets.
    pub(super) message_offset: usize,
}

/// The options of one message, by type.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct MessageOptions<'a> {
    pub(super) validator: Option<&'a [u8]>,
    pub(super) ulids: Option<AddressPair>,
    pub(super) fork: Fork,
    pub(super) locator_list: Option<&'a LocatorList>,
    pub(super) preferences: Option<(u32, &'a [LocatorPreference])>,
    pub(super) parameters: Option<&'a [u8]>,
    pub(super) signature: Option<&'a [u8]>,
    pub(super) keepalive_timeout: Option<Duration>,
    /// The peer supports timeouts below one second.
    pub(super) subsecond_timeouts: bool,
}

impl<'a> MessageOptions<'a> {
    pub(super) fn of_message(message: &'a Message) -> MessageOptions<'a> {
        let mut said = MessageOptions::default();
        for option in message.options() {
            match option {
                ShimOption::Validator(validator) => said.validator = Some(validator),
                ShimOption::Ulids { sender, receiver } => {
                    said.ulids = Some(AddressPair { local: *receiver, peer: *sender });
                }
                ShimOption::Fork(fork) => said.fork = *fork,
                ShimOption::Locators(list) => said.locator_list = Some(list),
                ShimOption::Preferences { generation, elements } => said.preferences = Some((*generation, elements)),
                ShimOption::Parameters(parameters) => said.parameters = Some(parameters),
                ShimOption::Signature(signature) => said.signature = Some(signature),
                ShimOption::KeepaliveTimeout(seconds) if !said.subsecond_timeouts => {
                    said.keepalive_timeout = Some(Duration::from_secs(u64::from(*seconds).max(1)));
                }
                ShimOption::KeepaliveMilliseconds(milliseconds) => {
                    let timeout = Duration::from_millis(u64::from(*milliseconds));
                    said.keepalive_timeout = Some(timeout.max(crate::contract::config::shim::MIN_SEND_TIMEOUT));
                    said.subsecond_timeouts = true;
                }
                ShimOption::KeepaliveTimeout(_) | ShimOption::Unknown { .. } => {}
            }
        }
        said
    }

    /// The context that the message names: by the ULID-pair option, else by the packet's addresses.
    pub(super) fn context_id(&self, path: AddressPair) -> ContextId {
        ContextId { ulids: self.ulids.unwrap_or(path), fork: self.fork }
    }
}

impl Shim {
    pub(super) fn receive_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Ok(datagram) = Datagram::parse(&packet.bytes) else { return };
        match datagram.protocol {
            protocol::ICMPV6 => self.receive_icmp(now, packet, &datagram, out),
            shim6::PROTOCOL => {
                let path = AddressPair { local: datagram.destination, peer: datagram.source };
                // A router also receives packets for other destinations.
                if self.uplinks.link_of(path.local).is_some() && super::uplinks::is_global(path.peer) {
                    let heard = ReceivedMessage {
                        path,
                        link: packet.link,
                        packet: &packet.bytes,
                        message_offset: datagram.payload_at,
                    };
                    self.receive_shim6(now, heard, datagram.payload, out);
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

    fn receive_shim6(&mut self, now: Time, heard: ReceivedMessage<'_>, bytes: &[u8], out: &mut Outbox) {
        if let Some(header) = PayloadHeader::parse(bytes) {
            // With a known tag and source the packet came before the data plane had the context.
            if self.find_context(header.tag, heard.path).is_none() {
                self.send_r1bis(now, heard.path, header.tag, out);
            }
            return;
        }
        match Message::parse(bytes) {
            Ok(message) => self.dispatch(now, heard, &message, out),
            Err(malformed) => {
                if let Some(code) = error_code(&malformed) {
                    self.send_error(now, heard, code, malformed.at, out);
                }
                drop_packet(DropReason::Malformed, heard.path.peer, malformed.to_string(), out);
            }
        }
    }

    fn dispatch(&mut self, now: Time, heard: ReceivedMessage<'_>, message: &Message, out: &mut Outbox) {
        let said = MessageOptions::of_message(message);
        match message {
            Message::I1 { tag, nonce, .. } => self.receive_i1(now, heard, (*tag, *nonce), &said, out),
            Message::R1 { initiator_nonce, responder_nonce, .. } => {
                self.receive_r1(now, heard, (*initiator_nonce, *responder_nonce), &said, out);
            }
            Message::I2 { tag, initiator_nonce, responder_nonce, .. } => {
                let nonces = (*initiator_nonce, *responder_nonce);
                self.receive_i2(
                    now,
                    heard,
                    super::handshake::I2Message { tag: *tag, nonces, lost_tag: None },
                    &said,
                    out,
                );
            }
            Message::I2bis { tag, initiator_nonce, responder_nonce, packet_tag, .. } => {
                let nonces = (*initiator_nonce, *responder_nonce);
                let lost = Some(*packet_tag);
                self.receive_i2(
                    now,
                    heard,
                    super::handshake::I2Message { tag: *tag, nonces, lost_tag: lost },
                    &said,
                    out,
                );
            }
            Message::R2 { tag, nonce, .. } => self.receive_r2(now, heard, (*tag, *nonce), &said, out),
            Message::R1bis { packet_tag, responder_nonce, .. } => {
                self.receive_r1bis(now, heard, (*packet_tag, *responder_nonce), &said, out);
            }
            Message::UpdateRequest { tag, nonce, .. } => {
                if let Some(slot) = self.find_context_or_send_r1bis(now, *tag, heard.path, out) {
                    self.receive_update_request(now, slot, heard, *nonce, &said, out);
                }
            }
            Message::UpdateAck { tag, nonce, .. } => {
                if let Some(slot) = self.find_context_or_send_r1bis(now, *tag, heard.path, out) {
                    self.receive_update_ack(now, slot, *nonce);
                }
            }
            Message::Keepalive { tag, .. } => {
                if let Some(slot) = self.find_context_or_send_r1bis(now, *tag, heard.path, out) {
                    self.receive_keepalive(now, slot, out);
                }
            }
            Message::Probe(probe) => {
                if let Some(slot) = self.find_context_or_send_r1bis(now, probe.tag, heard.path, out) {
                    self.receive_probe(now, slot, heard.path, probe, out);
                }
            }
            Message::Error(error) => self.receive_error(heard.path.peer, error, out),
            Message::Unknown { .. } => {
                self.send_error(now, heard, shim6::ErrorCode::UNKNOWN_TYPE, 2, out);
            }
        }
    }

    /// The context of CT(local), if the source address is one of the peer's (RFC 5533 §12.4).
    fn find_context(&mut self, tag: Tag, path: AddressPair) -> Option<ContextIndex> {
        let slot = self.contexts.find_tag(tag)?;
        let context = self.contexts.get(slot)?;
        // Until the peer has sent its locators, only its ULID is a valid source.
        let known =
            context.accepts_source(path.peer) || (!context.is_established() && path.peer == context.id.ulids.peer);
        known.then_some(slot)
    }

    fn find_context_or_send_r1bis(
        &mut self,
        now: Time,
        tag: Tag,
        path: AddressPair,
        out: &mut Outbox,
    ) -> Option<ContextIndex> {
        let Some(slot) = self.find_context(tag, path) else {
            self.send_r1bis(now, path, tag, out);
            return None;
        };
        self.contexts.get(slot)?.is_established().then_some(slot)
    }
}

/// Reports a dropped packet.
pub(super) fn drop_packet(reason: DropReason, from: Ipv6Addr, detail: impl Into<String>, out: &mut Outbox) {
    out.report(Report::Host(HostReport::Dropped { reason, from: Some(from), detail: detail.into() }));
}
