//! The password of the page, and its verification: SCRAM-SHA-256 (RFC 5802, RFC 7677). The password never crosses the network, and
//! the file has only what verifies it, in the form of RFC 5803 §2.

use crate::exit::Failure;
use crate::files;
use base64ct::{Base64, Encoding};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The only user.
pub(crate) const USER: &str = "roam6";
/// Shortest password, characters.
pub(crate) const MIN_LENGTH: usize = 8;
const SCHEME: &str = "SCRAM-SHA-256";
/// Iterations of a new file: as many as JavaScript computes on a phone in half a second.
const ITERATIONS: u32 = 20_000;
/// RFC 7677 §4 has 4096 at least.
const ITERATION_RANGE: core::ops::RangeInclusive<u32> = 4096..=1_000_000;
const SALT_LENGTH: usize = 16;
/// Random octets of a nonce.
const NONCE_LENGTH: usize = 18;
/// Largest message of a client, octets.
pub(super) const MAX_MESSAGE: usize = 1024;

type Key = [u8; 32];

/// What verifies a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    salt: Vec<u8>,
    iterations: u32,
    stored_key: Key,
    server_key: Key,
}

/// An exchange that the server has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    /// Both nonces.
    pub(super) nonce: String,
    /// What both sign, as far as it is known.
    begun: String,
}

impl Verifier {
    /// For a password.
    ///
    /// # Errors
    /// The kernel has no random octets.
    pub(crate) fn of(password: &str) -> Result<Verifier, String> {
        let mut salt = vec![0; SALT_LENGTH];
        files::random(&mut salt)?;
        Ok(Verifier::derive(password, salt, ITERATIONS))
    }

    fn derive(password: &str, salt: Vec<u8>, iterations: u32) -> Verifier {
        let salted = salted_password(password.as_bytes(), &salt, iterations);
        let stored_key = Sha256::digest(hmac(&salted, b"Client Key")).into();
        Verifier { salt, iterations, stored_key, server_key: hmac(&salted, b"Server Key") }
    }

    /// Reads a file, which only its owner may read.
    ///
    /// # Errors
    /// It cannot be read, is readable by others, or is no such file.
    pub(crate) fn read(path: &Path) -> Result<Verifier, Failure> {
        let shown = path.display();
        let meta = fs::metadata(path)
            .map_err(|error| format!("{shown}: {error}; make the file with: roam6 web-password {shown}"))?;
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(Failure::Other(format!("{shown} is open to other users; run: chmod 600 {shown}")));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let verifier = Verifier::parse(text.trim());
        Ok(verifier
            .ok_or_else(|| format!("{shown} is no password file; create it with: roam6 web-password {shown}"))?)
    }

    fn parse(text: &str) -> Option<Verifier> {
        let [scheme, parameters, keys] = parts(text, '$')?;
        let [iterations, salt] = parts(parameters, ':')?;
        let [stored, server] = parts(keys, ':')?;
        let iterations: u32 = iterations.parse().ok()?;
        let key = |text: &str| Key::try_from(Base64::decode_vec(text).ok()?).ok();
        let salt = Base64::decode_vec(salt).ok().filter(|salt| !salt.is_empty())?;
        let is_known = scheme == SCHEME && ITERATION_RANGE.contains(&iterations);
        is_known.then_some(Verifier { salt, iterations, stored_key: key(stored)?, server_key: key(server)? })
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> String {
        let [salt, stored, server] =
            [self.salt.as_slice(), &self.stored_key, &self.server_key].map(Base64::encode_string);
        format!("{SCHEME}${}:{salt}${stored}:{server}\n", self.iterations)
    }

    /// Answers the first message of a client.
    ///
    /// # Errors
    /// Why it is none, or that there are no random octets.
    pub(super) fn begin(&self, message: &str) -> Result<(Exchange, String), String> {
        let mut octets = [0; NONCE_LENGTH];
        files::random(&mut octets)?;
        self.begin_with(message, &Base64::encode_string(&octets)).ok_or_else(|| "not a SCRAM message".to_owned())
    }

    fn begin_with(&self, message: &str, server_nonce: &str) -> Option<(Exchange, String)> {
        // gs2-header of a client without channel binding, RFC 5802 §7.
        let bare = message.strip_prefix("n,,")?;
        let [user, nonce] = parts(bare, ',')?;
        user.strip_prefix("n=").filter(|user| *user == USER)?;
        let nonce =
            nonce.strip_prefix("r=").filter(|nonce| (16..=128).contains(&nonce.len()) && is_printable(nonce))?;
        let nonce = format!("{nonce}{server_nonce}");
        let answer = format!("r={nonce},s={},i={}", Base64::encode_string(&self.salt), self.iterations);
        Some((Exchange { nonce, begun: format!("{bare},{answer}") }, answer))
    }

    /// Verifies the last message of a client; returns the server's proof, or `None` if the password is wrong.
    pub(super) fn finish(&self, exchange: &Exchange, message: &str) -> Option<String> {
        let (unproved, proof) = message.rsplit_once(",p=")?;
        let [binding, nonce] = parts(unproved, ',')?;
        // The gs2-header, in base64.
        if binding != "c=biws" || nonce.strip_prefix("r=") != Some(&exchange.nonce) {
            return None;
        }
        let proof = Key::try_from(Base64::decode_vec(proof).ok()?).ok()?;
        let signed = format!("{},{unproved}", exchange.begun);
        let signature = hmac(&self.stored_key, signed.as_bytes());
        let client_key = exclusive_or(&proof, &signature);
        let differs = exclusive_or(&Sha256::digest(client_key).into(), &self.stored_key);
        // In constant time.
        let is_right = differs.iter().fold(0, |sum, octet| sum | octet) == 0;
        is_right.then(|| format!("v={}", Base64::encode_string(&hmac(&self.server_key, signed.as_bytes()))))
    }
}

/// The nonce of the last message of a client.
pub(super) fn nonce_of(message: &str) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix("r="))
}

