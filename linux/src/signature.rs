//! Signatures, made and verified for the engines: ECDSA by ring, and that of Brainpool curves, which ring does not have, by the
//! crates of RustCrypto. The work of one verification with NIST P-256 is about 40 us, that of a signature 15 us, and the engine limits how many it asks for, so it is done where the request is executed; the engine has
//! each answer with the next inputs.

use bp256::BrainpoolP256r1;
use bp384::BrainpoolP384r1;
use ecdsa::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use ecdsa::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize};
use ecdsa::signature::Verifier;
use ecdsa::{DigestAlgorithm, EcdsaCurve, Signature, VerifyingKey};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, EcdsaKeyPair, UnparsedPublicKey,
};
use roam6_proto::contract::signature::{
    SignatureAlgorithm, SigningRequest, SigningResult, VerificationRequest, VerificationResult,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Private keys of NIST P-256, by the digests of their certificates (HashedId8).
#[derive(Debug, Clone, Default)]
pub struct SigningKeys {
    keys: BTreeMap<[u8; 8], Arc<EcdsaKeyPair>>,
    /// Those before the last replacement.
    former: BTreeMap<[u8; 8], Arc<EcdsaKeyPair>>,
}

impl SigningKeys {
    /// Adds the key of a certificate: the private key, and the public one as an uncompressed point.
    ///
    /// # Errors
    /// The two are no pair.
    pub fn insert(&mut self, certificate: [u8; 8], private: &[u8], public: &[u8]) -> Result<(), String> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, public, &SystemRandom::new());
        self.keys.insert(certificate, Arc::new(pair.map_err(|error| error.to_string())?));
        Ok(())
    }

    /// Replaces the keys. The former ones sign until the next replacement: a station changes its certificate with its
    /// pseudonym, which may be locked.
    pub fn replace(&mut self, new: SigningKeys) {
        self.former = std::mem::replace(&mut self.keys, new.keys);
    }

    fn key(&self, certificate: &[u8; 8]) -> Option<&EcdsaKeyPair> {
        self.keys.get(certificate).or_else(|| self.former.get(certificate)).map(Arc::as_ref)
    }

    /// Signs a message. The nonce depends on the key, the message and random octets (ring hashes all three), so that a bad
    /// source of randomness does not disclose the key.
    pub fn sign(&self, request: &SigningRequest) -> SigningResult {
        let SigningRequest { id, certificate, message } = request;
        let key = <[u8; 8]>::try_from(certificate.as_slice()).ok().and_then(|digest| self.key(&digest));
        let signature = key.and_then(|key| key.sign(&SystemRandom::new(), message).ok());
        SigningResult { id: *id, signature: signature.map(|octets| octets.as_ref().to_vec()).unwrap_or_default() }
    }
}

/// Verifies a signature.
pub fn verify(request: &VerificationRequest) -> VerificationResult {
    let by_ring = |algorithm| {
        UnparsedPublicKey::new(algorithm, &request.key).verify(&request.message, &request.signature).is_ok()
    };
    let valid = match request.algorithm {
        SignatureAlgorithm::EcdsaP256Sha256 => by_ring(&ECDSA_P256_SHA256_FIXED),
        SignatureAlgorithm::EcdsaP384Sha384 => by_ring(&ECDSA_P384_SHA384_FIXED),
        SignatureAlgorithm::EcdsaBrainpoolP256r1Sha256 => verify_brainpool::<BrainpoolP256r1>(request),
        SignatureAlgorithm::EcdsaBrainpoolP384r1Sha384 => verify_brainpool::<BrainpoolP384r1>(request),
    };
    VerificationResult { id: request.id, valid }
}

