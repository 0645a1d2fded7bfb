//! Stations on a small radio medium: reception, forwarding and delivery.

mod copies;
mod hostile;
mod limits;
mod restart;
#[cfg(feature = "geo-security")]
mod secured;
#[cfg(feature = "geo-security")]
mod signing;
#[cfg(feature = "geo-security")]
mod verified;

use super::*;
use crate::contract::config::geo::{AreaForwarding, NonAreaForwarding, TransportType};
use crate::contract::output::Output;
use crate::contract::report::{HostReport, Report};
use crate::geo::geometry;
use crate::geo::request::{Repetition, RequestError};
use roam6_wire::geo::{Area, Coordinates, ExtendedHeader, Packet, Shape, TrafficClass, UpperProtocol};
use std::collections::BTreeMap;

const LINK: LinkId = LinkId(1);
const RANGE: f64 = 300.0;
const MILLISECOND: Duration = Duration::from_millis(1);

/// Stations that receive frames of one another within [`RANGE`] metres.
struct Air {
    now: Time,
    stations: BTreeMap<u8, Peer>,
    /// All frames sent, each with the number of its sender.
    sent: Vec<(u8, Frame)>,
    /// Stations whose own packets are secured.
    #[cfg(feature = "geo-security")]
    signed: Vec<u8>,
    /// What their signatures cover, and the signatures; with the hop limit that they were sent with.
    #[cfg(feature = "geo-security")]
    envelopes: BTreeMap<Vec<u8>, u8>,
    /// Stations that sign their own packets, with their certificates.
    #[cfg(feature = "geo-security")]
    tickets: BTreeMap<u8, verified::Holder>,
    /// The certificates that hosts have keys of.
    #[cfg(feature = "geo-security")]
    holders: Vec<verified::Holder>,
    /// Signatures that hosts have verified.
    #[cfg(feature = "geo-security")]
    verifications: usize,
}

struct Peer {
    router: GeoRouter,
    place: Coordinates,
    delivered: Vec<Vec<u8>>,
    drops: Vec<DropReason>,
}

fn mac(number: u8) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 0, number])
}

/// `metres` east of a place where all this happens.
fn east(metres: f64) -> Coordinates {
    let plane = geometry::Plane::at(Coordinates::from_degrees(48.0, 11.0).unwrap());
    plane.place(geometry::Offset { east: metres, north: 0.0 })
}

/// The place `east` and `north` metres from the origin.
fn at(east: f64, north: f64) -> Coordinates {
    geometry::Plane::at(Coordinates::from_degrees(48.0, 11.0).unwrap()).place(geometry::Offset { east, north })
}

fn data(to: TransportType) -> PacketRequest {
    let (upper, class) = (UpperProtocol::BtpB, TrafficClass(0));
    PacketRequest { to, upper, payload: b"data".to_vec(), class, lifetime: None, hops: None, repetition: None }
}

fn station(number: u8) -> TransportType {
    TransportType::GeoUnicast(GeoAddress::new(ItsStationType::PASSENGER_CAR, mac(number)))
}

impl Air {
    /// Stations 1, 2, ... in a row, so many metres apart.
    fn row(count: u8, apart: f64, mib: &Mib) -> Air {
        let mut air = Air {
            now: Time::from_micros(1_000_000),
            stations: BTreeMap::new(),
            sent: Vec::new(),
            #[cfg(feature = "geo-security")]
            signed: Vec::new(),
            #[cfg(feature = "geo-security")]
            envelopes: BTreeMap::new(),
            #[cfg(feature = "geo-security")]
            tickets: BTreeMap::new(),
            #[cfg(feature = "geo-security")]
            holders: Vec::new(),
            #[cfg(feature = "geo-security")]
            verifications: 0,
        };
        for number in 1..=count {
            air.add(number, east(f64::from(number) * apart), mib);
        }
        air
    }

    fn add(&mut self, number: u8, place: Coordinates, mib: &Mib) {
        let mut router =
            GeoRouter::new(ItsStationType::PASSENGER_CAR, mib.clone(), Entropy::seed_from_u64(u64::from(number)));
        router.set_clock(self.now, Clock { unix_micros: 1_790_000_000_000_000 + self.now.as_micros() });
        let name = "radio0".to_owned();
        let event = LinkEvent { link: LINK, name, address: Some(mac(number)), up: true, mtu: 1500 };
        router.set_link(self.now, &event);
        router.set_fix(self.now, Some(fix(place)));
        self.stations.insert(number, Peer { router, place, delivered: Vec::new(), drops: Vec::new() });
    }

