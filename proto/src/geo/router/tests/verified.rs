//! Stations that verify secured packets, and attackers: forged and recorded packets, certificates that do not permit what they
//! sign, floods. Signatures are a hash of key and message, which the host of these stations verifies; certificates, keys and
//! envelopes are those of the standard.

use super::restart::{frame, position, receive};
use super::*;
use crate::contract::config::geo::{CertificateOctets, SecurityConfig, SecurityMode};
use crate::contract::signature::{VerificationRequest, VerificationResult};
use crate::contract::view::Trust;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use roam6_wire::geo::SequencedSource;
use roam6_wire::security::{
    Certificate, CertificateId, Curve, CurvePoint, EndEntities, HashedId8, Issuance, Location, Message, Psid, PsidSsp,
    PublicKey, SignerField, Ssp, TimeUnit, UnsignedCertificate, UnsignedData, ValidityPeriod,
};
use sha2::{Digest, Sha256};

const SECOND: Duration = Duration::from_secs(1);
/// A service without rules of its own.
const SERVICE: Psid = Psid(999);
const CAM_PERMISSIONS: Ssp<'static> = Ssp::Bitmap(&[1, 0, 0]);

fn public_key(number: u8) -> Vec<u8> {
    let key = p256::SecretKey::from_slice(&[number; 32]).unwrap().public_key();
    key.to_encoded_point(true).as_bytes().to_vec()
}

/// The signature of a key: anybody could make it, and nobody here does.
pub(super) fn sign(key: &[u8], message: &[u8]) -> ([u8; 32], [u8; 32]) {
    let key = p256::PublicKey::from_sec1_bytes(key).unwrap().to_encoded_point(false);
    (Sha256::digest([key.as_bytes(), message].concat()).into(), [7; 32])
}

fn is_valid(request: &VerificationRequest) -> bool {
    let (r, s) = sign(&request.key, &request.message);
    request.signature == [r, s].concat()
}

/// A certificate and its key.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) octets: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl Holder {
    pub(super) fn certificate(&self) -> Certificate<'_> {
        Certificate::parse(&self.octets).unwrap()
    }

    pub(super) fn digest(&self) -> HashedId8 {
        self.certificate().digest()
    }
}

/// How a certificate differs from the usual one.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) permissions: &'a [PsidSsp<'a>],
    pub(super) issuance: Option<Issuance<'a>>,
    /// Seconds from now to its start, and its duration in hours.
    pub(super) validity: (i64, u16),
    pub(super) region: Option<(Coordinates, u16)>,
}

const SERVICES: [Psid; 4] = [Psid::CAM, Psid::DENM, Psid::GN_MANAGEMENT, SERVICE];
pub(super) const TICKET: Form<'static> = Form {
    permissions: &[
        PsidSsp { psid: Psid::CAM, ssp: CAM_PERMISSIONS },
        PsidSsp { psid: Psid::GN_MANAGEMENT, ssp: Ssp::Absent },
        PsidSsp { psid: SERVICE, ssp: Ssp::Absent },
    ],
    issuance: None,
    validity: (-3600, 24),
    region: None,
};

fn its_seconds() -> i64 {
    // The clock of the stations of `Air` at their start.
    1_790_000_000 + 5 - 1_072_915_200
}

pub(super) fn issue(number: u8, issuer: Option<&Holder>, form: Form<'_>) -> Holder {
    let key = public_key(number);
    let is_authority = form.issuance.is_some();
    let unsigned = UnsignedCertificate {
        issuer: issuer.map(Holder::digest),
        id: if is_authority { CertificateId::Name("authority") } else { CertificateId::None },
        validity: ValidityPeriod {
            start: u32::try_from(its_seconds() + form.validity.0).unwrap(),
            unit: TimeUnit::Hours,
            duration: form.validity.1,
        },
        region: form.region,
        app_permissions: form.permissions,
        issue_permissions: form.issuance,
        encryption_key: None,
        key: PublicKey { curve: Curve::NistP256, point: CurvePoint::from_sec1(&key, 32).unwrap() },
    };
    let of_issuer = issuer.map(Holder::certificate);
    let message = unsigned.message(of_issuer.as_ref());
    let signature = sign(issuer.map_or(&key, |issuer| &issuer.key), message.octets());
    Holder { octets: unsigned.emit(signature), key }
}

