//! Security envelopes and certificates against vectors that another implementation has made (scripts/vectors), mutated
//! envelopes, and a cross-check by tshark.

use crate::dissector::{ETHERNET, fields_of_link};
use crate::mutation::mutate;
use crate::samples::{Random, octets};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use roam6_wire::fuzz;
use roam6_wire::geo::{Coordinates, SecuredPacket};
use roam6_wire::security::{
    Certificate, Curve, HashedId3, HashedId8, IssuerIdentifier, Location, Message, PointForm, Psid, PublicKey,
    RevocationList, SignedData, SignerField, SignerIdentifier, UnsignedData, limits,
};
use std::collections::BTreeMap;

const VECTORS: &str = include_str!("vectors/security.tsv");

struct Vector {
    good: bool,
    is_data: bool,
    name: &'static str,
    octets: Vec<u8>,
    fields: BTreeMap<&'static str, &'static str>,
}

impl Vector {
    fn octets_of(&self, field: &str) -> Option<Vec<u8>> {
        self.fields.get(field).map(|text| octets(text))
    }

    fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, field: &str) -> Option<T> {
        self.fields.get(field).map(|text| text.parse().unwrap())
    }
}

fn vectors() -> Vec<Vector> {
    let vector = |line: &'static str| {
        let [verdict, kind, name, hex, fields] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let fields = fields.split(';').filter_map(|field| field.split_once('=')).collect();
        Vector { good: verdict == "good", is_data: kind == "data", name, octets: octets(hex), fields }
    };
    VECTORS.lines().map(vector).collect()
}

fn good_data() -> Vec<Vector> {
    vectors().into_iter().filter(|vector| vector.good && vector.is_data).collect()
}

/// Verifies a signature by NIST P-256; `None` for other curves.
fn verify(message: &Message, key: &PublicKey<'_>, signature: &roam6_wire::security::Signature<'_>) -> Option<bool> {
    if key.curve != Curve::NistP256 || signature.curve != Curve::NistP256 {
        return None;
    }
    let first = match key.point.form {
        PointForm::CompressedY0 => 2,
        PointForm::CompressedY1 => 3,
        PointForm::Uncompressed => 4,
        PointForm::XOnly => return Some(false),
    };
    let key = VerifyingKey::from_sec1_bytes(&[&[first], key.point.x, key.point.y].concat()).unwrap();
    let signature = Signature::from_slice(&[signature.r.x, signature.s].concat()).unwrap();
    Some(key.verify(message.octets(), &signature).is_ok())
}

#[test]
fn signed_data_are_read_as_another_implementation_has_written_them() {
    let mut verified = 0;
    for vector in good_data() {
        let name = vector.name;
        let data = SignedData::read(&vector.octets).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(data.length, vector.octets.len(), "{name}");
        assert_eq!(Some(data.payload.len()), vector.number("payload"), "{name}");
        assert_eq!(data.header.psid, Psid(vector.number("psid").unwrap()), "{name}");
        assert_eq!(data.header.generation_time, vector.number("time"), "{name}");
        let place = data
            .header
            .location
            .map(|Location { place, elevation }| format!("{},{},{elevation}", place.latitude, place.longitude));
        assert_eq!(place.as_deref(), vector.fields.get("location").copied(), "{name}");
        let requests: Vec<u8> = data.header.requests.iter().flat_map(|short| short.0).collect();
        assert_eq!(requests, vector.octets_of("requests").unwrap_or_default(), "{name}");
        let signer = vector.octets_of("signer");
        let signer = signer.as_deref().map(|octets| Certificate::parse(octets).unwrap());
        assert_eq!(data.signer.digest(), signer.as_ref().map(Certificate::digest), "{name}");
        assert_eq!(
            data.signer.digest().map(|digest| digest.to_string()).as_deref(),
            vector.fields.get("digest").copied()
        );
        if let (SignerIdentifier::Certificate(carried), Some(signer)) = (data.signer, &signer) {
            assert_eq!(carried, signer.octets(), "{name}");
        }
        let message = data.message(signer.as_ref());
        assert_eq!(message.octets(), vector.octets_of("message").unwrap(), "{name}");
        if let Some(result) = signer.and_then(|signer| verify(&message, &signer.verification_key, &data.signature)) {
            assert!(result, "{name}");
            verified += 1;
        }
    }
    assert!(verified >= 45, "{verified}");
}

