//! Stations that sign their packets: header fields, certificates and digests, certificates that are asked for. The host signs
//! with the hash of key and message of the module beside, and verifies it.

use super::restart::{position, receive};
use super::verified::{Form, Holder, Pki, TICKET, issue, sign};
use super::*;
use crate::contract::config::geo::{CertificateOctets, SecurityMode};
use crate::contract::signature::{SigningRequest, SigningResult};
use crate::contract::view::Trust;
use roam6_wire::geo::SecuredPacket;
use roam6_wire::geo::btp::{Btp, SourceOrInfo, port};
use roam6_wire::security::{EndEntities, Issuance, Psid, PsidSsp, SignerIdentifier, Ssp};

const SECOND: Duration = Duration::from_secs(1);
const SERVICES: [Psid; 4] = [Psid::CAM, Psid::DENM, Psid::GN_MANAGEMENT, Psid::IPV6];
const PERMISSIONS: [PsidSsp<'static>; 4] = [
    PsidSsp { psid: Psid::CAM, ssp: Ssp::Bitmap(&[1, 0, 0]) },
    PsidSsp { psid: Psid::DENM, ssp: Ssp::Bitmap(&[1, 0xff, 0xff, 0xff]) },
    PsidSsp { psid: Psid::GN_MANAGEMENT, ssp: Ssp::Absent },
    PsidSsp { psid: Psid::IPV6, ssp: Ssp::Absent },
];
const STATION: Form<'static> = Form { permissions: &PERMISSIONS, ..TICKET };

impl Air {
    /// The host of a station signs.
    pub(super) fn sign(&mut self, number: u8, request: &SigningRequest) {
        let holder = self.holders.iter().find(|holder| holder.digest().0[..] == request.certificate[..]);
        let signature = holder.map(|holder| sign(&holder.key, &request.message)).map(|(r, s)| [r, s].concat());
        let result = SigningResult { id: request.id, signature: signature.unwrap_or_default() };
        let mut out = Outbox::new();
        let peer = self.stations.get_mut(&number).unwrap();
        peer.router.conclude_signature(self.now, &result, &mut out);
        self.carry(number, out);
    }

    /// Whether a station sends a secured frame for itself.
    pub(super) fn is_of_own(&self, number: u8, frame: &Frame) -> bool {
        let own = self.stations[&number].router.address().mid;
        let source = SecuredPacket::parse(&frame.bytes).map(|secured| secured.packet.extended.source().address.mid);
        source == Ok(own)
    }

    /// Lets a station sign with these certificates.
    fn equip_signer(&mut self, pki: &Pki, number: u8, tickets: &[Holder]) {
        let mut security = pki.config.clone();
        security.tickets = tickets.iter().map(|ticket| CertificateOctets(ticket.octets.clone())).collect();
        self.holders.extend_from_slice(tickets);
        let peer = self.stations.get_mut(&number).unwrap();
        let other = GeoRouter::new(ItsStationType::BUS, Mib::default(), Entropy::seed_from_u64(0));
        peer.router = std::mem::replace(&mut peer.router, other).with_security(&security);
        peer.router.set_frame_mtu(1500);
    }

    /// What a station has sent since the last call: psid, whether the certificate is with it, and the number of certificates
    /// asked for.
    fn signed_by(&mut self, number: u8) -> Vec<(Psid, bool, usize)> {
        let sent = std::mem::take(&mut self.sent);
        sent.iter()
            .filter(|(by, _)| *by == number)
            .map(|(_, frame)| {
                let secured = SecuredPacket::parse(&frame.bytes).unwrap();
                let with_certificate = matches!(secured.signed.signer, SignerIdentifier::Certificate(_));
                (secured.signed.header.psid, with_certificate, secured.signed.header.requests.iter().count())
            })
            .collect()
    }
}

fn pki(mode: SecurityMode) -> Pki {
    Pki::with_services(mode, &SERVICES)
}

fn ticket(pki: &Pki, number: u8) -> Holder {
    issue(number, Some(&pki.authority), STATION)
}

