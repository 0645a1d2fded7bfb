//! Uplinks: interface, carrier, router, address, what is beside. A vehicle always has one without a carrier: a broken uplink
//! is a fault only if no other carries traffic.

use super::facts::{Facts, carries};
use super::finding::{Findings, Level};
use crate::config::duration::format_duration;
use crate::control::NodeState;
use roam6_linux::survey::InterfaceKind;
use roam6_proto::contract::config::nemo::MobileRouterConfig;
use roam6_proto::contract::input::AddressState;
use roam6_proto::contract::view::{LinkRole, LinkState, LinkView};

pub(super) fn judge(facts: &Facts, router: &MobileRouterConfig, state: &NodeState, found: &mut Findings) {
    let links = &state.view.links;
    let outside = || links.iter().filter(|link| matches!(link.role, LinkRole::Uplink | LinkRole::Home));
    let level_if = |works: bool| if works { Level::Warning } else { Level::Fault };
    // What is wrong beyond the link of another uplink is found later.
    let (level, of_portals) = (level_if(outside().any(is_usable)), level_if(outside().any(carries)));
    for uplink in &router.uplinks {
        let name = uplink.interface.as_str();
        let Some(link) = links.iter().find(|link| link.name == name && link.role != LinkRole::Ingress) else {
            continue;
        };
        judge_beside(facts, link, found);
        let mut one = Findings::default();
        judge_uplink(facts, router, link, level, &mut one);
        judge_portal(facts, link, of_portals, &mut one);
        if one.iter().next().is_none() {
            found.ok(("uplink.interface", name), describe(link));
        }
        one.iter().for_each(|one| found.add(one.level, (one.id, &one.subject), &one.text, &one.cure));
    }
}

/// Whether packets to a home agent can leave by an uplink.
fn is_usable(link: &LinkView) -> bool {
    use LinkState::{
        CheckingAddress, Down, Exhausted, NoAddress, NoInterface, NoIpv4HomeAgent, NoRouter, RouterWithoutPrefix,
        WaitingForDhcpv6,
    };
    !matches!(
        link.state,
        CheckingAddress
            | Down
            | Exhausted
            | NoAddress
            | NoInterface
            | NoIpv4HomeAgent
            | NoRouter
            | RouterWithoutPrefix
            | WaitingForDhcpv6
    )
}

fn describe(link: &LinkView) -> String {
    let quality = link.quality.map(|quality| {
        let loss = f64::from(quality.loss_permille) / 10.0;
        format!(", round trip {} ms, {loss} % lost", quality.rtt.as_millis())
    });
    format!("{}{}", link.state, quality.unwrap_or_default())
}

/// Other programs in the way, and portals that the network announces.
fn judge_beside(facts: &Facts, link: &LinkView, found: &mut Findings) {
    for hint in link.hints.iter().filter(|hint| !hint.contains("captive portal")) {
        let manager =
            facts.host.managers.iter().find(|(name, _)| *name == link.name).map(|(_, manager)| manager.as_str());
        let cure = manager.map_or_else(
            || "docs/beside.md has the settings of other programs".to_owned(),
            |manager| format!("{manager} manages {}: docs/beside.md has its settings", link.name),
        );
        found.warn(("uplink.beside", &link.name), hint, cure);
    }
}

fn judge_uplink(facts: &Facts, router: &MobileRouterConfig, link: &LinkView, level: Level, found: &mut Findings) {
    let name = link.name.as_str();
    match link.state {
        LinkState::NoInterface => judge_absent(facts, name, level, found),
        LinkState::Down => judge_down(facts, name, level, found),
        LinkState::NoIpv4HomeAgent => {
            let cure = "give the home agent [home_agent.ipv4], and name its address here: home_agents_ipv4 = [\"...\"]";
            found.add(level, ("uplink.ipv4-only", name), format_args!("{name} has IPv4 only"), cure);
        }
        LinkState::NoRouter => judge_no_router(facts, router, link, level, found),
        LinkState::RouterWithoutPrefix => {
            let text = format!("the router of {name} advertises neither a prefix for addresses nor DHCPv6");
            let cure = "let it advertise one, or write a static address for this uplink: address = { ... }";
            found.add(level, ("uplink.address", name), text, cure);
        }
        LinkState::WaitingForDhcpv6 => {
            let text = format!("the router of {name} refers to DHCPv6, and no server answers");
            found.add(level, ("uplink.address", name), text, "start the DHCPv6 server of that network, or its relay");
        }
        LinkState::NoAddress | LinkState::CheckingAddress => judge_duplicate(facts, name, level, found),
        LinkState::Exhausted => {
            let cure = "raise cap in [mobile_router.uplink.plan], or wait for the next period";
            found.warn(("uplink.plan", name), format_args!("the data plan of {name} is used up"), cure);
        }
        LinkState::Degraded => {
            let cure = "move it, or use another uplink; max_rtt and max_loss set the limits";
            found.warn(("uplink.quality", name), format_args!("{name} is bad: {}", describe(link)), cure);
        }
        LinkState::Recovering => {
            let held = link.quality.and_then(|quality| quality.held).map(format_duration);
            let text = match held {
                Some(held) => format!("{name} is good again, and the last choice for {held} if it stays so"),
                None => format!("{name} answers again, and is not trusted yet"),
            };
            found.add(Level::Note, ("uplink.quality", name), text, "nothing to do");
        }
        _ => {}
    }
}

