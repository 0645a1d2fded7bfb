//! Routing policy rules as the kernel holds them.

use super::PROTOCOL;
use super::message::Message;
use super::socket::Request;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleHeader, RuleMessage};
use roam6_proto::plan::{Rule, Table};
use roam6_wire::Prefix;
use std::net::{IpAddr, Ipv6Addr};

/// A packet whose source is not chosen yet matches if the source it would get by this rule's table does
/// (`FIB_RULE_FIND_SADDR`), so that a mobile router's own programs find the way that fits its addresses.
const FIND_SOURCE: RuleFlags = RuleFlags::from_bits_retain(0x1_0000);

/// Adds `rule`.
pub(crate) fn put(rule: &Rule) -> Request {
    Request::add(Message::new(libc::RTM_NEWRULE, &write(rule)))
}

/// Removes `rule`.
pub(crate) fn remove(rule: &Rule) -> Request {
    Request::remove(Message::new(libc::RTM_DELRULE, &write(rule)))
}

/// Asks for all rules.
pub(crate) fn dump() -> Message {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet6;
    Message::new(libc::RTM_GETRULE, &message)
}

/// Reads a rule; `None` if it is not ours.
pub(crate) fn read(message: &RuleMessage) -> Option<Rule> {
    let header = &message.header;
    let mut ours = false;
    let mut rule = Rule {
        priority: 0,
        source: Prefix::new(Ipv6Addr::UNSPECIFIED, header.src_len)?,
        destination: Prefix::new(Ipv6Addr::UNSPECIFIED, header.dst_len)?,
        incoming: None,
        table: Table(u32::from(header.table)),
    };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)) => ours = true,
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Iifname(name) => rule.incoming = Some(name.clone()),
            RuleAttribute::Table(table) => rule.table = Table(*table),
            RuleAttribute::Source(IpAddr::V6(address)) => rule.source = Prefix::new(*address, header.src_len)?,
            RuleAttribute::Destination(IpAddr::V6(address)) => {
                rule.destination = Prefix::new(*address, header.dst_len)?;
            }
            _ => {}
        }
    }
    (ours && header.family == AddressFamily::Inet6).then_some(rule)
}

fn write(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header = RuleHeader {
        family: AddressFamily::Inet6,
        dst_len: rule.destination.length(),
        src_len: rule.source.length(),
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
    message.attributes.extend(rule.incoming.clone().map(RuleAttribute::Iifname));
    if rule.source != Prefix::ALL {
        message.attributes.push(RuleAttribute::Source(IpAddr::V6(rule.source.address())));
    }
    if rule.destination != Prefix::ALL {
        message.attributes.push(RuleAttribute::Destination(IpAddr::V6(rule.destination.address())));
    }
    message
}
