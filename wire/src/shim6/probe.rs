//! The Probe message: probes a locator pair, and reports the probes received. RFC 5534 §5.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |  Hdr Ext Len  |0|  Type = 67  |   Reserved  |0|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Checksum            |R|                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     Receiver Context Tag                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Precvd | Psent |Sta|                 Reserved2                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Psent sent records, then Precvd received records: source and |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  destination address, nonce (4 octets), data (4 octets) ...   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc5534#section-5.2>.

use super::option::{self, ShimOption};
use super::{Nonce, Tag, kind};
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::{Writer, low};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Maximum number of records of each kind: the field has 4 bits.
pub const MAX_RECORDS: usize = 15;

/// A probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The receiver's context tag.
    pub tag: Tag,
    /// REAP state of the sender.
    pub state: ProbeState,
    /// Probes sent, this one first: 1 to [`MAX_RECORDS`].
    pub sent: Vec<ProbeRecord>,
    /// Probes received since the sender entered Exploring, at most [`MAX_RECORDS`].
    pub received: Vec<ProbeRecord>,
    /// Options; none are defined.
    pub options: Vec<ShimOption>,
}

/// Record of a probe sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeRecord {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Nonce of the probe.
    pub nonce: Nonce,
    /// Probe data, returned unchanged.
    pub data: u32,
}

field_values! {
    /// REAP state of the sender of a probe.
    ProbeState {
        /// Both directions work.
        Operational = 0,
        /// It receives no packets.
        Exploring = 1,
        /// It receives packets, and does not know yet whether its own arrive.
        InboundOk = 2,
    }
}

impl Probe {
    pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Probe, Malformed> {
        let at = reader.position();
        let counts = reader.u8()?;
        let state = reader.u8()? >> 6;
        let unknown = Malformed { what: "Sta", at: at + 1, why: Why::Value(state.into()) };
        let state = ProbeState::from_value(state).ok_or(unknown)?;
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

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        let sent = self.sent.get(..MAX_RECORDS).unwrap_or(&self.sent);
        let received = self.received.get(..MAX_RECORDS).unwrap_or(&self.received);
        writer.u8(low(received.len()) << 4 | low(sent.len())).u8(self.state.value() << 6).u16(0);
        writer.list(sent.iter().chain(received), |writer, record| {
            writer.address(record.source).address(record.destination).u32(record.nonce.0).u32(record.data)
        })
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
