//! CAM and DENM: round trips of recorded messages and of messages with every field, and a cross-check by tshark.

use crate::dissector::{ETHERNET, fields_of_link};
use crate::geo::vectors;
use crate::mutation::mutate;
use crate::samples::octets;
use rasn::types::{BitString, Ia5String, NumericString, OctetString};
use roam6_wire::LinkAddress;
use roam6_wire::geo::btp::{Btp, SourceOrInfo, port};
use roam6_wire::geo::{
    Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet, Timestamp,
    TrafficClass, UpperProtocol, VERSION,
};
use roam6_wire::its::cam::*;
use roam6_wire::its::common::*;
use roam6_wire::its::denm::*;
use roam6_wire::its::{Message, PROTOCOL_VERSION, message};

/// The CAM or DENM in a GeoNetworking packet, if there is one.
fn payload<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    let btp = Btp::parse(packet.upper_protocol, packet.payload)?.ok()?;
    matches!(btp.destination, port::CAM | port::DENM).then_some(btp.payload)
}

#[test]
fn recorded_cam_and_denm_round_trip() {
    let mut kinds = [0, 0];
    for vector in vectors().filter(|vector| vector.good) {
        let Ok(packet) = Packet::parse(vector.packet()) else { continue };
        let Some(bytes) = payload(&packet).filter(|bytes| bytes.starts_with(&[PROTOCOL_VERSION])) else { continue };
        let read = Message::parse(bytes).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert_eq!(read.emit().as_deref(), Some(bytes), "{}", vector.name);
        kinds[usize::from(matches!(read, Message::Denm(_)))] += 1;
    }
    assert!(kinds.iter().all(|count| *count > 0), "CAM and DENM: {kinds:?}");
}

/// Messages of Release 2 (TS 103 900, TS 103 831), made by another implementation (scripts/vectors).
fn release_2() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("vectors/its-release2.tsv").lines();
    lines.map(|line| line.split_once('\t').map(|(name, hex)| (name, octets(hex))).unwrap()).collect()
}

/// Release 2 keeps protocolVersion 2 and the layout of Release 1; what it adds is behind the extension markers, and skipped.
#[test]
fn messages_of_release_2_are_read() {
    let at = Coordinates { latitude: 480_000_001, longitude: 110_000_002 };
    for (name, bytes) in release_2() {
        let read = Message::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        match &read {
            Message::Cam(cam) => {
                let parameters = &cam.awareness.parameters;
                assert_eq!((cam.header.station_id, cam.awareness.generation_delta_time), (4711, 54_321), "{name}");
                assert_eq!((parameters.basic.station_type, parameters.basic.position.place()), (5, Some(at)), "{name}");
                let is_vehicle = name != "cam-roadside";
                match &parameters.high_frequency {
                    HighFrequency::Vehicle(vehicle) if is_vehicle => {
                        assert_eq!((vehicle.heading.value, vehicle.speed.value), (900, 1390), "{name}");
                        assert_eq!(
                            (vehicle.length.value, vehicle.width, vehicle.yaw_rate.value),
                            (42, 18, -5),
                            "{name}"
                        );
                    }
                    HighFrequency::Roadside(_) if !is_vehicle => {}
                    other => panic!("{name}: {other:?}"),
                }
                assert_eq!(
                    parameters.low_frequency.is_some(),
                    ["cam-vehicle-full", "cam-extensions"].contains(&name),
                    "{name}"
                );
                if name == "cam-vehicle-full" {
                    let Some(SpecialVehicle::Emergency(emergency)) = &parameters.special_vehicle else {
                        panic!("{name}")
                    };
                    assert_eq!(emergency.incident, Some(Cause::new(2, 3)));
                }
            }
            Message::Denm(denm) => {
                let Notification { management, situation, location, alacarte } = &denm.notification;
                assert_eq!(management.action, ActionId { station: 4711, sequence: 9 }, "{name}");
                assert_eq!((management.position.place(), management.validity), (Some(at), 120), "{name}");
                let is_over = name == "denm-termination";
                assert_eq!(management.termination, is_over.then_some(Termination::Cancellation), "{name}");
                let event = situation.as_ref().map(|situation| (situation.quality, situation.event));
                assert_eq!(event, (!is_over).then(|| (3, Cause::new(94, 2))), "{name}");
                assert_eq!(
                    location.as_ref().map_or(0, |location| location.traces.len()),
                    usize::from(!is_over),
                    "{name}"
                );
                let temperature = alacarte.as_ref().and_then(|alacarte| alacarte.temperature);
                assert_eq!(temperature, (name == "denm-pre-crash").then_some(-3), "{name}");
            }
            _ => panic!("{name}"),
        }
        let has_additions =
            ["cam-extensions", "denm-linked-denms", "denm-linked-ivims", "denm-pre-crash"].contains(&name);
        assert_eq!(read.emit().as_deref() == Some(&bytes[..]), !has_additions, "{name}");
    }
}

