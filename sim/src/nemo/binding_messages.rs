//! Binding Updates and Acknowledgements, parsed apart from the codecs under test (RFC 6275 §6.1.7, §6.1.8, §6.3, §6.4;
//! RFC 5648 §4.1).

use crate::net::datagram::{self, Header, MOBILITY};
use crate::net::ipv4::packet as ipv4;
use core::time::Duration;
use roam6_wire::{Bid, HomeAddress, Sequence};
use std::net::Ipv6Addr;

const UPDATE: u8 = 5;
const ACKNOWLEDGEMENT: u8 = 6;
const ALTERNATE_CARE_OF: u8 = 3;
const BINDING_IDENTIFIER: u8 = 35;
const HOME_ADDRESS: u8 = 0xc9;
/// The unit of lifetimes.
const LIFETIME_UNIT: Duration = Duration::from_secs(4);

/// A Binding Update or Acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingMessage {
    /// A Binding Update.
    Update(Update),
    /// A Binding Acknowledgement.
    Acknowledgement(Acknowledgement),
}

/// A Binding Update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The home address.
    pub home_address: HomeAddress,
    /// The sequence number.
    pub sequence: Sequence,
    /// The requested lifetime; zero de-registers.
    pub lifetime: Duration,
    /// The care-of addresses: one without a binding identifier, or several with.
    pub care_of: Vec<(Bid, Ipv6Addr)>,
    /// The destination: a home agent.
    pub home_agent: Ipv6Addr,
}

impl Update {
    /// Whether it is a de-registration.
    pub fn is_deregistration(&self) -> bool {
        let nowhere_else = |(bid, address): &(Bid, Ipv6Addr)| *bid == Bid(0) && *address == self.home_address.0;
        self.lifetime.is_zero() || self.care_of.iter().all(nowhere_else)
    }
}

/// A Binding Acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The home address.
    pub home_address: HomeAddress,
    /// The status; below 128 the update was accepted.
    pub status: u8,
    /// The sequence number of the update, or the last accepted one.
    pub sequence: Sequence,
    /// The granted lifetime.
    pub lifetime: Duration,
}

/// Parses a Binding Update or Acknowledgement, also encapsulated in IPv4; the care-of address is then the IPv4 source
/// (RFC 5555 §4.2).
pub fn parse(packet: &[u8]) -> Option<BindingMessage> {
    let Some((source, _, inner)) = ipv4::decapsulate(packet) else { return parse_plain(packet) };
    let mut signal = parse_plain(inner)?;
    if let BindingMessage::Update(update) = &mut signal {
        update.care_of.iter_mut().for_each(|(_, care_of)| *care_of = source.address.to_ipv6_mapped());
    }
    Some(signal)
}

fn parse_plain(packet: &[u8]) -> Option<BindingMessage> {
    let header = Header::parse(packet)?;
    let (MOBILITY, message) = datagram::upper_layer(packet)? else { return None };
    let [_, _, kind, _, _, _, a, b, c, d, e, f, ..] = *message else { return None };
    let lifetime = LIFETIME_UNIT * u32::from(u16::from_be_bytes([e, f]));
    match kind {
        UPDATE => {
            let home_address = HomeAddress(home_address_option(packet).unwrap_or(header.source));
            let care_of = care_of(message.get(12..)?, header.source);
            let sequence = Sequence(u16::from_be_bytes([a, b]));
            Some(BindingMessage::Update(Update {
                home_address,
                sequence,
                lifetime,
                care_of,
                home_agent: header.destination,
            }))
        }
        ACKNOWLEDGEMENT => {
            let home_address = HomeAddress(routing_header_address(packet).unwrap_or(header.destination));
            let sequence = Sequence(u16::from_be_bytes([c, d]));
            Some(BindingMessage::Acknowledgement(Acknowledgement { home_address, status: a, sequence, lifetime }))
        }
        _ => None,
    }
}

fn care_of(options: &[u8], source: Ipv6Addr) -> Vec<(Bid, Ipv6Addr)> {
    let mut alone = source;
    let mut several = Vec::new();
    for (kind, body) in Options(options) {
        match kind {
            ALTERNATE_CARE_OF => alone = address(body).unwrap_or(source),
            BINDING_IDENTIFIER => {
                let [high, low, _, _, rest @ ..] = body else { continue };
                several.push((Bid(u16::from_be_bytes([*high, *low])), address(rest).unwrap_or(source)));
            }
            _ => {}
        }
    }
    if several.is_empty() { vec![(Bid(0), alone)] } else { several }
}

fn home_address_option(packet: &[u8]) -> Option<Ipv6Addr> {
    let options = extension(packet, 60)?;
    Options(options.get(2..)?).find(|(kind, _)| *kind == HOME_ADDRESS).and_then(|(_, body)| address(body))
}

fn routing_header_address(packet: &[u8]) -> Option<Ipv6Addr> {
    let header = extension(packet, 43)?;
    header.get(2).filter(|kind| **kind == 2)?;
    address(header.get(8..)?)
}

/// The extension header of this type.
fn extension(packet: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut next = Header::parse(packet)?.next;
    let mut rest = datagram::payload(packet);
    while matches!(next, 0 | 43 | 60) {
        let [following, length, ..] = *rest else { return None };
        let (header, after) = rest.split_at_checked((usize::from(length) + 1) * 8)?;
        if next == wanted {
            return Some(header);
        }
        (next, rest) = (following, after);
    }
    None
}

fn address(octets: &[u8]) -> Option<Ipv6Addr> {
    octets.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

/// Options of type, length and body; Pad1 (type 0) is a single octet.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        while let [0, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let [kind, length, rest @ ..] = self.0 else { return None };
        let (body, rest) = rest.split_at_checked(usize::from(*length))?;
        self.0 = rest;
        Some((*kind, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_update_is_parsed_with_its_home_address_option() {
        let home: Ipv6Addr = "2001:db8::10".parse().unwrap();
        let header = Header {
            source: "2001:db8:f::1".parse().unwrap(),
            destination: "2001:db8::1".parse().unwrap(),
            next: 60,
            hop_limit: 64,
        };
        let mut body = vec![MOBILITY, 2, 1, 2, 0, 0, HOME_ADDRESS, 16];
        body.extend(home.octets());
        body.extend([59, 1, UPDATE, 0, 0, 0, 0, 7, 0xc4, 0, 0, 15, 1, 2, 0, 0]);
        let update = Update {
            home_address: HomeAddress(home),
            sequence: Sequence(7),
            lifetime: Duration::from_secs(60),
            care_of: vec![(Bid(0), header.source)],
            home_agent: header.destination,
        };
        assert_eq!(parse(&datagram::build(header, &body)), Some(BindingMessage::Update(update)));
    }
}
