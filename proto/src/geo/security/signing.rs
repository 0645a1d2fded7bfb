//! Signing of own packets: the header fields of ETSI TS 103 097 §7.1, and when the certificate is sent instead of its digest
//! (§7.1.1). The host signs; a packet waits here until it has.

use super::Moment;
use super::learning::CertificateExchange;
use super::{profile, region};
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::CertificateOctets;
use crate::contract::report::DropReason;
use crate::contract::signature::{SigningRequest, SigningResult};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ExtendedHeader, Packet};
use roam6_wire::security::{
    Certificate, HashedId3, HashedId8, Location, Message, Psid, SignerField, SignerIdentifier, UnsignedData,
    ValidityPeriod,
};

/// Packets whose signatures the host is making, at most.
const MAX_PENDING: usize = 256;
/// Octets of the Basic Header, which is not signed.
const BASIC_HEADER: usize = 4;
/// Basic Header next header: secured packet.
const SECURED: u8 = 2;
/// The certificate is in a CAM once a second (TS 103 097 §7.1.1); less the jitter of a station that sends ten a second.
const CAM_INTERVAL: Duration = Duration::from_millis(950);
/// The same for packets of other services, by their receivers: those over several hops do not hear the CAMs.
const OTHER_INTERVAL: Duration = Duration::from_secs(1);
/// Stations that were sent the certificate, remembered at most.
const MAX_AUDIENCES: usize = 64;
/// An elevation of 0 m: decimetres plus 4096. Receivers of satellite signals know it, and roam6 does not ask them.
const ELEVATION: u16 = 4096;

/// Who receives a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Audience {
    /// Neighbours, of CAMs.
    Cam,
    /// Neighbours, of other packets.
    Neighbours,
    /// Stations over several hops.
    Distant,
    /// One station.
    Station(LinkAddress),
}

/// Whether a packet carries the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inclusion {
    Always(Audience),
    IfItFits(Audience),
    Never,
}

/// An authorisation ticket of this station.
#[derive(Debug, Clone)]
struct OwnTicket {
    octets: Vec<u8>,
    digest: HashedId8,
    canonical: Vec<u8>,
    validity: ValidityPeriod,
}

/// Why a packet is not signed, and with that not sent.
pub type Unsigned = (DropReason, String);

/// A packet of this station that waits for its signature, with what its owner wants to know then.
#[derive(Debug)]
struct Pending<T> {
    basic_header: [u8; BASIC_HEADER],
    to_be_signed: Vec<u8>,
    digest: HashedId8,
    with_certificate: bool,
    context: T,
}

/// Signs the packets of a station.
#[derive(Debug)]
pub struct PacketSigner<T> {
    tickets: Vec<OwnTicket>,
    current: usize,
    /// Whether the present certificate is not among the configured ones any more; then it is the last of `tickets`.
    is_withdrawn: bool,
    /// Octets of the largest frame, without its link-layer header.
    max_frame: usize,
    certificate_sent: VecMap<Audience, Time>,
    pending: VecMap<u64, Pending<T>>,
    next_request: u64,
    /// Certificates that are asked for and answered.
    pub exchange: CertificateExchange,
}

impl<T> PacketSigner<T> {
    /// The signer of a station with these authorisation tickets; `None` without any.
    pub fn new(tickets: &[CertificateOctets]) -> Option<PacketSigner<T>> {
        let tickets: Vec<OwnTicket> = tickets.iter().filter_map(OwnTicket::parse).collect();
        (!tickets.is_empty()).then(|| PacketSigner {
            tickets,
            current: 0,
            is_withdrawn: false,
            max_frame: usize::MAX,
            certificate_sent: VecMap::new(),
            pending: VecMap::new(),
            next_request: 1,
            exchange: CertificateExchange::default(),
        })
    }

    /// Sets the largest frame that all interfaces send, octets.
    pub fn set_max_frame(&mut self, octets: usize) {
        self.max_frame = octets;
    }

