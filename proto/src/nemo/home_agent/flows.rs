//! Flow bindings: applies the Flow Identification and Flow Summary options of an update. RFC 6089 §5.3; selectors of
//! RFC 6088 as far as they are five-tuples, with a DSCP.

use crate::contract::config::flow::{FlowRule, FlowSelector, Replication};
use roam6_wire::mobility::{self, FieldRange, FlowIdentification, TrafficSelector};
use roam6_wire::{Bid, Fid, Prefix};
use std::net::Ipv6Addr;

/// Maximum flow rules of one home address.
pub(super) const MAX_FLOWS: usize = 16;

const ACCEPTED: u8 = 0;

/// The resulting rules, and an option with the status of each option of the update.
///
/// Rules that the update does not name end (RFC 6089 §5.3.4). `bids` are the bindings once the update is in force;
/// `replicates`: both ends replicate packets and eliminate copies.
pub(super) fn merge_flows(
    known: &[FlowRule],
    requested: &[FlowIdentification],
    kept: &[Fid],
    (bids, replicates): (&[Bid], bool),
) -> (Vec<FlowRule>, Vec<FlowIdentification>) {
    let still = |rule: &FlowRule| FlowRule { replication: rule.replication.filter(|_| replicates), ..rule.clone() };
    let mut rules: Vec<FlowRule> = known.iter().filter(|rule| kept.contains(&Fid(rule.id))).map(still).collect();
    let mut statuses = Vec::new();
    // A flow identifier that occurs twice rejects all options (RFC 6089 §5.3.2).
    let repeated = requested.iter().any(|one| requested.iter().filter(|other| other.fid == one.fid).count() > 1);
    for option in requested {
        let old = known.iter().find(|rule| Fid(rule.id) == option.fid);
        rules.retain(|rule| Fid(rule.id) != option.fid);
        let rule =
            if repeated { Err(FlowIdentification::REJECTED) } else { parse_rule(option, old, (bids, replicates)) };
        let rule = rule.and_then(|rule| match rules.iter().any(|other| other.priority == rule.priority) {
            true => Err(FlowIdentification::MALFORMED),
            false if rules.len() >= MAX_FLOWS => Err(FlowIdentification::REJECTED),
            false => Ok(rule),
        });
        let status = rule.as_ref().err().copied().unwrap_or(ACCEPTED);
        // A rejected option leaves the former rule in place.
        rules.extend(rule.ok().or_else(|| old.map(still)));
        statuses.push(FlowIdentification { status, selector: None, ..option.clone() });
    }
    let mut missing: Vec<Fid> = kept.iter().filter(|fid| !known.iter().any(|rule| rule.id == fid.0)).copied().collect();
    missing.sort();
    missing.dedup();
    missing.truncate(MAX_FLOWS);
    statuses.truncate(MAX_FLOWS);
    statuses.extend(missing.into_iter().map(|fid| FlowIdentification {
        fid,
        priority: 0,
        status: FlowIdentification::FID_NOT_FOUND,
        bids: Vec::new(),
        selector: None,
    }));
    rules.truncate(MAX_FLOWS);
    (rules, statuses)
}

/// RFC 6089 §5.3.2.1 for a new flow, §5.3.2.2 for a known one.
fn parse_rule(
    option: &FlowIdentification,
    old: Option<&FlowRule>,
    (bids, replicates): (&[Bid], bool),
) -> Result<FlowRule, u8> {
    if option.fid == Fid(0) || option.priority == 0 {
        return Err(FlowIdentification::MALFORMED);
    }
    let selector = match (&option.selector, old) {
        (Some(TrafficSelector::V6(selector)), _) => {
            five_tuple(selector, |address| address).ok_or(FlowIdentification::REJECTED)?
        }
        (Some(TrafficSelector::V4(selector)), _) => {
            let tuple = five_tuple(selector, |address| address.to_ipv6_mapped());
            let tuple = tuple.ok_or(FlowIdentification::REJECTED)?;
            // A selector without addresses is limited to IPv4 too.
            FlowSelector { source: tuple.source.or(Some(Prefix::ALL_IPV4)), ..tuple }
        }
        (Some(_), _) => return Err(FlowIdentification::SELECTOR_NOT_SUPPORTED),
        (None, Some(old)) => old.selector.clone(),
        (None, None) => return Err(FlowIdentification::MALFORMED),
    };
    let (bid, replication) = match (option.bids.as_slice(), old) {
        // The BID need not be registered at present.
        ([], Some(old)) => (old.bid, old.replication.filter(|_| replicates)),
        ([], None) => return Err(FlowIdentification::MALFORMED),
        // Each binding gets a copy of the packets; the mobile router has to eliminate the second.
        ([_, second], _) if !replicates || option.bids.first() == Some(second) => {
            return Err(FlowIdentification::REJECTED);
        }
        ([_, _, _, ..], _) => return Err(FlowIdentification::REJECTED),
        (named, _) if named.iter().any(|bid| !bids.contains(bid)) => return Err(FlowIdentification::BID_NOT_FOUND),
        ([bid, second @ ..], _) => (*bid, second.first().map(|second| Replication { second: Some(*second) })),
    };
    Ok(FlowRule { id: option.fid.0, priority: option.priority, selector, ingress: None, bid, replication })
}

/// The selector as a five-tuple with a DSCP; `None` if it needs more fields.
fn five_tuple<A>(selector: &mobility::Selector<A>, wide: impl Fn(A) -> Ipv6Addr) -> Option<FlowSelector>
where
    A: Copy,
{
    if selector.spi.is_some() || selector.flow_label.is_some() {
        return None;
    }
    let prefix = |span: FieldRange<A>| prefix_of_range(wide(span.first), wide(span.last));
    // The ECN field does not count (RFC 6088 §3.1).
    let dscp = |span: FieldRange<u8>| (span.first >> 2 == span.last >> 2).then_some(span.first >> 2);
    let ports = |span: FieldRange<u16>| (span.first <= span.last).then_some((span.first, span.last));
    Some(FlowSelector {
        source: convert_field(selector.source, prefix)?,
        destination: convert_field(selector.destination, prefix)?,
        protocol: convert_field(selector.protocol, |span| (span.first == span.last).then_some(span.first))?,
        source_ports: convert_field(selector.source_port, ports)?,
        destination_ports: convert_field(selector.destination_port, ports)?,
        dscp: convert_field(selector.traffic_class, dscp)?,
    })
}

/// `Some(None)` for an absent field, `None` for one that cannot be represented.
fn convert_field<T, U>(field: Option<T>, read: impl FnOnce(T) -> Option<U>) -> Option<Option<U>> {
    match field {
        None => Some(None),
        Some(field) => read(field).map(Some),
    }
}

/// The prefix from `first` to `last`.
fn prefix_of_range(first: Ipv6Addr, last: Ipv6Addr) -> Option<Prefix> {
    let length = u8::try_from((first.to_bits() ^ last.to_bits()).leading_zeros()).ok()?;
    let prefix = Prefix::new(first, length)?;
    let host_bits = u128::MAX.checked_shr(length.into()).unwrap_or(0);
    (prefix.address() == first && first.to_bits() | host_bits == last.to_bits()).then_some(prefix)
}
