//! Charts of `shim6/*`, with the values of document P4.

use super::read::{number, paper_point, range, rows, text};
use crate::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// The values of document P4.
const P4: &str = include_str!("../../papers/p4.csv");

/// The paper's figure 6, and the rates behind it.
pub(super) fn generation(document: &Value) -> Vec<Chart> {
    let made: Vec<&Value> = rows(document).iter().filter(|row| row.get("generate").is_some()).collect();
    let case = |row: &Value| format!("Sec {}, threads {}", text(row, "sec"), text(row, "threads"));
    let up = "ms, median and range";
    let time = grouped(&made, &|row| text(row, "generate"), &case, "ms");
    let rates: Vec<&Value> = rows(document).iter().filter(|row| row.get("method").is_some()).collect();
    let rate = grouped(&rates, &|row| text(row, "input"), &|row| text(row, "method"), "over_openssl");
    vec![
        Chart { title: "Two addresses made, the key included (P4, Fig 6)".to_owned(), y_label: up.to_owned(), ..time },
        Chart {
            title: "Candidates tried a second, over OpenSSL's SHA-1".to_owned(),
            y_label: "ratio".to_owned(),
            ..rate
        },
    ]
}

/// The paper's figure 7.
pub(super) fn negotiation(document: &Value) -> Vec<Chart> {
    let all: Vec<&Value> = rows(document).iter().collect();
    let locators = |row: &Value| format!("{} locators", number(row, "/locators").unwrap_or_default());
    let time = grouped(&all, &|row| text(row, "proof"), &locators, "i1_to_r2_ms");
    vec![
        Chart {
            title: "A context comes about: from I1 to R2 (P4, Fig 7)".to_owned(),
            y_label: "ms, median and range".to_owned(),
            ..time
        },
        side_by_side(document, "Ratios, the paper's and ours", &["hba_over_none", "locators_effect"]),
    ]
}

/// The paper's figure 9.
pub(super) fn recovery(document: &Value) -> Vec<Chart> {
    let timeout = |row: &Value| number(row, "/send_timeout_ms").map(|timeout| timeout / 1000.0);
    let seconds = |row: &Value, key: &str| {
        let in_seconds = |value: f64| value / 1000.0;
        let Point { x, y, spread } = range(row.get(key)?, timeout(row)?)?;
        let spread = spread.map(|(low, high)| (in_seconds(low), in_seconds(high)));
        Some(Point { x, y: in_seconds(y), spread })
    };
    let line = |name: &str, told: bool, key: &str| {
        let of = rows(document).iter().filter(|row| row.get("tcp_is_told").and_then(Value::as_bool) == Some(told));
        let points = of.filter_map(|row| seconds(row, key)).collect();
        Series { name: name.to_owned(), style: Style::Line, points }
    };
    let ratio = paper_point(P4, "tcp_silent_over_send_timeout", 0.0).map_or(1.0, |point| point.y);
    let said = rows(document).iter().filter_map(timeout).map(|x| Point { x, y: x * ratio, spread: None });
    let mut said: Vec<Point> = said.collect();
    said.sort_by(|one, other| one.x.total_cmp(&other.x));
    vec![Chart {
        title: "A provider falls silent: how long connections do (P4, Fig 9)".to_owned(),
        x_label: "Send Timeout, s".to_owned(),
        y_label: "s, median and range".to_owned(),
        series: vec![
            line("TCP, told of the new path", true, "tcp_silent_ms"),
            line("TCP, not told", false, "tcp_silent_ms"),
            line("UDP", true, "udp_silent_ms"),
            Series { name: "paper, told".to_owned(), style: Style::Dashes, points: said },
        ],
        ..Chart::default()
    }]
}

/// The paper's figure 10.
pub(super) fn contexts(document: &Value) -> Vec<Chart> {
    let all: Vec<&Value> = rows(document).iter().collect();
    let size = |row: &Value| number(row, "/contexts").unwrap_or_default().to_string();
    let one = |name: &'static str, key: &str| grouped(&all, &size, &|_| name.to_owned(), key);
    let (engine, daemon) = (one("engine", "engine_bytes_per_context"), one("daemon", "daemon_bytes_per_context"));
    let across = "contexts there are".to_owned();
    vec![
        Chart {
            title: "An I2 with a signature of 2048 bits is handled (P4, Fig 10: 2 ms with 1024 bits at 600 MHz)"
                .to_owned(),
            x_label: across.clone(),
            y_label: "microseconds, median and range".to_owned(),
            ..one("measured", "i2_us")
        },
        Chart {
            title: "Memory of a context".to_owned(),
            x_label: across,
            y_label: "octets".to_owned(),
            series: [engine.series.clone(), daemon.series].concat(),
            ..engine
        },
        side_by_side(document, "The slowest over the fastest, the paper's and ours", &["i2_us_p50_max_over_min"]),
    ]
}

