//! The way to a mobile network whose router is at home: by its home address on the home link, as an ordinary router's.
//! RFC 3963 §6.4 leaves the route to the operator; it stands always, and a route into a tunnel is better.

use super::HomeAgent;
use crate::engine::Outbox;
use crate::input::LinkId;
use crate::plan::{Item, Route, Table, Target};
use roam6_wire::{HomeAddress, Prefix};
use std::collections::BTreeMap;

/// Worse than any route into a tunnel ([`super::forwarding::TUNNEL_METRIC`]).
pub(super) const HOME_METRIC: u32 = 4096;

impl HomeAgent {
    /// Puts the ways by `link`, the home link.
    pub(super) fn put_ways_home(&mut self, link: LinkId, out: &mut Outbox) {
        for (prefix, home) in self.ways_home() {
            self.put_own(way_home(link, prefix, home), out);
        }
    }

    /// Makes the ways those of the present prefix table; `before` are those of the former one.
    pub(super) fn change_ways_home(&mut self, before: &BTreeMap<Prefix, HomeAddress>, out: &mut Outbox) {
        let Some(link) = self.home.link() else { return };
        let after = self.ways_home();
        for (prefix, home) in before.iter().filter(|(prefix, _)| !after.contains_key(prefix)) {
            out.drop(way_home(link, *prefix, *home).key());
        }
        for (prefix, home) in after.into_iter().filter(|(prefix, home)| before.get(prefix) != Some(home)) {
            self.put_own(way_home(link, prefix, home), out);
        }
    }

    /// Every prefix of the table with the first home address that may register it.
    pub(super) fn ways_home(&self) -> BTreeMap<Prefix, HomeAddress> {
        let rows = self.config.table.rows.iter().rev();
        rows.flat_map(|row| row.prefixes.iter().map(|prefix| (*prefix, row.home_address))).collect()
    }
}

fn way_home(link: LinkId, destination: Prefix, home: HomeAddress) -> Item {
    Item::Route(Route {
        table: Table::MAIN,
        destination,
        source: Prefix::ALL,
        metric: HOME_METRIC,
        target: Target::Gateway { link, router: home.0 },
        mtu: None,
    })
}
