//! The local dynamic map, for people as a table and for maps as GeoJSON (RFC 7946).

use crate::config::duration::format_duration;
use crate::control::NodeState;
use crate::render::cause::cause_name;
use crate::render::table::Table;
use crate::render::tables::{degrees, kilometres_per_hour};
#[cfg(feature = "facilities")]
use roam6_proto::contract::view::LdmMessageView;
use roam6_proto::contract::view::{LdmEventView, LdmStationView};
use roam6_wire::geo::Coordinates;
use serde_json::{Value, json};

/// Stations, then events, then messages about the surroundings of stations.
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
    #[cfg(feature = "facilities")]
    state.view.ldm.messages.iter().for_each(|row| table.push(message_cells(row)));
    table
}

#[cfg(feature = "facilities")]
fn message_cells(row: &LdmMessageView) -> Vec<String> {
    let objects = row.objects.map(|objects| format!(", {objects} objects")).unwrap_or_default();
    vec![
        "message".to_owned(),
        row.station.to_string(),
        format!("{}{objects}, {} received", row.kind, row.count),
        row.place.map(|place| place.to_string()).unwrap_or_default(),
        String::new(),
        row.heading.map(degrees).unwrap_or_default(),
        format_duration(row.age),
    ]
}

/// A FeatureCollection of points, and of messages without a place.
pub(crate) fn geojson(state: &NodeState) -> Value {
    let ldm = &state.view.ldm;
    let features = ldm.stations.iter().map(station).chain(ldm.events.iter().map(event));
    #[cfg(feature = "facilities")]
    let features = features.chain(ldm.messages.iter().map(message));
    let features: Vec<Value> = features.collect();
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

#[cfg(feature = "facilities")]
fn message(row: &LdmMessageView) -> Value {
    let heading = row.heading.map(|heading| f64::from(heading) * 0.1);
    let properties = json!({
        "what": "message", "station": row.station, "address": row.mid.to_string(), "kind": row.kind,
        "heading_deg": heading, "objects": row.objects, "count": row.count, "age_s": row.age.as_secs_f64(),
    });
    match row.place {
        Some(place) => feature(place, properties),
        // An unlocated Feature (RFC 7946 §3.2).
        None => json!({ "type": "Feature", "geometry": null, "properties": properties }),
    }
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

    #[cfg(feature = "facilities")]
    #[test]
    fn messages_are_shown_with_and_without_a_place() {
        let mut state = NodeState::default();
        let cpm = LdmMessageView {
            station: 9,
            mid: roam6_wire::LinkAddress([2, 0, 0, 0, 0, 9]),
            kind: "CPM".to_owned(),
            place: Coordinates::from_degrees(48.5, 11.25),
            heading: Some(1800),
            objects: Some(40),
            count: 12,
            age: Duration::from_millis(300),
        };
        let spatem =
            LdmMessageView { kind: "SPATEM".to_owned(), place: None, heading: None, objects: None, ..cpm.clone() };
        state.view.ldm.messages = vec![cpm, spatem];
        let features = &geojson(&state)["features"];
        assert_eq!(features[0]["geometry"]["coordinates"], json!([11.25, 48.5]));
        assert_eq!(
            (&features[0]["properties"]["objects"], &features[0]["properties"]["count"]),
            (&json!(40), &json!(12))
        );
        assert_eq!(features[1]["geometry"], Value::Null);
        let text = table(&state).render(crate::render::table::Paint::Plain);
        assert!(text.contains("message  9     CPM, 40 objects, 12 received  48.5000000, 11.2500000"), "{text}");
        assert!(text.contains("message  9     SPATEM, 12 received"), "{text}");
    }
}
