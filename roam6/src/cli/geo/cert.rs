//! `roam6 geo cert show`: certificates and security envelopes (IEEE 1609.2, ETSI TS 103 097) in files and captures. A
//! signature is verified if the certificate of the signer is in the same file.

use super::capture;
use crate::certificate::{ITS_EPOCH, verify};
use crate::cli::output::{print, to_json};
use crate::exit::Failure;
use core::time::Duration;
use roam6_wire::geo::{Coordinates, SecuredPacket};
use roam6_wire::security::{
    Certificate, CertificateId, GeographicRegion, HashedId8, IssuerIdentifier, PointForm, SignedData, SignerIdentifier,
    Ssp, SubjectPermissions,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// Octets of the largest file that is read.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// A certificate or an envelope.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Shown {
    Certificate(ShownCertificate),
    Packet(ShownPacket),
    /// What is neither, and why.
    Malformed {
        octets: usize,
        error: String,
    },
}

#[derive(Debug, Serialize)]
struct ShownCertificate {
    digest: String,
    octets: usize,
    issuer: String,
    name: Option<String>,
    valid_from: String,
    valid_until: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    key: String,
    may_sign: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    may_permit: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ShownPacket {
    octets: usize,
    psid: String,
    generation_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    payload: usize,
    signer: Option<String>,
    with_certificate: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<String>,
    signature: &'static str,
}

/// Shows what a file contains.
///
/// # Errors
/// If the file cannot be read, or contains neither a certificate nor an envelope.
pub(super) fn show(file: &Path, json: bool) -> Result<ExitCode, Failure> {
    let refuse = |why: String| Failure::Other(format!("{}: {why}", file.display()));
    let length = std::fs::metadata(file).map_err(|error| refuse(error.to_string()))?.len();
    if length > MAX_FILE {
        return Err(refuse(format!("larger than {MAX_FILE} octets; cut the capture with editcap")));
    }
    let octets = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    let shown = shown(&octets).map_err(refuse)?;
    if shown.is_empty() {
        return Err(refuse("no secured GeoNetworking packet and no certificate in it".to_owned()));
    }
    Ok(print(&if json { to_json(&shown) } else { text(&shown) }))
}

/// The certificates and envelopes in a file.
fn shown(file: &[u8]) -> Result<Vec<Shown>, String> {
    let is_capture = capture::is_capture(file);
    let parts = match (is_capture, hexadecimal(file)) {
        (true, _) => capture::frames(file)?,
        (false, Some(lines)) => lines,
        (false, None) => vec![file.to_vec()],
    };
    let parts: Vec<&[u8]> =
        parts.iter().filter_map(|part| if is_capture { secured(part) } else { Some(part.as_slice()) }).collect();
    // Certificates may follow the packets that they belong to.
    let mut known = BTreeMap::new();
    for part in &parts {
        let certificates = match decode(part) {
            Decoded::Certificate(certificate) => vec![certificate],
            Decoded::Packet(_, signed) => {
                signed.signer.certificate().into_iter().chain(signed.header.requested_certificate()).collect()
            }
            Decoded::Malformed(_) => vec![],
        };
        known.extend(certificates.into_iter().map(|certificate| (certificate.digest(), certificate)));
    }
    let show = |part: &&[u8]| match decode(part) {
        Decoded::Certificate(certificate) => Shown::Certificate(describe_certificate(&certificate, &known)),
        Decoded::Packet(source, signed) => Shown::Packet(describe_packet(part.len(), source, &signed, &known)),
        Decoded::Malformed(error) => Shown::Malformed { octets: part.len(), error },
    };
    Ok(parts.iter().map(show).collect())
}

/// The octets of lines in hexadecimal; `None` if the file has anything else.
fn hexadecimal(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let text = std::str::from_utf8(file).ok()?;
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let line = |line: &str| {
        let digits: Vec<u8> = line.bytes().filter(|digit| !digit.is_ascii_whitespace() && *digit != b':').collect();
        let (pairs, odd) = digits.as_chunks::<2>();
        let are_digits = odd.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        are_digits.then(|| pairs.iter().map(|pair| octet(pair)).collect::<Option<Vec<u8>>>()).flatten()
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

/// The GeoNetworking packet of an Ethernet frame, if it is secured.
fn secured(frame: &[u8]) -> Option<&[u8]> {
    let (_, rest) = frame.split_at_checked(12)?;
    let packet = match rest {
        [0x89, 0x47, packet @ ..] | [0x81, 0, _, _, 0x89, 0x47, packet @ ..] => packet,
        _ => return None,
    };
    roam6_wire::geo::is_secured(packet).then_some(packet)
}

enum Decoded<'a> {
    Certificate(Certificate<'a>),
    /// An envelope, and the source of the packet if it is known.
    Packet(Option<String>, SignedData<'a>),
    Malformed(String),
}

/// Decodes a certificate, an envelope, a secured packet, or a frame with one.
fn decode(octets: &[u8]) -> Decoded<'_> {
    let decoded = match octets {
        [0x80, ..] => Certificate::parse(octets).map(Decoded::Certificate),
        [3, ..] => SignedData::read(octets).map(|signed| Decoded::Packet(None, signed)),
        [0x12, ..] => SecuredPacket::parse(octets).map(|secured| {
            let source = secured.packet.extended.source().address.to_string();
            Decoded::Packet(Some(source), secured.signed)
        }),
        _ => match secured(octets) {
            Some(packet) if packet.first() == Some(&0x12) => return decode(packet),
            _ => return Decoded::Malformed("neither a certificate nor a secured packet".to_owned()),
        },
    };
    decoded.unwrap_or_else(|error| Decoded::Malformed(error.to_string()))
}

fn describe_certificate(
    certificate: &Certificate<'_>,
    known: &BTreeMap<HashedId8, Certificate<'_>>,
) -> ShownCertificate {
    let (issuer, of_issuer) = match certificate.issuer {
        IssuerIdentifier::Own(_) => ("itself".to_owned(), None),
        IssuerIdentifier::Digest(_, digest) => (digest.to_string(), Some(known.get(&digest))),
    };
    let signature = match of_issuer {
        None => Some(verify(&certificate.message(None), &certificate.verification_key, &certificate.signature)),
        Some(Some(issuer)) => {
            Some(verify(&certificate.message(Some(issuer)), &issuer.verification_key, &certificate.signature))
        }
        Some(None) => None,
    };
    let may_sign = certificate.app_permissions.iter().map(|permission| match permission.ssp {
        Ssp::Absent => permission.psid.to_string(),
        Ssp::Opaque(octets) => format!("{} opaque {}", permission.psid, hex(octets)),
        Ssp::Bitmap(octets) => format!("{} {}", permission.psid, hex(octets)),
    });
    let groups = certificate.issue_permissions.unwrap_or_default();
    let may_permit = groups.iter().flat_map(|group| match group.subjects {
        SubjectPermissions::All => vec!["all".to_owned()],
        SubjectPermissions::Explicit(ranges) => ranges.iter().map(|range| range.psid.to_string()).collect(),
    });
    let curve = certificate.verification_key.curve;
    ShownCertificate {
        digest: certificate.digest().to_string(),
        octets: certificate.octets().len(),
        issuer,
        name: match certificate.id {
            CertificateId::None => None,
            CertificateId::Name(name) => Some(name.escape_debug().to_string()),
        },
        valid_from: utc(certificate.validity.start.into()),
        valid_until: utc(certificate.validity.end()),
        region: certificate.region.map(|region| describe_region(&region)),
        key: format!("{curve}, {}", describe_form(certificate.verification_key.point.form)),
        may_sign: may_sign.collect(),
        may_permit: may_permit.collect(),
        signature: Some(verdict(signature)),
    }
}

fn describe_packet(
    octets: usize,
    source: Option<String>,
    signed: &SignedData<'_>,
    known: &BTreeMap<HashedId8, Certificate<'_>>,
) -> ShownPacket {
    let digest = signed.signer.digest();
    let signer = digest.and_then(|digest| known.get(&digest));
    let signature =
        signer.map(|signer| verify(&signed.message(Some(signer)), &signer.verification_key, &signed.signature));
    ShownPacket {
        octets,
        psid: signed.header.psid.to_string(),
        generation_time: signed.header.generation_time.map(|micros| utc(micros / 1_000_000)),
        location: signed.header.location.map(|location| location.place.to_string()),
        source,
        payload: signed.payload.len(),
        signer: digest.map(|digest| digest.to_string()),
        with_certificate: matches!(signed.signer, SignerIdentifier::Certificate(_)),
        requests: signed.header.requests.iter().map(|short| short.to_string()).collect(),
        signature: verdict(signature),
    }
}

fn describe_region(region: &GeographicRegion<'_>) -> String {
    let places = |points: &mut dyn Iterator<Item = Coordinates>| {
        points.map(|place| place.to_string()).collect::<Vec<_>>().join("; ")
    };
    match region {
        GeographicRegion::Circular { center, radius } => format!("circle {center}, {radius} m"),
        GeographicRegion::Rectangular(corners) => format!("rectangles {}", places(&mut corners.iter())),
        GeographicRegion::Polygonal(corners) => format!("polygon {}", places(&mut corners.iter())),
        GeographicRegion::Identified(countries) => {
            let country = |region: roam6_wire::security::IdentifiedRegion| match region.parts {
                0 => region.country.to_string(),
                parts => format!("{} ({parts} parts)", region.country),
            };
            format!("countries {}", countries.iter().map(country).collect::<Vec<_>>().join(", "))
        }
    }
}

fn describe_form(form: PointForm) -> &'static str {
    match form {
        PointForm::XOnly => "x only",
        PointForm::CompressedY0 | PointForm::CompressedY1 => "compressed",
        PointForm::Uncompressed => "uncompressed",
    }
}

fn verdict(signature: Option<bool>) -> &'static str {
    match signature {
        Some(true) => "valid",
        Some(false) => "INVALID",
        None => "not verified",
    }
}

/// Seconds of TAI since 2004 as UTC.
pub(super) fn utc(seconds: u64) -> String {
    let unix = ITS_EPOCH.saturating_add(seconds);
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(unix));
    // The formatter knows years of four digits only.
    let known = time.filter(|_| unix < 253_402_300_800);
    known.map_or_else(|| format!("{seconds} s after 2004"), |time| humantime::format_rfc3339_seconds(time).to_string())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn text(shown: &[Shown]) -> String {
    let mut text = String::new();
    for item in shown {
        let (head, lines) = match item {
            Shown::Certificate(certificate) => certificate_lines(certificate),
            Shown::Packet(packet) => packet_lines(packet),
            Shown::Malformed { octets, error } => {
                (format!("malformed, {octets} octets"), vec![("error", error.clone())])
            }
        };
        let _ = writeln!(text, "{head}");
        for (name, value) in lines {
            let _ = writeln!(text, "  {name:<12} {value}");
        }
    }
    text
}

fn certificate_lines(certificate: &ShownCertificate) -> (String, Vec<(&'static str, String)>) {
    let ShownCertificate { digest, octets, .. } = certificate;
    let mut lines = vec![("issuer", certificate.issuer.clone())];
    lines.extend(certificate.name.clone().map(|name| ("name", name)));
    lines.push(("valid", format!("{} until {}", certificate.valid_from, certificate.valid_until)));
    lines.extend(certificate.region.clone().map(|region| ("region", region)));
    lines.push(("key", certificate.key.clone()));
    lines.push(("may sign", certificate.may_sign.join("; ")));
    if !certificate.may_permit.is_empty() {
        lines.push(("may permit", certificate.may_permit.join("; ")));
    }
    lines.extend(certificate.signature.map(|verdict| ("signature", verdict.to_owned())));
    (format!("certificate {digest}, {octets} octets"), lines)
}

fn packet_lines(packet: &ShownPacket) -> (String, Vec<(&'static str, String)>) {
    let optional = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let with = if packet.with_certificate { " (with its certificate)" } else { "" };
    let mut lines = vec![("signer", format!("{}{with}", optional(&packet.signer)))];
    lines.push(("generated", optional(&packet.generation_time)));
    lines.extend(packet.location.clone().map(|location| ("at", location)));
    lines.extend(packet.source.clone().map(|source| ("source", source)));
    if !packet.requests.is_empty() {
        lines.push(("requests", packet.requests.join(", ")));
    }
    lines.push(("signature", packet.signature.to_owned()));
    (format!("packet of service {}, {} octets", packet.psid, packet.octets), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../../../../wire/tests/wire/vectors/security.tsv");

    fn vector(name: &str, kind: &str) -> &'static str {
        let line = VECTORS.lines().find(|line| line.starts_with(&format!("good\t{kind}\t{name}\t"))).unwrap();
        line.split('\t').nth(3).unwrap()
    }

    fn octets(hex: &str) -> Vec<u8> {
        hexadecimal(hex.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn certificates_are_shown_and_verified() {
        let own = shown(&octets(vector("root-p256", "certificate"))).unwrap();
        let expected = "itself\n  name         root p256\n";
        let shown_root = text(&own);
        assert!(shown_root.contains(expected) && shown_root.ends_with("signature    valid\n"), "{shown_root}");
        assert!(
            shown_root.contains("36 (CAM) 01fffc; 37 (DENM) 01ffffff; 141 (GeoNetworking management);"),
            "{shown_root}"
        );
        let mut changed = octets(vector("root-p256", "certificate"));
        *changed.last_mut().unwrap() ^= 1;
        assert!(text(&shown(&changed).unwrap()).ends_with("signature    INVALID\n"));
        let of_brainpool = text(&shown(&octets(vector("root-bp384", "certificate"))).unwrap());
        assert!(of_brainpool.ends_with("signature    valid\n"), "{of_brainpool}");
    }

    #[test]
    fn a_packet_is_verified_by_a_certificate_that_follows() {
        let lines = [vector("digest", "data"), vector("certificate", "data")].join("\n");
        let all = text(&shown(lines.as_bytes()).unwrap());
        assert_eq!(all.matches("signature    valid").count(), 2, "{all}");
        let alone = text(&shown(vector("digest", "data").as_bytes()).unwrap());
        assert!(alone.contains("not verified") && alone.contains("2026-10-13T18:13:15Z"), "{alone}");
    }

    #[test]
    fn captures_are_read_whatever_their_form() {
        let frame = octets(&format!("ffffffffffff020000000001894712005001{}", vector("certificate", "data")));
        let (length, other) = (frame.len() as u32, vec![0; 60]);
        let mut classic = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65535, 1] {
            classic.extend(word.to_le_bytes());
        }
        for bytes in [&other, &frame] {
            for word in [0, 0, bytes.len() as u32, bytes.len() as u32] {
                classic.extend(word.to_le_bytes());
            }
            classic.extend(bytes);
        }
        let mut next = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let padded = body.len().next_multiple_of(4);
            let total = 12 + padded as u32;
            next.extend([kind.to_be_bytes(), total.to_be_bytes()].concat());
            next.extend(body);
            next.resize(next.len() + padded - body.len(), 0);
            next.extend(total.to_be_bytes());
        };
        block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        block(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
        let head = [0_u32, 0, 0, length, length].map(u32::to_be_bytes).concat();
        block(6, &[head, frame.clone()].concat());
        for capture in [&classic, &next] {
            let all = shown(capture).unwrap();
            assert!(matches!(all[..], [Shown::Packet(_)]), "{all:?}");
            for cut in 0..capture.len() {
                let _ = shown(&capture[..cut]);
            }
        }
    }

    #[test]
    fn hostile_files_are_refused_or_shown_as_malformed() {
        for file in [&b""[..], b"zz", b"0", &[0x80], &[3, 0x81], &[0x12, 0, 0, 0], &[0xd4, 0xc3, 0xb2, 0xa1]] {
            let all = shown(file);
            assert!(all.is_err() || all.unwrap().iter().all(|item| matches!(item, Shown::Malformed { .. })));
        }
        // A name that would move the cursor.
        let name = octets(vector("authority-brainpool", "certificate"));
        let at = name.windows(2).position(|part| part == b"AA").unwrap();
        let mut hostile = name.clone();
        hostile[at..at + 2].copy_from_slice(b"\x1b[");
        assert!(!text(&shown(&hostile).unwrap()).contains('\x1b'));
    }
}