    /// Whether a signer is this station, under its present or another of its certificates.
    pub fn is_own(&self, signer: &SignerIdentifier<'_>) -> bool {
        match signer {
            SignerIdentifier::Digest(digest) => self.tickets.iter().any(|ticket| ticket.digest == *digest),
            SignerIdentifier::Certificate(octets) => self.tickets.iter().any(|ticket| ticket.octets == *octets),
            SignerIdentifier::Own => false,
        }
    }

    /// The digest of the present certificate.
    pub fn digest(&self) -> Option<HashedId8> {
        self.tickets.get(self.current).map(|ticket| ticket.digest)
    }

    /// The number of certificates.
    pub fn tickets(&self) -> usize {
        self.tickets.len()
    }

    /// Begins with this certificate, by its number.
    pub fn begin_with(&mut self, number: usize) {
        self.current = number.min(self.tickets.len().saturating_sub(1));
    }

    /// The service specific permissions of this station in a service; `None` if it may not sign for it.
    pub fn permissions(&self, psid: Psid) -> Option<[u8; 3]> {
        let ticket = self.tickets.get(self.current)?;
        let certificate = Certificate::parse(&ticket.octets).ok()?;
        super::signer_of(ticket.digest, &certificate, psid).ok().map(|signer| signer.permissions)
    }

    /// Whether the present certificate can be used at this time: seconds of TAI since 2004.
    pub fn is_valid(&self, its_seconds: u64) -> bool {
        let ticket = self.tickets.get(self.current);
        ticket.is_some_and(|ticket| ticket.is_valid(its_seconds))
    }

    /// Replaces the authorisation tickets; without a valid certificate among `tickets` nothing is replaced. The present one
    /// signs until another is taken, even if it is not among them.
    pub fn replace_tickets(&mut self, tickets: &[CertificateOctets]) {
        let mut tickets: Vec<OwnTicket> = tickets.iter().filter_map(OwnTicket::parse).collect();
        if tickets.is_empty() {
            return;
        }
        let found = tickets.iter().position(|ticket| Some(ticket.digest) == self.digest());
        self.is_withdrawn = found.is_none();
        if self.is_withdrawn {
            tickets.extend(self.tickets.get(self.current).cloned());
        }
        self.current = found.unwrap_or(tickets.len().saturating_sub(1));
        self.tickets = tickets;
    }

    /// Whether the present certificate cannot be used at this time, or is withdrawn, and another can be used.
    pub fn should_change(&self, its_seconds: u64) -> bool {
        (self.is_withdrawn || !self.is_valid(its_seconds)) && self.next_valid(its_seconds).is_some()
    }

    fn next_valid(&self, its_seconds: u64) -> Option<usize> {
        let count = self.tickets.len();
        let is_valid = |number: &usize| self.tickets.get(*number).is_some_and(|ticket| ticket.is_valid(its_seconds));
        (1..count).map(|step| (self.current + step) % count).find(is_valid)
    }

    /// Takes the next certificate that is valid at this time, and forgets what was sent with the former one; packets that
    /// wait for its signature are not sent. `false` if no other is valid.
    pub fn take_next_ticket(&mut self, its_seconds: u64) -> bool {
        let next = self.next_valid(its_seconds);
        if let Some(next) = next {
            if std::mem::take(&mut self.is_withdrawn) {
                self.tickets.pop();
            }
            self.current = next;
            self.certificate_sent.clear();
            self.pending.clear();
            self.exchange.forget_own();
        }
        next.is_some()
    }

