//! From the care-of addresses to the home agent and back: reachability, protocol 135, UDP, row, key, prefixes, tunnel.

use super::facts::{Facts, Probes, carries, is_bound, own_bindings};
use super::finding::{Findings, Level};
use crate::control::NodeState;
use core::time::Duration;
use roam6_linux::probe::{Answer, IcmpError};
use roam6_proto::contract::config::nemo::{EncryptionMethod, MobileRouterConfig};
use roam6_proto::contract::view::{BindingState, BindingView, FaultKind, LinkRole, LinkState, LinkView};
use std::net::Ipv6Addr;

/// The checks of this file.
const IDS: [&str; 2] = ["agent.reach", PLAIN.id];
/// What carries the packets of a tunnel, and what to do if it does not pass.
struct Carrier {
    id: &'static str,
    name: &'static str,
    cure: &'static str,
}

const PLAIN: Carrier = Carrier {
    id: "path.41",
    name: "IPv6 protocol 41",
    cure: "let protocol 41 through in both directions, or write transport = \"udp\" for the uplink and udp6 = true at the home \
           agent",
};
/// With `encrypt`.
const ENCRYPTED: Carrier = Carrier {
    id: "path.wireguard",
    name: "UDP with the ports 4192 to 4255, of encryption,",
    cure: "let UDP to the ports 4192 to 4255 of the home agent through, and the answers back, also in its own firewall",
};

/// With `encrypt = "esp"`.
const BY_ESP: Carrier = Carrier {
    id: "path.esp",
    name: "ESP, protocol 50,",
    cure: "let protocol 50 through in both directions, also in the home agent's own firewall, or write encrypt = true at both ends \
           to encrypt by WireGuard, which is UDP",
};

/// The carrier of this mobile router's tunnel.
fn carrier_of(router: &MobileRouterConfig) -> &'static Carrier {
    match router.encryption.as_ref().map(|own| own.method) {
        Some(EncryptionMethod::Wireguard) => &ENCRYPTED,
        Some(EncryptionMethod::Esp) => &BY_ESP,
        None => &PLAIN,
    }
}
/// Younger faults may be those of a move that is not over yet.
const SETTLED: Duration = Duration::from_secs(5);
// Statuses of RFC 6275 §6.1.8, RFC 3963 §4.2 and RFC 4285 §5.
const DUPLICATE_ADDRESS: u8 = 134;
const INVALID_PREFIX: u8 = 141;
const NOT_AUTHORISED_FOR_PREFIX: u8 = 142;
const AUTHENTICATION_FAILED: u8 = 146;

pub(super) fn judge(facts: &Facts, router: &MobileRouterConfig, state: &NodeState, found: &mut Findings) {
    if found.has(Level::Fault) {
        return found.skip(&IDS);
    }
    let bindings: Vec<&BindingView> = own_bindings(state).collect();
    if bindings.iter().any(|binding| binding.fault == Some(FaultKind::Stolen)) {
        let home = router.home_address;
        let text = format!("another mobile router registers {home} with the same key, and each supersedes the other");
        let cure = "one key file is on two routers: give one of them an identity of its own (roam6 invite NAME or roam6 \
                    enroll, at the home agent)";
        found.fault(("agent.stolen", &home.to_string()), text, cure);
        return found.skip(&IDS);
    }
    // What is bound may have ended at the home agent meanwhile: its answers tell.
    let inner = facts.probes.as_ref().and_then(|probes| probes.inner.as_ref());
    let silent = inner.is_some_and(|answer| !answer.is_reply() && *answer != Answer::NotPermitted);
    let ended = silent && bindings.iter().any(|binding| binding.fault.is_some());
    if !is_bound(state) || ended {
        explain_unbound(facts, router, &bindings, found);
        return found.skip(&["path.41"]);
    }
    let rejected = bindings.iter().find(|binding| !binding.refused_prefixes.is_empty());
    if let Some(binding) = rejected {
        let prefixes = binding.refused_prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return explain_prefixes(binding.home_agent, &prefixes, binding.fault_status, found);
    }
    if let Some(binding) = bindings.first() {
        let home = binding.state == BindingState::Home;
        let text = if home { "at home".to_owned() } else { format!("bound to {}", binding.home_agent) };
        found.ok(("agent.reach", ""), text);
    }
    judge_tunnel(facts, carrier_of(router), state, found);
}

