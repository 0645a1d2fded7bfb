//! Binding Updates and Acknowledgements as the invariants see them: identified by home address, with their care-of
//! addresses, whatever they are encapsulated in (RFC 6275 §6.1.7, §6.1.8, RFC 5648 §4.1, RFC 5555 §4.2).

use crate::net::datagram;
use crate::net::ipv4::packet as ipv4;
use core::time::Duration;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{BindingIdentifier, BindingUpdate, CareOfField, Message, MobilityOption};
use roam6_wire::{Bid, HomeAddress, Sequence};
use std::net::Ipv6Addr;

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
    /// What becomes of the others that are registered.
    pub others: OtherCareOf,
    /// The destination: a home agent.
    pub home_agent: Ipv6Addr,
}

/// What an update does with care-of addresses that it does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherCareOf {
    /// They end.
    End,
    /// They stay as they are.
    Stay,
    /// Some are named by their BIDs, and get the lifetime of the update.
    Refreshed,
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

/// Parses a Binding Update or Acknowledgement, also encapsulated in IPv4 or in UDP over IPv6; a care-of address of that kind
/// is then the outer source (RFC 5555 §4.2).
pub fn parse(packet: &[u8]) -> Option<BindingMessage> {
    if let Some((source, _, inner)) = ipv4::decapsulate(packet) {
        return parse_plain(inner, Some(source.address.to_ipv6_mapped()));
    }
    match datagram::decapsulate(packet) {
        Some((source, _, Some(_), inner)) => parse_plain(inner, Some(source)),
        _ => parse_plain(packet, None),
    }
}

fn parse_plain(packet: &[u8], outer: Option<Ipv6Addr>) -> Option<BindingMessage> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == protocol::MOBILITY)?;
    let (source, destination) = (datagram.real_source(), datagram.real_destination());
    match Message::parse(datagram.payload, source, destination).ok()? {
        Message::BindingUpdate(update) => Some(BindingMessage::Update(Update {
            home_address: HomeAddress(source),
            sequence: update.sequence,
            lifetime: LIFETIME_UNIT * update.lifetime_units.into(),
            care_of: care_of(&update.options, outer.unwrap_or(datagram.source)),
            others: others(&update),
            home_agent: datagram.destination,
        })),
        Message::BindingAcknowledgement(acknowledgement) => Some(BindingMessage::Acknowledgement(Acknowledgement {
            home_address: HomeAddress(destination),
            status: acknowledgement.status.0,
            sequence: acknowledgement.sequence,
            lifetime: LIFETIME_UNIT * acknowledgement.lifetime_units.into(),
        })),
        _ => None,
    }
}

fn care_of(options: &[MobilityOption], source: Ipv6Addr) -> Vec<(Bid, Ipv6Addr)> {
    let mut alone = source;
    let mut several = Vec::new();
    for option in options {
        match option {
            MobilityOption::AlternateCareOf(address) => alone = *address,
            MobilityOption::BindingIdentifier(BindingIdentifier { bid, care_of, .. }) => {
                several.extend(match care_of {
                    CareOfField::V6(address) => Some((*bid, *address)),
                    CareOfField::V4(_) => Some((*bid, source)),
                    CareOfField::None => None,
                });
            }
            _ => {}
        }
    }
    if several.is_empty() { vec![(Bid(0), alone)] } else { several }
}

fn others(update: &BindingUpdate) -> OtherCareOf {
    let mut bids = update.options.iter().filter_map(|option| match option {
        MobilityOption::BindingIdentifier(option) => Some(option.care_of),
        _ => None,
    });
    let several = bids.clone().next().is_some() && update.lifetime_units > 0;
    match (several, bids.any(|care_of| care_of == CareOfField::None)) {
        (true, true) => OtherCareOf::Refreshed,
        (true, false) if !update.flags.overwrite() => OtherCareOf::Stay,
        _ => OtherCareOf::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::ip6::{self, Header};
    use roam6_wire::mobility::UpdateFlags;

    #[test]
    fn a_binding_update_is_parsed_with_its_home_address_option() {
        let home: Ipv6Addr = "2001:db8::10".parse().unwrap();
        let header = Header::new("2001:db8:f::1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let (flags, options) = (UpdateFlags(0xc400), Vec::new());
        let update = BindingUpdate { sequence: Sequence(7), flags, lifetime_units: 15, options };
        let message = Message::BindingUpdate(update).emit(home, header.destination);
        let packet = ip6::emit(&header.with_home_address(home), protocol::MOBILITY, &message);
        let update = Update {
            home_address: HomeAddress(home),
            sequence: Sequence(7),
            lifetime: Duration::from_secs(60),
            care_of: vec![(Bid(0), header.source)],
            others: OtherCareOf::End,
            home_agent: header.destination,
        };
        assert_eq!(parse(&packet), Some(BindingMessage::Update(update)));
    }
}
