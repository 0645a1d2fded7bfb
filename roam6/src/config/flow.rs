//! The `[[mobile_router.flow]]` tables: flows with an uplink of their own (RFC 6089), and DSCP as people write them.

use super::spanned::Spanned;
use super::toml_reader::{FromToml, ParseError, TomlValue, from_toml, plain_toml};
use crate::config::source::Diagnostics;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::flow::{ALL_UPLINKS, FlowRule, FlowSelector, Replication, has_bonding};
use roam6_proto::contract::config::nemo::{IngressConfig, LoadSharing, UplinkConfig};
use roam6_wire::ip6::protocol;
use roam6_wire::relay::MAX_RULES;
use roam6_wire::{Bid, Prefix};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// Most flow rules of one mobile router: the BPF programs, and home agents, have room for no more.
const MAX_FLOWS: usize = 16;
/// In place of the name of an uplink: all at once, by the relay.
const ALL: &str = "all";

/// One flow, as written; a key that is left out matches all packets.
pub(crate) struct Flow {
    uplink: Option<UplinkNames>,
    id: Option<Spanned<u16>>,
    from: Option<Spanned<String>>,
    correspondent: Option<Prefix>,
    inside: Option<Prefix>,
    protocol: Option<Protocol>,
    correspondent_ports: Option<Ports>,
    inside_ports: Option<Ports>,
    dscp: Option<Dscp>,
    duplicate: Option<Spanned<u8>>,
}

/// One name, or several in an array.
struct UplinkNames(Vec<Spanned<String>>);

impl FromToml for UplinkNames {
    fn from_toml(value: TomlValue<'_>) -> Result<UplinkNames, ParseError> {
        match value.is_array() {
            true => Vec::from_toml(value).map(UplinkNames),
            false => Spanned::from_toml(value).map(|name| UplinkNames(vec![name])),
        }
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut super::toml_reader::explorer::Found) {
        String::explore(path, found);
    }
}

plain_toml!(Dscp, Protocol, Ports);

from_toml!(Flow {
    uplink,
    id,
    from,
    correspondent,
    inside,
    protocol,
    correspondent_ports,
    inside_ports,
    dscp,
    duplicate,
});

/// Checks the flows and makes rules of them; the order in the file is their priority. `is_bpf`: the data plane can replicate
/// packets. `home_agents`: their number.
pub(crate) fn validate(
    flows: Vec<Spanned<Flow>>,
    (uplinks, ingress): (&[UplinkConfig], &[IngressConfig]),
    (sharing, is_bpf, home_agents): (LoadSharing, bool, usize),
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
        check_family(flow, diagnostics);
        check_ingress(flow, ingress, diagnostics);
        let paths = flow_paths(flow, uplinks, (sharing, is_bpf), diagnostics);
        rules.extend(paths.map(|(bid, replication)| FlowRule {
            id,
            priority: position,
            selector: to_selector(flow),
            ingress: flow.from.as_deref().cloned(),
            bid,
            replication,
        }));
    }
    if has_bonding(&rules) {
        check_relay_rules(&flows, home_agents, diagnostics);
    }
    rules
}

/// The relay's rules are one for each home agent, whose own services are reached through the tunnel, and one for each flow that may
/// select TCP.
fn check_relay_rules(flows: &[Spanned<Flow>], home_agents: usize, diagnostics: &mut Diagnostics<'_>) {
    let room = MAX_RULES.saturating_sub(home_agents);
    let mut of_tcp =
        flows.iter().filter(|flow| flow.protocol.as_ref().is_none_or(|protocol| protocol.0 == protocol::TCP));
    if let Some(flow) = of_tcp.nth(room) {
        let what = format!("beside {home_agents} home agents, bonding has room for {room} flows that may select TCP");
        let hint = "merge some, or give flows of other protocols their protocol";
        diagnostics.report(flow.span(), what, hint);
    }
}

/// The path of a flow, 0 for the best one or for all, and how it is replicated.
fn flow_paths(
    flow: &Spanned<Flow>,
    uplinks: &[UplinkConfig],
    (sharing, is_bpf): (LoadSharing, bool),
    diagnostics: &mut Diagnostics<'_>,
) -> Option<(Bid, Option<Replication>)> {
    let names = flow.uplink.as_ref().map_or(&[][..], |names| &names.0);
    if let Some(all) = names.iter().find(|name| is_all(name, uplinks)) {
        check_bonding((flow, all), names.len(), is_bpf, diagnostics);
        return Some((ALL_UPLINKS, None));
    }
    let mut bids = Vec::new();
    for name in names {
        let bid = uplink_bid(name, uplinks, diagnostics)?;
        if bids.contains(&bid) {
            let what = format!("uplink {} is named twice", **name);
            return diagnostics.refuse(name.span(), what, "name each uplink once");
        }
        bids.push(bid);
    }
    match (&flow.duplicate, bids.as_slice()) {
        (None, [bid]) => Some((*bid, None)),
        (None, []) => diagnostics.refuse(flow.span(), "a flow without an uplink", "name one, or write duplicate = 2"),
        (None, _) => {
            let hint = "name one, or add duplicate = 2: then each packet is sent by both";
            diagnostics.refuse(flow.span(), "a flow with several uplinks", hint)
        }
        (Some(copies), bids) => {
            check_duplicate(copies, bids, uplinks, (sharing, is_bpf), diagnostics);
            let first = bids.first().copied().unwrap_or(Bid(0));
            Some((first, Some(Replication { second: bids.get(1).copied() })))
        }
    }
}

