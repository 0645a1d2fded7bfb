//! VAM, CPM and messages of infrastructure, which roam6 only receives: vectors made by other implementations
//! (scripts/vectors/its-received.py).

use crate::mutation::mutate;
use crate::samples::octets;
use roam6_wire::geo::Coordinates;
use roam6_wire::its::cpm::{Cpm, container};
use roam6_wire::its::map_position::{ByLane, MapReference};
use roam6_wire::its::vam::{Profile, Vam};
use roam6_wire::its::{Message, common::Header};

const AT: Coordinates = Coordinates { latitude: 480_000_001, longitude: 110_000_002 };

fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("vectors/its-received.tsv").lines();
    lines.map(|line| line.split_once('\t').map(|(name, hex)| (name, octets(hex))).unwrap()).collect()
}

fn message(name: &str) -> Message {
    let (_, bytes) = vectors().into_iter().find(|(known, _)| *known == name).unwrap();
    Message::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn vam(name: &str) -> Vam {
    if let Message::Vam(vam) = message(name) { *vam } else { panic!("{name}") }
}

fn cpm(name: &str) -> Cpm {
    if let Message::Cpm(cpm) = message(name) { *cpm } else { panic!("{name}") }
}

#[test]
fn position_movement_and_profile_of_vams_are_read() {
    for (name, kind, profile, sub_profile) in [
        ("vam-pedestrian", 1, None, None),
        ("vam-worker", 1, Some(Profile::Pedestrian(2)), Some("road worker")),
        ("vam-pedelec", 2, Some(Profile::Cyclist(7)), Some("pedelec")),
        ("vam-moped", 3, Some(Profile::Motorcyclist(1)), Some("moped")),
        ("vam-cluster", 13, Some(Profile::Animal(2)), Some("farm animal")),
    ] {
        let vam = vam(name);
        assert_eq!(vam.header, Header { protocol_version: 3, message_id: 16, station_id: 4711 }, "{name}");
        assert_eq!((vam.awareness.generation_delta_time, vam.awareness.extended), (54_321, false), "{name}");
        let parameters = &vam.awareness.parameters;
        assert_eq!((parameters.basic.station_type, parameters.basic.position.place()), (kind, Some(AT)), "{name}");
        let moves = &parameters.high_frequency;
        assert_eq!((moves.heading.value, moves.speed.value), (900, 139), "{name}");
        assert_eq!(moves.longitudinal_acceleration.value, -3, "{name}");
        let known = parameters.low_frequency.as_ref().map(|low| low.profile);
        assert_eq!((known, known.and_then(Profile::name)), (profile, sub_profile), "{name}");
        let containers = [parameters.cluster_information, parameters.cluster_operation, parameters.motion_prediction];
        assert_eq!(containers, [(name == "vam-cluster").then_some(()); 3], "{name}");
    }
}

#[test]
fn all_optional_fields_of_a_vam_are_read() {
    let vam = vam("vam-pedelec");
    let moves = &vam.awareness.parameters.high_frequency;
    let curvature = moves.curvature.map(|curvature| curvature.value);
    assert_eq!((curvature, moves.yaw_rate.map(|rate| rate.value)), (Some(10), Some(-5)));
    assert_eq!(moves.vertical_acceleration.map(|it| (it.value, it.confidence)), Some((1, 2)));
    assert_eq!((moves.environment, moves.movement_control, moves.device_usage), (Some(3), Some(1), Some(8)));
    assert_eq!((moves.orientation.map(|it| it.value), moves.roll_angle.map(|it| it.value)), (Some(1800), Some(1800)));
    let lane = moves.lane_position.as_ref().unwrap();
    let Some(map) = lane.by_map else { panic!("no position on a map") };
    let Some(MapReference::Intersection(intersection)) = map.reference else { panic!("no intersection") };
    assert_eq!((intersection.region, intersection.number, map.lane, map.connection), (Some(7), 4242, Some(3), None));
    assert_eq!((map.along.map(|along| along.value), lane.source.confidence), (Some(125), Some(95)));
    let low = vam.awareness.parameters.low_frequency.as_ref().unwrap();
    let lights = low.exterior_lights.as_ref().unwrap();
    assert_eq!((low.size_class, lights.worn.count_ones()), (Some(2), 1));
}

#[test]
fn every_form_of_a_lane_position_is_read() {
    for name in ["number", "type", "lane", "default-lane", "borders", "island"] {
        let vam = vam(&format!("vam-lane-{name}"));
        let position = vam.awareness.parameters.high_frequency.lane_position.as_ref().unwrap();
        let is_right = match (name, &position.by_lane) {
            ("number", ByLane::Number(14)) | ("type", ByLane::Kind(13)) => true,
            ("lane", ByLane::Lane(lane)) => (lane.number, lane.kind, lane.direction) == (2, Some(13), Some(1)),
            ("default-lane", ByLane::Lane(lane)) => (lane.number, lane.kind, lane.direction) == (-1, None, None),
            ("borders", ByLane::WithinLane(lane)) => (lane.number, lane.left, lane.right) == (2, 511, 10),
            ("island", ByLane::Island(island)) => (island.one_side.kind, island.other_side.number) == (Some(13), 1),
            _ => false,
        };
        assert!(is_right, "{name}: {:?}", position.by_lane);
        let low = vam.awareness.parameters.low_frequency.as_ref().unwrap();
        assert_eq!(low.profile, Profile::Pedestrian(2), "what follows a lane position is read: {name}");
    }
}

#[test]
fn position_orientation_and_number_of_objects_of_cpms_are_read() {
    for (name, orientation, objects, containers) in [
        ("cpm-vehicle", Some(1800), None, 1),
        ("cpm-objects", Some(1800), Some(40), 2),
        ("cpm-roadside", None, Some(40), 2),
        ("cpm-unknown", None, None, 2),
    ] {
        let cpm = cpm(name);
        assert_eq!(cpm.header, Header { protocol_version: 2, message_id: 14, station_id: 4711 }, "{name}");
        let management = &cpm.payload.management;
        assert_eq!((management.reference_time, management.position.place()), (700_000_000_000, Some(AT)), "{name}");
        assert_eq!(cpm.payload.containers.len(), containers, "{name}");
        assert_eq!(cpm.orientation().unwrap().map(|it| it.value), orientation, "{name}");
        assert_eq!(cpm.perceived_objects(), Ok(objects), "{name}");
        let part = management.segmentation.map(|part| (part.total, part.this));
        assert_eq!(part, (name == "cpm-objects").then_some((2, 1)), "{name}");
    }
    let unknown = cpm("cpm-unknown").payload.containers.iter().map(|it| (it.id, it.data.len())).collect::<Vec<_>>();
    assert_eq!(unknown, [(9, 200), (16, 1)]);
}

#[test]
fn a_cpm_with_a_short_container_is_malformed() {
    let (_, mut bytes) = vectors().into_iter().find(|(name, _)| *name == "cpm-vehicle").unwrap();
    assert_eq!(
        cpm("cpm-vehicle").payload.containers.first().map(|it| (it.id, it.data.len())),
        Some((container::VEHICLE, 3))
    );
    // The length of the container is in bits 225 to 232: 3 becomes 1, which is less than an orientation takes.
    assert_eq!(bytes[28..30], [0x01, 0x83]);
    bytes[28] = 0;
    bytes.truncate(bytes.len() - 2);
    let error = Message::parse(&bytes).unwrap_err();
    assert_eq!(error.what, "CPM container");
}

#[test]
fn the_header_of_messages_of_infrastructure_is_read_in_all_versions() {
    for (name, message_id) in [("mapem", 5), ("spatem", 4), ("ivim", 6)] {
        let (_, mut bytes) = vectors().into_iter().find(|(known, _)| *known == name).unwrap();
        for protocol_version in 1..=3 {
            bytes[0] = protocol_version;
            let header = Header { protocol_version, message_id, station_id: 4711 };
            assert_eq!(Message::parse(&bytes), Ok(Message::Infrastructure(header)), "{name}");
        }
        assert!(Message::parse(&bytes[..5]).is_err(), "{name}");
    }
}

#[test]
fn a_vam_of_another_version_is_refused() {
    let (_, mut bytes) = vectors().into_iter().find(|(name, _)| *name == "vam-worker").unwrap();
    for version in [1, 2, 4] {
        bytes[0] = version;
        let error = Message::parse(&bytes).unwrap_err();
        assert_eq!((error.what, error.at), ("protocolVersion", 0));
    }
}

#[test]
fn changed_and_cut_messages_do_not_panic() {
    let valid: Vec<Vec<u8>> = vectors().into_iter().map(|(_, bytes)| bytes).collect();
    for bytes in &valid {
        for length in 0..bytes.len() {
            let _ = Message::parse(&bytes[..length]);
        }
    }
    mutate(0x3324, &valid, |changed| drop(Message::parse(changed)));
}
