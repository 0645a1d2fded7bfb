//! Room for the shim's header where only marked sockets' packets bear it (forks of a context, RFC 5533 §5.15.7): those go
//! the way of their ULIDs until a program takes them elsewhere, so that way carries 8 octets less for all of them.

use super::{Executor, Waiting};
use crate::error::Error;
use crate::netlink::lookup;
use crate::shim::HEADER;
use roam6_proto::base::few;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::{NextHop, Route, ShimContext};
use roam6_proto::{Item, LinkId};
use roam6_wire::Prefix;
use roam6_wire::shim6::Fork;

/// Metric of the routes: behind that of a context that leads its packets out itself.
const METRIC: u32 = 2;
const MIN_MTU: u32 = 1280;

/// What forks of one pair of ULIDs need.
#[derive(Debug, Default)]
pub(super) struct Narrow {
    forks: few::VecSet<Fork>,
    /// None as long as the context that is not forked leads its packets out, for they have room then.
    route: Option<Route>,
}

impl Executor {
    /// A fork rewrites packets from now on.
    pub(super) fn narrow(&mut self, context: &ShimContext) -> Result<(), Error> {
        let ulids = context.id.ulids;
        self.narrowed.entry(ulids).or_default().forks.insert(context.id.fork);
        let link_mtu = self.link_mtu(context.link)?;
        self.make_room(ulids, link_mtu)
    }

    /// A fork rewrites packets no more.
    pub(super) fn widen(&mut self, id: ContextId) {
        let Some(narrow) = self.narrowed.get_mut(&id.ulids) else { return };
        narrow.forks.remove(&id.fork);
        if !narrow.forks.is_empty() {
            return;
        }
        if let Some(Narrow { route: Some(route), .. }) = self.narrowed.remove(&id.ulids) {
            let request = self.lower(&route).remove();
            let key = Item::Route(route).key();
            self.held.drop(&key);
            self.waiting.push(Waiting { request, key, put: None });
            self.flush();
        }
    }

    /// The context that is not forked leads its packets out no more.
    pub(super) fn narrow_again(&mut self, ulids: AddressPair) {
        if self.narrowed.contains_key(&ulids)
            && let Err(error) = self.make_room(ulids, u32::MAX)
        {
            self.notice(error);
        }
    }

    fn make_room(&mut self, ulids: AddressPair, most: u32) -> Result<(), Error> {
        let led = self.led_out.contains_key(&ContextId { ulids, fork: Fork::NONE });
        let done = |narrow: &Narrow| narrow.route.is_some();
        if led || self.narrowed.get(&ulids).is_none_or(done) {
            return Ok(());
        }
        let Some(way) = lookup::find(&mut self.netlink, ulids, None)? else { return Ok(()) };
        let Some(link) = way.link.filter(|link| *link != LinkId(1)) else { return Ok(()) };
        let mtu = way.mtu.unwrap_or(u32::MAX).min(self.link_mtu(link)?).min(most);
        let route = Route {
            table: way.table,
            destination: Prefix::host(ulids.peer),
            source: Prefix::host(ulids.local),
            metric: METRIC,
            target: way.gateway.map_or(NextHop::OnLink(link), |router| NextHop::Gateway { link, router }),
            mtu: Some(mtu.saturating_sub(HEADER as u32).max(MIN_MTU)),
        };
        let (request, item) = (self.lower(&route).put(), Item::Route(route.clone()));
        self.held.put(&item);
        self.waiting.push(Waiting { request, key: item.key(), put: None });
        self.flush();
        if let Some(narrow) = self.narrowed.get_mut(&ulids) {
            narrow.route = Some(route);
        }
        Ok(())
    }
}