/// Exactly `N` parts.
fn parts<const N: usize>(text: &str, separator: char) -> Option<[&str; N]> {
    text.split(separator).collect::<Vec<_>>().try_into().ok()
}

/// Printable characters of ASCII, RFC 5802 §7.
fn is_printable(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_graphic())
}

fn hmac(key: &[u8], text: &[u8]) -> Key {
    // HMAC has keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// `Hi()` of RFC 5802 §2.2: PBKDF2 with one block.
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut last = hmac(password, &[salt, &1_u32.to_be_bytes()].concat());
    let mut sum = last;
    for _ in 1..iterations {
        last = hmac(password, &last);
        sum = exclusive_or(&sum, &last);
    }
    sum
}

fn exclusive_or(one: &Key, other: &Key) -> Key {
    let mut result = *one;
    result.iter_mut().zip(other).for_each(|(octet, other)| *octet ^= other);
    result
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The client's last message.
    pub(in super::super) fn prove(password: &str, first: &str, answer: &str) -> String {
        let [nonce, salt, iterations] = parts(answer, ',').unwrap();
        let salt = Base64::decode_vec(salt.strip_prefix("s=").unwrap()).unwrap();
        let iterations = iterations.strip_prefix("i=").unwrap().parse().unwrap();
        let client_key = hmac(&salted_password(password.as_bytes(), &salt, iterations), b"Client Key");
        let unproved = format!("c=biws,{nonce}");
        let signed = format!("{},{answer},{unproved}", first.strip_prefix("n,,").unwrap());
        let signature = hmac(&Sha256::digest(client_key), signed.as_bytes());
        format!("{unproved},p={}", Base64::encode_string(&exclusive_or(&client_key, &signature)))
    }

    /// The example of RFC 7677 §3, whose user has another name.
    #[test]
    fn example_of_the_standard_is_verified() {
        let salt = Base64::decode_vec("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::derive("pencil", salt, 4096);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let begun = format!("n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let exchange = Exchange { nonce: nonce.to_owned(), begun };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let proof = verifier.finish(&exchange, &last);
        assert_eq!(proof.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(verifier.finish(&exchange, &last.replace("dHzb", "dHzc")), None);
    }

    #[test]
    fn only_the_password_verifies() {
        let verifier = Verifier::derive("correct horse", vec![7; 16], 4096);
        assert_eq!(Verifier::parse(verifier.to_text().trim()), Some(verifier.clone()));
        let first = format!("n,,n={USER},r=0123456789abcdef");
        let (exchange, answer) = verifier.begin_with(&first, "server").unwrap();
        let right = prove("correct horse", &first, &answer);
        assert!(verifier.finish(&exchange, &right).is_some());
        assert_eq!(verifier.finish(&exchange, &prove("correct house", &first, &answer)), None);
        // A recorded proof is not that of another exchange.
        let (other, _) = verifier.begin_with(&first, "other").unwrap();
        assert_eq!(verifier.finish(&other, &right), None);
        assert_eq!(verifier.finish(&other, &right.replace("server", "other")), None);
    }

    #[test]
    fn malformed_messages_and_files_are_refused() {
        let verifier = Verifier::derive("correct horse", vec![7; 16], 4096);
        for first in ["", "n,,", "y,,n=roam6,r=0123456789abcdef", "n,,n=root,r=0123456789abcdef", "n,,n=roam6,r=short"]
        {
            assert_eq!(verifier.begin_with(first, "server"), None, "{first}");
        }
        let (exchange, _) = verifier.begin_with("n,,n=roam6,r=0123456789abcdef", "server").unwrap();
        for last in ["", ",p=", "c=biws,r=0123456789abcdefserver,p=%%", "c=biws,r=0123456789abcdefserver,p=QUFB"] {
            assert_eq!(verifier.finish(&exchange, last), None, "{last}");
        }
        for text in ["", "secret", "SCRAM-SHA-256$1:AAAA$AAAA:AAAA", "SCRAM-SHA-1$4096:AAAA$AAAA:AAAA"] {
            assert_eq!(Verifier::parse(text), None, "{text}");
        }
    }
}
