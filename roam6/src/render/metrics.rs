//! Metrics in Prometheus text format. They are sums, so that the page of a home agent with 100,000 bindings is short.

use crate::control::NodeState;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::view::{QualityView, UsageView};
use std::fmt::Write;

/// With more paths than this, no path has metrics of its own.
const MAX_PATHS: usize = 64;
const DROPPED_PREFIX: &str = "dropped_";
/// Events that the alerts and the dashboard use. They are exported at 0 as well, so that the first event is an increase.
const MONITORED: [&str; 10] = [
    "at_home",
    "bound",
    "deregistered",
    "failed",
    "path_degraded",
    "path_down",
    "refused",
    "registered",
    "table_full",
    "unbound",
];

/// The metrics page.
pub(crate) fn render(state: &NodeState) -> String {
    let mut page = Page::default();
    page.head("roam6_info", "gauge", "Name and version of this node.");
    page.sample(&[("name", &state.name), ("version", &state.version)], "1");
    page.head("roam6_uptime_seconds", "gauge", "Time since the daemon started.");
    page.sample(&[], &format!("{}.{:06}", state.at / 1_000_000, state.at % 1_000_000));

    let bindings = state.view.bindings.iter().map(|row| [("role", row.role.as_str()), ("state", row.state.as_str())]);
    page.count_by_labels("roam6_bindings", "Bindings by role and state.", bindings);
    let links = state.view.links.iter().map(|row| [("role", row.role.as_str()), ("state", row.state.as_str())]);
    page.count_by_labels("roam6_links", "Interfaces in use by role and state.", links);
    let prefixes = state.view.prefixes.iter().map(|row| [("role", row.role.as_str()), ("state", row.state.as_str())]);
    page.count_by_labels("roam6_prefixes", "Prefixes in the mobile network by role and state.", prefixes);
    page.paths(state);
    page.qualities(state);
    page.usage(state);
    page.head("roam6_events_total", "counter", "Events by kind.");
    for name in MONITORED.iter().filter(|name| !state.view.counters.events.contains_key(**name)) {
        page.sample(&[("event", name)], "0");
    }
    for (name, count) in state.view.counters.events.iter().filter(|(name, _)| !name.starts_with(DROPPED_PREFIX)) {
        page.sample(&[("event", name)], &count.to_string());
    }
    page.head("roam6_dropped_total", "counter", "Signalling packets dropped by reason.");
    for (name, count) in &state.view.counters.events {
        if let Some(reason) = name.strip_prefix(DROPPED_PREFIX) {
            page.sample(&[("reason", reason)], &count.to_string());
        }
    }
    page.head("roam6_table_entries", "gauge", "Entries of the tables of each role.");
    for (name, count) in &state.view.counters.gauges {
        page.sample(&[("table", name)], &count.to_string());
    }
    page.head("roam6_packets_total", "counter", "Data packets by their fate in the data plane.");
    for (name, count) in &state.packets {
        page.sample(&[("result", name)], &count.to_string());
    }
    page.text
}

/// The page under construction.
#[derive(Default)]
struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    fn head(&mut self, name: &'static str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self.name = name;
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: &str) {
        self.text.push_str(self.name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(text));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// The number of rows with each combination of labels.
    fn count_by_labels<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        rows: impl Iterator<Item = [(&'a str, &'a str); N]>,
    ) {
        let mut sums: VecMap<[(&str, &str); N], u64> = VecMap::new();
        for row in rows {
            let sum = sums.entry(row).or_default();
            *sum = sum.saturating_add(1);
        }
        self.head(name, "gauge", help);
        for (labels, sum) in sums {
            self.sample(&labels, &sum.to_string());
        }
    }

    fn paths(&mut self, state: &NodeState) {
        let paths = state.view.tunnels.iter().map(|row| [("state", row.state.as_str())]);
        self.count_by_labels("roam6_paths", "Tunnel paths by state.", paths);
        if state.view.tunnels.len() > MAX_PATHS {
            return;
        }
        self.head("roam6_path_mtu_octets", "gauge", "Largest inner packet of each path, on nodes with few paths.");
        for row in &state.view.tunnels {
            let (tunnel, bid) = (row.tunnel.to_string(), row.bid.to_string());
            self.sample(&[("tunnel", &tunnel), ("bid", &bid)], &row.mtu.to_string());
        }
    }
}

impl Page {
    /// The quality of the path of each uplink.
    fn qualities(&mut self, state: &NodeState) {
        let rows: Vec<_> =
            state.view.links.iter().filter_map(|row| Some((row.name.as_str(), row.quality?))).take(MAX_PATHS).collect();
        let mut gauge = |name, help, value: fn(&QualityView) -> f64| {
            self.head(name, "gauge", help);
            for (interface, quality) in &rows {
                self.sample(&[("interface", interface)], &value(quality).to_string());
            }
        };
        let rtt: fn(&QualityView) -> f64 = |quality| quality.rtt.as_secs_f64();
        gauge("roam6_path_rtt_seconds", "Smoothed round-trip time of each uplink's path to the home agent.", rtt);
        gauge("roam6_path_jitter_seconds", "Variation of that round-trip time.", |quality| {
            quality.jitter.as_secs_f64()
        });
        gauge("roam6_path_loss_ratio", "Lost ones among the last probes of each uplink's path.", |quality| {
            f64::from(quality.loss_permille) / 1000.0
        });
    }

