//! The chart of `lab/*`.

use super::read::{by_row, label, rows_with};
use crate::report::chart::{Chart, Style};
use serde_json::Value;

/// Configured and measured delay of each link.
pub(super) fn links(document: &Value) -> Vec<Chart> {
    let rows = rows_with(document, "expected_ms");
    let series =
        vec![by_row("measured", Style::Bar, &rows, "delay_ms"), by_row("configured", Style::Bar, &rows, "expected_ms")];
    let chart = Chart::with_categories(rows.iter().map(|row| label(row, "link")), series);
    vec![chart.titled("Delay of each link", "", "ms, median and range")]
}
