//! The public key of a WireGuard device, for the path with this BID: mobile router and home agent tell each other theirs under
//! the authenticator of the message, and data of the path travels between the two devices. An experimental mobility option
//! (RFC 5096 §5) of roam6, which others skip (RFC 6275 §6.1.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!                                 +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!                                 |   Type = 18   |  Length = 42  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         "R6WG"                                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Version = 1  |  Reserved = 0 |              BID              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           UDP port            |  Public key: 32 octets ...
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-
//! ```
//!
//! The BID is 0 without RFC 5648. An acknowledgement has the options only if the update had them.

use crate::address::Bid;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Experiment identifier: "R6WG".
const EXPERIMENT: u32 = 0x5236_5747;
const VERSION: u8 = 1;
/// Octets of the option's body.
const LENGTH: usize = 10 + PUBLIC_KEY_LENGTH;

/// Octets of a public key (RFC 7748 §5).
pub const PUBLIC_KEY_LENGTH: usize = 32;

/// The option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireguardKey {
    /// The path, by its binding identifier.
    pub bid: Bid,
    /// UDP port of the device.
    pub port: u16,
    /// Its public key.
    pub public_key: [u8; PUBLIC_KEY_LENGTH],
}

impl WireguardKey {
    /// Parses what follows the length; `None` if it is another experiment or another version.
    ///
    /// # Errors
    /// [`Malformed`] never occurs for a body of the checked length.
    pub(super) fn read(body: &[u8]) -> Result<Option<WireguardKey>, Malformed> {
        let mut fields = Reader::new("WireGuard key", body);
        if body.len() != LENGTH || fields.u32()? != EXPERIMENT || fields.u8()? != VERSION || fields.u8()? != 0 {
            return Ok(None);
        }
        let (bid, port) = (Bid(fields.u16()?), fields.u16()?);
        Ok(fields.rest().try_into().ok().map(|public_key| WireguardKey { bid, port, public_key }))
    }

    /// Writes what follows the length.
    pub(super) fn write<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        body.u32(EXPERIMENT).u8(VERSION).u8(0).u16(self.bid.0).u16(self.port).bytes(&self.public_key)
    }
}
