//! The Internet checksum, over the pseudo-header of IPv6 or IPv4: RFC 1071, RFC 8200 §8.1, RFC 768.
//!
//! See <https://www.rfc-editor.org/rfc/rfc1071>.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The checksum of `message`, whose own checksum field holds zero.
///
/// Over a message with its checksum the result is 0 if, and only if, the checksum is right.
pub fn checksum(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, message: &[u8]) -> u16 {
    with_pseudo_header(&[source.octets(), destination.octets()], protocol, message)
}

/// The same over the pseudo-header of IPv4 (RFC 768).
pub fn checksum4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, message: &[u8]) -> u16 {
    with_pseudo_header(&[source.octets(), destination.octets()], protocol, message)
}

/// Both pseudo-headers have the same fields, and their order does not affect the sum.
fn with_pseudo_header<const LENGTH: usize>(ends: &[[u8; LENGTH]; 2], protocol: u8, message: &[u8]) -> u16 {
    let sum = sum_words(ends.as_flattened())
        .wrapping_add(message.len() as u64)
        .wrapping_add(u64::from(protocol))
        .wrapping_add(sum_words(message));
    !fold(sum)
}

/// The same without a pseudo-header: of an IPv4 header (RFC 791 §3.1), or a Shim6 message (RFC 5533 §5.3).
pub fn internet_checksum(header: &[u8]) -> u16 {
    !fold(sum_words(header))
}

fn sum_words(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let last = odd.first().map_or(0, |&octet| u64::from(octet) << 8);
    pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum::<u64>() + last
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_over_itself_is_zero() {
        let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        for length in [0usize, 1, 7, 8, 1500] {
            let mut message = vec![0xa5; length + 2];
            message[0] = 0;
            message[1] = 0;
            let sum = checksum(source, destination, 58, &message);
            message[..2].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(checksum(source, destination, 58, &message), 0);
        }
    }
}
