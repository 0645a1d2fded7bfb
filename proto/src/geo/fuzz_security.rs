//! Certificates for the fuzz harness. Their signatures are never looked at: authorities come with the configuration, and the host
//! of the harness decides which signatures are valid.

use crate::contract::config::geo::{CertificateOctets, SecurityConfig, SecurityMode};
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::security::{
    Certificate, CertificateId, Curve, CurvePoint, EndEntities, HashedId8, Issuance, Psid, PsidSsp, PublicKey, Ssp,
    TimeUnit, UnsignedCertificate, ValidityPeriod,
};

const SERVICES: [Psid; 3] = [Psid::CAM, Psid::GN_MANAGEMENT, Psid::IPV6];
/// An hour before the clock of the harness.
const START: u32 = 1_790_000_000 + 5 - 1_072_915_200 - 3_600;

/// The configuration of a station that signs.
pub(super) fn config(mode: SecurityMode) -> SecurityConfig {
    let root = certificate(1, None, Some(2));
    let authority = certificate(2, digest(&root), Some(1));
    let tickets = [3, 4].map(|number| CertificateOctets(certificate(number, digest(&authority), None)));
    SecurityConfig {
        mode,
        roots: vec![CertificateOctets(root)],
        authorities: vec![CertificateOctets(authority)],
        tickets: tickets.to_vec(),
        pseudonyms: mode == SecurityMode::Strict,
        ..SecurityConfig::default()
    }
}

fn digest(octets: &[u8]) -> Option<HashedId8> {
    Certificate::parse(octets).ok().map(|certificate| certificate.digest())
}

/// A certificate of an authority at this length of chain, or of a station.
fn certificate(number: u8, issuer: Option<HashedId8>, min_chain_length: Option<u8>) -> Vec<u8> {
    let permissions = SERVICES.map(|psid| PsidSsp { psid, ssp: Ssp::Absent });
    let key = p256::SecretKey::from_slice(&[number; 32]).map(|key| key.public_key().to_encoded_point(true));
    let key = key.map(|point| point.as_bytes().to_vec()).unwrap_or_default();
    let Some(point) = CurvePoint::from_sec1(&key, 32) else { return Vec::new() };
    let unsigned = UnsignedCertificate {
        issuer,
        id: if min_chain_length.is_some() { CertificateId::Name("authority") } else { CertificateId::None },
        validity: ValidityPeriod { start: START, unit: TimeUnit::Hours, duration: 1_000 },
        region: None,
        app_permissions: if min_chain_length.is_some() { &[] } else { &permissions },
        issue_permissions: min_chain_length.map(|min_chain_length| Issuance {
            services: &SERVICES,
            min_chain_length,
            holders: EndEntities::Application,
        }),
        encryption_key: None,
        key: PublicKey { curve: Curve::NistP256, point },
    };
    unsigned.emit(([number; 32], [number; 32]))
}