#[test]
fn certificates_are_read_as_another_implementation_has_written_them() {
    let mut verified = 0;
    for vector in vectors().into_iter().filter(|vector| vector.good && !vector.is_data) {
        let name = vector.name;
        let certificate = Certificate::parse(&vector.octets).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(certificate.octets(), vector.octets, "{name}");
        assert_eq!(certificate.digest().to_string(), vector.fields["digest"], "{name}");
        assert_eq!(Some(certificate.validity.start), vector.number("start"), "{name}");
        assert_eq!(Some(certificate.validity.end()), vector.number("end"), "{name}");
        assert_eq!(Some(certificate.app_permissions.iter().count()), vector.number("apps"), "{name}");
        let issues = certificate.issue_permissions.map_or(0, |list| list.iter().count());
        assert_eq!(Some(issues), vector.number("issues"), "{name}");
        // r of the signature stands for another signature, by the deterministic nonce the same.
        assert_eq!(certificate.canonical(), vector.octets_of("canonical").unwrap(), "{name}");
        let issuer = vector.octets_of("issuer");
        let issuer = issuer.as_deref().map(|octets| Certificate::parse(octets).unwrap());
        match (certificate.issuer, &issuer) {
            (IssuerIdentifier::Digest(_, digest), Some(issuer)) => assert_eq!(digest, issuer.digest(), "{name}"),
            (IssuerIdentifier::Own(_), None) => {}
            other => panic!("{name}: {other:?}"),
        }
        let message = certificate.message(issuer.as_ref());
        assert_eq!(message.octets(), vector.octets_of("message").unwrap(), "{name}");
        let key = issuer.as_ref().map_or(certificate.verification_key, |issuer| issuer.verification_key);
        if let Some(result) = verify(&message, &key, &certificate.signature) {
            assert!(result, "{name}");
            verified += 1;
        }
    }
    assert!(verified >= 8, "{verified}");
}

#[test]
fn malformed_envelopes_and_certificates_are_refused() {
    for vector in vectors().into_iter().filter(|vector| !vector.good) {
        let refused = match vector.is_data {
            true => SignedData::read(&vector.octets).err(),
            false => Certificate::parse(&vector.octets).err(),
        };
        assert!(refused.is_some(), "{} is accepted", vector.name);
    }
}

#[test]
fn every_limit_is_obeyed() {
    let mut station = vectors().into_iter().find(|vector| vector.name == "payload-1400").unwrap().octets;
    assert!(SignedData::read(&station).is_ok());
    // The payload grows beyond the limit of the envelope.
    let more = vec![0; limits::ENVELOPE - 1400];
    let length = u16::try_from(1400 + more.len()).unwrap();
    station.splice(7..9, length.to_be_bytes());
    station.splice(9..9, more);
    let error = SignedData::read(&station).unwrap_err();
    assert_eq!((error.what, error.why), ("envelope octets", roam6_wire::Why::TooMany(limits::ENVELOPE)));
}

/// A million envelopes: no panic, the octets that are signed lie inside, and no memory is allocated. Half of them have been
/// changed in one octet.
#[test]
fn a_million_mutated_envelopes_never_panic_and_allocate_nothing() {
    let valid: Vec<Vec<u8>> = good_data().into_iter().map(|vector| vector.octets).collect();
    mutate(0x1609_0002, &valid, fuzz::signed_data);
    let mut random = Random(0x1030_0097);
    let mut read = 0_u32;
    let mut bytes = Vec::with_capacity(limits::ENVELOPE);
    let allocated = allocation_counter::measure(|| {
        for number in 0..1_000_000 {
            let sample = &valid[number % valid.len()];
            bytes.clear();
            bytes.extend_from_slice(sample);
            bytes[random.below(sample.len())] = random.below(256) as u8;
            if random.below(2) == 0 {
                bytes[random.below(sample.len())] ^= 1 << random.below(8);
            }
            read += u32::from(SignedData::read(&bytes).is_ok_and(|data| data.length <= bytes.len()));
        }
    });
    assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0));
    // Most changes hit a number, a hash or a point, which the signature is there for.
    assert!((500_000..990_000).contains(&read), "{read}");
}

/// Certificate revocation lists of these numbers of entries, each alone and in an envelope.
fn revocation_lists(counts: &[usize]) -> Vec<Vec<u8>> {
    let lists = |count: &usize| {
        let list = RevocationList { this_update: 1, next_update: 2, entries: vec![HashedId8([7; 8]); *count] }.emit();
        let to_be_signed = UnsignedData::new(&list, Psid::CRL, 5).to_be_signed();
        let signer = SignerField::Digest(HashedId8([1; 8]));
        let envelope = UnsignedData::emit(&to_be_signed, signer, ([3; 32], [4; 32]));
        [list, envelope]
    };
    counts.iter().flat_map(lists).collect()
}

