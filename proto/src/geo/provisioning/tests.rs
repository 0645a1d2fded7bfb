//! Both sides against vectors that another implementation has made (scripts/vectors/provisioning.py), and against each other.

use super::authority::{Answer, Authority, Opened, Registry};
use super::encryption::{SymmetricKey, wrap};
use super::*;
use p256::ecdsa::VerifyingKey;
use p256::ecdsa::signature::Verifier;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::security::{HashedId8, PsidSsp, Ssp, TimeUnit, ValidityPeriod};
use std::collections::BTreeMap;

const VECTORS: &str = include_str!("../../../../wire/tests/wire/vectors/provisioning.tsv");
/// The time of the vectors.
const NOW: u64 = 719_000_000_000_000;
const MINUTE: u64 = 60_000_000;
const DAY: u64 = 24 * 60 * MINUTE;
const PERMISSIONS: [PsidSsp<'static>; 3] = [
    PsidSsp { psid: Psid::CAM, ssp: Ssp::Bitmap(&[1, 0xff, 0xfc]) },
    PsidSsp { psid: Psid::DENM, ssp: Ssp::Bitmap(&[1, 0xff, 0xff, 0xff]) },
    PsidSsp { psid: Psid::GN_MANAGEMENT, ssp: Ssp::Absent },
];
const ANSWER_NONCE: [u8; 12] = [99; 12];

fn octets(hex: &str) -> Vec<u8> {
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.as_bytes().chunks(2).map(octet).collect()
}

fn line(kind: &str, name: &str) -> (Vec<u8>, BTreeMap<&'static str, Vec<u8>>) {
    let mut lines = VECTORS.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let found = lines.find(|columns| columns[0] == kind && columns[1] == name).unwrap();
    let fields = found[3].split(';').filter_map(|field| field.split_once('='));
    (octets(found[2]), fields.map(|(name, hex)| (name, octets(hex))).collect())
}

fn message(name: &str) -> Vec<u8> {
    line("message", name).0
}

fn key(name: &str) -> SecretKey {
    SecretKey::from_slice(&line("key", name).0).unwrap()
}

/// The secrets of the vectors.
fn secrets(number: u8) -> Secrets {
    let mut ephemeral = [0; 32];
    ephemeral[31] = 200 + number;
    Secrets::new(SecretKey::from_slice(&ephemeral).unwrap(), [number; 16], [100 + number; 12])
}

fn verify(message: &Message, key: &PublicKey<'_>, signature: &Signature<'_>) -> bool {
    let Some(key) = p256_key(key) else { return false };
    let signature = OwnSignature::from_slice(&[signature.r.x, signature.s].concat());
    signature.is_ok_and(|signature| VerifyingKey::from(key).verify(message.octets(), &signature).is_ok())
}

/// The holders of certificates in the vectors.
struct Holder {
    octets: Vec<u8>,
    signing: SecretKey,
    decryption: SecretKey,
}

impl Holder {
    fn of(name: &str) -> Holder {
        let decryption = if name.len() == 2 { format!("{name}-decryption") } else { name.to_owned() };
        Holder { octets: line("certificate", name).0, signing: key(name), decryption: key(&decryption) }
    }

    fn certificate(&self) -> Certificate<'_> {
        Certificate::parse(&self.octets).unwrap()
    }
}

struct Stations;

impl Registry for Stations {
    fn canonical_key(&self, station: &[u8]) -> Option<Vec<u8>> {
        let point = key("canonical").public_key().to_encoded_point(true);
        (station == b"car-1").then(|| point.as_bytes().to_vec())
    }

    fn credential(&self, digest: HashedId8) -> Option<Vec<u8>> {
        let octets = Holder::of("credential").octets;
        (Certificate::parse(&octets).unwrap().digest() == digest).then_some(octets)
    }
}

fn enrolment(signer: EnrolmentSigner<'_>, new: &str, number: u8) -> Request {
    let (ea, key) = (Holder::of("ea"), key(new));
    let authority = ea.certificate();
    let parameters = EnrolmentParameters { authority: &authority, signer, key: &key, its_micros: NOW };
    enrolment_request(&parameters, &secrets(number)).unwrap()
}

fn first_enrolment() -> Request {
    enrolment(EnrolmentSigner::Station(b"car-1", &key("canonical")), "credential", 1)
}

fn renewal() -> Request {
    let credential = Holder::of("credential");
    enrolment(EnrolmentSigner::Credential(&credential.certificate(), &credential.signing), "renewed", 2)
}