/// By the crates of RustCrypto.
fn verify_brainpool<C>(request: &VerificationRequest) -> bool
where
    C: EcdsaCurve + CurveArithmetic + DigestAlgorithm,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let key = VerifyingKey::<C>::from_sec1_bytes(&request.key);
    let signature = Signature::<C>::from_slice(&request.signature);
    key.is_ok_and(|key| signature.is_ok_and(|signature| key.verify(&request.message, &signature).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::elliptic_curve::sec1::ToEncodedPoint;
    use roam6_wire::security::{Certificate, Curve, SignedData};

    /// Packets that OpenSSL has signed.
    const VECTORS: &str = include_str!("../../wire/tests/wire/vectors/security.tsv");

    fn octets(hex: &str) -> Vec<u8> {
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.as_bytes().chunks(2).map(octet).collect()
    }

    /// The signature of a packet as a request; `None` for packets signed by themselves.
    fn request(line: &str) -> Option<VerificationRequest> {
        let ["good", "data", _, hex, fields] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let signer = octets(fields.split(';').find_map(|field| field.strip_prefix("signer="))?);
        let (packet, signer) = (octets(hex), Certificate::parse(&signer).unwrap());
        let signed = SignedData::read(&packet).unwrap();
        let point = signer.verification_key.point.sec1().unwrap();
        let (algorithm, key) = match signer.verification_key.curve {
            Curve::NistP256 => {
                let key = p256::PublicKey::from_sec1_bytes(&point).unwrap().to_encoded_point(false);
                (SignatureAlgorithm::EcdsaP256Sha256, key.as_bytes().to_vec())
            }
            Curve::NistP384 => {
                let key = p384::PublicKey::from_sec1_bytes(&point).unwrap().to_encoded_point(false);
                (SignatureAlgorithm::EcdsaP384Sha384, key.as_bytes().to_vec())
            }
            Curve::BrainpoolP256r1 => (SignatureAlgorithm::EcdsaBrainpoolP256r1Sha256, point),
            Curve::BrainpoolP384r1 => (SignatureAlgorithm::EcdsaBrainpoolP384r1Sha384, point),
        };
        Some(VerificationRequest {
            id: 7,
            algorithm,
            key,
            message: signed.message(Some(&signer)).octets().to_vec(),
            signature: [signed.signature.r.x, signed.signature.s].concat(),
        })
    }

    #[test]
    fn a_signature_is_valid_for_its_message_and_key_only() {
        let (secret, other) = ([7; 32], [8; 32]);
        let public = |secret: &[u8]| {
            let key = p256::SecretKey::from_slice(secret).unwrap().public_key();
            key.to_encoded_point(false).as_bytes().to_vec()
        };
        let mut keys = SigningKeys::default();
        keys.insert([1; 8], &secret, &public(&secret)).unwrap();
        assert!(keys.insert([2; 8], &secret, &public(&other)).is_err());
        let sign = |certificate: u8, message: &[u8]| {
            keys.sign(&SigningRequest { id: 3, certificate: vec![certificate; 8], message: message.to_vec() }).signature
        };
        let is_valid = |secret: &[u8], message: &[u8], signature: Vec<u8>| {
            let (key, message) = (public(secret), message.to_vec());
            verify(&VerificationRequest {
                id: 3,
                algorithm: SignatureAlgorithm::EcdsaP256Sha256,
                key,
                message,
                signature,
            })
            .valid
        };
        assert!(is_valid(&secret, b"one", sign(1, b"one")));
        assert!(!is_valid(&secret, b"two", sign(1, b"one")));
        assert!(!is_valid(&other, b"one", sign(1, b"one")));
        assert_eq!(sign(2, b"one"), Vec::<u8>::new(), "no key of that certificate");
        assert_ne!(sign(1, b"one"), sign(1, b"one"), "the nonces differ");
        let set_of = |certificate: u8| {
            let mut set = SigningKeys::default();
            set.insert([certificate; 8], &other, &public(&other)).unwrap();
            set
        };
        for (certificate, signing) in [(4, [true, true, false]), (5, [false, true, true])] {
            keys.replace(set_of(certificate));
            let signs = |of: u8| {
                let message = vec![0; 9];
                !keys.sign(&SigningRequest { id: 3, certificate: vec![of; 8], message }).signature.is_empty()
            };
            assert_eq!([1, 4, 5].map(signs), signing, "after the replacement by {certificate}");
        }
    }

    #[test]
    fn signatures_of_openssl_are_valid_until_an_octet_changes() {
        let requests: Vec<VerificationRequest> = VECTORS.lines().filter_map(request).collect();
        let of = |algorithm| requests.iter().filter(|request| request.algorithm == algorithm).count();
        assert!(of(SignatureAlgorithm::EcdsaP256Sha256) > 40 && of(SignatureAlgorithm::EcdsaP384Sha384) > 4);
        for brainpool in
            [SignatureAlgorithm::EcdsaBrainpoolP256r1Sha256, SignatureAlgorithm::EcdsaBrainpoolP384r1Sha384]
        {
            assert!(of(brainpool) > 4, "{}", of(brainpool));
        }
        for request in requests {
            assert_eq!(verify(&request), VerificationResult { id: 7, valid: true });
            type Part = fn(&mut VerificationRequest) -> &mut Vec<u8>;
            let parts: [Part; 3] = [|it| &mut it.message, |it| &mut it.signature, |it| &mut it.key];
            for part in parts {
                let mut changed = request.clone();
                *part(&mut changed).last_mut().unwrap() ^= 1;
                assert!(!verify(&changed).valid);
                part(&mut changed).clear();
                assert!(!verify(&changed).valid);
            }
        }
    }
}