#[test]
fn mutated_messages_of_release_2_never_panic() {
    let valid: Vec<Vec<u8>> = release_2().into_iter().map(|(_, bytes)| bytes).collect();
    mutate(0x0010_3900, &valid, |bytes| {
        if let Ok(read) = Message::parse(bytes) {
            let _ = read.emit();
        }
    });
}

fn bits(count: usize) -> BitString {
    (0..count).map(|bit| bit % 3 == 0).collect()
}

fn position() -> ReferencePosition {
    ReferencePosition::of(Coordinates::from_degrees(48.5, -11.25).unwrap(), Some(3))
}

fn history() -> PathHistory {
    let position = DeltaPosition { latitude: -131_071, longitude: 131_072, altitude: 12_800 };
    PathHistory(vec![PathPoint { position, delta_time: Some(7) }, PathPoint { position, delta_time: None }])
}

fn header(message_id: u8) -> Header {
    Header { protocol_version: PROTOCOL_VERSION, message_id, station_id: 4_000_000_000 }
}

fn acceleration(value: i16) -> Acceleration {
    Acceleration { value, confidence: 102 }
}

fn lanes() -> ClosedLanes {
    ClosedLanes::new(Some(HardShoulder::Closed), None, Some(bits(4)))
}

/// With all optional fields.
fn vehicle() -> Vehicle {
    Vehicle {
        heading: Heading { value: 900, confidence: 127 },
        speed: Speed { value: 1389, confidence: 1 },
        drive_direction: DriveDirection::Backward,
        length: VehicleLength { value: 42, trailer: Trailer::Unavailable },
        width: 18,
        longitudinal_acceleration: acceleration(-160),
        curvature: Curvature { value: -1023, confidence: CurvatureConfidence::Unavailable },
        curvature_calculation_mode: CurvatureMode::Unavailable,
        yaw_rate: YawRate { value: 32_767, confidence: YawRateConfidence::Unavailable },
        acceleration_control: Some(bits(7)),
        lane_position: Some(-1),
        steering_wheel_angle: Some(SteeringWheelAngle { value: 512, confidence: 127 }),
        lateral_acceleration: Some(acceleration(161)),
        vertical_acceleration: Some(acceleration(0)),
        performance_class: Some(7),
        toll_zone: Some(TollZone::new(1, -1)),
    }
}

fn specials() -> Vec<SpecialVehicle> {
    let activation = Activation { kind: 2, data: OctetString::from_static(b"0123456789") };
    vec![
        SpecialVehicle::PublicTransport(PublicTransport { embarkation: true, activation: Some(activation) }),
        SpecialVehicle::SpecialTransport(SpecialTransport { kind: bits(4), light_bar_siren: bits(2) }),
        SpecialVehicle::DangerousGoods(DangerousGoodsOnBoard { goods: DangerousGoods::MiscellaneousSubstances }),
        SpecialVehicle::RoadWorks(RoadWorks {
            sub_cause: Some(3),
            light_bar_siren: bits(2),
            closed_lanes: Some(lanes()),
        }),
        SpecialVehicle::Rescue(Rescue { light_bar_siren: bits(2) }),
        SpecialVehicle::Emergency(Emergency {
            light_bar_siren: bits(2),
            incident: Some(Cause::new(2, 1)),
            priority: Some(bits(2)),
        }),
        SpecialVehicle::SafetyCar(SafetyCar {
            light_bar_siren: bits(2),
            incident: None,
            traffic_rule: Some(TrafficRule::PassToLeft),
            speed_limit: Some(80),
        }),
    ]
}

