//! Cryptographically generated addresses: an interface identifier that is a hash of a public key (RFC 3972).
//! Extensions follow RFC 4581; the Sec values 0 to 2 mean SHA-1 (RFC 4982 §4). Hash-based addresses are in `hba`.

use roam6_wire::{Malformed, Prefix, Why};
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::net::Ipv6Addr;

/// Offset of the public key: after modifier, subnet prefix and collision count (RFC 3972 §3).
const PUBLIC_KEY_OFFSET: usize = 25;
/// Bits of the identifier taken from Hash1: all but Sec (0 to 2), u and g (6 and 7).
const HASH1_MASK: u64 = 0x1cff_ffff_ffff_ffff;
/// A third collision is an attack or a fault (RFC 3972 §4).
const MAX_COLLISION_COUNT: u8 = 2;
/// Longest parameters accepted: a 16384-bit key and a few dozen extension octets.
pub const MAX_PARAMETERS_LENGTH: usize = 4096;

/// How many times 16 bits of work protect an address (RFC 3972 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sec(u8);

impl Sec {
    /// `level` 0, 1 or 2; others are not defined (RFC 4982 §4).
    pub fn new(level: u8) -> Option<Sec> {
        (level <= 2).then_some(Sec(level))
    }

    /// The Sec field of an address.
    pub fn of(address: Ipv6Addr) -> Option<Sec> {
        let [.., identifier, _, _, _, _, _, _, _] = address.octets();
        Sec::new(identifier >> 5)
    }

    /// 0, 1 or 2.
    pub fn level(self) -> u8 {
        self.0
    }

    /// Expected number of modifiers to try.
    pub fn expected_tries(self) -> u64 {
        1 << (16 * u32::from(self.0))
    }
}

/// The CGA Parameters data structure (RFC 3972 §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Random start value, then the result of the search for Hash2.
    #[serde(with = "crate::base::hex")]
    modifier: Vec<u8>,
    /// Subnet prefix: the upper 64 bits of the address.
    prefix: u64,
    /// 0, 1 or 2.
    #[serde(rename = "collisions")]
    collision_count: u8,
    /// DER of the SubjectPublicKeyInfo, followed by the extension fields.
    #[serde(with = "crate::base::hex")]
    key_and_extensions: Vec<u8>,
}

/// The verification step that failed (RFC 3972 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgaError {
    /// Collision count above 2.
    Collisions,
    /// The subnet prefix differs from that of the address.
    Prefix,
    /// Hash1 differs from the interface identifier.
    Identifier,
    /// Hash2 has fewer leading zero bits than Sec requires.
    Work,
    /// An undefined Sec value.
    Sec,
}

impl Parameters {
    /// Parameters for `key_and_extensions` in a /64; `None` if `prefix` is not one.
    pub fn new(modifier: [u8; 16], prefix: Prefix, key_and_extensions: Vec<u8>) -> Option<Parameters> {
        let prefix = (prefix.length() == 64).then(|| subnet_prefix(prefix.address()))?;
        Some(Parameters { modifier: modifier.to_vec(), prefix, collision_count: 0, key_and_extensions })
    }

