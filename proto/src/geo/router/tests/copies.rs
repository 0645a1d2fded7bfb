//! Copies of a packet that somebody has changed where nothing protects it: another timestamp, or a low remaining hop
//! limit. They do not keep the packet itself from going on.

use super::restart::{frame, position, receive};
use super::*;
use roam6_wire::geo::{SequencedSource, Timestamp};

const LONG: Duration = Duration::from_secs(1);

/// Two stations in the destination area of a packet of a third one, and that packet, sent `ahead` milliseconds later than
/// now.
fn scene(ahead: u32, hops: u8) -> (Air, Frame) {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.sent.clear();
    let bytes = packet(&air, ahead, hops);
    (air, bytes)
}

/// A packet of station 8 with sequence number 5.
fn packet(air: &Air, ahead: u32, hops: u8) -> Frame {
    let source = position(air, 8, east(300.0), ahead);
    let area = around(east(500.0), 600);
    let packet = frame(8, ExtendedHeader::GeoBroadcast { origin: SequencedSource { sequence: 5, source }, area }, 10);
    let mut bytes = packet.bytes.clone();
    roam6_wire::geo::set_remaining_hop_limit(&mut bytes, hops);
    Frame { bytes, ..packet }
}

/// The timestamps of the packets of station 8 that station 2 has sent.
fn forwarded(air: &Air) -> Vec<Timestamp> {
    let of_two = air.sent.iter().filter(|(by, _)| *by == 2).map(|(_, frame)| Packet::parse(&frame.bytes).unwrap());
    of_two.filter(|packet| !packet.payload.is_empty()).map(|packet| packet.extended.source().timestamp).collect()
}

fn timestamp(frame: &Frame) -> Timestamp {
    Packet::parse(&frame.bytes).unwrap().extended.source().timestamp
}

#[test]
fn another_timestamp_does_not_end_the_contention_of_a_packet() {
    let (mut air, genuine) = scene(0, 5);
    let forged = packet(&air, 1, 5);
    for frame in [&genuine, &forged, &forged] {
        receive(&mut air, 2, frame);
    }
    air.run(LONG);
    assert_eq!(forwarded(&air), [timestamp(&genuine)], "the forged copy has ended its own contention only");
}

#[test]
fn a_copy_with_a_low_hop_limit_does_not_end_contention() {
    for (hops, count) in [(1, 1), (2, 1), (3, 0), (4, 0), (5, 0)] {
        let (mut air, genuine) = scene(0, 5);
        receive(&mut air, 2, &genuine);
        let copy = packet(&air, 0, hops);
        receive(&mut air, 2, &copy);
        air.run(LONG);
        assert_eq!(forwarded(&air).len(), count, "copy with {hops} hops left");
    }
}

#[test]
fn a_first_copy_without_hops_left_does_not_end_forwarding() {
    let (mut air, early) = scene(0, 1);
    receive(&mut air, 2, &early);
    let genuine = packet(&air, 0, 5);
    receive(&mut air, 2, &genuine);
    air.run(LONG);
    receive(&mut air, 2, &genuine);
    air.run(LONG);
    assert_eq!(forwarded(&air), [timestamp(&genuine)]);
    assert_eq!(air.stations[&2].delivered.len(), 1, "it is delivered once");
}