/// A root and its authority, and what stations need to trust it.
pub(super) struct Pki {
    pub(super) authority: Holder,
    pub(super) config: SecurityConfig,
}

impl Pki {
    fn new(mode: SecurityMode) -> Pki {
        Pki::with_services(mode, &SERVICES)
    }

    /// Authorities that may permit these services.
    pub(super) fn with_services(mode: SecurityMode, services: &[Psid]) -> Pki {
        let authority_form = |min_chain_length| Form {
            permissions: &[],
            issuance: Some(Issuance { services, min_chain_length, holders: EndEntities::Application }),
            validity: (-7200, 1000),
            region: None,
        };
        let root = issue(201, None, authority_form(2));
        let authority = issue(202, Some(&root), authority_form(1));
        let octets = |holder: &Holder| vec![CertificateOctets(holder.octets.clone())];
        let (roots, authorities) = (octets(&root), octets(&authority));
        Pki { authority, config: SecurityConfig { mode, roots, authorities, ..SecurityConfig::default() } }
    }

    fn ticket(&self, number: u8) -> Holder {
        issue(number, Some(&self.authority), TICKET)
    }

    /// Lets all stations verify, and those with these numbers sign.
    fn equip(&self, air: &mut Air, signers: &[u8]) {
        for peer in air.stations.values_mut() {
            let router = std::mem::replace(
                &mut peer.router,
                GeoRouter::new(ItsStationType::BUS, Mib::default(), Entropy::seed_from_u64(0)),
            );
            peer.router = router.with_security(&self.config);
        }
        air.tickets = signers.iter().map(|number| (*number, self.ticket(*number))).collect();
    }
}

/// What is signed of a packet.
#[derive(Clone, Copy)]
struct Envelope {
    psid: Psid,
    /// Microseconds of TAI since 2004.
    generated: u64,
    location: Option<Location>,
    with_certificate: bool,
}

fn envelope(frame: &Frame, by: &Holder, envelope: Envelope) -> Frame {
    let (basic, payload) = frame.bytes.split_at(4);
    let Envelope { psid, generated, location, with_certificate } = envelope;
    let data = UnsignedData { location, ..UnsignedData::new(payload, psid, generated) };
    let to_be_signed = data.to_be_signed();
    let certificate = by.certificate();
    let message = Message::of_data(&to_be_signed, &certificate);
    let signature = sign(&by.key, message.octets());
    let signer = match with_certificate {
        true => SignerField::Certificate(&by.octets),
        false => SignerField::Digest(certificate.digest()),
    };
    let signed = UnsignedData::emit(&to_be_signed, signer, signature);
    Frame { bytes: [&[basic[0] & 0xf0 | 2], &basic[1..], &signed].concat(), ..frame.clone() }
}

impl Air {
    fn its_micros(&self) -> u64 {
        self.stations.values().next().unwrap().router.its_time(self.now) * 1_000
    }

    /// The frame of a station, signed with its ticket.
    pub(super) fn sign_with_ticket(&self, frame: &Frame, by: &Holder) -> Frame {
        let is_data = Packet::parse(&frame.bytes).is_ok_and(|packet| !packet.payload.is_empty());
        let psid = if is_data { SERVICE } else { Psid::GN_MANAGEMENT };
        let signed = Envelope { psid, generated: self.its_micros(), location: None, with_certificate: true };
        envelope(frame, by, signed)
    }

