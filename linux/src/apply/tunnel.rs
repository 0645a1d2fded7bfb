//! Tunnels, destinations that bypass them, and the routes into them.

use super::Executor;
use super::holder::Holder;
use super::installed::mask;
use crate::error::Error;
use crate::netlink::socket::Request;
use crate::tunnel::Tunnels;
use roam6_proto::contract::item::{NextHop, Route, Tunnel, TunnelId};
use roam6_proto::{Item, LinkId};
use roam6_wire::Prefix;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Nested tunnels followed when a tunnel's MTU changes.
const MAX_TUNNEL_DEPTH: usize = 8;

impl Holder for Tunnel {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.put_tunnel(self).map(|()| Vec::new())
    }
}

/// A destination that bypasses the tunnels.
impl Holder for Prefix {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.tunnels.put_bypass(*self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.tunnels.drop_bypass(*self).map(|()| Vec::new())
    }
}

impl Executor {
    /// Has devices of tunnels made again that are gone; says once why that fails.
    pub(crate) fn check_devices(&mut self) {
        let (text, fault) = match self.tunnels.repair_devices() {
            Ok(text) => (text, None),
            Err(error) => (None, Some(format!("a device of tunnels was removed, its packets are dropped: {error}"))),
        };
        let news = fault.as_ref().filter(|fault| self.device_fault.as_ref() != Some(fault)).cloned();
        self.device_fault = fault;
        text.into_iter().chain(news).for_each(|text| self.notice(text));
    }

    /// Has packets take the devices of renewed keys, once they have a session.
    #[cfg(feature = "bpf")]
    pub(crate) fn check_sessions(&mut self, now: roam6_proto::Time) {
        if self.tunnels.next_session_check().is_none_or(|at| at > now) {
            return;
        }
        match self.tunnels.check_sessions(now) {
            Ok(news) => news.into_iter().for_each(|text| self.notice(text)),
            Err(error) => self.notice(error),
        }
    }

    fn put_tunnel(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let id = tunnel.id;
        let former = self.tunnels.find(id).map(|tunnel| remotes(&tunnel));
        let before = self.route_parameters(id);
        self.tunnels.put(tunnel).map_err(|error| Error::new(format!("tunnel {}", id.0), error))?;
        for remote in former.into_iter().flatten() {
            self.remotes.remove(&(remote, id));
        }
        self.remotes.extend(remotes(tunnel).into_iter().map(|remote| (remote, id)));
        if self.route_parameters(id) != before {
            self.rewrite_routes(tunnel, MAX_TUNNEL_DEPTH);
        }
        Ok(())
    }

    /// Device, gateway and MTU of routes into a tunnel.
    fn route_parameters(&self, id: TunnelId) -> (Option<LinkId>, Option<Ipv6Addr>, Option<u32>) {
        (self.tunnels.device(id), self.tunnels.gateway(id), self.tunnels.mtu(id))
    }

    pub(super) fn drop_tunnel(&mut self, id: TunnelId) -> Result<(), Error> {
        self.flush();
        let former = self.tunnels.find(id);
        // A box has a `drop` of its own.
        Tunnels::drop(self.tunnels.as_mut(), id).map_err(|error| Error::new(format!("tunnel {}", id.0), error))?;
        if let Some(former) = former {
            for remote in remotes(&former) {
                self.remotes.remove(&(remote, id));
            }
            self.rewrite_routes(&former, MAX_TUNNEL_DEPTH);
        }
        Ok(())
    }

    /// After the device or the MTU of `tunnel` has changed: installs its routes to its remote prefixes again,
    /// and those of tunnels nested in it.
    fn rewrite_routes(&mut self, tunnel: &Tunnel, depth: usize) {
        let target = NextHop::Tunnel(tunnel.id);
        for table in self.installed.tables() {
            let routes = tunnel.remote_prefixes.iter().flat_map(|prefix| self.installed.routes_into(table, *prefix));
            let routes: Vec<Route> = routes.filter(|route| route.target == target).collect();
            for route in routes {
                let request = self.to_kernel_route(&route).put();
                self.queue(&Item::Route(route).key(), vec![request], None);
            }
        }
        if depth == 0 {
            return;
        }
        for inner in self.nested_tunnels(tunnel) {
            self.underlay_changed = true;
            if let Some(inner) = self.tunnels.find(inner) {
                self.rewrite_routes(&inner, depth - 1);
            }
        }
    }

    /// The other tunnels with a path through `tunnel`.
    fn nested_tunnels(&self, tunnel: &Tunnel) -> BTreeSet<TunnelId> {
        let last = |prefix: &Prefix| Ipv6Addr::from_bits(prefix.address().to_bits() | !mask(*prefix));
        let inside = |prefix: &Prefix| (prefix.address(), TunnelId(0))..=(last(prefix), TunnelId(u32::MAX));
        let inner = tunnel.remote_prefixes.iter().flat_map(|prefix| self.remotes.range(inside(prefix)));
        inner.map(|(_, id)| *id).filter(|id| *id != tunnel.id).collect()
    }
}

/// The remote endpoints of a tunnel's paths.
fn remotes(tunnel: &Tunnel) -> Vec<Ipv6Addr> {
    tunnel.paths.iter().filter(|path| !path.direct).map(|path| path.remote).collect()
}
