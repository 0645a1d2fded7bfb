//! Network interfaces as the kernel shows them.

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use roam6_proto::input::{LinkEvent, LinkId};
use roam6_wire::LinkAddress;

/// Asks for all interfaces.
pub(crate) fn dump() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetLink(LinkMessage::default())
}

/// Asks for one interface.
pub(crate) fn question(link: LinkId) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = link.0;
    RouteNetlinkMessage::GetLink(message)
}

/// What is true of an interface now; `None` for messages about something else than the interface itself.
pub(crate) fn event(message: &LinkMessage) -> Option<LinkEvent> {
    if message.header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let mut event = LinkEvent {
        link: LinkId(message.header.index),
        name: String::new(),
        address: None,
        up: message.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        mtu: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => event.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => event.mtu = *mtu,
            LinkAttribute::Address(octets) => {
                event.address = <[u8; 6]>::try_from(octets.as_slice()).ok().map(LinkAddress);
            }
            _ => {}
        }
    }
    (!event.name.is_empty()).then_some(event)
}

/// How often the interface has lost its carrier.
pub(crate) fn carrier_losses(message: &LinkMessage) -> u32 {
    let count = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::CarrierDownCount(count) => Some(*count),
        _ => None,
    });
    count.unwrap_or_default()
}
