//! What the commands refuse before anything is sent, and what the authorities of a lab issue.

use super::args::CommonArgs;
use super::client::{authority, credential, cure, room};
use super::server::{AUTHORIZATION, ENROLMENT, Pki, ticket_validity};
use super::{its_micros, random_key};
use crate::certificate::{its_now, read};
use crate::cli::geo::args::MakeArgs;
use crate::cli::geo::authority::{Content, certify, create_key, make, read_key, since_now};
use crate::exit::Failure;
use p256::SecretKey;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_proto::geo::provisioning::ProvisioningError;
use roam6_wire::security::{
    AuthorizationCode, Certificate, CertificateId, Curve, CurvePoint, EnrolmentCode, PublicKey, TimeUnit,
    ValidityPeriod,
};
use std::path::{Path, PathBuf};

const HOUR: u32 = 3600;

fn lab() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert!(make(&MakeArgs { folder: folder.path().join("lab"), count: 1 }).is_ok());
    folder
}

fn why<T>(result: Result<T, Failure>) -> String {
    match result {
        Ok(_) => String::new(),
        Err(Failure::Other(why) | Failure::Usage(why)) => why,
        Err(_) => "another failure".to_owned(),
    }
}

/// A certificate of an authority of the lab, with the key beside it.
fn issue(issuer: &Path, file: &Path, validity: ValidityPeriod, key: &SecretKey) {
    let octets = read(&issuer.with_extension("cert")).unwrap();
    let certificate = Certificate::parse(&octets).unwrap();
    let point = key.public_key().to_encoded_point(true);
    let point = CurvePoint::from_sec1(point.as_bytes(), 32).unwrap();
    let content = Content {
        id: CertificateId::None,
        validity,
        app_permissions: &crate::cli::geo::authority::PERMISSIONS,
        issue_permissions: None,
    };
    let signer = (Some(&certificate), &read_key(&issuer.with_extension("key")).ok().unwrap());
    std::fs::write(file, certify(&content, PublicKey { curve: Curve::NistP256, point }, None, signer)).unwrap();
}

fn hours_ago(hours: u32) -> ValidityPeriod {
    let start = u32::try_from(its_now()).unwrap() - hours * HOUR;
    ValidityPeriod { start, unit: TimeUnit::Hours, duration: 1 }
}

#[test]
fn an_authority_leads_to_the_root_that_is_named() {
    let (folder, other) = (lab(), lab());
    let file = |folder: &tempfile::TempDir, name: &str| folder.path().join("lab").join(name);
    let check =
        |name: &str, root: Option<PathBuf>| why(authority(&file(&folder, name), &CommonArgs { root, json: false }));
    assert_eq!(check("ea.cert", None), "");
    assert_eq!(check("aa.cert", Some(file(&folder, "root.cert"))), "");
    assert!(check("ea.cert", Some(file(&other, "root.cert"))).contains("not issued by"));
    assert!(check("tickets/at-01.cert", Some(file(&folder, "root.cert"))).contains("not issued by"));
    let old = file(&folder, "old.cert");
    issue(&file(&folder, "root"), &old, hours_ago(2), &random_key());
    assert!(check("old.cert", None).ends_with("get the present certificate of the authority"));
}

#[test]
fn a_credential_that_has_expired_or_has_no_key_is_not_used() {
    let folder = lab();
    let (ea, file) = (folder.path().join("lab/ea"), folder.path().join("ec.cert"));
    let key = random_key();
    assert!(why(credential(&file)).contains("roam6 geo cert enrol"));
    issue(&ea, &file, since_now(TimeUnit::Years, 1), &key);
    assert!(why(credential(&file)).contains("ec.key"));
    assert!(create_key(&file.with_extension("key"), &key).is_ok());
    assert!(credential(&file).is_ok_and(|(_, read)| read == key));
    issue(&ea, &file, since_now(TimeUnit::Years, 1), &random_key());
    assert!(why(credential(&file)).contains("that of another certificate"));
    issue(&ea, &file, hours_ago(2), &key);
    let expired = why(credential(&file));
    assert!(expired.contains("and the clock here says") && expired.contains("roam6 geo cert enrol"), "{expired}");
}

