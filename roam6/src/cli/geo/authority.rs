//! `roam6 geo cert make` and `roam6 geo cert verify`: certificates of a trust list manager, a root authority, an enrolment
//! authority, an authorisation authority and stations for a lab, and whether a station's certificate leads to a trusted root.

use crate::certificate::{its_now, read, verify};
use crate::cli::geo::args::MakeArgs;
use crate::cli::output::print;
use crate::exit::Failure;
use crate::files::{SECRET, create, not_written};
use p256::SecretKey;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding};
use roam6_wire::security::{
    Certificate, CertificateId, Curve, CurvePoint, EndEntities, Issuance, IssuerIdentifier, Psid, PsidSsp, PublicKey,
    Ssp, TimeUnit, UnsignedCertificate, ValidityPeriod,
};
use rsa::rand_core::OsRng;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Certificates are valid since an hour ago: clocks of stations differ.
const BEFORE: u64 = 3600;
/// Years in which the authorities of a lab are valid.
const AUTHORITY_YEARS: u16 = 3;
/// Hours in which tickets are valid: a week, as those of Europe's policy.
pub(super) const TICKET_HOURS: u16 = 168;
/// What stations of a lab may sign: all containers of CAMs, all causes of DENMs.
pub(super) const PERMISSIONS: [PsidSsp<'static>; 5] = [
    PsidSsp { psid: Psid::CAM, ssp: Ssp::Bitmap(&[1, 0xff, 0xfc]) },
    PsidSsp { psid: Psid::DENM, ssp: Ssp::Bitmap(&[1, 0xff, 0xff, 0xff]) },
    PsidSsp { psid: Psid::GN_MANAGEMENT, ssp: Ssp::Absent },
    PsidSsp { psid: Psid::SAM, ssp: Ssp::Absent },
    PsidSsp { psid: Psid::IPV6, ssp: Ssp::Absent },
];
/// What roots sign beside certificates: revocation lists, of version 1, and trust lists, of version 1 with enrolment and
/// authorisation authorities (TS 102 941 annex B).
const ROOT_PERMISSIONS: [PsidSsp<'static>; 2] =
    [PsidSsp { psid: Psid::CRL, ssp: Ssp::Bitmap(&[1]) }, PsidSsp { psid: Psid::CTL, ssp: Ssp::Bitmap(&[1, 0x38]) }];
/// What the trust list manager signs: trust lists with itself and root authorities.
const MANAGER_PERMISSIONS: [PsidSsp<'static>; 1] = [PsidSsp { psid: Psid::CTL, ssp: Ssp::Bitmap(&[1, 0xc8]) }];
/// What authorities sign beside certificates (TS 102 941 annex B): answers to requests, and requests to each other.
const EA_PERMISSIONS: [PsidSsp<'static>; 1] =
    [PsidSsp { psid: Psid::CERTIFICATE_REQUEST, ssp: Ssp::Bitmap(&[1, 0x0e]) }];
const AA_PERMISSIONS: [PsidSsp<'static>; 1] =
    [PsidSsp { psid: Psid::CERTIFICATE_REQUEST, ssp: Ssp::Bitmap(&[1, 0x32]) }];
const OCTETS_OF_COORDINATE: usize = 32;
/// Permissions of files without secrets.
pub(super) const PUBLIC: u32 = 0o644;

/// A certificate with its private key.
struct Issued {
    octets: Vec<u8>,
    key: SecretKey,
    /// The key for messages to the holder.
    encryption: Option<SecretKey>,
}

/// What a certificate has beside its keys.
pub(super) struct Content<'a> {
    pub(super) id: CertificateId<'a>,
    pub(super) validity: ValidityPeriod,
    pub(super) app_permissions: &'a [PsidSsp<'a>],
    pub(super) issue_permissions: Option<Issuance<'a>>,
}

/// Makes the certificates.
///
/// # Errors
/// The directory exists, or cannot be written.
pub(crate) fn make(args: &MakeArgs) -> Result<ExitCode, Failure> {
    let folder = &args.folder;
    let refuse = |path: &Path, error: std::io::Error| Failure::Other(format!("{}: {error}", path.display()));
    std::fs::create_dir(folder).map_err(|error| refuse(folder, error))?;
    let tickets = folder.join("tickets");
    std::fs::create_dir(&tickets).map_err(|error| refuse(&tickets, error))?;
    let authorities = Authorities::issue()?;
    let mut files = vec![];
    for number in 1..=args.count {
        files.push((tickets.join(format!("at-{number:02}")), authorities.ticket()?));
    }
    let Authorities { manager, root, ea, aa } = authorities;
    let named = [("tlm", manager), ("root", root), ("ea", ea), ("aa", aa)];
    files.extend(named.map(|(name, issued)| (folder.join(name), issued)));
    for (path, issued) in &files {
        let certificate = path.with_extension("cert");
        create(&certificate, &issued.octets, PUBLIC).map_err(|error| refuse(&certificate, error))?;
        create_key(&path.with_extension("key"), &issued.key)?;
        if let Some(key) = &issued.encryption {
            create_key(&encryption_key_file(&certificate), key)?;
        }
    }
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
    let text = format!(
        "# {} authorisation tickets, valid for {} hours: one for each station\n[geo.security]\nmode = \"strict\"\ntrust = [{:?}]\n\
         issuers = [{:?}]\ntickets = {:?}\n",
        args.count,
        TICKET_HOURS,
        folder.join("root.cert"),
        folder.join("aa.cert"),
        folder.join("tickets/at-01.cert"),
    );
    Ok(print(&text))
}

/// The authorities of a lab.
struct Authorities {
    manager: Issued,
    root: Issued,
    ea: Issued,
    aa: Issued,
}

impl Authorities {
    fn issue() -> Result<Authorities, Failure> {
        let services = PERMISSIONS.map(|permission| permission.psid);
        let all = [&services[..], &[Psid::CERTIFICATE_REQUEST]].concat();
        let manager = Content {
            id: CertificateId::Name("roam6 lab TLM"),
            validity: since_now(TimeUnit::Years, AUTHORITY_YEARS),
            app_permissions: &MANAGER_PERMISSIONS,
            issue_permissions: None,
        };
        let manager = issue(&manager, None, false)?;
        let content = |name, app_permissions, services, holders, min_chain_length| Content {
            id: CertificateId::Name(name),
            validity: since_now(TimeUnit::Years, AUTHORITY_YEARS),
            app_permissions,
            issue_permissions: Some(Issuance { services, min_chain_length, holders }),
        };
        let root = content("roam6 lab root", &ROOT_PERMISSIONS, &all, EndEntities::Any, 2);
        let root = issue(&root, None, false)?;
        let credentials = [Psid::CERTIFICATE_REQUEST];
        let ea = content("roam6 lab EA", &EA_PERMISSIONS, &credentials, EndEntities::Enrolment, 1);
        let aa = content("roam6 lab AA", &AA_PERMISSIONS, &services, EndEntities::Application, 1);
        let (ea, aa) = (issue(&ea, Some(&root), true)?, issue(&aa, Some(&root), true)?);
        Ok(Authorities { manager, root, ea, aa })
    }

    fn ticket(&self) -> Result<Issued, Failure> {
        let content = Content {
            id: CertificateId::None,
            validity: since_now(TimeUnit::Hours, TICKET_HOURS),
            app_permissions: &PERMISSIONS,
            issue_permissions: None,
        };
        issue(&content, Some(&self.aa), false)
    }
}

/// The validity of a certificate that is issued now.
pub(super) fn since_now(unit: TimeUnit, duration: u16) -> ValidityPeriod {
    ValidityPeriod { start: u32::try_from(its_now().saturating_sub(BEFORE)).unwrap_or(u32::MAX), unit, duration }
}

/// The file of the private key for messages to the holder of a certificate.
pub(super) fn encryption_key_file(certificate: &Path) -> PathBuf {
    let name = certificate.file_stem().unwrap_or_default().to_string_lossy();
    certificate.with_file_name(format!("{name}-encryption.key"))
}

/// Writes a private key to a file that does not exist.
pub(super) fn create_key(path: &Path, key: &SecretKey) -> Result<(), Failure> {
    let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| Failure::Other(error.to_string()))?;
    create(path, pem.as_bytes(), SECRET).map_err(|error| Failure::Other(not_written(path, &error)))
}

/// Reads a private key.
pub(super) fn read_key(path: &Path) -> Result<SecretKey, Failure> {
    let refuse = |why: String| Failure::Other(format!("{}: {why}", path.display()));
    let pem = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    SecretKey::from_pkcs8_pem(&pem).map_err(|error| refuse(format!("no private key of NIST P-256 in PEM: {error}")))
}

/// Issues a certificate for a new key; without issuer that of a root authority.
fn issue(content: &Content<'_>, issuer: Option<&Issued>, with_encryption: bool) -> Result<Issued, Failure> {
    let parsed = issuer.map(|issuer| Certificate::parse(&issuer.octets)).transpose();
    let parsed = parsed.map_err(|error| Failure::Other(error.to_string()))?;
    let key = SecretKey::random(&mut OsRng);
    let encryption = with_encryption.then(|| SecretKey::random(&mut OsRng));
    let (point, encryption_point) = (compressed(&key), encryption.as_ref().map(compressed));
    let encryption_key = encryption_point.as_deref().map(public_key).transpose()?;
    let signer = (parsed.as_ref(), issuer.map_or(&key, |issuer| &issuer.key));
    let octets = certify(content, public_key(&point)?, encryption_key, signer);
    Ok(Issued { octets, key, encryption })
}

fn compressed(key: &SecretKey) -> Vec<u8> {
    key.public_key().to_encoded_point(true).as_bytes().to_vec()
}

fn public_key(point: &[u8]) -> Result<PublicKey<'_>, Failure> {
    let point = CurvePoint::from_sec1(point, OCTETS_OF_COORDINATE);
    let point = point.ok_or_else(|| Failure::Other("encoding a key failed".to_owned()))?;
    Ok(PublicKey { curve: Curve::NistP256, point })
}