fn authorization(permissions: &[PsidSsp<'_>], its_micros: u64) -> Request {
    let (ea, aa, credential) = (Holder::of("ea"), Holder::of("aa"), Holder::of("credential"));
    let parameters = AuthorizationParameters {
        authority: &aa.certificate(),
        enrolment_authority: &ea.certificate(),
        credential: (&credential.certificate(), &credential.signing),
        key: &key("ticket"),
        permissions,
        validity: Some(ValidityPeriod { start: 719_000_000 - 3600, unit: TimeUnit::Hours, duration: 168 }),
        its_micros,
    };
    let hmac_key = core::array::from_fn(|number| number as u8);
    authorization_request(&parameters, (&secrets(3), &secrets(4)), hmac_key).unwrap()
}

/// What an authority does with a request.
fn with_authority<T>(name: &str, request: &[u8], act: impl FnOnce(&Authority<'_>, &Opened) -> T) -> T {
    let holder = Holder::of(name);
    let certificate = holder.certificate();
    let authority = Authority { certificate: &certificate, signing: &holder.signing, decryption: &holder.decryption };
    act(&authority, &authority.open(request).unwrap())
}

fn enrolment_code(request: &[u8], now: u64) -> EnrolmentCode {
    with_authority("ea", request, |_, opened| opened.enrolment(&Stations, now, &verify).map(|_| EnrolmentCode::OK))
        .unwrap_or_else(|code| code)
}

fn authorization_code(request: &[u8], now: u64) -> AuthorizationCode {
    let (ea, aa) = (Holder::of("ea"), Holder::of("aa"));
    let certificate = ea.certificate();
    let ea = Authority { certificate: &certificate, signing: &ea.signing, decryption: &ea.decryption };
    let check = |_: &Authority<'_>, opened: &Opened| {
        opened.authorization(&aa.certificate(), &ea, &Stations, now, &verify).map(|_| AuthorizationCode::OK)
    };
    with_authority("aa", request, check).unwrap_or_else(|code| code)
}

#[test]
fn keys_are_encrypted_as_another_implementation_does_and_as_ieee_1609_2_annex_d_says() {
    for name in ["ecies-0", "ecies-1"] {
        let (ephemeral, fields) = line("ecies", name);
        let recipient = SecretKey::from_slice(&fields["recipient"]).unwrap().public_key();
        let ephemeral = SecretKey::from_slice(&ephemeral).unwrap();
        let symmetric = SymmetricKey(fields["key"][..].try_into().unwrap());
        let (wrapped, tag) = wrap(&ephemeral, &recipient, symmetric, &fields["p1"][..].try_into().unwrap());
        assert_eq!((&wrapped[..], &tag[..]), (&fields["c"][..], &fields["t"][..]), "{name}");
    }
    let ephemeral = octets("1384c31d6982d52bca3bed8a7e60f52fecdab44e5c0ea166815a8159e09ffb42");
    let recipient = octets(
        "048c5e20fe31935f6fa682a1f6d46e4468534ffea1a698b14b0b12513eed8deb111270fec2427e6a154dfcae3368584396c8251a04e2ae7d87\
         b016ff65d22d6f9e",
    );
    let p1 = octets("a6b7b52554b4203f7e3acfdb3a3ed8674ee086ce5906a7cac2f8a398306d3be9");
    let (wrapped, tag) = wrap(
        &SecretKey::from_slice(&ephemeral).unwrap(),
        &p256::PublicKey::from_sec1_bytes(&recipient).unwrap(),
        SymmetricKey(octets("9169155b08b07674cbadf75fb46a7b0d").try_into().unwrap()),
        &p1.try_into().unwrap(),
    );
    assert_eq!(wrapped.to_vec(), octets("a6342013d623ad6c5f6882469673ae33"));
    assert_eq!(tag.to_vec(), octets("80e1d85d30f1bae4ecf1a534a89a0786"));
}

#[test]
fn requests_are_the_octets_that_another_implementation_makes() {
    assert_eq!(first_enrolment().octets, message("enrolment-request"));
    assert_eq!(renewal().octets, message("renewal-request"));
    assert_eq!(authorization(&PERMISSIONS, NOW).octets, message("authorization-request"));
}

#[test]
fn answers_of_another_implementation_have_the_certificates() {
    let (ea, aa) = (Holder::of("ea"), Holder::of("aa"));
    let certificate = |name: &str| Ok(Holder::of(name).octets);
    let ticket = authorization(&PERMISSIONS, NOW);
    let open =
        |request: &Request, name: &str, by: &Holder| request.open(&message(name), &by.certificate(), NOW, &verify);
    assert_eq!(open(&first_enrolment(), "enrolment-response", &ea), certificate("credential"));
    assert_eq!(open(&renewal(), "renewal-response", &ea), certificate("renewed"));
    assert_eq!(open(&ticket, "authorization-response", &aa), certificate("ticket"));
    assert_eq!(open(&ticket, "authorization-response-by-signed-hash", &aa), certificate("ticket"));
    let denied = ProvisioningError::Authorization(AuthorizationCode::DENIED_PERMISSIONS);
    assert_eq!(open(&ticket, "authorization-response-denied", &aa), Err(denied));
}

#[test]
fn authorities_grant_what_another_implementation_asks_for_and_answer_the_same_octets() {
    for (request, answer, certificate) in
        [("enrolment-request", "enrolment-response", "credential"), ("renewal-request", "renewal-response", "renewed")]
    {
        let answered = with_authority("ea", &message(request), |ea, opened| {
            let grant = opened.enrolment(&Stations, NOW, &verify).unwrap();
            assert_eq!(p256_key(&grant.key), Some(key(certificate).public_key()));
            let octets = Holder::of(certificate).octets;
            ea.answer(opened, &Answer::Enrolment(Ok(&octets)), &ANSWER_NONCE, NOW)
        });
        assert_eq!(answered, message(answer));
    }
    assert_eq!(authorization_code(&message("authorization-request"), NOW), AuthorizationCode::OK);
    let octets = Holder::of("ticket").octets;
    let answer = |answer: Answer<'_>| {
        with_authority("aa", &message("authorization-request"), |aa, opened| {
            aa.answer(opened, &answer, &ANSWER_NONCE, NOW)
        })
    };
    assert_eq!(answer(Answer::Authorization(Ok(&octets))), message("authorization-response"));
    let denied = Answer::Authorization(Err(AuthorizationCode::DENIED_PERMISSIONS));
    assert_eq!(answer(denied), message("authorization-response-denied"));
}

