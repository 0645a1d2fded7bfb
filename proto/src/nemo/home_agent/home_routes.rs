//! Routes to mobile networks whose routers are at home: by the home address on the home link, as for any router. RFC
//! 3963 §6.4 leaves the route to the operator. It is always installed; a route into a tunnel is preferred.

use super::HomeAgent;
use super::journal::changed_rows;
use crate::contract::config::nemo::PrefixTable;
use crate::contract::item::{NextHop, RouteTable};
use crate::{Item, LinkId, Outbox};
use roam6_wire::{HomeAddress, Prefix};
use std::collections::{BTreeMap, BTreeSet};

/// Worse than any route into a tunnel ([`super::forwarding::TUNNEL_METRIC`]).
pub(super) const HOME_ROUTE_METRIC: u32 = 4096;

impl HomeAgent {
    /// Puts the routes over `link`, the home link.
    pub(super) fn put_home_routes(&mut self, link: LinkId, out: &mut Outbox) {
        for (prefix, home) in home_gateways(&self.config.prefix_table, |_| true) {
            self.put_own(home_route(link, prefix, home), out);
        }
    }

    /// Updates the routes after a change of the prefix table. Only differing rows are compared: tables may be long.
    pub(super) fn update_home_routes(&mut self, before: &PrefixTable, out: &mut Outbox) {
        let Some(link) = self.home_link.link() else { return };
        let now = self.config.prefix_table.clone();
        let rows = changed_rows(before, &now).chain(changed_rows(&now, before));
        let touched: BTreeSet<Prefix> = rows.flat_map(|row| row.prefixes.iter().copied()).collect();
        if touched.is_empty() {
            return;
        }
        let [before, after] = [before, &now].map(|table| home_gateways(table, |prefix| touched.contains(prefix)));
        for (prefix, home) in before.iter().filter(|(prefix, _)| !after.contains_key(prefix)) {
            out.drop(home_route(link, *prefix, *home).key());
        }
        for (prefix, home) in after.into_iter().filter(|(prefix, home)| before.get(prefix) != Some(home)) {
            self.put_own(home_route(link, prefix, home), out);
        }
    }
}

/// The prefixes of the table, each with the first home address that may register it.
fn home_gateways(table: &PrefixTable, wanted: impl Fn(&Prefix) -> bool) -> BTreeMap<Prefix, HomeAddress> {
    let rows = table.rows.iter().rev();
    let ways = rows.flat_map(|row| row.prefixes.iter().map(|prefix| (*prefix, row.home_address)));
    // IPv4 is not available on the home link (RFC 5555 §4.4.4).
    let ways = ways.filter(|(prefix, _)| !prefix.is_ipv4());
    ways.filter(|(prefix, _)| wanted(prefix)).collect()
}

fn home_route(link: LinkId, destination: Prefix, home: HomeAddress) -> Item {
    Item::route(RouteTable::MAIN, destination, HOME_ROUTE_METRIC, NextHop::Gateway { link, router: home.0 })
}
