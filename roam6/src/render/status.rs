//! `roam6 status`: the overview of a node on one screen.

use crate::config::data_plan::format_octets;
use crate::config::duration::format_duration;
use crate::control::NodeState;
use core::time::Duration;
use roam6_proto::contract::view::{
    BindingRole, BindingState, BindingView, Counters, FaultKind, LinkRole, LinkState, LinkView,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// What to do if it does not work.
const ADVICE: &str = if cfg!(feature = "doctor") {
    "something is wrong: run roam6 doctor\n"
} else {
    "something is wrong: see roam6 show links, roam6 show bindings, and the log\n"
};
/// The form of the JSON; it changes only if a key changes its meaning.
const SCHEMA: u32 = 1;
/// Most faults of mobile routers that a home agent lists.
const MAX_FAULTS: usize = 10;

/// Whether the node does its work: a mobile router is bound and has a path without a fault, no mobile router of a home agent
/// is kept from registering.
pub(crate) fn works(state: &NodeState) -> bool {
    let mut uplinks = uplinks(state).peekable();
    let is_router = uplinks.peek().is_some();
    let has_path = uplinks.any(|link| in_use(link) && link.fault != Some(FaultKind::TunnelSilent));
    // Any sender can provoke refusals: they count only for a mobile router that is not bound. A second router has the key.
    let counts = |row: &BindingView| {
        row.role == BindingRole::MobileRouter
            || row.fault == Some(FaultKind::Stolen)
            || (row.care_of.is_none() && row.fault != Some(FaultKind::NotInTable))
    };
    !faults(state).any(counts) && (!is_router || (is_bound(state) && has_path))
}

fn own(state: &NodeState, role: BindingRole) -> impl Iterator<Item = &BindingView> {
    state.view.bindings.iter().filter(move |row| row.role == role)
}

fn uplinks(state: &NodeState) -> impl Iterator<Item = &LinkView> {
    state
        .view
        .links
        .iter()
        .filter(|link| link.role == LinkRole::Uplink || (link.role == LinkRole::Home && link.router.is_some()))
}

fn is_bound(state: &NodeState) -> bool {
    own(state, BindingRole::MobileRouter).any(|row| matches!(row.state, BindingState::Bound | BindingState::Home))
}

fn in_use(link: &LinkView) -> bool {
    use LinkState::{Degraded, Home, Ipv4, Ipv4BehindNat, Visited};
    matches!(link.state, Visited | Ipv4 | Ipv4BehindNat | Home | Degraded)
}

/// Faults of registrations, each home address once.
fn faults(state: &NodeState) -> impl Iterator<Item = &BindingView> {
    let rows = state.view.bindings.iter().filter(|row| row.fault.is_some());
    let mut last = None;
    rows.filter(move |row| last.replace(row.home_address) != Some(row.home_address))
}

/// The overview in text.
pub(crate) fn to_text(state: &NodeState) -> String {
    let up = format_duration(Duration::from_secs(state.at / 1_000_000));
    let mut text = format!("{}  {}  roam6 {}, up {up}\n", clean(&state.name), headline(state), state.version);
    if let Some(key) = own(state, BindingRole::MobileRouter).find_map(|row| row.key.as_deref()) {
        let _ = writeln!(text, "  key {}, exchanged", clean(key));
    }
    for link in &state.view.links {
        let _ = writeln!(text, "  {}", line(link));
        if let Some(error) = &link.last_error {
            let _ = writeln!(text, "      {}", clean(error));
        }
        for hint in &link.hints {
            let _ = writeln!(text, "      {}", clean(hint));
        }
    }
    for row in faults(state).take(MAX_FAULTS) {
        let age = row.error_age.map(|age| format!(" (for {})", format_duration(age))).unwrap_or_default();
        let why = row.last_error.as_deref().unwrap_or_default();
        let name = row.name.as_deref().map(|name| format!("{} ", clean(name))).unwrap_or_default();
        let _ = writeln!(text, "  {name}{}: {}{age}", row.home_address, clean(why));
    }
    text.push_str(if works(state) { "no fault\n" } else { ADVICE });
    text
}

/// What the node is, and whether it is connected.
fn headline(state: &NodeState) -> String {
    let bound = own(state, BindingRole::MobileRouter).find(|row| row.state == BindingState::Bound);
    let routers = state.view.counters.gauges.get(&"home_agent_bindings".to_owned());
    let mut parts = Vec::new();
    if let Some(row) = bound {
        let prefixes = row.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        parts.push(format!("bound to {} with {prefixes}", row.home_agent));
    } else if is_bound(state) {
        parts.push("at home".to_owned());
    } else if uplinks(state).next().is_some() {
        parts.push("not bound".to_owned());
    }
    parts.extend(routers.map(|count| format!("home agent, {count} mobile routers bound")));
    parts.join("; ")
}

/// One interface: name, state, round trip, loss, octets.
fn line(link: &LinkView) -> String {
    let mut text = format!("{:<10} {:<18}", link.name, link.state.as_str());
    if let Some(quality) = link.quality {
        let loss = f64::from(quality.loss_permille) / 10.0;
        let _ = write!(text, " {:>5} ms {loss:>5} %", quality.rtt.as_millis());
    }
    if let Some(usage) = link.usage {
        let _ = write!(text, "  {} sent  {} received", format_octets(usage.tx), format_octets(usage.rx));
    }
    if let Some(transport) = &link.transport {
        let _ = write!(text, "  {transport}");
    }
    if let Some(held) = link.quality.and_then(|quality| quality.held) {
        let _ = write!(text, "  last choice for {}", format_duration(held));
    }
    if let Some(age) = link.changed {
        let _ = write!(text, "  for {}", format_duration(Duration::from_secs(age.as_secs())));
    }
    text.trim_end().to_owned()
}

/// Without control characters: texts may be those of networks.
fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// The overview in JSON. Integers have their unit in the name of their key.
pub(crate) fn to_json(state: &NodeState) -> Value {
    let links: Vec<Value> = state.view.links.iter().map(link_json).collect();
    let faults: Vec<Value> = faults(state)
        .take(MAX_FAULTS)
        .map(|row| {
            json!({
                "home_address": row.home_address,
                "name": row.name,
                "fault": row.fault,
                "status": row.fault_status,
                "text": row.last_error,
                "age_s": row.error_age.map(|age| age.as_secs()),
            })
        })
        .collect();
    let bound = own(state, BindingRole::MobileRouter).find(|row| row.state == BindingState::Bound);
    let Counters { gauges, .. } = &state.view.counters;
    json!({
        "schema": SCHEMA,
        "name": state.name,
        "version": state.version,
        "up_s": state.at / 1_000_000,
        "works": works(state),
        "bound": is_bound(state),
        "home_agent": bound.map(|row| row.home_agent),
        "home_address": bound.map(|row| row.home_address),
        "prefixes": bound.map(|row| &row.prefixes),
        "key": bound.and_then(|row| row.key.as_ref()),
        "mobile_routers_bound": gauges.get(&"home_agent_bindings".to_owned()),
        "links": links,
        "faults": faults,
    })
}

fn link_json(link: &LinkView) -> Value {
    json!({
        "name": link.name,
        "role": link.role,
        "state": link.state,
        "in_use": link.role != LinkRole::Ingress && in_use(link),
        "rtt_us": link.quality.map(|quality| u64::try_from(quality.rtt.as_micros()).unwrap_or(u64::MAX)),
        "loss_permille": link.quality.map(|quality| quality.loss_permille),
        "sent_octets": link.usage.map(|usage| usage.tx),
        "received_octets": link.usage.map(|usage| usage.rx),
        "transport": link.transport,
        "changed_s": link.changed.map(|age| age.as_secs()),
        "fault": link.fault,
        "text": link.last_error,
        "hints": link.hints,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    /// The sample's link, as that of a mobile router.
    fn router(state: LinkState) -> NodeState {
        let mut node = sample::state();
        node.view.bindings.truncate(1);
        node.view.bindings[0].role = BindingRole::MobileRouter;
        node.view.links.truncate(1);
        (node.view.links[0].role, node.view.links[0].state) = (LinkRole::Uplink, state);
        node
    }

    #[test]
    fn overview_names_state_quality_and_use() {
        let node = router(LinkState::Visited);
        let text = to_text(&node);
        assert!(works(&node), "{text}");
        for part in
            ["bound to 2001:db8:1::1 with 2001:db8:100::/56", "visited", "48 ms", "3.1 %", "for 40s", "no fault"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = to_json(&node);
        assert_eq!((json["links"][0]["rtt_us"].clone(), json["works"].clone()), (48_250.into(), true.into()));
    }

    #[test]
    fn what_is_wrong_is_shown_without_control_characters() {
        let mut node = router(LinkState::Registering);
        node.view.bindings[0].state = BindingState::Registering;
        node.view.bindings[0].fault = Some(FaultKind::Unanswered);
        node.view.bindings[0].last_error = Some("updates are not answered\u{1b}[2J".to_owned());
        let text = to_text(&node);
        assert!(!works(&node) && text.contains("not bound") && text.contains("run roam6 doctor"), "{text}");
        assert!(text.contains("updates are not answered[2J") && !text.contains('\u{1b}'), "{text}");
        let silent = {
            let mut node = router(LinkState::Visited);
            node.view.links[0].fault = Some(FaultKind::TunnelSilent);
            node
        };
        assert!(!works(&silent));
    }

    #[test]
    fn a_home_agent_counts_its_mobile_routers() {
        let mut node = sample::state();
        node.view.counters.gauges = [("home_agent_bindings".to_owned(), 3)].into();
        assert!(to_text(&node).contains("home agent, 3 mobile routers bound"));
        assert!(works(&node), "{}", to_text(&node));
    }
}
