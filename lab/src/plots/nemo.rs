//! Charts of `nemo/*`.

use super::read::{number, range, rows, text};
use crate::chart::{Chart, Point, Series, Style};
use serde_json::Value;

/// Gaps of each kind of handover, and the phases of a hard one.
pub(super) fn handover(document: &Value) -> Vec<Chart> {
    let seen = gap_chart(document, "Silence at moves that are noticed at once", &["planned", "linkdown", "hard"]);
    vec![seen, phase_chart(document), gap_chart(document, "Silence until a dead path is noticed", &["blackhole"])]
}

/// By the train of 1000 packets/s.
fn gap_chart(document: &Value, title: &str, kinds: &[&str]) -> Chart {
    let series = delays(document).into_iter().map(|delay| {
        let of = |kind: &str| rows(document).iter().find(|row| is_of(row, kind, delay));
        let points =
            kinds.iter().enumerate().filter_map(|(place, kind)| range(of(kind)?.get("gap_fine_ms")?, place as f64));
        Series { name: delay_label(delay), style: Style::Bar, points: points.collect() }
    });
    Chart {
        title: title.to_owned(),
        y_label: "ms, median and range".to_owned(),
        categories: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        series: series.collect(),
        ..Chart::default()
    }
}

fn phase_chart(document: &Value) -> Chart {
    let parts = [
        ("link_up_to_ra", "link up to RA"),
        ("ra_to_bu", "RA to BU"),
        ("bu_to_ba", "BU to BA"),
        ("ba_to_packet", "BA to first packet"),
    ];
    let series = delays(document).into_iter().filter_map(|delay| {
        let row = rows(document).iter().find(|row| is_of(row, "hard", delay))?;
        let part = |(place, (key, _)): (usize, &(&str, &str))| {
            let y = number(row, &format!("/parts_p50_ms/{key}"))?.max(0.0);
            Some(Point { x: place as f64, y, spread: None })
        };
        let points = parts.iter().enumerate().filter_map(part).collect();
        Some(Series { name: delay_label(delay), style: Style::Bar, points })
    });
    Chart {
        title: "Of what a hard move consists once the new network's link is up".to_owned(),
        y_label: "ms, median".to_owned(),
        categories: parts.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series: series.collect(),
        ..Chart::default()
    }
}

fn is_of(row: &Value, kind: &str, delay: f64) -> bool {
    text(row, "kind") == kind && number(row, "/one_way_delay_ms") == Some(delay)
}

/// The measured delays, each once.
fn delays(document: &Value) -> Vec<f64> {
    let mut delays: Vec<f64> = rows(document).iter().filter_map(|row| number(row, "/one_way_delay_ms")).collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    delays
}

fn delay_label(delay: f64) -> String {
    format!("home agent {delay} ms away")
}

/// Gaps when either of two uplinks, one of them at home, is pulled or comes back.
pub(super) fn home_and_away(document: &Value) -> Vec<Chart> {
    let rows = rows(document);
    let each = |key: &str| {
        let mut words: Vec<String> = Vec::new();
        for word in rows.iter().map(|row| text(row, key)) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    };
    let places = each("what");
    let series = each("policy").into_iter().map(|policy| {
        let its = |what: &String| rows.iter().find(|row| text(row, "policy") == policy && text(row, "what") == *what);
        let points =
            places.iter().enumerate().filter_map(|(place, what)| range(its(what)?.get("gap_fine_ms")?, place as f64));
        Series { name: Clone::clone(&policy), style: Style::Bar, points: points.collect() }
    });
    vec![Chart {
        title: "Silence while two uplinks are in use, one of them at home".to_owned(),
        y_label: "ms, median and range".to_owned(),
        series: series.collect(),
        categories: Vec::clone(&places),
        ..Chart::default()
    }]
}

/// Forwarding and registration for the same CPU time, by number of bindings.
pub(super) fn scale(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().filter(|row| text(row, "journal") == "in memory").collect();
    let places: Vec<String> = rows.iter().filter_map(|row| number(row, "/bindings").map(|n| format!("{n}"))).collect();
    let line = |name: &str, key: &str, style| {
        let value = |(place, row): (usize, &&Value)| {
            Some(Point { x: place as f64, y: number(row, &format!("/{key}"))?, spread: None })
        };
        Series { name: name.to_owned(), style, points: rows.iter().enumerate().filter_map(value).collect() }
    };
    let chart = |title: &str, up: &str, series| {
        let (title, up, across) = (title.to_owned(), up.to_owned(), "bindings, or routes".to_owned());
        Chart { title, y_label: up, x_label: across, series, categories: Vec::clone(&places), markers: Vec::new() }
    };
    vec![
        chart(
            "Forwarding of 250 octets for the same processor time",
            "thousand packets/s a core",
            vec![
                line("tunnels, 64 networks", "forwarding_kpps_per_core", Style::Line),
                line("plain routes, 64 networks", "plain_kpps_per_core", Style::Dashes),
                line("tunnels, random networks", "forwarding_random_kpps_per_core", Style::Line),
                line("plain routes, random networks", "plain_random_kpps_per_core", Style::Dashes),
            ],
        ),
        chart(
            "Binding Updates handled",
            "a second",
            vec![
                line("refreshes", "refreshes_per_s", Style::Bar),
                line("first registrations", "registrations_per_s", Style::Bar),
            ],
        ),
    ]
}

