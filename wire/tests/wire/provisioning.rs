//! Messages of enrolment and authorisation against vectors that another implementation has made (scripts/vectors), and mutated
//! ones.

use crate::mutation::mutate;
use crate::samples::{Random, octets};
use roam6_wire::fuzz;
use roam6_wire::security::{
    Certificate, Curve, EcSignature, EncryptedData, EnrolmentRequest, HashedId8, ProvisioningMessage, Psid, PublicKeys,
    Recipient, SharedRequest, SignedData, SignerField, SignerIdentifier, Ssp, SubjectAttributes, TimeUnit,
    UnsignedData, limits,
};
use std::collections::BTreeMap;

const VECTORS: &str = include_str!("vectors/provisioning.tsv");

struct Vector {
    kind: &'static str,
    name: &'static str,
    octets: Vec<u8>,
    fields: BTreeMap<&'static str, Vec<u8>>,
}

fn vectors() -> Vec<Vector> {
    let vector = |line: &'static str| {
        let [kind, name, hex, fields] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let fields = fields.split(';').filter_map(|field| field.split_once('='));
        Vector { kind, name, octets: octets(hex), fields: fields.map(|(name, hex)| (name, octets(hex))).collect() }
    };
    VECTORS.lines().map(vector).collect()
}

fn vector(kind: &str, name: &str) -> Vector {
    vectors().into_iter().find(|vector| vector.kind == kind && vector.name == name).unwrap()
}

fn digest(name: &str) -> HashedId8 {
    Certificate::parse(&vector("certificate", name).octets).unwrap().digest()
}

#[test]
fn encrypted_messages_are_read_and_written_as_another_implementation_has_written_them() {
    let mut read = 0;
    for Vector { name, octets, .. } in vectors().into_iter().filter(|vector| vector.kind == "message") {
        let data = EncryptedData::parse(&octets).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(data.emit(), octets, "{name}");
        read += 1;
    }
    assert!(read >= 10, "{read}");
    let of = |name: &str| {
        let octets = vector("message", name).octets;
        let data = EncryptedData::parse(&octets).unwrap();
        match data.recipients[..] {
            [Recipient::PresharedKey(digest)] => ("psk", digest, None),
            [Recipient::Certificate(digest, key)] => ("certificate", digest, Some(key.curve)),
            [Recipient::SignedData(digest, key)] => ("signed data", digest, Some(key.curve)),
            _ => panic!("{name}: {:?}", data.recipients),
        }
    };
    assert_eq!(of("enrolment-request"), ("certificate", digest("ea"), Some(Curve::NistP256)));
    assert_eq!(of("authorization-request"), ("certificate", digest("aa"), Some(Curve::NistP256)));
    assert_eq!(of("enrolment-response"), ("psk", HashedId8::of_symmetric_key(&[1; 16]), None));
    assert_eq!(of("authorization-request-plain-signature"), ("signed data", digest("aa"), Some(Curve::NistP256)));
    let two = vector("message", "two-recipients").octets;
    let two = EncryptedData::parse(&two).unwrap();
    assert!(matches!(two.recipients[..], [Recipient::PresharedKey(_), Recipient::Certificate(_, key)]
        if key.curve == Curve::BrainpoolP256r1));
}

#[test]
fn payloads_are_read_and_written_as_another_implementation_has_written_them() {
    for Vector { name, fields, .. } in vectors().into_iter().filter(|vector| vector.fields.contains_key("payload")) {
        let signed = SignedData::read_list(&fields["signed"]).unwrap();
        assert_eq!(signed.payload, fields["payload"], "{name}");
        assert_eq!(signed.header.psid, Psid::CERTIFICATE_REQUEST, "{name}");
        let message = ProvisioningMessage::parse(&fields["payload"]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.emit(), fields["payload"], "{name}");
    }
}

