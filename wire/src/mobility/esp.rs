//! The agreement of keys for ESP (RFC 4303) on the path with this BID: the mobile router offers an ephemeral public key on the curve
//! P-256 and the SPI by which it receives, the home agent answers with its own, and data of the path travels by the two security
//! associations that follow from both. Under the authenticator of the messages. An experimental mobility option (RFC 5096 §5) of
//! roam6, which others skip (RFC 6275 §6.1.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!                                 +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!                                 |   Type = 18   |  Length = 49  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         "R6ES"                                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Version = 1  |  Reserved = 0 |              BID              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                              SPI                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 SPI of the offer, 0 in an offer               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Point: 33 octets ...
//! +-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The BID is 0 without RFC 5648. SPIs below 256 are reserved (RFC 4303 §2.1). The point is in compressed form (SEC 1 §2.3.3). An
//! acknowledgement has the options only if the update had them.

use super::key_exchange::POINT_LENGTH;
use crate::address::Bid;
use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Experiment identifier: "R6ES".
const EXPERIMENT: u32 = 0x5236_4553;
const VERSION: u8 = 1;
/// Octets of the option's body.
const LENGTH: usize = 16 + POINT_LENGTH;

/// SPIs below this are reserved (RFC 4303 §2.1).
pub const FIRST_SPI: u32 = 256;

/// The option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspKey {
    /// The path, by its binding identifier.
    pub bid: Bid,
    /// The SPI of the association by which the sender receives.
    pub spi: u32,
    /// The SPI of the offer that this answers; 0 for an offer.
    pub answers: u32,
    /// The sender's ephemeral public key; not known to be on the curve.
    pub point: [u8; POINT_LENGTH],
}

impl EspKey {
    /// Parses what follows the length; `None` if it is another experiment, another version, or has a reserved SPI.
    ///
    /// # Errors
    /// [`Malformed`] never occurs for a body of the checked length.
    pub(super) fn read(body: &[u8]) -> Result<Option<EspKey>, Malformed> {
        let mut fields = Reader::new("ESP key", body);
        if body.len() != LENGTH || fields.u32()? != EXPERIMENT || fields.u8()? != VERSION || fields.u8()? != 0 {
            return Ok(None);
        }
        let (bid, spi, answers) = (Bid(fields.u16()?), fields.u32()?, fields.u32()?);
        let is_valid = spi >= FIRST_SPI && (answers == 0 || answers >= FIRST_SPI);
        let point = fields.rest().try_into().ok().filter(|_| is_valid);
        Ok(point.map(|point| EspKey { bid, spi, answers, point }))
    }

    /// Writes what follows the length.
    pub(super) fn write<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        let head = body.u32(EXPERIMENT).u8(VERSION).u8(0).u16(self.bid.0);
        head.u32(self.spi).u32(self.answers).bytes(&self.point)
    }
}