    /// Asks the host to sign a packet, from its Basic Header; returns the request. `context` is returned with the signed
    /// packet.
    ///
    /// # Errors
    /// Why it is not signed.
    pub fn sign(&mut self, at: Moment, packet: &[u8], context: T) -> Result<SigningRequest, Unsigned> {
        if self.pending.len() >= MAX_PENDING {
            return Err((DropReason::BufferFull, "too many packets wait for their signatures".to_owned()));
        }
        let wrong = |error: roam6_wire::Malformed| (DropReason::Malformed, error.to_string());
        let parsed = Packet::parse(packet).map_err(wrong)?;
        let psid = profile::service_of(&parsed).ok_or_else(|| {
            (DropReason::NotPermitted, "no service (ITS-AID) is known for the BTP port of the packet".to_owned())
        })?;
        let (basic_header, payload) = packet
            .split_first_chunk::<BASIC_HEADER>()
            .ok_or_else(|| (DropReason::Malformed, "shorter than a Basic Header".to_owned()))?;
        self.check_ticket(at, &parsed, psid)?;
        let inclusion = self.inclusion(at.now, &parsed, psid);
        let mut data = UnsignedData::new(payload, psid, at.its_micros);
        let place = parsed.extended.source().place;
        data.location = (psid == Psid::DENM).then_some(Location { place, elevation: ELEVATION });
        let may_request = psid == Psid::CAM || matches!(parsed.extended, ExtendedHeader::Beacon { .. });
        let requests: Vec<HashedId3> = if may_request { self.exchange.take_requests(at.now) } else { Vec::new() };
        data.requests = &requests;
        let answer =
            if inclusion == Inclusion::Never && psid == Psid::CAM { self.exchange.take_answer() } else { None };
        data.requested_certificate = answer.as_deref();
        self.request(at.now, *basic_header, data.to_be_signed(), inclusion, context)
    }

    /// Refuses what receivers would refuse.
    fn check_ticket(&self, at: Moment, packet: &Packet<'_>, psid: Psid) -> Result<(), Unsigned> {
        let none = || (DropReason::NoCertificate, "no certificate".to_owned());
        let ticket = self.tickets.get(self.current).ok_or_else(none)?;
        let certificate = Certificate::parse(&ticket.octets).map_err(|_| none())?;
        if !ticket.is_valid(at.its_seconds()) {
            let detail = format!("the certificate {} of this station is not valid now", ticket.digest);
            return Err((DropReason::NoCertificate, detail));
        }
        if !certificate.app_permissions.iter().any(|permission| permission.psid == psid) {
            let detail = format!("the certificate of this station does not permit {psid}");
            return Err((DropReason::NotPermitted, detail));
        }
        region::check(&certificate, packet.extended.source().place)
            .map_err(|refusal| (DropReason::NotPermitted, refusal.detail))
    }

    /// Whether a packet carries the certificate: TS 103 097 §7.1.1 for CAM, §7.1.2 for DENM. The packets of GeoNetworking
    /// without payload are few, and for some stations all that neighbours receive of it.
    fn inclusion(&self, now: Time, packet: &Packet<'_>, psid: Psid) -> Inclusion {
        let audience = match packet.extended {
            _ if psid == Psid::CAM => Audience::Cam,
            ExtendedHeader::GeoUnicast { destination, .. } => Audience::Station(destination.address.mid),
            _ if packet.extended.is_single_hop() => Audience::Neighbours,
            _ => Audience::Distant,
        };
        if psid == Psid::DENM || packet.payload.is_empty() {
            return Inclusion::Always(audience);
        }
        let sent = self.certificate_sent.get(&audience);
        let interval = if audience == Audience::Cam { CAM_INTERVAL } else { OTHER_INTERVAL };
        let is_due = sent.is_none_or(|sent| now.since(*sent) >= interval);
        let is_wanted = audience == Audience::Cam && self.exchange.wants_own(now, sent.copied());
        match is_due || is_wanted {
            true if audience == Audience::Cam => Inclusion::Always(audience),
            true => Inclusion::IfItFits(audience),
            false => Inclusion::Never,
        }
    }

