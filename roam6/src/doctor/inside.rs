//! Within the mobile router, and beyond the tunnel: forwarding, firewall, MTU, the way back, the mobile network.

use super::facts::{Facts, Probes};
use super::finding::{Findings, Level};
use crate::config::Firewall;
use crate::control::NodeState;
use roam6_linux::probe::Answer;
use roam6_linux::survey::{BaseChain, ChainHook, LEGACY};
use roam6_proto::contract::config::nemo::MobileRouterConfig;
use roam6_proto::contract::view::{LinkRole, LinkState};
use roam6_wire::Prefix;

/// The tunnel's interface.
const TUNNEL: &str = "nemo0";

pub(super) fn judge(facts: &Facts, router: &MobileRouterConfig, state: &NodeState, found: &mut Findings) {
    judge_forwarding(facts, found);
    let inside: Vec<&str> = router.ingress.iter().map(|ingress| ingress.interface.as_str()).collect();
    let bypass = facts.config.as_ref().is_ok_and(|config| config.firewall == Firewall::Bypass);
    if !bypass && !inside.is_empty() {
        judge_firewall(facts, &inside, &router.prefixes, found);
    }
    // The probes beyond the tunnel are sent from the address on an inside interface.
    judge_ingress(facts, router, state, found);
    match &facts.probes {
        Some(probes) if !found.has(Level::Fault) => judge_beyond(probes, router, found),
        _ => found.skip(&["mtu", "return", "inside.dns"]),
    }
}

pub(super) fn judge_forwarding(facts: &Facts, found: &mut Findings) {
    if facts.host.forwards {
        return found.ok(("forwarding", ""), "on");
    }
    let text = "net.ipv6.conf.all.forwarding is 0 although roam6 sets it";
    let cure =
        "another program sets it back (grep -r forwarding /etc/sysctl.d): sysctl -w net.ipv6.conf.all.forwarding=1";
    found.fault(("forwarding", ""), text, cure);
}

/// A chain that drops what no rule accepts, in a table that does not name the tunnel, an interface inside or a prefix.
pub(super) fn deaf_chain<'a>(facts: &'a Facts, interfaces: &[&str], prefixes: &[Prefix]) -> Option<&'a BaseChain> {
    let drops = facts.host.chains.iter().filter(|chain| chain.drops && chain.hook == ChainHook::Forward);
    drops.filter(|chain| chain.is_for_ipv6()).find(|chain| {
        let interface = |name: &&str| chain.names_interface(name);
        let prefix = |prefix: &Prefix| chain.names_prefix(*prefix);
        !chain.names_interface(TUNNEL) && !interfaces.iter().any(interface) && !prefixes.iter().any(prefix)
    })
}

fn judge_firewall(facts: &Facts, inside: &[&str], prefixes: &[Prefix], found: &mut Findings) {
    let Some(chain) = deaf_chain(facts, inside, prefixes) else {
        return found.ok(("firewall.forward", ""), "no chain drops all that is forwarded");
    };
    let (family, table, name) = (chain.family, &chain.table, &chain.chain);
    let inside = inside.first().copied().unwrap_or_default();
    let text = format!(
        "chain {family} {table} {name} drops what {inside} and {TUNNEL} exchange: none of its rules names them"
    );
    let cure = match family {
        LEGACY => {
            format!("ip6tables-legacy -I {name} -i {inside} -o {TUNNEL} -j ACCEPT, and back for what it shall let in")
        }
        _ => format!(
            "nft insert rule {family} {table} {name} iifname \"{inside}\" oifname \"{TUNNEL}\" accept, and back for what it \
             shall let in"
        ),
    };
    found.fault(("firewall.forward", inside), text, cure);
}

/// What probes found beyond the home agent.
fn judge_beyond(probes: &Probes, router: &MobileRouterConfig, found: &mut Findings) {
    if let (Some(small), Some((size, full))) = (&probes.inner, &probes.inner_full)
        && small.is_reply()
    {
        if full.is_reply() {
            found.ok(("mtu", ""), format_args!("packets of {size} octets pass the tunnel"));
        } else {
            let text = format!("packets of 1281..{size} octets are lost in the tunnel, and no router says so");
            let cure =
                "roam6 searches the size that passes (roam6 show tunnels); if this lasts: write mtu for the uplink";
            found.warn(("mtu", ""), text, cure);
        }
    }
    let silent = |answer: &Answer| !answer.is_reply();
    if let Some((target, answer)) =
        probes.beyond.as_ref().filter(|_| probes.inner.as_ref().is_some_and(Answer::is_reply))
    {
        let check = ("return", target.to_string());
        if silent(answer) {
            let prefixes = router.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let text = format!(
                "the tunnel works, and nothing beyond the home agent answers: is {prefixes} routed to it, and its forward chain open?"
            );
            found.fault((check.0, &check.1), text, "run roam6 doctor at the home agent");
        } else {
            found.ok((check.0, &check.1), "answers the mobile network");
        }
    }
    for (resolver, answer) in &probes.resolvers {
        let subject = resolver.to_string();
        if silent(answer) {
            let text = format!("resolver {resolver} does not answer the mobile network");
            found.warn(
                ("inside.dns", &subject),
                text,
                "name one that does: dns = [\"...\"] in [[mobile_router.ingress]]",
            );
        } else {
            found.ok(("inside.dns", &subject), "answers");
        }
    }
}

fn judge_ingress(facts: &Facts, router: &MobileRouterConfig, state: &NodeState, found: &mut Findings) {
    for ingress in &router.ingress {
        let name = ingress.interface.as_str();
        let link = state.view.links.iter().find(|link| link.name == name && link.role == LinkRole::Ingress);
        let check = ("inside.interface", name);
        match link.map(|link| &link.state) {
            Some(LinkState::NoInterface) => {
                let near = facts.host.similar_interface(name).map(|near| format!("; did you mean {near}?"));
                let text = format!("there is no inside interface {name}{}", near.unwrap_or_default());
                let cure = format!("correct its name in {}; this host has {}", facts.file, facts.host.names());
                found.fault(check, text, cure);
            }
            Some(LinkState::Down) => judge_down(facts, name, found),
            _ => judge_nodes(facts, name, ingress.prefix, found),
        }
        for hint in link.iter().flat_map(|link| &link.hints).filter(|hint| hint.contains("another router")) {
            let text = format!("{hint}: hosts inside may send their packets there");
            let cure = "end its Router Advertisements (on OpenWrt: uci set dhcp.lan.ra=disabled), or unplug it";
            found.warn(("inside.router", name), text, cure);
        }
    }
}

fn judge_down(facts: &Facts, name: &str, found: &mut Findings) {
    let is_up = facts.host.interface(name).is_some_and(|interface| interface.up);
    if is_up {
        let text = format!("{name} has no carrier: no host is connected");
        found.warn(("inside.interface", name), text, "connect a host or a switch");
    } else {
        found.fault(("inside.interface", name), format_args!("{name} is down"), format_args!("ip link set {name} up"));
    }
}

fn judge_nodes(facts: &Facts, name: &str, prefix: Prefix, found: &mut Findings) {
    let index = facts.host.interface(name).map(|interface| interface.index);
    let on_it = facts.host.neighbours.iter().filter(|neighbour| Some(neighbour.interface) == index);
    let count = on_it.filter(|neighbour| neighbour.reachable && prefix.contains(neighbour.address)).count();
    let text = match count {
        0 => format!("no host on {name} has been heard with an address of {prefix} lately"),
        1 => "1 host inside".to_owned(),
        _ => format!("{count} hosts inside"),
    };
    found.add(Level::Note, ("inside.node", name), text, "");
}