/// Whether packets can be sent twice: by two uplinks that are named, or that carry packets anyway.
fn check_duplicate(
    copies: &Spanned<u8>,
    named: &[Bid],
    uplinks: &[UplinkConfig],
    (sharing, is_bpf): (LoadSharing, bool),
    diagnostics: &mut Diagnostics<'_>,
) {
    if **copies != 2 {
        let what = format!("duplicate = {} is out of bounds", **copies);
        diagnostics.report(copies.span(), what, "write 2, or leave it out");
    } else if !is_bpf {
        let hint = "write data_plane = \"bpf\", or leave duplicate out";
        diagnostics.report(copies.span(), "the kernel's tunnel device sends no packet twice", hint);
    } else if named.len() > 2 {
        diagnostics.report(
            copies.span(),
            format!("two copies by {} uplinks", named.len()),
            "name two uplinks, or none",
        );
    }
    let best = uplinks.iter().filter(|uplink| uplink.weight > 0).map(|uplink| uplink.priority).min();
    let carries =
        |uplink: &&UplinkConfig| sharing == LoadSharing::Weighted && uplink.weight > 0 && Some(uplink.priority) == best;
    let others = uplinks.iter().filter(carries).filter(|uplink| !named.contains(&uplink.bid)).count();
    if sharing != LoadSharing::Single && named.len() < 2 && named.len() + others < 2 {
        let known: Vec<String> = uplinks.iter().take(2).map(|uplink| format!("\"{}\"", uplink.interface)).collect();
        let hint = format!("name both: uplink = [{}], or write sharing = \"weights\"", known.join(", "));
        diagnostics.report(copies.span(), "no second uplink carries packets", &hint);
    }
}

/// Whether all uplinks are meant, and not one of this name.
fn is_all(name: &Spanned<String>, uplinks: &[UplinkConfig]) -> bool {
    **name == ALL && uplinks.iter().all(|uplink| uplink.interface != ALL)
}

/// Only TCP connections can be divided among uplinks.
fn check_bonding(
    (flow, all): (&Spanned<Flow>, &Spanned<String>),
    names: usize,
    is_bpf: bool,
    diagnostics: &mut Diagnostics<'_>,
) {
    if flow.protocol.as_ref().is_none_or(|protocol| protocol.0 != protocol::TCP) {
        let hint = "add protocol = \"tcp\", or name one uplink";
        diagnostics.report(all.span(), "only TCP connections use all uplinks at once", hint);
    } else if names > 1 {
        diagnostics.report(all.span(), "an uplink besides all", "write uplink = \"all\", or the names of uplinks");
    } else if let Some(copies) = &flow.duplicate {
        let hint = "leave duplicate out, or name two uplinks";
        diagnostics.report(copies.span(), "a flow that is both divided among uplinks and duplicated", hint);
    } else if cfg!(not(feature = "relay")) {
        let hint = "install a build with it, or name one uplink";
        diagnostics.report(all.span(), "this build has no relay (feature \"relay\")", hint);
    } else if !is_bpf {
        let hint = "write data_plane = \"bpf\", or name one uplink";
        diagnostics.report(all.span(), "the kernel's tunnel device hands no connection to the relay", hint);
    }
}

fn uplink_bid(name: &Spanned<String>, uplinks: &[UplinkConfig], diagnostics: &mut Diagnostics<'_>) -> Option<Bid> {
    let found = uplinks.iter().find(|uplink| uplink.interface == **name).map(|uplink| uplink.bid);
    found.or_else(|| {
        let known: Vec<&str> = uplinks.iter().map(|uplink| uplink.interface.as_str()).collect();
        let hint = format!("name one of: {}", known.join(", "));
        diagnostics.refuse(name.span(), format!("no uplink {}", **name), &hint)
    })
}

/// A selector is of one family (RFC 6088 §3).
fn check_family(flow: &Spanned<Flow>, diagnostics: &mut Diagnostics<'_>) {
    if let (Some(correspondent), Some(inside)) = (flow.correspondent, flow.inside)
        && correspondent.is_ipv4() != inside.is_ipv4()
    {
        let what = format!("correspondent {correspondent} and inside {inside} are of different families");
        diagnostics.report(flow.span(), what, "write both for IPv6, or both for IPv4");
    }
}