    fn request(
        &mut self,
        now: Time,
        basic_header: [u8; BASIC_HEADER],
        to_be_signed: Vec<u8>,
        inclusion: Inclusion,
        context: T,
    ) -> Result<SigningRequest, Unsigned> {
        let none = || (DropReason::NoCertificate, "no certificate".to_owned());
        let ticket = self.tickets.get(self.current).ok_or_else(none)?;
        let length = |signer| BASIC_HEADER + UnsignedData::emit(&to_be_signed, signer, ([0; 32], [0; 32])).len();
        let fits = length(SignerField::Certificate(&ticket.octets)) <= self.max_frame;
        let with_certificate = match inclusion {
            Inclusion::Always(_) => true,
            Inclusion::IfItFits(_) => fits,
            Inclusion::Never => false,
        };
        let has = if with_certificate { fits } else { length(SignerField::Digest(ticket.digest)) <= self.max_frame };
        if !has {
            let detail = format!("with its signature the packet is longer than a frame of {} octets", self.max_frame);
            return Err((DropReason::TooLong, detail));
        }
        let digest = ticket.digest;
        let message = Message::with_canonical(&to_be_signed, &ticket.canonical);
        let audience = match inclusion {
            Inclusion::Always(audience) | Inclusion::IfItFits(audience) => Some(audience),
            Inclusion::Never => None,
        };
        if let Some(audience) = audience.filter(|_| with_certificate) {
            self.note_sent(now, audience);
        }
        let id = self.next_request;
        self.next_request += 1;
        self.pending.insert(id, Pending { basic_header, to_be_signed, digest, with_certificate, context });
        Ok(SigningRequest { id, certificate: digest.0.to_vec(), message: message.octets().to_vec() })
    }

    fn note_sent(&mut self, now: Time, audience: Audience) {
        if self.certificate_sent.len() >= MAX_AUDIENCES {
            self.certificate_sent.retain(|_, sent| now.since(*sent) < OTHER_INTERVAL);
            if self.certificate_sent.len() >= MAX_AUDIENCES {
                self.certificate_sent.pop_first();
            }
        }
        self.certificate_sent.insert(audience, now);
        if matches!(audience, Audience::Cam | Audience::Neighbours) {
            self.exchange.note_own_sent();
        }
    }

    /// Receives a signature; returns the secured packet, and its context. `Ok(None)` if nobody waits for it any longer.
    ///
    /// # Errors
    /// The host could not sign.
    pub fn conclude(&mut self, result: &SigningResult) -> Result<Option<(Vec<u8>, T)>, Unsigned> {
        let Some(pending) = self.pending.remove(&result.id) else { return Ok(None) };
        let halves =
            result.signature.split_first_chunk::<32>().and_then(|(r, s)| Some((*r, <[u8; 32]>::try_from(s).ok()?)));
        let Some(signature) = halves else {
            let detail = format!("no private key for the certificate {}", pending.digest);
            return Err((DropReason::NoCertificate, detail));
        };
        let ticket = self.tickets.iter().find(|ticket| ticket.digest == pending.digest);
        let signer = match ticket.filter(|_| pending.with_certificate) {
            Some(ticket) => SignerField::Certificate(&ticket.octets),
            None => SignerField::Digest(pending.digest),
        };
        let envelope = UnsignedData::emit(&pending.to_be_signed, signer, signature);
        let [first, rest @ ..] = pending.basic_header;
        let packet = [&[first & 0xf0 | SECURED], &rest[..], &envelope].concat();
        Ok(Some((packet, pending.context)))
    }
}

impl OwnTicket {
    fn parse(octets: &CertificateOctets) -> Option<OwnTicket> {
        let certificate = Certificate::parse(&octets.0).ok()?;
        let (digest, canonical) = (certificate.digest(), certificate.canonical());
        Some(OwnTicket { octets: octets.0.clone(), digest, canonical, validity: certificate.validity })
    }

    fn is_valid(&self, its_seconds: u64) -> bool {
        self.validity.includes(its_seconds)
    }
}
