//! A lower MTU for ULIDs some of whose packets get the payload extension header: those of marked sockets (forks of a
//! context, RFC 5533 §5.15.7). They follow the route of their ULIDs until a program redirects them, so that this route
//! has an MTU 8 octets lower for all packets.

use super::Executor;
use crate::error::Error;
use crate::netlink::lookup;
use crate::shim::HEADER;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::{NextHop, Route, ShimContext};
use roam6_proto::{Item, LinkId};
use roam6_wire::Prefix;
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::shim6::Fork;

/// Metric of the routes: after that of an unforked context that rewrites.
const METRIC: u32 = 2;

/// The forks of one pair of ULIDs.
#[derive(Debug, Default)]
pub(super) struct MtuReserve {
    forks: VecSet<Fork>,
    /// `None` while the unforked context rewrites too, whose route has the lower MTU.
    route: Option<Route>,
}

impl Executor {
    /// A fork begins to rewrite packets.
    pub(super) fn reserve_mtu(&mut self, context: &ShimContext) -> Result<(), Error> {
        let ulids = context.id.ulids;
        self.mtu_reserves.entry(ulids).or_default().forks.insert(context.id.fork);
        let link_mtu = self.link_mtu(context.link)?;
        self.install_reserve_route(ulids, link_mtu)
    }

    /// A fork no longer rewrites packets.
    pub(super) fn release_mtu(&mut self, id: ContextId) {
        let Some(reserve) = self.mtu_reserves.get_mut(&id.ulids) else { return };
        reserve.forks.remove(&id.fork);
        if !reserve.forks.is_empty() {
            return;
        }
        if let Some(MtuReserve { route: Some(route), .. }) = self.mtu_reserves.remove(&id.ulids) {
            self.remove_route(&Item::Route(route).key());
            self.flush();
        }
    }

    /// The unforked context no longer rewrites packets.
    pub(super) fn renew_mtu_reserve(&mut self, ulids: AddressPair) {
        if self.mtu_reserves.contains_key(&ulids) {
            self.install_reserve_route(ulids, u32::MAX).unwrap_or_else(|error| self.notice(error));
        }
    }

    fn install_reserve_route(&mut self, ulids: AddressPair, most: u32) -> Result<(), Error> {
        let rewrites = self.context_routes.contains_key(&ContextId { ulids, fork: Fork::NONE });
        let done = |reserve: &MtuReserve| reserve.route.is_some();
        if rewrites || self.mtu_reserves.get(&ulids).is_none_or(done) {
            return Ok(());
        }
        let Some(way) = lookup::route_lookup(&mut self.netlink, ulids, None)? else { return Ok(()) };
        let Some(link) = way.link.filter(|link| *link != LinkId(1)) else { return Ok(()) };
        let mtu = way.mtu.unwrap_or(u32::MAX).min(self.link_mtu(link)?).min(most);
        let route = Route {
            table: way.table,
            destination: Prefix::host(ulids.peer),
            source: Prefix::host(ulids.local),
            metric: METRIC,
            target: way.gateway.map_or(NextHop::OnLink(link), |router| NextHop::Gateway { link, router }),
            mtu: Some(mtu.saturating_sub(HEADER as u32).max(MINIMUM_MTU)),
        };
        self.install_route(&route);
        if let Some(reserve) = self.mtu_reserves.get_mut(&ulids) {
            reserve.route = Some(route);
        }
        Ok(())
    }
}
