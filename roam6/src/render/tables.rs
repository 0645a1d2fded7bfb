//! `roam6 show`: one table for each part of the state.

use crate::config::data_plan::format_octets;
use crate::config::duration::format_duration;
use crate::control::NodeState;
use crate::render::table::Table;
use core::time::Duration;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::view::{BindingView, QualityView, UsageView};
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::fmt::Display;
use std::net::Ipv6Addr;

/// Home addresses and where they are.
pub(crate) fn bindings(state: &NodeState) -> Table {
    let mut table = Table::of(
        &state.view.bindings,
        &[
            ("HOME ADDRESS", |row| row.home_address.to_string()),
            ("BID", |row| identifier(row.bid)),
            ("CARE-OF", care_of),
            ("HOME AGENT", |row| row.home_agent.to_string()),
            ("PREFIXES", prefixes_of),
            ("SEQ", |row| row.sequence.to_string()),
            ("REMAINING", |row| format_duration(row.remaining)),
            ("ROLE", |row| row.role.to_string()),
            ("STATE", |row| row.state.to_string()),
            ("SINCE", |row| age(row.changed)),
            ("NAME", |row| row.name.clone().unwrap_or_default()),
            ("KEY", |row| row.key.clone().unwrap_or_default()),
        ],
    );
    for row in &state.view.bindings {
        add_error_note(&mut table, &row.home_address.to_string(), &row.last_error, row.error_age);
    }
    table
}

/// Interfaces in use.
pub(crate) fn links(state: &NodeState) -> Table {
    let mut table = Table::of(
        &state.view.links,
        &[
            ("LINK", |row| row.name.clone()),
            ("ROLE", |row| row.role.to_string()),
            ("CARRIER", |row| if row.up { "up" } else { "down" }.to_owned()),
            ("MTU", |row| row.mtu.to_string()),
            ("ROUTER", |row| optional(row.router)),
            ("ADDRESSES", |row| list(&row.addresses)),
            ("RTT", |row| rtt(row.quality)),
            ("LOSS", |row| loss(row.quality)),
            ("TRANSPORT", |row| optional(row.transport.as_ref())),
            ("SENT", |row| row.usage.map(|usage| format_octets(usage.total_tx)).unwrap_or_default()),
            ("RECEIVED", |row| row.usage.map(|usage| format_octets(usage.total_rx)).unwrap_or_default()),
            ("USED", |row| row.usage.map_or_else(|| optional(None::<u64>), used)),
            ("STATE", |row| row.state.to_string()),
            ("SINCE", |row| age(row.changed)),
        ],
    );
    for row in &state.view.links {
        add_error_note(&mut table, &row.name, &row.last_error, row.error_age);
        if let Some(held) = row.quality.and_then(|quality| quality.held) {
            table.note(format!(
                "{}: good again, and the last choice for {} if it stays so",
                row.name,
                format_duration(held)
            ));
        }
        for hint in &row.hints {
            table.note(format!("{}: {hint}", row.name));
        }
    }
    table
}

/// Tunnels, a row for each path.
pub(crate) fn tunnels(state: &NodeState) -> Table {
    Table::of(
        &state.view.tunnels,
        &[
            ("TUNNEL", |row| row.tunnel.to_string()),
            ("BID", |row| identifier(row.bid)),
            ("LOCAL", |row| tunnel_end(row.local)),
            ("REMOTE", |row| tunnel_end(row.remote)),
            ("MTU", |row| row.mtu.to_string()),
            ("WEIGHT", |row| row.weight.to_string()),
            ("TO", |row| destinations(&row.far)),
            ("LINK", |row| row.link.clone().unwrap_or_default()),
            ("RTT", |row| rtt(row.quality)),
            ("LOSS", |row| loss(row.quality)),
            ("SENT", |row| row.traffic.map(|traffic| format_octets(traffic.tx)).unwrap_or_default()),
            ("RECEIVED", |row| row.traffic.map(|traffic| format_octets(traffic.rx)).unwrap_or_default()),
            ("STATE", |row| row.state.to_string()),
            ("SINCE", |row| age(row.changed)),
        ],
    )
}