    fn place(&mut self, number: u8, place: Coordinates) {
        let now = self.now;
        let peer = self.stations.get_mut(&number).unwrap();
        peer.place = place;
        peer.router.set_fix(now, Some(fix(place)));
    }

    fn request(&mut self, number: u8, request: PacketRequest) -> Result<(), RequestError> {
        let mut out = Outbox::new();
        let peer = self.stations.get_mut(&number).unwrap();
        let result = peer.router.request(self.now, request, &mut out);
        self.carry(number, out);
        result
    }

    /// Advances the time by `span`, and runs all timers that expire meanwhile.
    fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some((at, number)) =
            self.stations.iter().filter_map(|(number, peer)| Some((peer.router.deadline()?, *number))).min()
        {
            if at > until {
                break;
            }
            self.now = self.now.max(at);
            let mut out = Outbox::new();
            self.stations.get_mut(&number).unwrap().router.expire(self.now, &mut out);
            self.carry(number, out);
        }
        self.now = until;
    }

    fn carry(&mut self, number: u8, mut out: Outbox) {
        let outputs: Vec<Output> = out.drain().collect();
        for output in outputs {
            match output {
                Output::Frame(frame) => {
                    #[cfg(feature = "geo-security")]
                    let frame = self.secured(number, frame);
                    self.sent.push((number, frame.clone()));
                    self.spread(number, &frame);
                }
                Output::Report(Report::Host(HostReport::Dropped { reason, .. })) => {
                    self.stations.get_mut(&number).unwrap().drops.push(reason);
                }
                #[cfg(feature = "geo-security")]
                Output::Verify(request) => self.answer(number, &request),
                #[cfg(feature = "geo-security")]
                Output::Sign(request) => self.sign(number, &request),
                _ => {}
            }
        }
    }

    /// The frame as it is sent: a signed station's own packets are secured. No signed octet of others has changed, and their
    /// hop limit is less than at first.
    #[cfg(feature = "geo-security")]
    fn secured(&mut self, number: u8, frame: Frame) -> Frame {
        if roam6_wire::geo::is_secured(&frame.bytes) {
            if self.is_of_own(number, &frame) {
                self.note_envelope(&frame);
                return frame;
            }
            let first = self.envelopes.get(&frame.bytes[4..]);
            assert!(first.is_some(), "station {number} has changed {frame:?}");
            assert!(first.is_some_and(|first| frame.bytes[3] < *first), "the hop limit of {frame:?} was {first:?}");
            return frame;
        }
        let source = Packet::parse(&frame.bytes).unwrap().extended.source().address.mid;
        let frame = match self.tickets.get(&number) {
            _ if source != mac(number) => return frame,
            Some(ticket) => self.sign_with_ticket(&frame, ticket),
            None if self.signed.contains(&number) => secured::secure(&frame),
            None => return frame,
        };
        self.note_envelope(&frame);
        frame
    }

    /// Notes a secured frame as its source has sent it.
    #[cfg(feature = "geo-security")]
    fn note_envelope(&mut self, frame: &Frame) {
        self.envelopes.insert(frame.bytes[4..].to_vec(), frame.bytes[3]);
    }

    fn spread(&mut self, number: u8, frame: &Frame) {
        let from = self.stations[&number].place;
        let receives = |other: &u8, peer: &Peer| {
            let is_for = frame.destination == BROADCAST || frame.destination == mac(*other);
            *other != number && is_for && geometry::distance(from, peer.place) <= RANGE
        };
        let receivers: Vec<u8> =
            self.stations.iter().filter(|(other, peer)| receives(other, peer)).map(|(other, _)| *other).collect();
        for receiver in receivers {
            let mut out = Outbox::new();
            let peer = self.stations.get_mut(&receiver).unwrap();
            if let Some(delivery) = peer.router.receive(self.now, frame, &mut out) {
                peer.delivered.push(delivery.packet.payload.to_vec());
            }
            self.carry(receiver, out);
        }
    }

    /// The senders of the frames with a payload since the last call.
    fn transmissions(&mut self) -> Vec<u8> {
        let is_data = |frame: &Frame| Packet::parse(&frame.bytes).is_ok_and(|packet| !packet.payload.is_empty());
        std::mem::take(&mut self.sent).into_iter().filter(|(_, frame)| is_data(frame)).map(|(by, _)| by).collect()
    }

    fn delivered(&self) -> Vec<u8> {
        self.stations.iter().flat_map(|(number, peer)| peer.delivered.iter().map(|_| *number)).collect()
    }
}

