//! Exchange of the shared key of a mobile router and its home agent for a new one, by ephemeral Diffie-Hellman on the curve
//! P-256 under the authenticator of the present key: an experimental mobility option (RFC 5096 §5) of roam6, which others
//! skip (RFC 6275 §6.1.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!                                 +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!                                 |   Type = 18   |  Length = 43  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         "R6KX"                                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Version = 1  |     Flags     |                              SPI
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!  of the new key                 |  Point: 33 octets ...
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-
//! ```
//!
//! Flags: 0x01, the request of a mobile router, whose SPI is 0; 0x02, the answer of a home agent. The point is in compressed
//! form (SEC 1 §2.3.3). An acknowledgement has the option only if the update had it.

use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// Experiment identifier: "R6KX".
const EXPERIMENT: u32 = 0x5236_4b58;
const VERSION: u8 = 1;
const REQUEST: u8 = 0x01;
const ANSWER: u8 = 0x02;
/// Octets of the option's body.
const LENGTH: usize = 10 + POINT_LENGTH;

/// Octets of a point of P-256 in compressed form.
pub const POINT_LENGTH: usize = 33;

/// The option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyExchange {
    /// A mobile router asks for a new key.
    Request {
        /// Its ephemeral public key; not known to be on the curve.
        point: [u8; POINT_LENGTH],
    },
    /// The home agent has a new key.
    Answer {
        /// SPI of the new key.
        spi: u32,
        /// Its ephemeral public key; not known to be on the curve.
        point: [u8; POINT_LENGTH],
    },
}

impl KeyExchange {
    /// Parses what follows the length; `None` if it is another experiment, another version or has other flags.
    ///
    /// # Errors
    /// [`Malformed`] never occurs for a body of the checked length.
    pub(super) fn read(body: &[u8]) -> Result<Option<KeyExchange>, Malformed> {
        let mut fields = Reader::new("key exchange", body);
        if body.len() != LENGTH || fields.u32()? != EXPERIMENT || fields.u8()? != VERSION {
            return Ok(None);
        }
        let (flags, spi) = (fields.u8()?, fields.u32()?);
        let Ok(point) = <[u8; POINT_LENGTH]>::try_from(fields.rest()) else { return Ok(None) };
        Ok(match (flags, spi) {
            (REQUEST, 0) => Some(KeyExchange::Request { point }),
            (ANSWER, spi) => Some(KeyExchange::Answer { spi, point }),
            _ => None,
        })
    }

    /// Writes what follows the length.
    pub(super) fn write<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        let (flags, spi, point) = match self {
            KeyExchange::Request { point } => (REQUEST, 0, point),
            KeyExchange::Answer { spi, point } => (ANSWER, *spi, point),
        };
        body.u32(EXPERIMENT).u8(VERSION).u8(flags).u32(spi).bytes(point)
    }
}
