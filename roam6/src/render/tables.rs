//! `roam6 show`: one table for each part of the state.

use crate::config::duration::format_duration;
use crate::control::NodeState;
use crate::render::table::Table;
use core::time::Duration;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::view::BindingView;
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::fmt::Display;
use std::net::Ipv6Addr;

/// Home addresses and where they are.
pub(crate) fn bindings(state: &NodeState) -> Table {
    let mut table =
        Table::new(&["HOME ADDRESS", "BID", "CARE-OF", "HOME AGENT", "PREFIXES", "SEQ", "REMAINING", "ROLE", "STATE"]);
    for row in &state.view.bindings {
        table.push(vec![
            row.home_address.to_string(),
            identifier(row.bid),
            care_of(row),
            row.home_agent.to_string(),
            prefixes_of(row),
            row.sequence.to_string(),
            format_duration(row.remaining),
            row.role.to_string(),
            row.state.to_string(),
        ]);
        add_error_note(&mut table, &row.home_address.to_string(), &row.last_error, row.error_age);
    }
    table
}

/// Interfaces in use.
pub(crate) fn links(state: &NodeState) -> Table {
    let mut table = Table::new(&["LINK", "ROLE", "CARRIER", "MTU", "ROUTER", "ADDRESSES", "STATE"]);
    for row in &state.view.links {
        table.push(vec![
            row.name.clone(),
            row.role.to_string(),
            if row.up { "up" } else { "down" }.to_owned(),
            row.mtu.to_string(),
            optional(row.router),
            list(&row.addresses),
            row.state.to_string(),
        ]);
        add_error_note(&mut table, &row.name, &row.last_error, row.error_age);
    }
    table
}

/// Tunnels, a row for each path.
pub(crate) fn tunnels(state: &NodeState) -> Table {
    let mut table = Table::new(&["TUNNEL", "BID", "LOCAL", "REMOTE", "MTU", "WEIGHT", "TO", "STATE"]);
    for row in &state.view.tunnels {
        table.push(vec![
            row.tunnel.to_string(),
            identifier(row.bid),
            tunnel_end(row.local),
            tunnel_end(row.remote),
            row.mtu.to_string(),
            row.weight.to_string(),
            destinations(&row.far),
            row.state.to_string(),
        ]);
    }
    table
}

/// What a firewall does to them, in a line of its own; nothing if there is none.
pub(crate) fn firewall(state: &NodeState) -> String {
    let Some(firewall) = &state.firewall else { return String::new() };
    let chains = firewall.chains.join(", ");
    match (firewall.obeyed, chains.is_empty()) {
        (true, true) => "firewall: gone a moment ago; packets still take the kernel's path\n".to_owned(),
        (true, false) => format!("firewall: {chains}; packets take the kernel's path through it\n"),
        (false, _) => format!("firewall: {chains}; not applied to packets on the fast path (firewall = \"bypass\")\n"),
    }
}

/// Says below the table what does not work, and since when.
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

/// The care-of address; one of IPv4 as the home agent sees it.
fn care_of(row: &BindingView) -> String {
    let ipv4 = row.care_of.and_then(|address| address.to_ipv4_mapped());
    match (ipv4, row.udp_port) {
        (Some(address), Some(port)) => format!("{address}:{port}"),
        (Some(address), None) => address.to_string(),
        (None, _) => optional(row.care_of),
    }
}

/// Addresses connections take several paths from.
pub(crate) fn endpoints(state: &NodeState) -> Table {
    let mut table = Table::new(&["ADDRESS", "LINK", "KIND", "USE", "TOLD", "STATE"]);
    for row in &state.view.endpoints {
        table.push(vec![
            row.address.to_string(),
            row.link.clone(),
            if row.home { "home" } else { "care-of" }.to_owned(),
            if row.backup { "backup" } else { "regular" }.to_owned(),
            if row.signal { "yes" } else { "no" }.to_owned(),
            row.state.to_string(),
        ]);
    }
    table
}

/// Prefixes nodes inside have.
pub(crate) fn prefixes(state: &NodeState) -> Table {
    let mut table = Table::new(&["PREFIX", "INGRESS", "KIND", "UPLINK", "OF", "VALID", "STATE"]);
    for row in &state.view.prefixes {
        table.push(vec![
            row.prefix.to_string(),
            row.ingress.clone(),
            row.role.to_string(),
            row.uplink.clone().unwrap_or_default(),
            row.part_of.map(|of| of.to_string()).unwrap_or_default(),
            row.valid.map_or_else(|| "forever".to_owned(), format_duration),
            row.state.to_string(),
        ]);
    }
    table
}