fn fix(place: Coordinates) -> Fix {
    Fix { place, uncertainty: Some(3), speed: 0, heading: 0 }
}

fn around(place: Coordinates, radius: u16) -> Area {
    Area::circle(place, radius)
}

#[test]
fn gbc_on_a_line_of_four_is_sent_at_most_four_times() {
    for in_area in [AreaForwarding::Contention, AreaForwarding::Simple, AreaForwarding::Advanced] {
        let mut air = Air::row(4, 250.0, &Mib { in_area, ..Mib::default() });
        air.run(Duration::from_secs(5));
        air.sent.clear();
        air.request(1, data(TransportType::GeoBroadcast(around(east(600.0), 1_000)))).unwrap();
        air.run(Duration::from_secs(1));
        assert_eq!(air.delivered(), [2, 3, 4], "{in_area:?}");
        let sent = air.transmissions();
        assert!(sent.len() <= 4 && sent.starts_with(&[1, 2, 3]), "{in_area:?}: {sent:?}");
    }
}

#[test]
fn cbf_lets_the_farthest_receiver_forward_and_the_others_discard() {
    let mut air = Air::row(6, 50.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.sent.clear();
    air.request(1, data(TransportType::GeoBroadcast(around(east(150.0), 400)))).unwrap();
    air.run(Duration::from_secs(1));
    assert_eq!(air.delivered(), [2, 3, 4, 5, 6]);
    assert_eq!(air.transmissions(), [1, 6]);
}

/// The stations that receive a packet, and those that send it; the first is outside its area.
fn into_the_area(in_area: AreaForwarding, places: &[(f64, f64)], area: Area) -> (Vec<u8>, Vec<u8>) {
    let mib = Mib { in_area, ..Mib::default() };
    let mut air = Air::row(0, 0.0, &mib);
    for (number, (east, north)) in (1..).zip(places) {
        air.add(number, at(*east, *north), &mib);
    }
    air.run(Duration::from_secs(5));
    air.sent.clear();
    air.request(1, data(TransportType::GeoBroadcast(area))).unwrap();
    air.run(Duration::from_secs(1));
    (air.delivered(), air.transmissions())
}

#[test]
fn advanced_forwarding_reaches_each_station_of_the_area_once() {
    let row = [(0.0, 0.0), (250.0, 0.0), (500.0, 0.0), (750.0, 0.0), (1_000.0, 0.0)];
    let area = around(east(750.0), 550);
    let (delivered, sent) = into_the_area(AreaForwarding::Advanced, &row, area);
    assert_eq!(delivered, [2, 3, 4, 5]);
    // Greedy forwarding to the middle before any CBF timer expires, then contention among the stations there.
    assert_eq!(sent[..4], [1, 2, 3, 2], "{sent:?}");
    assert!((2..=5).all(|by| sent.iter().filter(|one| **one == by).count() <= 2), "{sent:?}");
    let (delivered, sent) = into_the_area(AreaForwarding::Contention, &row, area);
    assert_eq!((delivered, &sent[..2]), (vec![2, 3, 4, 5], &[1, 2][..]));
}

#[test]
fn advanced_cbf_ignores_a_copy_from_another_sector() {
    // The second spreads it; the third is farther away than the fourth, in another direction, and receives it; only
    // the fourth reaches the fifth.
    let places = [(0.0, 0.0), (250.0, 0.0), (300.0, 260.0), (490.0, 60.0), (780.0, 60.0)];
    let area = around(at(480.0, 100.0), 400);
    assert_eq!(into_the_area(AreaForwarding::Contention, &places, area).0, [2, 3, 4]);
    assert_eq!(into_the_area(AreaForwarding::Advanced, &places, area).0, [2, 3, 4, 5]);
}

#[test]
fn the_location_service_finds_a_station_and_its_buffer_is_sent_once() {
    for non_area in [NonAreaForwarding::Greedy, NonAreaForwarding::Contention] {
        let mut air = Air::row(4, 250.0, &Mib { non_area, ..Mib::default() });
        air.run(Duration::from_secs(5));
        air.sent.clear();
        air.request(1, data(station(4))).unwrap();
        air.run(Duration::from_secs(1));
        assert_eq!((air.delivered(), air.stations[&1].router.buffered().2), (vec![4], 0), "{non_area:?}");
        air.sent.clear();
        air.request(1, data(station(4))).unwrap();
        air.run(Duration::from_secs(1));
        assert_eq!(air.delivered(), [4, 4], "{non_area:?}");
        assert_eq!(air.transmissions(), [1, 2, 3], "{non_area:?}");
    }
}

#[test]
fn ls_requests_for_an_absent_station_end_after_ten_retransmissions() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.sent.clear();
    air.request(1, data(station(9))).unwrap();
    air.run(Duration::from_secs(15));
    let asks = |(by, frame): &&(u8, Frame)| {
        *by == 1 && matches!(Packet::parse(&frame.bytes).unwrap().extended, ExtendedHeader::LocationRequest { .. })
    };
    assert_eq!(air.sent.iter().filter(asks).count(), 11);
    let peer = &air.stations[&1];
    assert_eq!((peer.router.buffered().2, peer.drops.as_slice()), (0, &[DropReason::NoNeighbour][..]));
}