/// Stations in a row that all sign.
fn row(count: u8, apart: f64, mode: SecurityMode) -> (Pki, Air) {
    let pki = pki(mode);
    let mut air = Air::row(count, apart, &Mib::default());
    for number in 1..=count {
        air.equip_signer(&pki, number, &[ticket(&pki, number)]);
    }
    (pki, air)
}

fn ipv6(to: TransportType, octets: usize) -> PacketRequest {
    PacketRequest { upper: UpperProtocol::Ipv6, payload: vec![6; octets], ..data(to) }
}

fn message(to: TransportType, port: u16) -> PacketRequest {
    let btp = Btp { destination: port, source_or_info: SourceOrInfo::Information(0), payload: b"message" };
    PacketRequest { payload: btp.emit(), ..data(to) }
}

fn cam() -> PacketRequest {
    message(TransportType::SingleHop, port::CAM)
}

#[test]
fn stations_that_sign_find_and_reach_each_other_over_several_hops() {
    for mode in [SecurityMode::Strict, SecurityMode::NonStrict] {
        let (_, mut air) = row(5, 250.0, mode);
        air.run(10 * SECOND);
        for number in 1..=5 {
            let known: Vec<Trust> =
                air.stations[&number].router.location_table().iter().map(|station| station.trust).collect();
            assert!(known.iter().all(|trust| *trust == Trust::Verified) && !known.is_empty(), "{number}: {known:?}");
        }
        for to in [TransportType::SingleHop, TransportType::TopologyBroadcast(5)] {
            air.request(3, ipv6(to, 100)).unwrap();
        }
        air.request(1, message(TransportType::GeoBroadcast(around(east(1_250.0), 100)), port::DENM)).unwrap();
        // By the location service, whose packets carry the certificates.
        air.request(1, ipv6(station(5), 1_280)).unwrap();
        air.run(SECOND);
        air.request(5, ipv6(station(1), 1_280)).unwrap();
        air.run(SECOND);
        let mut delivered = air.delivered();
        delivered.sort_unstable();
        assert_eq!(delivered, [1, 1, 2, 2, 4, 4, 5, 5, 5], "{mode:?}");
        assert!(air.stations.values().all(|peer| peer.drops.iter().all(|drop| *drop == DropReason::Duplicate)));
    }
}

#[test]
fn the_certificate_is_in_the_first_cam_and_then_once_a_second() {
    let (_, mut air) = row(1, 0.0, SecurityMode::Strict);
    let mut with_certificate = Vec::new();
    for tenth in 0..40 {
        air.request(1, cam()).unwrap();
        let [(Psid::CAM, certificate, 0)] = air.signed_by(1)[..] else { panic!("not one CAM") };
        if certificate {
            with_certificate.push(tenth);
        }
        air.run(SECOND / 10);
    }
    assert_eq!(with_certificate, [0, 10, 20, 30]);
}

#[test]
fn a_newcomer_is_asked_for_its_certificate_and_sent_that_of_this_station() {
    let (pki, mut air) = row(1, 0.0, SecurityMode::Strict);
    for _ in 0..5 {
        air.request(1, cam()).unwrap();
        air.run(SECOND / 10);
    }
    air.signed_by(1);
    // It has sent its certificate before it came into range.
    air.add(2, east(5_000.0), &Mib::default());
    air.equip_signer(&pki, 2, &[ticket(&pki, 2)]);
    air.request(2, cam()).unwrap();
    air.place(2, east(100.0));
    air.run(SECOND / 5);
    air.request(2, cam()).unwrap();
    assert_eq!(air.signed_by(2)[1..], [(Psid::CAM, false, 0)]);
    assert_eq!(air.stations[&1].drops.last(), Some(&DropReason::UnknownCertificate));
    air.request(1, cam()).unwrap();
    assert_eq!(air.signed_by(1), [(Psid::CAM, true, 1)], "its own certificate, and a request");
    assert_eq!(air.stations[&2].delivered.len(), 1);
    air.run(SECOND / 10);
    air.request(2, cam()).unwrap();
    assert_eq!(air.signed_by(2), [(Psid::CAM, true, 0)], "the answer");
    assert_eq!(air.stations[&1].delivered.len(), 1);
}

