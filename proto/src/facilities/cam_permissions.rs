//! What a certificate permits in a CAM: EN 302 637-2 §6.2.2.1, the octets of the service specific permissions behind their
//! version.

use roam6_wire::its::cam::{Cam, HighFrequency, SpecialVehicle};
use roam6_wire::its::common::TrafficRule;

/// Bits of the first octet, by container.
mod container {
    pub(super) const ZONES: u8 = 0x80;
    pub(super) const PUBLIC_TRANSPORT: u8 = 0x40;
    pub(super) const SPECIAL_TRANSPORT: u8 = 0x20;
    pub(super) const DANGEROUS_GOODS: u8 = 0x10;
    pub(super) const ROAD_WORKS: u8 = 0x08;
    pub(super) const RESCUE: u8 = 0x04;
    pub(super) const EMERGENCY: u8 = 0x02;
    pub(super) const SAFETY_CAR: u8 = 0x01;
}

/// Bits of the second octet, by field.
mod request {
    pub(super) const CLOSED_LANES: u8 = 0x80;
    pub(super) const RIGHT_OF_WAY: u8 = 0x40;
    pub(super) const FREE_CROSSING: u8 = 0x20;
    pub(super) const NO_PASSING: u8 = 0x10;
    pub(super) const NO_PASSING_FOR_TRUCKS: u8 = 0x08;
    pub(super) const SPEED_LIMIT: u8 = 0x04;
}

/// Whether a station with these permissions may send a CAM.
pub(super) fn is_permitted(cam: &Cam, permissions: [u8; 3]) -> bool {
    let [containers, fields] = needed(cam);
    let [permitted_containers, permitted_fields, _] = permissions;
    containers & !permitted_containers == 0 && fields & !permitted_fields == 0
}

fn needed(cam: &Cam) -> [u8; 2] {
    let parameters = &cam.awareness.parameters;
    let has_zones = match &parameters.high_frequency {
        HighFrequency::Vehicle(vehicle) => vehicle.toll_zone.is_some(),
        HighFrequency::Roadside(roadside) => roadside.protected_zones.is_some(),
        _ => false,
    };
    let zones = if has_zones { container::ZONES } else { 0 };
    let [special, fields] = parameters.special_vehicle.as_ref().map_or([0, 0], of_special_vehicle);
    [zones | special, fields]
}

fn of_special_vehicle(vehicle: &SpecialVehicle) -> [u8; 2] {
    let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
    match vehicle {
        SpecialVehicle::PublicTransport(_) => [container::PUBLIC_TRANSPORT, 0],
        SpecialVehicle::SpecialTransport(_) => [container::SPECIAL_TRANSPORT, 0],
        SpecialVehicle::DangerousGoods(_) => [container::DANGEROUS_GOODS, 0],
        SpecialVehicle::RoadWorks(works) => {
            [container::ROAD_WORKS, bit(request::CLOSED_LANES, works.closed_lanes.is_some())]
        }
        SpecialVehicle::Rescue(_) => [container::RESCUE, 0],
        SpecialVehicle::Emergency(emergency) => {
            let asks = |number: usize| {
                let priority = emergency.priority.as_ref();
                priority.is_some_and(|priority| priority.get(number).is_some_and(|bit| *bit))
            };
            [container::EMERGENCY, bit(request::RIGHT_OF_WAY, asks(0)) | bit(request::FREE_CROSSING, asks(1))]
        }
        SpecialVehicle::SafetyCar(car) => {
            let rule = |rule: TrafficRule| car.traffic_rule == Some(rule);
            let fields = bit(request::NO_PASSING, rule(TrafficRule::NoPassing))
                | bit(request::NO_PASSING_FOR_TRUCKS, rule(TrafficRule::NoPassingForTrucks))
                | bit(request::SPEED_LIMIT, car.speed_limit.is_some());
            [container::SAFETY_CAR, fields]
        }
        // Of a later release: nobody knows what it needs.
        _ => [u8::MAX; 2],
    }
}