#[test]
fn a_directory_has_room_for_100_tickets_and_numbers_go_on() {
    let folder = lab();
    let tickets = folder.path().join("lab/tickets");
    let aa = folder.path().join("lab/aa");
    assert!(matches!(room(&tickets, false, 99), Ok(2)));
    assert!(why(room(&tickets, false, 100)).ends_with("with --remove-expired"));
    for number in 2..=4 {
        let file = tickets.join(format!("at-{number:02}.cert"));
        issue(&aa, &file, hours_ago(number), &random_key());
        assert!(create_key(&file.with_extension("key"), &random_key()).is_ok());
    }
    // A run that was killed between key and certificate.
    assert!(create_key(&tickets.join("at-07.key"), &random_key()).is_ok());
    assert!(why(room(&tickets, false, 97)).contains("4 tickets in it"));
    assert!(matches!(room(&tickets, true, 99), Ok(8)));
    assert!(tickets.join("at-01.cert").exists() && !tickets.join("at-03.cert").exists());
    assert!(!tickets.join("at-03.key").exists());
}

#[test]
fn a_ticket_has_the_validity_that_is_wished_within_a_week_and_its_authority() {
    let now = 1_000_000_000;
    let period = |start: u32, duration| ValidityPeriod { start, unit: TimeUnit::Hours, duration };
    let authority = ValidityPeriod { start: 900_000_000, unit: TimeUnit::Years, duration: 5 };
    let granted = |wished| ticket_validity(Some(wished), &authority, now) == wished;
    assert!(granted(period(1_000_000_000, 168)));
    assert!(granted(period(1_010_000_000, 1)));
    for (start, duration) in [(1_000_000_000, 169), (999_000_000, 1), (899_999_999, 168), (u32::MAX, 1)] {
        assert!(!granted(period(start, duration)), "{start} {duration}");
    }
    assert_eq!(ticket_validity(None, &authority, now).duration, 168);
}

#[test]
fn what_is_no_request_for_an_authority_is_refused() {
    let folder = lab();
    let pki = Pki::read(&folder.path().join("lab")).ok().unwrap();
    let refused = |path: &str, octets: &[u8]| pki.answer(path, octets, its_micros()).unwrap_err();
    assert!(refused("/", b"").contains(ENROLMENT));
    for path in [ENROLMENT, AUTHORIZATION] {
        for octets in [&b""[..], b"\x03\x82", &[0xff; 8192]] {
            assert!(!refused(path, octets).is_empty());
        }
    }
    std::fs::remove_file(folder.path().join("lab/ea.cert")).unwrap();
    assert!(why(Pki::read(&folder.path().join("lab"))).ends_with("make a new one with roam6 geo cert make"));
}

#[test]
fn errors_have_a_cure() {
    let codes = (1..27).map(|code| ProvisioningError::Authorization(AuthorizationCode(code)));
    let errors = codes.chain((1..14).map(|code| ProvisioningError::Enrolment(EnrolmentCode(code)))).chain([
        ProvisioningError::ClockDiffers(400),
        ProvisioningError::Undecryptable,
        ProvisioningError::NoEncryptionKey,
        ProvisioningError::OtherRequest,
    ]);
    for error in errors {
        assert!(!cure(&error).is_empty() && !error.to_string().contains("code "), "{error}");
    }
    assert!(cure(&ProvisioningError::ClockDiffers(400)).starts_with("set the clock"));
    let out_of_sync = ProvisioningError::Authorization(AuthorizationCode::OUT_OF_SYNC);
    assert_eq!(cure(&out_of_sync), cure(&ProvisioningError::ClockDiffers(1)));
    let unknown = cure(&ProvisioningError::Enrolment(EnrolmentCode::UNKNOWN_ITS));
    assert!(unknown.contains("registered"), "{unknown}");
}
