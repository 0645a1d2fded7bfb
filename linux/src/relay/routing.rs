//! The rule and the routes that deliver marked packets to this host, whatever their destination.

use super::sockets::MARK;
use crate::error::Error;
use crate::netlink::lookup::kernel_route;
use crate::netlink::message::Message;
use crate::netlink::rule;
use crate::netlink::socket::{Netlink, Request};
use crate::netlink::{PROTOCOL, family};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::RuleMessage;
use roam6_proto::base::ids::LinkId;
use std::net::Ipv6Addr;

/// The table of these routes, beside those of mobile routers.
const TABLE: u32 = 6_274_990;
/// Before all rules of roam6, which discard packets with addresses of mobile networks from uplinks.
const PRIORITY: u32 = 980;
/// Not the protocol number of the daemon's items, which it removes if it has not put them.
const RELAY_PROTOCOL: u8 = PROTOCOL + 1;

/// Routing, and what it knows of addresses.
pub(super) struct Routing {
    netlink: Netlink,
}

impl Routing {
    /// Installs the rule and the routes.
    pub(super) fn install() -> Result<Routing, Error> {
        let mut netlink = Netlink::open()?;
        let requests: Vec<Request> = family::BOTH
            .into_iter()
            .flat_map(|family| {
                [
                    Request::replace(Message::new(libc::RTM_NEWROUTE, &route(family))),
                    Request::add(Message::new(libc::RTM_NEWRULE, &rule(family))),
                ]
            })
            .collect();
        let results = netlink.execute(&requests);
        let failed = results.into_iter().find_map(Result::err);
        failed.map_or(Ok(Routing { netlink }), |why| Err(Error::new("routing of relayed packets", why)))
    }

    /// Removes them.
    pub(super) fn remove(&mut self) {
        for family in family::BOTH {
            self.netlink.execute(&[
                Request::remove(Message::new(libc::RTM_DELRULE, &rule(family))),
                Request::remove(Message::new(libc::RTM_DELROUTE, &route(family))),
            ]);
        }
    }

    /// Whether packets to this address are for this host.
    pub(super) fn is_own(&mut self, address: Ipv6Addr) -> bool {
        let local = |kind| matches!(kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast);
        let found = kernel_route(&mut self.netlink, address, None, None).ok().flatten();
        found.is_some_and(|route| local(route.header.kind))
    }
}

fn rule(family: AddressFamily) -> RuleMessage {
    rule::of_mark(family, PRIORITY, (MARK, TABLE), RELAY_PROTOCOL)
}

fn route(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family,
        protocol: RouteProtocol::Other(RELAY_PROTOCOL),
        scope: RouteScope::Host,
        kind: RouteType::Local,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Table(TABLE), RouteAttribute::Oif(LinkId::LOOPBACK.0)];
    message
}
