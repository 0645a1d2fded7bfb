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
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::ops::BitOr;

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

/// Flags of a Binding Update.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateFlags(pub u16);

impl UpdateFlags {
    /// None set.
    pub const NONE: UpdateFlags = UpdateFlags(0);
    /// A: an acknowledgement is wanted.
    pub const ACKNOWLEDGE: UpdateFlags = UpdateFlags(0x8000);
    /// H: the receiver is to be home agent.
    pub const HOME_REGISTRATION: UpdateFlags = UpdateFlags(0x4000);
    /// L: the link-local address has the interface identifier of the home address.
    pub const LINK_LOCAL: UpdateFlags = UpdateFlags(0x2000);
    /// K: the keys' endpoints can move too.
    pub const KEY_MANAGEMENT: UpdateFlags = UpdateFlags(0x1000);
    /// R: the sender is a mobile router (RFC 3963).
    pub const ROUTER: UpdateFlags = UpdateFlags(0x0400);
    /// P: sent by a mobile access gateway on behalf of a node (RFC 5213).
    pub const PROXY: UpdateFlags = UpdateFlags(0x0200);
    /// F: UDP encapsulation whether or not there is a NAT (RFC 5555).
    pub const FORCE_UDP: UpdateFlags = UpdateFlags(0x0100);
    /// O: replaces all bindings of the home address (RFC 5648). Another meaning with P: bulk update (RFC 6602).
    pub const OVERWRITE: UpdateFlags = UpdateFlags(0x0040);

    /// Whether all of `flags` are set.
    pub fn contains(self, flags: UpdateFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

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

impl BitOr for UpdateFlags {
    type Output = UpdateFlags;

    fn bitor(self, other: UpdateFlags) -> UpdateFlags {
        UpdateFlags(self.0 | other.0)
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

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u16(self.sequence.0).u16(self.flags.0).u16(self.lifetime_units);
    }
}
