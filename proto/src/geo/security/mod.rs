//! Verification of secured packets (ETSI TS 103 097 §5.2, IEEE 1609.2 §5.2): from the cheapest check to the signature, which
//! the host verifies. A packet has no effect on any other table before its signature is known to be valid, and only a
//! limited number of signatures is verified, so that forged packets cost no more than reading them.
//!
//! ```text
//! profile ─ time ─ budget left ─ pending, replay ─ signer ─ permissions, region ─ budget ─ [ticket by its authority] ─ packet
//! ```

mod authorities;
mod budget;
mod learning;
mod profile;
mod region;
mod replay;
mod signing;
mod tickets;

use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::{CertificateOctets, SecurityConfig, SecurityMode};
use crate::contract::engine::Outbox;
use crate::contract::input::Frame;
use crate::contract::report::DropReason;
use crate::contract::signature::{VerificationRequest, VerificationResult};
use authorities::{Authorities, SignatureKey};
use budget::{Budget, SenderKind};
use roam6_wire::geo::SecuredPacket;
use roam6_wire::security::{
    Certificate, HashedId3, HashedId8, Message, Psid, PublicKey, Signature, SignedData, SignerIdentifier, Ssp,
};
use sha2::{Digest, Sha256};
pub use signing::{PacketSigner, Unsigned};
use tickets::{Ticket, TicketCache};

/// Packets whose signatures the host is verifying, at most.
pub const MAX_PENDING: usize = 256;
/// Copies of one packet that wait for its verification, at most.
const MAX_COPIES: usize = 4;
/// Certificates with an invalid signature that are remembered.
const MAX_INVALID: usize = 512;

/// The time: of the node, and microseconds of TAI since 2004.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Since the start of the node.
    pub now: Time,
    /// Microseconds of TAI since 2004.
    pub its_micros: u64,
}

impl Moment {
    pub(super) fn its_seconds(self) -> u64 {
        self.its_micros / 1_000_000
    }
}

/// The signer of a verified packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer {
    /// The digest of its authorisation ticket.
    pub digest: HashedId8,
    /// Octets of its service specific permissions for the packet, behind their version; 0 if they are fewer.
    pub permissions: [u8; 3],
}

/// Why a packet is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The counter.
    pub reason: DropReason,
    /// What was wrong.
    pub detail: String,
    /// Whether somebody with other certificates, or more time, might verify it.
    pub is_open: bool,
    /// The certificate that is missing here to tell.
    pub missing: Option<HashedId8>,
}

impl Refusal {
    /// The packet is wrong for every receiver.
    pub(super) fn refuted(reason: DropReason, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: detail.into(), is_open: false, missing: None }
    }

    /// This station cannot tell.
    pub(super) fn open(reason: DropReason, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: detail.into(), is_open: true, missing: None }
    }

    /// A certificate is not known here.
    fn missing(certificate: HashedId8, detail: impl Into<String>) -> Refusal {
        Refusal { missing: Some(certificate), ..Refusal::open(DropReason::UnknownCertificate, detail) }
    }
}

/// What becomes of a secured packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It was verified before: a copy of a packet over several hops.
    Verified(Signer),
    /// Its signature is being verified.
    Pending,
    /// It is not verified.
    Refused(Refusal),
}

/// Verifies secured packets.
#[derive(Debug)]
pub struct Verifier {
    is_strict: bool,
    authorities: Authorities,
    tickets: TicketCache,
    pending: VecMap<u64, Pending>,
    next_request: u64,
    budget: Budget,
    /// Hashes of certificates with an invalid signature.
    invalid: std::collections::VecDeque<u64>,
    /// Certificates of authorities that stations have sent, and whose signatures are being verified.
    pending_authorities: VecMap<u64, Vec<u8>>,
}

/// A packet whose signature, or whose signer's certificate, is being verified.
#[derive(Debug)]
struct Pending {
    frame: Frame,
    fingerprint: u64,
    digest: HashedId8,
    /// The ticket whose certificate is being verified; `None` if it is the packet.
    candidate: Option<Ticket>,
    copies: Vec<Frame>,
}

/// What the result of a verification brings.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// A packet and its copies, verified; and their signer.
    pub verified: Option<VerifiedFrames>,
    /// Whether a certificate of a station is new here.
    pub is_newcomer: bool,
}

/// A packet and its copies, verified.
pub type VerifiedFrames = (Vec<Frame>, Signer);

