//! Source-specific default routes: packets from a prefix leave by the router that advertised it, because the router of
//! another network filters their source (RFC 8028 §3.1, BCP 38).

use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::engine::Outbox;
use crate::contract::item::{Item, Key, NextHop, Route, RouteTable};
use core::time::Duration;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Time until a refused item is put again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Metric of these routes.
const METRIC: u32 = 512;

/// The source-specific default routes of this host's prefixes.
#[derive(Debug, Default)]
pub(crate) struct SourceRoutes {
    installed: VecMap<Prefix, (LinkId, Ipv6Addr)>,
    /// Refused routes, and when each is put again.
    refused: VecMap<Prefix, Time>,
}

impl SourceRoutes {
    /// Puts and drops routes until the host has `wanted`: for each prefix its interface and router.
    pub(crate) fn reconcile(&mut self, now: Time, wanted: &VecMap<Prefix, (LinkId, Ipv6Addr)>, out: &mut Outbox) {
        self.refused.retain(|prefix, until| *until > now && wanted.contains_key(prefix));
        self.installed.retain(|prefix, _| {
            let stays = wanted.contains_key(prefix);
            if !stays {
                out.drop(key(*prefix));
            }
            stays
        });
        for (&source, &(link, router)) in wanted {
            if self.installed.get(&source) == Some(&(link, router)) || self.refused.contains_key(&source) {
                continue;
            }
            self.installed.insert(source, (link, router));
            let target = NextHop::Gateway { link, router };
            let (table, destination, metric) = (RouteTable::MAIN, Prefix::ALL, METRIC);
            out.put(Item::Route(Route { table, destination, source, metric, target, mtu: None }));
        }
    }

    /// The host refused a route; `false` if it is not one of these.
    pub(crate) fn handle_refusal(&mut self, now: Time, refused: &Key) -> bool {
        let Some(prefix) = self.installed.keys().find(|prefix| key(**prefix) == *refused).copied() else {
            return false;
        };
        self.installed.remove(&prefix);
        self.refused.insert(prefix, now + RETRY_INTERVAL);
        true
    }

    /// When a refused route is put again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.refused.values().min().copied()
    }
}

fn key(source: Prefix) -> Key {
    Key::Route(RouteTable::MAIN, Prefix::ALL, source, METRIC)
}