#[test]
fn multi_hop_beacons_make_ls_requests_unnecessary() {
    let mut air = Air::row(4, 250.0, &Mib { beacon_hops: 4, ..Mib::default() });
    air.run(Duration::from_secs(5));
    air.request(1, data(station(4))).unwrap();
    assert_eq!(air.delivered(), [4]);
}

#[test]
fn gac_ends_at_the_first_station_of_the_area() {
    let mut air = Air::row(5, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.sent.clear();
    air.request(1, data(TransportType::GeoAnycast(around(east(1_125.0), 200)))).unwrap();
    air.run(Duration::from_secs(1));
    assert_eq!((air.delivered(), air.transmissions()), (vec![4], vec![1, 2, 3]));
}

#[test]
fn tsb_stops_at_the_hop_limit() {
    let mut air = Air::row(5, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.request(1, data(TransportType::TopologyBroadcast(2))).unwrap();
    air.request(1, data(TransportType::SingleHop)).unwrap();
    air.run(Duration::from_secs(1));
    assert_eq!(air.delivered(), [2, 2, 3]);
}

#[test]
fn store_carry_forward_sends_when_a_nearer_neighbour_appears() {
    let mut air = Air::row(2, 200.0, &Mib::default());
    air.add(9, east(3_000.0), &Mib::default());
    air.run(Duration::from_secs(5));
    let carried =
        PacketRequest { class: TrafficClass(0x80), ..data(TransportType::GeoBroadcast(around(east(3_000.0), 100))) };
    air.request(2, carried).unwrap();
    air.run(Duration::from_secs(10));
    assert_eq!((air.delivered(), air.stations[&2].router.buffered().0), (vec![], 1));
    air.place(2, east(2_800.0));
    air.run(Duration::from_secs(5));
    assert_eq!((air.delivered(), air.stations[&2].router.buffered().0), (vec![9], 0));
}

#[test]
fn perimeter_forwarding_goes_round_a_gap() {
    // A lake lies between the first and the seventh; the only path follows the northern shore. The last is a dead end.
    let lake = [(200, 0), (100, 250), (300, 450), (560, 560), (800, 450), (950, 220), (1_000, 0), (100, -200)];
    let mib = Mib { recovery: true, ..Mib::default() };
    let mut air = Air::row(0, 0.0, &mib);
    for (number, (east, north)) in (1..).zip(lake) {
        air.add(number, at(f64::from(east), f64::from(north)), &mib);
    }
    air.run(Duration::from_secs(5));
    air.request(1, data(station(7))).unwrap();
    air.run(Duration::from_secs(1));
    assert_eq!((air.delivered(), air.transmissions()), (vec![7], vec![1, 2, 3, 4, 5, 6]));
    air.request(1, data(TransportType::GeoAnycast(around(at(1_000.0, 0.0), 100)))).unwrap();
    air.run(Duration::from_secs(1));
    assert_eq!((air.delivered(), air.transmissions()), (vec![7, 7], vec![1, 2, 3, 4, 5, 6]));
}

#[test]
fn perimeter_forwarding_leaves_dead_ends() {
    // In the order of the right-hand rule, a dead end and the source precede the path round the lake.
    let lake =
        [(200, 0), (150, 270), (100, -250), (300, -450), (560, -560), (800, -450), (950, -220), (1_000, 0), (-90, 0)];
    let mib = Mib { recovery: true, default_hop_limit: 20, ..Mib::default() };
    let mut air = Air::row(0, 0.0, &mib);
    for (number, (east, north)) in (1..).zip(lake) {
        air.add(number, at(f64::from(east), f64::from(north)), &mib);
    }
    air.run(Duration::from_secs(5));
    air.request(9, data(station(8))).unwrap();
    air.run(Duration::from_secs(1));
    assert_eq!((air.delivered(), air.transmissions()), (vec![8], vec![9, 1, 2, 1, 9, 1, 3, 4, 5, 6, 7]));
}

#[test]
fn invalid_packet_requests_are_refused() {
    let mut air = Air::row(1, 0.0, &Mib::default());
    let long = PacketRequest { payload: vec![0; 1399], ..data(TransportType::SingleHop) };
    assert_eq!(air.request(1, long), Err(RequestError::TooLong { octets: 1399, limit: 1398 }));
    let wide = Area { shape: Shape::Rectangle, center: east(0.0), a: 2_500, b: 1_001, angle: 0 };
    assert!(matches!(air.request(1, data(TransportType::GeoBroadcast(wide))), Err(RequestError::AreaTooLarge { .. })));
    let often = Repetition { interval: 99 * MILLISECOND, total: Duration::from_secs(1) };
    assert_eq!(
        air.request(1, PacketRequest { repetition: Some(often), ..data(TransportType::SingleHop) }),
        Err(RequestError::RepetitionTooFast)
    );
    let mut lost = GeoRouter::new(ItsStationType::BUS, Mib::default(), Entropy::seed_from_u64(1));
    assert_eq!(lost.request(Time::ZERO, data(TransportType::SingleHop), &mut Outbox::new()), Err(RequestError::NoLink));
}

#[test]
fn a_repeated_packet_is_sent_until_its_repetition_time_ends() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    let repetition = Some(Repetition { interval: 100 * MILLISECOND, total: Duration::from_secs(1) });
    air.request(1, PacketRequest { repetition, ..data(TransportType::SingleHop) }).unwrap();
    air.run(Duration::from_secs(5));
    assert_eq!(air.delivered().len(), 11);
}

#[test]
fn a_duplicate_gn_address_is_replaced_by_its_first_detector() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.stations.get_mut(&2).unwrap().router.address.mid = mac(1);
    air.run(Duration::from_secs(5));
    let addresses: Vec<LinkAddress> = air.stations.values().map(|peer| peer.router.address().mid).collect();
    assert_ne!(addresses[0], addresses[1]);
    air.request(1, data(TransportType::SingleHop)).unwrap();
    assert_eq!(air.delivered(), [2]);
}