impl Verifier {
    /// The verifier of a station with these certificates; `None` if it verifies nothing.
    pub fn new(config: &SecurityConfig) -> Option<Verifier> {
        config.mode.verifies().then(|| Verifier {
            is_strict: config.mode == SecurityMode::Strict,
            authorities: Authorities::new(config),
            tickets: TicketCache::default(),
            pending: VecMap::new(),
            next_request: 1,
            budget: Budget::new(config.verify_rate),
            invalid: std::collections::VecDeque::new(),
            pending_authorities: VecMap::new(),
        })
    }

    /// Replaces the digests of revoked certificates; what was verified before is checked against them with its next packet.
    pub fn set_revoked(&mut self, revoked: &[[u8; 8]]) {
        self.authorities.set_revoked(revoked);
    }

    /// Replaces the authorities. What was verified by one that is not among them is refused from its next packet on.
    pub fn set_authorities(&mut self, roots: &[CertificateOctets], authorities: &[CertificateOctets]) {
        self.authorities.replace(roots, authorities);
    }

    /// The certificate of an authority with this short name.
    pub fn authority(&self, name: HashedId3) -> Option<&[u8]> {
        self.authorities.find(name)
    }

    /// Examines the certificate of an authority that was asked for: its signature is verified if a trusted root has issued it.
    pub fn admit_authority(&mut self, at: Moment, frame: &Frame, octets: &[u8], out: &mut Outbox) {
        let request = self.authority_request(at, frame, octets);
        match request {
            Ok(request) => {
                let id = self.next_request;
                self.next_request += 1;
                self.pending_authorities.insert(id, octets.to_vec());
                out.verify(request.with_id(id));
            }
            Err(Refusal { reason, detail, .. }) => out.report_drop(reason, None, detail),
        }
    }

    fn authority_request(&mut self, at: Moment, frame: &Frame, octets: &[u8]) -> Result<Request, Refusal> {
        let (certificate, waiting) = (tickets::parsed(octets)?, self.waiting());
        let root = self.authorities.root_of(&certificate, at.its_seconds())?;
        let key = root.key()?;
        take(&mut self.budget, waiting, (at.now, frame), (SenderKind::Unknown, key.cost()))?;
        Request::new(&certificate.message(Some(&root.certificate()?)), &certificate.signature, key)
    }

    /// Whether packets are dropped that are not verified.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// When a ticket that is known expires: seconds of TAI since 2004.
    pub fn expiry(&self, ticket: HashedId8) -> Option<u64> {
        Some(self.tickets.find(ticket)?.certificate().ok()?.validity.end())
    }

    /// The number of authorisation tickets known.
    pub fn tickets(&self) -> usize {
        self.tickets.len()
    }

    /// Packets whose signatures are being verified.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Examines a secured packet, and requests the verification of its signature if all else is right.
    pub fn admit(&mut self, at: Moment, frame: &Frame, secured: &SecuredPacket<'_>, out: &mut Outbox) -> Admission {
        self.examine(at, frame, secured, out).unwrap_or_else(Admission::Refused)
    }

