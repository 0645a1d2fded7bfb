//! Charts of `geonet/*`, with the values of document P3.

use super::read::{number, paper_point, range, rows, text};
use crate::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// The values of document P3.
const P3: &str = include_str!("../../papers/p3.csv");
/// Greedy forwarding of vanetza on one core, packets per second by neighbours. Measured on another machine than the
/// displayed result.
const VANETZA: [(f64, f64); 3] = [(1.0, 108_000.0), (10.0, 68_000.0), (50.0, 24_000.0)];

/// The paper's figures 7 to 9: round trips over one hop and two, and the delay that GeoNetworking adds.
pub(super) fn rtt(document: &Value) -> Vec<Chart> {
    vec![round_trips(document, 1), round_trips(document, 2), overhead(document)]
}

fn round_trips(document: &Value, hops: u8) -> Chart {
    let (figure, word) = if hops == 1 { (7, "one hop") } else { (8, "two hops") };
    let mut series: Vec<Series> = ["plain", "geonetworking"].map(|way| line(document, way, hops)).into();
    series.extend(paper_series(document, &format!("rtt_{hops}hop")));
    Chart {
        title: format!("Round trip of ping, {word} (P3, Fig {figure})"),
        x_label: "octets of an echo".to_owned(),
        y_label: "ms, median and range".to_owned(),
        series,
        ..Chart::default()
    }
}

fn line(document: &Value, way: &str, hops: u8) -> Series {
    let points = rows_of(document, way, hops).filter_map(|row| range(row.get("rtt_ms")?, number(row, "/octets")?));
    Series { name: way.to_owned(), style: Style::Line, points: points.collect() }
}

fn rows_of<'a>(document: &'a Value, way: &'a str, hops: u8) -> impl Iterator<Item = &'a Value> {
    rows(document).iter().filter(move |row| text(row, "way") == way && number(row, "/hops") == Some(f64::from(hops)))
}

/// The paper's values of a quantity, by size.
fn paper_series(document: &Value, name: &str) -> Option<Series> {
    let ends = [20.0, 1500.0].map(|octets| paper_point(P3, name, octets).map(|point| Point { spread: None, ..point }));
    let points: Vec<Point> = ends.into_iter().flatten().collect();
    let drawn = !points.is_empty() && !rows(document).is_empty();
    drawn.then(|| Series { name: "paper".to_owned(), style: Style::Dashes, points })
}

fn overhead(document: &Value) -> Chart {
    let series = [1_u8, 2].map(|hops| {
        let points = rows_of(document, "geonetworking", hops).filter_map(|row| {
            let octets = number(row, "/octets")?;
            let plain = rows_of(document, "plain", hops).find(|plain| number(plain, "/octets") == Some(octets))?;
            let y = (number(row, "/rtt_ms/p50")? - number(plain, "/rtt_ms/p50")?).max(0.0);
            Some(Point { x: octets, y: y * 1000.0, spread: None })
        });
        Series { name: format!("{hops} hops"), style: Style::Line, points: points.collect() }
    });
    Chart {
        title: "What GeoNetworking adds to a round trip (P3, Fig 9: 3000 µs and 30 000 µs)".to_owned(),
        x_label: "octets of an echo".to_owned(),
        y_label: "µs, difference of medians".to_owned(),
        series: series.into(),
        ..Chart::default()
    }
}

/// The paper's figures 10 and 11: delivery ratio, and delivery at increasing rates.
pub(super) fn udp(document: &Value) -> Vec<Chart> {
    let mut rates: Vec<f64> = rows(document).iter().filter_map(|row| number(row, "/kbit_s")).collect();
    rates.dedup();
    let mut series: Vec<Series> = rates.into_iter().map(|rate| delivery(document, rate)).collect();
    let at = |octets: u16| paper_point(P3, &format!("delivery_{octets}"), f64::from(octets));
    let points = [700, 1150, 1380].into_iter().filter_map(at).collect();
    series.push(Series { name: "paper, 250 kbit/s".to_owned(), style: Style::Dashes, points });
    let searched = rows(document).iter().filter_map(|row| {
        let offered = number(row, "/search_kbit_s")? / 1000.0;
        Some(Point { x: offered, y: number(row, "/mbit_s")?, spread: None })
    });
    vec![
        Chart {
            title: "Datagrams that arrive, one hop (P3, Figs 10 and 11)".to_owned(),
            x_label: "octets of a datagram".to_owned(),
            y_label: "share".to_owned(),
            series,
            ..Chart::default()
        },
        Chart {
            title: "Datagrams at ever higher rates, one hop, no limit of the channel".to_owned(),
            x_label: "Mbit/s sent".to_owned(),
            y_label: "Mbit/s received".to_owned(),
            series: vec![Series { name: "roam6".to_owned(), style: Style::Line, points: searched.collect() }],
            ..Chart::default()
        },
    ]
}