/// Why no home agent has accepted an update.
fn explain_unbound(facts: &Facts, router: &MobileRouterConfig, bindings: &[&BindingView], found: &mut Findings) {
    let agent = bindings.first().map(|binding| binding.home_agent);
    let agent = agent.filter(|agent| !agent.is_unspecified()).or(router.home_agents.first().copied());
    let (Some(agent), Some(binding)) = (agent, bindings.iter().find(|binding| binding.fault.is_some())) else {
        let cure = "run it again in ten seconds";
        return found.add(Level::Unknown, ("agent.reach", ""), "registration is in progress", cure);
    };
    let why = binding.last_error.clone().unwrap_or_default();
    match binding.fault {
        Some(FaultKind::Refused) => explain_refusal(agent, router, binding, found),
        Some(FaultKind::FormerKey) => {
            let text = format!("the key of the invitation is not accepted: the home agent {agent} {why}");
            let cure = "make another one there with roam6 invite NAME --again, remove roam6.toml and mr.key here, and run roam6 join";
            found.fault(("agent.key", ""), text, cure);
        }
        Some(FaultKind::NotVerified) => explain_key(agent, &why, found),
        Some(FaultKind::NoHomeAgent) => explain_no_agent(agent, found),
        Some(FaultKind::Ipv4Unanswered) => {
            let ipv4 = router.home_agents_ipv4.first().map_or_else(|| agent.to_string(), ToString::to_string);
            let text = format!("UDP port 4191 of {ipv4} is not answered");
            let cure = "is [home_agent.ipv4] configured there, and UDP port 4191 open, in the provider's console too?";
            found.fault(("path.udp", &ipv4), text, cure);
        }
        Some(FaultKind::Prohibited) => explain_filter(agent, &why, found),
        _ => explain_silence(facts, router, agent, (&why, binding.fault.as_ref()), found),
    }
}

fn explain_refusal(agent: Ipv6Addr, router: &MobileRouterConfig, binding: &BindingView, found: &mut Findings) {
    let why = binding.last_error.clone().unwrap_or_default();
    match binding.fault_status {
        Some(INVALID_PREFIX | NOT_AUTHORISED_FOR_PREFIX) => {
            let prefixes = router.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            explain_prefixes(agent, &prefixes, binding.fault_status, found);
        }
        Some(AUTHENTICATION_FAILED) => explain_key(agent, &why, found),
        Some(DUPLICATE_ADDRESS) => {
            let text = format!("another node on the home link has {}", router.home_address);
            found.fault(("agent.refuses", ""), text, "give one of them another address");
        }
        _ => {
            let cure = format!("run roam6 doctor at {agent}");
            found.fault(("agent.refuses", &agent.to_string()), format_args!("the home agent {why}"), cure);
        }
    }
}

fn explain_prefixes(agent: Ipv6Addr, prefixes: &str, status: Option<u8>, found: &mut Findings) {
    let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
    let text = format!("the home agent {agent} does not grant {prefixes}{status}");
    let cure = "make prefixes here and those of this router's row in the home agent's prefix table the same";
    found.fault(("agent.prefixes", prefixes), text, cure);
}

fn explain_key(agent: Ipv6Addr, why: &str, found: &mut Findings) {
    let text = format!("the key here is not that of this router's row at {agent}: {why}");
    let cure = "compare key_file here with the row of this home address in the home agent's prefix table";
    found.fault(("agent.key", ""), text, cure);
}

fn explain_no_agent(agent: Ipv6Addr, found: &mut Findings) {
    let cure = "is home_agents right? If so, start it there: systemctl start roam6";
    found.fault(("agent.none", &agent.to_string()), format_args!("no home agent runs at {agent}"), cure);
}

fn explain_filter(agent: Ipv6Addr, who: &str, found: &mut Findings) {
    let text = format!("IPv6 protocol 135 (mobility) is filtered on the way to {agent}: {who}");
    let cure =
        "let protocol 135 through there, or write transport = \"udp\" for the uplink and udp6 = true at the home agent";
    found.fault(("path.135", &agent.to_string()), text, cure);
}

/// Updates are not answered: what probes find out.
fn explain_silence(
    facts: &Facts,
    router: &MobileRouterConfig,
    agent: Ipv6Addr,
    (why, kind): (&str, Option<&FaultKind>),
    found: &mut Findings,
) {
    let Some(probes) = &facts.probes else {
        let (id, cure) = match kind {
            Some(FaultKind::UnansweredPinged) => {
                ("path.135", "run roam6 doctor as root, without --quick, to know which")
            }
            _ => ("agent.reach", "is the home agent's host up, and home_agents right?"),
        };
        return found.fault((id, &agent.to_string()), format_args!("{agent}: {why}"), cure);
    };
    let heard = |asked: &[(String, Ipv6Addr, Answer)], test: &dyn Fn(&Answer) -> bool| {
        asked.iter().find(|(_, to, answer)| *to == agent && test(answer)).cloned()
    };
    let error =
        |test: fn(&IcmpError) -> bool| move |answer: &Answer| matches!(answer, Answer::Error(error) if test(error));
    let said = |(uplink, _, answer): (String, Ipv6Addr, Answer)| match answer {
        Answer::Error(IcmpError { from: Some(from), .. }) => format!("{from} says so, by {uplink}"),
        _ => format!("by {uplink}"),
    };
    if heard(&probes.mobility, &|answer| *answer == Answer::NotPermitted).is_some() {
        let text = "this host's own firewall drops protocol 135 (mobility) on output";
        return found.fault(("firewall.output", ""), text, "accept it there: meta l4proto { 135, 41 } accept");
    }
    if heard(&probes.mobility, &Answer::is_reply).is_some() {
        let home = router.home_address;
        let text = format!("the home agent {agent} hears this router, and does not know {home}");
        let cure = format!("is {home} in its prefix table? (roam6 show bindings and roam6 doctor there)");
        return found.fault(("agent.row", &home.to_string()), text, cure);
    }
    if heard(&probes.mobility, &error(IcmpError::is_unknown_protocol)).is_some() {
        return explain_no_agent(agent, found);
    }
    if let Some(answer) = heard(&probes.mobility, &error(IcmpError::is_prohibition)) {
        return explain_filter(agent, &said(answer), found);
    }
    if let Some((uplink, ..)) = heard(&probes.echoes, &Answer::is_reply) {
        return explain_filter(agent, &format!("pings by {uplink} are answered, mobility headers are not"), found);
    }
    explain_unreachable(probes, agent, found);
}

