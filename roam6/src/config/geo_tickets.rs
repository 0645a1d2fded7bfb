//! The authorisation tickets of a station with their private keys (`tickets` in `[geo.security]`): files in COER and PKCS#8,
//! as `roam6 geo cert make` writes them.

use super::spanned::Spanned;
use crate::certificate::{read as read_certificate, verify};
use crate::config::source::Diagnostics;
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::DecodePrivateKey;
use roam6_linux::signature::SigningKeys;
use roam6_proto::contract::config::geo::CertificateOctets;
use roam6_wire::security::{Certificate, CertificateId, Curve, HashedId8, IssuerIdentifier};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tickets at most: stations in Europe have 100 at a time.
const MAX_TICKETS: usize = 100;
const HINT: &str =
    "name a certificate FILE.cert with its private key in FILE.key (PKCS#8 PEM, NIST P-256), or a directory of both";

/// The private key of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TicketKey {
    certificate: HashedId8,
    key: SecretKey,
}

/// The keys as the host has them.
pub(crate) fn signing_keys(tickets: &[TicketKey]) -> SigningKeys {
    let mut keys = SigningKeys::default();
    for TicketKey { certificate, key } in tickets {
        let public = key.public_key().to_encoded_point(false);
        // A pair of one key: it is accepted.
        let _ = keys.insert(certificate.0, &key.to_bytes(), public.as_bytes());
    }
    keys
}

/// Reads the tickets and keys at a path. `known` are the certificates of the authorities.
pub(crate) fn read(
    written: &Spanned<PathBuf>,
    known: &BTreeMap<HashedId8, Certificate<'_>>,
    diagnostics: &mut Diagnostics<'_>,
) -> (Vec<CertificateOctets>, Vec<TicketKey>) {
    let path = diagnostics.source.resolve(written);
    let files = match files(&path) {
        Ok(files) => files,
        Err(why) => {
            diagnostics.report(written.span(), why, HINT);
            return Default::default();
        }
    };
    let (mut tickets, mut keys) = (Vec::new(), Vec::new());
    for file in files {
        match read_one(&file, known) {
            Ok((octets, key)) => {
                tickets.push(CertificateOctets(octets));
                keys.push(key);
            }
            Err((why, hint)) => diagnostics.report(written.span(), why, hint),
        }
    }
    (tickets, keys)
}

/// The certificates at a path, sorted by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let what = |why: &str| format!("{}: {why}", path.display());
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| what(&error.to_string()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cert"));
    files.sort();
    match files.len() {
        0 => Err(what("no file *.cert")),
        1..=MAX_TICKETS => Ok(files),
        _ => Err(what(&format!("more than {MAX_TICKETS} certificates"))),
    }
}

fn read_one(
    path: &Path,
    known: &BTreeMap<HashedId8, Certificate<'_>>,
) -> Result<(Vec<u8>, TicketKey), (String, &'static str)> {
    let what = |why: &str| format!("{}: {why}", path.display());
    let octets = read_certificate(path).map_err(|why| (why, HINT))?;
    let certificate = Certificate::parse(&octets).map_err(|error| (what(&error.to_string()), HINT))?;
    let IssuerIdentifier::Digest(_, issuer) = certificate.issuer else {
        return Err((what("the certificate is one of a root authority"), HINT));
    };
    if certificate.id != CertificateId::None || certificate.verification_key.curve != Curve::NistP256 {
        return Err((what("the certificate is no authorisation ticket for a key of NIST P-256"), HINT));
    }
    let Some(issuer) = known.get(&issuer) else {
        let hint = "add the certificate of its authority to issuers: other stations may ask for it";
        return Err((what("the issuer of the certificate is not in issuers"), hint));
    };
    if !verify(&certificate.message(Some(issuer)), &issuer.verification_key, &certificate.signature) {
        return Err((what("the signature of the certificate is invalid"), "get it again from its authority"));
    }
    let key_file = path.with_extension("key");
    let wrong = |why: &str| (format!("{}: {why}", key_file.display()), HINT);
    let pem = std::fs::read_to_string(&key_file).map_err(|error| wrong(&error.to_string()))?;
    let key = SecretKey::from_pkcs8_pem(&pem).map_err(|error| wrong(&error.to_string()))?;
    let point = certificate.verification_key.point.sec1().unwrap_or_default();
    if p256::PublicKey::from_sec1_bytes(&point).ok() != Some(key.public_key()) {
        return Err(wrong("not the private key of the certificate"));
    }
    let key = TicketKey { certificate: certificate.digest(), key };
    Ok((octets, key))
}
