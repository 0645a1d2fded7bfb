//! The items of the shim: programs on uplinks, contexts in maps, and the route that leads rewritten packets out by the
//! uplink of their locators, with room for the payload extension header (RFC 5533 §12, §17.1).

use super::Executor;
use super::holder::Holder;
use super::sysctl::interface_name;
use crate::error::{Context as _, Error};
use crate::netlink::link;
use crate::netlink::lookup::{self, RouteLookup};
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::Request;
use crate::shim::{HEADER, Shim};
use nix::errno::Errno;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::{Address, ContextTrigger, NextHop, Route, RouteTable, ShimContext, ShimUplink};
use roam6_proto::{Activity, ActivityQuery, Input, Item, Key, LinkId, Time};
use roam6_wire::Prefix;
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::shim6::Fork;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::BorrowedFd;

/// Metric of the routes: before all that administrators use.
const METRIC: u32 = 1;
/// The table of the route if no table has one to the ULID.
const MAIN_TABLE: RouteTable = RouteTable(254);
const LOOPBACK: LinkId = LinkId(1);

impl Holder for ShimUplink {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        let name = interface_name(self.link)?;
        executor.open_shim()?.attach(self.link, &name).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        if let Some(shim) = &mut executor.shim {
            shim.detach(self.link);
        }
        Ok(Vec::new())
    }
}

impl Holder for ContextTrigger {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.open_shim()?.set_trigger(Some(self)).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.open_shim()?.set_trigger(None).map(|()| Vec::new())
    }
}

impl Holder for ShimContext {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.put_context(self).map(|()| Vec::new())
    }
}

