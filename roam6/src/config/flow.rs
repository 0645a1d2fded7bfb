//! The `[[mobile_router.flow]]` tables: flows with an uplink of their own (RFC 6089).

use super::spanned::Spanned;
use crate::config::check;
use crate::config::source::Diagnostics;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::flow::{FlowRule, FlowSelector};
use roam6_proto::contract::config::nemo::{LoadSharing, UplinkConfig};
use roam6_wire::ip6::protocol;
use roam6_wire::{Bid, Prefix};
use serde::{Deserialize, Deserializer, de::Error};

/// Most flow rules of one mobile router.
const MAX_FLOWS: usize = 64;

/// One flow, as written; a key that is left out matches all packets.
#[derive(Deserialize)]
pub(crate) struct Flow {
    uplink: Spanned<String>,
    id: Option<Spanned<u16>>,
    correspondent: Option<Prefix>,
    inside: Option<Prefix>,
    protocol: Option<Protocol>,
    correspondent_ports: Option<Ports>,
    inside_ports: Option<Ports>,
}

/// Checks the flows and makes rules of them; the order in the file is their priority.
pub(crate) fn validate(
    flows: Vec<Spanned<Flow>>,
    uplinks: &[UplinkConfig],
    sharing: LoadSharing,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<FlowRule> {
    if let (Some(flow), LoadSharing::Single) = (flows.first(), sharing) {
        let hint = "add a second uplink, and sharing = \"standby\" or \"weights\"";
        diagnostics.report(flow.span(), "a flow needs several uplinks registered at once", hint);
    }
    diagnostics.limit(&flows, MAX_FLOWS, "flows", "merge some");
    let mut ids = VecSet::new();
    let mut rules = Vec::new();
    for (flow, position) in flows.iter().take(MAX_FLOWS).zip(1_u16..) {
        let id = flow.id.as_ref().map_or(position, |id| **id);
        let place = flow.id.as_ref().map_or(flow.span(), Spanned::span);
        if id == 0 {
            diagnostics.report(place, "flow id 0 is reserved (RFC 6089)", "number the flows from 1, or leave id out");
        } else if !ids.insert(id) {
            let hint = "give every flow an id of its own, or none";
            diagnostics.report(place, format!("flow id {id} is used twice"), hint);
        }
        check::ipv6_prefixes(flow.correspondent.iter().chain(&flow.inside), flow.span(), diagnostics);
        let bid = uplink_bid(&flow.uplink, uplinks, diagnostics);
        rules.extend(bid.map(|bid| FlowRule { id, priority: position, selector: to_selector(flow), bid }));
    }
    rules
}

fn uplink_bid(name: &Spanned<String>, uplinks: &[UplinkConfig], diagnostics: &mut Diagnostics<'_>) -> Option<Bid> {
    let found = uplinks.iter().find(|uplink| uplink.interface == **name).map(|uplink| uplink.bid);
    found.or_else(|| {
        let known: Vec<&str> = uplinks.iter().map(|uplink| uplink.interface.as_str()).collect();
        let hint = format!("name one of: {}", known.join(", "));
        diagnostics.refuse(name.span(), format!("no uplink {}", **name), &hint)
    })
}

fn to_selector(flow: &Flow) -> FlowSelector {
    FlowSelector {
        source: flow.correspondent,
        destination: flow.inside,
        protocol: flow.protocol.as_ref().map(|protocol| protocol.0),
        source_ports: flow.correspondent_ports.as_ref().map(|ports| ports.0),
        destination_ports: flow.inside_ports.as_ref().map(|ports| ports.0),
    }
}

/// `"tcp"`, `"udp"`, `"icmp6"`, `"sctp"`, or a number as text.
struct Protocol(u8);

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Protocol, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = match text.as_str() {
            "tcp" => Some(protocol::TCP),
            "udp" => Some(protocol::UDP),
            "icmp6" => Some(protocol::ICMPV6),
            "sctp" => Some(132),
            other => other.parse().ok(),
        };
        number.map(Protocol).ok_or_else(|| D::Error::custom("not a protocol; write tcp, udp, icmp6, sctp or a number"))
    }
}

/// `"443"` or `"5000-5999"`.
struct Ports((u16, u16));

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ports, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let ports = first.trim().parse().ok().zip(last.trim().parse().ok());
        let ports = ports.filter(|(first, last): &(u16, u16)| first <= last);
        ports.map(Ports).ok_or_else(|| D::Error::custom("not a range of ports; write \"443\" or \"5000-5999\""))
    }
}
