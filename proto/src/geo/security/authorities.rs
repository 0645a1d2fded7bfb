//! The chain from an authorisation ticket to a trusted root: ETSI TS 103 097 §7.2, IEEE 1609.2 §5.1.2.

use super::tickets::parsed;
use super::{Refusal, region};
use crate::contract::config::geo::{CertificateOctets, SecurityConfig};
use crate::contract::report::DropReason;
use crate::contract::signature::SignatureAlgorithm;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::geo::Coordinates;
use roam6_wire::security::{
    Certificate, CertificateId, Curve, HashAlgorithm, HashedId3, HashedId8, IssuerIdentifier, PublicKey,
};
use std::collections::{BTreeMap, BTreeSet};

/// Authorities above a certificate, at most.
const MAX_CHAIN: usize = 4;

/// Authorities learnt from other stations, at most.
pub(super) const MAX_LEARNT: usize = 64;

/// The times of verifications in relation to NIST P-256 (docs/measured.md).
const COST_P384: u32 = 6;
const COST_BRAINPOOL_P256: u32 = 10;
const COST_BRAINPOOL_P384: u32 = 25;

/// A public key that the host can verify signatures with.
#[derive(Debug, Clone)]
pub(super) struct SignatureKey {
    pub(super) curve: Curve,
    pub(super) algorithm: SignatureAlgorithm,
    /// The point: uncompressed with the curves of NIST, else as in the certificate.
    pub(super) point: Vec<u8>,
}

impl SignatureKey {
    pub(super) fn of(key: &PublicKey<'_>) -> Result<SignatureKey, Refusal> {
        let wrong = || Refusal::refuted(DropReason::InvalidCertificate, "the key is no point of its curve");
        let sec1 = key.point.sec1().ok_or_else(wrong)?;
        let (algorithm, point) = match key.curve {
            Curve::NistP256 => {
                let point = p256::PublicKey::from_sec1_bytes(&sec1).map_err(|_| wrong())?;
                (SignatureAlgorithm::EcdsaP256Sha256, point.to_encoded_point(false).as_bytes().to_vec())
            }
            Curve::NistP384 => {
                let point = p384::PublicKey::from_sec1_bytes(&sec1).map_err(|_| wrong())?;
                (SignatureAlgorithm::EcdsaP384Sha384, point.to_encoded_point(false).as_bytes().to_vec())
            }
            // The host finds out whether it is a point of the curve: few stations have such keys.
            Curve::BrainpoolP256r1 => (SignatureAlgorithm::EcdsaBrainpoolP256r1Sha256, sec1),
            Curve::BrainpoolP384r1 => (SignatureAlgorithm::EcdsaBrainpoolP384r1Sha384, sec1),
        };
        Ok(SignatureKey { curve: key.curve, algorithm, point })
    }

    pub(super) fn hash(&self) -> HashAlgorithm {
        match self.algorithm {
            SignatureAlgorithm::EcdsaP256Sha256 | SignatureAlgorithm::EcdsaBrainpoolP256r1Sha256 => {
                HashAlgorithm::Sha256
            }
            SignatureAlgorithm::EcdsaP384Sha384 | SignatureAlgorithm::EcdsaBrainpoolP384r1Sha384 => {
                HashAlgorithm::Sha384
            }
        }
    }

    /// The time of a verification, in verifications with NIST P-256.
    pub(super) fn cost(&self) -> u32 {
        cost_of(self.curve)
    }
}

/// The time of a verification with a curve, in verifications with NIST P-256.
pub(super) fn cost_of(curve: Curve) -> u32 {
    match curve {
        Curve::NistP256 => 1,
        Curve::NistP384 => COST_P384,
        Curve::BrainpoolP256r1 => COST_BRAINPOOL_P256,
        Curve::BrainpoolP384r1 => COST_BRAINPOOL_P384,
    }
}

/// An authority, whose signature was verified when the configuration was read.
#[derive(Debug)]
pub(super) struct Authority {
    octets: Vec<u8>,
    /// `None`: a root.
    issuer: Option<HashedId8>,
    /// Its key, or why it cannot be used.
    key: Result<SignatureKey, Refusal>,
}

