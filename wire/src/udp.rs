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

pub(crate) const LENGTH_AT: usize = 4;
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
        let mut reader = Reader::new("UDP header", bytes);
        let ports = (reader.u16()?, reader.u16()?);
        let length = usize::from(reader.u16()?);
        let sum = reader.u16()?;
        if length < HEADER_LENGTH {
            let why = Why::Length { has: length, needs: HEADER_LENGTH };
            return Err(Malformed { what: "UDP length", at: LENGTH_AT, why });
        }
        let payload = reader.part("UDP payload", length - HEADER_LENGTH)?.rest();
        let covered = bytes.get(..length).unwrap_or(bytes);
        if sum == 0 || checksum(source, destination, protocol::UDP, covered) != 0 {
            return Err(Malformed { what: "UDP header", at: CHECKSUM_AT, why: Why::Checksum });
        }
        Ok(Udp { source: ports.0, destination: ports.1, payload })
    }

    /// Emits the datagram with its checksum; a payload beyond the length field is truncated.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let room = usize::from(u16::MAX) - HEADER_LENGTH;
        let payload = self.payload.get(..room).unwrap_or(self.payload);
        let length = u16::try_from(payload.len() + HEADER_LENGTH).unwrap_or(u16::MAX);
        let mut writer = Writer::new();
        writer.u16(self.source).u16(self.destination).u16(length).u16(0).bytes(payload);
        let mut bytes = writer.finish();
        // A checksum of 0 would mean none (RFC 768).
        let sum = match checksum(source, destination, protocol::UDP, &bytes) {
            0 => u16::MAX,
            sum => sum,
        };
        for (to, from) in bytes.iter_mut().skip(CHECKSUM_AT).zip(sum.to_be_bytes()) {
            *to = from;
        }
        bytes
    }
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
