//! Makes Binding Updates as mobile routers would, by the thousand, and reads what is answered (RFC 6275 §6.1, RFC 4285 §5).

use crate::clock;
use roam6_proto::crypto::authenticator::{Timestamp, authenticate};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Message, MobilityOption, UpdateFlags};
use roam6_wire::{CareOfAddress, HomeAddress, Sequence};
use std::net::Ipv6Addr;

/// Somebody who says to be a mobile router.
#[derive(Debug, Clone)]
pub(crate) struct Registrant {
    /// The home agent.
    pub(crate) home_agent: Ipv6Addr,
    /// Its home address.
    pub(crate) home: HomeAddress,
    /// Where it says to be.
    pub(crate) care_of: CareOfAddress,
    /// Which key.
    pub(crate) spi: u32,
    /// The key.
    pub(crate) secret: Vec<u8>,
}

/// Lifetime asked for, units of four seconds.
const LIFETIME_UNITS: u16 = 900;
/// A, H and R.
const FLAGS: UpdateFlags =
    UpdateFlags(UpdateFlags::ACKNOWLEDGE.0 | UpdateFlags::HOME_REGISTRATION.0 | UpdateFlags::ROUTER.0);

impl Registrant {
    /// An authenticated update in implicit mode, dated now: a whole IPv6 packet.
    pub(crate) fn update(&self, sequence: Sequence) -> Vec<u8> {
        self.update_at(sequence, clock::unix_micros())
    }

    /// The same, dated `unix_micros`.
    pub(crate) fn update_at(&self, sequence: Sequence, unix_micros: u64) -> Vec<u8> {
        self.request(&Request { unix_micros, ..Request::new(sequence) })
    }

    /// An authenticated update: a whole IPv6 packet from the care-of address.
    pub(crate) fn request(&self, request: &Request) -> Vec<u8> {
        self.request_from(self.care_of.0, request)
    }

    /// The same from any source; unless that is the care-of address, it is told as an alternate one (RFC 6275 §6.2.5).
    pub(crate) fn request_from(&self, source: Ipv6Addr, request: &Request) -> Vec<u8> {
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
        let (home, agent) = (self.home.0, self.home_agent);
        let bytes = message.emit_authenticated(home, agent, self.spi, |part| {
            authenticate(&self.secret, self.care_of, self.home, part)
        });
        ip6::emit(&Header::new(source, agent).with_home_address(home), protocol::MOBILITY, &bytes)
    }

    /// The same without proof.
    pub(crate) fn unsigned_update(&self, sequence: Sequence) -> Vec<u8> {
        self.packet(&update(sequence, Vec::new()).emit(self.home.0, self.home_agent))
    }

    /// Any Mobility Header in a packet of this sender.
    pub(crate) fn packet(&self, mobility_header: &[u8]) -> Vec<u8> {
        let header = Header::new(self.care_of.0, self.home_agent).with_home_address(self.home.0);
        ip6::emit(&header, protocol::MOBILITY, mobility_header)
    }
}

/// What a forged update asks for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Its number.
    pub(crate) sequence: Sequence,
    /// Acknowledge, home registration and mobile router; explicit prefixes and identifiers make themselves known.
    pub(crate) flags: UpdateFlags,
    /// Units of four seconds; 0 ends the binding.
    pub(crate) lifetime_units: u16,
    /// Options before those of the proof.
    pub(crate) options: Vec<MobilityOption>,
    /// Its timestamp, microseconds since 1970.
    pub(crate) unix_micros: u64,
}

impl Request {
    /// A registration in implicit mode, dated now.
    pub(crate) fn new(sequence: Sequence) -> Request {
        let (unix_micros, options) = (clock::unix_micros(), Vec::new());
        Request { sequence, flags: FLAGS, lifetime_units: LIFETIME_UNITS, options, unix_micros }
    }

    /// A de-registration.
    pub(crate) fn end(sequence: Sequence) -> Request {
        Request { lifetime_units: 0, ..Request::new(sequence) }
    }
}

/// The status and sequence of the Binding Acknowledgement in `packet`, and to whom it goes; `None` if it is none.
pub(crate) fn acknowledgement(packet: &[u8]) -> Option<(CareOfAddress, u8, Sequence)> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == protocol::MOBILITY)?;
    match Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination()).ok()? {
        Message::BindingAcknowledgement(answer) => {
            Some((CareOfAddress(datagram.destination), answer.status.0, answer.sequence))
        }
        _ => None,
    }
}

fn update(sequence: Sequence, options: Vec<MobilityOption>) -> Message {
    Message::BindingUpdate(BindingUpdate { sequence, flags: FLAGS, lifetime_units: LIFETIME_UNITS, options })
}
