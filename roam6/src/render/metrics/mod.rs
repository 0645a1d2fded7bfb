//! Metrics in Prometheus text format. They are sums, so that the page of a home agent with 100,000 bindings is short.

#[cfg(feature = "fleet")]
mod fleet;
mod page;
#[cfg(feature = "relay")]
pub(crate) mod relay;

use crate::control::NodeState;
use crate::daemon::handover_meter::{BUCKETS, Cause, Histogram, PathChange};
use page::Page;
use roam6_proto::base::vec_map::VecMap;
#[cfg(feature = "dcc")]
use roam6_proto::contract::view::ChannelView;
use roam6_proto::contract::view::{LinkRole, LinkState, LinkView, QualityView, UsageView};

/// With more paths than this, no path has metrics of its own.
const MAX_PATHS: usize = 64;
const DROPPED_PREFIX: &str = "dropped_";
/// The drop that an alert uses, exported as these.
const MONITORED_DROP: &str = "dropped_former_key";
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
    paths(&mut page, state);
    let uplinks: Vec<Uplink<'_>> = state.view.links.iter().filter_map(Uplink::of).take(MAX_PATHS).collect();
    states(&mut page, state, &uplinks);
    qualities(&mut page, &uplinks);
    usage(&mut page, &uplinks);
    changes(&mut page, state, &uplinks);
    handovers(&mut page, state);
    #[cfg(feature = "dcc")]
    channels(&mut page, state);
    #[cfg(feature = "fleet")]
    fleet::append(&mut page, &state.view);
    page.head("roam6_events_total", "counter", "Events by kind.");
    for name in MONITORED.iter().filter(|name| !state.view.counters.events.contains_key(**name)) {
        page.sample(&[("event", name)], "0");
    }
    for (name, count) in state.view.counters.events.iter().filter(|(name, _)| !name.starts_with(DROPPED_PREFIX)) {
        page.sample(&[("event", name)], &count.to_string());
    }
    page.head("roam6_dropped_total", "counter", "Signalling packets dropped by reason.");
    if !state.view.counters.events.contains_key(MONITORED_DROP) {
        page.sample(&[("reason", MONITORED_DROP.trim_start_matches(DROPPED_PREFIX))], "0");
    }
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

/// Radio channels with congestion control; no metric without one.
#[cfg(feature = "dcc")]
fn channels(page: &mut Page, state: &NodeState) {
    type Value = fn(&ChannelView) -> Option<String>;
    let rows = &state.view.channels;
    let metrics: [(&str, &str, &str, Value); 4] = [
        ("roam6_channel_busy_ratio", "gauge", "Channel busy ratio of each radio with congestion control.", |row| {
            row.busy.map(|busy| format!("{}.{:03}", busy / 1000, busy % 1000))
        }),
        ("roam6_channel_interval_seconds", "gauge", "Least time between two frames, by congestion control.", |row| {
            Some(format!("{}.{:03}", row.interval.as_secs(), row.interval.subsec_millis()))
        }),
        ("roam6_channel_delayed_total", "counter", "Frames delayed by congestion control.", |row| {
            Some(row.delayed.to_string())
        }),
        ("roam6_channel_dropped_total", "counter", "Frames dropped by congestion control.", |row| {
            Some(row.dropped.to_string())
        }),
    ];
    for (name, kind, help, value) in metrics.into_iter().filter(|_| !rows.is_empty()) {
        page.head(name, kind, help);
        for (row, text) in rows.iter().filter_map(|row| Some((row, value(row)?))) {
            page.sample(&[("interface", &row.link)], &text);
        }
    }
}

/// An uplink, with its labels.
struct Uplink<'a> {
    row: &'a LinkView,
    bid: String,
}

impl Uplink<'_> {
    /// `None` if it is an interface of another kind.
    fn of(row: &LinkView) -> Option<Uplink<'_>> {
        let is_uplink = row.role == LinkRole::Uplink || (row.role == LinkRole::Home && row.bid.is_some());
        is_uplink.then(|| Uplink { row, bid: row.bid.map(|bid| bid.to_string()).unwrap_or_default() })
    }

    fn labels(&self) -> [(&str, &str); 2] {
        [("interface", &self.row.name), ("bid", &self.bid)]
    }

    /// Whether packets of the mobile network may cross it.
    fn is_in_use(&self) -> bool {
        use LinkState::{Degraded, Home, Ipv4, Ipv4BehindNat, Visited};
        matches!(self.row.state, Visited | Ipv4 | Ipv4BehindNat | Home | Degraded)
    }
}

