//! Charts of `shim6/*`, with the values of document P4.

use super::read::{
    by_row, figure, grouped, label, line, number, paper_point, rows, rows_where, rows_with, side_by_side,
};
use crate::report::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// The values of document P4.
const P4: &str = include_str!("../../../papers/p4.csv");
const MEDIAN: &str = "ms, median and range";

/// The paper's figure 6, and the rates behind it.
pub(super) fn generation(document: &Value) -> Vec<Chart> {
    let case = |row: &Value| format!("Sec {}, threads {}", label(row, "sec"), label(row, "threads"));
    let time = |row: &Value, x| figure(row, "ms", x);
    let time = grouped(&rows_with(document, "generate"), |row| label(row, "generate"), case, time);
    let rate = |row: &Value, x| figure(row, "over_openssl", x);
    let rate = grouped(&rows_with(document, "method"), |row| label(row, "input"), |row| label(row, "method"), rate);
    vec![
        time.titled("Generation of two addresses, key included (P4, Fig 6)", "", MEDIAN),
        rate.titled("Candidates per second, over OpenSSL's SHA-1", "", "ratio"),
    ]
}

/// The paper's figure 7.
pub(super) fn negotiation(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let locators = |row: &Value| format!("{} locators", label(row, "locators"));
    let time = grouped(&rows, |row| label(row, "proof"), locators, |row, x| figure(row, "i1_to_r2_ms", x));
    vec![
        time.titled("Context establishment, from I1 to R2 (P4, Fig 7)", "", MEDIAN),
        side_by_side(document, P4, &["hba_over_none", "locators_effect"]).titled(RATIOS, "", "ratio"),
    ]
}

const RATIOS: &str = "Ratios, measured and the paper's";

/// The paper's figure 9.
pub(super) fn recovery(document: &Value) -> Vec<Chart> {
    let silence = |name: &str, told: bool, key: &str| {
        let rows = rows_where(document, "tcp_is_told", told);
        let mut series = line(name, &rows, "send_timeout_ms", key);
        for Point { x, y, spread } in &mut series.points {
            (*x, *y) = (*x / 1000.0, *y / 1000.0);
            *spread = spread.map(|(low, high)| (low / 1000.0, high / 1000.0));
        }
        series
    };
    let ratio = paper_point(P4, "tcp_silent_over_send_timeout", 0.0).map_or(1.0, |point| point.y);
    let mut timeouts: Vec<f64> = rows(document).iter().filter_map(|row| number(row, "/send_timeout_ms")).collect();
    timeouts.sort_by(f64::total_cmp);
    let paper = timeouts.iter().map(|timeout| Point::at(timeout / 1000.0, timeout / 1000.0 * ratio));
    let series = vec![
        silence("TCP, told of the new path", true, "tcp_silent_ms"),
        silence("TCP, not told", false, "tcp_silent_ms"),
        silence("UDP", true, "udp_silent_ms"),
        Series::new("paper, told", Style::Dashes, paper),
    ];
    let title = "Silence of connections after a silent provider failure (P4, Fig 9)";
    vec![Chart::of(series).titled(title, "Send Timeout, s", "s, median and range")]
}

/// The paper's figure 10.
pub(super) fn contexts(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let chart = |series: &[(&str, &str)]| {
        let series = series.iter().map(|(name, key)| by_row(name, Style::Bar, &rows, key)).collect();
        Chart::with_categories(rows.iter().map(|row| label(row, "contexts")), series)
    };
    let memory = [("engine", "engine_bytes_per_context"), ("daemon", "daemon_bytes_per_context")];
    vec![
        chart(&[("measured", "i2_us")]).titled(
            "Processing of an I2 with a 2048-bit signature (P4, Fig 10: 2 ms with 1024 bits at 600 MHz)",
            "existing contexts",
            "microseconds, median and range",
        ),
        chart(&memory).titled("Memory of a context", "existing contexts", "octets"),
        side_by_side(document, P4, &["i2_us_p50_max_over_min"]).titled(RATIOS, "", "ratio"),
    ]
}

/// The paper's figure 11.
pub(super) fn servers(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let contexts = |name: &str, key: &str| line(name, &rows, "idle_timeout_s", key);
    let paper = paper_point(P4, "contexts_at_once_max_after_10_s", 10.0).map(|point| Point::at(point.x, point.y));
    let series = vec![
        contexts("maximum", "contexts_at_once_max"),
        contexts("95 % of the day", "contexts_at_once_p95"),
        contexts("mean", "contexts_at_once_mean"),
        Series::new("paper: fewer than", Style::Dashes, paper),
    ];
    let title = "Simultaneous contexts at a campus server, synthetic flows (P4, Fig 11)";
    vec![Chart::of(series).titled(title, "idle timeout, s", "contexts")]
}

/// The cost of the shim for a transfer.
pub(super) fn throughput(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let flows = |row: &Value| format!("{} connections", label(row, "flows"));
    let rate = grouped(&rows, |row| label(row, "way"), flows, |row, x| figure(row, "gbit_s", x));
    vec![rate.titled("Bulk TCP between two hosts", "", "Gbit/s, median and range")]
}