    /// Parses the structure.
    ///
    /// # Errors
    /// [`Malformed`] when it is shorter than its fixed part and a DER header, or longer than [`LONGEST_PARAMETERS`].
    pub fn parse(bytes: &[u8]) -> Result<Parameters, Malformed> {
        if bytes.len() > MAX_PARAMETERS_LENGTH {
            return Err(Malformed { what: "CGA parameters", at: 0, why: Why::TooMany(MAX_PARAMETERS_LENGTH) });
        }
        let short = Malformed {
            what: "CGA parameters",
            at: 0,
            why: Why::Short { has: bytes.len(), needs: PUBLIC_KEY_OFFSET + 2 },
        };
        let (modifier, rest) = bytes.split_first_chunk::<16>().ok_or(short)?;
        let (prefix, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
        let (collisions, key) = rest.split_first().ok_or(short)?;
        der_length(key).ok_or(Malformed { what: "CGA public key", at: PUBLIC_KEY_OFFSET, why: Why::Misplaced })?;
        Ok(Parameters {
            modifier: modifier.to_vec(),
            prefix: u64::from_be_bytes(*prefix),
            collision_count: *collisions,
            key_and_extensions: key.to_vec(),
        })
    }

    /// Emits the structure.
    pub fn emit(&self) -> Vec<u8> {
        self.encode_with(self.prefix, self.collision_count)
    }

    /// DER of the public key.
    pub fn key(&self) -> &[u8] {
        let end = der_length(&self.key_and_extensions).unwrap_or(0);
        self.key_and_extensions.get(..end).unwrap_or_default()
    }

    /// The extension fields after the key (RFC 4581), not parsed.
    pub fn extensions(&self) -> &[u8] {
        let end = der_length(&self.key_and_extensions).unwrap_or(0);
        self.key_and_extensions.get(end..).unwrap_or_default()
    }

    /// The same parameters for another /64; the modifier is valid for every prefix. `None` if `prefix` is not a /64.
    pub fn in_prefix(&self, prefix: Prefix) -> Option<Parameters> {
        let prefix = (prefix.length() == 64).then(|| subnet_prefix(prefix.address()))?;
        Some(Parameters { prefix, ..self.clone() })
    }

    /// The same parameters after one more collision; `None` after the third (RFC 3972 §4).
    pub fn after_collision(&self) -> Option<Parameters> {
        (self.collision_count < MAX_COLLISION_COUNT)
            .then(|| Parameters { collision_count: self.collision_count + 1, ..self.clone() })
    }

    /// The address of these parameters with `sec`.
    pub fn address(&self, sec: Sec) -> Ipv6Addr {
        let identifier = self.hash1() & HASH1_MASK | u64::from(sec.level()) << 61;
        Ipv6Addr::from_bits(u128::from(self.prefix) << 64 | u128::from(identifier))
    }

    /// Tries at most `most` modifiers upwards from the current one; `true` once Hash2 suffices for `sec`.
    ///
    /// Call again to continue: the modifier follows the last one tried.
    pub fn search(&mut self, sec: Sec, most: u64) -> bool {
        let mut input = self.encode_with(0, 0);
        for _ in 0..most {
            if hash2_suffices(&Sha1::digest(&input), sec) {
                return true;
            }
            increment(&mut self.modifier);
            if let Some(head) = input.get_mut(..16) {
                head.copy_from_slice(&self.modifier);
            }
        }
        false
    }

    /// Verifies that `address` is a CGA of these parameters, and returns its Sec value (RFC 3972 §5).
    ///
    /// # Errors
    /// The first verification step that fails.
    pub fn verify(&self, address: Ipv6Addr) -> Result<Sec, CgaError> {
        if self.collision_count > MAX_COLLISION_COUNT {
            return Err(CgaError::Collisions);
        }
        if self.prefix != subnet_prefix(address) {
            return Err(CgaError::Prefix);
        }
        let sec = Sec::of(address).ok_or(CgaError::Sec)?;
        let identifier = address.to_bits() as u64;
        if (self.hash1() ^ identifier) & HASH1_MASK != 0 {
            return Err(CgaError::Identifier);
        }
        hash2_suffices(&Sha1::digest(self.encode_with(0, 0)), sec).then_some(sec).ok_or(CgaError::Work)
    }

    /// Hash1: the first 64 bits of SHA-1 over the parameters.
    fn hash1(&self) -> u64 {
        let digest = Sha1::digest(self.emit());
        digest.first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head))
    }

    fn encode_with(&self, prefix: u64, collisions: u8) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PUBLIC_KEY_OFFSET + self.key_and_extensions.len());
        bytes.extend_from_slice(&self.modifier);
        bytes.extend_from_slice(&prefix.to_be_bytes());
        bytes.push(collisions);
        bytes.extend_from_slice(&self.key_and_extensions);
        bytes
    }
}

/// Whether the leftmost 16 × Sec bits of Hash2 are zero.
fn hash2_suffices(digest: &[u8], sec: Sec) -> bool {
    digest.iter().take(2 * usize::from(sec.level())).all(|octet| *octet == 0)
}

/// Adds one to a big-endian number, modulo its width.
fn increment(number: &mut [u8]) {
    for octet in number.iter_mut().rev() {
        *octet = octet.wrapping_add(1);
        if *octet != 0 {
            return;
        }
    }
}