    /// The host of a station answers.
    pub(super) fn answer(&mut self, number: u8, request: &VerificationRequest) {
        self.verifications += 1;
        let result = VerificationResult { id: request.id, valid: is_valid(request) };
        let mut out = Outbox::new();
        let peer = self.stations.get_mut(&number).unwrap();
        let verified = peer.router.conclude_verification(self.now, result, &mut out);
        if let Some((frames, signer)) = verified {
            for frame in &frames {
                if let Some(delivery) = peer.router.receive_verified(self.now, frame, signer, &mut out) {
                    peer.delivered.push(delivery.packet.payload.to_vec());
                }
            }
        }
        self.carry(number, out);
    }

    /// Station 1 receives a frame: what is counted, if it was dropped; and whether it was delivered.
    fn try_frame(&mut self, frame: &Frame) -> (Option<DropReason>, bool) {
        let peer = self.stations.get_mut(&1).unwrap();
        peer.drops.clear();
        peer.delivered.clear();
        receive(self, 1, frame);
        let peer = &self.stations[&1];
        (peer.drops.last().copied(), !peer.delivered.is_empty())
    }
}

/// A station 1 that verifies, and nobody else.
fn listener(mode: SecurityMode) -> (Pki, Air) {
    let pki = Pki::new(mode);
    let mut air = Air::row(1, 0.0, &Mib::default());
    pki.equip(&mut air, &[]);
    air.run(5 * SECOND);
    (pki, air)
}

/// A single-hop packet of station `number`.
fn single_hop(air: &Air, number: u8) -> Frame {
    frame(number, ExtendedHeader::SingleHop { source: position(air, number, east(100.0), 0), media: [0; 4] }, 1)
}

fn usual(air: &Air) -> Envelope {
    Envelope { psid: SERVICE, generated: air.its_micros(), location: None, with_certificate: true }
}

const DELIVERED: (Option<DropReason>, bool) = (None, true);

fn dropped(reason: DropReason) -> (Option<DropReason>, bool) {
    (Some(reason), false)
}

/// A root that no station trusts.
fn other_root() -> Holder {
    let issuance = Some(Issuance { services: &SERVICES, min_chain_length: 1, holders: EndEntities::Application });
    issue(210, None, Form { issuance, ..TICKET })
}

#[test]
fn stations_that_verify_find_and_reach_each_other() {
    for mode in [SecurityMode::Strict, SecurityMode::NonStrict] {
        let mut air = Air::row(5, 250.0, &Mib::default());
        Pki::new(mode).equip(&mut air, &[1, 2, 3, 4, 5]);
        air.run(10 * SECOND);
        for number in 1..=5 {
            let neighbours = air.stations[&number].router.location_table().iter();
            assert!(neighbours.map(|station| station.trust).all(|trust| trust == Trust::Verified));
        }
        for to in [TransportType::SingleHop, TransportType::TopologyBroadcast(5)] {
            air.request(3, data(to)).unwrap();
        }
        air.request(1, data(TransportType::GeoBroadcast(around(east(1_250.0), 100)))).unwrap();
        air.run(SECOND);
        let mut delivered = air.delivered();
        delivered.sort_unstable();
        assert_eq!(delivered, [1, 2, 2, 4, 4, 5, 5], "{mode:?}");
    }
}

#[test]
fn a_strict_station_ignores_packets_that_are_not_signed() {
    let (pki, mut air) = listener(SecurityMode::Strict);
    let plain = single_hop(&air, 9);
    assert_eq!(air.try_frame(&plain), dropped(DropReason::NotAuthenticated));
    assert!(air.stations[&1].router.location_table().is_empty());
    let signed = envelope(&plain, &pki.ticket(9), usual(&air));
    assert_eq!(air.try_frame(&signed), DELIVERED);
    let (_, mut air) = listener(SecurityMode::NonStrict);
    assert_eq!(air.try_frame(&plain), DELIVERED);
}