/// Two million certificate revocation lists, alone and in envelopes, changed in one or two octets: no panic, no memory that
/// grows with what a list promises, and none that remains.
#[test]
fn two_million_mutated_revocation_lists_never_panic_and_keep_memory_flat() {
    let (short, long) = (revocation_lists(&[0, 1, 2, 6]), revocation_lists(&[255, 256, limits::REVOKED]));
    mutate(0x0294_1001, &[&short[..], &long].concat(), fuzz::revocation);
    let mut random = Random(0x0294_1002);
    let (mut read, mut refused) = (0_u32, 0_u32);
    let mut bytes = Vec::with_capacity(limits::LIST);
    let allocated = allocation_counter::measure(|| {
        for number in 0..2_000_000 {
            // Long lists take a debug build a hundred times as long.
            let valid = if number % 256 < long.len() { &long } else { &short };
            bytes.clear();
            bytes.extend_from_slice(&valid[number % valid.len()]);
            let length = bytes.len();
            bytes[random.below(length)] = random.below(256) as u8;
            if random.below(2) == 0 {
                bytes[random.below(length)] ^= 1 << random.below(8);
            }
            let payload = SignedData::read_list(&bytes).map_or(&bytes[..], |envelope| envelope.payload);
            match RevocationList::parse(payload) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    });
    assert_eq!((allocated.count_current, allocated.bytes_current), (0, 0));
    // The entries of one list, and the vector of half the size that they are moved from.
    assert!(allocated.bytes_max <= 2 * 8 * limits::REVOKED as u64, "{}", allocated.bytes_max);
    assert!(read > 500_000 && refused > 200_000, "{read} {refused}");
}

#[test]
fn mutated_certificates_never_panic() {
    let valid: Vec<Vec<u8>> =
        vectors().into_iter().filter(|vector| vector.good && !vector.is_data).map(|vector| vector.octets).collect();
    mutate(0x1609_0003, &valid, fuzz::certificate);
}

#[test]
fn what_is_emitted_is_read_again() {
    let location = Location { place: Coordinates { latitude: -1, longitude: 7 }, elevation: 4096 };
    for (psid, location) in [(Psid::CAM, None), (Psid::DENM, Some(location)), (Psid::IPV6, None), (Psid(0), None)] {
        for length in [0, 0x7f, 0x80, 0x100, 1400] {
            let payload = vec![7; length];
            let data = UnsignedData { location, ..UnsignedData::new(&payload, psid, 5) };
            let to_be_signed = data.to_be_signed();
            let signer = HashedId8([1, 2, 3, 4, 5, 6, 7, 8]);
            let octets = UnsignedData::emit(&to_be_signed, SignerField::Digest(signer), ([3; 32], [4; 32]));
            let read = SignedData::read(&octets).unwrap();
            assert_eq!(
                (read.length, read.payload, read.to_be_signed()),
                (octets.len(), &payload[..], &to_be_signed[..])
            );
            assert_eq!((read.header.psid, read.header.generation_time), (psid, Some(5)));
            assert_eq!((read.header.location, read.signer), (location, SignerIdentifier::Digest(signer)));
            assert_eq!((read.signature.r.x, read.signature.s), (&[3; 32][..], &[4; 32][..]));
        }
    }
}

/// tshark 4.0 knows no P-384 key, and reads neither a signed integer of a certificate nor missingCrlIdentifier.
#[test]
fn tshark_reads_the_same() {
    let is_known = |vector: &Vector| {
        let unknown = ["p384", "requested-certificate", "both-additions", "all-fields"];
        let has_inner_packet = vector.number("payload") == Some(81);
        has_inner_packet && !unknown.iter().any(|name| vector.name.starts_with(name))
    };
    let vectors: Vec<Vector> = good_data().into_iter().filter(is_known).collect();
    // Ethernet, and a Basic Header before a secured packet.
    let header = octets("ffffffffffff020000000001894712005001");
    let frames: Vec<Vec<u8>> = vectors.iter().map(|vector| [&header[..], &vector.octets].concat()).collect();
    for frame in &frames {
        SecuredPacket::parse(&frame[14..]).unwrap();
    }
    let fields = ["_ws.malformed", "ieee1609dot2.psid", "ieee1609dot2.generationTime", "ieee1609dot2.digest"];
    let Some(text) = fields_of_link(ETHERNET, &frames, &fields) else { return };
    assert!(vectors.len() > 40 && text.lines().count() == vectors.len(), "{}", text.lines().count());
    for (line, vector) in text.lines().zip(&vectors) {
        let field = |name: &str| vector.fields.get(name).copied().unwrap_or_default();
        let digest =
            if SignedData::read(&vector.octets).unwrap().signer.certificate().is_some() { "" } else { field("digest") };
        let [malformed, psid, time, seen] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        // A certificate has psids of its own.
        let psid = psid.split(',').next().unwrap();
        assert_eq!((malformed, psid, time, seen), ("", field("psid"), field("time"), digest), "{}", vector.name);
    }
}

/// The same octets as another implementation writes, for the fields that roam6 sends.
#[test]
fn data_to_be_signed_are_those_of_the_vectors() {
    let mut compared = 0;
    for Vector { name, octets, .. } in good_data() {
        let signed = SignedData::read(&octets).unwrap();
        let header = signed.header;
        let requests: Vec<HashedId3> = header.requests.iter().collect();
        let certificate = header.requested_certificate();
        let (Some(generation_time), 0, None, false, false, None) = (
            header.generation_time,
            header.unknown_additions,
            header.expiry_time,
            header.has_missing_crl,
            header.has_encryption_key,
            header.p2pcd_learning_request,
        ) else {
            continue;
        };
        let data = UnsignedData {
            location: header.location,
            requests: &requests,
            requested_certificate: certificate.as_ref().map(|certificate| certificate.octets()),
            ..UnsignedData::new(signed.payload, header.psid, generation_time)
        };
        // Bitmaps of other widths, and an empty list, are never written.
        if (name.starts_with("bitmap-") && name != "bitmap-2") || name == "requests-0" {
            continue;
        }
        assert_eq!(data.to_be_signed(), signed.to_be_signed(), "{name}");
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}
