//! Two stations that exchange CAMs and DENMs, and one that forges them.

mod received;
mod services;

use super::ldm::MAX_EVENTS_OF_ONE_STATION;
use super::*;
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::config::facilities::{DenmEvent, DenmRequest, EventId, FacilitiesConfig};
use crate::contract::config::geo::TransportType;
use crate::contract::report::{DropReason, FacilitiesReport, HostReport, Report};
use crate::contract::view::View;
use crate::geo::ego::EgoState;
use crate::geo::location_table::Hop;
use crate::geo::{Delivery, PacketRequest, geometry};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{
    Area, Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet,
    SequencedSource, Timestamp, UpperProtocol, VERSION,
};
use roam6_wire::its::Message;

const START: u64 = 700_000_000_000;

struct Car {
    facilities: Facilities,
    number: u8,
    place: Coordinates,
}

fn here() -> Coordinates {
    Coordinates::from_degrees(48.0, 11.0).unwrap()
}

fn area() -> Area {
    Area::circle(here(), 500)
}

fn time(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn event(cause: u8) -> DenmEvent {
    let validity = Duration::from_secs(60);
    DenmEvent {
        tag: 5,
        cause: (cause, 0),
        quality: 3,
        place: None,
        area: area(),
        validity,
        repetition: None,
        parameters: Default::default(),
    }
}

impl Car {
    fn new(number: u8) -> Car {
        let station_id = Some(u32::from(number));
        let config =
            FacilitiesConfig { station_id, send_cams: true, length: Some(42), width: Some(18), announcement: None };
        let facilities = Facilities::new(config, ItsStationType::PASSENGER_CAR, Entropy::seed_from_u64(number.into()));
        let plane = geometry::Plane::at(here());
        Car { facilities, number, place: plane.place(geometry::Offset { east: f64::from(number) * 10.0, north: 0.0 }) }
    }

    fn own(&self, millis: u64) -> EgoState {
        EgoState { position: self.position(), position_accuracy: Some(3), has_fix: true, its_time: START + millis }
    }

    fn position(&self) -> LongPositionVector {
        LongPositionVector {
            address: GeoAddress::new(ItsStationType::PASSENGER_CAR, LinkAddress([2, 0, 0, 0, 0, self.number])),
            timestamp: Timestamp(0),
            place: self.place,
            accurate: true,
            speed: 1390,
            heading: 900,
        }
    }

    fn next_message(&mut self, millis: u64) -> Vec<PacketRequest> {
        let own = self.own(millis);
        std::iter::from_fn(|| self.facilities.next_message(time(millis), Some(&own))).collect()
    }

    fn execute(&mut self, millis: u64, order: &DenmRequest) -> Result<PacketRequest, String> {
        let own = self.own(millis);
        self.facilities.execute(time(millis), order, Some(&own))
    }

    /// Receives a packet of another station.
    fn receive(&mut self, millis: u64, from: &Car, request: &PacketRequest) -> Option<Report> {
        self.receive_from(millis, from.position(), request)
    }

    fn receive_from(&mut self, millis: u64, source: LongPositionVector, request: &PacketRequest) -> Option<Report> {
        self.receive_permitted(millis, source, request, None)
    }

    /// Receives a packet whose signer was verified, with these permissions.
    fn receive_permitted(
        &mut self,
        millis: u64,
        source: LongPositionVector,
        request: &PacketRequest,
        permissions: Option<[u8; 3]>,
    ) -> Option<Report> {
        let origin = SequencedSource { sequence: 1, source };
        let extended = match request.to {
            TransportType::GeoBroadcast(area) => ExtendedHeader::GeoBroadcast { origin, area },
            _ => ExtendedHeader::SingleHop { source, media: [0; 4] },
        };
        let packet = Packet {
            version: VERSION,
            lifetime: Lifetime(26),
            remaining_hop_limit: 1,
            upper_protocol: UpperProtocol::BtpB,
            traffic_class: request.class,
            flags: 0,
            max_hop_limit: 1,
            extended,
            payload: &request.payload,
        };
        let hop = Hop { link: LinkId(1), address: source.address.mid };
        let delivery = Delivery { packet, from: hop, hop_limit_reached: false, permissions };
        self.facilities.receive(time(millis), &delivery, START + millis)
    }

    fn view(&self, millis: u64) -> View {
        let mut view = View::default();
        self.facilities.view(time(millis), &mut view);
        view
    }
}

/// The same message in the name of another.
fn as_from_station(request: &PacketRequest, station: u32) -> PacketRequest {
    let (btp, message) = request.payload.split_at(4);
    let mut message = Message::parse(message).unwrap();
    match &mut message {
        Message::Cam(cam) => cam.header.station_id = station,
        Message::Denm(denm) => {
            denm.header.station_id = station;
            denm.notification.management.action.station = station;
        }
        Message::Saem(saem) => saem.header.station_id = station,
        _ => panic!("roam6 does not send it"),
    }
    PacketRequest { payload: [btp, &message.emit().unwrap()].concat(), ..request.clone() }
}

#[test]
fn a_station_of_received_cams_is_in_the_ldm_until_it_is_silent() {
    let (mut sender, mut receiver) = (Car::new(1), Car::new(2));
    let requests = sender.next_message(0);
    assert_eq!((requests.len(), requests[0].to), (1, TransportType::SingleHop));
    let Ok(Message::Cam(cam)) = Message::parse(&requests[0].payload[4..]) else { panic!("no CAM") };
    assert_eq!(cam.awareness.generation_delta_time, (START & 0xffff) as u16);
    assert!(cam.awareness.parameters.low_frequency.is_some());
    assert_eq!(receiver.receive(1, &sender, &requests[0]), None);
    let view = receiver.view(1);
    let seen = &view.ldm.stations[0];
    assert_eq!((seen.station, seen.speed, seen.heading, seen.place), (1, Some(1390), Some(900), sender.place));
    assert_eq!((seen.length, seen.width), (Some(42), Some(18)));
    receiver.next_message(5_002);
    assert!(receiver.view(5_002).ldm.stations.is_empty());
}

#[test]
fn a_denm_is_triggered_repeated_updated_and_terminated() {
    let (mut sender, mut receiver) = (Car::new(1), Car::new(2));
    sender.next_message(0);
    let repetition = Some((Duration::from_secs(1), Duration::from_secs(3)));
    let denm = sender.execute(10, &DenmRequest::Trigger(DenmEvent { repetition, ..event(94) })).unwrap();
    let name = EventId { station: 1, sequence: 0 };
    assert!(matches!(
        receiver.receive(11, &sender, &denm),
        Some(Report::Facilities(FacilitiesReport::DenmReceived { station: 1, sequence: 0, cause: 94, .. }))
    ));
    let events = |car: &Car, millis| car.view(millis).ldm.events;
    assert_eq!((events(&receiver, 12)[0].name, events(&receiver, 12)[0].tag), (name, None));
    assert_eq!(events(&sender, 12)[0].tag, Some(5));

    let denms = |requests: Vec<PacketRequest>| {
        requests.into_iter().filter(|request| request.to == TransportType::GeoBroadcast(area())).count()
    };
    let repeated: Vec<usize> = [1_010, 2_010, 3_010, 4_010].map(|millis| denms(sender.next_message(millis))).to_vec();
    assert_eq!(repeated, [1, 1, 0, 0]);
    assert_eq!(receiver.receive(2_020, &sender, &denm), None, "a repetition changes nothing");

    let changed = sender.execute(5_000, &DenmRequest::Update(name, event(91))).unwrap();
    assert!(matches!(
        receiver.receive(5_001, &sender, &changed),
        Some(Report::Facilities(FacilitiesReport::DenmReceived { cause: 91, .. }))
    ));
    assert_eq!(receiver.receive(5_002, &sender, &denm), None, "what is older changes nothing");

    let ended = sender.execute(6_000, &DenmRequest::Terminate(name)).unwrap();
    assert_eq!(
        receiver.receive(6_001, &sender, &ended),
        Some(Report::Facilities(FacilitiesReport::DenmTerminated { station: 1, sequence: 0 }))
    );
    assert!(events(&receiver, 6_002).is_empty() && events(&sender, 6_002).is_empty());
    assert_eq!(receiver.receive(6_003, &sender, &changed), None, "and does not bring it back");
    assert_eq!(
        [7_000, 8_000, 9_000].map(|millis| denms(sender.next_message(millis))),
        [1, 1, 0],
        "a termination is sent three times"
    );
}

#[test]
fn a_cam_needs_the_permissions_for_its_containers_and_requests() {
    use roam6_wire::its::cam::{Emergency, Rescue, SafetyCar, SpecialVehicle};
    use roam6_wire::its::common::TrafficRule;
    let two = |value: bool| {
        let mut bits = roam6_wire::its::common::no_lights();
        bits.truncate(2);
        bits.fill(value);
        bits
    };
    let off = || two(false);
    let emergency =
        |priority| SpecialVehicle::Emergency(Emergency { light_bar_siren: off(), incident: None, priority });
    let safety = |traffic_rule, speed_limit| {
        SpecialVehicle::SafetyCar(SafetyCar { light_bar_siren: off(), incident: None, traffic_rule, speed_limit })
    };
    let cases = [
        (None, [0, 0]),
        (Some(SpecialVehicle::Rescue(Rescue { light_bar_siren: off() })), [0x04, 0]),
        (Some(emergency(None)), [0x02, 0]),
        (Some(emergency(Some(two(true)))), [0x02, 0x60]),
        (Some(safety(Some(TrafficRule::NoPassingForTrucks), None)), [0x01, 0x08]),
        (Some(safety(Some(TrafficRule::PassToLeft), Some(60))), [0x01, 0x04]),
    ];
    for (special, needed) in cases {
        let mut sender = Car::new(1);
        let request = sender.next_message(0).remove(0);
        let Ok(Message::Cam(mut cam)) = Message::parse(&request.payload[4..]) else { panic!("no CAM") };
        cam.awareness.parameters.special_vehicle = special;
        let payload = [&request.payload[..4], &Message::Cam(cam).emit().unwrap()].concat();
        let request = PacketRequest { payload, ..request };
        let bits = needed.iter().flat_map(|octet| (0..8).map(move |bit| octet & 1 << bit)).filter(|bit| *bit != 0);
        assert_eq!(
            Car::new(2).receive_permitted(1, sender.position(), &request, Some([needed[0], needed[1], 0])),
            None
        );
        for (number, bit) in bits.enumerate() {
            let mut lacking = [0xff, 0xff, 0];
            let octet = usize::from(number >= needed[0].count_ones() as usize);
            lacking[octet] &= !bit;
            let report = Car::new(2).receive_permitted(1, sender.position(), &request, Some(lacking));
            let is_refused =
                matches!(report, Some(Report::Host(HostReport::Dropped { reason: DropReason::NotPermitted, .. })));
            assert!(is_refused, "{needed:?} {lacking:?}");
        }
    }
}

#[test]
fn a_denm_needs_the_permission_for_its_cause() {
    // Stationary vehicle (94) is bit 18, accident (2) bit 1.
    let permissions = [0, 0, 0x20];
    for (cause, is_permitted) in [(94, true), (2, false), (91, false), (7, false)] {
        let (mut sender, mut receiver) = (Car::new(1), Car::new(2));
        sender.next_message(0);
        let denm = sender.execute(10, &DenmRequest::Trigger(event(cause))).unwrap();
        let report = receiver.receive_permitted(11, sender.position(), &denm, Some(permissions));
        match report {
            Some(Report::Facilities(FacilitiesReport::DenmReceived { cause: reported, .. })) => {
                assert!(is_permitted && reported == cause, "{cause}");
            }
            Some(Report::Host(HostReport::Dropped { reason: DropReason::NotPermitted, .. })) => {
                assert!(!is_permitted, "{cause}");
            }
            other => panic!("{cause}: {other:?}"),
        }
    }
}

#[test]
fn another_station_may_negate_a_denm_but_not_cancel_it() {
    let (mut originator, mut other, mut third) = (Car::new(1), Car::new(2), Car::new(3));
    let denm = originator.execute(10, &DenmRequest::Trigger(event(10))).unwrap();
    let name = EventId { station: 1, sequence: 0 };
    assert!(other.execute(11, &DenmRequest::Terminate(name)).is_err(), "an event that was not received is unknown");
    other.receive(11, &originator, &denm);
    third.receive(11, &originator, &denm);
    let mut forged =
        Message::parse(&originator.execute(20, &DenmRequest::Terminate(name)).unwrap().payload[4..]).unwrap();
    if let Message::Denm(denm) = &mut forged {
        denm.header.station_id = 9;
    }
    let payload = [&[0x07, 0xd2, 0, 0][..], &forged.emit().unwrap()].concat();
    let lie = PacketRequest { payload, ..denm.clone() };
    assert!(matches!(
        third.receive(30, &Car::new(9), &lie),
        Some(Report::Host(HostReport::Dropped { reason: DropReason::Unverified, .. }))
    ));
    assert_eq!(third.view(31).ldm.events.len(), 1);
    let negated = other.execute(40, &DenmRequest::Terminate(name)).unwrap();
    assert_eq!(
        third.receive(41, &other, &negated),
        Some(Report::Facilities(FacilitiesReport::DenmTerminated { station: 1, sequence: 0 }))
    );
}

#[test]
fn a_denm_event_expires_after_its_validity() {
    let (mut sender, mut receiver) = (Car::new(1), Car::new(2));
    let denm = sender.execute(10, &DenmRequest::Trigger(event(10))).unwrap();
    receiver.receive(11, &sender, &denm);
    receiver.next_message(59_000);
    assert_eq!(receiver.view(59_000).ldm.events.len(), 1);
    receiver.next_message(60_100);
    assert!(receiver.view(60_100).ldm.events.is_empty());
    assert_eq!(receiver.receive(60_200, &sender, &denm), None, "too late");
    assert!(receiver.view(60_200).ldm.events.is_empty());
}

#[test]
fn malformed_messages_are_counted() {
    let (mut receiver, sender) = (Car::new(1), Car::new(2));
    let mut request = Car::new(3).next_message(0).remove(0);
    for length in 0..request.payload.len() {
        let cut = PacketRequest { payload: request.payload[..length].to_vec(), ..request.clone() };
        match receiver.receive(1, &sender, &cut) {
            None => assert!(length < 4, "{length} octets are a CAM?"),
            Some(report) => {
                assert!(matches!(report, Report::Host(HostReport::Dropped { reason: DropReason::Malformed, .. })))
            }
        }
    }
    request.payload[1] = 0xd2;
    let report = receiver.receive(1, &sender, &request);
    assert!(matches!(report, Some(Report::Host(HostReport::Dropped { reason: DropReason::NotForUs, .. }))));
}

#[test]
fn one_station_cannot_fill_the_ldm() {
    let (mut receiver, mut flood, mut honest) = (Car::new(1), Car::new(2), Car::new(3));
    let mut accepted = 0;
    for station in 0..300 {
        let denm = flood.execute(10, &DenmRequest::Trigger(event(10))).unwrap();
        flood = Car::new(2);
        let payload = as_from_station(&denm, station + 100);
        accepted += usize::from(matches!(
            receiver.receive(11, &flood, &payload),
            Some(Report::Facilities(FacilitiesReport::DenmReceived { .. }))
        ));
        let cam = as_from_station(&flood.next_message(10)[0], station + 100);
        assert_eq!(receiver.receive(11, &flood, &cam), None);
    }
    assert_eq!(
        (accepted, receiver.facilities.ldm().len()),
        (MAX_EVENTS_OF_ONE_STATION, (1, MAX_EVENTS_OF_ONE_STATION))
    );
    let denm = honest.execute(20, &DenmRequest::Trigger(event(94))).unwrap();
    assert!(matches!(
        receiver.receive(21, &honest, &denm),
        Some(Report::Facilities(FacilitiesReport::DenmReceived { station: 3, .. }))
    ));
    let cam = honest.next_message(20).remove(0);
    assert_eq!(receiver.receive(21, &honest, &cam), None);
    assert_eq!(receiver.view(22).ldm.stations.len(), 2);
}

/// A DENM of a station about its own event 0, with other times.
fn denm_of_time(request: &PacketRequest, detection_time: u64, reference_time: u64) -> PacketRequest {
    let (btp, message) = request.payload.split_at(4);
    let mut message = Message::parse(message).unwrap();
    if let Message::Denm(denm) = &mut message {
        let management = &mut denm.notification.management;
        (management.detection_time, management.reference_time) = (detection_time, reference_time);
    }
    PacketRequest { payload: [btp, &message.emit().unwrap()].concat(), ..request.clone() }
}

#[test]
fn a_denm_from_the_future_does_not_pin_an_event() {
    const DAY: u64 = 86_400_000;
    let (mut sender, mut receiver) = (Car::new(1), Car::new(2));
    let denm = sender.execute(10, &DenmRequest::Trigger(event(94))).unwrap();
    let name = EventId { station: 1, sequence: 0 };
    let events = |car: &Car, millis| car.view(millis).ldm.events;
    for (detection, reference) in [(START + DAY, START + DAY), (START + 10, START + DAY), (START + DAY, START + 10)] {
        receiver.receive(11, &Car::new(9), &denm_of_time(&denm, detection, reference));
        assert!(events(&receiver, 12)[0].remaining <= Duration::from_secs(60), "its validity counts from now");
    }
    let changed = sender.execute(1_000, &DenmRequest::Update(name, event(91))).unwrap();
    receiver.receive(1_001, &sender, &changed);
    assert_eq!(events(&receiver, 1_002)[0].cause, 91);
    receiver.receive(1_003, &Car::new(9), &denm_of_time(&denm, START + DAY, START + DAY));
    assert_eq!(events(&receiver, 1_004)[0].cause, 91, "and it does not replace a right one");
    let ended = sender.execute(2_000, &DenmRequest::Terminate(name)).unwrap();
    receiver.receive(2_001, &sender, &ended);
    assert!(events(&receiver, 2_002).is_empty());
}

#[test]
fn a_cam_played_back_does_not_replace_a_newer_one() {
    let (mut sender, mut receiver) = (Car::new(1), Car::new(2));
    let now = |millis: u64| Timestamp(((START + millis) & u64::from(u32::MAX)) as u32);
    let cam = sender.next_message(0).remove(0);
    let slow = as_from_station(&cam, 7);
    let source = |time| LongPositionVector { timestamp: time, ..Car::new(1).position() };
    assert_eq!(receiver.receive_from(1_000, source(now(1_000)), &cam), None);
    let older = receiver.receive_from(1_001, source(now(500)), &slow);
    assert!(matches!(older, Some(Report::Host(HostReport::Dropped { reason: DropReason::Replayed, .. }))));
    assert_eq!(receiver.view(1_002).ldm.stations[0].station, 1);
    // A timestamp from the future stands against nothing.
    receiver.receive_from(1_003, source(now(3_600_000)), &slow);
    assert_eq!(receiver.view(1_004).ldm.stations[0].station, 1);
    assert_eq!(receiver.receive_from(1_100, source(now(1_100)), &slow), None);
    assert_eq!(receiver.view(1_101).ldm.stations[0].station, 7);
}

#[test]
fn denms_in_another_stations_name_are_refused() {
    let (mut one, mut other) = (Car::new(1), Car::new(2));
    one.execute(10, &DenmRequest::Trigger(event(94))).unwrap();
    let lie = as_from_station(&other.execute(20, &DenmRequest::Trigger(event(91))).unwrap(), 1);
    assert!(matches!(
        one.receive(21, &other, &lie),
        Some(Report::Host(HostReport::Dropped { reason: DropReason::Unverified, .. }))
    ));
    assert_eq!(one.view(22).ldm.events[0].cause, 94);
}

#[test]
fn forwarded_cams_are_refused() {
    let (mut one, mut other) = (Car::new(1), Car::new(2));
    let cam = PacketRequest { to: TransportType::GeoBroadcast(area()), ..other.next_message(0).remove(0) };
    assert!(matches!(
        one.receive(1, &other, &cam),
        Some(Report::Host(HostReport::Dropped { reason: DropReason::NotForUs, .. }))
    ));
    assert!(one.view(2).ldm.stations.is_empty());
}

#[test]
fn a_terminated_event_is_neither_updated_nor_terminated_again() {
    let mut one = Car::new(1);
    let name = EventId { station: 1, sequence: 0 };
    one.execute(10, &DenmRequest::Trigger(event(94))).unwrap();
    one.execute(20, &DenmRequest::Terminate(name)).unwrap();
    assert!(one.execute(30, &DenmRequest::Update(name, event(91))).is_err());
    assert!(one.execute(30, &DenmRequest::Terminate(name)).is_err());
}
