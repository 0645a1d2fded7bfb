//! Views of stations for the control socket.

use super::geometry;
use super::location_table::LocationTableEntry;
use crate::base::time::Time;
use crate::contract::view::{StationState, StationView, Trust};
use core::time::Duration;
use roam6_wire::geo::LongPositionVector;

/// This station.
pub(super) fn own(position: &LongPositionVector, has_fix: bool) -> StationView {
    let state = if has_fix { StationState::Own } else { StationState::OwnNoFix };
    StationView { state, ..at(position) }
}

/// Another station, seen from `own`.
pub(super) fn other(station: &LocationTableEntry, own: Option<&LongPositionVector>, now: Time) -> StationView {
    let state = if station.neighbour.is_some() { StationState::Neighbour } else { StationState::Known };
    let distance = own.map(|own| geometry::distance(own.place, station.position.place) as u32);
    let age = now.since(station.updated);
    #[cfg(feature = "geo-security")]
    let trust = station.trust;
    #[cfg(not(feature = "geo-security"))]
    let trust = Trust::Unsigned;
    StationView { distance, age, state, trust, ..at(&station.position) }
}

fn at(position: &LongPositionVector) -> StationView {
    StationView {
        mid: position.address.mid,
        kind: position.address.station.to_string(),
        place: position.place,
        accurate: position.accurate,
        speed: position.speed,
        heading: position.heading,
        distance: Some(0),
        age: Duration::ZERO,
        state: StationState::Own,
        link: None,
        trust: Trust::Unsigned,
    }
}