#[test]
fn stations_without_cams_ask_and_answer_with_beacons() {
    let (pki, mut air) = row(1, 0.0, SecurityMode::Strict);
    air.run(10 * SECOND);
    air.add(2, east(100.0), &Mib::default());
    air.equip_signer(&pki, 2, &[ticket(&pki, 2)]);
    air.run(SECOND);
    air.signed_by(1);
    air.run(10 * SECOND);
    let sent = air.signed_by(1);
    assert!(sent.iter().all(|(psid, certificate, _)| *psid == Psid::GN_MANAGEMENT && *certificate), "{sent:?}");
    assert!(sent.len() <= 5, "{}", sent.len());
    for (of, at) in [(2, 1), (1, 2)] {
        let known = air.stations[&at].router.location_table().find(mac(of)).map(|station| station.trust);
        assert_eq!(known, Some(Trust::Verified));
    }
}

#[test]
fn the_certificate_of_an_unknown_authority_is_learnt_from_a_station_that_has_it() {
    let pki = pki(SecurityMode::Strict);
    let mut air = Air::row(2, 100.0, &Mib::default());
    for number in 1..=2 {
        air.equip_signer(&pki, number, &[ticket(&pki, number)]);
    }
    // The third trusts the root, and knows no authority; its own ticket is of another one of that root.
    let mut stranger = Pki::with_services(SecurityMode::Strict, &SERVICES);
    stranger.config.authorities.clear();
    air.add(3, east(150.0), &Mib::default());
    air.equip_signer(&stranger, 3, &[ticket(&pki, 3)]);
    for _ in 0..30 {
        for number in 1..=3 {
            air.request(number, cam()).unwrap();
        }
        air.run(SECOND / 10);
    }
    air.stations.get_mut(&3).unwrap().delivered.clear();
    air.request(1, cam()).unwrap();
    assert_eq!(air.stations[&3].delivered.len(), 1, "{:?}", air.stations[&3].drops);
    // An authority that no trusted root has issued is learnt by nobody.
    let foreign = issue(
        210,
        None,
        Form {
            issuance: Some(Issuance { services: &SERVICES, min_chain_length: 1, holders: EndEntities::Application }),
            ..STATION
        },
    );
    let by_foreign = issue(4, Some(&foreign), STATION);
    air.add(4, east(120.0), &Mib::default());
    air.equip_signer(&pki, 4, &[by_foreign]);
    air.stations.values_mut().for_each(|peer| peer.delivered.clear());
    for _ in 0..30 {
        for number in 1..=4 {
            air.request(number, cam()).unwrap();
        }
        air.run(SECOND / 10);
    }
    let known = air.stations[&1].router.location_table();
    assert!(known.find(mac(4)).is_none() && known.find(mac(3)).is_some());
}

#[test]
fn each_packet_has_the_fields_of_its_profile() {
    let (_, mut air) = row(1, 0.0, SecurityMode::Strict);
    let area = TransportType::GeoBroadcast(around(east(0.0), 500));
    for request in [message(area, port::DENM), ipv6(TransportType::SingleHop, 100), cam()] {
        air.request(1, request).unwrap();
    }
    let sent: Vec<Frame> = air.sent.iter().map(|(_, frame)| frame.clone()).collect();
    let [denm, ipv6, cam] = [0, 1, 2].map(|number| SecuredPacket::parse(&sent[number].bytes).unwrap());
    let now = air.stations[&1].router.its_time(air.now) * 1_000;
    assert!([&denm, &ipv6, &cam].iter().all(|packet| packet.signed.header.generation_time == Some(now)));
    assert_eq!(
        denm.signed.header.location.map(|location| (location.place, location.elevation)),
        Some((air.stations[&1].place, 4096))
    );
    assert_eq!([ipv6.signed.header.location, cam.signed.header.location], [None, None]);
    assert_eq!(
        [denm.signed.header.psid, ipv6.signed.header.psid, cam.signed.header.psid],
        [Psid::DENM, Psid::IPV6, Psid::CAM]
    );
    // A packet for which no service is known is not sent.
    air.sent.clear();
    air.request(1, message(TransportType::SingleHop, 4_000)).unwrap();
    assert_eq!((air.sent.len(), air.stations[&1].drops.last()), (0, Some(&DropReason::NotPermitted)));
}

