//! ICMPv6 errors about packets with the payload extension header, translated into what the transport sent: ULIDs, no
//! such header, and a path MTU 8 octets smaller (RFC 5533 §12.1.1, RFC 4443 §2.4).

use roam6_proto::base::ids::AddressPair;
use roam6_wire::ip6::{MINIMUM_MTU, protocol};
use roam6_wire::shim6::{PROTOCOL, Tag};
use std::net::Ipv6Addr;

const IP: usize = 40;
const TOO_BIG: u8 = 2;
/// Octets of the payload extension header.
pub(crate) const HEADER: usize = 8;

/// An error about a packet with a payload extension header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ErrorMessage<'a> {
    /// The peer's context tag.
    pub(super) tag: Tag,
    /// The locators of the packet.
    pub(super) locators: AddressPair,
    head: [u8; 8],
    quote: &'a [u8],
}

impl<'a> ErrorMessage<'a> {
    /// Reads a packet; `None` if it is no such error.
    pub(super) fn read(packet: &'a [u8]) -> Option<ErrorMessage<'a>> {
        let (ip, message) = packet.split_at_checked(IP)?;
        let (head, quote) = message.split_first_chunk::<8>()?;
        let [kind @ 1..=4, ..] = head else { return None };
        if ip.get(6) != Some(&protocol::ICMPV6) || quote.get(6) != Some(&PROTOCOL) || *kind == 0 {
            return None;
        }
        let shim: &[u8; HEADER] = quote.get(IP..)?.first_chunk()?;
        let bits = u64::from_be_bytes(*shim) & 0xffff_ffff_ffff;
        let is_payload = bits >> Tag::BITS == 1;
        let address = |at: usize| quote.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
        let locators = AddressPair { local: address(8)?, peer: address(24)? };
        is_payload.then_some(ErrorMessage { tag: Tag::from_low_bits(bits), locators, head: *head, quote })
    }

    /// The first octets and the quoted packet of the same error, for the transport of `ulids`.
    pub(super) fn translate(&self, ulids: AddressPair) -> Option<([u8; 8], Vec<u8>)> {
        let mut head = self.head;
        let [kind, _, sum @ .., _, _, _, _] = &mut head;
        *sum = [0; 2];
        if *kind == TOO_BIG {
            let [_, _, _, _, mtu @ ..] = &mut head;
            *mtu = u32::from_be_bytes(*mtu).saturating_sub(HEADER as u32).max(MINIMUM_MTU).to_be_bytes();
        }
        let (version, rest) = self.quote.split_first_chunk::<4>()?;
        let length = u16::from_be_bytes(*rest.first_chunk()?).saturating_sub(HEADER as u16);
        let (next, hops) = (*self.quote.get(IP)?, *self.quote.get(7)?);
        let mut quote = version.to_vec();
        quote.extend(length.to_be_bytes());
        quote.extend([next, hops]);
        quote.extend(ulids.local.octets());
        quote.extend(ulids.peer.octets());
        quote.extend(self.quote.get(IP + HEADER..)?);
        Some((head, quote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(local: &str, peer: &str) -> AddressPair {
        AddressPair { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
    }

    fn packet(from: &str, to: &str, next: u8, payload: &[u8]) -> Vec<u8> {
        let way = pair(from, to);
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend([way.local.octets(), way.peer.octets()].concat());
        packet.extend(payload);
        packet
    }

    #[test]
    fn icmp_error_is_translated_to_the_ulids() {
        let (locators, ulids) = (pair("2001:db8:b1::1", "2001:db8:b2::2"), pair("2001:db8:a1::1", "2001:db8:a2::2"));
        let udp = [0, 1, 0, 2, 0, 8, 9, 9];
        let shimmed = [&[17, 0, 0x92, 0x34, 0x56, 0x78, 0x9a, 0xbc][..], &udp].concat();
        let quoted = packet("2001:db8:b1::1", "2001:db8:b2::2", PROTOCOL, &shimmed);
        let error = [&[2, 0, 1, 2, 0, 0, 5, 0xdc][..], &quoted].concat();
        let message = packet("2001:db8:ff::1", "2001:db8:b1::1", protocol::ICMPV6, &error);
        let read = ErrorMessage::read(&message).unwrap();
        assert_eq!((read.tag, read.locators), (Tag::new(0x1234_5678_9abc).unwrap(), locators));
        let (head, quote) = read.translate(ulids).unwrap();
        assert_eq!(head, [2, 0, 0, 0, 0, 0, 5, 0xd4]);
        assert_eq!(quote, packet("2001:db8:a1::1", "2001:db8:a2::2", 17, &udp));
        for length in 0..message.len() {
            // Only octets beyond the quoted packet may be missing.
            assert!(ErrorMessage::read(&message[..length]).is_none() || length >= 40 + 8 + 48);
        }
    }

    #[test]
    fn icmp_errors_of_other_packets_are_ignored() {
        let control = packet("::1", "::2", PROTOCOL, &[59, 0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
        let plain = packet("::1", "::2", 17, &[0; 8]);
        for quoted in [control, plain] {
            let error = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
            assert_eq!(ErrorMessage::read(&packet("::3", "::1", protocol::ICMPV6, &error)), None);
        }
    }
}
