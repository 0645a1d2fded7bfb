//! Echo request and reply of the GeoNetworking layer, to one station or to all in an area. Not standardised: modelled
//! on ICMPv6 (RFC 4443 §4), over BTP-A on a port that TS 103 248 does not assign.
//!
//! ```text
//!  0                   1                   2                   3
//! |     kind      |T|  reserved   |     hops      |   reserved    |
//! |                          identifier                           |
//! |                           sequence                            |
//! |                         microseconds                          |
//! |                            data ...
//! ```

use super::btp::{Btp, SourceOrInfo};
use super::packet::{Packet, UpperProtocol};
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Source and destination port.
pub const PORT: u16 = 50_006;
/// Octets of the header.
pub const HEADER_LENGTH: usize = 16;

const TRACE: u8 = 0x80;

/// An echo message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Request or reply.
    pub kind: EchoType,
    /// T: the station where the request's hop limit ends replies too.
    pub trace: bool,
    /// In a reply: hops that the request has made. In a request: 0.
    pub hops: u8,
    /// Identifier of the requester.
    pub identifier: u32,
    /// Sequence number of the request.
    pub sequence: u32,
    /// Microseconds. In a request: time over which replies are spread. In a reply: its delay.
    pub micros: u32,
    /// Data, returned unchanged.
    pub data: &'a [u8],
}

field_values! {
    /// Kinds of echo messages.
    EchoType {
        /// Echo request.
        Request = 0,
        /// Reply of a destination.
        Reply = 1,
        /// Reply of the station where the hop limit ended.
        Limit = 2,
    }
}

impl<'a> Echo<'a> {
    /// Parses the payload of a BTP packet for [`PORT`].
    pub fn parse(bytes: &'a [u8]) -> Result<Echo<'a>, Malformed> {
        let mut reader = Reader::new("echo", bytes);
        let value = reader.u8()?;
        let unknown = Malformed { what: "echo kind", at: 0, why: Why::Value(value.into()) };
        let kind = EchoType::from_value(value).ok_or(unknown)?;
        let trace = reader.u8()? & TRACE != 0;
        let hops = reader.u8()?;
        reader.skip(1)?;
        let (identifier, sequence, micros) = (reader.u32()?, reader.u32()?, reader.u32()?);
        Ok(Echo { kind, trace, hops, identifier, sequence, micros, data: reader.rest() })
    }

    /// Emits the message, without BTP header.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(self.kind.value()).u8(if self.trace { TRACE } else { 0 }).u8(self.hops).u8(0);
        writer.u32(self.identifier).u32(self.sequence).u32(self.micros).bytes(self.data);
        writer.finish()
    }

    /// Emits the BTP packet to `port`.
    pub fn to_port(&self, port: u16) -> Vec<u8> {
        Btp { destination: port, source_or_info: SourceOrInfo::Source(PORT), payload: &self.emit() }.emit()
    }

    /// The echo message in a packet, and its source port; `None` if the packet has other contents.
    pub fn of(packet: &Packet<'a>) -> Option<Result<(Echo<'a>, u16), Malformed>> {
        match Btp::parse(packet.upper_protocol, packet.payload)? {
            Ok(Btp { destination: PORT, source_or_info: SourceOrInfo::Source(port), payload }) => {
                Some(Echo::parse(payload).map(|echo| (echo, port)))
            }
            _ => None,
        }
    }

    /// Whether a packet is a request with the T flag.
    pub fn is_trace(packet: &Packet<'_>) -> bool {
        let is_trace = |echo: Echo<'_>| echo.kind == EchoType::Request && echo.trace;
        packet.upper_protocol == UpperProtocol::BtpA
            && matches!(Echo::of(packet), Some(Ok((echo, _))) if is_trace(echo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geo_echo_round_trips() {
        for (code, kind) in [(0, EchoType::Request), (1, EchoType::Reply), (2, EchoType::Limit)] {
            let echo = Echo { kind, trace: code == 0, hops: 3, identifier: 7, sequence: 9, micros: 11, data: b"data" };
            let bytes = echo.emit();
            assert_eq!((bytes[0], bytes.len()), (code, HEADER_LENGTH + 4));
            assert_eq!(Echo::parse(&bytes), Ok(echo));
        }
        assert!(Echo::parse(&[3; HEADER_LENGTH]).is_err() && Echo::parse(&[0; HEADER_LENGTH - 1]).is_err());
    }
}
