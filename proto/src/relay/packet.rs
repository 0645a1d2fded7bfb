//! SYNs that are held, and the packets that refuse their connections (RFC 9293 §3.10.7.1, RFC 4443 §3.1, RFC 792).

use super::{HeldSyn, Tuple};
use roam6_wire::checksum::{checksum, checksum4};
use roam6_wire::icmp6::Message;
use roam6_wire::ip6::{self, protocol};
use roam6_wire::relay::Answer;
use roam6_wire::{Reader, icmp4, ip4};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of a TCP header without options, and where its checksum is.
const TCP_HEADER: usize = 20;
const CHECKSUM_AT: usize = 16;
const ACK_RST: u8 = 0x14;
const SYN: u8 = 0x02;
const FIN_SYN_RST_ACK: u8 = 0x17;
/// Codes of Destination Unreachable of ICMPv6 and ICMPv4.
const NO_ROUTE: (u8, u8) = (0, 0);
const PROHIBITED: (u8, u8) = (1, 13);
const ADDRESS_UNREACHABLE: (u8, u8) = (3, 1);

impl HeldSyn {
    /// Parses the headers of a SYN. Its data, which only TCP Fast Open has, is left out, and is retransmitted.
    pub fn parse(octets: &[u8]) -> Option<HeldSyn> {
        let version = octets.first()? >> 4;
        let (source, destination, traffic_class, segment) = match version {
            6 => read6(octets)?,
            4 => read4(octets)?,
            _ => return None,
        };
        let mut reader = Reader::new("SYN", segment);
        let (source_port, destination_port) = (reader.u16().ok()?, reader.u16().ok()?);
        let (offset, flags) = (segment.get(12)? >> 4, segment.get(13)?);
        let length = usize::from(offset) * 4;
        if flags & FIN_SYN_RST_ACK != SYN || length < TCP_HEADER || segment.len() < length {
            return None;
        }
        let tuple = Tuple { source, source_port, destination, destination_port };
        let segment = with_checksum(tuple, segment.get(..length)?.to_vec());
        Some(HeldSyn {
            tuple,
            traffic_class,
            octets: datagram(source, destination, traffic_class, protocol::TCP, &segment),
        })
    }

    /// The TCP header.
    fn segment(&self) -> &[u8] {
        let ipv4 = self.tuple.source.to_ipv4_mapped().is_some();
        self.octets.get(if ipv4 { ip4::HEADER_LENGTH } else { ip6::HEADER_LENGTH }..).unwrap_or_default()
    }

    /// The packet that refuses the connection with this answer; `router` sends it where the destination does not. `None`: no
    /// packet is sent, and the sender of the SYN times out, as without a relay.
    pub fn refusal(&self, answer: Answer, router: (Ipv6Addr, Ipv4Addr)) -> Option<Vec<u8>> {
        match answer {
            Answer::NoRoute => self.unreachable(NO_ROUTE, router),
            Answer::Prohibited => self.unreachable(PROHIBITED, router),
            Answer::AddressUnreachable => self.unreachable(ADDRESS_UNREACHABLE, router),
            Answer::Reset | Answer::Unknown(_) => Some(self.reset()),
            Answer::TimedOut | Answer::Connected | Answer::ResourceExceeded | Answer::NotAuthorized => None,
        }
    }

    fn reset(&self) -> Vec<u8> {
        let Tuple { source, source_port, destination, destination_port } = self.tuple;
        let back = Tuple {
            source: destination,
            source_port: destination_port,
            destination: source,
            destination_port: source_port,
        };
        let sequence = Reader::new("SYN", self.segment().get(4..).unwrap_or_default()).u32().unwrap_or_default();
        let mut segment = Vec::with_capacity(TCP_HEADER);
        segment.extend(back.source_port.to_be_bytes());
        segment.extend(back.destination_port.to_be_bytes());
        segment.extend(0_u32.to_be_bytes());
        segment.extend(sequence.wrapping_add(1).to_be_bytes());
        segment.extend([(TCP_HEADER as u8) << 2, ACK_RST, 0, 0, 0, 0, 0, 0]);
        let segment = with_checksum(back, segment);
        datagram(back.source, back.destination, self.traffic_class, protocol::TCP, &segment)
    }

    fn unreachable(&self, (code6, code4): (u8, u8), (router, router4): (Ipv6Addr, Ipv4Addr)) -> Option<Vec<u8>> {
        let Tuple { source, .. } = self.tuple;
        if source.to_ipv4_mapped().is_some() {
            let kind = icmp4::kind::DESTINATION_UNREACHABLE;
            let message = icmp4::Message::Error { kind, code: code4, word: 0, invoking: self.octets.clone() };
            return Some(datagram(router4.to_ipv6_mapped(), source, 0, icmp4::PROTOCOL, &message.emit()));
        }
        let message = Message::DestinationUnreachable { code: code6, invoking: self.octets.clone() };
        Some(datagram(router, source, 0, protocol::ICMPV6, &message.emit(router, source)))
    }
}

fn read6(octets: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, u8, &[u8])> {
    let mut reader = Reader::new("IPv6 header", octets);
    let traffic_class = (reader.u32().ok()? >> 20) as u8;
    reader.skip(2).ok()?;
    let next = reader.u8().ok()?;
    reader.skip(1).ok()?;
    let (source, destination) = (reader.address().ok()?, reader.address().ok()?);
    let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    (next == protocol::TCP && !mapped(source) && !mapped(destination))
        .then(|| (source, destination, traffic_class, reader.rest()))
}

/// The header may be without its checksum, as its packet without its data is.
fn read4(octets: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, u8, &[u8])> {
    let mut reader = Reader::new("IPv4 header", octets);
    let length = usize::from(reader.u8().ok()? & 0xf) * 4;
    let traffic_class = reader.u8().ok()?;
    reader.skip(7).ok()?;
    let next = reader.u8().ok()?;
    reader.skip(2).ok()?;
    let (source, destination) = (reader.address4().ok()?, reader.address4().ok()?);
    (next == protocol::TCP && length == ip4::HEADER_LENGTH)
        .then(|| (source.to_ipv6_mapped(), destination.to_ipv6_mapped(), traffic_class, reader.rest()))
}

/// A whole packet; IPv4 between IPv4-mapped addresses.
fn datagram(source: Ipv6Addr, destination: Ipv6Addr, traffic_class: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match source.to_ipv4_mapped().zip(destination.to_ipv4_mapped()) {
        Some((source, destination)) => ip4::Header { source, destination, tos: traffic_class, protocol }.emit(payload),
        None => {
            let header = ip6::Header { traffic_class, ..ip6::Header::new(source, destination) };
            ip6::emit(&header, protocol, payload)
        }
    }
}

/// The segment with its checksum.
fn with_checksum(tuple: Tuple, mut segment: Vec<u8>) -> Vec<u8> {
    segment.iter_mut().skip(CHECKSUM_AT).take(2).for_each(|octet| *octet = 0);
    let Tuple { source, destination, .. } = tuple;
    let sum = match source.to_ipv4_mapped().zip(destination.to_ipv4_mapped()) {
        Some((source, destination)) => checksum4(source, destination, protocol::TCP, &segment),
        None => checksum(source, destination, protocol::TCP, &segment),
    };
    segment.iter_mut().skip(CHECKSUM_AT).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
    segment
}
