//! Charts of `geonet/*`, with the values of document P3.

use super::read::{by_row, label, line, number, paper_point, rows, rows_where, rows_with};
use crate::report::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// The values of document P3.
const P3: &str = include_str!("../../../papers/p3.csv");
/// Greedy forwarding of vanetza on one core, packets per second by neighbours. Measured on another machine than the
/// displayed result.
const VANETZA: [(f64, f64); 3] = [(1.0, 108_000.0), (10.0, 68_000.0), (50.0, 24_000.0)];

/// The paper's figures 7 to 9: round trips over one hop and two, and the delay that GeoNetworking adds.
pub(super) fn rtt(document: &Value) -> Vec<Chart> {
    vec![round_trips(document, 7, 1), round_trips(document, 8, 2), overhead(document)]
}

fn round_trips(document: &Value, fig: u8, hops: u8) -> Chart {
    let path = |way| line(way, &rows_of(document, way, hops), "octets", "rtt_ms");
    let mut series = vec![path("plain"), path("geonetworking")];
    series.extend(paper_series(document, &format!("rtt_{hops}hop")));
    let title = format!("Round trip of ping, hops: {hops} (P3, Fig {fig})");
    Chart::of(series).titled(&title, "octets of an echo", "ms, median and range")
}

fn rows_of<'a>(document: &'a Value, way: &str, hops: u8) -> Vec<&'a Value> {
    let rows = rows(document).iter().filter(|row| label(row, "way") == way);
    rows.filter(|row| number(row, "/hops") == Some(f64::from(hops))).collect()
}

/// The paper's values of a quantity, by size.
fn paper_series(document: &Value, name: &str) -> Option<Series> {
    let ends = [20.0, 1500.0].map(|octets| paper_point(P3, name, octets).map(|point| Point::at(octets, point.y)));
    let series = Series::new("paper", Style::Dashes, ends.into_iter().flatten());
    (!series.points.is_empty() && !rows(document).is_empty()).then_some(series)
}

fn overhead(document: &Value) -> Chart {
    let series = [1_u8, 2].map(|hops| {
        let plain = rows_of(document, "plain", hops);
        let points = rows_of(document, "geonetworking", hops).into_iter().filter_map(|row| {
            let octets = number(row, "/octets")?;
            let plain = plain.iter().find(|plain| number(plain, "/octets") == Some(octets))?;
            let added = (number(row, "/rtt_ms/p50")? - number(plain, "/rtt_ms/p50")?).max(0.0);
            Some(Point::at(octets, added * 1000.0))
        });
        Series::new(&format!("{hops} hops"), Style::Line, points)
    });
    let title = "Delay that GeoNetworking adds to a round trip (P3, Fig 9: 3000 µs and 30 000 µs)";
    Chart::of(series.into()).titled(title, "octets of an echo", "µs, difference of medians")
}

/// The paper's figures 10 and 11: delivery ratio, and delivery at increasing rates.
pub(super) fn udp(document: &Value) -> Vec<Chart> {
    let mut rates: Vec<f64> = rows(document).iter().filter_map(|row| number(row, "/kbit_s")).collect();
    rates.dedup();
    let delivery = |rate: f64| {
        let rows: Vec<&Value> = rows(document).iter().filter(|row| number(row, "/kbit_s") == Some(rate)).collect();
        line(&format!("{rate} kbit/s"), &rows, "octets", "delivery")
    };
    let mut series: Vec<Series> = rates.into_iter().map(delivery).collect();
    let paper = |octets: u16| paper_point(P3, &format!("delivery_{octets}"), f64::from(octets));
    series.push(Series::new("paper, 250 kbit/s", Style::Dashes, [700, 1150, 1380].into_iter().filter_map(paper)));
    let searched = rows_with(document, "search_kbit_s")
        .into_iter()
        .filter_map(|row| Some(Point::at(number(row, "/search_kbit_s")? / 1000.0, number(row, "/mbit_s")?)));
    let searched = Series::new("roam6", Style::Line, searched);
    vec![
        Chart::of(series).titled(
            "Delivery ratio of datagrams, one hop (P3, Figs 10 and 11)",
            "octets of a datagram",
            "share",
        ),
        Chart::of(vec![searched]).titled(
            "Datagrams at increasing rates, one hop, channel without a rate limit",
            "Mbit/s sent",
            "Mbit/s received",
        ),
    ]
}

/// The longest silence of a connection through a moving column, per second.
pub(super) fn tcp(document: &Value) -> Vec<Chart> {
    let silences = rows(document).iter().filter_map(|row| row.get("silence_ms_each_second")?.as_array());
    let silences = silences.flatten().filter_map(Value::as_f64);
    let points = (0..).zip(silences).map(|(second, silence)| Point::at(f64::from(second), silence));
    let series = vec![Series::new("either direction", Style::Line, points)];
    let title = "Longest silence of a TCP connection relayed by passing vehicles";
    vec![Chart::of(series).titled(title, "seconds", "ms")]
}

/// Paths that a vehicle uses as it passes another and a roadside unit, and the longest silence of each connection.
pub(super) fn v2i(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let chart = |title: &str, y_label: &str, keys: &[&str]| {
        let name = |key: &str| key.rsplit('_').next().unwrap_or_default().to_owned();
        let series = keys.iter().map(|key| by_row(&name(key), Style::Bar, &rows, key)).collect();
        let phases = rows.iter().map(|row| label(row, "phase").replace('_', " "));
        Chart::with_categories(phases, series).titled(title, "phase", y_label)
    };
    vec![
        chart("Paths of the first vehicle", "share", &["share_direct", "share_roadside", "share_cellular"]),
        chart("Longest silence of a TCP connection", "ms", &["silence_ms_internet", "silence_ms_vehicles"]),
    ]
}

/// Delivery in the city of what is reachable, and hops, by forwarding algorithm.
pub(super) fn city(document: &Value) -> Vec<Chart> {
    let mut variants: Vec<String> = rows(document).iter().map(|row| label(row, "forwarding")).collect();
    variants.dedup();
    let chart = |title: &str, y_label: &str, key: &str, kinds: &[(&str, &str)]| {
        let bars = |(kind, name): &(&str, &str)| by_row(name, Style::Bar, &rows_where(document, "kind", *kind), key);
        let series = kinds.iter().map(bars).collect();
        Chart::with_categories(variants.clone(), series).titled(title, "forwarding", y_label)
    };
    let both = [("unicast", "unicast"), ("broadcast", "broadcast")];
    // Includes beacons, so it is the same for both kinds.
    let all = [("unicast", "all frames")];
    vec![
        chart("Delivered of what a flood over ten hops would reach", "share", "delivery", &both),
        chart("Hops over the minimum", "ratio", "hops_over_least", &both),
        chart("Frames on the channel per message, beacons included", "frames", "frames_per_request", &all),
    ]
}

/// Packets per second by neighbours, with those of another implementation.
pub(super) fn forwarding(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let others = VANETZA.map(|(x, y)| Point::at(x, y));
    let series = vec![
        line("roam6", &rows, "neighbours", "pps_of_a_core"),
        Series::new("vanetza, measured on another machine", Style::Dashes, others),
    ];
    let title = "Packets per second of a greedy forwarder on one core";
    vec![Chart::of(series).titled(title, "neighbours", "packets/s, median and range")]
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