    fn examine(
        &mut self,
        at: Moment,
        frame: &Frame,
        SecuredPacket { packet, signed, .. }: &SecuredPacket<'_>,
        out: &mut Outbox,
    ) -> Result<Admission, Refusal> {
        let generated = profile::check(packet, signed)?;
        profile::check_time(packet, generated, at.its_micros)?;
        let (single_hop, waiting) = (packet.extended.is_single_hop(), self.waiting());
        // Copies of a multi-hop packet need no budget. A single-hop packet with an unknown certificate causes a request for it.
        let is_missing =
            matches!(signed.signer, SignerIdentifier::Digest(digest) if self.tickets.find(digest).is_none());
        if single_hop && !is_missing && self.budget.is_exhausted(at.now, frame.source) {
            return Err(over_budget());
        }
        let fingerprint = fingerprint(frame.bytes.get(4..).unwrap_or_default());
        if let Some(pending) = self.pending.values_mut().find(|pending| pending.fingerprint == fingerprint) {
            if pending.copies.len() < MAX_COPIES {
                pending.copies.push(frame.clone());
            }
            return Ok(Admission::Pending);
        }
        let psid = signed.header.psid;
        let digest = signed.signer.digest();
        let digest = digest.ok_or_else(|| Refusal::refuted(DropReason::InvalidCertificate, "signed by itself"))?;
        let place = packet.extended.source().place;
        if let Some(ticket) = self.tickets.find(digest) {
            let certificate = ticket.certificate()?;
            let signer = signer_of(digest, &certificate, psid)?;
            self.authorities.check_use((&certificate, digest), at.its_seconds(), place)?;
            if ticket.replay(single_hop).contains(fingerprint) {
                return if single_hop { Err(replayed("received before")) } else { Ok(Admission::Verified(signer)) };
            }
            if single_hop && ticket.replay(true).is_forgotten(generated) {
                return Err(replayed("older than what is remembered of its signer"));
            }
            take(&mut self.budget, waiting, (at.now, frame), (SenderKind::Known, ticket.key().cost()))?;
            let request = Request::of(signed, &certificate, ticket.key())?;
            self.request(frame.clone(), fingerprint, digest, None, request, out);
            return Ok(Admission::Pending);
        }
        let certificate = signed.signer.certificate();
        let certificate = certificate.ok_or_else(|| {
            Refusal::missing(digest, format!("signed with a certificate that is not known: {digest}"))
        })?;
        signer_of(digest, &certificate, psid)?;
        let hash = self::fingerprint(certificate.octets());
        if self.invalid.contains(&hash) {
            return Err(Refusal::refuted(DropReason::InvalidCertificate, "invalid signature of the certificate"));
        }
        let issuer = self.authorities.issuer_of_ticket(&certificate, at.its_seconds())?;
        self.authorities.check_use((&certificate, digest), at.its_seconds(), place)?;
        let (issuer_certificate, key) = (issuer.certificate()?, issuer.key()?);
        // The packet is verified if the certificate is valid.
        let cost = key.cost().saturating_add(authorities::cost_of(certificate.verification_key.curve) - 1);
        // The steps from here on are expensive: decompression of a key, and hashes.
        take(&mut self.budget, waiting, (at.now, frame), (SenderKind::Unknown, cost))?;
        let message = certificate.message(Some(&issuer_certificate));
        let request = Request::new(&message, &certificate.signature, key)?;
        let candidate = Ticket::new(&certificate)?;
        self.request(frame.clone(), fingerprint, digest, Some(candidate), request, out);
        Ok(Admission::Pending)
    }

    /// Signatures that are being verified.
    fn waiting(&self) -> usize {
        self.pending.len() + self.pending_authorities.len()
    }

    fn request(
        &mut self,
        frame: Frame,
        fingerprint: u64,
        digest: HashedId8,
        candidate: Option<Ticket>,
        request: Request,
        out: &mut Outbox,
    ) {
        let id = self.next_request;
        self.next_request += 1;
        self.pending.insert(id, Pending { frame, fingerprint, digest, candidate, copies: Vec::new() });
        out.verify(request.with_id(id));
    }

    /// Receives the result of a verification; returns the packet and its copies if that is verified.
    pub fn conclude(
        &mut self,
        at: Moment,
        result: VerificationResult,
        out: &mut Outbox,
    ) -> Result<Conclusion, Refusal> {
        if let Some(octets) = self.pending_authorities.remove(&result.id) {
            self.conclude_authority(octets, result.valid, out)?;
            return Ok(Conclusion::default());
        }
        // A result may come after all has changed.
        let Some(mut pending) = self.pending.remove(&result.id) else { return Ok(Conclusion::default()) };
        if let Some(candidate) = pending.candidate.take() {
            self.conclude_ticket(at, pending, candidate, result.valid, out)?;
            return Ok(Conclusion { verified: None, is_newcomer: true });
        }
        if !result.valid {
            return Err(Refusal::refuted(DropReason::BadAuthenticator, "invalid signature"));
        }
        let secured = SecuredPacket::parse(&pending.frame.bytes);
        let secured = secured.map_err(|error| Refusal::refuted(DropReason::Malformed, error.to_string()))?;
        let generated = secured.signed.header.generation_time.unwrap_or_default();
        let Some(ticket) = self.tickets.find_mut(pending.digest) else { return Ok(Conclusion::default()) };
        let signer = signer_of(pending.digest, &ticket.certificate()?, secured.signed.header.psid)?;
        ticket.note_verified(at.now, secured.packet.extended.is_single_hop(), (generated, pending.fingerprint));
        self.budget.note_verified(at.now, pending.frame.source);
        let frames = [pending.frame].into_iter().chain(pending.copies).collect();
        Ok(Conclusion { verified: Some((frames, signer)), is_newcomer: false })
    }

    fn conclude_authority(&mut self, octets: Vec<u8>, valid: bool, out: &mut Outbox) -> Result<(), Refusal> {
        if !valid {
            return Err(Refusal::refuted(
                DropReason::InvalidCertificate,
                "invalid signature of an authority's certificate",
            ));
        }
        if !self.authorities.add(octets)? {
            out.report_full_table("authorisation authorities", authorities::MAX_LEARNT);
        }
        Ok(())
    }

