//! ESP in transport mode with manual keys for Binding Updates and Acknowledgements (RFC 4303; RFC 3776 §4.1, RFC 4877 §4).
//! Implemented here and not by the kernel, so that it works on kernels without XFRM or Mobile IPv6, and in replays.

use hmac::{Hmac, Mac};
use roam6_wire::{Malformed, Why};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::Sha256;
use std::fmt;

/// Offset of the payload: after SPI and sequence number.
pub const PAYLOAD_OFFSET: usize = 8;
/// Pad length and next header.
const TRAILER_LENGTH: usize = 2;

/// [`Malformed::what`] of a packet with another SPI.
pub const SPI_FIELD: &str = "ESP SPI";

/// One direction of a pair of manually keyed security associations.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityAssociation {
    /// Security Parameters Index, 256 or more (RFC 4303 §2.1).
    pub spi: u32,
    /// Integrity algorithm; the payload is not encrypted (RFC 2410), which RFC 3776 §4.1 allows for these messages.
    pub integrity: Integrity,
    /// Its key.
    #[serde(with = "crate::base::hex")]
    pub key: Vec<u8>,
}

/// Integrity algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Integrity {
    /// HMAC-SHA1-96 (RFC 2404), 20 octets of key: what RFC 3776 peers have.
    #[serde(rename = "hmac-sha1-96")]
    HmacSha1,
    /// HMAC-SHA-256-128 (RFC 4868), 32 octets of key.
    #[serde(rename = "hmac-sha256-128")]
    HmacSha256,
}

impl Integrity {
    /// Octets of the integrity check value.
    pub fn icv_length(self) -> usize {
        match self {
            Integrity::HmacSha1 => 12,
            Integrity::HmacSha256 => 16,
        }
    }

    /// Octets of key that the algorithm requires.
    pub fn key_length(self) -> usize {
        match self {
            Integrity::HmacSha1 => 20,
            Integrity::HmacSha256 => 32,
        }
    }
}

impl fmt::Debug for SecurityAssociation {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecurityAssociation {{ spi: {}, integrity: {:?} }}", self.spi, self.integrity)
    }
}

/// A verified and decapsulated ESP packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EspPayload<'a> {
    /// Next Header: the protocol of the payload.
    pub protocol: u8,
    /// Sequence Number of the sender; manual keys give no protection by it (RFC 4303 §3.3.3).
    pub sequence: u32,
    /// The protected payload.
    pub payload: &'a [u8],
}

impl SecurityAssociation {
    /// Encapsulates `payload` of `protocol`: ESP header, payload, padding to 4 octets, trailer, integrity check value.
    pub fn seal(&self, sequence: u32, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let padding = (4 - (payload.len() + TRAILER_LENGTH) % 4) % 4;
        let mut packet = Vec::with_capacity(PAYLOAD_OFFSET + payload.len() + padding + TRAILER_LENGTH + 16);
        packet.extend_from_slice(&self.spi.to_be_bytes());
        packet.extend_from_slice(&sequence.to_be_bytes());
        packet.extend_from_slice(payload);
        packet.extend((1u8..).take(padding));
        packet.push(u8::try_from(padding).unwrap_or(0));
        packet.push(protocol);
        let check = self.icv(&packet);
        packet.extend_from_slice(&check);
        packet
    }