fn cams() -> Vec<Message> {
    let mut zone = ProtectedZone::new(ZoneKind::Permanent, 1, 2);
    (zone.expiry, zone.radius, zone.id) = (Some(4_398_046_511_103), Some(255), Some(134_217_727));
    let mut for_a_time = zone;
    for_a_time.kind = ZoneKind::Temporary;
    let mut roadside = Roadside::default();
    roadside.protected_zones = Some(vec![zone, for_a_time]);
    let low = LowFrequency::Vehicle(VehicleLow {
        role: VehicleRole::Emergency,
        exterior_lights: bits(8),
        path_history: history(),
    });
    let basic = Basic::new(5, position());
    let mut parameters = vec![Parameters::new(basic, HighFrequency::Roadside(roadside), None)];
    for special in specials() {
        let mut one = Parameters::new(basic, HighFrequency::Vehicle(vehicle()), Some(low.clone()));
        one.special_vehicle = Some(special);
        parameters.push(one);
    }
    let cam = |parameters| Cam {
        header: header(message::CAM),
        awareness: Awareness { generation_delta_time: 65_535, parameters },
    };
    parameters.into_iter().map(|parameters| Message::Cam(Box::new(cam(parameters)))).collect()
}

fn alacarte(company: Option<&str>) -> Alacarte {
    let delta = DeltaPosition { latitude: 1, longitude: 2, altitude: 3 };
    let action = ActionId { station: 7, sequence: 8 };
    let mut all = Alacarte::default();
    all.lane = Some(14);
    all.impact = Some(ImpactReduction {
        height_carrier_left: 1,
        height_carrier_right: 100,
        position_carrier_left: 1,
        position_carrier_right: 127,
        pillars: Pillars(vec![Pillar(1), Pillar(30)]),
        centre_of_mass: 63,
        wheel_base: 127,
        turning_radius: 255,
        front_axle: 20,
        occupants: bits(20),
        mass: 1024,
        indication: Indication::Response,
    });
    all.temperature = Some(-60);
    all.road_works = Some(RoadWorksExtended {
        light_bar_siren: Some(bits(2)),
        closed_lanes: Some(lanes()),
        restriction: Some(vec![StationType(5), StationType(8)]),
        speed_limit: Some(30),
        incident: Some(Cause::new(3, 4)),
        recommended_path: Some(vec![position()]),
        limit_from: Some(delta),
        traffic_rule: Some(TrafficRule::NoPassing),
        references: Some(vec![action]),
    });
    all.positioning = Some(Positioning::Reckoning);
    let text = |text: &str| Ia5String::try_from(text).unwrap();
    let mut goods = Goods::new(DangerousGoods::FlammableLiquids, 1203);
    (goods.elevated_temperature, goods.limited_quantity) = (true, true);
    goods.action_code = Some(text("3YE"));
    goods.phone = Some(NumericString::try_from("112").unwrap());
    goods.company = company.map(str::to_owned);
    let mut vehicle = VehicleIdentification::default();
    (vehicle.manufacturer, vehicle.descriptor) = (Some(text("WDB")), Some(text("123456")));
    all.stationary = Some(Stationary {
        since: Some(StationarySince::Over15),
        cause: Some(Cause::new(91, 1)),
        goods: Some(goods),
        occupants: Some(2),
        vehicle: Some(vehicle),
        energy: Some(bits(7)),
    });
    all
}

