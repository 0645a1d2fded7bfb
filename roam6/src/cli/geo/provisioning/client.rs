//! `roam6 geo cert enrol` and `roam6 geo cert authorize`: the station's side.

use super::args::{AuthorizeArgs, CommonArgs, EnrolArgs};
use super::stations::create_folder;
use super::{http, is_valid, its_micros, random, random_key};
use crate::certificate::{its_now, read};
use crate::cli::geo::authority::{PERMISSIONS, PUBLIC, create_key, is_issuer, read_key, since_now};
use crate::cli::geo::cert::utc;
use crate::cli::output::{print, to_json};
use crate::exit::Failure;
use crate::files::{create, not_written};
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_proto::geo::provisioning::{
    AuthorizationParameters, EnrolmentParameters, EnrolmentSigner, ProvisioningError, Request, Secrets,
    authorization_request, enrolment_request,
};
use roam6_wire::security::{AuthorizationCode, Certificate, EnrolmentCode, PsidSsp, TimeUnit};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tickets in a directory, at most: as many as the daemon reads.
const MAX_TICKETS: usize = 100;

/// A certificate that an authority has issued.
#[derive(Debug, Serialize)]
struct Issued {
    digest: String,
    valid_from: String,
    valid_until: String,
    permissions: Vec<String>,
    certificate: PathBuf,
    key: PathBuf,
}

impl Issued {
    fn new(octets: &[u8], file: &Path) -> Result<Issued, Failure> {
        let certificate = parse(octets, file)?;
        Ok(Issued {
            digest: certificate.digest().to_string(),
            valid_from: utc(certificate.validity.start.into()),
            valid_until: utc(certificate.validity.end()),
            permissions: certificate.app_permissions.iter().map(|permission| permission.psid.to_string()).collect(),
            certificate: file.to_owned(),
            key: file.with_extension("key"),
        })
    }

    fn line(&self, what: &str) -> String {
        format!("{what} {} until {}: {}\n", self.digest, self.valid_until, self.certificate.display())
    }
}

fn parse<'a>(octets: &'a [u8], file: &Path) -> Result<Certificate<'a>, Failure> {
    Certificate::parse(octets).map_err(|error| Failure::Other(format!("{}: {error}", file.display())))
}

/// Gets an enrolment credential.
///
/// # Errors
/// What went wrong, with the cure.
pub(in crate::cli::geo) fn enrol(args: &EnrolArgs) -> Result<ExitCode, Failure> {
    let ea = authority(&args.ea_cert, &args.common)?;
    let ea = parse(&ea, &args.ea_cert)?;
    let file = args.folder.join("ec.cert");
    let (new, secrets) = (random_key(), secrets()?);
    let parameters = |signer| EnrolmentParameters { authority: &ea, signer, key: &new, its_micros: its_micros() };
    let request = match (&args.station, &args.key) {
        (Some(station), Some(key)) => {
            if file.exists() {
                let why = "there is a credential; renew it with --renew, or name another directory";
                return Err(Failure::Other(format!("{}: {why}", file.display())));
            }
            let key = read_key(key)?;
            enrolment_request(&parameters(EnrolmentSigner::Station(station.as_bytes(), &key)), &secrets)
        }
        _ => {
            let (octets, key) = credential(&file)?;
            let certificate = parse(&octets, &file)?;
            enrolment_request(&parameters(EnrolmentSigner::Credential(&certificate, &key)), &secrets)
        }
    };
    let octets = exchange(&args.ea, request, &ea)?;
    create_folder(&args.folder)?;
    keep(&file, &octets, &new)?;
    let issued = Issued::new(&octets, &file)?;
    Ok(print(&if args.common.json { to_json(&issued) } else { issued.line("enrolment credential") }))
}

/// Writes a certificate and its key in place of former ones.
fn keep(file: &Path, octets: &[u8], key: &SecretKey) -> Result<(), Failure> {
    let key_file = file.with_extension("key");
    let (new, new_key) = (file.with_extension("cert.new"), file.with_extension("key.new"));
    let refuse = |path: &Path, error: std::io::Error| Failure::Other(not_written(path, &error));
    for former in [&new, &new_key] {
        // A killed run may have left it.
        let _ = std::fs::remove_file(former);
    }
    create_key(&new_key, key)?;
    create(&new, octets, PUBLIC).map_err(|error| refuse(&new, error))?;
    std::fs::rename(&new_key, &key_file).map_err(|error| refuse(&key_file, error))?;
    std::fs::rename(&new, file).map_err(|error| refuse(file, error))
}