    /// Verifies and decapsulates an ESP packet, from its SPI on.
    ///
    /// # Errors
    /// [`Malformed`] when it is too short, of another SPI, fails verification ([`Why::Checksum`]) or its padding is wrong.
    pub fn open<'a>(&self, packet: &'a [u8]) -> Result<EspPayload<'a>, Malformed> {
        let needs = PAYLOAD_OFFSET + TRAILER_LENGTH + self.integrity.icv_length();
        let short = Malformed { what: "ESP", at: 0, why: Why::Short { has: packet.len(), needs } };
        let end = packet.len().checked_sub(self.integrity.icv_length()).ok_or(short)?;
        let (covered, check) = packet.split_at_checked(end).ok_or(short)?;
        let (spi, rest) = covered.split_first_chunk::<4>().ok_or(short)?;
        let (sequence, rest) = rest.split_first_chunk::<4>().ok_or(short)?;
        let (rest, trailer) = rest.split_last_chunk::<2>().ok_or(short)?;
        if u32::from_be_bytes(*spi) != self.spi {
            return Err(Malformed { what: SPI_FIELD, at: 0, why: Why::Value(u32::from_be_bytes(*spi).into()) });
        }
        if !self.verify_icv(covered, check) {
            return Err(Malformed { what: "ESP integrity check value", at: end, why: Why::Checksum });
        }
        let [padding, protocol] = *trailer;
        let bad = Malformed { what: "ESP padding", at: end, why: Why::Value(padding.into()) };
        let keep = rest.len().checked_sub(usize::from(padding)).ok_or(bad)?;
        let (payload, filler) = rest.split_at_checked(keep).ok_or(bad)?;
        if !filler.iter().copied().eq((1u8..).take(filler.len())) {
            return Err(bad);
        }
        Ok(EspPayload { protocol, sequence: u32::from_be_bytes(*sequence), payload })
    }

    fn icv(&self, covered: &[u8]) -> Vec<u8> {
        let mut check = match self.integrity {
            Integrity::HmacSha1 => compute_mac::<Hmac<Sha1>>(&self.key, covered),
            Integrity::HmacSha256 => compute_mac::<Hmac<Sha256>>(&self.key, covered),
        };
        check.truncate(self.integrity.icv_length());
        check
    }

    /// Compares in constant time, so that timing reveals nothing to a forger.
    fn verify_icv(&self, covered: &[u8], check: &[u8]) -> bool {
        match self.integrity {
            Integrity::HmacSha1 => verify::<Hmac<Sha1>>(&self.key, covered, check),
            Integrity::HmacSha256 => verify::<Hmac<Sha256>>(&self.key, covered, check),
        }
    }
}

fn compute_mac<M: Mac + hmac::digest::KeyInit>(key: &[u8], covered: &[u8]) -> Vec<u8> {
    match <M as Mac>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(covered).finalize().into_bytes().to_vec(),
        Err(_) => Vec::new(), // HMAC takes a key of any length
    }
}

fn verify<M: Mac + hmac::digest::KeyInit>(key: &[u8], covered: &[u8], check: &[u8]) -> bool {
    <M as Mac>::new_from_slice(key).is_ok_and(|mac| mac.chain_update(covered).verify_truncated_left(check).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn association(integrity: Integrity) -> SecurityAssociation {
        let key = (0..).take(integrity.key_length()).collect();
        SecurityAssociation { spi: 0x1001, integrity, key }
    }

    #[test]
    fn esp_round_trips_and_is_padded_to_4_octets() {
        for integrity in [Integrity::HmacSha1, Integrity::HmacSha256] {
            for length in 0..64usize {
                let payload: Vec<u8> = (0..255).take(length).collect();
                let packet = association(integrity).seal(7, 135, &payload);
                assert_eq!((packet.len() - integrity.icv_length()) % 4, 0);
                let opened = association(integrity).open(&packet).unwrap();
                assert_eq!(opened, EspPayload { protocol: 135, sequence: 7, payload: &payload });
            }
        }
    }

    #[test]
    fn the_icv_covers_every_octet() {
        let association = association(Integrity::HmacSha256);
        let packet = association.seal(1, 135, b"binding update");
        for at in 0..packet.len() {
            let mut forged = packet.clone();
            forged[at] ^= 0x40;
            assert!(association.open(&forged).is_err(), "octet {at}");
        }
        for length in 0..packet.len() {
            assert!(association.open(&packet[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn the_icv_depends_on_the_key() {
        let mut other = association(Integrity::HmacSha1);
        other.key[0] ^= 1;
        let packet = association(Integrity::HmacSha1).seal(1, 135, b"x");
        assert_eq!(other.open(&packet).unwrap_err().why, Why::Checksum);
    }
}
