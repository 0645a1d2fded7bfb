//! Charts of `nemo/*`.

use super::read::{by_row, figure, grouped, label, number, rows, rows_where, rows_with};
use crate::report::chart::{Chart, Point, Series, Style};
use serde_json::Value;

const MEDIAN: &str = "ms, median and range";
const KPPS: &str = "thousand packets/s a core, median and range";

/// Gaps of each kind of handover, and the phases of a hard one.
pub(super) fn handover(document: &Value) -> Vec<Chart> {
    let gaps = |kinds: &[&str]| {
        let rows: Vec<&Value> = kinds.iter().flat_map(|kind| rows_where(document, "kind", *kind)).collect();
        grouped(&rows, |row| label(row, "kind"), delay_label, |row, x| figure(row, "gap_fine_ms", x))
    };
    vec![
        gaps(&["planned", "linkdown", "hard"]).titled("Gap of handovers with a link event", "", MEDIAN),
        phase_chart(document),
        gaps(&["blackhole"]).titled("Gap until a failed path is detected", "", MEDIAN),
    ]
}

/// Medians of the phases of a hard handover.
fn phase_chart(document: &Value) -> Chart {
    const PHASES: [(&str, &str); 4] = [
        ("link_up_to_ra", "link up to RA"),
        ("ra_to_bu", "RA to BU"),
        ("bu_to_ba", "BU to BA"),
        ("ba_to_packet", "BA to first packet"),
    ];
    let series = rows_where(document, "kind", "hard").into_iter().map(|row| {
        let value = |(x, (key, _)): (i32, &(&str, &str))| {
            Some(Point::at(x.into(), number(row, &format!("/parts_p50_ms/{key}"))?.max(0.0)))
        };
        Series::new(&delay_label(row), Style::Bar, (0..).zip(&PHASES).filter_map(value))
    });
    Chart::with_categories(PHASES.map(|(_, name)| name.to_owned()), series.collect()).titled(
        "Phases of a hard handover after link-up",
        "",
        "ms, median",
    )
}

fn delay_label(row: &Value) -> String {
    format!("home agent {} ms away", label(row, "one_way_delay_ms"))
}

/// Gaps when either of two uplinks, one of them at home, is pulled or comes back.
pub(super) fn home_and_away(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let gap = |row: &Value, x| figure(row, "gap_fine_ms", x);
    let chart = grouped(&rows, |row| label(row, "what"), |row| label(row, "policy"), gap);
    vec![chart.titled("Gap with two uplinks in use, one of them at home", "", MEDIAN)]
}

/// Forwarding and registration for the same CPU time, by number of bindings.
pub(super) fn scale(document: &Value) -> Vec<Chart> {
    let rows = rows_where(document, "journal", "in memory");
    let chart = |title: &str, y_label: &str, series: &[(&str, &str, Style)]| {
        let series = series.iter().map(|(name, key, style)| by_row(name, *style, &rows, key)).collect();
        let categories = rows.iter().map(|row| label(row, "bindings"));
        Chart::with_categories(categories, series).titled(title, "bindings, or routes", y_label)
    };
    vec![
        chart(
            "Forwarding of 250 octets for the same CPU time",
            "thousand packets/s a core",
            &[
                ("tunnels, 64 networks", "forwarding_kpps_per_core", Style::Line),
                ("plain routes, 64 networks", "plain_kpps_per_core", Style::Dashes),
                ("tunnels, random networks", "forwarding_random_kpps_per_core", Style::Line),
                ("plain routes, random networks", "plain_random_kpps_per_core", Style::Dashes),
            ],
        ),
        chart(
            "Binding Updates processed",
            "per second",
            &[("refreshes", "refreshes_per_s", Style::Bar), ("first registrations", "registrations_per_s", Style::Bar)],
        ),
    ]
}