#[test]
fn signatures_certificates_and_permissions_are_verified() {
    let (pki, mut air) = listener(SecurityMode::Strict);
    let (ticket, plain) = (pki.ticket(9), single_hop(&air, 9));
    let now = usual(&air);
    let mut last_octet = envelope(&plain, &ticket, now);
    *last_octet.bytes.last_mut().unwrap() ^= 1;
    assert_eq!(air.try_frame(&last_octet), dropped(DropReason::BadAuthenticator));
    let by_digest = Envelope { with_certificate: false, ..now };
    let unknown = envelope(&plain, &pki.ticket(8), by_digest);
    assert_eq!(air.try_frame(&unknown), dropped(DropReason::UnknownCertificate));
    // The ticket is known from the first packet, whose own signature was invalid.
    assert_eq!(air.try_frame(&envelope(&plain, &ticket, by_digest)), DELIVERED);

    let stranger = Pki::new(SecurityMode::Strict);
    let other_root = other_root();
    let of_stranger = issue(11, Some(&other_root), TICKET);
    assert_eq!(air.try_frame(&envelope(&plain, &of_stranger, now)), dropped(DropReason::UnknownCertificate));
    // A certificate that names the authority, and that another key has signed.
    let mut forged = stranger.ticket(12);
    *forged.octets.last_mut().unwrap() ^= 1;
    let requests = air.verifications;
    assert_eq!(air.try_frame(&envelope(&plain, &forged, now)), dropped(DropReason::InvalidCertificate));
    assert_eq!(air.verifications, requests + 1);
    assert_eq!(air.try_frame(&envelope(&single_hop(&air, 7), &forged, now)), dropped(DropReason::InvalidCertificate));
    assert_eq!(air.verifications, requests + 1, "it is remembered");

    let cases = [
        (Form { validity: (-7200, 1), ..TICKET }, DropReason::InvalidCertificate),
        (Form { validity: (60, 1), ..TICKET }, DropReason::InvalidCertificate),
        (Form { permissions: &TICKET.permissions[..2], ..TICKET }, DropReason::NotPermitted),
        (Form { region: Some((east(9_000.0), 5_000)), ..TICKET }, DropReason::NotPermitted),
        (
            Form {
                issuance: Some(Issuance {
                    services: &SERVICES,
                    min_chain_length: 1,
                    holders: EndEntities::Application,
                }),
                ..TICKET
            },
            DropReason::InvalidCertificate,
        ),
        // The authority must not permit it.
        (
            Form {
                permissions: &[
                    PsidSsp { psid: SERVICE, ssp: Ssp::Absent },
                    PsidSsp { psid: Psid::IPV6, ssp: Ssp::Absent },
                ],
                ..TICKET
            },
            DropReason::InvalidCertificate,
        ),
    ];
    for (number, (form, reason)) in (20..).zip(cases) {
        let ticket = issue(number, Some(&pki.authority), form);
        let signed = envelope(&single_hop(&air, number), &ticket, now);
        assert_eq!(air.try_frame(&signed), dropped(reason), "{number}");
    }
    let inside = issue(30, Some(&pki.authority), Form { region: Some((east(0.0), 5_000)), ..TICKET });
    assert_eq!(air.try_frame(&envelope(&single_hop(&air, 30), &inside, now)), DELIVERED);
}

#[test]
fn revoked_certificates_sign_nothing() {
    let mut pki = Pki::new(SecurityMode::Strict);
    let (revoked, other) = (pki.ticket(9), pki.ticket(10));
    for (digest, still) in [(revoked.digest(), true), (pki.authority.digest(), false)] {
        pki.config.revoked = vec![digest.0];
        let mut air = Air::row(1, 0.0, &Mib::default());
        pki.equip(&mut air, &[]);
        let of_revoked = envelope(&single_hop(&air, 9), &revoked, usual(&air));
        assert_eq!(air.try_frame(&of_revoked), dropped(DropReason::InvalidCertificate));
        let of_other = envelope(&single_hop(&air, 10), &other, usual(&air));
        assert_eq!(air.try_frame(&of_other).1, still);
    }
}

