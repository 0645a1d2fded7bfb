//! The Basic Transport Protocol: EN 302 636-5-1 §7.

use super::packet::UpperProtocol;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Well-known ports of TS 103 248.
pub mod port {
    /// Cooperative awareness (CAM).
    pub const CAM: u16 = 2001;
    /// Decentralised environmental notification (DENM).
    pub const DENM: u16 = 2002;
    /// Topology of roads (MAPEM).
    pub const MAPEM: u16 = 2003;
    /// Signal phase and timing (SPATEM).
    pub const SPATEM: u16 = 2004;
    /// Service announcement (SAEM).
    pub const SAEM: u16 = 2005;
    /// Information of road signs (IVIM).
    pub const IVIM: u16 = 2006;
    /// Collective perception (CPM).
    pub const CPM: u16 = 2009;
    /// Awareness of vulnerable road users (VAM).
    pub const VAM: u16 = 2018;
}

/// A BTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Btp<'a> {
    /// Destination port.
    pub destination: u16,
    /// Source port, or destination port information.
    pub source_or_info: SourceOrInfo,
    /// Payload.
    pub payload: &'a [u8],
}

/// The second field of the header, different in BTP-A and BTP-B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceOrInfo {
    /// BTP-A: source port, for answers.
    Source(u16),
    /// BTP-B: destination port information; 0 if there is none.
    Information(u16),
}

impl<'a> Btp<'a> {
    /// Parses the payload of a packet with the upper protocol `upper`; `None` if that is not BTP.
    pub fn parse(upper: UpperProtocol, bytes: &'a [u8]) -> Option<Result<Btp<'a>, Malformed>> {
        let second = match upper {
            UpperProtocol::BtpA => SourceOrInfo::Source,
            UpperProtocol::BtpB => SourceOrInfo::Information,
            UpperProtocol::Any | UpperProtocol::Ipv6 => return None,
        };
        Some(read(&mut Reader::new("BTP header", bytes), second))
    }

    /// Emits the packet.
    pub fn emit(&self) -> Vec<u8> {
        let (SourceOrInfo::Source(second) | SourceOrInfo::Information(second)) = self.source_or_info;
        let mut writer = Writer::new();
        writer.u16(self.destination).u16(second).bytes(self.payload);
        writer.finish()
    }

    /// The upper protocol: BTP-A or BTP-B.
    pub fn upper(&self) -> UpperProtocol {
        match self.source_or_info {
            SourceOrInfo::Source(_) => UpperProtocol::BtpA,
            SourceOrInfo::Information(_) => UpperProtocol::BtpB,
        }
    }
}

fn read<'a>(reader: &mut Reader<'a>, second: fn(u16) -> SourceOrInfo) -> Result<Btp<'a>, Malformed> {
    let destination = reader.u16()?;
    let second = second(reader.u16()?);
    Ok(Btp { destination, source_or_info: second, payload: reader.rest() })
}
