//! The rtnetlink messages from the kernel that roam6 uses, by their names in rtnetlink(7).

use super::link::Link;
use netlink_packet_core::Parseable;
use netlink_packet_route::address::{AddressMessage, AddressMessageBuffer};
use netlink_packet_route::neighbour::{NeighbourMessage, NeighbourMessageBuffer};
use netlink_packet_route::route::{RouteMessage, RouteMessageBuffer};
use netlink_packet_route::rule::{RuleMessage, RuleMessageBuffer};

/// A message from the kernel.
#[derive(Debug, Clone)]
pub(crate) enum RtnlMessage {
    NewLink(Link),
    DelLink(Link),
    NewAddress(AddressMessage),
    DelAddress(AddressMessage),
    NewNeighbour(NeighbourMessage),
    DelNeighbour(NeighbourMessage),
    NewRoute(RouteMessage),
    DelRoute(RouteMessage),
    NewRule(RuleMessage),
    DelRule(RuleMessage),
}

/// Parses the body of a message, which its buffer checks.
macro_rules! parse {
    ($buffer:ident, $body:expr) => {
        Parseable::parse(&$buffer::new_checked(&$body).ok()?).ok()?
    };
}

impl RtnlMessage {
    /// Reads a body of the type `kind`; `None` if it is damaged or of a type that roam6 does not use.
    pub(super) fn read(kind: u16, body: &[u8]) -> Option<RtnlMessage> {
        Some(match kind {
            libc::RTM_NEWLINK => RtnlMessage::NewLink(Link::read(body)?),
            libc::RTM_DELLINK => RtnlMessage::DelLink(Link::read(body)?),
            libc::RTM_NEWADDR => RtnlMessage::NewAddress(parse!(AddressMessageBuffer, body)),
            libc::RTM_DELADDR => RtnlMessage::DelAddress(parse!(AddressMessageBuffer, body)),
            libc::RTM_NEWNEIGH => RtnlMessage::NewNeighbour(parse!(NeighbourMessageBuffer, body)),
            libc::RTM_DELNEIGH => RtnlMessage::DelNeighbour(parse!(NeighbourMessageBuffer, body)),
            libc::RTM_NEWROUTE => RtnlMessage::NewRoute(parse!(RouteMessageBuffer, body)),
            libc::RTM_DELROUTE => RtnlMessage::DelRoute(parse!(RouteMessageBuffer, body)),
            libc::RTM_NEWRULE => RtnlMessage::NewRule(parse!(RuleMessageBuffer, body)),
            libc::RTM_DELRULE => RtnlMessage::DelRule(parse!(RuleMessageBuffer, body)),
            _ => return None,
        })
    }
}
