//! UDP over IPv6, with its mandatory checksum: RFC 768, RFC 8200 §8.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Source Port          |       Destination Port        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Length             |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc768>.

use crate::checksum::checksum;
use crate::ip6::protocol;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Octets of the header.
pub const HEADER_LENGTH: usize = 8;

const LENGTH_AT: usize = 4;
pub(crate) const CHECKSUM_AT: usize = 6;

/// A UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Parses a datagram between these addresses. Octets beyond its length field are ignored.
    ///
    /// # Errors
    /// [`Malformed`] for a wrong length, and a wrong or missing checksum.
    pub fn parse(bytes: &'a [u8], source: Ipv6Addr, destination: Ipv6Addr) -> Result<Udp<'a>, Malformed> {
        let mut header = Header::read(&mut Reader::new("UDP header", bytes))?;
        if header.checksum == 0 || checksum(source, destination, protocol::UDP, header.datagram) != 0 {
            return Err(Malformed { what: "UDP header", at: CHECKSUM_AT, why: Why::Checksum });
        }
        let (source, destination) = header.ports;
        Ok(Udp { source, destination, payload: header.payload.rest() })
    }

    /// Emits the datagram with its checksum; a payload beyond the length field is truncated.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let sum = |datagram: &[u8]| checksum(source, destination, protocol::UDP, datagram);
        emit((self.source, self.destination), self.payload, sum)
    }
}

/// The fields of a UDP header, with its payload.
pub(crate) struct Header<'a> {
    pub(crate) ports: (u16, u16),
    pub(crate) checksum: u16,
    /// What the checksum covers, apart from the pseudo-header.
    pub(crate) datagram: &'a [u8],
    pub(crate) payload: Reader<'a>,
}

impl<'a> Header<'a> {
    /// Parses the header; the payload ends where the length field says.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Header<'a>, Malformed> {
        let (at, whole) = (reader.position(), reader.clone().rest());
        let ports = (reader.u16()?, reader.u16()?);
        let length = usize::from(reader.u16()?);
        let checksum = reader.u16()?;
        let Some(room) = length.checked_sub(HEADER_LENGTH) else {
            let why = Why::Length { has: length, needs: HEADER_LENGTH };
            return Err(Malformed { what: "UDP length", at: at + LENGTH_AT, why });
        };
        let payload = reader.part("UDP payload", room)?;
        Ok(Header { ports, checksum, datagram: whole.get(..length).unwrap_or(whole), payload })
    }
}

/// A datagram with the checksum that `checksum` computes; a payload beyond the length field is truncated.
pub(crate) fn emit((source, destination): (u16, u16), payload: &[u8], checksum: impl Fn(&[u8]) -> u16) -> Vec<u8> {
    let payload = payload.get(..usize::from(u16::MAX) - HEADER_LENGTH).unwrap_or(payload);
    let length = u16::try_from(payload.len() + HEADER_LENGTH).unwrap_or(u16::MAX);
    let mut writer = Writer::new();
    writer.u16(source).u16(destination).u16(length).u16(0).bytes(payload);
    // A checksum of 0 would mean none (RFC 768).
    writer.finish_with_checksum(CHECKSUM_AT, |datagram| match checksum(datagram) {
        0 => u16::MAX,
        sum => sum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> (Ipv6Addr, Ipv6Addr) {
        ("fe80::1".parse().unwrap(), "ff02::1:2".parse().unwrap())
    }

    #[test]
    fn udp_round_trips_and_its_checksum_covers_every_octet() {
        let (source, destination) = addresses();
        let udp = Udp { source: 546, destination: 547, payload: b"abc" };
        let bytes = udp.emit(source, destination);
        assert_eq!(Udp::parse(&bytes, source, destination), Ok(udp));
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 4;
            assert!(Udp::parse(&wrong, source, destination).is_err(), "octet {at}");
        }
    }

    #[test]
    fn zero_udp_checksum_is_sent_as_ffff_and_refused_on_receipt() {
        let (source, destination) = addresses();
        let found = (0..=u16::MAX).map(|word| word.to_be_bytes()).find_map(|payload| {
            let bytes = Udp { source: 546, destination: 547, payload: &payload }.emit(source, destination);
            (bytes[6..8] == [0xff, 0xff]).then_some(bytes)
        });
        let mut bytes = found.unwrap();
        assert!(Udp::parse(&bytes, source, destination).is_ok());
        bytes[6..8].fill(0);
        assert!(Udp::parse(&bytes, source, destination).is_err());
    }
}
