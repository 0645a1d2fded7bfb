//! The map as an operator sees it.

use super::config::EventName;
use super::map::{Known, Seen};
use crate::time::Time;
use crate::view::{LdmEventView, LdmStationView};
use roam6_wire::geo::Station;
use roam6_wire::its::cam::HighFrequency;

/// A station; `None` if it does not say where it is.
pub(super) fn station(seen: &Seen, now: Time) -> Option<LdmStationView> {
    let parameters = &seen.cam.awareness.parameters;
    let vehicle = match &parameters.high_frequency {
        HighFrequency::Vehicle(vehicle) => Some(vehicle),
        _ => None,
    };
    Some(LdmStationView {
        station: seen.cam.header.station_id,
        mid: seen.mid,
        kind: Station(parameters.basic.station_type).to_string(),
        place: parameters.basic.position.place()?,
        speed: vehicle.map(|vehicle| vehicle.speed.value).filter(|speed| *speed < 16_383),
        heading: vehicle.map(|vehicle| vehicle.heading.value).filter(|heading| *heading <= 3600),
        length: vehicle.map(|vehicle| vehicle.length.value).filter(|length| *length < 1022),
        width: vehicle.map(|vehicle| vehicle.width).filter(|width| *width < 61),
        age: now.since(seen.heard),
    })
}

/// An event; `None` if nobody says where it is.
pub(super) fn event(known: &Known, name: EventName, tag: Option<u32>, now: Time) -> Option<LdmEventView> {
    let notification = &known.told.denm.notification;
    let (cause, sub_cause) = known.told.cause();
    Some(LdmEventView {
        name,
        tag,
        cause,
        sub_cause,
        quality: notification.situation.as_ref().map_or(0, |it| it.quality),
        place: notification.management.position.place()?,
        area: known.told.area,
        remaining: known.until.since(now),
    })
}