#[test]
fn certificates_revoked_later_sign_no_further_packet() {
    let pki = Pki::new(SecurityMode::Strict);
    let ticket = pki.ticket(9);
    for digest in [ticket.digest(), pki.authority.digest()] {
        let mut air = Air::row(1, 0.0, &Mib::default());
        pki.equip(&mut air, &[]);
        assert_eq!(air.try_frame(&envelope(&single_hop(&air, 9), &ticket, usual(&air))), DELIVERED);
        air.stations.get_mut(&1).unwrap().router.set_revoked(&[digest.0]);
        air.run(SECOND);
        let later = envelope(&single_hop(&air, 9), &ticket, usual(&air));
        assert_eq!(air.try_frame(&later), dropped(DropReason::InvalidCertificate));
        air.stations.get_mut(&1).unwrap().router.set_revoked(&[]);
        air.run(SECOND);
        assert_eq!(air.try_frame(&envelope(&single_hop(&air, 9), &ticket, usual(&air))), DELIVERED);
    }
}

#[test]
fn a_packet_has_the_fields_and_the_service_of_its_content() {
    let (pki, mut air) = listener(SecurityMode::Strict);
    let (ticket, plain, now) = (pki.ticket(9), single_hop(&air, 9), usual(&air));
    let place = Some(Location { place: east(0.0), elevation: 4096 });
    let cam = {
        let mut cam = plain.clone();
        // The BTP port of CAMs, in place of the first octets of the payload.
        let at = cam.bytes.len() - 4;
        cam.bytes[at..at + 2].copy_from_slice(&2001_u16.to_be_bytes());
        cam
    };
    assert_eq!(air.try_frame(&envelope(&cam, &ticket, now)), dropped(DropReason::NotPermitted));
    assert_eq!(
        air.try_frame(&envelope(&plain, &ticket, Envelope { psid: Psid::CAM, ..now })),
        dropped(DropReason::NotPermitted)
    );
    let with_place = Envelope { psid: Psid::CAM, location: place, ..now };
    assert_eq!(air.try_frame(&envelope(&cam, &ticket, with_place)), dropped(DropReason::Malformed));
    assert_eq!(air.try_frame(&envelope(&cam, &ticket, Envelope { psid: Psid::CAM, ..now })), DELIVERED);
    let denm = Envelope { psid: Psid::DENM, location: place, with_certificate: false, ..now };
    assert_eq!(air.try_frame(&envelope(&plain, &ticket, denm)), dropped(DropReason::Malformed));
}

#[test]
fn recorded_packets_are_refused() {
    let (pki, mut air) = listener(SecurityMode::Strict);
    let ticket = pki.ticket(9);
    let genuine = envelope(&single_hop(&air, 9), &ticket, usual(&air));
    assert_eq!(air.try_frame(&genuine), DELIVERED);
    let requests = air.verifications;
    for _ in 0..100 {
        assert_eq!(air.try_frame(&genuine), dropped(DropReason::Replayed));
        air.run(Duration::from_millis(200));
    }
    assert_eq!(air.verifications, requests, "no signature is verified for it");
    for (ahead, reason) in [(-11, Some(DropReason::Replayed)), (-9, None), (9, None), (11, Some(DropReason::Replayed))]
    {
        let generated = air.its_micros().checked_add_signed(ahead * 1_000_000).unwrap();
        let signed = envelope(&single_hop(&air, 9), &ticket, Envelope { generated, ..usual(&air) });
        assert_eq!(air.try_frame(&signed), (reason, reason.is_none()), "{ahead}");
    }
    // Over several hops the lifetime counts too, and a copy is a duplicate.
    let origin = SequencedSource { sequence: 5, source: position(&air, 9, east(100.0), 0) };
    let passing = frame(9, ExtendedHeader::TopoBroadcast(origin), 5);
    let late = Envelope { generated: air.its_micros() - 60_000_000, ..usual(&air) };
    let passing = envelope(&passing, &ticket, late);
    air.note_envelope(&passing);
    assert_eq!(air.try_frame(&passing), DELIVERED);
    let requests = air.verifications;
    assert_eq!(air.try_frame(&passing), dropped(DropReason::Duplicate));
    assert_eq!(air.verifications, requests);
}

