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

impl Registrant {
    /// An authenticated update in implicit mode, dated now: a whole IPv6 packet.
    pub(crate) fn update(&self, sequence: Sequence) -> Vec<u8> {
        self.update_at(sequence, clock::unix_micros())
    }

    /// The same, dated `unix_micros`.
    pub(crate) fn update_at(&self, sequence: Sequence, unix_micros: u64) -> Vec<u8> {
        let timestamp = Timestamp::from_unix_micros(unix_micros);
        let message = update(sequence, vec![MobilityOption::ReplayProtection(timestamp.0)]);
        let (home, agent) = (self.home.0, self.home_agent);
        let header = message.emit_authenticated(home, agent, self.spi, |part| {
            authenticate(&self.secret, self.care_of, self.home, part)
        });
        self.packet(&header)
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
    let flags = UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER;
    Message::BindingUpdate(BindingUpdate { sequence, flags, lifetime_units: LIFETIME_UNITS, options })
}