    /// The traffic of each uplink that is counted.
    fn usage(&mut self, state: &NodeState) {
        let links = state.view.links.iter().filter_map(|row| Some((row.name.as_str(), row.usage?)));
        let rows: Vec<(&str, UsageView)> = links.take(MAX_PATHS).collect();
        self.head("roam6_uplink_octets_total", "counter", "Octets of each uplink since it was first counted.");
        for (interface, usage) in &rows {
            for (direction, octets) in [("sent", usage.total_tx), ("received", usage.total_rx)] {
                self.sample(&[("interface", interface), ("direction", direction)], &octets.to_string());
            }
        }
        self.head(
            "roam6_uplink_period_octets",
            "gauge",
            "Octets of each uplink in the present period of its data plan.",
        );
        for (interface, usage) in &rows {
            self.sample(&[("interface", interface)], &usage.tx.saturating_add(usage.rx).to_string());
        }
        self.head("roam6_uplink_cap_octets", "gauge", "Octets of a period of each data plan with a cap.");
        for (interface, cap) in rows.iter().filter_map(|(interface, usage)| Some((interface, usage.cap?))) {
            self.sample(&[("interface", interface)], &cap.to_string());
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use roam6_proto::DropReason;
    use roam6_proto::contract::report::{HostReport, LinkReport, NemoReport};

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let page = render(&sample::state());
        for line in page.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(name.starts_with("roam6_") && name.contains('{') == name.ends_with('}'), "{line}");
        }
        for line in [
            "roam6_info{name=\"ha\\\"1\",version=\"0.1.0\"} 1",
            "roam6_uptime_seconds 61.500000",
            "roam6_bindings{role=\"home_agent\",state=\"bound\"} 2",
            "roam6_prefixes{role=\"delegated\",state=\"deprecated\"} 1",
            "roam6_paths{state=\"up\"} 1",
            "roam6_path_mtu_octets{tunnel=\"9\",bid=\"1\"} 1460",
            "roam6_path_rtt_seconds{interface=\"eth1\"} 0.04825",
            "roam6_path_jitter_seconds{interface=\"eth1\"} 0.003",
            "roam6_path_loss_ratio{interface=\"eth1\"} 0.031",
            "roam6_uplink_octets_total{interface=\"eth1\",direction=\"received\"} 9000000000",
            "roam6_uplink_period_octets{interface=\"eth1\"} 4810000000",
            "roam6_uplink_cap_octets{interface=\"eth1\"} 5000000000",
            "roam6_events_total{event=\"registered\"} 12",
            "roam6_dropped_total{reason=\"malformed\"} 3",
            "roam6_table_entries{table=\"home_agent_timers\"} 5",
            "roam6_packets_total{result=\"forwarded\"} 1000",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} not in\n{page}");
        }
    }

    const ALERTS: &str = include_str!("../../../dist/monitoring/alerts.yml");
    const DASHBOARD: &str = include_str!("../../../dist/monitoring/dashboard.json");

    /// The metrics that alerts and the dashboard use are on the page; `up` is Prometheus' own.
    #[test]
    fn alerts_and_dashboard_use_existing_metrics() {
        let page = render(&sample::state());
        for text in [ALERTS, DASHBOARD] {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let metrics: Vec<&str> = words.filter(|word| word.starts_with("roam6_")).collect();
            assert!(metrics.len() > 5);
            for name in metrics {
                assert!(page.contains(&format!("# TYPE {name} ")), "{name}");
            }
        }
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 8));
    }

    /// The values of a label in the queries of alerts and dashboard.
    fn label_values(label: &str) -> Vec<String> {
        let queries = format!("{ALERTS}{DASHBOARD}").replace('\\', "");
        let label = format!("{label}=");
        let values = queries.split(&label).skip(1).filter_map(|rest| rest.split('"').nth(1));
        values.flat_map(|value| value.split('|').map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn monitored_counters_start_at_zero() {
        let mut state = sample::state();
        state.view.counters.events.clear();
        let page = render(&state);
        let followed = label_values("event");
        assert!(followed.len() > 8, "{followed:?}");
        for event in followed {
            assert!(page.contains(&format!("roam6_events_total{{event=\"{event}\"}} 0\n")), "{event} not in\n{page}");
            // There is a report of this name, with required fields.
            let value = serde_json::json!({ "event": event });
            let errors = [
                serde_json::from_value::<LinkReport>(value.clone()).unwrap_err(),
                serde_json::from_value::<NemoReport>(value.clone()).unwrap_err(),
                serde_json::from_value::<HostReport>(value).unwrap_err(),
            ];
            assert!(errors.iter().any(|why| why.to_string().starts_with("missing field")), "{event}: {errors:?}");
        }
        for reason in label_values("reason") {
            assert!(DropReason::ALL.iter().any(|known| known.name() == reason), "{reason}");
        }
        assert_eq!(render(&sample::state()).matches("event=\"registered\"").count(), 1);
    }
}