#[test]
fn changed_answers_are_refused() {
    let (request, ea) = (first_enrolment(), Holder::of("ea"));
    let answer = message("enrolment-response");
    for at in 0..answer.len() {
        let mut changed = answer.clone();
        changed[at] ^= 1;
        assert!(request.open(&changed, &ea.certificate(), NOW, &verify).is_err(), "{at}");
        assert!(request.open(&answer[..at], &ea.certificate(), NOW, &verify).is_err(), "{at}");
    }
}

#[test]
fn answers_to_others_and_of_others_are_refused() {
    let (ea, aa, request) = (Holder::of("ea"), Holder::of("aa"), first_enrolment());
    let open = |answer: &[u8], by: &Holder, now| request.open(answer, &by.certificate(), now, &verify);
    let right = message("enrolment-response");
    assert_eq!(open(&message("renewal-response"), &ea, NOW), Err(ProvisioningError::NotTheRecipient));
    assert_eq!(open(&right, &aa, NOW), Err(ProvisioningError::WrongSigner));
    assert_eq!(open(&right, &ea, NOW + 10 * MINUTE), Err(ProvisioningError::ClockDiffers(-600)));
    assert_eq!(open(&right, &ea, NOW - 10 * MINUTE), Err(ProvisioningError::ClockDiffers(600)));
    assert!(open(&right, &ea, NOW + 4 * MINUTE).is_ok());
    // Of the right authority for the right key, but with another certificate, kind, or signature.
    let answer = |by: &str, octets: &[u8]| {
        with_authority("ea", &request.octets, |ea, opened| {
            let holder = Holder::of(by);
            let signer = Authority { signing: &holder.signing, ..*ea };
            signer.answer(opened, &Answer::Enrolment(Ok(octets)), &ANSWER_NONCE, NOW)
        })
    };
    let credential = Holder::of("credential").octets;
    assert_eq!(open(&answer("ea", &credential), &ea, NOW), Ok(credential.clone()));
    assert_eq!(open(&answer("aa", &credential), &ea, NOW), Err(ProvisioningError::InvalidSignature));
    let wrong = |what| Err(ProvisioningError::WrongCertificate(what));
    let renewed = Holder::of("renewed").octets;
    assert_eq!(open(&answer("ea", &renewed), &ea, NOW), wrong("is not for the key that was sent"));
    let mut changed = credential.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(open(&answer("ea", &changed), &ea, NOW), wrong("has an invalid signature"));
    let other = with_authority("ea", &request.octets, |ea, opened| {
        ea.answer(opened, &Answer::Authorization(Ok(&credential)), &ANSWER_NONCE, NOW)
    });
    assert_eq!(open(&other, &ea, NOW), Err(ProvisioningError::WrongContent));
    // To a request with the same symmetric key: of another time.
    let (canonical, new, certificate) = (key("canonical"), key("credential"), ea.certificate());
    let signer = EnrolmentSigner::Station(b"car-1", &canonical);
    let later = EnrolmentParameters { authority: &certificate, signer, key: &new, its_micros: NOW + 1 };
    let later = enrolment_request(&later, &secrets(1)).unwrap();
    assert_eq!(later.open(&right, &certificate, NOW, &verify), Err(ProvisioningError::OtherRequest));
}

