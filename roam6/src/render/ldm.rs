//! The local dynamic map, for people as a table and for maps as GeoJSON (RFC 7946).

use crate::config::duration::format_duration;
use crate::control::NodeState;
use crate::render::cause::cause_name;
use crate::render::table::Table;
use crate::render::tables::{degrees, kilometres_per_hour};
use roam6_proto::contract::view::{LdmEventView, LdmStationView};
use roam6_wire::geo::Coordinates;
use serde_json::{Value, json};

/// Stations, then events.
pub(crate) fn table(state: &NodeState) -> Table {
    let mut table = Table::new(&["WHAT", "NAME", "KIND", "PLACE", "SPEED", "HEADING", "AGE", "ENDS IN"]);
    for row in &state.view.ldm.stations {
        table.push(vec![
            "station".to_owned(),
            row.station.to_string(),
            row.kind.clone(),
            row.place.to_string(),
            row.speed.map(kilometres_per_hour).unwrap_or_default(),
            row.heading.map(degrees).unwrap_or_default(),
            format_duration(row.age),
        ]);
    }
    for row in &state.view.ldm.events {
        let kind = match row.sub_cause {
            0 => cause_name(row.cause),
            sub => format!("{} {sub}", cause_name(row.cause)),
        };
        let (name, place, ends) = (row.name.to_string(), row.place.to_string(), format_duration(row.remaining));
        let nothing = String::new;
        table.push(vec!["event".to_owned(), name, kind, place, nothing(), nothing(), nothing(), ends]);
    }
    table
}

/// A FeatureCollection of points.
pub(crate) fn geojson(state: &NodeState) -> Value {
    let ldm = &state.view.ldm;
    let features: Vec<Value> = ldm.stations.iter().map(station).chain(ldm.events.iter().map(event)).collect();
    json!({ "type": "FeatureCollection", "features": features })
}

fn feature(place: Coordinates, properties: Value) -> Value {
    let (latitude, longitude) = place.to_degrees();
    let geometry = json!({ "type": "Point", "coordinates": [longitude, latitude] });
    json!({ "type": "Feature", "geometry": geometry, "properties": properties })
}

fn station(row: &LdmStationView) -> Value {
    let scaled = |value: Option<f64>, unit: f64| value.map(|value| value * unit);
    feature(
        row.place,
        json!({
            "what": "station", "station": row.station, "address": row.mid.to_string(), "kind": row.kind,
            "speed_mps": scaled(row.speed.map(f64::from), 0.01), "heading_deg": scaled(row.heading.map(f64::from), 0.1),
            "length_m": scaled(row.length.map(f64::from), 0.1), "width_m": scaled(row.width.map(f64::from), 0.1),
            "age_s": row.age.as_secs_f64(),
        }),
    )
}

fn event(row: &LdmEventView) -> Value {
    feature(
        row.place,
        json!({
            "what": "event", "event": row.name.to_string(), "cause": row.cause, "sub_cause": row.sub_cause,
            "kind": cause_name(row.cause), "quality": row.quality, "own": row.tag.is_some(), "area": row.area,
            "remaining_s": row.remaining.as_secs_f64(),
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use roam6_proto::contract::config::facilities::EventId;
    use roam6_wire::geo::Area;

    #[test]
    fn geojson_has_longitude_first() {
        let place = Coordinates::from_degrees(48.5, 11.25).unwrap();
        let mut state = NodeState::default();
        state.view.ldm.events.push(LdmEventView {
            name: EventId { station: 7, sequence: 1 },
            tag: None,
            cause: 94,
            sub_cause: 2,
            quality: 3,
            place,
            area: Area::circle(place, 100),
            remaining: Duration::from_secs(60),
        });
        let feature = &geojson(&state)["features"][0];
        assert_eq!(feature["geometry"]["coordinates"], json!([11.25, 48.5]));
        assert_eq!(feature["properties"]["event"], "7/1");
        let text = table(&state).render(crate::render::table::Paint::Plain);
        assert!(text.contains("event  7/1   stationary-vehicle 2  48.5000000, 11.2500000"), "{text}");
    }
}