/// A line about the firewall on the path of the tunnels' packets; empty without one.
pub(crate) fn firewall(state: &NodeState) -> String {
    let Some(firewall) = &state.firewall else { return String::new() };
    let chains = firewall.chains.join(", ");
    match (firewall.obeyed, chains.is_empty()) {
        (true, true) => "firewall: removed less than 10 s ago; packets still take the kernel's path\n".to_owned(),
        (true, false) => format!("firewall: {chains}; packets take the kernel's path through it\n"),
        (false, _) => format!("firewall: {chains}; not applied to packets on the fast path (firewall = \"bypass\")\n"),
    }
}

fn rtt(quality: Option<QualityView>) -> String {
    quality.map_or_else(String::new, |quality| format_duration(quality.rtt))
}

fn loss(quality: Option<QualityView>) -> String {
    quality.map_or_else(String::new, |quality| percent(quality.loss_permille))
}

/// An age in whole seconds.
fn age(age: Option<Duration>) -> String {
    age.map(|age| format_duration(Duration::from_secs(age.as_secs()))).unwrap_or_default()
}

/// Thousandths as a percentage, with a tenth below ten percent.
fn percent(permille: u16) -> String {
    match (permille / 10, permille % 10) {
        (whole @ 0..10, tenths @ 1..) => format!("{whole}.{tenths}%"),
        (whole, _) => format!("{whole}%"),
    }
}

/// The traffic of the present period, and its cap.
fn used(usage: UsageView) -> String {
    let used = format_octets(usage.tx.saturating_add(usage.rx));
    usage.cap.map_or_else(|| used.clone(), |cap| format!("{used}/{}", format_octets(cap)))
}

/// Adds a fault and its age below the table.
fn add_error_note(table: &mut Table, name: &str, error: &Option<String>, since: Option<Duration>) {
    if let Some(error) = error {
        let since = since.map(|since| format!(" (for {})", format_duration(since))).unwrap_or_default();
        table.note(format!("{name}: {error}{since}"));
    }
}

/// The prefixes of a binding; those that were refused are marked.
fn prefixes_of(row: &BindingView) -> String {
    let served = row.prefixes.iter().map(ToString::to_string);
    let refused = row.refused_prefixes.iter().map(|prefix| format!("{prefix}(refused)"));
    served.chain(refused).collect::<Vec<_>>().join(",")
}

/// The care-of address; one over IPv4 or in UDP as the home agent sees it.
fn care_of(row: &BindingView) -> String {
    let ipv4 = row.care_of.and_then(|address| address.to_ipv4_mapped());
    match (ipv4, row.udp_port) {
        (Some(address), Some(port)) => format!("{address}:{port}"),
        (Some(address), None) => address.to_string(),
        (None, Some(port)) => format!("[{}]:{port}", optional(row.care_of)),
        (None, None) => optional(row.care_of),
    }
}

/// Addresses connections take several paths from.
pub(crate) fn endpoints(state: &NodeState) -> Table {
    Table::of(
        &state.view.endpoints,
        &[
            ("ADDRESS", |row| row.address.to_string()),
            ("LINK", |row| row.link.clone()),
            ("KIND", |row| if row.home { "home" } else { "care-of" }.to_owned()),
            ("USE", |row| if row.backup { "backup" } else { "regular" }.to_owned()),
            ("TOLD", |row| if row.signal { "yes" } else { "no" }.to_owned()),
            ("STATE", |row| row.state.to_string()),
        ],
    )
}

