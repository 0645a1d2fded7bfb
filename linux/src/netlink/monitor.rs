//! What the kernel announces: interfaces, addresses, neighbours, and the loss of what is ours.

use super::PROTOCOL;
use super::message::Told;
use super::route::KernelRoute;
use super::socket::Netlink;
use super::{address, neighbour, route, rule};
use crate::error::{Context, Error};
use crate::sys::{FilterStep, step};
use netlink_packet_route::AddressFamily;
use nix::errno::Errno;
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::input::{AddressEvent, LinkEvent, NeighbourEvent, RouteEvent};
use roam6_proto::contract::item::{Address, PolicyRule, ProxyNeighbour};
use std::os::fd::{AsFd, BorrowedFd};

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
pub(crate) enum News {
    Link(LinkEvent, u32),
    LinkGone(LinkId),
    /// With what of ours was removed, if it was.
    Address(AddressEvent, Option<Address>),
    Neighbour(NeighbourEvent),
    /// A default route that is neither ours nor advertised.
    DefaultRoute(RouteEvent),
    RouteGone(KernelRoute),
    /// A route that is not ours came, went or changed.
    Rerouted,
    RuleGone(PolicyRule),
    ProxyGone(ProxyNeighbour),
    /// The kernel had more to tell than we had room for: read everything anew.
    Lost,
}

/// Hears the announcements.
pub(crate) struct Monitor {
    netlink: Netlink,
}

impl Monitor {
    pub(crate) fn open() -> Result<Monitor, Error> {
        let netlink = Netlink::listen(&GROUPS)?;
        crate::sys::attach_filter(&netlink, &WITHOUT_OUR_ROUTES).context("netlink announcements")?;
        Ok(Monitor { netlink })
    }

    /// What one datagram announces; nothing if there is none.
    pub(crate) fn hear(&mut self) -> Result<Vec<News>, Error> {
        match self.netlink.hear() {
            Ok(messages) => Ok(messages.iter().filter_map(read).collect()),
            Err(Errno::ENOBUFS) => Ok(vec![News::Lost]),
            Err(error) => Err(Error::new("netlink announcements", error.desc())),
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

/// Passes all announcements but those of routes that we have put, told back to us one by one.
const WITHOUT_OUR_ROUTES: [FilterStep; 6] = {
    const TYPE: u32 = 4;
    const ROUTE_PROTOCOL: u32 = 16 + 5;
    [
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, TYPE),
        // Filters load in network order; the header is in the machine's.
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, libc::RTM_NEWROUTE.to_be() as u32),
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, ROUTE_PROTOCOL),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, PROTOCOL as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ]
};

/// What a message tells; `None` if it does not concern us.
pub(crate) fn read(message: &Told) -> Option<News> {
    match message {
        Told::NewLink(message) => message.event().map(|event| News::Link(event, message.carrier_losses)),
        Told::DelLink(message) => message.event().map(|event| News::LinkGone(event.link)),
        Told::NewAddress(message) => address::event(message, false).map(|event| News::Address(event, None)),
        Told::DelAddress(message) => {
            address::event(message, true).map(|event| News::Address(event, address::read(message)))
        }
        Told::NewNeighbour(message) => neighbour::event(message).map(News::Neighbour),
        Told::DelNeighbour(message) => neighbour::read_proxy(message).map(News::ProxyGone),
        // Paths over IPv4 leave by sockets of the kernel's.
        Told::NewRoute(message) if message.header.address_family == AddressFamily::Inet => None,
        Told::NewRoute(message) => Some(route::default_route(message, true).map_or(News::Rerouted, News::DefaultRoute)),
        Told::DelRoute(message) if message.header.address_family == AddressFamily::Inet => {
            KernelRoute::read(message).map(News::RouteGone)
        }
        Told::DelRoute(message) => {
            let default_route = || route::default_route(message, false).map_or(News::Rerouted, News::DefaultRoute);
            Some(KernelRoute::read(message).map_or_else(default_route, News::RouteGone))
        }
        Told::DelRule(message) => rule::read(message).map(News::RuleGone),
        Told::NewRule(_) => None,
    }
}
