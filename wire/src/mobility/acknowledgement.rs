//! The Binding Acknowledgement, its status and its flags.
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
use crate::address::Sequence;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::fmt;
use core::ops::BitOr;

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

/// Flags of a Binding Acknowledgement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AckFlags(pub u8);

impl AckFlags {
    /// None set.
    pub const NONE: AckFlags = AckFlags(0);
    /// K: the keys' endpoints can move too.
    pub const KEY_MANAGEMENT: AckFlags = AckFlags(0x80);
    /// R: the home agent serves mobile routers (RFC 3963).
    pub const ROUTER: AckFlags = AckFlags(0x40);
    /// P: answers a proxy update (RFC 5213).
    pub const PROXY: AckFlags = AckFlags(0x20);

    /// Whether all of `flags` are set.
    pub fn contains(self, flags: AckFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// R: the home agent serves mobile routers.
    pub fn router(self) -> bool {
        self.contains(Self::ROUTER)
    }
}

impl BitOr for AckFlags {
    type Output = AckFlags;

    fn bitor(self, other: AckFlags) -> AckFlags {
        AckFlags(self.0 | other.0)
    }
}

/// Status of a Binding Acknowledgement, or of one Binding Identifier option in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Status(pub u8);

/// Status of an IPv4 Address Acknowledgement option (RFC 5555 §3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Status(pub u8);

/// Names each status of a kind once: its constant, its number, its text.
macro_rules! statuses {
    ($kind:ident: $($name:ident = $code:literal, $text:literal;)*) => {
        impl $kind {
            $(#[doc = concat!("Status ", $code, ": ", $text, ".")]
            pub const $name: $kind = $kind($code);)*

            /// Its text; `None` for an unassigned value.
            pub fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }

            /// Whether it accepts the request: values below 128.
            pub fn is_accepted(self) -> bool {
                self.0 < 128
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.text() {
                    Some(text) => write!(f, "{} ({text})", self.0),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
}

statuses! { Status:
    ACCEPTED = 0, "accepted";
    PREFIX_DISCOVERY_NEEDED = 1, "accepted, but prefix discovery is needed";
    MCOA_NOT_COMPLETE = 4, "accepted, but not every care-of address";
    MCOA_RETURN_HOME_WITHOUT_NDP = 5, "accepted, return home without neighbour discovery for the home address";
    UNSPECIFIED = 128, "reason unspecified";
    ADMINISTRATIVELY_PROHIBITED = 129, "administratively prohibited";
    INSUFFICIENT_RESOURCES = 130, "insufficient resources";
    HOME_REGISTRATION_NOT_SUPPORTED = 131, "home registration not supported";
    NOT_HOME_SUBNET = 132, "not home subnet";
    NOT_HOME_AGENT = 133, "not home agent for this mobile node";
    DUPLICATE_ADDRESS = 134, "duplicate address detection failed";
    SEQUENCE_OUT_OF_WINDOW = 135, "sequence number out of window";
    EXPIRED_HOME_NONCE = 136, "expired home nonce index";
    EXPIRED_CARE_OF_NONCE = 137, "expired care-of nonce index";
    EXPIRED_NONCES = 138, "expired nonces";
    REGISTRATION_TYPE_CHANGE = 139, "registration type change disallowed";
    MOBILE_ROUTER_NOT_PERMITTED = 140, "mobile router operation not permitted";
    INVALID_PREFIX = 141, "invalid prefix";
    NOT_AUTHORISED_FOR_PREFIX = 142, "not authorised for prefix";
    FORWARDING_SETUP_FAILED = 143, "forwarding setup failed";
    MESSAGE_ID_MISMATCH = 144, "timestamp not accepted, or UDP encapsulation refused";
    MESSAGE_ID_REQUIRED = 145, "replay protection option required";
    AUTHENTICATION_FAILED = 146, "authentication failed";
    MCOA_MALFORMED = 164, "binding identifier malformed";
    MCOA_NON_MCOA_BINDING_EXISTS = 165, "a binding without binding identifier exists";
    MCOA_PROHIBITED = 166, "several care-of addresses prohibited";
    MCOA_UNKNOWN_CARE_OF = 167, "no care-of address known for the binding identifier";
    MCOA_BULK_PROHIBITED = 168, "bulk registration prohibited";
    MCOA_SIMULTANEOUS_PROHIBITED = 169, "simultaneous home and foreign attachment prohibited";
    INVALID_CARE_OF = 174, "invalid care-of address";
    DELEGATED_PREFIX_NOT_AUTHORISED = 177, "not authorised for delegated prefix";
    DELEGATED_PREFIX_IN_USE = 178, "delegated prefix in use";
}

statuses! { Ipv4Status:
    ACCEPTED = 0, "accepted";
    UNSPECIFIED = 128, "reason unspecified";
    ADMINISTRATIVELY_PROHIBITED = 129, "administratively prohibited";
    INCORRECT_HOME_ADDRESS = 130, "incorrect IPv4 home address";
    INVALID_ADDRESS = 131, "invalid IPv4 address";
    NO_DYNAMIC_ADDRESS = 132, "dynamic IPv4 home address assignment not available";
    PREFIX_UNAUTHORISED = 133, "prefix allocation unauthorised";
}

impl Status {
    /// UDP encapsulation refused: the other meaning of 144, told apart by what the update had (RFC 5555 §3.2).
    pub const UDP_ENCAPSULATION_REFUSED: Status = Status(144);
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

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u8(self.status.0).u8(self.flags.0).u16(self.sequence.0).u16(self.lifetime_units);
    }
}
