//! Shim6 Error messages (RFC 5533 §5.14), and ICMPv6 errors about packets with rewritten addresses (RFC 5533 §8).

use super::context::ContextIndex;
use super::messages::ReceivedMessage;
use super::{ICMP_HOLDDOWN_TIME, Shim};
use crate::{AddressPair, DropReason, Outbox, Time, Transmit, Via};
use roam6_wire::checksum::checksum;
use roam6_wire::icmp6::kind::{DESTINATION_UNREACHABLE, PACKET_TOO_BIG, PARAMETER_PROBLEM};
use roam6_wire::ip6::{self, Datagram, HEADER_LENGTH, Header, MINIMUM_MTU, protocol};
use roam6_wire::shim6::{
    self, ErrorCode, ErrorMessage, LocatorList, Message, PAYLOAD_HEADER_LENGTH, PayloadHeader, kind, option,
};
use std::net::Ipv6Addr;

/// Octets of an ICMPv6 error before the invoking packet.
const ICMP_HEADER_LENGTH: usize = 8;
/// Code of Destination Unreachable: port unreachable.
const PORT_UNREACHABLE: u8 = 4;
/// Code of Parameter Problem: unrecognized Next Header type.
const UNRECOGNISED_NEXT_HEADER: u8 = 1;

impl Shim {
    /// Sends an Error message that points at `offset` of the received message.
    pub(super) fn send_error(
        &mut self,
        received: ReceivedMessage<'_>,
        code: ErrorCode,
        offset: usize,
        out: &mut Outbox,
    ) {
        if !self.error_limiter.take(received.now) {
            return;
        }
        // The Error message has 8 octets before the packet, and may end with padding.
        let room = MINIMUM_MTU as usize - HEADER_LENGTH - 16;
        let packet = received.packet.get(..room).unwrap_or(received.packet).to_vec();
        let pointer = u16::try_from(received.message_offset + offset).unwrap_or(u16::MAX);
        self.send(received.path, &Message::Error(ErrorMessage { code, pointer, packet }), out);
    }

    /// Sends an Error message that points into an option.
    pub(super) fn send_option_error(
        &mut self,
        received: ReceivedMessage<'_>,
        code: ErrorCode,
        (kind, offset): (u16, usize),
        out: &mut Outbox,
    ) {
        let message = received.packet.get(received.message_offset..).unwrap_or_default();
        if let Some(at) = option::find(message, kind) {
            self.send_error(received, code, at + offset, out);
        }
    }

    /// Sends an Error message that points at the verification method of a locator.
    pub(super) fn send_locator_error(&mut self, received: ReceivedMessage<'_>, index: usize, out: &mut Outbox) {
        let place = (option::kind::LOCATORS, LocatorList::method_at(index));
        self.send_option_error(received, ErrorCode::VERIFICATION, place, out);
    }

    /// Receives an Error message: reports it and changes no state, because it is not authenticated.
    pub(super) fn receive_error(&mut self, from: Ipv6Addr, error: &ErrorMessage, out: &mut Outbox) {
        let what = error.code.text().unwrap_or("unknown code");
        let detail = format!("error code {} ({what}) at octet {}", error.code.0, error.pointer);
        out.report_drop(DropReason::PeerError, from, detail);
    }

    /// Receives an ICMPv6 error whose invoking packet has a Shim6 header.
    pub(super) fn receive_icmp_error(&mut self, now: Time, datagram: &Datagram<'_>, out: &mut Outbox) {
        let Some((head, quoted)) = datagram.payload.split_first_chunk::<ICMP_HEADER_LENGTH>() else { return };
        let [kind, code, ..] = *head;
        let Some(quote) = QuotedPacket::parse(quoted) else { return };
        match quote.shim {
            QuotedHeader::Control(sent) if (kind, code) == (PARAMETER_PROBLEM, UNRECOGNISED_NEXT_HEADER) => {
                self.receive_unrecognised_next_header(now, &quote, sent, out);
            }
            QuotedHeader::Payload(header) => {
                let index = self.contexts.with_peer_tag(header.tag).find(|(_, context)| context.path == quote.path);
                let Some((index, context)) = index else { return };
                let ulids = context.id.ulids;
                match (kind, code) {
                    // The error quotes our tag, so its sender has seen the packet: the peer no longer runs Shim6.
                    (PARAMETER_PROBLEM, UNRECOGNISED_NEXT_HEADER) => self.peer_lacks_shim6(now, index, out),
                    (PACKET_TOO_BIG, _) | (DESTINATION_UNREACHABLE, PORT_UNREACHABLE) | (PARAMETER_PROBLEM, _) => {
                        self.translate_error(datagram, *head, &quote, ulids, out);
                    }
                    // REAP handles all other errors (RFC 5533 §8).
                    _ => {}
                }
            }
            QuotedHeader::Control(_) => {}
        }
    }

