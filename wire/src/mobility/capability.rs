//! What mobile router and home agent can do beyond the standards, and how packets of each path are encapsulated: an
//! experimental mobility option (RFC 5096 §5) of roam6, which others skip (RFC 6275 §6.1.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!                                 +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!                                 |   Type = 18   |    Length     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         "R6CP"                                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Version = 1  |     Flags     |              BID              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Encapsulation | Reserved = 0  |  further BIDs ...
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! An acknowledgement has it only if the update had it.

use crate::address::Bid;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Experiment identifier: "R6CP".
const EXPERIMENT: u32 = 0x5236_4350;
const VERSION: u8 = 1;
/// Octets before the BIDs, and of each BID.
const FIXED: usize = 6;
const ENTRY: usize = 4;
/// As many BIDs as an option has room for.
const MAX_ENTRIES: usize = (u8::MAX as usize - FIXED) / ENTRY;

/// The option.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// What the sender can do; unknown flags are kept.
    pub flags: u8,
    /// How packets of the path with this BID are encapsulated; 0 without RFC 5648. Other paths are native.
    pub encapsulations: Vec<(Bid, PathEncapsulation)>,
}

/// The encapsulation of a path over IPv6; unknown values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEncapsulation(pub u8);

impl PathEncapsulation {
    /// IPv6 in IPv6 (RFC 2473).
    pub const NATIVE: PathEncapsulation = PathEncapsulation(0);
    /// In UDP on port 4191, data without a checksum (RFC 6935).
    pub const UDP: PathEncapsulation = PathEncapsulation(1);
}

impl Capabilities {
    /// UDP over IPv6 is received, signalling and data.
    pub const UDP_OVER_IPV6: u8 = 0x01;
    /// UDP over IPv6 without a checksum is received (RFC 6936).
    pub const ZERO_CHECKSUM: u8 = 0x02;
    /// Packets that arrive twice with one sequence number are delivered once: replicated flows may be sent.
    pub const ELIMINATION: u8 = 0x04;

    /// Whether all of `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The encapsulation of the path with this BID.
    pub fn encapsulation_of(&self, bid: Bid) -> PathEncapsulation {
        let named = self.encapsulations.iter().find(|(other, _)| *other == bid);
        named.map_or(PathEncapsulation::NATIVE, |(_, encapsulation)| *encapsulation)
    }

    /// Parses what follows the length; `None` if it is another experiment or another version.
    ///
    /// # Errors
    /// [`Malformed`] never occurs for a body of the checked length.
    pub(super) fn read(body: &[u8]) -> Result<Option<Capabilities>, Malformed> {
        let mut fields = Reader::new("capabilities", body);
        let entries = body.len().checked_sub(FIXED).filter(|octets| octets % ENTRY == 0).map(|octets| octets / ENTRY);
        let Some(count) = entries.filter(|count| *count <= MAX_ENTRIES) else { return Ok(None) };
        if fields.u32()? != EXPERIMENT || fields.u8()? != VERSION {
            return Ok(None);
        }
        let flags = fields.u8()?;
        let mut encapsulations = Vec::with_capacity(count);
        for _ in 0..count {
            encapsulations.push((Bid(fields.u16()?), PathEncapsulation(fields.u8()?)));
            fields.skip(1)?;
        }
        Ok(Some(Capabilities { flags, encapsulations }))
    }

    /// Writes what follows the length; BIDs beyond [`MAX_ENTRIES`] are left out.
    pub(super) fn write<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        body.u32(EXPERIMENT).u8(VERSION).u8(self.flags);
        let entries = self.encapsulations.iter().take(MAX_ENTRIES);
        body.list(entries, |body, (bid, encapsulation)| body.u16(bid.0).u8(encapsulation.0).u8(0))
    }
}
