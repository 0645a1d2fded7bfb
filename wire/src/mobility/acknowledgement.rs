//! The Binding Acknowledgement and its flags.
//! RFC 6275 §6.1.8, RFC 3963 §4.2, RFC 5648 §4.3, RFC 4285 §6, RFC 5555 §3.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!                                 |    Status     |K|R|P|Reserved |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Sequence #           |           Lifetime            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Mobility options ...                                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc6275#section-6.1.8>.

use super::option::{self, MobilityOption};
use super::status::Status;
use crate::address::Sequence;
use crate::codepoint::flags;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// A Binding Acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingAcknowledgement {
    /// Result.
    pub status: Status,
    /// What the sender supports.
    pub flags: AckFlags,
    /// That of the update; with [`Status::SEQUENCE_OUT_OF_WINDOW`] the last one accepted.
    pub sequence: Sequence,
    /// Granted lifetime in units of 4 seconds.
    pub lifetime_units: u16,
    /// Options.
    pub options: Vec<MobilityOption>,
}

flags! {
    /// Flags of a Binding Acknowledgement.
    AckFlags(u8) {
        /// K: the keys' endpoints can move too.
        KEY_MANAGEMENT = 0x80;
        /// R: the home agent serves mobile routers (RFC 3963).
        ROUTER = 0x40;
        /// P: answers a proxy update (RFC 5213).
        PROXY = 0x20;
    }
}

impl AckFlags {
    /// R: the home agent serves mobile routers.
    pub fn router(self) -> bool {
        self.contains(Self::ROUTER)
    }
}

impl BindingAcknowledgement {
    /// Granted lifetime, seconds.
    pub fn lifetime_seconds(&self) -> u32 {
        u32::from(self.lifetime_units) * super::LIFETIME_UNIT_SECONDS
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            status: Status(reader.u8()?),
            flags: AckFlags(reader.u8()?),
            sequence: Sequence(reader.u16()?),
            lifetime_units: reader.u16()?,
            options: option::read_all(reader)?,
        })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.u8(self.status.0).u8(self.flags.0).u16(self.sequence.0).u16(self.lifetime_units)
    }
}