#[test]
fn ipv6_packets_that_leave_no_room_for_the_certificate_are_signed_by_digest() {
    let (_, mut air) = row(2, 100.0, SecurityMode::Strict);
    air.run(5 * SECOND);
    air.signed_by(1);
    let mut certificates = Vec::new();
    for octets in [100, 100, 1_342, 1_343] {
        air.run(2 * SECOND);
        air.sent.clear();
        air.request(1, ipv6(station(2), octets)).unwrap();
        let longest = air.sent.iter().map(|(_, frame)| frame.bytes.len()).max().unwrap_or(0);
        assert!(longest <= 1_500, "{longest}");
        certificates.extend(air.signed_by(1).iter().map(|(_, certificate, _)| (octets, *certificate)));
    }
    assert_eq!(certificates, [(100, true), (100, true), (1_342, false)]);
    assert_eq!(air.stations[&1].drops.last(), Some(&DropReason::TooLong));
}

#[test]
fn a_station_whose_certificates_have_expired_sends_nothing_and_says_so_once() {
    let pki = pki(SecurityMode::Strict);
    let mut air = Air::row(1, 0.0, &Mib::default());
    let expired = issue(1, Some(&pki.authority), Form { validity: (-7_200, 1), ..STATION });
    air.equip_signer(&pki, 1, &[expired]);
    for _ in 0..3 {
        air.request(1, cam()).unwrap();
    }
    assert!(air.sent.is_empty());
    assert_eq!(air.stations[&1].drops, [DropReason::NoCertificate; 3]);
    // Of several the next valid one signs.
    let expired = issue(1, Some(&pki.authority), Form { validity: (-7_200, 1), ..STATION });
    air.equip_signer(&pki, 1, &[expired, ticket(&pki, 3)]);
    air.request(1, cam()).unwrap();
    assert_eq!((std::mem::take(&mut air.sent).len(), air.stations[&1].drops.len()), (1, 3));
    // Its host has no key.
    let usable = ticket(&pki, 2);
    air.equip_signer(&pki, 1, &[usable]);
    air.holders.clear();
    air.request(1, cam()).unwrap();
    assert_eq!((air.sent.len(), air.stations[&1].drops.len()), (0, 4));
}

#[test]
fn own_packets_that_others_forward_are_no_news_and_those_of_a_station_with_the_same_address_are() {
    let (pki, mut air) = row(1, 0.0, SecurityMode::Strict);
    air.run(5 * SECOND);
    air.sent.clear();
    air.request(1, message(TransportType::GeoBroadcast(around(east(0.0), 500)), port::DENM)).unwrap();
    let own = air.sent.last().unwrap().1.clone();
    for frame in [own.clone(), Frame { source: mac(7), ..own }] {
        receive(&mut air, 1, &frame);
    }
    assert_eq!((air.verifications, air.stations[&1].router.address().mid), (0, mac(1)));
    assert!(air.stations[&1].router.location_table().is_empty());
    // Another station, with a certificate of its own, and the same link-layer address.
    air.run(61 * SECOND);
    let source = position(&air, 1, east(50.0), 0);
    let plain = super::restart::frame(1, ExtendedHeader::Beacon { source }, 1);
    let signed = air.sign_with_ticket(&plain, &ticket(&pki, 9));
    receive(&mut air, 1, &signed);
    assert_ne!(air.stations[&1].router.address().mid, mac(1));
}

