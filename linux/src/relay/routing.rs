//! The rule and the routes that deliver marked packets to this host, whatever their destination; and those that stop packets of
//! encrypted bearers which no rule of the daemon leads into the tunnel: the relay outlives the daemon, and its bearers go on sending.

use super::sockets::MARK;
use crate::error::Error;
use crate::netlink::lookup::kernel_route;
use crate::netlink::message::Message;
use crate::netlink::rule;
use crate::netlink::socket::{Netlink, Request};
use crate::netlink::{AUXILIARY_PROTOCOL, family};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::RuleMessage;
use roam6_proto::base::ids::LinkId;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// The table of these routes, beside those of mobile routers.
const TABLE: u32 = 6_274_990;
/// Before all rules of roam6, which discard packets with addresses of mobile networks from uplinks.
const PRIORITY: u32 = 980;

/// The table without a way out.
const UNREACHABLE_TABLE: u32 = TABLE + 1;
/// Behind the rules of a mobile router that lead these packets into its tunnel.
const UNREACHABLE_PRIORITY: u32 = 1150;

/// Routing, and what it knows of addresses.
pub(super) struct Routing {
    netlink: Netlink,
    /// The sources of encrypted bearers.
    encrypted: Vec<Prefix>,
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
        let routing = Routing { netlink, encrypted: Vec::new() };
        failed.map_or(Ok(routing), |why| Err(Error::new("routing of relayed packets", why)))
    }

    /// Packets of this host from these sources take the tunnel, or none.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn keep_in_tunnel(&mut self, sources: Vec<Prefix>) -> Result<(), Error> {
        if sources == self.encrypted {
            return Ok(());
        }
        let begin = sources.iter().map(|source| Request::add(Message::new(libc::RTM_NEWRULE, &kept(*source))));
        let route = Request::replace(Message::new(libc::RTM_NEWROUTE, &unreachable()));
        let results = self.netlink.execute(&core::iter::once(route).chain(begin).collect::<Vec<_>>());
        let former = std::mem::replace(&mut self.encrypted, sources);
        self.release(former.into_iter().filter(|source| !self.encrypted.contains(source)).collect());
        let failed = results.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |why| Err(Error::new("routing of encrypted bearers", why)))
    }

    fn release(&mut self, sources: Vec<Prefix>) {
        let end = sources.into_iter().map(|source| Request::remove(Message::new(libc::RTM_DELRULE, &kept(source))));
        self.netlink.execute(&end.collect::<Vec<_>>());
    }

    /// Removes them.
    pub(super) fn remove(&mut self) {
        let encrypted = std::mem::take(&mut self.encrypted);
        self.release(encrypted);
        self.netlink.execute(&[Request::remove(Message::new(libc::RTM_DELROUTE, &unreachable()))]);
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
    rule::of_mark(family, PRIORITY, (MARK, TABLE), AUXILIARY_PROTOCOL)
}

/// The rule for packets of encrypted bearers.
fn kept(source: Prefix) -> RuleMessage {
    rule::of_source(UNREACHABLE_PRIORITY, (source, UNREACHABLE_TABLE), AUXILIARY_PROTOCOL)
}

fn unreachable() -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet6,
        protocol: RouteProtocol::Other(AUXILIARY_PROTOCOL),
        scope: RouteScope::Universe,
        kind: RouteType::Unreachable,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Table(UNREACHABLE_TABLE)];
    message
}

fn route(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family,
        protocol: RouteProtocol::Other(AUXILIARY_PROTOCOL),
        scope: RouteScope::Host,
        kind: RouteType::Local,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Table(TABLE), RouteAttribute::Oif(LinkId::LOOPBACK.0)];
    message
}
