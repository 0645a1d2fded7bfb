//! A home agent: its address, routes and prefixes, its rows, and what it hears.

use super::facts::Facts;
use super::finding::{Findings, Level};
use super::inside::{deaf_chain, judge_forwarding};
use crate::config::Firewall;
use crate::config::home_agent::HomeAgent;
use crate::control::NodeState;
use crate::host_check::on_link_home;
use roam6_linux::probe::{Answer, Hairpin};
use roam6_linux::survey::{Address, InterfaceKind, LEGACY};
use roam6_proto::contract::config::nemo::HomeAgentConfig;
use roam6_proto::contract::view::{BindingRole, FaultKind};
use roam6_wire::Prefix;

/// Below, the journal soon cannot be written, octets.
const LITTLE_SPACE: u64 = 1 << 20;
/// A home agent that has received no update for so long has a filter in front of it, microseconds.
const SILENCE: u64 = 120_000_000;
/// Most faults of mobile routers that are listed.
const MAX_ROUTERS: usize = 20;

pub(super) fn judge(facts: &Facts, agent: &HomeAgent, state: &NodeState, found: &mut Findings) {
    let config = &agent.config;
    judge_address(facts, config, found);
    judge_default_route(facts, config, found);
    judge_forwarding(facts, found);
    judge_home_link(facts, config, found);
    judge_hairpins(facts, config, found);
    judge_state(facts, found);
    judge_firewall(facts, config, found);
    judge_rows(config, found);
    judge_routers(config, state, found);
}

fn holder<'a>(facts: &'a Facts, config: &HomeAgentConfig) -> Option<&'a Address> {
    facts.host.addresses.iter().find(|held| held.address == config.address)
}

fn judge_address(facts: &Facts, config: &HomeAgentConfig, found: &mut Findings) {
    let address = config.address.to_string();
    let check = ("agent.address", address.as_str());
    if holder(facts, config).is_some() {
        found.ok(check, "is on this host");
    } else {
        let (length, link) = config.home_link.as_ref().map_or((128, "lo"), |link| (64, link));
        let cure = format!("ip address add {address}/{length} dev {link}");
        found.fault(check, format_args!("{address} is on no interface"), cure);
    }
    if let Some(link) = config.home_link.as_deref().filter(|link| facts.host.interface(link).is_none()) {
        let near = facts.host.similar_interface(link).map(|near| format!("; did you mean {near}?"));
        let text = format!("home_link \"{link}\": there is no such interface{}", near.unwrap_or_default());
        found.fault(("agent.link", link), text, format_args!("this host has {}", facts.host.names()));
    }
    if let Some(service) = &config.ipv4 {
        let mapped = service.address.to_ipv6_mapped();
        if facts.host.addresses.iter().all(|held| held.address != mapped) {
            let text = format!("{} is on no interface", service.address);
            let cure =
                "behind a 1:1 NAT write the private address in [home_agent.ipv4], and the public one at mobile routers";
            found.fault(("agent.ipv4", &service.address.to_string()), text, cure);
        }
    }
}

fn judge_default_route(facts: &Facts, config: &HomeAgentConfig, found: &mut Findings) {
    let check = ("agent.default-route", "");
    let defaults: Vec<_> =
        facts.host.routes.iter().filter(|route| route.is_default() && !route.destination.is_ipv4()).collect();
    let Some(route) = defaults.first() else {
        let cure = "a host that forwards takes none from router advertisements unless told so: sysctl -w \
                    net.ipv6.conf.eth0.accept_ra=2, with the name of its interface; or add a static one";
        return found.fault(check, "there is no IPv6 default route", cure);
    };
    let real = |held: &&Address| {
        let kind = facts.host.interfaces.iter().find(|one| one.index == held.interface).map(|one| one.kind);
        !matches!(kind, Some(InterfaceKind::Loopback | InterfaceKind::Other))
    };
    let elsewhere = holder(facts, config).filter(real).filter(|held| Some(held.interface) != route.interface);
    match elsewhere {
        Some(_) if config.home_link.is_none() => {
            let text = format!("the default route leaves by another interface than that of {}", config.address);
            found.warn(check, text, "if answers do not leave: make the route's interface that of the address");
        }
        _ => found.ok(check, "there is one"),
    }
}

fn judge_home_link(facts: &Facts, config: &HomeAgentConfig, found: &mut Findings) {
    let on_link = on_link_home(config, &facts.host.addresses, &facts.host.interfaces);
    if let Some((home, link)) = on_link {
        let text = format!("home prefix {home} is on-link at {link}, and no host answers there for home addresses");
        found.fault(("agent.home-link", link), text, format_args!("write home_link = \"{link}\" in [home_agent]"));
    }
}

fn judge_hairpins(facts: &Facts, config: &HomeAgentConfig, found: &mut Findings) {
    for (prefix, answer) in facts.probes.iter().flat_map(|probes| &probes.hairpins) {
        let subject = prefix.to_string();
        let cure = format!("route {prefix} to {} in the provider's console", config.address);
        match answer {
            Hairpin::Routed => found.ok(("agent.routed", &subject), "is routed here"),
            Hairpin::OnLink if config.shared_prefix.as_ref().is_some_and(|shared| shared.prefix == *prefix) => {
                found.ok(("agent.routed", &subject), "is on-link, and the home agent answers for it");
            }
            Hairpin::OnLink => {
                let text = format!("{prefix} is not routed here: the router looks for its addresses on the link");
                found.fault(("agent.routed", &subject), text, cure);
            }
            Hairpin::NotRouted(router) => {
                let text = format!("{prefix} is not routed here: {router} has no route to it");
                found.fault(("agent.routed", &subject), text, cure);
            }
            Hairpin::Unknown => {
                let text =
                    format!("whether {prefix} is routed here is not known: the router lets no such packet return");
                found.add(Level::Unknown, ("agent.routed", &subject), text, "");
            }
        }
    }
}

