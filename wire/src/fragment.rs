//! Fragmentation of outer packets at the tunnel entry-point: RFC 8200 §4.5, RFC 2473 §7.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |   Reserved    |     Fragment Offset     |Res|M|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Identification                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! See <https://www.rfc-editor.org/rfc/rfc8200#section-4.5>.

use crate::ip6::{HEADER_LENGTH, MINIMUM_MTU, protocol};
use alloc::vec::Vec;

/// Octets of the fragment header.
pub const FRAGMENT_HEADER_LENGTH: usize = 8;

const NEXT_HEADER_AT: usize = 6;
const MORE_FRAGMENTS: u16 = 1;

/// Further outer headers that a fragment has room for (the default limit of RFC 2473 §4.1.1), so that it is not
/// fragmented again where the tunnel runs through other tunnels.
const MAX_NESTED_HEADERS: usize = 4;

/// Splits `packet` into fragments that fit the minimum MTU with four further outer headers.
///
/// Everything after the IPv6 header is fragmented, so `packet` must have no per-fragment headers (hop-by-hop options,
/// routing). Empty if `packet` is no IPv6 packet.
pub fn fragment(packet: &[u8], identification: u32) -> Vec<Vec<u8>> {
    // Fragment offsets are in units of eight octets.
    const ROOM: usize = (MINIMUM_MTU as usize - (1 + MAX_NESTED_HEADERS) * HEADER_LENGTH - FRAGMENT_HEADER_LENGTH) & !7;
    let Some((header, body)) = packet.split_first_chunk::<HEADER_LENGTH>() else { return Vec::new() };
    if header[0] >> 4 != 6 || body.len() > usize::from(u16::MAX) {
        return Vec::new();
    }
    let count = body.chunks(ROOM).len();
    let piece = |(at, piece): (usize, &[u8])| {
        let more = if at + 1 < count { MORE_FRAGMENTS } else { 0 };
        emit(header, (at * ROOM) as u16 | more, identification, piece)
    };
    body.chunks(ROOM).enumerate().map(piece).collect()
}

fn emit(header: &[u8; HEADER_LENGTH], offset_and_more: u16, identification: u32, piece: &[u8]) -> Vec<u8> {
    let mut fragment = Vec::with_capacity(HEADER_LENGTH + FRAGMENT_HEADER_LENGTH + piece.len());
    let length = (FRAGMENT_HEADER_LENGTH + piece.len()) as u16;
    fragment.extend(&header[..4]);
    fragment.extend(length.to_be_bytes());
    fragment.push(protocol::FRAGMENT);
    fragment.extend(&header[NEXT_HEADER_AT + 1..]);
    fragment.extend([header[NEXT_HEADER_AT], 0]);
    fragment.extend(offset_and_more.to_be_bytes());
    fragment.extend(identification.to_be_bytes());
    fragment.extend(piece);
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip6::{Header, emit as whole};

    fn packet(octets: usize) -> Vec<u8> {
        let (from, to) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let payload: Vec<u8> = (0..octets - HEADER_LENGTH).map(|at| at as u8).collect();
        whole(&Header { traffic_class: 0xb8, flow_label: 0x12345, ..Header::new(from, to) }, protocol::IPV6, &payload)
    }

    #[test]
    fn fragment_headers_follow_rfc8200() {
        let whole = packet(1320);
        let [first, last] = fragment(&whole, 0x0102_0304).try_into().unwrap();
        assert_eq!((first.len(), last.len()), (1120, 256));
        assert_eq!(first[..8], [0x6b, 0x81, 0x23, 0x45, 0x04, 0x38, 44, 64]);
        assert_eq!(first[40..48], [41, 0, 0, 1, 1, 2, 3, 4], "more to come");
        assert_eq!(last[..8], [0x6b, 0x81, 0x23, 0x45, 0, 216, 44, 64]);
        assert_eq!(last[40..48], [41, 0, 0x04, 0x30, 1, 2, 3, 4], "the last, from octet 1072 on");
        assert_eq!([&first[8..40], &last[8..40]], [&whole[8..40]; 2]);
    }

    #[test]
    fn fragments_reassemble_to_the_packet() {
        for octets in [40, 41, 1279, 1280, 1281, 2512, 2513, 65575] {
            let whole = packet(octets);
            let pieces = fragment(&whole, 7);
            assert!(
                pieces.iter().all(|piece| piece.len() <= MINIMUM_MTU as usize - MAX_NESTED_HEADERS * HEADER_LENGTH)
            );
            let body: Vec<u8> = pieces.iter().flat_map(|piece| piece[48..].to_vec()).collect();
            assert_eq!(body, whole[40..], "{octets} octets");
        }
    }

    #[test]
    fn what_is_no_ipv6_packet_has_no_fragments() {
        assert!(fragment(&[0x60; 39], 1).is_empty());
        assert!(fragment(&[0x45; 60], 1).is_empty());
    }
}