    /// The certificate of a ticket was verified: the packet is next.
    fn conclude_ticket(
        &mut self,
        at: Moment,
        pending: Pending,
        candidate: Ticket,
        valid: bool,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let certificate = candidate.certificate()?;
        if !valid {
            if self.invalid.len() >= MAX_INVALID {
                self.invalid.pop_front();
            }
            self.invalid.push_back(fingerprint(certificate.octets()));
            return Err(Refusal::refuted(DropReason::InvalidCertificate, "invalid signature of the certificate"));
        }
        let secured = SecuredPacket::parse(&pending.frame.bytes);
        let secured = secured.map_err(|error| Refusal::refuted(DropReason::Malformed, error.to_string()))?;
        let request = Request::of(&secured.signed, &certificate, candidate.key())?;
        if !self.tickets.insert(at.now, pending.digest, candidate) {
            out.report_full_table("authorisation tickets", tickets::MAX_TICKETS);
            return Err(Refusal::open(DropReason::OverBudget, "the table of authorisation tickets is full"));
        }
        let Pending { frame, fingerprint, digest, copies, .. } = pending;
        let id = self.next_request;
        self.request(frame, fingerprint, digest, None, request, out);
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.copies = copies;
        }
        Ok(())
    }
}

/// Takes the budget of one signature: how many wait for the host, who signs, and what the verification costs.
fn take(
    budget: &mut Budget,
    waiting: usize,
    (now, frame): (Time, &Frame),
    signer: (SenderKind, u32),
) -> Result<(), Refusal> {
    if waiting >= MAX_PENDING {
        return Err(Refusal::open(DropReason::OverBudget, "too many signatures are being verified"));
    }
    if budget.take(now, frame.source, signer) { Ok(()) } else { Err(over_budget()) }
}

fn over_budget() -> Refusal {
    Refusal::open(DropReason::OverBudget, "more signatures to verify than the budget allows")
}

/// What the host verifies to find out whether a signature is valid: for what is verified beside packets.
///
/// # Errors
/// The signature is invalid: its curve or hash is not that of the key, or the key is no point of its curve.
pub fn verification_request(
    message: &Message,
    key: &PublicKey<'_>,
    signature: &Signature<'_>,
) -> Result<VerificationRequest, Refusal> {
    Ok(Request::new(message, signature, &SignatureKey::of(key)?)?.with_id(0))
}

/// A signature to verify, without its number.
struct Request(VerificationRequest);

impl Request {
    /// That of a packet.
    fn of(signed: &SignedData<'_>, signer: &Certificate<'_>, key: &SignatureKey) -> Result<Request, Refusal> {
        Request::new(&signed.message(Some(signer)), &signed.signature, key)
    }

    fn new(message: &Message, signature: &Signature<'_>, key: &SignatureKey) -> Result<Request, Refusal> {
        if signature.curve != key.curve || message.algorithm() != key.hash() {
            let detail = "signature of another curve or hash than that of the key";
            return Err(Refusal::refuted(DropReason::BadAuthenticator, detail));
        }
        Ok(Request(VerificationRequest {
            id: 0,
            algorithm: key.algorithm,
            key: key.point.clone(),
            message: message.octets().to_vec(),
            signature: [signature.r.x, signature.s].concat(),
        }))
    }

    fn with_id(self, id: u64) -> VerificationRequest {
        VerificationRequest { id, ..self.0 }
    }
}

/// The signer of a packet of a service, if its certificate has the permission (IEEE 1609.2 §5.2.3.3.3).
fn signer_of(digest: HashedId8, certificate: &Certificate<'_>, psid: Psid) -> Result<Signer, Refusal> {
    let mut permissions = certificate.app_permissions.iter();
    let Some(permission) = permissions.find(|permission| permission.psid == psid) else {
        return Err(Refusal::refuted(DropReason::NotPermitted, format!("the certificate does not permit {psid}")));
    };
    let bits = match permission.ssp {
        Ssp::Bitmap([1, bits @ ..]) => bits,
        Ssp::Bitmap(_) | Ssp::Opaque(_) | Ssp::Absent => &[],
    };
    let mut permissions = [0; 3];
    permissions.iter_mut().zip(bits).for_each(|(to, from)| *to = *from);
    Ok(Signer { digest, permissions })
}

fn replayed(detail: &str) -> Refusal {
    Refusal::refuted(DropReason::Replayed, detail)
}

/// The first octets of a hash: nobody finds other octets with the same.
fn fingerprint(octets: &[u8]) -> u64 {
    Sha256::digest(octets).first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}
