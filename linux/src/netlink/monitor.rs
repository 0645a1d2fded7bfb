//! What the kernel announces: interfaces, addresses, neighbours, and the loss of what is ours.

use super::route::KernelRoute;
use super::socket::Netlink;
use super::{address, link, neighbour, route, rule};
use crate::error::{Context, Error};
use crate::sys::FilterStep;
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use roam6_proto::input::{AddressEvent, LinkEvent, LinkId, NeighbourEvent, RouteEvent};
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
    Link(LinkEvent, u32),
    LinkGone(LinkId),
    /// With what of ours was removed, if it was.
    Address(AddressEvent, Option<Address>),
    Neighbour(NeighbourEvent),
    /// A default route that is neither ours nor advertised.
    DefaultRoute(RouteEvent),
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
        let netlink = Netlink::listen(&GROUPS)?;
        crate::sys::attach_filter(&netlink, &but_new_routes()).context("netlink announcements")?;
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

/// Passes all announcements but those of new routes, unless they are default routes: the others are ours, told back to
/// us one by one.
fn but_new_routes() -> [FilterStep; 6] {
    const TYPE: u32 = 4;
    const DESTINATION_LENGTH: u32 = 17;
    let step = |code: u32, jt, jf, k| FilterStep { code: code as u16, jt, jf, k };
    [
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, TYPE),
        // Filters load in network order; the header is in the machine's.
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, u32::from(libc::RTM_NEWROUTE.to_be())),
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, DESTINATION_LENGTH),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ]
}

/// What a message tells; `None` if it does not concern us.
pub(crate) fn read(message: &RouteNetlinkMessage) -> Option<News> {
    match message {
        RouteNetlinkMessage::NewLink(message) => {
            link::event(message).map(|event| News::Link(event, link::carrier_losses(message)))
        }
        RouteNetlinkMessage::DelLink(message) => link::event(message).map(|event| News::LinkGone(event.link)),
        RouteNetlinkMessage::NewAddress(message) => {
            address::event(message, false).map(|event| News::Address(event, None))
        }
        RouteNetlinkMessage::DelAddress(message) => {
            address::event(message, true).map(|event| News::Address(event, address::read(message)))
        }
        RouteNetlinkMessage::NewNeighbour(message) => neighbour::event(message).map(News::Neighbour),
        RouteNetlinkMessage::DelNeighbour(message) => neighbour::read_proxy(message).map(News::ProxyGone),
        RouteNetlinkMessage::NewRoute(message) => route::default_route(message, true).map(News::DefaultRoute),
        RouteNetlinkMessage::DelRoute(message) => KernelRoute::read(message)
            .map(News::RouteGone)
            .or_else(|| route::default_route(message, false).map(News::DefaultRoute)),
        RouteNetlinkMessage::DelRule(message) => rule::read(message).map(News::RuleGone),
        _ => None,
    }
}