impl Executor {
    /// The descriptor to wait for before [`Executor::read_shim_events`]; `None` as long as there is no shim.
    pub(crate) fn shim_fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.shim.as_ref().map(AsFd::as_fd)
    }

    /// Reads the events of the BPF programs.
    pub(crate) fn read_shim_events(&mut self, now: Time) -> Vec<Input> {
        self.shim.as_mut().map(|shim| shim.read_events(now)).unwrap_or_default()
    }

    /// Reads the traffic counters of a context.
    pub(crate) fn sample(&mut self, now: Time, sample: &ActivityQuery) -> Option<Activity> {
        let activity = self.shim.as_mut()?.sample(now, sample);
        activity.unwrap_or_else(|error| {
            self.notice(error);
            None
        })
    }

    /// Translates an ICMPv6 error about a packet of a context for the transport.
    pub(crate) fn translate_icmp_error(&mut self, packet: &[u8]) {
        let translated = self.shim.as_ref().map_or(Ok(()), |shim| shim.translate_icmp_error(packet));
        translated.unwrap_or_else(|error| self.notice(error));
    }

    /// The route is installed before the first packet is rewritten, and removed after the last.
    pub(super) fn put_context(&mut self, context: &ShimContext) -> Result<(), Error> {
        self.open_shim()?;
        let rewrites = context.locators != context.id.ulids;
        let forked = context.id.fork != Fork::NONE;
        let mut next_hop = context.next_hop;
        match (rewrites, forked) {
            (true, true) => self.reserve_mtu(context)?,
            (true, false) => next_hop = self.route_by_locators(context)?,
            (false, _) => {}
        }
        self.open_shim()?.put(&ShimContext { next_hop, ..context.clone() })?;
        if !rewrites {
            self.stop_rewriting(context.id);
        }
        Ok(())
    }

    pub(super) fn drop_context(&mut self, id: ContextId) -> Result<(), Error> {
        let dropped = self.shim.as_mut().map_or(Ok(()), |shim| shim.drop(id));
        self.stop_rewriting(id);
        dropped
    }

    /// A context no longer rewrites packets.
    fn stop_rewriting(&mut self, id: ContextId) {
        if id.fork == Fork::NONE {
            self.remove_locator_route(id);
            self.renew_mtu_reserve(id.ulids);
        } else {
            self.release_mtu(id);
        }
    }

    /// Makes transports whose path has changed retransmit, once all routes are installed.
    pub(crate) fn wake_transport(&mut self, now: Time) {
        let woken = self.shim.as_mut().map_or(Ok(()), |shim| shim.wake(now));
        woken.unwrap_or_else(|error| self.notice(error));
    }

    /// When to retry for connections that have not retransmitted.
    pub(crate) fn wake_transport_at(&self) -> Option<Time> {
        self.shim.as_ref().and_then(Shim::wake_at)
    }

    fn open_shim(&mut self) -> Result<&mut Shim, Error> {
        if self.shim.is_none() {
            let (shim, unsupported) = Shim::open(self.max_contexts)?;
            self.shim = Some(shim);
            if let Some(error) = unsupported {
                self.notice(error);
            }
        }
        self.shim.as_mut().ok_or_else(|| Error::new("shim", "not open"))
    }

    /// Routes the packets of the ULIDs by the uplink of the locators; returns the router, if there is one.
    fn route_by_locators(&mut self, context: &ShimContext) -> Result<Option<Ipv6Addr>, Error> {
        self.flush();
        let ulids = context.id.ulids;
        self.retain_ulid(ulids.local);
        let by_link = lookup::route_lookup(&mut self.netlink, context.locators, Some(context.link))?;
        let router = context.next_hop.or(by_link.and_then(|way| way.gateway));
        if context.next_hop.is_none() && by_link.is_none() {
            let AddressPair { local, peer } = context.locators;
            return Err(Error::new(format_args!("route from {local} to {peer}"), Errno::ENETUNREACH.desc()));
        }
        let former = lookup::route_lookup(&mut self.netlink, ulids, None)?;
        let mtu = by_link.and_then(|way| way.mtu).unwrap_or(u32::MAX).min(self.link_mtu(context.link)?);
        let table = self.table_of(context.id, former);
        let (destination, source) = route_prefixes(ulids);
        let route = Route {
            table,
            destination,
            source,
            metric: METRIC,
            // A peer on the link itself: its locator's node accepts packets to its ULID.
            target: NextHop::Gateway { link: context.link, router: router.unwrap_or(context.locators.peer) },
            mtu: Some(mtu.saturating_sub(HEADER as u32).max(MINIMUM_MTU)),
        };
        let item = Item::Route(route.clone());
        if self.context_routes.insert(context.id, table).is_none()
            || self.installed.find(&item.key()).as_ref() != Some(&item)
        {
            self.install_route(&route);
            self.invalidate_cached_route(&route)?;
            if let Some(RouteLookup { link: Some(link), gateway, .. }) =
                former.filter(|way| way.link != Some(context.link))
            {
                self.fail_pending_neighbours(link, Some(gateway.unwrap_or(ulids.peer)))?;
            }
        }
        Ok(router)
    }

    /// A connection that was not bound to its ULID looked its route up before it had a source, perhaps in another table
    /// than the one for the source. It repeats the lookup only when a route there changes; then it has its source.
    fn invalidate_cached_route(&mut self, route: &Route) -> Result<(), Error> {
        let unbound = AddressPair { local: Ipv6Addr::UNSPECIFIED, peer: route.destination.address() };
        let way = lookup::route_lookup(&mut self.netlink, unbound, None)?;
        if let Some(RouteLookup { table, .. }) = way.filter(|way| way.table != route.table) {
            let there = self.to_kernel_route(&Route { table, ..route.clone() });
            self.netlink.execute(&[there.put(), there.remove()]);
        }
        Ok(())
    }

    /// Removes the route and the retained address.
    fn remove_locator_route(&mut self, id: ContextId) {
        let Some(table) = self.context_routes.remove(&id) else { return };
        let (destination, source) = route_prefixes(id.ulids);
        self.remove_route(&Key::Route(table, destination, source, METRIC));
        let spare = Key::Address(LOOPBACK, id.ulids.local);
        if !self.context_routes.keys().any(|other| other.ulids.local == id.ulids.local)
            && let Some(Item::Address(address)) = self.installed.drop(&spare)
        {
            self.queue(&spare, vec![crate::netlink::address::remove(&address)], None);
        }
        self.flush();
    }

    /// The table with the present route of the ULIDs: only a change there makes connections repeat their lookup.
    fn table_of(&self, id: ContextId, way: Option<RouteLookup>) -> RouteTable {
        let held = self.context_routes.get(&id).copied();
        held.or_else(|| way.map(|way| way.table)).unwrap_or(MAIN_TABLE)
    }

    /// An interface that goes down loses its addresses, but connections still need theirs: it is assigned to the
    /// loopback interface, deprecated, so that no new connection chooses it.
    fn retain_ulid(&mut self, ulid: Ipv6Addr) {
        let absent = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrNotAvailable;
        if !UdpSocket::bind((ulid, 0)).is_err_and(absent) {
            return;
        }
        let address = Address { link: LOOPBACK, address: ulid, prefix_length: 128, preferred: false, dad: false };
        self.queue(&Key::Address(LOOPBACK, ulid), vec![crate::netlink::address::put(&address)], None);
        self.installed.put(&Item::Address(address));
        self.flush();
    }

    pub(super) fn link_mtu(&mut self, of: LinkId) -> Result<u32, Error> {
        let shown = match self.netlink.get(link::get(of))? {
            Some(RtnlMessage::NewLink(link)) => link.event(),
            _ => None,
        };
        shown.map(|event| event.mtu).ok_or(Errno::ENODEV).context(of)
    }
}

/// Destination and source of the route of these ULIDs.
fn route_prefixes(ulids: AddressPair) -> (Prefix, Prefix) {
    (Prefix::host(ulids.peer), Prefix::host(ulids.local))
}