/// Prefixes nodes inside have.
pub(crate) fn prefixes(state: &NodeState) -> Table {
    Table::of(
        &state.view.prefixes,
        &[
            ("PREFIX", |row| row.prefix.to_string()),
            ("INGRESS", |row| row.ingress.clone()),
            ("KIND", |row| row.role.to_string()),
            ("UPLINK", |row| row.uplink.clone().unwrap_or_default()),
            ("OF", |row| optional(row.part_of)),
            ("VALID", |row| row.valid.map_or_else(|| "forever".to_owned(), format_duration)),
            ("STATE", |row| row.state.to_string()),
        ],
    )
}

/// Addresses the shim makes.
pub(crate) fn addresses(state: &NodeState) -> Table {
    Table::of(
        &state.view.addresses,
        &[
            ("ADDRESS", |row| row.address.to_string()),
            ("INTERFACE", |row| row.link.clone()),
            ("PREFIX", |row| row.prefix.to_string()),
            ("PROOF", |row| row.proof.to_string()),
            ("SEC", |row| row.sec.to_string()),
            ("VALID", |row| row.valid.map(format_duration).unwrap_or_default()),
            ("STATE", |row| row.state.to_string()),
        ],
    )
}

/// Contexts of the shim.
pub(crate) fn contexts(state: &NodeState) -> Table {
    Table::of(
        &state.view.contexts,
        &[
            ("ULID", |row| row.context.ulids.local.to_string()),
            ("PEER", |row| row.context.ulids.peer.to_string()),
            (
                "PATH",
                |row| if row.rewriting { format!("{} > {}", row.path.local, row.path.peer) } else { String::new() },
            ),
            ("LOCATORS", |row| format!("{}x{}", row.local.len(), row.peer.len())),
            ("OUT", |row| row.tx.octets.to_string()),
            ("IN", |row| row.rx.octets.to_string()),
            ("IDLE", |row| format_duration(row.idle)),
            ("REACH", |row| row.reachability.to_string()),
            ("STATE", |row| row.state.to_string()),
        ],
    )
}

/// GeoNetworking stations, this one first.
pub(crate) fn stations(state: &NodeState) -> Table {
    Table::of(
        &state.view.stations,
        &[
            ("STATION", |row| row.mid.to_string()),
            ("KIND", |row| row.kind.clone()),
            ("PLACE", |row| format!("{}{}", row.place, if row.accurate { "" } else { " ~" })),
            ("DISTANCE", |row| row.distance.map(|metres| format!("{metres} m")).unwrap_or_default()),
            ("SPEED", |row| kilometres_per_hour(row.speed)),
            ("HEADING", |row| degrees(row.heading)),
            ("AGE", |row| format_duration(row.age)),
            ("STATE", |row| row.state.to_string()),
            ("LINK", |row| row.link.clone().unwrap_or_default()),
            ("TRUST", |row| row.trust.to_string()),
        ],
    )
}

/// Where this station is.
pub(crate) fn position(state: &NodeState) -> Table {
    Table::of(
        &state.view.position,
        &[
            ("STATION", |row| row.mid.to_string()),
            ("KIND", |row| row.kind.clone()),
            ("PLACE", |row| optional(row.place)),
            ("WITHIN", |row| row.uncertainty.map(|metres| format!("{metres} m")).unwrap_or_default()),
            ("SPEED", |row| kilometres_per_hour(row.speed)),
            ("HEADING", |row| degrees(row.heading)),
            ("AGE", |row| row.age.map(format_duration).unwrap_or_default()),
            ("STATE", |row| row.state.to_string()),
        ],
    )
}

/// Networks of routers nearby.
pub(crate) fn networks(state: &NodeState) -> Table {
    Table::of(
        &state.view.networks,
        &[
            ("NETWORK", |row| row.prefix.to_string()),
            ("ROUTER", |row| row.router.to_string()),
            ("LINK", |row| row.link.clone()),
            ("REMAINING", |row| format_duration(row.remaining)),
        ],
    )
}

