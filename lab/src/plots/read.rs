//! Access to results and to the papers' values.

use crate::chart::Point;
use serde_json::Value;

/// The rows of a result.
pub(super) fn rows(document: &Value) -> &[Value] {
    document.get("rows").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A string of a row; empty if there is none.
pub(super) fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A number of a row, by JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer)?.as_f64()
}

/// Median and range of a figure with its distribution.
pub(super) fn range(figure: &Value, x: f64) -> Option<Point> {
    let (y, high) = (number(figure, "/p50")?, number(figure, "/max")?);
    let low = number(figure, "/min").unwrap_or(y);
    Some(Point { x, y, spread: Some((low, high)) })
}

/// A paper's value of a quantity: its line in the table `said`.
pub(super) fn paper_point(said: &str, name: &str, x: f64) -> Option<Point> {
    let line = said.lines().find(|line| line.split(',').nth(1) == Some(name))?;
    let mut columns = line.split(',').skip(2).map(|column| column.parse::<f64>().ok());
    let (y, low, high) = (columns.next()??, columns.next()?, columns.next()?);
    Some(Point { x, y, spread: low.zip(high).filter(|(_, high)| high.is_finite()) })
}
