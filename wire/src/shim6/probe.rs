//! The probe: tries a pair of locators and says which probes have come through. RFC 5534 §5.2.

use super::option::{self, ShimOption};
use super::{Nonce, Tag, kind};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Most records of one kind: the field has 4 bits.
pub const MAX_RECORDS: usize = 15;

/// A probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The receiver's tag.
    pub tag: Tag,
    /// How its sender finds things.
    pub state: ProbeState,
    /// Probes sent: the first is this one. 1 to [`MOST_RECORDS`].
    pub sent: Vec<ProbeRecord>,
    /// Probes received since its sender began to explore. [`MOST_RECORDS`] at most.
    pub received: Vec<ProbeRecord>,
    /// Options; none is defined.
    pub options: Vec<ShimOption>,
}

/// What a probe was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeRecord {
    /// From where.
    pub source: Ipv6Addr,
    /// To where.
    pub destination: Ipv6Addr,
    /// By which its sender knows it again.
    pub nonce: Nonce,
    /// Copied back unchanged.
    pub data: u32,
}

/// How the sender of a probe finds things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeState {
    /// Well, for both.
    Operational,
    /// It hears nothing.
    Exploring,
    /// It hears, and does not know yet whether it is heard.
    InboundOk,
}

impl Probe {
    pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Probe, Malformed> {
        let at = reader.position();
        let counts = reader.u8()?;
        let state = match reader.u8()? >> 6 {
            0 => ProbeState::Operational,
            1 => ProbeState::Exploring,
            2 => ProbeState::InboundOk,
            other => return Err(Malformed { what: "Sta", at: at + 1, why: Why::Value(other.into()) }),
        };
        reader.skip(2)?;
        let (received, sent) = (counts >> 4, counts & 0xf);
        if sent == 0 {
            return Err(Malformed { what: "Psent", at, why: Why::Value(0) });
        }
        let mut records = |count: u8| (0..count).map(|_| ProbeRecord::read(reader)).collect::<Result<Vec<_>, _>>();
        let (sent, received) = (records(sent)?, records(received)?);
        let options = option::read_all(reader, option::allowed_options(kind::PROBE))?;
        Ok(Probe { tag, state, sent, received, options })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let sent = self.sent.get(..MAX_RECORDS).unwrap_or(&self.sent);
        let received = self.received.get(..MAX_RECORDS).unwrap_or(&self.received);
        let state = match self.state {
            ProbeState::Operational => 0,
            ProbeState::Exploring => 1,
            ProbeState::InboundOk => 2,
        };
        writer.u8((received.len() as u8) << 4 | sent.len() as u8).u8(state << 6).u16(0);
        for record in sent.iter().chain(received) {
            writer.address(record.source).address(record.destination).u32(record.nonce.0).u32(record.data);
        }
    }
}

impl ProbeRecord {
    fn read(reader: &mut Reader<'_>) -> Result<ProbeRecord, Malformed> {
        Ok(ProbeRecord {
            source: reader.address()?,
            destination: reader.address()?,
            nonce: Nonce(reader.u32()?),
            data: reader.u32()?,
        })
    }
}
