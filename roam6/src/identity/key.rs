//! Key pairs for cryptographically generated addresses: RSA and P-256, as PKCS #8.

use clap::ValueEnum;
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use rsa::rand_core::OsRng;
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};

/// Types of keys that can be generated. Shim6 signs with RSA (RFC 5533 §5.15.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    #[value(name = "rsa-1024")]
    Rsa1024,
    #[value(name = "rsa-2048")]
    Rsa2048,
    #[value(name = "rsa-3072")]
    Rsa3072,
    #[value(name = "p256")]
    P256,
}

impl KeyKind {
    /// The name that [`name`] returns.
    pub(crate) fn display_name(self) -> &'static str {
        match self {
            KeyKind::Rsa1024 => "RSA-1024",
            KeyKind::Rsa2048 => "RSA-2048",
            KeyKind::Rsa3072 => "RSA-3072",
            KeyKind::P256 => "P-256",
        }
    }
}

/// Generates a private key (PKCS #8, DER).
pub(crate) fn generate(kind: KeyKind) -> Result<Vec<u8>, String> {
    let bits = match kind {
        KeyKind::Rsa1024 => 1024,
        KeyKind::Rsa2048 => 2048,
        KeyKind::Rsa3072 => 3072,
        KeyKind::P256 => {
            return der(&p256::SecretKey::random(&mut OsRng));
        }
    };
    der(&RsaPrivateKey::new(&mut OsRng, bits).map_err(|error| error.to_string())?)
}

/// The public key of a private key (SubjectPublicKeyInfo, DER).
pub(crate) fn public(private: &[u8]) -> Result<Vec<u8>, String> {
    let public = match RsaPrivateKey::from_pkcs8_der(private) {
        Ok(key) => key.to_public_key().to_public_key_der(),
        Err(_) => {
            let key = p256::SecretKey::from_pkcs8_der(private).map_err(|_| "the key is neither RSA nor P-256")?;
            key.public_key().to_public_key_der()
        }
    };
    public.map(|document| document.into_vec()).map_err(|error| error.to_string())
}

/// Parses a private key in PEM.
pub(crate) fn from_pem(text: &str) -> Result<Vec<u8>, String> {
    match RsaPrivateKey::from_pkcs8_pem(text) {
        Ok(key) => der(&key),
        Err(_) => match p256::SecretKey::from_pkcs8_pem(text) {
            Ok(key) => der(&key),
            Err(_) => Err("not an RSA or P-256 private key in PKCS #8 PEM".to_owned()),
        },
    }
}

/// Encodes a private key in PEM.
pub(crate) fn pem(private: &[u8]) -> Result<String, String> {
    let pem = match RsaPrivateKey::from_pkcs8_der(private) {
        Ok(key) => key.to_pkcs8_pem(LineEnding::LF),
        Err(_) => {
            let key = p256::SecretKey::from_pkcs8_der(private).map_err(|error| error.to_string())?;
            key.to_pkcs8_pem(LineEnding::LF)
        }
    };
    pem.map(|text| text.to_string()).map_err(|error| error.to_string())
}

/// Type and size of a public key, in words.
pub(crate) fn name(public: &[u8]) -> String {
    match RsaPublicKey::from_public_key_der(public) {
        // The length of the random number in place of a key (RFC 5535 §6.1).
        Ok(key) if key.n().bits() == 384 => "none".to_owned(),
        Ok(key) => format!("RSA-{}", key.n().bits()),
        Err(_) if p256::PublicKey::from_public_key_der(public).is_ok() => "P-256".to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

fn der(key: &impl EncodePrivateKey) -> Result<Vec<u8>, String> {
    key.to_pkcs8_der().map(|document| document.as_bytes().to_vec()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_round_trip_through_pem() {
        for (kind, called) in [(KeyKind::P256, "P-256"), (KeyKind::Rsa1024, "RSA-1024")] {
            let private = generate(kind).unwrap();
            assert_eq!(from_pem(&pem(&private).unwrap()).unwrap(), private);
            assert_eq!(name(&public(&private).unwrap()), called);
        }
        assert!(from_pem("not a key").is_err());
        assert_eq!(name(&[0x30, 0]), "unknown");
    }
}