/// Radio channels with congestion control.
#[cfg(feature = "dcc")]
pub(crate) fn channels(state: &NodeState) -> Table {
    Table::of(
        &state.view.channels,
        &[
            ("LINK", |row| row.link.clone()),
            ("BUSY", |row| row.busy.map_or_else(|| "-".to_owned(), |busy| format!("{}.{} %", busy / 10, busy % 10))),
            ("STATE", |row| row.state.to_string()),
            ("INTERVAL", |row| if row.interval.is_zero() { "-".to_owned() } else { format_duration(row.interval) }),
            ("QUEUED", |row| row.queued.to_string()),
            ("SENT", |row| row.sent.to_string()),
            ("DELAYED", |row| row.delayed.to_string()),
            ("DROPPED", |row| row.dropped.to_string()),
        ],
    )
}

/// Timers, the next first.
pub(crate) fn timers(state: &NodeState) -> Table {
    let mut timers: Vec<_> = state.view.timers.iter().collect();
    timers.sort_by_key(|timer| timer.remaining);
    Table::of(timers, &[("IN", |row| format_duration(row.remaining)), ("TIMER", |row| row.name.clone())])
}

/// All counters, those of signalling first.
pub(crate) fn counters(state: &NodeState) -> Table {
    let mut table = Table::new(&["COUNTER", "COUNT"]);
    for (name, count) in VecMap::from(state.view.counters.clone()) {
        table.push(vec![name, count.to_string()]);
    }
    for (name, count) in &state.packets {
        table.push(vec![format!("packets_{name}"), count.to_string()]);
    }
    table
}

/// An end of a tunnel; one of IPv4 as such.
fn tunnel_end(address: Ipv6Addr) -> String {
    Ipv4Endpoint::from_ipv6(address).map_or_else(|| address.to_string(), |end| end.to_string())
}

fn identifier(bid: Bid) -> String {
    if bid.0 == 0 { String::new() } else { bid.to_string() }
}

