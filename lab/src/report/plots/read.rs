//! From results and the papers' tables to series and charts.

use crate::report::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// The rows of a result.
pub(super) fn rows(document: &Value) -> &[Value] {
    document.get("rows").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The rows in which `key` has this value.
pub(super) fn rows_where<'a>(document: &'a Value, key: &'a str, value: impl Into<Value>) -> Vec<&'a Value> {
    let value = value.into();
    rows(document).iter().filter(|row| row.get(key) == Some(&value)).collect()
}

/// The rows that have `key`.
pub(super) fn rows_with<'a>(document: &'a Value, key: &str) -> Vec<&'a Value> {
    rows(document).iter().filter(|row| row.get(key).is_some()).collect()
}

/// A string or a number of a row as text; empty if there is none.
pub(super) fn label(row: &Value, key: &str) -> String {
    match row.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.as_f64().map(|number| number.to_string()).unwrap_or_default(),
        None => String::new(),
    }
}

/// A number of a row, by JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer)?.as_f64()
}

/// A figure of a row at `x`: a number, or a distribution with median and range.
pub(super) fn figure(row: &Value, key: &str, x: f64) -> Option<Point> {
    let figure = row.get(key)?;
    let Some(y) = number(figure, "/p50") else { return Some(Point::at(x, figure.as_f64()?)) };
    let spread = Some((number(figure, "/min").unwrap_or(y), number(figure, "/max")?));
    Some(Point { x, y, spread })
}

/// The figures `key` of these rows at the categories 0, 1, 2, ...
pub(super) fn by_row(name: &str, style: Style, rows: &[&Value], key: &str) -> Series {
    Series::new(name, style, (0..).zip(rows).filter_map(|(x, row)| figure(row, key, f64::from(x))))
}

/// The figures `key` of these rows over their numbers `x_key`.
pub(super) fn line(name: &str, rows: &[&Value], x_key: &str, key: &str) -> Series {
    let points = rows.iter().filter_map(|row| figure(row, key, row.get(x_key)?.as_f64()?));
    Series::new(name, Style::Line, points)
}

/// Bars: categories and series in order of appearance.
pub(super) fn grouped(
    rows: &[&Value],
    category: impl Fn(&Value) -> String,
    name: impl Fn(&Value) -> String,
    point: impl Fn(&Value, f64) -> Option<Point>,
) -> Chart {
    let mut chart = Chart::default();
    for row in rows {
        let (category, name) = (category(row), name(row));
        let x = chart.categories.iter().position(|known| *known == category).unwrap_or_else(|| {
            chart.categories.push(category);
            chart.categories.len() - 1
        });
        let point = point(row, x as f64);
        match chart.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.extend(point),
            None => chart.series.push(Series::new(&name, Style::Bar, point)),
        }
    }
    chart
}

/// A paper's value of a quantity: its line in the table `paper`.
pub(super) fn paper_point(paper: &str, name: &str, x: f64) -> Option<Point> {
    let line = paper.lines().find(|line| line.split(',').nth(1) == Some(name))?;
    let mut columns = line.split(',').skip(2).map(|column| column.parse::<f64>().ok());
    let (y, low, high) = (columns.next()??, columns.next()?, columns.next()?);
    Some(Point { x, y, spread: low.zip(high).filter(|(_, high)| high.is_finite()) })
}

/// Figures of the summary, with the paper's values.
pub(super) fn side_by_side(document: &Value, paper: &str, names: &[&str]) -> Chart {
    let places = || (0..).map(f64::from).zip(names);
    let measured = places().filter_map(|(x, name)| Some(Point::at(x, number(document, &format!("/summary/{name}"))?)));
    let measured = Series::new("measured", Style::Bar, measured);
    let paper = Series::new("paper", Style::Bar, places().filter_map(|(x, name)| paper_point(paper, name, x)));
    Chart::with_categories(names.iter().map(|name| (*name).to_owned()), vec![measured, paper])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bars_are_placed_by_category() {
        let (one, two) =
            (json!({ "a": "x", "b": "p", "v": 1.0 }), json!({ "a": "y", "b": "p", "v": { "p50": 2.0, "max": 3.0 } }));
        let value = |row: &Value, x| figure(row, "v", x);
        let chart = grouped(&[&one, &two], |row| label(row, "a"), |row| label(row, "b"), value);
        assert_eq!(chart.categories, ["x", "y"]);
        let points: Vec<(f64, f64)> = chart.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!((chart.series.len(), points), (1, vec![(0.0, 1.0), (1.0, 2.0)]));
    }
}