/// Gets authorisation tickets.
///
/// # Errors
/// What went wrong, with the cure. Tickets that came before stay.
pub(in crate::cli::geo) fn authorize(args: &AuthorizeArgs) -> Result<ExitCode, Failure> {
    let (ea, aa) = (authority(&args.ea_cert, &args.common)?, authority(&args.aa_cert, &args.common)?);
    let (ea, aa) = (parse(&ea, &args.ea_cert)?, parse(&aa, &args.aa_cert)?);
    let (credential_octets, credential_key) = credential(&args.credential)?;
    let credential = parse(&credential_octets, &args.credential)?;
    create_folder(&args.folder)?;
    let mut next = room(&args.folder, args.remove_expired, args.count.into())?;
    let permissions: Vec<PsidSsp<'_>> = match args.permissions.as_slice() {
        [] => PERMISSIONS.to_vec(),
        asked => asked.iter().map(super::args::Permission::ssp).collect(),
    };
    let mut all = Vec::new();
    for _ in 0..args.count {
        let key = random_key();
        let parameters = AuthorizationParameters {
            authority: &aa,
            enrolment_authority: &ea,
            credential: (&credential, &credential_key),
            key: &key,
            permissions: &permissions,
            validity: args.hours.map(|hours| since_now(TimeUnit::Hours, hours)),
            its_micros: its_micros(),
        };
        let request = authorization_request(&parameters, (&secrets()?, &secrets()?), random()?);
        let octets = exchange(&args.aa, request, &aa)?;
        let file = args.folder.join(format!("at-{next:02}.cert"));
        next = next.saturating_add(1);
        // The key first: a certificate without one would be an error of the daemon's configuration.
        create_key(&file.with_extension("key"), &key)?;
        create(&file, &octets, PUBLIC).map_err(|error| Failure::Other(not_written(&file, &error)))?;
        all.push(Issued::new(&octets, &file)?);
    }
    let lines = || {
        all.iter().fold(String::new(), |mut text, issued| {
            let _ = text.write_str(&issued.line("authorisation ticket"));
            text
        })
    };
    Ok(print(&if args.common.json { to_json(&all) } else { lines() }))
}

/// What is random in a message.
fn secrets() -> Result<Secrets, Failure> {
    Ok(Secrets::new(random_key(), random()?, random()?))
}