#[test]
fn above_the_packet_data_rate_packets_are_delivered_but_not_forwarded() {
    let mut air = Air::row(3, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    air.sent.clear();
    for _ in 0..2_000 {
        let flood = PacketRequest { payload: vec![7; 1_000], ..data(TransportType::TopologyBroadcast(3)) };
        air.request(1, flood).unwrap();
        air.run(MILLISECOND);
    }
    let delivered = air.delivered();
    assert_eq!(delivered.iter().filter(|number| **number == 2).count(), 2_000);
    let forwarded = air.transmissions().iter().filter(|by| **by == 2).count();
    assert!(forwarded < 500, "{forwarded} forwarded");
}

#[test]
fn without_a_fix_no_beacon_is_sent_and_a_lost_fix_clears_pai() {
    let mut air = Air::row(2, 250.0, &Mib::default());
    air.run(Duration::from_secs(5));
    let now = air.now;
    let router = &mut air.stations.get_mut(&1).unwrap().router;
    assert!(router.position(now).unwrap().accurate);
    router.set_fix(now, None);
    let later = router.position(now + Duration::from_secs(3)).unwrap();
    assert!(!later.accurate && later.timestamp == router.position(now).unwrap().timestamp);

    let mut lost = GeoRouter::new(ItsStationType::BUS, Mib::default(), Entropy::seed_from_u64(1));
    let mut out = Outbox::new();
    let event = LinkEvent { link: LINK, name: String::new(), address: Some(mac(1)), up: true, mtu: 1500 };
    lost.set_link(Time::ZERO, &event);
    lost.expire(Time::from_micros(60_000_000), &mut out);
    assert!(out.is_empty());
}