#[test]
fn an_authority_opens_what_is_encrypted_for_it() {
    let (ea, aa) = (Holder::of("ea"), Holder::of("aa"));
    let open = |holder: &Holder, decryption: &SecretKey, request: &[u8]| {
        let certificate = holder.certificate();
        let authority = Authority { certificate: &certificate, signing: &holder.signing, decryption };
        authority.open(request).map(|_| ())
    };
    let request = message("enrolment-request");
    assert_eq!(open(&ea, &ea.decryption, &request), Ok(()));
    assert_eq!(open(&aa, &aa.decryption, &request), Err(ProvisioningError::NotTheRecipient));
    assert_eq!(open(&ea, &aa.decryption, &request), Err(ProvisioningError::Undecryptable));
    // The form of the ephemeral key says which of two points with one x it is, and only x counts.
    const FORM: usize = 14;
    for at in (0..request.len()).filter(|at| *at != FORM) {
        let mut changed = request.clone();
        changed[at] ^= 1;
        assert!(open(&ea, &ea.decryption, &changed).is_err(), "{at}");
    }
    let credential = Holder::of("credential");
    let (authority, canonical) = (credential.certificate(), key("canonical"));
    let signer = EnrolmentSigner::Station(b"car-1", &canonical);
    let parameters = EnrolmentParameters { authority: &authority, signer, key: &canonical, its_micros: NOW };
    let without = enrolment_request(&parameters, &secrets(1)).map(|request| request.octets);
    assert_eq!(without, Err(ProvisioningError::NoEncryptionKey));
}

#[test]
fn stations_that_are_unknown_or_have_another_key_get_no_credential() {
    let by = |station: &[u8], canonical: &str| {
        enrolment(EnrolmentSigner::Station(station, &key(canonical)), "credential", 1).octets
    };
    assert_eq!(enrolment_code(&by(b"car-1", "canonical"), NOW), EnrolmentCode::OK);
    assert_eq!(enrolment_code(&by(b"car-2", "canonical"), NOW), EnrolmentCode::UNKNOWN_ITS);
    assert_eq!(enrolment_code(&by(b"car-1", "renewed"), NOW), EnrolmentCode::INVALID_SIGNATURE);
    assert_eq!(enrolment_code(&by(b"car-1", "canonical"), NOW + 10 * MINUTE), EnrolmentCode::DENIED_REQUEST);
    let renewal = |holder: &Holder, by: &str| {
        enrolment(EnrolmentSigner::Credential(&holder.certificate(), &key(by)), "renewed", 2).octets
    };
    let (credential, unknown) = (Holder::of("credential"), Holder::of("renewed"));
    assert_eq!(enrolment_code(&renewal(&credential, "credential"), NOW), EnrolmentCode::OK);
    assert_eq!(enrolment_code(&renewal(&credential, "canonical"), NOW), EnrolmentCode::INVALID_SIGNATURE);
    assert_eq!(enrolment_code(&renewal(&unknown, "renewed"), NOW), EnrolmentCode::UNKNOWN_ITS);
    let (ea, new, of_credential) = (Holder::of("ea"), key("renewed"), credential.certificate());
    let late = EnrolmentParameters {
        authority: &ea.certificate(),
        signer: EnrolmentSigner::Credential(&of_credential, &credential.signing),
        key: &new,
        its_micros: NOW + 400 * DAY,
    };
    let late = enrolment_request(&late, &secrets(2)).unwrap().octets;
    assert_eq!(enrolment_code(&late, NOW + 400 * DAY), EnrolmentCode::BAD_ITS_STATUS, "the credential has expired");
}

#[test]
fn tickets_are_for_holders_of_valid_credentials_and_permit_what_the_authority_may() {
    assert_eq!(authorization_code(&authorization(&PERMISSIONS, NOW).octets, NOW), AuthorizationCode::OK);
    let more = [PsidSsp { psid: Psid::CTL, ssp: Ssp::Absent }];
    let denied = AuthorizationCode::AA_DENIED_PERMISSIONS;
    assert_eq!(authorization_code(&authorization(&more, NOW).octets, NOW), denied);
    let late = NOW + 400 * DAY;
    let expired = authorization_code(&authorization(&PERMISSIONS, late).octets, late);
    assert_eq!(expired, AuthorizationCode::DENIED_PERMISSIONS, "the credential has expired");
    let out_of_sync = authorization_code(&authorization(&PERMISSIONS, NOW).octets, NOW + 10 * MINUTE);
    assert_eq!(out_of_sync, AuthorizationCode::OUT_OF_SYNC);
    let plain = line("message", "authorization-request-plain-signature").1;
    let aa = Holder::of("aa");
    let plain = super::encryption::encrypt_for(&aa.certificate(), &secrets(5), &plain["signed"]).unwrap();
    // Its key tag is about another key.
    assert_eq!(authorization_code(&plain, NOW), AuthorizationCode::KEYS_DONT_MATCH);
}