#[test]
fn an_enrolment_request_has_a_station_a_key_and_permissions() {
    for (name, station) in
        [("enrolment-request", b"car-1".to_vec()), ("renewal-request", digest("credential").0.to_vec())]
    {
        let fields = vector("message", name).fields;
        let inner = SignedData::read_list(&fields["inner"]).unwrap();
        assert_eq!(
            ProvisioningMessage::parse(&fields["payload"]),
            Ok(ProvisioningMessage::EnrolmentRequest(&fields["inner"]))
        );
        assert_eq!(inner.signer, SignerIdentifier::Own);
        let request = EnrolmentRequest::parse(inner.payload).unwrap();
        assert_eq!((request.station, request.emit()), (&station[..], inner.payload.to_vec()));
        let [permission] = request.attributes.permissions[..] else { panic!("{request:?}") };
        assert_eq!((permission.psid, permission.ssp), (Psid::CERTIFICATE_REQUEST, Ssp::Bitmap(&[1, 0xc0])));
        assert_eq!((request.attributes.validity, request.attributes.has_others), (None, false));
        // The envelope around it is written as it was.
        let to_be_signed =
            UnsignedData::new(inner.payload, inner.header.psid, inner.header.generation_time.unwrap()).to_be_signed();
        assert_eq!(to_be_signed, inner.to_be_signed());
        let signature = (inner.signature.r.x.try_into().unwrap(), inner.signature.s.try_into().unwrap());
        assert_eq!(UnsignedData::emit(&to_be_signed, SignerField::Own, signature), fields["inner"]);
    }
}

#[test]
fn an_authorization_request_has_a_shared_part_that_the_credential_signs() {
    let fields = vector("message", "authorization-request").fields;
    let Ok(ProvisioningMessage::AuthorizationRequest(request)) = ProvisioningMessage::parse(&fields["payload"]) else {
        panic!("no request");
    };
    assert_eq!(request.shared, fields["shared"]);
    let EcSignature::Encrypted(encrypted) = request.signature else { panic!("{request:?}") };
    let for_ea = EncryptedData::parse(encrypted).unwrap();
    assert!(matches!(for_ea.recipients[..], [Recipient::Certificate(to, _)] if to == digest("ea")));
    let shared = SharedRequest::parse(request.shared).unwrap();
    assert_eq!(shared.enrolment_authority, digest("ea"));
    assert_eq!(shared.emit(), request.shared);
    let validity = shared.attributes.validity.unwrap();
    assert_eq!((validity.start, validity.unit, validity.duration), (719_000_000 - 3600, TimeUnit::Hours, 168));
    assert_eq!(shared.attributes.permissions.len(), 3);
    let external = SignedData::read_external(&fields["ec"]).unwrap();
    assert_eq!((external.payload.len(), external.signer), (32, SignerIdentifier::Digest(digest("credential"))));
    let hash = external.payload.try_into().unwrap();
    let time = external.header.generation_time.unwrap();
    assert_eq!(UnsignedData::external(hash, Psid::CERTIFICATE_REQUEST, time), external.to_be_signed());
    // Data that are in the envelope are no external payload, nor the other way round.
    assert!(SignedData::read_external(&fields["signed"]).is_err());
    assert!(SignedData::read_list(&fields["ec"]).is_err());
    let plain = vector("message", "authorization-request-plain-signature").fields;
    let Ok(ProvisioningMessage::AuthorizationRequest(plain)) = ProvisioningMessage::parse(&plain["payload"]) else {
        panic!("no request");
    };
    assert_eq!((plain.signature, plain.keys.encryption.is_some()), (EcSignature::Plain(&fields["ec"]), true));
    assert_eq!(plain.keys.concatenated().len(), 34 + 35);
}