fn judge_state(facts: &Facts, found: &mut Findings) {
    let folder = facts.config.as_ref().map(|config| config.state_dir.display().to_string()).unwrap_or_default();
    let check = ("agent.state", folder.as_str());
    let cure = "make room, or mount it writable: bindings are acknowledged only once they are on disk";
    match &facts.host.state_space {
        Some(Ok(free)) if *free < LITTLE_SPACE => {
            found.fault(check, format_args!("{folder} is full: no binding can be acknowledged (130)"), cure);
        }
        Some(Err(why)) => found.fault(check, format_args!("{folder} cannot be written: {why}"), cure),
        _ => found.ok(check, "has room"),
    }
}

fn judge_firewall(facts: &Facts, config: &HomeAgentConfig, found: &mut Findings) {
    if facts.probes.as_ref().is_some_and(|probes| probes.own_mobility == Some(Answer::NotPermitted)) {
        let text = "this host's own firewall drops protocol 135 (mobility) on output";
        found.fault(("firewall.output", ""), text, "accept it there: meta l4proto { 135, 41 } accept");
    }
    if facts.config.as_ref().is_ok_and(|config| config.firewall == Firewall::Bypass) {
        return;
    }
    let prefixes = config.prefix_table.rows.iter().flat_map(|row| row.prefixes.iter().copied());
    let prefixes: Vec<Prefix> = prefixes.chain(config.home_prefixes.iter().copied()).take(1000).collect();
    if let Some(chain) = deaf_chain(facts, &[], &prefixes) {
        let (family, table, name) = (chain.family, &chain.table, &chain.chain);
        let text = format!("chain {family} {table} {name} drops what comes from nemo0: none of its rules names it");
        let cure = match family {
            LEGACY => format!("ip6tables-legacy -I {name} -i nemo0 -j ACCEPT, and back for what it shall let in"),
            _ => format!(
                "nft insert rule {family} {table} {name} iifname \"nemo0\" accept, and back for what it shall let in"
            ),
        };
        found.fault(("firewall.forward", ""), text, cure);
    }
}

fn judge_rows(config: &HomeAgentConfig, found: &mut Findings) {
    match config.prefix_table.rows.len() {
        0 => {
            let text = "no mobile router is enrolled: the prefix table has no rows";
            found.warn(("agent.rows", ""), text, "roam6 invite NAME");
        }
        count => found.ok(("agent.rows", ""), format_args!("{count} in the prefix table")),
    }
}

/// What the daemon knows of single mobile routers, and whether it hears any.
fn judge_routers(config: &HomeAgentConfig, state: &NodeState, found: &mut Findings) {
    let rows: Vec<_> = state.view.bindings.iter().filter(|row| row.role == BindingRole::HomeAgent).collect();
    let faults = rows.iter().filter_map(|row| Some((row, row.fault.as_ref()?))).take(MAX_ROUTERS);
    for (row, kind) in faults {
        let home = row.home_address.to_string();
        let why = row.last_error.clone().unwrap_or_default();
        if *kind == FaultKind::Stolen {
            let cure = "one key file is on two routers: give one of them an identity of its own (roam6 invite NAME)";
            found.fault(("agent.stolen", &home), why, cure);
            continue;
        }
        let (text, cure) = match (kind, row.fault_status) {
            (FaultKind::NotInTable, _) => (
                format!("{home} sends updates, and is not in the prefix table"),
                "add its row: roam6 invite NAME, or roam6 enroll",
            ),
            (FaultKind::FormerKey, _) => {
                (format!("{home}: {why}"), "roam6 invitations has what was used, and from where")
            }
            (FaultKind::NotVerified, _) | (_, Some(146)) => (
                format!("updates of {home} do not verify: its key is not that of its row"),
                "compare its key_file with its row in the prefix table",
            ),
            (_, Some(141 | 142)) => (format!("{home}: {why}"), "make its prefixes and those of its row the same"),
            _ => (format!("{home}: {why}"), "see the log: journalctl -u roam6"),
        };
        // Any sender can provoke refusals for an address without a row, or one that is bound elsewhere.
        let known = config.prefix_table.rows.iter().any(|held| held.home_address == row.home_address);
        found.add(
            if known && row.care_of.is_none() { Level::Fault } else { Level::Warning },
            ("agent.fault", &home),
            text,
            cure,
        );
    }
    let bound = rows.iter().filter(|row| row.care_of.is_some()).count();
    if bound > 0 {
        return found.ok(("agent.heard", ""), format_args!("{bound} registered care-of addresses"));
    }
    let gauges = &state.view.counters.gauges;
    if gauges.get(&"home_agent_bindings".to_owned()).is_some_and(|count| *count > 0) {
        return found.ok(("agent.heard", ""), "many bindings; mobile routers are not examined one by one");
    }
    let deaf = rows.is_empty() && state.at > SILENCE && !config.prefix_table.rows.is_empty();
    let events = &state.view.counters.events;
    if deaf && !["registered", "binding_error", "fault"].iter().any(|event| events.get(&(*event).to_owned()).is_some())
    {
        let text = "nothing has arrived on IPv6 protocol 135 or UDP port 4191 since the start";
        let cure = "is the provider's firewall (security group) open for both? Is a mobile router switched on?";
        found.warn(("agent.heard", ""), text, cure);
    }
}
