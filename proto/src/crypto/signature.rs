//! CGA signatures (RFC 5533 §5.15.5: RSASSA-PKCS1-v1_5 over SHA-1).
//!
//! RFC 3972 defines RSA keys only. A P-256 key signs with ECDSA over SHA-256, for peers that support it too.

use crate::base::rng::Entropy;
use p256::ecdsa::signature::{Signer, Verifier};
use p256::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _};
use rsa::pkcs1v15;
use rsa::signature::{RandomizedSigner, SignatureEncoding};
use rsa::{RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use std::fmt;

/// A private key.
pub enum PrivateKey {
    /// RSA, 4096 bits at most.
    Rsa(Box<pkcs1v15::SigningKey<Sha1>>),
    /// NIST P-256.
    P256(Box<p256::ecdsa::SigningKey>),
}

impl PrivateKey {
    /// Parses PKCS #8 DER; `None` for other key types.
    pub fn parse(der: &[u8]) -> Option<PrivateKey> {
        if let Ok(key) = RsaPrivateKey::from_pkcs8_der(der) {
            return Some(PrivateKey::Rsa(Box::new(pkcs1v15::SigningKey::new(key))));
        }
        p256::ecdsa::SigningKey::from_pkcs8_der(der).ok().map(|key| PrivateKey::P256(Box::new(key)))
    }

    /// DER of its SubjectPublicKeyInfo, as in CGA parameters.
    pub fn public(&self) -> Option<Vec<u8>> {
        let document = match self {
            PrivateKey::Rsa(key) => {
                let key: &RsaPrivateKey = (**key).as_ref();
                key.to_public_key().to_public_key_der().ok()?
            }
            PrivateKey::P256(key) => p256::PublicKey::from(key.verifying_key()).to_public_key_der().ok()?,
        };
        Some(document.as_bytes().to_vec())
    }

    /// Signs `message`. RSA is blinded by `entropy` against timing attacks; `None` if the key is invalid.
    pub fn sign(&self, message: &[u8], entropy: &mut Entropy) -> Option<Vec<u8>> {
        match self {
            PrivateKey::Rsa(key) => {
                key.try_sign_with_rng(entropy.rng(), message).ok().map(|signature| signature.to_vec())
            }
            PrivateKey::P256(key) => {
                let signature: p256::ecdsa::Signature = key.try_sign(message).ok()?;
                Some(signature.to_bytes().to_vec())
            }
        }
    }
}

/// Verifies `signature` over `message` by `key`, DER of a SubjectPublicKeyInfo.
pub fn verify(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    if let Ok(key) = RsaPublicKey::from_public_key_der(key) {
        let key = pkcs1v15::VerifyingKey::<Sha1>::new(key);
        return pkcs1v15::Signature::try_from(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok());
    }
    let Ok(key) = p256::ecdsa::VerifyingKey::from_public_key_der(key) else { return false };
    p256::ecdsa::Signature::from_slice(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok())
}

/// Omits the key from logs.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrivateKey::Rsa(_) => "RSA key",
            PrivateKey::P256(_) => "P-256 key",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::hex;

    /// PKCS #8 of an RSA key of 1024 bits, made for these tests.
    pub(crate) fn rsa_key() -> Vec<u8> {
        hex::decode(&include_str!("rsa1024.hex").split_whitespace().collect::<String>()).unwrap()
    }

    /// PKCS #8 of a P-256 key, made for these tests.
    pub(crate) fn p256_key() -> Vec<u8> {
        const KEY: &str = concat!(
            "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420b526c4a330ce95e49f971c14",
            "23973c65920e9822ef46d2f078fe9a11b5f2cd74a14403420004bb47716c9365b412f82831838e151cd8f585c4a623d5",
            "0220efb23a5f000525469bd7953a461d137ec39f46d4640d5511284f21fe7793173020ba278f687bc96c",
        );
        hex::decode(KEY).unwrap()
    }

    #[test]
    fn a_signature_verifies_with_its_own_key_only() {
        let mut entropy = Entropy::seed_from_u64(1);
        let keys = [rsa_key(), p256_key()].map(|der| PrivateKey::parse(&der).unwrap());
        for (index, key) in keys.iter().enumerate() {
            let signature = key.sign(b"roam6", &mut entropy).unwrap();
            let public = key.public().unwrap();
            assert!(verify(&public, b"roam6", &signature), "{key:?}");
            assert!(!verify(&public, b"roam7", &signature));
            assert!(!verify(&public, b"roam6", &signature[1..]));
            assert!(!verify(&keys[1 - index].public().unwrap(), b"roam6", &signature));
        }
        assert!(PrivateKey::parse(b"nonsense").is_none());
        assert!(!verify(b"nonsense", b"roam6", &[0; 64]));
    }

    /// Made by OpenSSL with the same key.
    #[test]
    fn rsa_signature_matches_openssl() {
        const SIGNATURE: &str = concat!(
            "782593fbe4cbcefece47e194ac6e3089b8fdbb41b87e3fe0021b1f1ff477a70294f385dd09722949cf5e1159b482c315",
            "7a1213fbf35e2b6d8839838a5dbeaba6373f323c2aed95dbb7042cbe6127225eee85ea254088233306df9f6209d32b48",
            "a4a15ddd0f8c2ad1c5eb1ac63271f2875c172c09067d757864155ceaab966723",
        );
        let key = PrivateKey::parse(&rsa_key()).unwrap();
        let signature = hex::decode(SIGNATURE).unwrap();
        assert!(verify(&key.public().unwrap(), b"roam6", &signature));
        assert_eq!(key.sign(b"roam6", &mut Entropy::seed_from_u64(2)), Some(signature));
    }
}