    /// The peer does not support Shim6 (RFC 5533 §7.8); accepted only if the error quotes the I1 that was sent.
    fn receive_unrecognised_next_header(&mut self, now: Time, quote: &QuotedPacket<'_>, sent: &[u8], out: &mut Outbox) {
        // The quote has at least tag and nonce.
        let (Some(&[_, _, kind::I1, _, _, _, a, b, c, d, e, f]), Some(nonce)) =
            (sent.first_chunk::<12>(), sent.get(12..16).and_then(|nonce| nonce.try_into().ok()))
        else {
            return;
        };
        let tag = shim6::Tag::from_low_bits(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        let nonce = shim6::Nonce(u32::from_be_bytes(nonce));
        let Some(index) = self.contexts.find_nonce(nonce) else { return };
        let ours = |context: &mut super::context::Context| {
            context.tag == tag && context.handshake.as_ref().is_some_and(|handshake| handshake.locators == quote.path)
        };
        if self.contexts.get(index).is_some_and(ours) {
            self.peer_lacks_shim6(now, index, out);
        }
    }

    fn peer_lacks_shim6(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(peer) = self.contexts.get(index).map(|context| context.id.ulids.peer) else { return };
        self.hold_down(now, peer, ICMP_HOLDDOWN_TIME, "no support", out);
        self.end_context(index, "no support", out);
    }

    /// Delivers an error to the upper layers with the ULIDs in place of the locators (RFC 5533 §8, figure 9).
    fn translate_error(
        &self,
        datagram: &Datagram<'_>,
        mut head: [u8; ICMP_HEADER_LENGTH],
        quote: &QuotedPacket<'_>,
        ulids: AddressPair,
        out: &mut Outbox,
    ) {
        let QuotedHeader::Payload(header) = quote.shim else { return };
        let [kind, _, _, _, value @ ..] = &mut head;
        let number = u32::from_be_bytes(*value);
        let without = PAYLOAD_HEADER_LENGTH as u32;
        // The reported MTU shrinks by the payload header, and a pointer behind it moves.
        let number = if *kind == PACKET_TOO_BIG || number >= 48 { number.saturating_sub(without) } else { number };
        *value = number.to_be_bytes();
        let mut message = head.to_vec();
        message.extend(quote.with_ulids(header, ulids));
        if let Some(sum) = message.get_mut(2..4) {
            sum.fill(0);
        }
        let sum = checksum(datagram.source, ulids.local, protocol::ICMPV6, &message);
        if let Some(field) = message.get_mut(2..4) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
        let bytes = ip6::emit(&Header::new(datagram.source, ulids.local), protocol::ICMPV6, &message);
        out.transmit(Transmit { via: Via::Route, bytes });
    }
}

/// The invoking packet of an ICMPv6 error.
struct QuotedPacket<'a> {
    /// Its addresses.
    path: AddressPair,
    /// Its IPv6 header.
    header: &'a [u8; HEADER_LENGTH],
    shim: QuotedHeader<'a>,
    /// The quoted octets after the payload header.
    rest: &'a [u8],
}

#[derive(Clone, Copy)]
enum QuotedHeader<'a> {
    Control(&'a [u8]),
    Payload(PayloadHeader),
}

impl<'a> QuotedPacket<'a> {
    fn parse(quoted: &'a [u8]) -> Option<QuotedPacket<'a>> {
        let (header, rest) = quoted.split_first_chunk::<HEADER_LENGTH>()?;
        let address = |at: usize| header.get(at..at + 16)?.try_into().ok().map(|octets: [u8; 16]| octets.into());
        if header.first()? >> 4 != 6 || *header.get(6)? != shim6::PROTOCOL {
            return None;
        }
        let path = AddressPair { local: address(8)?, peer: address(24)? };
        let shim = PayloadHeader::parse(rest).map_or(QuotedHeader::Control(rest), QuotedHeader::Payload);
        Some(QuotedPacket { path, header, shim, rest: rest.get(PAYLOAD_HEADER_LENGTH..)? })
    }

    /// The packet with its ULIDs and without the payload header.
    fn with_ulids(&self, shim: PayloadHeader, ulids: AddressPair) -> Vec<u8> {
        let mut packet = self.header.to_vec();
        if let [_, _, _, _, high, low, next, ..] = packet.as_mut_slice() {
            let length = u16::from_be_bytes([*high, *low]).saturating_sub(PAYLOAD_HEADER_LENGTH as u16);
            [*high, *low] = length.to_be_bytes();
            *next = shim.next_header;
        }
        packet.truncate(8);
        packet.extend(ulids.local.octets());
        packet.extend(ulids.peer.octets());
        packet.extend(self.rest);
        packet
    }
}