/// MTU behind one, two and three mobile routers.
pub(super) fn nested(document: &Value) -> Vec<Chart> {
    let rows: Vec<&Value> = rows(document).iter().collect();
    let categories = rows.iter().map(|row| label(row, "depth"));
    let chart = Chart::with_categories(categories, vec![by_row("measured", Style::Bar, &rows, "mtu")]);
    vec![chart.titled("Largest inner packet by depth", "mobile routers on the path", "octets")]
}

/// Packets of several flows, towards the mobile network, with the range of the rounds.
pub(super) fn flows(document: &Value) -> Vec<Chart> {
    let by = [("plain", "plain routing"), ("ruled", "uplink by rule"), ("weighted", "uplinks by weight")];
    let rows = downward(document, &by, |_| true);
    let chart =
        grouped(&rows, |row| label(row, "flows"), |row| name_of(row, &by), |row, x| figure(row, "kpps_of_cpu", x));
    vec![chart.titled("Path selection for each flow", "parallel flows", KPPS)]
}

/// Cost of a tunnel, for one router and for two, and for TCP.
pub(super) fn throughput(document: &Value) -> Vec<Chart> {
    let all = [
        ("plain", "plain routing"),
        ("roam6", "roam6"),
        ("xdp", "roam6 at the driver"),
        ("segments", "SRv6, reduced"),
        ("ip6tnl", "ip6tnl"),
        ("wireguard", "WireGuard"),
        ("ceiling", "XDP redirect"),
    ];
    let both = [("plain", "plain routing"), ("roam6", "roam6")];
    let packets = |title: &str, section: &str, by: &[(&str, &str)]| {
        let rows = downward(document, by, |row| label(row, "section") == section);
        let rate = |row: &Value, x| {
            let rounds = || row.get("rounds")?.as_array().map(|rounds| rounds.iter().filter_map(Value::as_f64));
            let spread = rounds()?.reduce(f64::min).zip(rounds()?.reduce(f64::max));
            Some(Point { x, y: number(row, "/kpps_of_cpu")?, spread })
        };
        let chart = grouped(&rows, |row| label(row, "octets"), |row| name_of(row, by), rate);
        chart.titled(title, "octets of the inner packet", KPPS)
    };
    vec![
        packets("Four hosts in a row: packets for the same CPU time", "whole", &all),
        packets("The same with a receiver at the driver", "wholebare", &all),
        packets("Encapsulation alone", "entry", &both),
        packets("Decapsulation alone", "exit", &both),
        bulk_chart(document, &both),
    ]
}

/// The rows of these kinds towards the mobile network that satisfy `wanted`, kind by kind.
fn downward<'a>(document: &'a Value, by: &[(&str, &str)], wanted: impl Fn(&Value) -> bool) -> Vec<&'a Value> {
    let rows = by.iter().flat_map(|(kind, _)| rows_where(document, "by", *kind));
    rows.filter(|row| row.get("upward") == Some(&Value::Bool(false)) && wanted(row)).collect()
}

/// The display name of a row's kind.
fn name_of(row: &Value, by: &[(&str, &str)]) -> String {
    let kind = label(row, "by");
    by.iter().find(|(known, _)| *known == kind).map_or("", |(_, name)| name).to_owned()
}

fn bulk_chart(document: &Value, by: &[(&str, &str)]) -> Chart {
    let category = |row: &Value| {
        let is = |key: &str| row.get(key) == Some(&Value::Bool(true));
        let node = if is("sockets_on_the_router") { "router" } else { "node" };
        let way = if is("upward") { "up" } else { "down" };
        format!("{node}, {way}, {}", label(row, "flows"))
    };
    let rows = rows_with(document, "gbit_per_s_of_cpu");
    let rate = |row: &Value, x| figure(row, "gbit_per_s_of_cpu", x);
    grouped(&rows, category, |row| name_of(row, by), rate).titled(
        "TCP of nodes behind the mobile router and of the router itself, by number of flows",
        "",
        "Gbit/s a core, median",
    )
}