/// Issues a certificate for these keys. `issuer` is none for a root authority, which signs itself.
pub(super) fn certify(
    content: &Content<'_>,
    key: PublicKey<'_>,
    encryption_key: Option<PublicKey<'_>>,
    (issuer, signing): (Option<&Certificate<'_>>, &SecretKey),
) -> Vec<u8> {
    let unsigned = UnsignedCertificate {
        issuer: issuer.map(Certificate::digest),
        id: content.id,
        validity: content.validity,
        region: None,
        app_permissions: content.app_permissions,
        issue_permissions: content.issue_permissions,
        encryption_key,
        key,
    };
    let signature: Signature = SigningKey::from(signing).sign(unsigned.message(issuer).octets());
    let (r, s) = signature.split_bytes();
    unsigned.emit((r.into(), s.into()))
}

/// Follows the chain from the certificate in the first file to the trusted root in the last.
///
/// # Errors
/// A file cannot be read, or the certificate does not lead to the root.
pub(super) fn verify_chain(files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let all: Vec<Vec<u8>> = files.iter().map(|path| read(path).map_err(Failure::Other)).collect::<Result<_, _>>()?;
    let ([certificate, issuers @ ..], Some(root)) = (all.as_slice(), all.last()) else {
        return Err(Failure::Usage("name a certificate and a root".to_owned()));
    };
    let mut text = String::new();
    let mut at = certificate;
    for length in 0_usize.. {
        let one = Certificate::parse(at).map_err(|error| Failure::Other(error.to_string()))?;
        let refuse = |why: &str| Failure::Other(format!("the certificate {} {why}", one.digest()));
        if !one.validity.includes(its_now()) {
            return Err(refuse("is not valid now"));
        }
        let is_trusted = at == root;
        let own = matches!(one.issuer, IssuerIdentifier::Own(_));
        let above = issuers.iter().find(|other| is_issuer(other, &one));
        let next = if own { Some(at) } else { above };
        let (true, Some(next)) = (is_trusted || (!own && length < issuers.len()), next) else {
            return Err(refuse("does not lead to the root"));
        };
        let issuer = Certificate::parse(next).map_err(|error| Failure::Other(error.to_string()))?;
        let message = if own { one.message(None) } else { one.message(Some(&issuer)) };
        if !verify(&message, &issuer.verification_key, &one.signature) {
            return Err(refuse("has an invalid signature"));
        }
        let _ = writeln!(text, "{} valid, signed by {}", one.digest(), if own { "itself" } else { "the next" });
        if is_trusted {
            break;
        }
        at = next;
    }
    Ok(print(&text))
}

/// Whether `other` is the certificate that has signed this one, by its digest.
pub(super) fn is_issuer(other: &[u8], certificate: &Certificate<'_>) -> bool {
    let digest = Certificate::parse(other).map(|other| other.digest());
    matches!((certificate.issuer, digest), (IssuerIdentifier::Digest(_, issuer), Ok(digest)) if issuer == digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_ticket_of_the_lab_leads_to_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["lab", "other"] {
            let args = MakeArgs { folder: path(name), count: 2 };
            assert!(make(&args).is_ok());
            assert!(make(&args).is_err(), "nothing is overwritten");
        }
        let chain = |names: &[&str]| verify_chain(&names.iter().map(|name| path(name)).collect::<Vec<_>>()).is_ok();
        const TICKET: &str = "lab/tickets/at-02.cert";
        assert!(chain(&[TICKET, "lab/aa.cert", "lab/root.cert"]));
        assert!(chain(&[TICKET, "other/aa.cert", "lab/aa.cert", "lab/root.cert"]));
        assert!(!chain(&[TICKET, "lab/aa.cert", "other/root.cert"]));
        assert!(!chain(&[TICKET, "other/aa.cert", "lab/root.cert"]));
        assert!(!chain(&[TICKET, "lab/root.cert"]));
        let mut changed = std::fs::read(path(TICKET)).unwrap();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(path("changed.cert"), changed).unwrap();
        assert!(!chain(&["changed.cert", "lab/aa.cert", "lab/root.cert"]));
        let mode = |name| std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("lab/tickets/at-01.key"), 0o600);
        assert_eq!(mode("lab/root.key"), 0o600);
        assert_eq!(mode("lab/ea-encryption.key"), 0o600);
        assert!(chain(&["lab/ea.cert", "lab/root.cert"]));
    }
}
