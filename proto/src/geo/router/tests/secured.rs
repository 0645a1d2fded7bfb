//! Secured packets of others (ETSI TS 103 097) at stations that forward them without verification: no signed octet changes,
//! and nothing but forwarding and the position of the source comes of them.

use super::restart::{frame, position, receive};
use super::*;
use crate::contract::config::geo::SecurityMode;
use crate::contract::view::Trust;
use roam6_wire::geo::{ETHERTYPE, SecuredPacket, SequencedSource, is_secured};
use roam6_wire::security::{HashedId8, Psid, SignerField, UnsignedData};

const LONG: Duration = Duration::from_secs(1);

/// The packet of a frame in an envelope; who signs it does not matter, nobody looks.
pub(super) fn secure(frame: &Frame) -> Frame {
    let (basic, payload) = frame.bytes.split_at(4);
    let data = UnsignedData::new(payload, Psid::GN_MANAGEMENT, 719_000_000_000_000);
    let envelope = UnsignedData::emit(&data.to_be_signed(), SignerField::Digest(HashedId8([7; 8])), ([1; 32], [2; 32]));
    Frame { bytes: [&[basic[0] & 0xf0 | 2], &basic[1..], &envelope].concat(), ..frame.clone() }
}

/// Lets all stations forward secured packets; what these stations send of their own is secured.
fn relay(air: &mut Air, signed: &[u8]) {
    air.signed = signed.to_vec();
    air.stations.values_mut().for_each(|peer| peer.router.security = SecurityMode::Relay);
}

/// The senders of secured frames with a payload, in order.
fn senders(air: &Air) -> Vec<u8> {
    let has_payload = |frame: &Frame| SecuredPacket::parse(&frame.bytes).is_ok_and(|it| !it.packet.payload.is_empty());
    air.sent.iter().filter(|(_, frame)| has_payload(frame)).map(|(by, _)| *by).collect()
}

fn all_algorithms() -> Vec<Mib> {
    let non_area = [NonAreaForwarding::Greedy, NonAreaForwarding::Contention];
    let in_area = [AreaForwarding::Simple, AreaForwarding::Contention, AreaForwarding::Advanced];
    let each = non_area.into_iter().flat_map(move |one| in_area.map(|other| (one, other)));
    let each = each.flat_map(|(non_area, in_area)| {
        [false, true].map(|recovery| Mib { non_area, in_area, recovery, beacon_hops: 10, ..Mib::default() })
    });
    each.collect()
}

#[test]
fn secured_packets_pass_relays_untouched() {
    for mib in all_algorithms() {
        for to in [
            TransportType::GeoBroadcast(around(east(1_250.0), 100)),
            TransportType::GeoBroadcast(around(east(750.0), 700)),
            TransportType::GeoAnycast(around(east(1_250.0), 100)),
            TransportType::TopologyBroadcast(5),
            station(5),
        ] {
            let mut air = Air::row(5, 250.0, &mib);
            relay(&mut air, &[1]);
            air.run(Duration::from_secs(10));
            air.sent.clear();
            air.request(1, data(to)).unwrap();
            air.run(LONG);
            let by = senders(&air);
            assert!(by.starts_with(&[1]) && [2, 3, 4].iter().all(|relay| by.contains(relay)), "{to:?}: {by:?}");
            assert!(air.delivered().is_empty(), "nobody has verified it");
        }
    }
}

/// No signed octet changes, and hop limits fall, whatever the places, the algorithms and the packets.
#[test]
fn no_signed_octet_changes_in_random_worlds() {
    let mut entropy = Entropy::seed_from_u64(0x5ec);
    let (mut secured, mut total) = (0, 0);
    for mib in all_algorithms().iter().cycle().take(96) {
        let mut below = |most: u64| entropy.below(most);
        let mut air = Air::row(0, 0.0, mib);
        for number in 1..=12 {
            air.add(number, at(below(1_500) as f64, below(1_500) as f64), mib);
        }
        let signed: Vec<u8> = (1..=12).filter(|_| below(2) == 0).collect();
        relay(&mut air, &signed);
        air.run(Duration::from_secs(8));
        for _ in 0..12 {
            let by = 1 + below(12) as u8;
            let center = at(below(1_500) as f64, below(1_500) as f64);
            let to = match below(4) {
                0 => TransportType::GeoBroadcast(around(center, 400)),
                1 => TransportType::GeoAnycast(around(center, 100)),
                2 => TransportType::TopologyBroadcast(4),
                _ => station(1 + below(12) as u8),
            };
            let class = TrafficClass::new(3, below(2) == 0);
            let _ = air.request(by, PacketRequest { class, ..data(to) });
            air.run(Duration::from_millis(below(300)));
        }
        air.run(Duration::from_secs(3));
        // The check is where frames are sent.
        secured += air.sent.iter().filter(|(_, frame)| is_secured(&frame.bytes)).count();
        total += air.sent.len();
        assert!(air.stations.iter().all(|(number, peer)| peer.router.address().mid == mac(*number)));
    }
    assert!(secured > 2_000 && total > secured, "{secured} of {total}");
}