fn subnet_prefix(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

/// Octets of the DER SEQUENCE at the start of `bytes`, header included; `None` if there is none that fits.
fn der_length(bytes: &[u8]) -> Option<usize> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (header, content) = match first {
        0..=0x7f => (2, usize::from(first)),
        0x81 => (3, usize::from(*rest.first()?)),
        0x82 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk::<2>()?))),
        _ => return None,
    };
    let total = header + content;
    (tag == 0x30 && total <= bytes.len()).then_some(total)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::hex;

    /// The key of RFC 3972 appendix A.
    pub(crate) fn example_key() -> Vec<u8> {
        hex::decode(concat!(
            "305c300d06092a864886f70d0101010500034b003048024100c2c2f137305454f10bd9cea3684",
            "4b530e9211a4b262b16467cb7dfba1f595c0194f275be5a4d386f2c3c2382508773c7867f9b3b",
            "9e63a09c7bc48f7a54ebefaf0203010001"
        ))
        .unwrap()
    }

    /// The modifier of RFC 3972 appendix A, `steps` before the one that is found.
    pub(crate) fn example_modifier(steps: u8) -> [u8; 16] {
        let mut modifier: [u8; 16] = hex::decode("89a8a8b2e858d8b8f2633f44d2d4ce9b").unwrap().try_into().unwrap();
        modifier[15] -= steps;
        modifier
    }

    #[test]
    fn the_example_of_rfc3972_appendix_a() {
        let prefix = "fe80::/64".parse().unwrap();
        let sec = Sec::new(1).unwrap();
        let mut parameters = Parameters::new(example_modifier(1), prefix, example_key()).unwrap();
        assert!(parameters.search(sec, 2));
        assert_eq!(parameters.modifier, example_modifier(0));
        let address: Ipv6Addr = "fe80::3c4a:5bf6:ffb4:ca6c".parse().unwrap();
        assert_eq!(parameters.address(sec), address);
        assert_eq!(parameters.verify(address), Ok(sec));
    }

    #[test]
    fn every_verification_step_of_rfc3972_section_5_can_fail() {
        let prefix = "2001:db8:a::/64".parse().unwrap();
        let sec = Sec::new(1).unwrap();
        let parameters = Parameters::new(example_modifier(0), prefix, example_key()).unwrap();
        let address = parameters.address(sec);
        let verify = |change: fn(&mut Parameters), address| {
            let mut changed = parameters.clone();
            change(&mut changed);
            changed.verify(address)
        };
        assert_eq!(verify(|p| p.collision_count = 3, address), Err(CgaError::Collisions));
        assert_eq!(verify(|p| p.prefix ^= 1, address), Err(CgaError::Prefix));
        assert_eq!(verify(|p| p.modifier[0] ^= 1, address), Err(CgaError::Identifier));
        let sec2 = Ipv6Addr::from_bits(address.to_bits() & !(7 << 61) | 2 << 61);
        assert_eq!(verify(|_| {}, sec2), Err(CgaError::Work));
        let sec3 = Ipv6Addr::from_bits(address.to_bits() | 7 << 61);
        assert_eq!(verify(|_| {}, sec3), Err(CgaError::Sec));
    }

    #[test]
    fn cga_parameters_round_trip_and_split_key_from_extensions() {
        let mut tail = example_key();
        tail.extend([0xff, 0xfd, 0, 1, 9]);
        let parameters = Parameters::new([7; 16], "2001:db8::/64".parse().unwrap(), tail).unwrap();
        let read = Parameters::parse(&parameters.emit()).unwrap();
        assert_eq!(read, parameters);
        assert_eq!(read.key(), example_key());
        assert_eq!(read.extensions(), [0xff, 0xfd, 0, 1, 9]);
        for length in 0..27 {
            assert!(Parameters::parse(&parameters.emit()[..length]).is_err());
        }
    }

    #[test]
    fn a_third_collision_is_refused() {
        let parameters = Parameters::new([0; 16], "2001:db8::/64".parse().unwrap(), example_key()).unwrap();
        let second = parameters.after_collision().unwrap().after_collision().unwrap();
        assert_eq!(second.after_collision(), None);
    }

    #[test]
    fn the_modifier_increment_carries() {
        let mut number = [0x01, 0xff, 0xff];
        increment(&mut number);
        assert_eq!(number, [0x02, 0, 0]);
    }
}
