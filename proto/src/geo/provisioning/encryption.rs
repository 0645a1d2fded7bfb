//! Encryption of messages: AES-128 in CCM (IEEE 1609.2 §5.3.8), its key encrypted by ECIES (§5.3.5, IEEE 1363a: KDF2 and MAC1 with
//! SHA-256, without DHAES).

use super::{ProvisioningError, p256_key, public_key};
use aes::Aes128;
use ccm::aead::Aead;
use ccm::aead::generic_array::GenericArray;
use ccm::consts::{U12, U16};
use ccm::{Ccm, KeyInit};
use core::fmt;
use hmac::{Hmac, Mac};
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::security::{Certificate, Curve, EncryptedData, HashedId8, Recipient, WrappedKey};
use sha2::{Digest, Sha256};

type AesCcm = Ccm<Aes128, U16, U12>;

/// Octets of a symmetric key.
const KEY: usize = 16;
/// Octets of the tag of an encrypted key.
const TAG: usize = 16;

/// What is random in an encrypted message; each is used for one message only.
pub struct Secrets {
    ephemeral: SecretKey,
    key: SymmetricKey,
    nonce: [u8; 12],
}

impl Secrets {
    /// Of random octets: the ephemeral key of ECIES, the symmetric key, and its nonce.
    pub fn new(ephemeral: SecretKey, key: [u8; KEY], nonce: [u8; 12]) -> Secrets {
        Secrets { ephemeral, key: SymmetricKey(key), nonce }
    }

    pub(super) fn key(&self) -> SymmetricKey {
        self.key
    }
}

/// A key of AES-128.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SymmetricKey(pub(super) [u8; KEY]);

impl fmt::Debug for SymmetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SymmetricKey")
    }
}

impl SymmetricKey {
    fn encrypt(self, nonce: &[u8; 12], plaintext: &[u8]) -> Vec<u8> {
        let cipher = AesCcm::new(GenericArray::from_slice(&self.0));
        // It fails for 16 MiB and more; messages are far smaller.
        cipher.encrypt(GenericArray::from_slice(nonce), plaintext).unwrap_or_default()
    }

    fn decrypt(self, data: &EncryptedData<'_>) -> Result<Vec<u8>, ProvisioningError> {
        let cipher = AesCcm::new(GenericArray::from_slice(&self.0));
        let decrypted = cipher.decrypt(GenericArray::from_slice(&data.nonce), data.ciphertext);
        decrypted.map_err(|_| ProvisioningError::Undecryptable)
    }
}

/// Encrypts for the holder of a certificate.
pub(super) fn encrypt_for(
    recipient: &Certificate<'_>,
    secrets: &Secrets,
    plaintext: &[u8],
) -> Result<Vec<u8>, ProvisioningError> {
    let key = recipient.encryption_key.as_ref().and_then(p256_key).ok_or(ProvisioningError::NoEncryptionKey)?;
    let (wrapped, tag) = wrap(&secrets.ephemeral, &key, secrets.key, &parameter(recipient));
    let point = secrets.ephemeral.public_key().to_encoded_point(true);
    let point = public_key(point.as_bytes()).ok_or(ProvisioningError::NoEncryptionKey)?.point;
    let wrapped = WrappedKey { curve: Curve::NistP256, point, key: wrapped, tag };
    let recipient = Recipient::Certificate(recipient.digest(), wrapped);
    Ok(emit(recipient, secrets.key, &secrets.nonce, plaintext))
}

/// Encrypts with a symmetric key that the recipient holds already.
pub(super) fn encrypt_with(key: SymmetricKey, nonce: &[u8; 12], plaintext: &[u8]) -> Vec<u8> {
    emit(Recipient::PresharedKey(HashedId8::of_symmetric_key(&key.0)), key, nonce, plaintext)
}

fn emit(recipient: Recipient<'_>, key: SymmetricKey, nonce: &[u8; 12], plaintext: &[u8]) -> Vec<u8> {
    let ciphertext = key.encrypt(nonce, plaintext);
    EncryptedData { recipients: vec![recipient], nonce: *nonce, ciphertext: &ciphertext }.emit()
}

