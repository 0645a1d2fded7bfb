//! The bonding rules as the BPF programs and the other relay read them.

use nix::net::if_::if_nametoindex;
use roam6_proto::LinkId;
use roam6_proto::contract::config::flow::{ALL_UPLINKS, FlowRule, FlowSelector};
use roam6_proto::contract::item::TunnelFlow;
use roam6_wire::ip6::protocol;
use roam6_wire::relay::OfferedRule;
use roam6_wire::{Bid, Prefix};
use std::net::Ipv6Addr;

/// The binding identifier, of no path, of a rule for connections that are not relayed.
const NOT_BONDED: Bid = Bid(u16::MAX);

/// The rules for connections from the mobile network. Those of an interface that does not exist select nothing. The home agent's
/// own services are reached through the tunnel.
pub(super) fn outbound_rules(flows: &[FlowRule], home_agents: &[Ipv6Addr]) -> Vec<TunnelFlow> {
    let to_agent = |agent: &Ipv6Addr| TunnelFlow {
        selector: FlowSelector { destination: Some(Prefix::host(*agent)), ..FlowSelector::default() },
        ingress: None,
        bid: NOT_BONDED,
        replica: None,
    };
    let rule = |flow: &FlowRule| {
        let ingress = match &flow.ingress {
            Some(name) => Some(LinkId(if_nametoindex(name.as_str()).ok()?)),
            None => None,
        };
        Some(TunnelFlow { selector: flow.selector.reversed(), ingress, bid: bid_of(flow.is_bonded()), replica: None })
    };
    home_agents.iter().map(to_agent).chain(flows.iter().filter(|flow| may_select_tcp(flow)).filter_map(rule)).collect()
}

fn may_select_tcp(flow: &FlowRule) -> bool {
    flow.selector.protocol.is_none_or(|number| number == protocol::TCP)
}

/// The rule for connections to the mobile network, from the home agent's point of view. It knows no ingress interfaces.
pub(super) fn offered_rules(flow: &FlowRule) -> Option<OfferedRule> {
    let selector = &flow.selector;
    let all = || {
        if selector.source.or(selector.destination).is_some_and(Prefix::is_ipv4) {
            Prefix::ALL_IPV4
        } else {
            Prefix::ALL
        }
    };
    may_select_tcp(flow).then(|| OfferedRule {
        bonded: flow.is_bonded(),
        source: selector.source.unwrap_or_else(all),
        destination: selector.destination.unwrap_or_else(all),
        source_ports: selector.source_ports.unwrap_or((0, u16::MAX)),
        destination_ports: selector.destination_ports.unwrap_or((0, u16::MAX)),
        dscp: selector.dscp,
    })
}

/// The same as the BPF programs read it.
pub(super) fn to_flow(rule: &OfferedRule) -> TunnelFlow {
    let selector = FlowSelector {
        source: Some(rule.source),
        destination: Some(rule.destination),
        protocol: Some(protocol::TCP),
        source_ports: Some(rule.source_ports),
        destination_ports: Some(rule.destination_ports),
        dscp: rule.dscp,
    };
    TunnelFlow { selector, ingress: None, replica: None, bid: bid_of(rule.bonded) }
}

fn bid_of(bonded: bool) -> Bid {
    if bonded { ALL_UPLINKS } else { NOT_BONDED }
}