fn denms(company: Option<&str>) -> Vec<Message> {
    let action = ActionId { station: 4_000_000_000, sequence: 65_535 };
    let mut management = Management::new(action, 4_398_046_511_103, position(), 15);
    let bare = Notification { management: management.clone(), situation: None, location: None, alacarte: None };
    management.termination = Some(Termination::Negation);
    management.relevance_distance = Some(RelevanceDistance::Over10000);
    management.relevance_direction = Some(RelevanceDirection::Opposite);
    (management.validity, management.transmission_interval) = (86_400, Some(10_000));
    let mut situation = Situation::new(7, Cause::new(94, 2));
    situation.linked = Some(Cause::new(1, 0));
    let delta = DeltaPosition { latitude: 0, longitude: 0, altitude: 0 };
    situation.history = Some(vec![EventPoint { position: delta, delta_time: Some(65_535), quality: 3 }]);
    let mut location = Location::new(vec![history(), PathHistory(Vec::new())]);
    location.speed = Some(Speed { value: 16_383, confidence: 127 });
    location.heading = Some(Heading { value: 3601, confidence: 127 });
    location.road = Some(Road::RuralSeparated);
    let (situation, location, alacarte) = (Some(situation), Some(location), Some(alacarte(company)));
    let full = Notification { management, situation, location, alacarte };
    let denm = |notification| Message::Denm(Box::new(Denm { header: header(message::DENM), notification }));
    vec![denm(bare), denm(full)]
}

/// An Ethernet frame with a message in a single-hop broadcast.
pub(crate) fn frame(message: &Message) -> Vec<u8> {
    let port = match message {
        Message::Cam(_) => port::CAM,
        Message::Denm(_) => port::DENM,
        Message::Saem(_) => port::SAEM,
        _ => panic!("roam6 does not send it"),
    };
    let bytes = message.emit().expect("within all bounds");
    let payload = Btp { destination: port, source_or_info: SourceOrInfo::Information(0), payload: &bytes }.emit();
    let mid = LinkAddress([2, 0, 0, 0, 0, 1]);
    let source = LongPositionVector {
        address: GeoAddress::new(ItsStationType::PASSENGER_CAR, mid),
        timestamp: Timestamp(1),
        place: Coordinates::from_degrees(48.5, -11.25).unwrap(),
        accurate: true,
        speed: 0,
        heading: 0,
    };
    let packet = Packet {
        version: VERSION,
        lifetime: Lifetime(5),
        remaining_hop_limit: 1,
        upper_protocol: UpperProtocol::BtpB,
        traffic_class: TrafficClass(2),
        flags: 0x80,
        max_hop_limit: 1,
        extended: ExtendedHeader::SingleHop { source, media: [0; 4] },
        payload: &payload,
    };
    [&[0xff; 6][..], &mid.0, &[0x89, 0x47], &packet.emit()].concat()
}

#[test]
fn every_cam_and_denm_field_round_trips() {
    for sent in cams().into_iter().chain(denms(Some("Café"))) {
        let bytes = sent.emit().expect("within all bounds");
        assert_eq!(Message::parse(&bytes), Ok(sent));
        for length in 0..bytes.len() {
            // Must not panic; a slightly truncated message may still be valid.
            let _ = Message::parse(&bytes[..length]);
        }
    }
}

#[test]
fn tshark_dissects_cam_and_denm() {
    // tshark 4.0 takes the length of a UTF8String for bits (ITU-T X.691 §30: octets), and is lost after it.
    let messages: Vec<Message> = cams().into_iter().chain(denms(None)).collect();
    let frames: Vec<Vec<u8>> = messages.iter().map(frame).collect();
    let fields = [
        "_ws.malformed",
        "_ws.expert.message",
        "its.stationID",
        "its.latitude",
        "its.speedValue",
        "its.PosPillar",
        "its.unNumber",
        "its.vDS",
        "denm.validityDuration",
        "denm.externalTemperature",
        "its.protectedZoneRadius",
        "its.causeCode",
    ];
    let Some(text) = fields_of_link(ETHERNET, &frames, &fields) else { return };
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(lines.len(), messages.len());
    for line in &lines {
        assert_eq!((line[0], line[2]), ("", "4000000000"), "{line:?}");
        assert!(line[3].starts_with("485000000"), "{line:?}");
    }
    assert_eq!(lines[0][10], "255,255", "{:?}", lines[0]);
    assert_eq!((lines[1][4], lines[6][11]), ("1389", "2"), "{:?}", lines[6]);
    let [.., bare, full] = &lines[..] else { panic!("{text}") };
    assert_eq!(bare[8], "", "a default is not written: {bare:?}");
    let expected = ["16383", "1,30", "1203", "123456", "86400", "-60"];
    assert_eq!(full[4..10], expected, "{full:?}");
    assert_eq!(full[11], "94,1,3,91", "{full:?}");
}