fn explain_unreachable(probes: &Probes, agent: Ipv6Addr, found: &mut Findings) {
    let others = probes.echoes.iter().any(|(_, to, answer)| *to != agent && answer.is_reply());
    let error = probes.echoes.iter().find_map(|(_, to, answer)| match answer {
        Answer::Error(error) if *to == agent => Some(*error),
        _ => None,
    });
    let says = error.map(|error| match error.from {
        Some(from) => format!(" ({from} says: {error})"),
        None => format!(" ({error})"),
    });
    let text = match (others, says) {
        (true, _) => format!("the home agent {agent} is down, or drops pings; others answer"),
        (false, says) => format!("the home agent {agent} does not answer on any uplink{}", says.unwrap_or_default()),
    };
    let cure = "is its host up, and home_agents right? Can other hosts ping it?";
    found.fault(("agent.reach", &agent.to_string()), text, cure);
}

/// Whether packets pass the tunnel of each uplink.
fn judge_tunnel(facts: &Facts, carrier: &Carrier, state: &NodeState, found: &mut Findings) {
    let uplinks = || state.view.links.iter().filter(|link| link.role == LinkRole::Uplink);
    let works = uplinks().any(|link| carries(link) && link.state != LinkState::Standby);
    let inner = facts.probes.as_ref().and_then(|probes| probes.inner.as_ref());
    let hint = |link: &LinkView| {
        let text = link.last_error.as_deref().unwrap_or_default();
        text.split_once("; ").map(|(_, hint)| format!(": {hint}")).unwrap_or_default()
    };
    let old = |link: &&LinkView| link.error_age.is_some_and(|age| age >= SETTLED);
    let silent = uplinks().filter(|link| link.fault == Some(FaultKind::TunnelSilent)).filter(old);
    let mut any = false;
    for link in silent {
        any = true;
        let name = link.name.as_str();
        let answered_beyond = facts.probes.as_ref().and_then(|probes| probes.inner_one_hop.as_ref());
        if answered_beyond.is_some_and(|answer| matches!(answer, Answer::Error(_))) {
            let text = "packets reach the home agent through the tunnel; its firewall drops pings inside";
            found.warn(("tunnel.inner", name), text, "accept ipv6-icmp from nemo0 in its input chain");
            continue;
        }
        let text = format!(
            "the home agent answers updates by {name}, and the tunnel is silent: {} is filtered on the way{}",
            carrier.name,
            hint(link)
        );
        let level = if works || inner.is_some_and(Answer::is_reply) { Level::Warning } else { Level::Fault };
        found.add(level, (carrier.id, name), text, carrier.cure);
    }
    match inner {
        Some(Answer::Reply(time)) if !any => {
            found.ok(
                (carrier.id, ""),
                format_args!("the home agent answers through the tunnel, {} ms", time.as_millis()),
            );
        }
        Some(Answer::NotPermitted) => {
            let text = "this host's own firewall drops what it sends into the tunnel";
            found.fault(("firewall.output", ""), text, "accept it in the output chain: oifname \"nemo0\" accept");
        }
        Some(answer) if !any && !answer.is_reply() => explain_silent_tunnel(facts, carrier, found),
        _ => {}
    }
}

/// The daemon has not noticed yet that the tunnel is silent, or does not probe.
fn explain_silent_tunnel(facts: &Facts, carrier: &Carrier, found: &mut Findings) {
    let one_hop = facts.probes.as_ref().and_then(|probes| probes.inner_one_hop.as_ref());
    if one_hop.is_some_and(|answer| matches!(answer, Answer::Error(_))) {
        let text = "packets reach the home agent through the tunnel; its firewall drops pings inside";
        return found.warn(("tunnel.inner", ""), text, "accept ipv6-icmp from nemo0 in its input chain");
    }
    let text = format!(
        "the home agent answers updates, and nothing comes back through the tunnel: {} is filtered on the way, or the home \
         agent's firewall drops what it receives",
        carrier.name
    );
    found.fault((carrier.id, ""), text, carrier.cure);
}
