//! The kernel's announcements: interfaces, addresses, neighbours, and the removal of objects of roam6.

use super::OWN_PROTOCOLS;
use super::route::KernelRoute;
use super::rtnl::RtnlMessage;
use super::socket::Netlink;
use super::{address, neighbour, route, rule};
use crate::error::{Context, Error};
use crate::sys::{FilterStep, filter_step};
use netlink_packet_route::route::RouteMessage;
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

/// Filters out the announcements of routes that roam6 itself has added, which the kernel echoes one by one: a route that follows
/// others would follow itself for ever.
const WITHOUT_OUR_ROUTES: [FilterStep; 7] = {
    const TYPE: u32 = 4;
    const ROUTE_PROTOCOL: u32 = 16 + 5;
    [
        filter_step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, TYPE),
        // Filters load words in network byte order; the header has the host's.
        filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 4, libc::RTM_NEWROUTE.to_be() as u32),
        filter_step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, ROUTE_PROTOCOL),
        filter_step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 2, *OWN_PROTOCOLS.start() as u32),
        filter_step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, 0, *OWN_PROTOCOLS.end() as u32),
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
        RtnlMessage::NewRoute(message) => Some(change_of(message, true)),
        RtnlMessage::DelRoute(message) => {
            Some(KernelRoute::read(message).map_or_else(|| change_of(message, false), Announcement::RouteRemoved))
        }
        RtnlMessage::DelRule(message) => rule::read(message).map(Announcement::RuleRemoved),
        RtnlMessage::NewRule(_) => None,
    }
}

/// The announcement of a route that was added, replaced or removed.
fn change_of(message: &RouteMessage, present: bool) -> Announcement {
    route::default_route(message, present).map_or(Announcement::RoutesChanged, Announcement::DefaultRoute)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use crate::netlink::{AUXILIARY_PROTOCOL, PROTOCOL, STEERING_PROTOCOL};
    use nix::sched::{CloneFlags, unshare};
    use roam6_proto::contract::item::RouteTable;
    use roam6_wire::Prefix;
    use std::net::Ipv6Addr;

    /// That of `ip route add`.
    const FOREIGN_PROTOCOL: u8 = 3;

    #[test]
    fn routes_of_roam6_are_announced_when_they_are_removed_only() {
        let test = "routes_of_roam6_are_announced_when_they_are_removed_only";
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("skipped: {test}: no network namespace: {error}");
        }
        let mut netlink = Netlink::open().unwrap();
        let route = KernelRoute {
            table: RouteTable(7),
            destination: Prefix::new(Ipv6Addr::UNSPECIFIED, 0).unwrap(),
            source: Prefix::new(Ipv6Addr::UNSPECIFIED, 0).unwrap(),
            metric: 1,
            device: None,
            blackhole: true,
            gateway: None,
            mtu: None,
        };
        let mut announced = |protocol| {
            let mut monitor = Monitor::open().unwrap();
            assert_eq!(netlink.execute(&[route.put_as(protocol)]), [Ok(())]);
            let added = monitor.receive().unwrap_or_default().len();
            assert_eq!(netlink.execute(&[route.remove_as(protocol)]), [Ok(())]);
            (added, monitor.receive().unwrap_or_default().len())
        };
        for own in [PROTOCOL, AUXILIARY_PROTOCOL, STEERING_PROTOCOL] {
            assert_eq!(announced(own), (0, 1), "protocol {own}");
        }
        assert_eq!(announced(FOREIGN_PROTOCOL), (1, 1));
    }
}
