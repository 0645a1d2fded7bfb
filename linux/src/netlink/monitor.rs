//! The kernel's announcements: interfaces, addresses, neighbours, and the removal of objects of roam6.

use super::PROTOCOL;
use super::route::KernelRoute;
use super::rtnl::RtnlMessage;
use super::socket::Netlink;
use super::{address, neighbour, route, rule};
use crate::error::{Context, Error};
use crate::sys::{FilterStep, filter_step};
use netlink_packet_route::AddressFamily;
use nix::errno::Errno;
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::input::{AddressEvent, LinkEvent, NeighbourEvent, RouteEvent};
use roam6_proto::contract::item::{PolicyRule, ProxyNeighbour};

const GROUPS: [u32; 8] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
];

/// One announcement.
#[derive(Debug)]
pub(crate) enum Announcement {
    Link(LinkEvent, u32),
    LinkRemoved(LinkId),
    Address(AddressEvent),
    Neighbour(NeighbourEvent),
    /// A default route that is neither of roam6 nor advertised.
    DefaultRoute(RouteEvent),
    RouteRemoved(KernelRoute),
    /// A route of others was added, removed or changed.
    RoutesChanged,
    RuleRemoved(PolicyRule),
    ProxyRemoved(ProxyNeighbour),
    /// Receive buffer overrun: all tables must be read again.
    Overrun,
}

/// Receives the announcements.
pub(crate) struct Monitor {
    netlink: Netlink,
}

impl Monitor {
    pub(crate) fn open() -> Result<Monitor, Error> {
        let netlink = Netlink::listen(&GROUPS)?;
        crate::sys::attach_filter(&netlink, &WITHOUT_OUR_ROUTES).context("netlink announcements")?;
        Ok(Monitor { netlink })
    }

    /// Reads one datagram of announcements; empty if there is none.
    ///
    /// # Errors
    /// The kernel's, but for an overrun, which is an announcement.
    pub(crate) fn receive(&mut self) -> Result<Vec<Announcement>, Error> {
        match self.netlink.receive_announcements() {
            Ok(messages) => Ok(messages.iter().filter_map(read).collect()),
            Err(Errno::ENOBUFS) => Ok(vec![Announcement::Overrun]),
            Err(error) => Err(Error::new("netlink announcements", error.desc())),
        }
    }
}

crate::sys::impl_as_fd!(Monitor, netlink);

/// Filters out the announcements of routes that roam6 itself has added, which the kernel echoes one by one.
const WITHOUT_OUR_ROUTES: [FilterStep; 6] = {
    const TYPE: u32 = 4;
    const ROUTE_PROTOCOL: u32 = 16 + 5;
    [
        filter_step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, TYPE),
        // Filters load words in network byte order; the header has the host's.
        filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, libc::RTM_NEWROUTE.to_be() as u32),
        filter_step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, ROUTE_PROTOCOL),
        filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, PROTOCOL as u32),
        filter_step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        filter_step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ]
};

/// The announcement of a message; `None` if it is irrelevant.
pub(crate) fn read(message: &RtnlMessage) -> Option<Announcement> {
    match message {
        RtnlMessage::NewLink(message) => message.event().map(|event| Announcement::Link(event, message.carrier_losses)),
        RtnlMessage::DelLink(message) => message.event().map(|event| Announcement::LinkRemoved(event.link)),
        RtnlMessage::NewAddress(message) => address::event(message, false).map(Announcement::Address),
        RtnlMessage::DelAddress(message) => address::event(message, true).map(Announcement::Address),
        RtnlMessage::NewNeighbour(message) => neighbour::event(message).map(Announcement::Neighbour),
        RtnlMessage::DelNeighbour(message) => neighbour::read_proxy(message).map(Announcement::ProxyRemoved),
        // Paths over IPv4 use sockets of the kernel, which routes them itself.
        RtnlMessage::NewRoute(message) if message.header.address_family == AddressFamily::Inet => None,
        RtnlMessage::NewRoute(message) => {
            Some(route::default_route(message, true).map_or(Announcement::RoutesChanged, Announcement::DefaultRoute))
        }
        RtnlMessage::DelRoute(message) if message.header.address_family == AddressFamily::Inet => {
            KernelRoute::read(message).map(Announcement::RouteRemoved)
        }
        RtnlMessage::DelRoute(message) => {
            let default_route =
                || route::default_route(message, false).map_or(Announcement::RoutesChanged, Announcement::DefaultRoute);
            Some(KernelRoute::read(message).map_or_else(default_route, Announcement::RouteRemoved))
        }
        RtnlMessage::DelRule(message) => rule::read(message).map(Announcement::RuleRemoved),
        RtnlMessage::NewRule(_) => None,
    }
}
