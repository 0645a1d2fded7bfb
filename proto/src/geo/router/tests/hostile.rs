//! Hostile packets: truncated, with any octet changed, with empty areas, wrapped timestamps and empty secured
//! envelopes. Each causes at most one frame, and a malformed packet is counted.

use super::*;
use crate::contract::report::{HostReport, Report};
use roam6_wire::geo::{ETHERTYPE, LongPositionVector, Timestamp};

/// The values each octet is changed to, beside those that differ in one bit.
const VALUES: [u8; 5] = [0, 1, 0x7f, 0x80, 0xff];
const VICTIM: u8 = 2;

/// One frame of each kind that station 1 sends, and the beacon of station 3.
fn frames() -> (Vec<Frame>, Frame) {
    let mut air = Air::row(3, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    let is_beacon = |frame: &Frame| matches!(extended(frame), Some(ExtendedHeader::Beacon { .. }));
    let beacon = |by| air.sent.iter().find(|(from, frame)| *from == by && is_beacon(frame)).unwrap().1.clone();
    let (mut all, third) = (vec![beacon(1)], beacon(3));
    air.sent.clear();
    let near = around(east(500.0), 600);
    let far = around(east(750.0), 100);
    for to in [
        TransportType::SingleHop,
        TransportType::TopologyBroadcast(5),
        TransportType::GeoBroadcast(near),
        TransportType::GeoBroadcast(far),
        TransportType::GeoAnycast(far),
        station(3),
        station(9),
    ] {
        air.request(1, data(to)).unwrap();
    }
    all.extend(air.sent.iter().filter(|(from, _)| *from == 1).map(|(_, frame)| frame.clone()));
    // The third answers the requests for its position.
    all.extend(air.sent.iter().filter(|(from, _)| *from == 3).map(|(_, frame)| frame.clone()));
    (all, third)
}

fn extended(frame: &Frame) -> Option<ExtendedHeader> {
    Packet::parse(&frame.bytes).ok().map(|packet| packet.extended)
}

/// The reaction of the second station to a frame within a second: the number of frames it sends, whether it delivers the
/// packet, and the reasons of its drops.
fn receive_hostile(frame: &Frame, third: &Frame) -> (usize, bool, Vec<DropReason>) {
    let now = Time::from_micros(6_000_000);
    let mut router = GeoRouter::new(ItsStationType::PASSENGER_CAR, Mib::default(), Entropy::seed_from_u64(2));
    router.set_clock(Time::from_micros(1_000_000), Clock { unix_micros: 1_790_000_000_000_000 });
    let event = LinkEvent { link: LINK, name: "radio0".to_owned(), address: Some(mac(VICTIM)), up: true, mtu: 1500 };
    router.set_link(now, &event);
    router.set_fix(now, Some(fix(east(500.0))));
    router.receive(now, third, &mut Outbox::new());
    let mut out = Outbox::new();
    let taken = router.receive(now, frame, &mut out).is_some();
    let until = now + Duration::from_secs(1);
    while let Some(at) = router.deadline().filter(|at| *at <= until) {
        router.expire(at, &mut out);
    }
    let (mut sent, mut drops) = (0, Vec::new());
    for output in out.drain() {
        match output {
            Output::Frame(frame) if !matches!(extended(&frame), Some(ExtendedHeader::Beacon { .. })) => sent += 1,
            Output::Report(Report::Host(HostReport::Dropped { reason, .. })) => drops.push(reason),
            _ => {}
        }
    }
    (sent, taken, drops)
}

#[test]
fn truncated_packets_are_counted_and_not_forwarded() {
    let (frames, third) = frames();
    assert!(frames.len() >= 9, "{frames:?}");
    for frame in &frames {
        for length in 0..frame.bytes.len() {
            let cut = Frame { bytes: frame.bytes[..length].to_vec(), ..frame.clone() };
            assert_eq!(receive_hostile(&cut, &third), (0, false, vec![DropReason::Malformed]), "{length} of {frame:?}");
        }
    }
}

#[test]
fn no_change_of_an_octet_makes_more_than_one_frame() {
    let (frames, third) = frames();
    for frame in &frames {
        for at in 0..frame.bytes.len() {
            let was = frame.bytes[at];
            let bits = (0..8).map(|bit| was ^ 1 << bit);
            for value in VALUES.into_iter().chain(bits) {
                let mut changed = frame.clone();
                changed.bytes[at] = value;
                let (sent, ..) = receive_hostile(&changed, &third);
                assert!(sent <= 1, "octet {at} as {value}: {sent} frames for {frame:?}");
            }
        }
    }
}

/// A packet of the first station, changed.
fn changed(of: &Frame, change: impl FnOnce(&mut ExtendedHeader)) -> Frame {
    let mut packet = Packet::parse(&of.bytes).unwrap();
    change(&mut packet.extended);
    let bytes = packet.emit();
    Frame { bytes, ..of.clone() }
}

#[test]
fn empty_and_oversized_areas_are_not_forwarded() {
    let (frames, third) = frames();
    let broadcast =
        frames.iter().find(|frame| matches!(extended(frame), Some(ExtendedHeader::GeoBroadcast { .. }))).unwrap();
    for shape in [Shape::Circle, Shape::Rectangle, Shape::Ellipse] {
        for (a, b, angle) in [(0, 0, 0), (0, 9, 0), (9, 0, 0), (u16::MAX, u16::MAX, u16::MAX), (1, 1, 361)] {
            for center in [east(500.0), east(10_000.0)] {
                let new = Area { shape, center, a, b, angle };
                let frame = changed(broadcast, |extended| {
                    if let ExtendedHeader::GeoBroadcast { area, .. } = extended {
                        *area = new;
                    }
                });
                let (sent, _, drops) = receive_hostile(&frame, &third);
                let most = usize::from(a != u16::MAX);
                assert!(sent <= most, "{new:?}: {sent}, {drops:?}");
            }
        }
    }
}

#[test]
fn extreme_position_vectors_are_harmless() {
    let (frames, third) = frames();
    for frame in &frames {
        for timestamp in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            for speed in [i16::MIN >> 1, -1, 0, i16::MAX >> 1] {
                let new = |source: &mut LongPositionVector| {
                    (source.timestamp, source.speed, source.heading) = (Timestamp(timestamp), speed, u16::MAX);
                };
                let frame = changed(frame, |extended| match extended {
                    ExtendedHeader::Beacon { source } | ExtendedHeader::SingleHop { source, .. } => new(source),
                    ExtendedHeader::TopoBroadcast(origin)
                    | ExtendedHeader::GeoUnicast { origin, .. }
                    | ExtendedHeader::GeoBroadcast { origin, .. }
                    | ExtendedHeader::GeoAnycast { origin, .. }
                    | ExtendedHeader::LocationRequest { origin, .. }
                    | ExtendedHeader::LocationReply { origin, .. } => new(&mut origin.source),
                });
                assert!(receive_hostile(&frame, &third).0 <= 1, "{frame:?}");
            }
        }
    }
}

#[test]
fn secured_packets_are_counted_and_dropped() {
    let (frames, third) = frames();
    let mut entropy = Entropy::seed_from_u64(7);
    for length in 0..200 {
        let mut garbage = vec![0; length];
        entropy.fill(&mut garbage);
        // Basic header of version 1 before a secured packet.
        let bytes = [&[0x12, 0, 0x1a, 5][..], &garbage].concat();
        let frame = Frame { bytes, ethertype: ETHERTYPE, ..frames[0].clone() };
        assert_eq!(receive_hostile(&frame, &third), (0, false, vec![DropReason::Secured]));
    }
}