/// MTU and throughput behind one, two and three mobile routers.
pub(super) fn nested(document: &Value) -> Vec<Chart> {
    let mtu = |(place, row): (usize, &Value)| Some(Point { x: place as f64, y: number(row, "/mtu")?, spread: None });
    vec![Chart {
        title: "Largest inner packet by depth".to_owned(),
        x_label: "routers on the way".to_owned(),
        y_label: "octets".to_owned(),
        categories: rows(document).iter().filter_map(|row| number(row, "/depth").map(|n| format!("{n}"))).collect(),
        series: vec![Series {
            name: "measured".to_owned(),
            style: Style::Bar,
            points: rows(document).iter().enumerate().filter_map(mtu).collect(),
        }],
        markers: Vec::new(),
    }]
}

/// Packets of several flows, towards the mobile network, with the range of the rounds.
pub(super) fn flows(document: &Value) -> Vec<Chart> {
    let by = [("plain", "plain routing"), ("ruled", "an uplink by rule"), ("weighted", "uplinks by weight")];
    let of = |by: &str| -> Vec<&Value> {
        let wanted = |row: &&Value| text(row, "by") == by && row.get("upward") == Some(&Value::Bool(false));
        rows(document).iter().filter(wanted).collect()
    };
    let point = |(place, row): (usize, &&Value)| {
        let spread = number(row, "/kpps_of_cpu/min").zip(number(row, "/kpps_of_cpu/max"));
        Some(Point { x: place as f64, y: number(row, "/kpps_of_cpu/p50")?, spread })
    };
    let series = by.iter().map(|(by, name)| Series {
        name: (*name).to_owned(),
        style: Style::Bar,
        points: of(by).iter().enumerate().filter_map(point).collect(),
    });
    vec![Chart {
        title: "A path chosen for each flow".to_owned(),
        x_label: "flows at once".to_owned(),
        y_label: "thousand packets/s a core, median and range".to_owned(),
        categories: of("plain").iter().filter_map(|row| number(row, "/flows").map(|n| format!("{n}"))).collect(),
        series: series.collect(),
        ..Chart::default()
    }]
}

/// Cost of a tunnel, for one router and for two, and for TCP.
pub(super) fn throughput(document: &Value) -> Vec<Chart> {
    let whole = [
        ("plain", "plain routing"),
        ("roam6", "roam6"),
        ("xdp", "roam6 at the driver"),
        ("segments", "SRv6, reduced"),
        ("ip6tnl", "ip6tnl"),
        ("wireguard", "WireGuard"),
        ("ceiling", "bare XDP redirect"),
    ];
    let both = [("plain", "plain routing"), ("roam6", "roam6")];
    vec![
        packet_rate_chart(document, "Four hosts in a row: packets for the same processor time", "whole", &whole),
        packet_rate_chart(document, "The same to a receiver that takes frames", "wholebare", &whole),
        packet_rate_chart(document, "Into the tunnel alone", "entry", &both),
        packet_rate_chart(document, "Out of the tunnel alone", "exit", &both),
        bulk_chart(document, &both),
    ]
}

/// Towards the mobile network, with the range of the rounds.
fn packet_rate_chart(document: &Value, title: &str, section: &str, by: &[(&str, &str)]) -> Chart {
    let of = |by: &str| -> Vec<&Value> {
        let wanted = |row: &&Value| text(row, "by") == by && text(row, "section") == section;
        rows(document).iter().filter(wanted).filter(|row| row.get("upward") == Some(&Value::Bool(false))).collect()
    };
    let point = |(place, row): (usize, &&Value)| {
        let rounds: Vec<f64> = row.get("rounds")?.as_array()?.iter().filter_map(Value::as_f64).collect();
        let least = rounds.iter().copied().reduce(f64::min)?;
        let most = rounds.iter().copied().reduce(f64::max)?;
        Some(Point { x: place as f64, y: number(row, "/kpps_of_cpu")?, spread: Some((least, most)) })
    };
    let present = by.iter().filter(|(by, _)| !of(by).is_empty());
    let series = present.map(|(by, name)| Series {
        name: (*name).to_owned(),
        style: Style::Bar,
        points: of(by).iter().enumerate().filter_map(point).collect(),
    });
    Chart {
        title: title.to_owned(),
        x_label: "octets of the inner packet".to_owned(),
        y_label: "thousand packets/s a core, median and range".to_owned(),
        categories: of("plain").iter().filter_map(|row| number(row, "/octets").map(|n| format!("{n}"))).collect(),
        series: series.collect(),
        ..Chart::default()
    }
}

fn bulk_chart(document: &Value, by: &[(&str, &str)]) -> Chart {
    let of = |by: &str| -> Vec<&Value> {
        rows(document).iter().filter(|row| text(row, "by") == by && row.get("flows").is_some()).collect()
    };
    let told = |row: &&Value| {
        let is = |key: &str| row.get(key) == Some(&Value::Bool(true));
        let node = if is("sockets_on_the_router") { "router" } else { "node" };
        let way = if is("upward") { "up" } else { "down" };
        Some(format!("{node}, {way}, {}", number(row, "/flows")?))
    };
    let point = |(place, row): (usize, &&Value)| {
        Some(Point { x: place as f64, y: number(row, "/gbit_per_s_of_cpu")?, spread: None })
    };
    let series = by.iter().map(|(by, name)| Series {
        name: (*name).to_owned(),
        style: Style::Bar,
        points: of(by).iter().enumerate().filter_map(point).collect(),
    });
    Chart {
        title: "TCP of nodes behind the mobile router and of the router itself, by number of flows".to_owned(),
        y_label: "Gbit/s a core, median".to_owned(),
        categories: of("plain").iter().filter_map(told).collect(),
        series: series.collect(),
        ..Chart::default()
    }
}