/// Addresses the shim makes.
pub(crate) fn addresses(state: &NodeState) -> Table {
    let mut table = Table::new(&["ADDRESS", "INTERFACE", "PREFIX", "PROOF", "SEC", "VALID", "STATE"]);
    for row in &state.view.addresses {
        table.push(vec![
            row.address.to_string(),
            row.link.clone(),
            row.prefix.to_string(),
            row.proof.to_string(),
            row.sec.to_string(),
            row.valid.map(format_duration).unwrap_or_default(),
            row.state.to_string(),
        ]);
    }
    table
}

/// Contexts of the shim.
pub(crate) fn contexts(state: &NodeState) -> Table {
    let mut table = Table::new(&["ULID", "PEER", "PATH", "LOCATORS", "OUT", "IN", "IDLE", "REACH", "STATE"]);
    for row in &state.view.contexts {
        let path = if row.rewriting { format!("{} > {}", row.path.local, row.path.peer) } else { String::new() };
        table.push(vec![
            row.context.ulids.local.to_string(),
            row.context.ulids.peer.to_string(),
            path,
            format!("{}x{}", row.local.len(), row.peer.len()),
            row.tx.octets.to_string(),
            row.rx.octets.to_string(),
            format_duration(row.idle),
            row.reachability.to_string(),
            row.state.to_string(),
        ]);
    }
    table
}

/// GeoNetworking stations, this one first.
pub(crate) fn stations(state: &NodeState) -> Table {
    let mut table = Table::new(&["STATION", "KIND", "PLACE", "DISTANCE", "SPEED", "HEADING", "AGE", "STATE"]);
    for row in &state.view.stations {
        table.push(vec![
            row.mid.to_string(),
            row.kind.clone(),
            format!("{}{}", row.place, if row.accurate { "" } else { " ~" }),
            row.distance.map(|metres| format!("{metres} m")).unwrap_or_default(),
            format!("{:.1} km/h", f64::from(row.speed) * 0.036),
            format!("{}°", row.heading / 10),
            format_duration(row.age),
            row.state.to_string(),
        ]);
    }
    table
}

/// Where this station is.
pub(crate) fn position(state: &NodeState) -> Table {
    let mut table = Table::new(&["STATION", "KIND", "PLACE", "WITHIN", "SPEED", "HEADING", "AGE", "STATE"]);
    if let Some(row) = &state.view.position {
        table.push(vec![
            row.mid.to_string(),
            row.kind.clone(),
            row.place.map(|place| place.to_string()).unwrap_or_default(),
            row.uncertainty.map(|metres| format!("{metres} m")).unwrap_or_default(),
            format!("{:.1} km/h", f64::from(row.speed) * 0.036),
            format!("{}°", row.heading / 10),
            row.age.map(format_duration).unwrap_or_default(),
            row.state.to_string(),
        ]);
    }
    table
}

/// Networks of routers nearby.
pub(crate) fn networks(state: &NodeState) -> Table {
    let mut table = Table::new(&["NETWORK", "ROUTER", "LINK", "REMAINING"]);
    for row in &state.view.networks {
        let (prefix, router) = (row.prefix.to_string(), row.router.to_string());
        table.push(vec![prefix, router, row.link.clone(), format_duration(row.remaining)]);
    }
    table
}

/// Timers, the next first.
pub(crate) fn timers(state: &NodeState) -> Table {
    let mut table = Table::new(&["IN", "TIMER"]);
    let mut timers: Vec<_> = state.view.timers.iter().collect();
    timers.sort_by_key(|timer| timer.remaining);
    for row in timers {
        table.push(vec![format_duration(row.remaining), row.name.clone()]);
    }
    table
}

/// How often each thing happened, signalling first.
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

fn optional(address: Option<Ipv6Addr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
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
    use crate::control::Firewall;
    use crate::render::sample;
    use crate::render::table::Paint;

    #[test]
    fn the_bindings_table_has_one_row_per_binding() {
        let expected = "\
HOME ADDRESS     BID  CARE-OF        HOME AGENT     PREFIXES           SEQ  REMAINING  ROLE        STATE
2001:db8:1::100  1    2001:db8:2::1  2001:db8:1::1  2001:db8:100::/56  42   9m12s      home_agent  bound
2001:db8:1::101  -    -              2001:db8:1::1  2001:db8:101::/64  7    4.2s       home_agent  bound
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
        assert!(bindings(&state).render(Paint::Plain).contains("home_agent  suspended\n"));
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
    fn links_and_tunnels_show_their_addresses() {
        let expected = "\
LINK  ROLE  CARRIER  MTU   ROUTER  ADDRESSES      STATE
eth1  home  up       1500  -       2001:db8:1::1  home
";
        assert_eq!(links(&sample::state()).render(Paint::Plain), expected);
        let expected = "\
TUNNEL  BID  LOCAL          REMOTE         MTU   WEIGHT  TO                                     STATE
9       1    2001:db8:1::1  2001:db8:2::1  1460  1       2001:db8:1::100/128,2001:db8:100::/56  up
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