#[test]
fn nobody_speaks_for_a_station_that_was_verified() {
    let (pki, mut air) = listener(SecurityMode::NonStrict);
    let plain = single_hop(&air, 9);
    let signed = envelope(&plain, &pki.ticket(9), usual(&air));
    assert_eq!(air.try_frame(&signed), DELIVERED);
    let of_other = envelope(&single_hop(&air, 9), &pki.ticket(10), usual(&air));
    assert_eq!(air.try_frame(&of_other), dropped(DropReason::NotPermitted));
    assert_eq!(air.try_frame(&plain), dropped(DropReason::NotPermitted));
    air.run(6 * SECOND);
    let of_other = envelope(&single_hop(&air, 9), &pki.ticket(10), usual(&air));
    assert_eq!(air.try_frame(&of_other), DELIVERED);
}

#[test]
fn the_next_ticket_of_a_station_speaks_for_it_when_the_present_one_expires() {
    let (pki, mut air) = listener(SecurityMode::NonStrict);
    let present = issue(9, Some(&pki.authority), Form { validity: (200 - 3_600, 1), ..TICKET });
    let next = pki.ticket(10);
    air.run(Duration::from_secs(195) - air.now.since(Time::ZERO));
    let signed_with = |air: &Air, ticket: &Holder| envelope(&single_hop(air, 9), ticket, usual(air));
    let of_present = signed_with(&air, &present);
    assert_eq!(air.try_frame(&of_present), DELIVERED);
    let of_next = signed_with(&air, &next);
    assert_eq!(air.try_frame(&of_next), dropped(DropReason::NotPermitted), "5 s before");
    air.run(4 * SECOND);
    let plain = single_hop(&air, 9);
    assert_eq!(air.try_frame(&plain), dropped(DropReason::NotPermitted), "without a signature");
    let of_next = signed_with(&air, &next);
    assert_eq!(air.try_frame(&of_next), DELIVERED, "1 s before");
}

#[test]
fn a_non_strict_station_forwards_what_it_cannot_verify() {
    let (_, mut air) = listener(SecurityMode::NonStrict);
    let other_root = other_root();
    let stranger = issue(11, Some(&other_root), TICKET);
    let origin = SequencedSource { sequence: 5, source: position(&air, 9, east(100.0), 0) };
    let foreign = envelope(&frame(9, ExtendedHeader::TopoBroadcast(origin), 5), &stranger, usual(&air));
    air.note_envelope(&foreign);
    air.sent.clear();
    assert_eq!(air.try_frame(&foreign), (None, false));
    assert_eq!(air.sent.len(), 1);
    assert_eq!(air.stations[&1].router.location_table().find(mac(9)).unwrap().trust, Trust::Unverified);
}

/// A packet with the number and the time of another, and an envelope that nobody can verify, arrives before it and after it.
#[test]
fn a_packet_that_is_not_verified_is_no_copy_of_one_that_is() {
    let (pki, mut air) = listener(SecurityMode::NonStrict);
    let origin = SequencedSource { sequence: 5, source: position(&air, 9, east(100.0), 0) };
    let area = around(east(0.0), 500);
    let plain = frame(9, ExtendedHeader::GeoBroadcast { origin, area }, 5);
    let genuine = envelope(&plain, &pki.ticket(9), usual(&air));
    let forged = envelope(&plain, &pki.ticket(8), Envelope { with_certificate: false, ..usual(&air) });
    for frame in [&genuine, &forged] {
        air.note_envelope(frame);
    }
    air.sent.clear();
    assert_eq!(air.try_frame(&forged), (None, false));
    assert_eq!(air.try_frame(&genuine), DELIVERED);
    assert!(!air.try_frame(&forged).1);
    air.run(SECOND);
    let sent = air.sent.iter().filter(|(_, frame)| frame.bytes.get(4..) == genuine.bytes.get(4..));
    assert_eq!(sent.count(), 1);
}

