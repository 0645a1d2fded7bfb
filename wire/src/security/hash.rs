//! Hashes: IEEE 1609.2 §5.3.1 (input of signatures), §6.3.26 (HashedId8), §6.3.27 (HashedId3).

use super::certificate::Certificate;
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use core::fmt;
use sha2::{Digest, Sha256, Sha384};

field_values! {
    /// HashAlgorithm (§6.3.5).
    HashAlgorithm {
        /// SHA-256.
        Sha256 = 0,
        /// SHA-384.
        Sha384 = 1,
    }
}

impl HashAlgorithm {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<HashAlgorithm, Malformed> {
        let at = reader.position();
        let value = reader.u8()?;
        HashAlgorithm::from_value(value).ok_or(Malformed { what: "hash algorithm", at, why: Why::Value(value.into()) })
    }

    /// Octets of a hash.
    pub fn length(self) -> usize {
        match self {
            HashAlgorithm::Sha256 => 32,
            HashAlgorithm::Sha384 => 48,
        }
    }

    /// Hashes `octets` into the beginning of `into`.
    fn hash(self, octets: &[u8], into: &mut [u8]) {
        let copy = |from: &[u8], into: &mut [u8]| into.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        match self {
            HashAlgorithm::Sha256 => copy(&Sha256::digest(octets), into),
            HashAlgorithm::Sha384 => copy(&Sha384::digest(octets), into),
        }
    }
}

/// The last eight octets of the hash of a certificate: its name in signatures and in other certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashedId8(pub [u8; 8]);

impl HashedId8 {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<HashedId8, Malformed> {
        reader.array().map(HashedId8)
    }

    pub(super) fn of(algorithm: HashAlgorithm, octets: &[u8]) -> HashedId8 {
        let mut hash = [0; 48];
        algorithm.hash(octets, &mut hash);
        let last = hash.get(algorithm.length() - 8..algorithm.length()).unwrap_or_default();
        HashedId8(last.try_into().unwrap_or_default())
    }

    /// The name of a symmetric key of AES-128 (§6.3.26: the hash of SymmetricEncryptionKey).
    pub fn of_symmetric_key(key: &[u8; 16]) -> HashedId8 {
        let mut octets = [super::coer::FIRST; 17];
        octets.iter_mut().skip(1).zip(key).for_each(|(to, from)| *to = *from);
        HashedId8::of(HashAlgorithm::Sha256, &octets)
    }

    /// The last three octets.
    pub fn short(self) -> HashedId3 {
        let [.., a, b, c] = self.0;
        HashedId3([a, b, c])
    }
}

/// The last three octets of the hash of a certificate, by which it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashedId3(pub [u8; 3]);

impl fmt::Display for HashedId8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Display for HashedId3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// What is signed: the hash of the data, and the hash of the certificate of the signer. ECDSA hashes it once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    algorithm: HashAlgorithm,
    octets: [u8; 96],
}

impl Message {
    /// `signer`: the canonical certificate of the signer; empty if the data are signed by themselves.
    pub(super) fn new(algorithm: HashAlgorithm, data: &[u8], signer: &[u8]) -> Message {
        let mut octets = [0; 96];
        let (first, second) = octets.split_at_mut(algorithm.length());
        algorithm.hash(data, first);
        algorithm.hash(signer, second);
        Message { algorithm, octets }
    }

    /// What a station signs with SHA-256: `to_be_signed` of a packet, with its own certificate.
    pub fn of_data(to_be_signed: &[u8], signer: &Certificate<'_>) -> Message {
        Message::new(HashAlgorithm::Sha256, to_be_signed, &signer.canonical())
    }

    /// The same with the canonical form of the certificate, which is hashed once for each packet, but made once only.
    pub fn with_canonical(to_be_signed: &[u8], canonical: &[u8]) -> Message {
        Message::new(HashAlgorithm::Sha256, to_be_signed, canonical)
    }

    /// The hash algorithm of all three hashes.
    pub fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    /// The octets that ECDSA hashes and signs: 64 or 96.
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..2 * self.algorithm.length()).unwrap_or_default()
    }
}
