//! Routing policy rules in rtnetlink.

use super::message::Message;
use super::socket::Request;
use super::{PROTOCOL, family};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleHeader, RuleMessage};
use roam6_proto::contract::item::{PolicyRule, RouteTable};
use roam6_wire::Prefix;

/// A packet without a source yet matches if the source it would get by this rule's table does (`FIB_RULE_FIND_SADDR`),
/// so that a mobile router's own programs take the route that fits its addresses.
const FIND_SOURCE: RuleFlags = RuleFlags::from_bits_retain(0x1_0000);

/// Adds `rule`.
pub(crate) fn put(rule: &PolicyRule) -> Request {
    Request::add(Message::new(libc::RTM_NEWRULE, &write(rule)))
}

/// Removes `rule`.
pub(crate) fn remove(rule: &PolicyRule) -> Request {
    Request::remove(Message::new(libc::RTM_DELRULE, &write(rule)))
}

/// A rule that leads packets with a mark to a table. `protocol` is a number of its own: the rule is none of the items of engines.
#[cfg(feature = "bpf")]
pub(crate) fn of_mark(family: AddressFamily, priority: u32, (mark, table): (u32, u32), protocol: u8) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header = RuleHeader { family, action: RuleAction::ToTable, ..RuleHeader::default() };
    message.attributes = vec![
        RuleAttribute::Priority(priority),
        RuleAttribute::FwMark(mark),
        RuleAttribute::FwMask(u32::MAX),
        RuleAttribute::Table(table),
        RuleAttribute::Protocol(RouteProtocol::Other(protocol)),
    ];
    message
}

/// A rule that leads packets of this host from a source to a table. `protocol` as above. Packets without a source yet do not match.
#[cfg(feature = "relay")]
pub(crate) fn of_source(priority: u32, (source, table): (Prefix, u32), protocol: u8) -> RuleMessage {
    let (family, address, src_len) = family::to_kernel(source);
    let mut message = RuleMessage::default();
    message.header = RuleHeader { family, src_len, action: RuleAction::ToTable, ..RuleHeader::default() };
    message.attributes = vec![
        RuleAttribute::Priority(priority),
        RuleAttribute::Source(address),
        RuleAttribute::Iifname("lo".to_owned()),
        RuleAttribute::Table(table),
        RuleAttribute::Protocol(RouteProtocol::Other(protocol)),
    ];
    message
}

/// Dumps all rules of one family.
pub(crate) fn dump(family: AddressFamily) -> Message {
    let mut message = RuleMessage::default();
    message.header.family = family;
    Message::new(libc::RTM_GETRULE, &message)
}

/// Reads a rule; `None` if it is not of roam6.
pub(crate) fn read(message: &RuleMessage) -> Option<PolicyRule> {
    let header = &message.header;
    let mut ours = false;
    let mut rule = PolicyRule {
        priority: 0,
        source: Prefix::ALL,
        destination: Prefix::ALL,
        iif: None,
        table: RouteTable(u32::from(header.table)),
    };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)) => ours = true,
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Iifname(name) => rule.iif = Some(name.clone()),
            RuleAttribute::Table(table) => rule.table = RouteTable(*table),
            RuleAttribute::Source(address) => rule.source = family::prefix(*address, header.src_len)?,
            RuleAttribute::Destination(address) => rule.destination = family::prefix(*address, header.dst_len)?,
            _ => {}
        }
    }
    (ours && header.family == family_of(&rule)).then_some(rule)
}

/// A rule without prefixes is of IPv6.
fn family_of(rule: &PolicyRule) -> AddressFamily {
    let ipv4 = rule.source.is_ipv4() || rule.destination.is_ipv4();
    if ipv4 { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn write(rule: &PolicyRule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let ((_, source, src_len), (_, destination, dst_len)) =
        (family::to_kernel(rule.source), family::to_kernel(rule.destination));
    message.header = RuleHeader {
        family: family_of(rule),
        dst_len,
        src_len,
        table: u8::try_from(rule.table.0).unwrap_or(0),
        action: RuleAction::ToTable,
        flags: FIND_SOURCE,
        ..RuleHeader::default()
    };
    message.attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::Table(rule.table.0),
        RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)),
    ];
    message.attributes.extend(rule.iif.clone().map(RuleAttribute::Iifname));
    if rule.source != Prefix::ALL {
        message.attributes.push(RuleAttribute::Source(source));
    }
    if rule.destination != Prefix::ALL {
        message.attributes.push(RuleAttribute::Destination(destination));
    }
    message
}
