//! The chart of `lab/*`.

use super::read::{number, range, rows, text};
use crate::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// Configured and measured delay of each link.
pub(super) fn links(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().filter(|row| row.get("expected_ms").is_some()).collect();
    let told = rows
        .iter()
        .enumerate()
        .filter_map(|(place, row)| Some(Point { x: place as f64, y: number(row, "/expected_ms")?, spread: None }));
    let seen = rows.iter().enumerate().filter_map(|(place, row)| range(row.get("delay_ms")?, place as f64));
    vec![Chart {
        title: "Delay of each link".to_owned(),
        y_label: "ms, median and range".to_owned(),
        categories: rows.iter().map(|row| text(row, "link")).collect(),
        series: vec![
            Series { name: "measured".to_owned(), style: Style::Bar, points: seen.collect() },
            Series { name: "told".to_owned(), style: Style::Bar, points: told.collect() },
        ],
        ..Chart::default()
    }]
}
