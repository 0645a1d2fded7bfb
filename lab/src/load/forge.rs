//! Generates Binding Updates of many mobile routers and parses the acknowledgements (RFC 6275 §6.1, RFC 4285 §5).

use crate::clock;
use roam6_proto::crypto::authenticator::{Timestamp, authenticate};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{
    BindingAcknowledgement, BindingIdentifier, BindingUpdate, CareOfField, Message, MobilityOption, Status, UpdateFlags,
};
use roam6_wire::{Bid, CareOfAddress, HomeAddress, Sequence};
use std::net::Ipv6Addr;

/// A mobile router that this program emulates.
#[derive(Debug, Clone)]
pub(crate) struct SyntheticRouter {
    /// The home agent.
    pub(crate) home_agent: Ipv6Addr,
    /// Its home address.
    pub(crate) home_address: HomeAddress,
    /// Its care-of address.
    pub(crate) care_of: CareOfAddress,
    /// SPI of the key.
    pub(crate) spi: u32,
    /// The key.
    pub(crate) key: Vec<u8>,
}

/// Requested lifetime, units of four seconds.
const LIFETIME_UNITS: u16 = 900;
/// Flags A, H and R.
const FLAGS: UpdateFlags =
    UpdateFlags(UpdateFlags::ACKNOWLEDGE.0 | UpdateFlags::HOME_REGISTRATION.0 | UpdateFlags::ROUTER.0);

impl SyntheticRouter {
    /// An authenticated update in implicit mode with the present as timestamp: a whole IPv6 packet.
    pub(crate) fn update(&self, sequence: Sequence) -> Vec<u8> {
        self.update_at(sequence, clock::unix_micros())
    }

    /// [`SyntheticRouter::update`] with the timestamp `unix_micros`, microseconds since 1970.
    pub(crate) fn update_at(&self, sequence: Sequence, unix_micros: u64) -> Vec<u8> {
        self.signed_update(&UpdateRequest { unix_micros, ..UpdateRequest::new(sequence) })
    }

    /// An authenticated update: a whole IPv6 packet from the care-of address.
    pub(crate) fn signed_update(&self, request: &UpdateRequest) -> Vec<u8> {
        self.signed_update_from(self.care_of.0, request)
    }

    /// [`SyntheticRouter::signed_update`] with any source address; if that is not the care-of address, with an Alternate Care-of
    /// Address option (RFC 6275 §6.2.5).
    pub(crate) fn signed_update_from(&self, source: Ipv6Addr, request: &UpdateRequest) -> Vec<u8> {
        let mut options = request.options.clone();
        if source != self.care_of.0 {
            options.push(MobilityOption::AlternateCareOf(self.care_of.0));
        }
        options.push(MobilityOption::ReplayProtection(Timestamp::from_unix_micros(request.unix_micros).0));
        let message = Message::BindingUpdate(BindingUpdate {
            sequence: request.sequence,
            flags: request.flags,
            lifetime_units: request.lifetime_units,
            options,
        });
        let (home, agent) = (self.home_address.0, self.home_agent);
        let bytes = message.emit_authenticated(home, agent, self.spi, |part| {
            authenticate(&self.key, self.care_of, self.home_address, part)
        });
        ip6::emit(&Header::new(source, agent).with_home_address(home), protocol::MOBILITY, &bytes)
    }

    /// An update without authenticator.
    pub(crate) fn unsigned_update(&self, sequence: Sequence) -> Vec<u8> {
        let UpdateRequest { flags, lifetime_units, options, .. } = UpdateRequest::new(sequence);
        let message = Message::BindingUpdate(BindingUpdate { sequence, flags, lifetime_units, options });
        self.packet_with(&message.emit(self.home_address.0, self.home_agent))
    }

    /// A Mobility Header in a packet from the care-of address.
    pub(crate) fn packet_with(&self, mobility_header: &[u8]) -> Vec<u8> {
        let header = Header::new(self.care_of.0, self.home_agent).with_home_address(self.home_address.0);
        ip6::emit(&header, protocol::MOBILITY, mobility_header)
    }
}

/// The contents of an update.
#[derive(Debug, Clone)]
pub(crate) struct UpdateRequest {
    /// Its sequence number.
    pub(crate) sequence: Sequence,
    /// The flags A, H and R; explicit prefixes and binding identifiers are options.
    pub(crate) flags: UpdateFlags,
    /// Units of four seconds; 0 is a de-registration.
    pub(crate) lifetime_units: u16,
    /// Options before timestamp and authenticator.
    pub(crate) options: Vec<MobilityOption>,
    /// Its timestamp, microseconds since 1970.
    pub(crate) unix_micros: u64,
}

impl UpdateRequest {
    /// A registration in implicit mode with the present as timestamp.
    pub(crate) fn new(sequence: Sequence) -> UpdateRequest {
        let (unix_micros, options) = (clock::unix_micros(), Vec::new());
        UpdateRequest { sequence, flags: FLAGS, lifetime_units: LIFETIME_UNITS, options, unix_micros }
    }

    /// A de-registration.
    pub(crate) fn deregistration(sequence: Sequence) -> UpdateRequest {
        UpdateRequest { lifetime_units: 0, ..UpdateRequest::new(sequence) }
    }
}

/// The Binding Identifier option of a care-of address (RFC 5648 §4.1).
pub(crate) fn bid_option(bid: u16, care_of: Ipv6Addr) -> MobilityOption {
    MobilityOption::BindingIdentifier(BindingIdentifier {
        bid: Bid(bid),
        status: Status::ACCEPTED,
        simultaneous_home: false,
        // The first is preferred.
        priority: u8::try_from(bid).unwrap_or(0),
        care_of: CareOfField::V6(care_of),
    })
}

/// Destination, status and sequence number of the Binding Acknowledgement in `packet`; `None` if it is another packet.
pub(crate) fn parse_acknowledgement(packet: &[u8]) -> Option<(CareOfAddress, u8, Sequence)> {
    let (to, answer) = binding_acknowledgement(packet)?;
    Some((to, answer.status.0, answer.sequence))
}

/// Destination and contents of the Binding Acknowledgement in `packet`; `None` if it is another packet.
pub(crate) fn binding_acknowledgement(packet: &[u8]) -> Option<(CareOfAddress, BindingAcknowledgement)> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == protocol::MOBILITY)?;
    match Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination()).ok()? {
        Message::BindingAcknowledgement(answer) => Some((CareOfAddress(datagram.destination), answer)),
        _ => None,
    }
}