impl Authority {
    pub(super) fn certificate(&self) -> Result<Certificate<'_>, Refusal> {
        parsed(&self.octets)
    }

    pub(super) fn key(&self) -> Result<&SignatureKey, Refusal> {
        self.key.as_ref().map_err(Clone::clone)
    }
}

/// The authorities of the configuration.
#[derive(Debug)]
pub(super) struct Authorities {
    known: BTreeMap<HashedId8, Authority>,
    revoked: BTreeSet<HashedId8>,
    /// Those of `known` that are not in the configuration.
    learnt: usize,
}

impl Authorities {
    pub(super) fn new(config: &SecurityConfig) -> Authorities {
        let revoked = config.revoked.iter().copied().map(HashedId8).collect();
        Authorities { known: configured(&config.roots, &config.authorities), revoked, learnt: 0 }
    }

    /// Replaces the authorities of the configuration. Those that stations have sent stay known if their roots do.
    pub(super) fn replace(&mut self, roots: &[CertificateOctets], authorities: &[CertificateOctets]) {
        let former = std::mem::replace(&mut self.known, configured(roots, authorities));
        let configured = self.known.len();
        let others = former.into_iter().filter(|(digest, _)| !self.known.contains_key(digest)).collect::<Vec<_>>();
        for (digest, authority) in others {
            let is_kept = authority.issuer.is_some_and(|issuer| self.known.contains_key(&issuer));
            if is_kept && self.known.len() - configured < MAX_LEARNT {
                self.known.insert(digest, authority);
            }
        }
        self.learnt = self.known.len() - configured;
    }

    pub(super) fn set_revoked(&mut self, revoked: &[[u8; 8]]) {
        self.revoked = revoked.iter().copied().map(HashedId8).collect();
    }

    /// The certificate with this short name; none of a root, which nobody learns from other stations.
    pub(super) fn find(&self, name: HashedId3) -> Option<&[u8]> {
        let found = self.known.iter().find(|(digest, authority)| digest.short() == name && authority.issuer.is_some());
        found.map(|(_, authority)| authority.octets.as_slice())
    }

    /// The trusted root that has issued the certificate of an authority, which is new here; `time` in seconds of TAI since
    /// 2004.
    pub(super) fn root_of(&self, certificate: &Certificate<'_>, time: u64) -> Result<&Authority, Refusal> {
        if matches!(certificate.id, CertificateId::None) || certificate.issue_permissions.is_none() {
            let detail = "the certificate asked for is not that of an authority";
            return Err(Refusal::refuted(DropReason::InvalidCertificate, detail));
        }
        check_validity(certificate, time)?;
        let chain = self.chain(certificate)?;
        match chain.as_slice() {
            [root] if root.issuer.is_none() => Ok(root),
            _ => Err(Refusal::open(DropReason::UnknownCertificate, "no trusted root has issued the certificate")),
        }
    }

    /// Adds an authority whose signature was verified; `false` if there is no room.
    pub(super) fn add(&mut self, octets: Vec<u8>) -> Result<bool, Refusal> {
        let certificate = parsed(&octets)?;
        let IssuerIdentifier::Digest(_, issuer) = certificate.issuer else { return Ok(true) };
        let digest = certificate.digest();
        let key = SignatureKey::of(&certificate.verification_key);
        if self.known.contains_key(&digest) {
            return Ok(true);
        }
        if self.learnt >= MAX_LEARNT {
            return Ok(false);
        }
        self.learnt += 1;
        self.known.insert(digest, Authority { octets, issuer: Some(issuer), key });
        Ok(true)
    }