fn optional(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A speed, from centimetres a second.
pub(super) fn kilometres_per_hour(speed: impl Into<f64>) -> String {
    format!("{:.1} km/h", speed.into() * 0.036)
}

/// A heading, from tenths of a degree.
pub(super) fn degrees(heading: u16) -> String {
    format!("{}°", heading / 10)
}

fn list(items: &[impl Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn destinations(prefixes: &[Prefix]) -> String {
    if prefixes == [Prefix::ALL] { "any".to_owned() } else { list(prefixes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use crate::render::table::Paint;
    use roam6_linux::firewall::Firewall;

    #[test]
    fn the_bindings_table_has_one_row_per_binding() {
        let expected = "\
HOME ADDRESS     BID  CARE-OF        HOME AGENT     PREFIXES           SEQ  REMAINING  ROLE        STATE  SINCE  NAME  KEY
2001:db8:1::100  1    2001:db8:2::1  2001:db8:1::1  2001:db8:100::/56  42   9m12s      home_agent  bound  1h2m   van   3f2a-91c0-77de-1b04-c5d8
2001:db8:1::101  -    -              2001:db8:1::1  2001:db8:101::/64  7    4.2s       home_agent  bound  -      -     -
";
        assert_eq!(bindings(&sample::state()).render(Paint::Plain), expected);
    }

    #[test]
    fn the_firewall_line_follows_the_tunnels_table() {
        let mut state = sample::state();
        assert_eq!(firewall(&state), "");
        let chains = vec!["nftables inet filter forward".to_owned()];
        for (obeyed, expected) in [(true, "through it"), (false, "not applied")] {
            state.firewall = Some(Firewall { chains: chains.clone(), obeyed });
            let line = firewall(&state);
            assert!(line.starts_with("firewall: nftables inet filter forward; ") && line.contains(expected), "{line}");
        }
    }

    #[test]
    fn state_names_of_a_newer_daemon_are_shown_as_received() {
        let document = serde_json::to_string(&sample::state()).unwrap();
        let newer = document.replace("\"bound\"", "\"suspended\"").replace("\"role\":\"home\"", "\"role\":\"transit\"");
        let state: NodeState = serde_json::from_str(&newer).unwrap();
        assert!(bindings(&state).render(Paint::Plain).contains("home_agent  suspended  1h2m   van   3f2a-"));
        assert!(links(&state).render(Paint::Plain).contains("  transit  up "));
        assert_eq!(serde_json::to_string(&state).unwrap(), newer);
    }

    #[test]
    fn errors_are_listed_below_the_table() {
        let mut state = sample::state();
        let binding = &mut state.view.bindings[0];
        binding.refused_prefixes = std::mem::take(&mut binding.prefixes);
        binding.last_error = Some("refuses: 142 (not authorised for prefix)".to_owned());
        binding.error_age = Some(Duration::from_secs(72));
        let text = bindings(&state).render(Paint::Plain);
        assert!(text.contains(" 2001:db8:100::/56(refused) "), "{text}");
        assert!(text.ends_with("2001:db8:1::100: refuses: 142 (not authorised for prefix) (for 1m12s)\n"), "{text}");
    }

    #[test]
    fn hints_are_listed_below_the_table() {
        let mut state = sample::state();
        state.view.links[0].hints = vec!["the network has a captive portal: https://portal.example/api".to_owned()];
        let text = links(&state).render(Paint::Plain);
        assert!(text.ends_with("eth1: the network has a captive portal: https://portal.example/api\n"), "{text}");
    }

    #[test]
    fn links_and_tunnels_show_their_addresses() {
        let expected = "\
LINK  ROLE  CARRIER  MTU   ROUTER  ADDRESSES      RTT   LOSS  TRANSPORT  SENT    RECEIVED  USED           STATE  SINCE
eth1  home  up       1500  -       2001:db8:1::1  48ms  3.1%  udp        2.00GB  9.00GB    4.81GB/5.00GB  home   40s
";
        assert_eq!(links(&sample::state()).render(Paint::Plain), expected);
        let expected = "\
TUNNEL  BID  LOCAL          REMOTE         MTU   WEIGHT  TO                                     LINK  RTT  LOSS  SENT  \
RECEIVED  STATE  SINCE
9       1    2001:db8:1::1  2001:db8:2::1  1460  1       2001:db8:1::100/128,2001:db8:100::/56  -     -    -     -     \
-         up     1h2m
";
        assert_eq!(tunnels(&sample::state()).render(Paint::Plain), expected);
    }

    #[test]
    fn ipv4_tunnel_addresses_are_shown_as_ipv4() {
        let mut state = sample::state();
        state.view.tunnels[0].local = "::105f:ffff:c0a8:10a".parse().unwrap();
        let text = tunnels(&state).render(Paint::Plain);
        assert!(text.contains(" 192.168.1.10:4191 "), "{text}");
    }

    #[test]
    fn mptcp_endpoints_show_their_use() {
        let expected = "\
ADDRESS        LINK  KIND     USE      TOLD  STATE
2001:db8:2::5  eth1  care-of  regular  yes   in use
";
        assert_eq!(endpoints(&sample::state()).render(Paint::Plain), expected);
    }

    #[test]
    fn prefixes_show_their_uplink() {
        let expected = "\
PREFIX               INGRESS  KIND       UPLINK  OF                 VALID    STATE
2001:db8:100::/64    lan0     home       -       -                  forever  preferred
2001:db8:a00:1::/64  lan0     delegated  wwan0   2001:db8:a00::/56  1m40s    deprecated
";
        assert_eq!(prefixes(&sample::state()).render(Paint::Plain), expected);
    }

    #[test]
    fn timers_are_sorted_and_counters_name_data_packets() {
        let state = sample::state();
        let text = timers(&state).render(Paint::Plain);
        assert_eq!(text, "IN    TIMER\n4.2s  expire 2001:db8:1::101\n1h    advertise\n");
        let text = counters(&state).render(Paint::Plain);
        let expected = "\
COUNTER            COUNT
dropped_malformed  3
home_agent_timers  5
registered         12
packets_forwarded  1000
";
        assert_eq!(text, expected);
    }
}