/// The home agent knows no ingress interface; it gets the prefix of the interface, which is one of IPv6.
fn check_ingress(flow: &Spanned<Flow>, ingress: &[IngressConfig], diagnostics: &mut Diagnostics<'_>) {
    let Some(from) = &flow.from else { return };
    if ingress.iter().all(|known| known.interface != **from) {
        let known: Vec<&str> = ingress.iter().map(|known| known.interface.as_str()).collect();
        let hint = match known.is_empty() {
            true => "add a [[mobile_router.ingress]] table for it".to_owned(),
            false => format!("name one of: {}", known.join(", ")),
        };
        diagnostics.report(from.span(), format!("no ingress interface {}", **from), &hint);
    }
    if flow.inside.is_none() && flow.correspondent.is_some_and(Prefix::is_ipv4) {
        let hint = "add inside = \"10.0.1.0/24\", the IPv4 prefix behind the interface";
        diagnostics.report(from.span(), "the home agent cannot tell IPv4 packets to this interface from others", hint);
    }
}

fn to_selector(flow: &Flow) -> FlowSelector {
    FlowSelector {
        source: flow.correspondent,
        destination: flow.inside,
        protocol: flow.protocol.as_ref().map(|protocol| protocol.0),
        source_ports: flow.correspondent_ports.as_ref().map(|ports| ports.0),
        destination_ports: flow.inside_ports.as_ref().map(|ports| ports.0),
        dscp: flow.dscp.map(|dscp| dscp.0),
    }
}

/// A differentiated services code point: a name of RFC 2474, RFC 2597, RFC 3246, RFC 5865 or RFC 8622, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dscp(pub(crate) u8);

impl Dscp {
    /// The highest number.
    const MAX: u8 = 63;

    fn of_number(number: impl TryInto<u8>) -> Option<Dscp> {
        number.try_into().ok().filter(|number| *number <= Dscp::MAX).map(Dscp)
    }

    fn parse(text: &str) -> Option<Dscp> {
        let digits = |name: &str| text.strip_prefix(name)?.chars().map(|letter| letter.to_digit(10)).collect();
        let (class_selector, assured): (Option<Vec<u32>>, Option<Vec<u32>>) = (digits("cs"), digits("af"));
        match (text, class_selector.as_deref(), assured.as_deref()) {
            ("df", ..) => Some(Dscp(0)),
            ("le", ..) => Some(Dscp(1)),
            ("va", ..) => Some(Dscp(44)),
            ("ef", ..) => Some(Dscp(46)),
            (_, Some([class @ 0..=7]), _) => Dscp::of_number(class << 3),
            (_, _, Some([class @ 1..=4, precedence @ 1..=3])) => Dscp::of_number(class << 3 | precedence << 1),
            _ => Dscp::of_number(text.parse::<u8>().ok()?),
        }
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dscp, D::Error> {
        deserializer.deserialize_any(DscpVisitor)
    }
}

struct DscpVisitor;

impl Visitor<'_> for DscpVisitor {
    type Value = Dscp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DSCP: \"ef\", \"af41\", \"cs5\", or 0 to 63")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Dscp, E> {
        Dscp::of_number(number).ok_or_else(not_a_dscp)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Dscp, E> {
        Dscp::parse(text).ok_or_else(not_a_dscp)
    }
}

fn not_a_dscp<E: Error>() -> E {
    E::custom("not a DSCP; write a name, as \"ef\", \"af41\" or \"cs5\", or a number from 0 to 63")
}

/// `"tcp"`, `"udp"`, `"icmp"`, `"icmp6"`, `"sctp"`, or a number as text.
struct Protocol(u8);

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Protocol, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = match text.as_str() {
            "tcp" => Some(protocol::TCP),
            "udp" => Some(protocol::UDP),
            "icmp" => Some(1),
            "icmp6" => Some(protocol::ICMPV6),
            "sctp" => Some(132),
            other => other.parse().ok(),
        };
        number
            .map(Protocol)
            .ok_or_else(|| D::Error::custom("not a protocol; write tcp, udp, icmp, icmp6, sctp or a number"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dscp_by_name_and_number() {
        let known = [
            ("ef", 46),
            ("va", 44),
            ("le", 1),
            ("df", 0),
            ("cs0", 0),
            ("cs7", 56),
            ("af11", 10),
            ("af43", 38),
            ("46", 46),
            ("63", 63),
        ];
        for (text, number) in known {
            assert_eq!(Dscp::parse(text), Some(Dscp(number)), "{text}");
        }
        for text in ["", "EF", "cs", "cs8", "cs11", "af", "af1", "af14", "af51", "af111", "64", "-1", "4.6", "0x2e"] {
            assert_eq!(Dscp::parse(text), None, "{text}");
        }
        for number in [-1, 64, 256, i64::MAX] {
            assert_eq!(Dscp::of_number(number), None, "{number}");
        }
    }
}
