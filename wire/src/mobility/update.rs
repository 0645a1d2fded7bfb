//! The Binding Update and its flags.
//! RFC 6275 §6.1.7, RFC 3963 §4.1, RFC 5648 §4.2, RFC 5555 §3.1.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!                                 |          Sequence #           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |A|H|L|K| |R|P|F| |O| Reserved  |           Lifetime            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Mobility options ...                                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc6275#section-6.1.7>.

use super::option::{self, MobilityOption};
use crate::address::Sequence;
use crate::codepoint::flags;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// A Binding Update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingUpdate {
    /// Orders the updates of one home address.
    pub sequence: Sequence,
    /// Flags.
    pub flags: UpdateFlags,
    /// Requested lifetime in units of 4 seconds; 0 is a de-registration.
    pub lifetime_units: u16,
    /// Options.
    pub options: Vec<MobilityOption>,
}

flags! {
    /// Flags of a Binding Update.
    UpdateFlags(u16) {
        /// A: an acknowledgement is wanted.
        ACKNOWLEDGE = 0x8000;
        /// H: the receiver is to be home agent.
        HOME_REGISTRATION = 0x4000;
        /// L: the link-local address has the interface identifier of the home address.
        LINK_LOCAL = 0x2000;
        /// K: the keys' endpoints can move too.
        KEY_MANAGEMENT = 0x1000;
        /// R: the sender is a mobile router (RFC 3963).
        ROUTER = 0x0400;
        /// P: sent by a mobile access gateway on behalf of a node (RFC 5213).
        PROXY = 0x0200;
        /// F: UDP encapsulation whether or not there is a NAT (RFC 5555).
        FORCE_UDP = 0x0100;
        /// O: replaces all bindings of the home address (RFC 5648). Another meaning with P: bulk update (RFC 6602).
        OVERWRITE = 0x0040;
    }
}

impl UpdateFlags {
    /// A: an acknowledgement is wanted.
    pub fn acknowledge(self) -> bool {
        self.contains(Self::ACKNOWLEDGE)
    }

    /// H: a registration at a home agent.
    pub fn home_registration(self) -> bool {
        self.contains(Self::HOME_REGISTRATION)
    }

    /// L: the link-local address has the interface identifier of the home address.
    pub fn link_local(self) -> bool {
        self.contains(Self::LINK_LOCAL)
    }

    /// R: from a mobile router.
    pub fn router(self) -> bool {
        self.contains(Self::ROUTER)
    }

    /// F: UDP also without a NAT.
    pub fn force_udp(self) -> bool {
        self.contains(Self::FORCE_UDP)
    }

    /// O without P: replaces all bindings.
    pub fn overwrite(self) -> bool {
        self.contains(Self::OVERWRITE) && !self.contains(Self::PROXY)
    }
}

impl BindingUpdate {
    /// Requested lifetime, seconds.
    pub fn lifetime_seconds(&self) -> u32 {
        u32::from(self.lifetime_units) * super::LIFETIME_UNIT_SECONDS
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            sequence: Sequence(reader.u16()?),
            flags: UpdateFlags(reader.u16()?),
            lifetime_units: reader.u16()?,
            options: option::read_all(reader)?,
        })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.u16(self.sequence.0).u16(self.flags.0).u16(self.lifetime_units)
    }
}
