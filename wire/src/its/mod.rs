//! Messages of intelligent transport systems in unaligned PER (ITU-T X.691): cooperative awareness (CAM, ETSI
//! EN 302 637-2 V1.4.1) and decentralised environmental notification (DENM, EN 302 637-3 V1.3.1), both on the common
//! data dictionary TS 102 894-2 V1.3.1, and announcements of services (SAEM, EN 302 890-1 V1.2.1). Types, fields, bounds
//! and units are those of the standards' ASN.1 modules.

mod asn1;
pub mod cam;
pub mod common;
pub mod denm;
pub mod extension;
pub mod number;
pub mod saem;

pub use cam::Cam;
pub use denm::Denm;
pub use saem::Saem;

use crate::malformed::{Malformed, Why};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Version of all messages.
pub const PROTOCOL_VERSION: u8 = 2;
/// Longest message read, octets: nothing on a radio is longer.
pub const MAX_LENGTH: usize = 2304;

/// Message types (ItsPduHeader.messageID).
pub mod message {
    /// Decentralised environmental notification.
    pub const DENM: u8 = 1;
    /// Cooperative awareness.
    pub const CAM: u8 = 2;
    /// Announcement of services.
    pub const SAEM: u8 = 12;
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
            [PROTOCOL_VERSION, other, ..] => Err(wrong("messageID", 1, Why::Value((*other).into()))),
            [version, ..] => Err(wrong("protocolVersion", 0, Why::Value((*version).into()))),
            [] => Err(wrong("ITS message", 0, Why::Short { has: 0, needs: 6 })),
        }
    }

    /// The octets; `None` if a value is out of its bounds.
    pub fn emit(&self) -> Option<Vec<u8>> {
        match self {
            Message::Cam(cam) => rasn::uper::encode(cam.as_ref()).ok(),
            Message::Denm(denm) => rasn::uper::encode(denm.as_ref()).ok(),
            Message::Saem(saem) => rasn::uper::encode(saem.as_ref()).ok(),
        }
    }
}

fn decode<T: rasn::Decode>(what: &'static str, bytes: &[u8]) -> Result<Box<T>, Malformed> {
    rasn::uper::decode(bytes).map(Box::new).map_err(|_| Malformed { what, at: 2, why: Why::Misplaced })
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
