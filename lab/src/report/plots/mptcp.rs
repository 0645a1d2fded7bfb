//! Charts of `mptcp/*`, with the values of document P2.

use super::read::{by_row, label, line, number, rows, rows_with, side_by_side};
use crate::report::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// The values of document P2.
const P2: &str = include_str!("../../../papers/p2.csv");
const MEDIAN: &str = "ms, median and range";

/// The paper's figures 4 and 5, the latter with and without loss, and the gains with the paper's.
pub(super) fn scenarios(document: &Value) -> Vec<Chart> {
    let is_lossy = |row: &Value| number(row, "/loss").is_some_and(|loss| loss > 0.0);
    let round_trips: Vec<&Value> = rows_with(document, "rtt_ms").into_iter().filter(|row| is_lossy(row)).collect();
    let series = vec![by_row("measured", Style::Bar, &round_trips, "rtt_ms")];
    let throughput = |loss: &str, with_loss: bool| {
        let series = rows_with(document, "throughput").into_iter().filter(|row| is_lossy(row) == with_loss);
        let series = series.map(|row| {
            let runs: Vec<&Value> = array(row, "throughput").collect();
            line(&label(row, "scenario"), &runs, "message", "mbit_s")
        });
        let title = format!("Throughput of one connection, both directions together, {loss} loss (P2, Fig 5)");
        Chart::of(series.collect()).titled(&title, "octets of a message", "Mbit/s, median and range")
    };
    let gains = ["rtt_ns1p_over_ns0", "throughput_ns1p_over_ns0", "gain_ns1", "gain_ns2"];
    vec![
        Chart::with_categories(round_trips.iter().map(|row| label(row, "scenario")), series).titled(
            "Round trip by ping (P2, Fig 4)",
            "scenario; 12: both uplinks up",
            MEDIAN,
        ),
        throughput("5 %", true),
        throughput("no", false),
        side_by_side(document, P2, &gains).titled(
            "Ratios, measured and the paper's",
            "the gain is NSxP over NSxC, throughput at 5 % loss",
            "ratio",
        ),
    ]
}

fn array<'a>(row: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    row.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The gap of each kind of handover, with and without MPTCP.
pub(super) fn handover(document: &Value) -> Vec<Chart> {
    let chart = |title: &str, key: &str| {
        let series = rows(document).iter().map(|row| {
            let moves: Vec<&Value> = array(row, "moves").collect();
            by_row(&label(row, "mode"), Style::Bar, &moves, key)
        });
        let series = series.filter(|series| !series.points.is_empty()).collect();
        let categories = rows(document).first().into_iter().flat_map(|row| array(row, "moves"));
        Chart::with_categories(categories.map(|one| label(one, "move")), series).titled(title, "", MEDIAN)
    };
    vec![
        chart("Longest silence at the application", "gap_ms"),
        chart("From the move to the first byte on the direct path", "to_direct_ms"),
    ]
}

/// The gaps of all connections in order, with and without MPTCP.
pub(super) fn many(document: &Value) -> Vec<Chart> {
    let series = rows(document).iter().map(|row| {
        let mut gaps: Vec<f64> = array(row, "gaps_ms").filter_map(Value::as_f64).collect();
        gaps.sort_by(f64::total_cmp);
        let points = (1..).zip(gaps).map(|(place, gap)| Point::at(f64::from(place), gap));
        Series::new(&label(row, "mode"), Style::Line, points)
    });
    vec![Chart::of(series.collect()).titled(
        "Longest silence of each connection while the vehicle moves from FN1 to FN2",
        "connections, sorted by gap",
        "ms",
    )]
}

/// The five equations and the measured delays.
pub(super) fn model(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let series =
        vec![by_row("measured", Style::Bar, &rows, "measured_ms"), by_row("equation", Style::Bar, &rows, "model_ms")];
    let chart = Chart::with_categories(rows.iter().map(|row| label(row, "scenario")), series);
    vec![chart.titled("Round trips by the delay equations, and measured (P2, equations 1 to 5)", "", MEDIAN)]
}

#[cfg(test)]
mod tests {
    use super::super::read::paper_point;
    use super::*;

    #[test]
    fn paper_figures_are_parsed() {
        let gain = paper_point(P2, "gain_ns1", 2.0);
        assert_eq!(gain, Some(Point { x: 2.0, y: 1.15, spread: Some((1.10, 1.20)) }));
        assert_eq!(paper_point(P2, "rtt_ns1c_over_ns1p", 0.0).and_then(|point| point.spread), None);
        assert_eq!(paper_point(P2, "nothing", 0.0), None);
    }
}
