//! The echo of the GeoNetworking layer: a question to a station or to all in an area, and an answer of each. No standard
//! has one; this is modelled on ICMPv6's (RFC 4443 §4) and travels by BTP-A, on a port that TS 103 248 does not assign.
//!
//! ```text
//!  0                   1                   2                   3
//! |     kind      |T|  reserved   |     hops      |   reserved    |
//! |                          identifier                           |
//! |                           sequence                            |
//! |                         microseconds                          |
//! |                            data ...
//! ```

use super::btp::{Btp, Second};
use super::packet::{Packet, Upper};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// The BTP port, of both sides.
pub const PORT: u16 = 50_006;
/// Octets before the data.
pub const HEADER_LENGTH: usize = 16;

const TRACE: u8 = 0x80;

/// A question, or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Which of them.
    pub kind: Kind,
    /// T: the station at which the question has made its last hop answers too.
    pub trace: bool,
    /// In an answer: hops the question made. In a question: 0.
    pub hops: u8,
    /// Which series of questions, as the asker likes.
    pub identifier: u32,
    /// Which question of the series.
    pub sequence: u32,
    /// In a question: answers are to be spread over so many microseconds. In an answer: it has waited so long.
    pub micros: u32,
    /// Comes back as it was sent.
    pub data: &'a [u8],
}

/// Kinds of echo messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Is anybody there?
    Question,
    /// A station that the question was for.
    Answer,
    /// A station that the question was not for, and could not pass.
    Limit,
}

impl<'a> Echo<'a> {
    /// Reads the payload of a BTP packet for [`PORT`].
    pub fn parse(bytes: &'a [u8]) -> Result<Echo<'a>, Malformed> {
        let mut reader = Reader::new("echo", bytes);
        let kind = match reader.u8()? {
            0 => Kind::Question,
            1 => Kind::Answer,
            2 => Kind::Limit,
            other => return Err(Malformed { what: "echo kind", at: 0, why: Why::Value(other.into()) }),
        };
        let trace = reader.u8()? & TRACE != 0;
        let hops = reader.u8()?;
        reader.skip(1)?;
        let (identifier, sequence, micros) = (reader.u32()?, reader.u32()?, reader.u32()?);
        Ok(Echo { kind, trace, hops, identifier, sequence, micros, data: reader.rest() })
    }

    /// The octets of the message, without BTP header.
    pub fn emit(&self) -> Vec<u8> {
        let kind = match self.kind {
            Kind::Question => 0,
            Kind::Answer => 1,
            Kind::Limit => 2,
        };
        let mut writer = Writer::new();
        writer.u8(kind).u8(if self.trace { TRACE } else { 0 }).u8(self.hops).u8(0);
        writer.u32(self.identifier).u32(self.sequence).u32(self.micros).bytes(self.data);
        writer.finish()
    }

    /// The BTP packet for `port` at the other side.
    pub fn to_port(&self, port: u16) -> Vec<u8> {
        Btp { destination: port, second: Second::Source(PORT), payload: &self.emit() }.emit()
    }

    /// The echo message that a packet carries, and the port it was sent from; `None` if it carries something else.
    pub fn of(packet: &Packet<'a>) -> Option<Result<(Echo<'a>, u16), Malformed>> {
        match Btp::parse(packet.upper, packet.payload)? {
            Ok(Btp { destination: PORT, second: Second::Source(port), payload }) => {
                Some(Echo::parse(payload).map(|echo| (echo, port)))
            }
            _ => None,
        }
    }

    /// Whether a packet asks the station at which it ends for an answer.
    pub fn is_trace(packet: &Packet<'_>) -> bool {
        let asks = |echo: Echo<'_>| echo.kind == Kind::Question && echo.trace;
        packet.upper == Upper::BtpA && matches!(Echo::of(packet), Some(Ok((echo, _))) if asks(echo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (code, kind) in [(0, Kind::Question), (1, Kind::Answer), (2, Kind::Limit)] {
            let echo = Echo { kind, trace: code == 0, hops: 3, identifier: 7, sequence: 9, micros: 11, data: b"data" };
            let bytes = echo.emit();
            assert_eq!((bytes[0], bytes.len()), (code, HEADER_LENGTH + 4));
            assert_eq!(Echo::parse(&bytes), Ok(echo));
        }
        assert!(Echo::parse(&[3; HEADER_LENGTH]).is_err() && Echo::parse(&[0; HEADER_LENGTH - 1]).is_err());
    }
}
