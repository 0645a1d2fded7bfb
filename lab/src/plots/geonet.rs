//! The figures of `geonet/*`.

use super::read::{number, range, rows};
use crate::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// What others forward greedily on such a core, packets a second by neighbours (vanetza, as issue 5 has it).
const OTHERS: [(f64, f64); 3] = [(1.0, 108_000.0), (50.0, 68_000.0), (200.0, 24_000.0)];

/// Packets a second by neighbours, beside what others do.
pub(super) fn forwarding(document: &Value) -> Vec<Chart> {
    let seen = rows(document).iter().filter_map(|row| range(row.get("pps_of_a_core")?, number(row, "/neighbours")?));
    let others = OTHERS.map(|(x, y)| Point { x, y, spread: None });
    vec![Chart {
        title: "Packets a second that one core forwards greedily".to_owned(),
        across: "neighbours".to_owned(),
        up: "packets/s, median and range".to_owned(),
        series: vec![
            Series { name: "roam6".to_owned(), style: Style::Line, points: seen.collect() },
            Series { name: "vanetza".to_owned(), style: Style::Dashes, points: others.into() },
        ],
        ..Chart::default()
    }]
}