fn paths(page: &mut Page, state: &NodeState) {
    let paths = state.view.tunnels.iter().map(|row| [("state", row.state.as_str())]);
    page.count_by_labels("roam6_paths", "Tunnel paths by state.", paths);
    if state.view.tunnels.len() > MAX_PATHS {
        return;
    }
    page.head("roam6_path_mtu_bytes", "gauge", "Largest inner packet of each path, on nodes with few paths.");
    let mut smallest: VecMap<[String; 5], u32> = VecMap::new();
    for row in &state.view.tunnels {
        let (tunnel, bid, interface) = (row.tunnel.to_string(), row.bid.to_string(), row.link.clone());
        let labels = [tunnel, bid, interface.unwrap_or_default(), row.local.to_string(), row.remote.to_string()];
        // A path and its successor in UDP have the same labels, and Prometheus refuses a page with a sample twice.
        let mtu = smallest.entry(labels).or_insert(row.mtu);
        *mtu = row.mtu.min(*mtu);
    }
    for ([tunnel, bid, interface, local, remote], mtu) in &smallest {
        let labels: [(&str, &str); 5] =
            [("tunnel", tunnel.as_str()), ("bid", bid), ("interface", interface), ("local", local), ("remote", remote)];
        page.sample(&labels, &mtu.to_string());
    }
}

/// The state of each uplink.
fn states(page: &mut Page, state: &NodeState, uplinks: &[Uplink<'_>]) {
    page.head("roam6_uplink_up", "gauge", "Whether packets of the mobile network may cross the uplink.");
    for uplink in uplinks {
        page.sample(&uplink.labels(), if uplink.is_in_use() { "1" } else { "0" });
    }
    page.head("roam6_uplink_state", "gauge", "1 for the state that each uplink is in, 0 for all others.");
    for uplink in uplinks {
        let [interface, bid] = uplink.labels();
        for name in LinkState::NAMES {
            let value = if uplink.row.state.as_str() == *name { "1" } else { "0" };
            page.sample(&[interface, bid, ("state", name)], value);
        }
    }
    let help = "When the state of each uplink changed last, since 1970-01-01T00:00Z.";
    page.head("roam6_uplink_changed_timestamp_seconds", "gauge", help);
    for uplink in uplinks {
        let Some(age) = uplink.row.changed else { continue };
        let at = state.unix_micros.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX)) / 1000;
        page.sample(&uplink.labels(), &format!("{}.{:03}", at / 1000, at % 1000));
    }
}