/// The number of the next ticket, if there is room for so many.
pub(super) fn room(folder: &Path, remove_expired: bool, count: usize) -> Result<u32, Failure> {
    let refuse = |why: String| Failure::Other(format!("{}: {why}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
    let mut certificates: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // A key without certificate is of a run that was killed.
    let numbers = certificates.iter().filter_map(|path| number(path)).max();
    certificates.retain(|path| path.extension().is_some_and(|extension| extension == "cert"));
    if remove_expired {
        certificates.retain(|path| !is_expired(path) || !remove(path));
    }
    if certificates.len().saturating_add(count) > MAX_TICKETS {
        let cure = "ask for fewer, or remove those that have expired with --remove-expired";
        return Err(refuse(format!("{} tickets in it, and {MAX_TICKETS} is the most; {cure}", certificates.len())));
    }
    Ok(numbers.unwrap_or_default().saturating_add(1))
}

/// NN of at-NN.cert and at-NN.key.
fn number(path: &Path) -> Option<u32> {
    path.file_stem()?.to_str()?.strip_prefix("at-")?.parse().ok()
}

fn is_expired(path: &Path) -> bool {
    let ticket = read(path).ok();
    let ticket = ticket.as_deref().and_then(|octets| Certificate::parse(octets).ok());
    ticket.is_some_and(|ticket| ticket.validity.end() <= its_now())
}

/// Removes a ticket and its key.
fn remove(path: &Path) -> bool {
    let _ = std::fs::remove_file(path.with_extension("key"));
    std::fs::remove_file(path).is_ok()
}

/// Reads the certificate of an authority.
pub(super) fn authority(file: &Path, common: &CommonArgs) -> Result<Vec<u8>, Failure> {
    let octets = read(file).map_err(Failure::Other)?;
    let certificate = parse(&octets, file)?;
    let refuse = |why: String| Err(Failure::Other(format!("{}: {why}", file.display())));
    if !certificate.validity.includes(its_now()) {
        return refuse(format!("{}; get the present certificate of the authority", not_valid(&certificate)));
    }
    let Some(path) = &common.root else { return Ok(octets) };
    let root = read(path).map_err(Failure::Other)?;
    let of_root = parse(&root, path)?;
    let is_signed =
        || is_valid(&certificate.message(Some(&of_root)), &of_root.verification_key, &certificate.signature);
    if !of_root.validity.includes(its_now()) || !is_issuer(&root, &certificate) || !is_signed() {
        return refuse(format!("not issued by {}, or that root is not valid now", path.display()));
    }
    Ok(octets)
}

/// When a certificate is valid that is not valid now.
fn not_valid(certificate: &Certificate<'_>) -> String {
    let (from, until) = (utc(certificate.validity.start.into()), utc(certificate.validity.end()));
    format!("valid from {from} until {until}, and the clock here says {}", utc(its_now()))
}

/// Reads an enrolment credential and its key.
pub(super) fn credential(file: &Path) -> Result<(Vec<u8>, SecretKey), Failure> {
    const AGAIN: &str = "get one with roam6 geo cert enrol --station ID --key FILE";
    let refuse = |why: String| Failure::Other(format!("{}: {why}; {AGAIN}", file.display()));
    let octets = read(file).map_err(|why| Failure::Other(format!("{why}; {AGAIN}")))?;
    let certificate = parse(&octets, file)?;
    if !certificate.validity.includes(its_now()) {
        return Err(refuse(not_valid(&certificate)));
    }
    let key = read_key(&file.with_extension("key"))?;
    let point = certificate.verification_key.point.sec1().unwrap_or_default();
    if point != key.public_key().to_encoded_point(true).as_bytes() {
        return Err(refuse("the private key beside it is that of another certificate".to_owned()));
    }
    Ok((octets, key))
}

/// Sends a request and opens the answer: the octets of the certificate.
fn exchange(
    url: &str,
    request: Result<Request, ProvisioningError>,
    authority: &Certificate<'_>,
) -> Result<Vec<u8>, Failure> {
    let refuse = |error: ProvisioningError| Failure::Other(format!("{url}: {error}; {}", cure(&error)));
    let request = request.map_err(refuse)?;
    let answer = http::post(url, &request.octets)?;
    request.open(&answer, authority, its_micros(), &is_valid).map_err(refuse)
}

/// What to do about an error.
pub(super) fn cure(error: &ProvisioningError) -> &'static str {
    const CLOCK: &str = "set the clock of this machine (timedatectl), or wait until the authority has set its own";
    const ENROL: &str = "enrol again with the canonical key (roam6 geo cert enrol --station ID --key FILE)";
    match error {
        ProvisioningError::NoEncryptionKey => "name the certificate of an EA or AA, not that of a root or a station",
        ProvisioningError::ClockDiffers(_) => CLOCK,
        ProvisioningError::Authorization(AuthorizationCode::OUT_OF_SYNC) => CLOCK,
        ProvisioningError::Enrolment(code) => match *code {
            EnrolmentCode::UNKNOWN_ITS => "have the station registered there with its canonical public key",
            EnrolmentCode::INVALID_SIGNATURE => "use the private key that the station is registered with there",
            EnrolmentCode::BAD_ITS_STATUS => ENROL,
            _ => "ask its operator",
        },
        ProvisioningError::Authorization(code) => match *code {
            AuthorizationCode::UNKNOWN_EA | AuthorizationCode::WRONG_EA => {
                "name with --ea-cert the EA that has issued the credential"
            }
            AuthorizationCode::UNKNOWN_ITS | AuthorizationCode::INVALID_SIGNATURE => ENROL,
            AuthorizationCode::DENIED_PERMISSIONS => {
                "renew the credential (roam6 geo cert enrol --renew), or ask for less with --permission"
            }
            AuthorizationCode::AA_DENIED_PERMISSIONS => "ask for less with --permission",
            _ => "ask its operator",
        },
        ProvisioningError::WrongCertificate(_) | ProvisioningError::OtherRequest => {
            "the authority is faulty; ask its operator"
        }
        ProvisioningError::Malformed(_)
        | ProvisioningError::NotTheRecipient
        | ProvisioningError::Undecryptable
        | ProvisioningError::WrongContent
        | ProvisioningError::WrongSigner
        | ProvisioningError::InvalidSignature => "are the URL and the certificate those of one authority?",
    }
}
