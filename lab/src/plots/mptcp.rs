//! Charts of `mptcp/*`, with the values of document P2.

use super::read::{number, paper_point, range, rows, text};
use crate::chart::{Chart, Point, Series, Style};
use crate::findings::round;
use serde_json::Value;

/// The values of document P2.
const P2: &str = include_str!("../../papers/p2.csv");

/// The paper's figures 4 and 5, the latter with and without loss, and the gains with the paper's.
pub(super) fn scenarios(document: &Value) -> Vec<Chart> {
    let lossy = |row: &&Value| number(row, "/loss").is_some_and(|loss| loss > 0.0);
    let trips: Vec<&Value> = rows(document).iter().filter(lossy).filter(|row| row.get("rtt_ms").is_some()).collect();
    let bars = trips.iter().enumerate().filter_map(|(place, row)| range(row.get("rtt_ms")?, place as f64));
    let trip = Chart {
        title: "Round trip by ping (P2, Fig 4)".to_owned(),
        x_label: "scenario; 12: both uplinks up".to_owned(),
        y_label: "ms, median and range".to_owned(),
        categories: trips.iter().map(|row| text(row, "scenario")).collect(),
        series: vec![Series { name: "measured".to_owned(), style: Style::Bar, points: bars.collect() }],
        markers: Vec::new(),
    };
    vec![trip, throughput(document, true), throughput(document, false), gain_chart(document)]
}

fn throughput(document: &Value, with_loss: bool) -> Chart {
    let wanted = |row: &&Value| number(row, "/loss").is_some_and(|loss| (loss > 0.0) == with_loss);
    let series = rows(document).iter().filter(wanted).filter_map(|row| {
        let runs = row.get("throughput")?.as_array()?;
        let points = runs.iter().filter_map(|run| range(run.get("mbit_s")?, number(run, "/message")?));
        Some(Series { name: text(row, "scenario"), style: Style::Line, points: points.collect() })
    });
    let loss = if with_loss { "5 %" } else { "no" };
    Chart {
        title: format!("Throughput of one connection, both ways together, {loss} loss (P2, Fig 5)"),
        x_label: "octets of a message".to_owned(),
        y_label: "Mbit/s, median and range".to_owned(),
        series: series.collect(),
        ..Chart::default()
    }
}

fn gain_chart(document: &Value) -> Chart {
    let names = ["rtt_ns1p_over_ns0", "throughput_ns1p_over_ns0", "gain_ns1", "gain_ns2"];
    let said = names.iter().enumerate().filter_map(|(place, name)| paper_point(P2, name, place as f64));
    let seen = names.iter().enumerate().filter_map(|(place, name)| {
        let y = number(document, &format!("/summary/{name}"))?;
        Some(Point { x: place as f64, y: round(y), spread: None })
    });
    Chart {
        title: "Ratios, the paper's and ours".to_owned(),
        x_label: "the gain is NSxP over NSxC, throughput at 5 % loss".to_owned(),
        y_label: "ratio".to_owned(),
        categories: names.iter().map(|name| (*name).to_owned()).collect(),
        series: vec![
            Series { name: "measured".to_owned(), style: Style::Bar, points: seen.collect() },
            Series { name: "paper".to_owned(), style: Style::Bar, points: said.collect() },
        ],
        markers: Vec::new(),
    }
}

/// The gap of each kind of handover, with and without MPTCP.
pub(super) fn handover(document: &Value) -> Vec<Chart> {
    let modes = rows(document);
    let moves = |row: &Value| row.get("moves").and_then(Value::as_array).cloned().unwrap_or_default();
    let places = modes.first().map(|row| moves(row).iter().map(|one| text(one, "move")).collect()).unwrap_or_default();
    let chart = |title: &str, key: &str| {
        let series = modes.iter().map(|row| {
            let points =
                moves(row).iter().enumerate().filter_map(|(place, one)| range(one.get(key)?, place as f64)).collect();
            Series { name: text(row, "mode"), style: Style::Bar, points }
        });
        let series = series.filter(|series| !series.points.is_empty()).collect();
        let up = "ms, median and range".to_owned();
        Chart { title: title.to_owned(), y_label: up, categories: Vec::clone(&places), series, ..Chart::default() }
    };
    vec![
        chart("Longest silence the application saw", "gap_ms"),
        chart("From the move to the first byte on the direct path", "to_direct_ms"),
    ]
}

/// The gaps of all connections in order, with and without MPTCP.
pub(super) fn many(document: &Value) -> Vec<Chart> {
    let series = rows(document).iter().map(|row| {
        let gaps = row.get("gaps_ms").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut gaps: Vec<f64> = gaps.iter().filter_map(Value::as_f64).collect();
        gaps.sort_by(f64::total_cmp);
        let points = gaps.iter().enumerate().map(|(place, y)| Point { x: place as f64 + 1.0, y: *y, spread: None });
        Series { name: text(row, "mode"), style: Style::Line, points: points.collect() }
    });
    vec![Chart {
        title: "Longest silence of each connection while the vehicle moved from FN1 to FN2".to_owned(),
        x_label: "connections, the quickest first".to_owned(),
        y_label: "ms".to_owned(),
        series: series.collect(),
        ..Chart::default()
    }]
}

/// The five equations and the measured delays.
pub(super) fn model(document: &Value) -> Vec<Chart> {
    let rows = rows(document);
    let said = rows
        .iter()
        .enumerate()
        .filter_map(|(place, row)| Some(Point { x: place as f64, y: number(row, "/model_ms")?, spread: None }));
    let seen = rows.iter().enumerate().filter_map(|(place, row)| range(row.get("measured_ms")?, place as f64));
    vec![Chart {
        title: "Round trips the delay equations give, and those there are (P2, equations 1 to 5)".to_owned(),
        y_label: "ms, median and range".to_owned(),
        categories: rows.iter().map(|row| text(row, "scenario")).collect(),
        series: vec![
            Series { name: "measured".to_owned(), style: Style::Bar, points: seen.collect() },
            Series { name: "equation".to_owned(), style: Style::Bar, points: said.collect() },
        ],
        ..Chart::default()
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_figures_are_parsed() {
        let gain = paper_point(P2, "gain_ns1", 2.0);
        assert_eq!(gain, Some(Point { x: 2.0, y: 1.15, spread: Some((1.10, 1.20)) }));
        assert_eq!(paper_point(P2, "rtt_ns1c_over_ns1p", 0.0).and_then(|point| point.spread), None);
        assert_eq!(paper_point(P2, "nothing", 0.0), None);
    }
}