#[test]
fn sources_of_secured_packets_are_marked() {
    let mut air = Air::row(3, 100.0, &Mib::default());
    relay(&mut air, &[1]);
    air.run(Duration::from_secs(10));
    let is_marked =
        |air: &Air, of| air.stations[&3].router.location_table().find(mac(of)).unwrap().trust == Trust::Unverified;
    assert!(is_marked(&air, 1) && !is_marked(&air, 2));
    // It sends without security from now on.
    air.signed.clear();
    air.run(Duration::from_secs(10));
    assert!(!is_marked(&air, 1));
}

#[test]
fn unverified_packets_have_no_effect_beyond_forwarding() {
    let mut air = Air::row(2, 100.0, &Mib::default());
    relay(&mut air, &[]);
    air.run(Duration::from_secs(5));
    air.sent.clear();
    // The station's own address, and its own link-layer source, under another.
    for number in [1, 9] {
        let source = position(&air, number, east(120.0), 1);
        let beacon = frame(1, ExtendedHeader::Beacon { source }, 1);
        receive(&mut air, 1, &secure(&beacon));
    }
    assert_eq!(air.stations[&1].router.address().mid, mac(1));
    // A request for its position, and a packet to it.
    let origin = SequencedSource { sequence: 1, source: position(&air, 8, east(120.0), 0) };
    let sought = air.stations[&1].router.address();
    let mut request = frame(8, ExtendedHeader::LocationRequest { origin, sought }, 5);
    // Such a packet has no payload.
    request.bytes.truncate(request.bytes.len() - 4);
    request.bytes[8..10].copy_from_slice(&[0, 0]);
    receive(&mut air, 1, &secure(&request));
    let destination = air.stations[&1].router.position(air.now).unwrap().short();
    let origin = SequencedSource { sequence: 2, ..origin };
    receive(&mut air, 1, &secure(&frame(8, ExtendedHeader::GeoUnicast { origin, destination }, 5)));
    air.run(Duration::from_millis(500));
    assert_eq!((air.transmissions(), air.delivered()), (vec![], vec![]));
    assert!(air.stations[&1].router.location_table().find(mac(8)).is_some(), "its position is known");
}

#[test]
fn an_unsecured_copy_does_not_end_the_contention_of_a_secured_packet() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    relay(&mut air, &[]);
    air.run(Duration::from_secs(5));
    air.sent.clear();
    let source = position(&air, 8, east(300.0), 0);
    let area = around(east(500.0), 600);
    let plain = frame(8, ExtendedHeader::GeoBroadcast { origin: SequencedSource { sequence: 5, source }, area }, 5);
    let genuine = secure(&plain);
    let mut forged = genuine.clone();
    *forged.bytes.last_mut().unwrap() ^= 1;
    air.note_envelope(&genuine);
    for frame in [&genuine, &plain, &forged] {
        receive(&mut air, 2, frame);
    }
    air.run(LONG);
    let sent: Vec<&Frame> = air.sent.iter().filter(|(by, _)| *by == 2).map(|(_, frame)| frame).collect();
    let of_eight = sent.into_iter().filter(|frame| frame.bytes.get(4..) == genuine.bytes.get(4..)).count();
    assert_eq!(of_eight, 1);
    // The same octets end it.
    let source = position(&air, 8, east(300.0), 0);
    let extended = ExtendedHeader::GeoBroadcast { origin: SequencedSource { sequence: 6, source }, area };
    let second = secure(&frame(8, extended, 5));
    air.sent.clear();
    receive(&mut air, 2, &second);
    receive(&mut air, 2, &second);
    air.run(Duration::from_millis(500));
    assert!(air.sent.iter().all(|(_, frame)| frame.bytes.get(4..) != second.bytes.get(4..)));
}

#[test]
fn an_unsecured_copy_sent_before_is_no_duplicate_of_a_secured_packet() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    relay(&mut air, &[]);
    air.run(Duration::from_secs(5));
    air.sent.clear();
    let origin = SequencedSource { sequence: 5, source: position(&air, 8, east(300.0), 0) };
    let plain = frame(8, ExtendedHeader::GeoBroadcast { origin, area: around(east(500.0), 600) }, 5);
    let genuine = secure(&plain);
    air.note_envelope(&genuine);
    for _ in 0..3 {
        receive(&mut air, 2, &plain);
        receive(&mut air, 2, &genuine);
        air.run(LONG);
    }
    let sent = air.sent.iter().filter(|(by, frame)| *by == 2 && frame.bytes.get(4..) == genuine.bytes.get(4..));
    assert_eq!(sent.count(), 1);
}

#[test]
fn malformed_envelopes_are_counted() {
    let mut air = Air::row(2, 100.0, &Mib::default());
    relay(&mut air, &[]);
    air.run(Duration::from_secs(5));
    let source = position(&air, 8, east(120.0), 0);
    let whole = secure(&frame(8, ExtendedHeader::SingleHop { source, media: [0; 4] }, 1));
    for length in 1..whole.bytes.len() {
        receive(&mut air, 1, &Frame { bytes: whole.bytes[..length].to_vec(), ..whole.clone() });
        assert_eq!(air.stations.get_mut(&1).unwrap().drops.pop(), Some(DropReason::Malformed), "{length}");
    }
    let longer = [&whole.bytes[..], &[0]].concat();
    receive(&mut air, 1, &Frame { bytes: longer, ethertype: ETHERTYPE, ..whole });
    assert_eq!(air.stations.get_mut(&1).unwrap().drops.pop(), Some(DropReason::Malformed));
}
