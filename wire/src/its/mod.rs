//! Messages of intelligent transport systems in unaligned PER (ITU-T X.691): cooperative awareness (CAM, ETSI
//! EN 302 637-2 V1.4.1) and decentralised environmental notification (DENM, EN 302 637-3 V1.3.1), both on the common
//! data dictionary TS 102 894-2 V1.3.1, and announcements of services (SAEM, EN 302 890-1 V1.2.1). Only received: awareness of
//! vulnerable road users (VAM, TS 103 300-3 V2.3.1), collective perception (CPM, TS 103 324 V2.1.1), and the header of messages
//! of infrastructure (TS 103 301). Types, fields, bounds and units are those of the standards' ASN.1 modules.

mod asn1;
pub mod cam;
pub mod common;
pub mod cpm;
pub mod denm;
pub mod extension;
pub mod map_position;
pub mod number;
pub mod saem;
pub mod vam;

pub use cam::Cam;
pub use cpm::Cpm;
pub use denm::Denm;
pub use saem::Saem;
pub use vam::Vam;

use crate::malformed::{Malformed, Why};
use alloc::boxed::Box;
use alloc::vec::Vec;
use common::Header;

/// Version of all messages but VAM.
pub const PROTOCOL_VERSION: u8 = 2;
/// Longest message read, octets: nothing on a radio is longer.
pub const MAX_LENGTH: usize = 2304;

/// Message types (ItsPduHeader.messageID).
pub mod message {
    /// Decentralised environmental notification.
    pub const DENM: u8 = 1;
    /// Cooperative awareness.
    pub const CAM: u8 = 2;
    /// Signal phase and timing.
    pub const SPATEM: u8 = 4;
    /// Topology of roads.
    pub const MAPEM: u8 = 5;
    /// Information of road signs.
    pub const IVIM: u8 = 6;
    /// Announcement of services.
    pub const SAEM: u8 = 12;
    /// Collective perception.
    pub const CPM: u8 = 14;
    /// Awareness of a vulnerable road user.
    pub const VAM: u8 = 16;
}

/// One of the messages, as it is found behind a BTP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Cooperative awareness.
    Cam(Box<Cam>),
    /// Decentralised environmental notification.
    Denm(Box<Denm>),
    /// Announcement of services.
    Saem(Box<Saem>),
    /// Awareness of a vulnerable road user.
    Vam(Box<Vam>),
    /// Collective perception.
    Cpm(Box<Cpm>),
    /// A message of infrastructure, of which only the header is read: MAPEM, SPATEM or IVIM.
    Infrastructure(Header),
}

impl Message {
    /// Reads a message; one of another type or version is refused.
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let wrong = |what, at, why| Malformed { what, at, why };
        if bytes.len() > MAX_LENGTH {
            return Err(wrong("ITS message", 0, Why::Length { has: bytes.len(), needs: MAX_LENGTH }));
        }
        match bytes {
            [PROTOCOL_VERSION, message::CAM, ..] => decode("CAM", bytes).map(Message::Cam),
            [PROTOCOL_VERSION, message::DENM, ..] => decode("DENM", bytes).map(Message::Denm),
            [PROTOCOL_VERSION, message::SAEM, ..] => announcement(bytes).map(Message::Saem),
            [PROTOCOL_VERSION, message::CPM, ..] => perception(bytes).map(Message::Cpm),
            [vam::PROTOCOL_VERSION, message::VAM, ..] => {
                decode_beginning("VAM", bytes).map(|vam| Message::Vam(Box::new(vam)))
            }
            // All versions have the same header.
            [_, message::MAPEM | message::SPATEM | message::IVIM, ..] => {
                decode_beginning("ITS PDU header", bytes).map(Message::Infrastructure)
            }
            [PROTOCOL_VERSION, other, ..] if *other != message::VAM => {
                Err(wrong("messageID", 1, Why::Value((*other).into())))
            }
            [version, ..] => Err(wrong("protocolVersion", 0, Why::Value((*version).into()))),
            [] => Err(wrong("ITS message", 0, Why::Short { has: 0, needs: 6 })),
        }
    }

    /// The octets; `None` if a value is out of its bounds, and for messages that are only received.
    pub fn emit(&self) -> Option<Vec<u8>> {
        match self {
            Message::Cam(cam) => rasn::uper::encode(cam.as_ref()).ok(),
            Message::Denm(denm) => rasn::uper::encode(denm.as_ref()).ok(),
            Message::Saem(saem) => rasn::uper::encode(saem.as_ref()).ok(),
            Message::Vam(_) | Message::Cpm(_) | Message::Infrastructure(_) => None,
        }
    }
}

fn decode<T: rasn::Decode>(what: &'static str, bytes: &[u8]) -> Result<Box<T>, Malformed> {
    rasn::uper::decode(bytes).map(Box::new).map_err(|_| Malformed { what, at: 2, why: Why::Misplaced })
}

/// Decodes the beginning of `bytes`: what is behind a value of this type is not read.
fn decode_beginning<T: rasn::Decode>(what: &'static str, bytes: &[u8]) -> Result<T, Malformed> {
    let read = rasn::uper::decode_with_remainder(bytes);
    read.map(|(read, _)| read).map_err(|_| Malformed { what, at: 2, why: Why::Misplaced })
}

/// Reads a CPM; one with a container that cannot be decoded is refused.
fn perception(bytes: &[u8]) -> Result<Box<Cpm>, Malformed> {
    let read: Box<Cpm> = decode("CPM", bytes)?;
    read.orientation()?;
    read.perceived_objects()?;
    Ok(read)
}

/// Reads a service announcement; one that would not be encoded to the same octets is refused.
fn announcement(bytes: &[u8]) -> Result<Box<Saem>, Malformed> {
    let read: Box<Saem> = decode("SAEM", bytes)?;
    read.check()?;
    match rasn::uper::encode(read.as_ref()) {
        Ok(written) if written == bytes => Ok(read),
        _ => Err(Malformed { what: "SAEM", at: 2, why: Why::Misplaced }),
    }
}