/// Forged packets: from random senders with unknown certificates, with forged certificates, and in the name of a neighbour
/// with a known certificate. Few signatures are verified, and each packet of the neighbour arrives.
#[test]
fn a_flood_of_forged_packets_does_no_harm() {
    for (kind, most) in [("unknown digest", 0), ("forged certificate", 6_000), ("neighbour", 24_000)] {
        let (pki, mut air) = listener(SecurityMode::Strict);
        let (ticket, unknown) = (pki.ticket(9), pki.ticket(8));
        let mut entropy = Entropy::seed_from_u64(0xf100d);
        let (mut genuine, mut delivered) = (0, 0);
        air.verifications = 0;
        for step in 0..10_000_u64 {
            if step % 100 == 0 {
                let signed = envelope(&single_hop(&air, 9), &ticket, usual(&air));
                genuine += 1;
                delivered += usize::from(air.try_frame(&signed) == DELIVERED);
            }
            // 2,000 forged packets a second.
            for _ in 0..2 {
                let by = if kind == "neighbour" { 9 } else { entropy.below(200) as u8 };
                let mut forged = match kind {
                    "unknown digest" => {
                        envelope(&single_hop(&air, by), &unknown, Envelope { with_certificate: false, ..usual(&air) })
                    }
                    "forged certificate" => {
                        let mut forged = unknown.clone();
                        let at = forged.octets.len() - 1 - entropy.below(32) as usize;
                        forged.octets[at] ^= 1 + entropy.below(255) as u8;
                        envelope(&single_hop(&air, by), &forged, usual(&air))
                    }
                    _ => envelope(&single_hop(&air, by), &ticket, Envelope { with_certificate: false, ..usual(&air) }),
                };
                let at = forged.bytes.len() - 1 - entropy.below(32) as usize;
                forged.bytes[at] ^= 1 + entropy.below(255) as u8;
                let mut octets = [0; 6];
                entropy.fill(&mut octets);
                forged.source = if kind == "neighbour" { mac(9) } else { LinkAddress(octets) };
                assert!(!air.try_frame(&forged).1, "{kind}");
            }
            air.run(MILLISECOND);
        }
        assert_eq!((genuine, delivered), (100, 100), "{kind}");
        // Two for the first packet of the neighbour, and one for each further one.
        let forged = air.verifications - 101;
        assert!(forged <= most, "{kind}: {forged} verified");
        let router = &air.stations[&1].router;
        let known: Vec<LinkAddress> =
            router.location_table().iter().map(|station| station.position.address.mid).collect();
        assert_eq!((known, router.verifier.as_ref().unwrap().pending()), (vec![mac(9)], 0), "{kind}");
    }
}

/// Decompression of keys and hashes are more expensive than all checks before them: a sender without budget causes neither.
#[test]
fn the_budget_is_taken_before_anything_that_takes_time() {
    let (pki, mut air) = listener(SecurityMode::Strict);
    // The key in the certificate is no point of its curve.
    let mut wrong = pki.ticket(8);
    let at = wrong.octets.windows(32).position(|octets| octets == &wrong.key[1..]).unwrap();
    wrong.octets[at..at + 32].fill(0xff);
    let origin = SequencedSource { sequence: 5, source: position(&air, 8, east(100.0), 0) };
    let frames = [single_hop(&air, 8), frame(8, ExtendedHeader::TopoBroadcast(origin), 5)];
    let frames = frames.map(|frame| envelope(&frame, &wrong, usual(&air)));
    for frame in &frames {
        air.note_envelope(frame);
        assert_eq!(air.try_frame(frame), dropped(DropReason::InvalidCertificate));
    }
    for number in 0..100 {
        let mut forged = pki.ticket(7);
        *forged.octets.last_mut().unwrap() ^= 1 + number;
        let mut frame = envelope(&single_hop(&air, 7), &forged, usual(&air));
        frame.source = LinkAddress([6, 0, 0, 0, 0, number]);
        air.try_frame(&frame);
    }
    for frame in &frames {
        assert_eq!(air.try_frame(frame), dropped(DropReason::OverBudget));
    }
    air.run(SECOND);
    assert_eq!(air.try_frame(&frames[0]), dropped(DropReason::InvalidCertificate));
}