/// The paper's figure 11.
pub(super) fn servers(document: &Value) -> Vec<Chart> {
    let line = |name: &str, key: &str| {
        let point = |row: &Value| {
            let (x, y) = (number(row, "/idle_timeout_s")?, number(row, key)?);
            Some(Point { x, y, spread: None })
        };
        let points = rows(document).iter().filter_map(point).collect();
        Series { name: name.to_owned(), style: Style::Line, points }
    };
    let said = paper_point(P4, "contexts_at_once_max_after_10_s", 10.0);
    let said = said.map(|point| Point { spread: None, ..point });
    vec![Chart {
        title: "Contexts at once at a campus server, made-up flows (P4, Fig 11)".to_owned(),
        x_label: "given up after so many seconds without use".to_owned(),
        y_label: "contexts".to_owned(),
        series: vec![
            line("at most", "/contexts_at_once_max"),
            line("95 % of the day", "/contexts_at_once_p95"),
            line("mean", "/contexts_at_once_mean"),
            Series { name: "paper: fewer than".to_owned(), style: Style::Dashes, points: said.into_iter().collect() },
        ],
        ..Chart::default()
    }]
}

/// The cost of the shim for a transfer.
pub(super) fn throughput(document: &Value) -> Vec<Chart> {
    let all: Vec<&Value> = rows(document).iter().collect();
    let flows = |row: &Value| format!("{} connections", number(row, "/flows").unwrap_or_default());
    let rate = grouped(&all, &|row| text(row, "way"), &flows, "gbit_s");
    vec![Chart {
        title: "Bulk TCP between two hosts".to_owned(),
        y_label: "Gbit/s, median and range".to_owned(),
        ..rate
    }]
}

/// Bars: a category for each `place`, a series for each `name`, in order of appearance.
fn grouped(all: &[&Value], place: &dyn Fn(&Value) -> String, name: &dyn Fn(&Value) -> String, key: &str) -> Chart {
    let mut chart = Chart::default();
    for row in all {
        let (place, name) = (place(row), name(row));
        let x = chart.categories.iter().position(|known| *known == place).unwrap_or_else(|| {
            chart.categories.push(place);
            chart.categories.len() - 1
        }) as f64;
        let figure = row.get(key);
        let plain = || Some(Point { x, y: figure?.as_f64()?, spread: None });
        let point = figure.and_then(|figure| range(figure, x)).or_else(plain);
        match chart.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.extend(point),
            None => chart.series.push(Series { name, style: Style::Bar, points: point.into_iter().collect() }),
        }
    }
    chart
}

/// Figures of the summary, with the paper's values.
fn side_by_side(document: &Value, title: &str, names: &[&str]) -> Chart {
    let seen = names.iter().enumerate().filter_map(|(place, name)| {
        let y = number(document, &format!("/summary/{name}"))?;
        Some(Point { x: place as f64, y, spread: None })
    });
    let said = names.iter().enumerate().filter_map(|(place, name)| paper_point(P4, name, place as f64));
    Chart {
        title: title.to_owned(),
        y_label: "ratio".to_owned(),
        categories: names.iter().map(|name| (*name).to_owned()).collect(),
        series: vec![
            Series { name: "measured".to_owned(), style: Style::Bar, points: seen.collect() },
            Series { name: "paper".to_owned(), style: Style::Bar, points: said.collect() },
        ],
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bars_are_placed_by_category() {
        let (one, two) =
            (json!({ "a": "x", "b": "p", "v": 1.0 }), json!({ "a": "y", "b": "p", "v": { "p50": 2.0, "max": 3.0 } }));
        let chart = grouped(&[&one, &two], &|row| text(row, "a"), &|row| text(row, "b"), "v");
        assert_eq!(chart.categories, ["x", "y"]);
        let points: Vec<(f64, f64)> = chart.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!((chart.series.len(), points), (1, vec![(0.0, 1.0), (1.0, 2.0)]));
        assert_eq!(paper_point(P4, "hba_over_none", 0.0).map(|point| point.y), Some(1.0));
    }
}