#[test]
fn a_change_of_pseudonym_leaves_nothing_of_the_former_one_and_others_find_the_new_station() {
    let pki = pki(SecurityMode::Strict);
    let mut air = Air::row(2, 100.0, &Mib::default());
    air.equip_signer(&pki, 2, &[ticket(&pki, 2)]);
    air.equip_signer(&pki, 1, &[ticket(&pki, 11), ticket(&pki, 12), ticket(&pki, 13)]);
    let peer = air.stations.get_mut(&1).unwrap();
    let other = GeoRouter::new(ItsStationType::BUS, Mib::default(), Entropy::seed_from_u64(0));
    peer.router = std::mem::replace(&mut peer.router, other).with_pseudonyms();
    let mut identities = Vec::new();
    for round in 0..4 {
        air.run(5 * SECOND);
        air.sent.clear();
        let mut stored = ipv6(TransportType::GeoUnicast(GeoAddress::new(ItsStationType::BUS, mac(9))), 50);
        stored.class = TrafficClass::new(3, true);
        air.request(1, stored).unwrap();
        air.request(1, cam()).unwrap();
        air.request(1, ipv6(TransportType::TopologyBroadcast(3), 50)).unwrap();
        air.run(SECOND);
        let own = air.stations[&1].router.address().mid;
        let sent: Vec<Frame> = air.sent.iter().filter(|(by, _)| *by == 1).map(|(_, frame)| frame.clone()).collect();
        let digests: Vec<_> = sent
            .iter()
            .map(|frame| {
                let secured = SecuredPacket::parse(&frame.bytes).unwrap();
                assert_eq!((frame.source, secured.packet.extended.source().address.mid), (own, own), "{round}");
                secured.signed.signer.digest().unwrap()
            })
            .collect();
        assert!(digests.len() >= 3 && digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
        for (former, digest) in &identities {
            let has =
                |octets: &[u8]| sent.iter().any(|frame| frame.bytes.windows(octets.len()).any(|part| part == octets));
            let former: &LinkAddress = former;
            assert!(!has(&former.0), "the former address, in round {round}");
            assert!(*digest != digests[0] || round == 3, "the certificate of another round");
        }
        let known = air.stations[&2].router.location_table().find(own).map(|station| station.trust);
        assert_eq!(known, Some(Trust::Verified), "{round}");
        identities.push((own, digests[0]));
        let mut out = Outbox::new();
        assert!(air.stations.get_mut(&1).unwrap().router.change_pseudonym(air.now, &mut out));
        air.carry(1, out);
    }
    // With one certificate there is nothing to change to.
    let mut out = Outbox::new();
    assert!(!air.stations.get_mut(&2).unwrap().router.change_pseudonym(air.now, &mut out));
}

#[test]
fn a_replaced_ticket_signs_until_another_is_taken() {
    let pki = pki(SecurityMode::Strict);
    let expired = issue(10, Some(&pki.authority), Form { validity: (-7_200, 1), ..STATION });
    let [one, two, three] = [11, 12, 13].map(|number| ticket(&pki, number));
    let octets = |holder: &Holder| CertificateOctets(holder.octets.clone());
    let mut air = Air::row(1, 0.0, &Mib::default());
    air.equip_signer(&pki, 1, std::slice::from_ref(&one));
    let now = air.now;
    let router = &mut air.stations.get_mut(&1).unwrap().router;
    let signs_with =
        |router: &GeoRouter, holder: &Holder| router.signer.as_ref().unwrap().digest() == Some(holder.digest());
    let take_next = |router: &mut GeoRouter| {
        let mut out = Outbox::new();
        router.take_next_ticket(now, &mut out);
        out.drain().count()
    };

    router.replace_tickets(&[octets(&two), octets(&one)]);
    assert!(signs_with(router, &one) && !router.needs_other_certificate(now), "it is among the new ones");
    router.replace_tickets(&[]);
    router.replace_tickets(&[CertificateOctets(vec![1, 2, 3])]);
    assert!(signs_with(router, &one) && !router.needs_other_certificate(now), "none replaces it");
    router.replace_tickets(&[octets(&expired)]);
    assert!(signs_with(router, &one) && !router.needs_other_certificate(now), "the others have expired");
    router.replace_tickets(&[octets(&expired), octets(&three)]);
    assert!(signs_with(router, &one) && router.needs_other_certificate(now), "it is withdrawn");
    assert_eq!(take_next(router), 1, "the operator is told");
    assert!(signs_with(router, &three) && !router.needs_other_certificate(now));
    assert_eq!(router.signer.as_ref().unwrap().tickets(), 2, "the withdrawn one is forgotten");
    router.replace_tickets(&[octets(&expired), octets(&three), octets(&two)]);
    assert!(signs_with(router, &three) && take_next(router) == 1 && signs_with(router, &two));
}