#[test]
fn requests_with_a_name_or_a_region_are_known_as_such() {
    let attributes = SubjectAttributes { validity: None, permissions: Vec::new(), has_others: false };
    let shared = SharedRequest { enrolment_authority: HashedId8([1; 8]), key_tag: [2; 16], attributes }.emit();
    let head = &shared[..shared.len() - 3];
    let permission = [1, 1, 0, 1, 36];
    let with = |preamble: u8, fields: &[u8]| [head, &[preamble], fields, &permission].concat();
    let has_others = |octets: &[u8]| SharedRequest::parse(octets).map(|shared| shared.attributes.has_others);
    assert_eq!(has_others(&with(0x04, &[])), Ok(false));
    assert_eq!(has_others(&with(0x44, &[0x81, 1, b'x'])), Ok(true));
    assert_eq!(has_others(&with(0x14, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])), Ok(true));
    assert_eq!(has_others(&with(0x0c, &[0x20])), Ok(true));
    // Additions of later releases are skipped.
    assert_eq!(has_others(&[&with(0x84, &[])[..], &[2, 7, 0x80, 1, 0]].concat()), Ok(false));
    assert!(has_others(&with(0x84, &[])).is_err());
}

#[test]
fn damaged_messages_are_refused() {
    let mut refused = 0;
    for Vector { name, octets, .. } in vectors().into_iter().filter(|vector| vector.kind == "bad") {
        assert!(EncryptedData::parse(&octets).is_err(), "{name}");
        assert!(ProvisioningMessage::parse(&octets).is_err(), "{name}");
        assert!(EnrolmentRequest::parse(&octets).is_err(), "{name}");
        refused += 1;
    }
    assert!(refused >= 20, "{refused}");
    for Vector { fields, .. } in vectors() {
        for (name, octets) in fields.iter().filter(|(name, _)| **name == "payload") {
            for cut in 0..octets.len() {
                assert!(ProvisioningMessage::parse(&octets[..cut]).is_err(), "{name} {cut}");
            }
        }
    }
}

/// All messages and their parts.
fn valid() -> Vec<Vec<u8>> {
    let messages = vectors().into_iter().filter(|vector| vector.kind == "message");
    messages.flat_map(|vector| std::iter::once(vector.octets).chain(vector.fields.into_values())).collect()
}

#[test]
fn mutated_messages_never_panic() {
    mutate(0x1029, &valid(), fuzz::provisioning);
}

/// A million messages, changed in one or two octets: no panic, no memory that grows with what a message promises, and none that
/// remains.
#[test]
fn a_million_mutated_messages_never_panic_and_keep_memory_flat() {
    let valid = valid();
    let mut random = Random(0x0294_1003);
    let (mut read, mut refused) = (0_u32, 0_u32);
    let mut bytes = Vec::with_capacity(limits::PROVISIONING);
    let allocated = allocation_counter::measure(|| {
        for number in 0..1_000_000 {
            bytes.clear();
            bytes.extend_from_slice(&valid[number % valid.len()]);
            let length = bytes.len();
            bytes[random.below(length)] = random.below(256) as u8;
            if random.below(2) == 0 {
                bytes[random.below(length)] ^= 1 << random.below(8);
            }
            let payload = SignedData::read_list(&bytes).map_or(&bytes[..], |envelope| envelope.payload);
            let is_read = EncryptedData::parse(&bytes).is_ok()
                || SignedData::read_external(&bytes).is_ok()
                || SharedRequest::parse(payload).is_ok()
                || EnrolmentRequest::parse(payload).is_ok()
                || ProvisioningMessage::parse(payload).is_ok();
            if is_read {
                read += 1;
            } else {
                refused += 1;
            }
        }
    });
    assert_eq!((allocated.count_current, allocated.bytes_current), (0, 0));
    // The permissions or the recipients of one message.
    assert!(allocated.bytes_max <= 4096, "{}", allocated.bytes_max);
    assert!(read > 300_000 && refused > 100_000, "{read} {refused}");
}

#[test]
fn the_key_tag_is_about_both_keys() {
    let fields = vector("message", "authorization-request-plain-signature").fields;
    let Ok(ProvisioningMessage::AuthorizationRequest(request)) = ProvisioningMessage::parse(&fields["payload"]) else {
        panic!("no request");
    };
    let both = request.keys.concatenated();
    let one = PublicKeys { encryption: None, ..request.keys }.concatenated();
    assert!(both.starts_with(&one) && both.len() > one.len());
}
