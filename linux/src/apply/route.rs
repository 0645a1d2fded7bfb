//! Routes and routing policy rules.

use super::Executor;
use super::holder::Holder;
use super::kernel_item::KernelItem;
use crate::error::Error;
use crate::netlink::route::KernelRoute;
use crate::netlink::rule;
use crate::netlink::socket::Request;
use roam6_proto::Item;
use roam6_proto::contract::item::{NextHop, PolicyRule, Route};

impl Holder for Route {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.underlay_changed |= is_underlay(self);
        Ok(vec![executor.to_kernel_route(self).put()])
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.underlay_changed |= is_underlay(self);
        Ok(vec![executor.to_kernel_route(self).remove()])
    }

    fn show(&self, executor: &Executor) -> Option<(Request, KernelItem)> {
        let route = executor.to_kernel_route(self);
        Some((route.put(), KernelItem::Route(route.normalised())))
    }
}

impl Holder for PolicyRule {
    fn put(&self, _: &mut Executor, former: Option<&Item>) -> Result<Vec<Request>, Error> {
        Ok(match former {
            Some(Item::Rule(old)) if old.table != self.table => vec![rule::put(self), rule::remove(old)],
            _ => vec![rule::put(self)],
        })
    }

    fn show(&self, _: &Executor) -> Option<(Request, KernelItem)> {
        Some((rule::put(self), KernelItem::Item(Item::Rule(self.clone()))))
    }
}

impl Executor {
    /// A route in rtnetlink's terms.
    pub(super) fn to_kernel_route(&self, route: &Route) -> KernelRoute {
        let (device, gateway, limit) = match route.target {
            NextHop::OnLink(link) => (Some(link), None, None),
            NextHop::Gateway { link, router } => (Some(link), Some(router), None),
            NextHop::Tunnel(id) => (self.tunnels.device(id), self.tunnels.gateway(id), self.tunnels.mtu(id)),
            NextHop::Unreachable | NextHop::Blackhole => (None, None, None),
        };
        let mtu = route.mtu.into_iter().chain(limit).min().filter(|_| device.is_some());
        let Route { table, destination, source, metric, .. } = *route;
        let blackhole = route.target == NextHop::Blackhole;
        KernelRoute { table, destination, source, metric, device, blackhole, gateway, mtu }
    }
}

/// Whether paths of tunnels may use this route; those into tunnels change with their tunnels.
fn is_underlay(route: &Route) -> bool {
    !matches!(route.target, NextHop::Tunnel(_))
}