fn delivery(document: &Value, rate: f64) -> Series {
    let of_rate = rows(document).iter().filter(|row| number(row, "/kbit_s") == Some(rate));
    let points = of_rate
        .filter_map(|row| Some(Point { x: number(row, "/octets")?, y: number(row, "/delivery")?, spread: None }));
    Series { name: format!("{rate} kbit/s"), style: Style::Line, points: points.collect() }
}

/// The longest silence of a connection through a moving column, per second.
pub(super) fn tcp(document: &Value) -> Vec<Chart> {
    let silences = rows(document).iter().filter_map(|row| row.get("silence_ms_each_second")?.as_array());
    let point =
        |(second, silence): (usize, &Value)| Some(Point { x: second as f64, y: silence.as_f64()?, spread: None });
    let points = silences.flatten().enumerate().filter_map(point).collect();
    vec![Chart {
        title: "Longest silence of a TCP connection while vehicles between its ends drive past".to_owned(),
        x_label: "seconds".to_owned(),
        y_label: "ms".to_owned(),
        series: vec![Series { name: "either direction".to_owned(), style: Style::Line, points }],
        ..Chart::default()
    }]
}

/// Paths that a vehicle uses as it passes another and a roadside unit, and the longest silence of each connection.
pub(super) fn v2i(document: &Value) -> Vec<Chart> {
    let phases: Vec<String> = rows(document).iter().map(|row| text(row, "phase").replace('_', " ")).collect();
    let bars = |key: &&str| {
        let point = |(place, row): (usize, &Value)| {
            Some(Point { x: place as f64, y: number(row, &format!("/{key}"))?, spread: None })
        };
        let points = rows(document).iter().enumerate().filter_map(point).collect();
        Series { name: key.rsplit('_').next().unwrap_or(key).to_owned(), style: Style::Bar, points }
    };
    let chart = |title: &str, up: &str, keys: &[&str]| Chart {
        title: title.to_owned(),
        x_label: "phase".to_owned(),
        y_label: up.to_owned(),
        categories: phases.clone(),
        series: keys.iter().map(bars).collect(),
        ..Chart::default()
    };
    vec![
        chart("By which way a vehicle sends", "share", &["share_direct", "share_roadside", "share_cellular"]),
        chart("Longest silence of a TCP connection", "ms", &["silence_ms_internet", "silence_ms_vehicles"]),
    ]
}

/// Delivery in the city of what is reachable, and hops, by forwarding algorithm.
pub(super) fn city(document: &Value) -> Vec<Chart> {
    let mut ways: Vec<String> = rows(document).iter().map(|row| text(row, "forwarding")).collect();
    ways.dedup();
    let bars = |key: &str, kind: &str| {
        let of_kind = rows(document).iter().filter(|row| text(row, "kind") == kind);
        let point = |(place, row): (usize, &Value)| {
            Some(Point { x: place as f64, y: number(row, &format!("/{key}"))?, spread: None })
        };
        let points = of_kind.enumerate().filter_map(point).collect();
        Series { name: kind.to_owned(), style: Style::Bar, points }
    };
    let chart = |title: &str, up: &str, series: Vec<Series>| Chart {
        title: title.to_owned(),
        x_label: "forwarding".to_owned(),
        y_label: up.to_owned(),
        categories: ways.clone(),
        series,
        ..Chart::default()
    };
    let both = |key| ["unicast", "broadcast"].map(|kind| bars(key, kind)).into();
    // Includes beacons, so it is the same for both kinds.
    let frames = Series { name: "all frames".to_owned(), ..bars("frames_per_request", "unicast") };
    vec![
        chart("Delivered of what a flood over ten hops would reach", "share", both("delivery")),
        chart("Hops made over the least possible", "ratio", both("hops_over_least")),
        chart("Frames on the air, beacons among them, for each request", "frames", vec![frames]),
    ]
}

/// Packets per second by neighbours, with those of another implementation.
pub(super) fn forwarding(document: &Value) -> Vec<Chart> {
    let seen = rows(document).iter().filter_map(|row| range(row.get("pps_of_a_core")?, number(row, "/neighbours")?));
    let others = VANETZA.map(|(x, y)| Point { x, y, spread: None });
    vec![Chart {
        title: "Packets a second that one core forwards greedily".to_owned(),
        x_label: "neighbours".to_owned(),
        y_label: "packets/s, median and range".to_owned(),
        series: vec![
            Series { name: "roam6".to_owned(), style: Style::Line, points: seen.collect() },
            Series {
                name: "vanetza, measured on another machine".to_owned(),
                style: Style::Dashes,
                points: others.into(),
            },
        ],
        ..Chart::default()
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn vanetza_figures_are_labelled_as_another_machine() {
        let row = json!({ "neighbours": 1, "pps_of_a_core": { "p50": 1, "min": 1, "max": 1 } });
        let charts = forwarding(&json!({ "rows": [row] }));
        let vanetza = charts[0].series.iter().find(|series| series.name.starts_with("vanetza")).unwrap();
        assert!(vanetza.name.ends_with("on another machine"));
        let neighbours: Vec<f64> = vanetza.points.iter().map(|point| point.x).collect();
        assert_eq!(neighbours, [1.0, 10.0, 50.0]);
    }
}
