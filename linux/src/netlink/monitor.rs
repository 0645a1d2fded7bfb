//! What the kernel announces: interfaces, addresses, neighbours, and the loss of what is ours.

use super::route::KernelRoute;
use super::socket::Netlink;
use super::{address, link, neighbour, rule};
use crate::error::Error;
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use roam6_proto::input::{AddressEvent, LinkEvent, LinkId, NeighbourEvent};
use roam6_proto::plan::{Address, Proxy, Rule};
use std::os::fd::{AsFd, BorrowedFd};

const GROUPS: [u32; 5] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV6_RULE,
];

/// One announcement.
#[derive(Debug)]
pub(crate) enum News {
    Link(LinkEvent),
    LinkGone(LinkId),
    /// With what of ours was removed, if it was.
    Address(AddressEvent, Option<Address>),
    Neighbour(NeighbourEvent),
    RouteGone(KernelRoute),
    RuleGone(Rule),
    ProxyGone(Proxy),
    /// The kernel had more to tell than we had room for: read everything anew.
    Lost,
}

/// Hears the announcements.
pub(crate) struct Monitor {
    netlink: Netlink,
}

impl Monitor {
    pub(crate) fn open() -> Result<Monitor, Error> {
        Ok(Monitor { netlink: Netlink::listen(&GROUPS)? })
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

/// What a message tells; `None` if it does not concern us.
pub(crate) fn read(message: &RouteNetlinkMessage) -> Option<News> {
    match message {
        RouteNetlinkMessage::NewLink(message) => link::event(message).map(News::Link),
        RouteNetlinkMessage::DelLink(message) => link::event(message).map(|event| News::LinkGone(event.link)),
        RouteNetlinkMessage::NewAddress(message) => {
            address::event(message, false).map(|event| News::Address(event, None))
        }
        RouteNetlinkMessage::DelAddress(message) => {
            address::event(message, true).map(|event| News::Address(event, address::read(message)))
        }
        RouteNetlinkMessage::NewNeighbour(message) => neighbour::event(message).map(News::Neighbour),
        RouteNetlinkMessage::DelNeighbour(message) => neighbour::read_proxy(message).map(News::ProxyGone),
        RouteNetlinkMessage::DelRoute(message) => KernelRoute::read(message).map(News::RouteGone),
        RouteNetlinkMessage::DelRule(message) => rule::read(message).map(News::RuleGone),
        _ => None,
    }
}
