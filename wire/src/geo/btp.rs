//! The Basic Transport Protocol, ports and nothing else: EN 302 636-5-1 §7.

use super::packet::Upper;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Ports that TS 103 248 assigns to the messages roam6 speaks.
pub mod port {
    /// Cooperative awareness (CAM).
    pub const AWARENESS: u16 = 2001;
    /// Decentralised environmental notification (DENM).
    pub const NOTIFICATION: u16 = 2002;
    /// Service announcement (SAEM).
    pub const ANNOUNCEMENT: u16 = 2005;
}

/// A BTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Btp<'a> {
    /// The port it is for.
    pub destination: u16,
    /// Of whom, or more about the destination.
    pub second: Second,
    /// What it carries.
    pub payload: &'a [u8],
}

/// The second field, which tells the two kinds apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// BTP-A: the port it was sent from, where an answer goes.
    Source(u16),
    /// BTP-B: information about the destination port; 0 if there is none.
    Information(u16),
}

impl<'a> Btp<'a> {
    /// Reads the payload of a packet whose upper protocol is `upper`; `None` if that is not BTP.
    pub fn parse(upper: Upper, bytes: &'a [u8]) -> Option<Result<Btp<'a>, Malformed>> {
        let second = match upper {
            Upper::BtpA => Second::Source,
            Upper::BtpB => Second::Information,
            Upper::Any | Upper::Ipv6 => return None,
        };
        Some(read(&mut Reader::new("BTP header", bytes), second))
    }

    /// The octets.
    pub fn emit(&self) -> Vec<u8> {
        let (Second::Source(second) | Second::Information(second)) = self.second;
        let mut writer = Writer::new();
        writer.u16(self.destination).u16(second).bytes(self.payload);
        writer.finish()
    }

    /// The upper protocol that says which kind it is.
    pub fn upper(&self) -> Upper {
        match self.second {
            Second::Source(_) => Upper::BtpA,
            Second::Information(_) => Upper::BtpB,
        }
    }
}

fn read<'a>(reader: &mut Reader<'a>, second: fn(u16) -> Second) -> Result<Btp<'a>, Malformed> {
    let destination = reader.u16()?;
    let second = second(reader.u16()?);
    Ok(Btp { destination, second, payload: reader.rest() })
}