/// Decrypts as the holder of a certificate; the plaintext, and the key with which the answer is encrypted.
pub(super) fn decrypt_as(
    certificate: &Certificate<'_>,
    decryption: &SecretKey,
    octets: &[u8],
) -> Result<(Vec<u8>, SymmetricKey), ProvisioningError> {
    let data = EncryptedData::parse(octets)?;
    let own = data.recipients.iter().find_map(|recipient| match recipient {
        Recipient::Certificate(digest, wrapped) if *digest == certificate.digest() => Some(wrapped),
        Recipient::Certificate(..) | Recipient::SignedData(..) | Recipient::PresharedKey(_) => None,
    });
    let wrapped = own.ok_or(ProvisioningError::NotTheRecipient)?;
    let key = unwrap(decryption, wrapped, &parameter(certificate)).ok_or(ProvisioningError::Undecryptable)?;
    Ok((key.decrypt(&data)?, key))
}

/// Decrypts with a symmetric key that both sides know.
pub(super) fn decrypt_with(key: SymmetricKey, octets: &[u8]) -> Result<Vec<u8>, ProvisioningError> {
    let data = EncryptedData::parse(octets)?;
    let digest = HashedId8::of_symmetric_key(&key.0);
    if !data.recipients.contains(&Recipient::PresharedKey(digest)) {
        return Err(ProvisioningError::NotTheRecipient);
    }
    key.decrypt(&data)
}

/// P1: the hash of the recipient's certificate.
fn parameter(recipient: &Certificate<'_>) -> [u8; 32] {
    Sha256::digest(recipient.canonical()).into()
}

/// The encrypted key and its tag.
pub(super) fn wrap(
    ephemeral: &SecretKey,
    recipient: &p256::PublicKey,
    key: SymmetricKey,
    parameter: &[u8; 32],
) -> ([u8; KEY], [u8; TAG]) {
    let derived = Derived::of(ephemeral, recipient, parameter);
    let wrapped = derived.mask(key.0);
    let mut tag = [0; TAG];
    if let Some(mac) = derived.mac(&wrapped) {
        tag.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
    }
    (wrapped, tag)
}

fn unwrap(decryption: &SecretKey, wrapped: &WrappedKey<'_>, parameter: &[u8; 32]) -> Option<SymmetricKey> {
    if wrapped.curve != Curve::NistP256 {
        return None;
    }
    let ephemeral = p256::PublicKey::from_sec1_bytes(&wrapped.point.sec1()?).ok()?;
    let derived = Derived::of(decryption, &ephemeral, parameter);
    derived.mac(&wrapped.key)?.verify_truncated_left(&wrapped.tag).ok()?;
    Some(SymmetricKey(derived.mask(wrapped.key)))
}

/// The two keys of ECIES: one to encrypt, one for the tag.
struct Derived {
    encryption: [u8; KEY],
    authentication: [u8; 32],
}

impl Derived {
    /// KDF2 of the shared secret: blocks of SHA-256 over the secret, their number and P1.
    fn of(own: &SecretKey, other: &p256::PublicKey, parameter: &[u8; 32]) -> Derived {
        let shared = p256::ecdh::diffie_hellman(own.to_nonzero_scalar(), other.as_affine());
        let block = |number: u32| {
            Sha256::new()
                .chain_update(shared.raw_secret_bytes())
                .chain_update(number.to_be_bytes())
                .chain_update(parameter)
                .finalize()
        };
        let mut octets = block(1).into_iter().chain(block(2));
        let mut next = || octets.next().unwrap_or_default();
        Derived { encryption: core::array::from_fn(|_| next()), authentication: core::array::from_fn(|_| next()) }
    }

    fn mask(&self, mut key: [u8; KEY]) -> [u8; KEY] {
        key.iter_mut().zip(self.encryption).for_each(|(octet, mask)| *octet ^= mask);
        key
    }

    /// MAC1 over the encrypted key; HMAC takes keys of any length.
    fn mac(&self, wrapped: &[u8; KEY]) -> Option<Hmac<Sha256>> {
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.authentication).ok()?;
        Some(mac.chain_update(wrapped))
    }
}