fn judge_absent(facts: &Facts, name: &str, level: Level, found: &mut Findings) {
    let text = match facts.host.similar_interface(name) {
        Some(near) => format!("there is no interface {name}; did you mean {near}?"),
        None => format!("there is no interface {name}"),
    };
    let cure = format!("correct its name in {}; this host has {}", facts.file, facts.host.names());
    found.add(level, ("uplink.interface", name), text, cure);
}

fn judge_down(facts: &Facts, name: &str, level: Level, found: &mut Findings) {
    let interface = facts.host.interface(name);
    let kind = interface.map_or(InterfaceKind::Other, |interface| interface.kind);
    let is_wifi = matches!(kind, InterfaceKind::Wifi(_));
    let (text, cure) = if is_wifi && facts.host.radio_blocked {
        (format!("{name} is switched off by rfkill"), "rfkill unblock wifi".to_owned())
    } else if interface.is_some_and(|interface| !interface.up) {
        (format!("{name} is down"), format!("ip link set {name} up"))
    } else {
        let cure = match kind {
            InterfaceKind::Wifi(_) => "is its network in range, and its key right? (wpa_cli status)",
            InterfaceKind::Modem => "is the SIM card unlocked, and the modem connected? (mmcli -m any)",
            _ => "is the cable plugged in at both ends?",
        };
        (format!("{name} has no carrier"), cure.to_owned())
    };
    // Where another uplink works this is an ordinary day.
    let level = if level == Level::Warning { Level::Note } else { level };
    found.add(level, ("uplink.carrier", name), text, cure);
}

fn judge_no_router(facts: &Facts, router: &MobileRouterConfig, link: &LinkView, level: Level, found: &mut Findings) {
    let name = link.name.as_str();
    let index = facts.host.interface(name).map(|interface| interface.index);
    let on = |interface: u32| Some(interface) == index;
    let has_ipv4 = facts.host.addresses.iter().any(|one| on(one.interface) && one.address.to_ipv4_mapped().is_some());
    if has_ipv4 && router.home_agents_ipv4.is_empty() {
        let cure = "give the home agent [home_agent.ipv4], and name its address here: home_agents_ipv4 = [\"...\"]";
        return found.add(level, ("uplink.ipv4-only", name), format_args!("{name} has IPv4 only"), cure);
    }
    let text = if has_ipv4 {
        format!("{name} has no IPv6 router, and no way to the home agent over IPv4")
    } else {
        format!("no router answers Router Solicitations on {name}")
    };
    let cure = "does that network have IPv6? Where it has IPv4 only, its DHCP client must configure this interface";
    found.add(level, ("uplink.router", name), text, cure);
}

fn judge_duplicate(facts: &Facts, name: &str, level: Level, found: &mut Findings) {
    let index = facts.host.interface(name).map(|interface| interface.index);
    let is_duplicate = |state: &AddressState| *state == AddressState::DadFailed;
    let failed = facts.host.addresses.iter().find(|one| Some(one.interface) == index && is_duplicate(&one.state));
    match failed {
        Some(failed) => {
            let text = format!("another host on {name} has {} (duplicate address)", failed.address);
            found.add(level, ("uplink.address", name), text, "give one of them another link-layer address");
        }
        None => {
            let text = format!("{name} has no address yet");
            let level = if level == Level::Fault { Level::Fault } else { Level::Note };
            found.add(level, ("uplink.address", name), text, "if this lasts: is its router's prefix a /64?");
        }
    }
}

/// A portal that the network announces (RFC 8910), or that intercepts connections, where the path is silent.
fn judge_portal(facts: &Facts, link: &LinkView, level: Level, found: &mut Findings) {
    let name = link.name.as_str();
    let told = link.hints.iter().find(|hint| hint.contains("captive portal"));
    let told = told.map(|hint| hint.split_once("captive portal: ").map_or("any web page", |(_, url)| url).to_owned());
    let probed = facts.probes.iter().flat_map(|probes| &probes.portals).find(|(of, _)| of == name);
    let url = match (told, probed) {
        (Some(url), _) => url,
        (None, Some((_, url))) => url.clone().unwrap_or_else(|| "any web page".to_owned()),
        (None, None) => return,
    };
    let text = format!("a captive portal holds {name}: {url}");
    found.add(level, ("uplink.portal", name), text, format_args!("open {url} in a browser of a host on that network"));
}