/// The quality of the path of each uplink.
fn qualities(page: &mut Page, uplinks: &[Uplink<'_>]) {
    let mut gauge = |name, help, value: fn(&QualityView) -> f64| {
        page.head(name, "gauge", help);
        for uplink in uplinks {
            if let Some(quality) = &uplink.row.quality {
                page.sample(&uplink.labels(), &value(quality).to_string());
            }
        }
    };
    let rtt: fn(&QualityView) -> f64 = |quality| quality.rtt.as_secs_f64();
    gauge("roam6_path_rtt_seconds", "Smoothed round-trip time of each uplink's path to the home agent.", rtt);
    gauge("roam6_path_jitter_seconds", "Variation of that round-trip time.", |quality| quality.jitter.as_secs_f64());
    gauge("roam6_path_loss_ratio", "Lost ones among the last probes of each uplink's path.", |quality| {
        f64::from(quality.loss_permille) / 1000.0
    });
}

/// The traffic of each uplink that is counted.
fn usage(page: &mut Page, uplinks: &[Uplink<'_>]) {
    let rows: Vec<(&Uplink<'_>, UsageView)> =
        uplinks.iter().filter_map(|uplink| Some((uplink, uplink.row.usage?))).collect();
    page.head("roam6_uplink_bytes_total", "counter", "Octets of each uplink since it was first counted.");
    for (uplink, usage) in &rows {
        let [interface, bid] = uplink.labels();
        for (direction, octets) in [("sent", usage.total_tx), ("received", usage.total_rx)] {
            page.sample(&[interface, bid, ("direction", direction)], &octets.to_string());
        }
    }
    let help = "Octets of each uplink in the present period of its data plan.";
    page.head("roam6_uplink_period_bytes", "gauge", help);
    for (uplink, usage) in &rows {
        page.sample(&uplink.labels(), &usage.tx.saturating_add(usage.rx).to_string());
    }
    page.head("roam6_uplink_cap_bytes", "gauge", "Octets of a period of each data plan with a cap.");
    for (uplink, cap) in rows.iter().filter_map(|(uplink, usage)| Some((uplink, usage.cap?))) {
        page.sample(&uplink.labels(), &cap.to_string());
    }
}

/// How often the path of each uplink has changed.
fn changes(page: &mut Page, state: &NodeState, uplinks: &[Uplink<'_>]) {
    page.head("roam6_path_changes_total", "counter", "Changes of each uplink's path, as the probes show them.");
    for uplink in uplinks {
        let [interface, bid] = uplink.labels();
        for change in PathChange::ALL {
            let count = uplink.row.bid.and_then(|bid| state.moves.changes.get(&(bid, change))).copied();
            page.sample(&[interface, bid, ("change", change.as_str())], &count.unwrap_or_default().to_string());
        }
    }
}

/// The durations of handovers, on nodes with a mobile router.
fn handovers(page: &mut Page, state: &NodeState) {
    let help = "From the cause of a change of the care-of address to its acknowledgement.";
    page.head("roam6_handover_seconds", "histogram", help);
    let is_router = state.view.links.iter().any(|row| row.bid.is_some());
    let none = Histogram::default();
    for cause in Cause::ALL.iter().filter(|_| is_router) {
        let histogram = state.moves.handovers.get(cause).unwrap_or(&none);
        let cause = ("cause", cause.as_str());
        let mut below = 0_u64;
        for (bound, count) in BUCKETS.iter().zip(&histogram.buckets) {
            below = below.saturating_add(*count);
            page.sample_of("_bucket", &[cause, ("le", &seconds(*bound))], &below.to_string());
        }
        page.sample_of("_bucket", &[cause, ("le", "+Inf")], &histogram.count.to_string());
        page.sample_of("_sum", &[cause], &histogram.sum.as_secs_f64().to_string());
        page.sample_of("_count", &[cause], &histogram.count.to_string());
    }
}

/// Milliseconds as seconds, without zeros at the end.
fn seconds(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use roam6_proto::DropReason;
    use roam6_proto::contract::report::{HostReport, LinkReport, NemoReport};
    use roam6_proto::contract::view::BindingState;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// The page of a node with a relay.
    fn page_with_relay() -> String {
        let page = render(&sample::state());
        #[cfg(feature = "relay")]
        let page = page + &relay::render(Some(&relay::tests::sample()));
        page
    }

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let page = page_with_relay();
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
            "roam6_path_mtu_bytes{tunnel=\"9\",bid=\"1\",interface=\"\",local=\"2001:db8:1::1\",remote=\"2001:db8:2::1\"} 1460",
            "roam6_path_rtt_seconds{interface=\"eth1\",bid=\"1\"} 0.04825",
            "roam6_path_jitter_seconds{interface=\"eth1\",bid=\"1\"} 0.003",
            "roam6_path_loss_ratio{interface=\"eth1\",bid=\"1\"} 0.031",
            "roam6_uplink_bytes_total{interface=\"eth1\",bid=\"1\",direction=\"received\"} 9000000000",
            "roam6_uplink_period_bytes{interface=\"eth1\",bid=\"1\"} 4810000000",
            "roam6_uplink_cap_bytes{interface=\"eth1\",bid=\"1\"} 5000000000",
            "roam6_uplink_up{interface=\"eth1\",bid=\"1\"} 1",
            "roam6_uplink_state{interface=\"eth1\",bid=\"1\",state=\"home\"} 1",
            "roam6_uplink_state{interface=\"eth1\",bid=\"1\",state=\"silent\"} 0",
            "roam6_uplink_changed_timestamp_seconds{interface=\"eth1\",bid=\"1\"} 1789999960.123",
            "roam6_path_changes_total{interface=\"eth1\",bid=\"1\",change=\"down\"} 3",
            "roam6_handover_seconds_bucket{cause=\"link_down\",le=\"0.025\"} 0",
            "roam6_handover_seconds_bucket{cause=\"link_down\",le=\"0.05\"} 2",
            "roam6_handover_seconds_bucket{cause=\"link_down\",le=\"+Inf\"} 3",
            "roam6_handover_seconds_sum{cause=\"link_down\"} 40.07",
            "roam6_handover_seconds_count{cause=\"planned\"} 0",
            "roam6_events_total{event=\"registered\"} 12",
            "roam6_dropped_total{reason=\"former_key\"} 0",
            "roam6_dropped_total{reason=\"malformed\"} 3",
            "roam6_table_entries{table=\"home_agent_timers\"} 5",
            "roam6_packets_total{result=\"forwarded\"} 1000",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} not in\n{page}");
        }
    }

    const ALERTS: &str = include_str!("../../../../dist/monitoring/alerts.yml");
    const DASHBOARD: &str = include_str!("../../../../dist/monitoring/dashboard.json");

    /// The metrics that alerts and the dashboard use are on the page; `up` is Prometheus' own.
    #[test]
    fn alerts_and_dashboard_use_existing_metrics() {
        let page = page_with_relay();
        for text in [ALERTS, DASHBOARD] {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let metrics: Vec<&str> = words.filter(|word| word.starts_with("roam6_")).collect();
            assert!(metrics.len() > 5);
            // A build without a feature has no metrics of it.
            let of_this_build = |name: &&str| {
                let has = |prefix: &str, feature: bool| feature || !name.starts_with(prefix);
                has("roam6_fleet_", cfg!(feature = "fleet")) && has("roam6_relay_", cfg!(feature = "relay"))
            };
            for name in metrics.into_iter().filter(of_this_build) {
                let of_histogram = ["_bucket", "_count", "_sum"].iter().filter_map(|suffix| name.strip_suffix(suffix));
                let is_histogram = of_histogram.map(|name| format!("# TYPE {name} histogram"));
                assert!(
                    page.contains(&format!("# TYPE {name} ")) || is_histogram.clone().any(|line| page.contains(&line)),
                    "{name}"
                );
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

    /// Runs Prometheus' own checker; `None` if it is not installed.
    fn promtool(arguments: &[&str], page: &str) -> Option<(bool, String)> {
        let mut command = Command::new("promtool");
        let piped = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().ok()?;
        child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    }

    #[test]
    fn prometheus_accepts_page_and_alerts() {
        let page = page_with_relay();
        let folder = env!("CARGO_MANIFEST_DIR");
        let alerts = format!("{folder}/../dist/monitoring/alerts.yml");
        let tests = format!("{folder}/tests/monitoring/alerts.yml");
        for arguments in [["check", "metrics"].as_slice(), &["check", "rules", &alerts], &["test", "rules", &tests]] {
            let Some((is_success, text)) = promtool(arguments, &page) else {
                return println!(
                    "skipped: prometheus_accepts_page_and_alerts: promtool (package prometheus) is missing"
                );
            };
            assert!(is_success, "{arguments:?}: {text}\n{page}");
        }
    }

    #[test]
    fn samples_are_unique() {
        let mut state = sample::state();
        // Former paths, and a path that is tried in UDP too.
        state.view.tunnels = vec![state.view.tunnels[0].clone(), state.view.tunnels[0].clone()];
        let page = render(&state);
        let mut samples: Vec<&str> = page.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        let count = samples.len();
        samples.sort_unstable();
        samples.dedup();
        assert_eq!(samples.len(), count);
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
        for state in label_values("state") {
            let known = [LinkState::NAMES, BindingState::NAMES].concat();
            assert!(known.contains(&state.as_str()), "{state}");
        }
        for change in label_values("change") {
            assert!(PathChange::ALL.iter().any(|known| known.as_str() == change), "{change}");
        }
        for reason in label_values("reason") {
            assert!(DropReason::ALL.iter().any(|known| known.name() == reason), "{reason}");
        }
        assert_eq!(render(&sample::state()).matches("event=\"registered\"").count(), 1);
    }
}