    /// The chain above a certificate: its issuer first, its root last.
    fn chain(&self, certificate: &Certificate<'_>) -> Result<Vec<&Authority>, Refusal> {
        let mut chain = Vec::new();
        let mut next = match certificate.issuer {
            IssuerIdentifier::Digest(_, issuer) => Some(issuer),
            IssuerIdentifier::Own(_) => {
                return Err(Refusal::refuted(DropReason::InvalidCertificate, "a root authority signs no packets"));
            }
        };
        while let Some(digest) = next {
            let Some(authority) = self.known.get(&digest).filter(|_| chain.len() < MAX_CHAIN) else {
                let detail = format!("the authority {digest} is not known, or not trusted");
                return Err(Refusal::missing(digest, detail));
            };
            if self.revoked.contains(&digest) {
                return Err(Refusal::refuted(
                    DropReason::InvalidCertificate,
                    format!("the authority {digest} is revoked"),
                ));
            }
            chain.push(authority);
            next = authority.issuer;
        }
        Ok(chain)
    }

    /// The issuer of the certificate of a station, which is new here; `time` in seconds of TAI since 2004.
    pub(super) fn issuer_of_ticket(&self, certificate: &Certificate<'_>, time: u64) -> Result<&Authority, Refusal> {
        let is_ticket = certificate.id == CertificateId::None
            && certificate.crl == ([0; 3], 0)
            && certificate.issue_permissions.is_none()
            && certificate.request_permissions.is_none();
        if !is_ticket {
            return Err(Refusal::refuted(DropReason::InvalidCertificate, "the certificate is no authorisation ticket"));
        }
        let chain = self.chain(certificate)?;
        for (authority, length) in chain.iter().zip(1..) {
            let certificate_of_authority = authority.certificate()?;
            check_validity(&certificate_of_authority, time)?;
            let groups = certificate_of_authority.issue_permissions.unwrap_or_default();
            for permission in certificate.app_permissions.iter() {
                if !groups.iter().any(|group| group.permits(&permission, length)) {
                    let detail = format!("the issuer of the certificate must not permit {}", permission.psid);
                    return Err(Refusal::refuted(DropReason::InvalidCertificate, detail));
                }
            }
        }
        let unknown = || Refusal::open(DropReason::UnknownCertificate, "no authority");
        chain.first().copied().ok_or_else(unknown)
    }

    /// Checks a certificate of a station, which has this digest, when it is used, with those above it: whether they are valid,
    /// in time and place, and not revoked.
    pub(super) fn check_use(
        &self,
        (certificate, digest): (&Certificate<'_>, HashedId8),
        time: u64,
        place: Coordinates,
    ) -> Result<(), Refusal> {
        if self.revoked.contains(&digest) {
            return Err(Refusal::refuted(DropReason::InvalidCertificate, "the certificate is revoked"));
        }
        check_validity(certificate, time)?;
        region::check(certificate, place)?;
        for authority in self.chain(certificate)? {
            let certificate = authority.certificate()?;
            check_validity(&certificate, time)?;
            region::check(&certificate, place)?;
        }
        Ok(())
    }
}

/// The authorities of the configuration, which has checked them.
fn configured(roots: &[CertificateOctets], authorities: &[CertificateOctets]) -> BTreeMap<HashedId8, Authority> {
    let roots = roots.iter().map(|octets| (octets, true));
    let all = roots.chain(authorities.iter().map(|octets| (octets, false)));
    let authority = |(octets, is_root): (&CertificateOctets, bool)| {
        let certificate = Certificate::parse(&octets.0).ok()?;
        let issuer = match certificate.issuer {
            IssuerIdentifier::Digest(_, issuer) if !is_root => Some(issuer),
            _ => None,
        };
        let key = SignatureKey::of(&certificate.verification_key);
        Some((certificate.digest(), Authority { octets: octets.0.clone(), issuer, key }))
    };
    all.filter_map(authority).collect()
}

fn check_validity(certificate: &Certificate<'_>, time: u64) -> Result<(), Refusal> {
    if certificate.validity.includes(time) {
        return Ok(());
    }
    let what = if time < u64::from(certificate.validity.start) { "is not yet valid" } else { "has expired" };
    let detail = format!("the certificate {} {what}", certificate.digest());
    Err(Refusal::refuted(DropReason::InvalidCertificate, detail))
}
