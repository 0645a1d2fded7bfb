//! Unreachable routes for prefixes without a binding. A packet for one would otherwise follow the default route back
//! to the router that sent it here, and loop until its hop limit is exceeded (RFC 7084 §4.3, WPD-5; RFC 4632 §5.1).

use super::HomeAgent;
use crate::contract::config::nemo::{HomeAgentConfig, PrefixTable};
use crate::contract::item::{NextHop, RouteTable};
use crate::{Item, Outbox};
use roam6_wire::Prefix;
use std::collections::BTreeSet;

/// Worse than every other route, and different from that of a mobile router on the same host.
pub(super) const UNREACHABLE_METRIC: u32 = (1 << 30) + 1;

impl HomeAgent {
    /// Puts the unreachable routes of this home agent.
    pub(super) fn put_unreachable_routes(&mut self, out: &mut Outbox) {
        self.has_unreachable_routes = true;
        for prefix in covering_prefixes(&self.config, &self.config.prefix_table) {
            self.put_own(unreachable_route(prefix), out);
        }
    }

    /// Updates the routes after a change of the prefix table.
    pub(super) fn update_unreachable_routes(&mut self, before: &PrefixTable, out: &mut Outbox) {
        if !self.has_unreachable_routes {
            return;
        }
        let [before, after] = [before, &self.config.prefix_table].map(|table| covering_prefixes(&self.config, table));
        after.difference(&before).for_each(|prefix| self.put_own(unreachable_route(*prefix), out));
        before.difference(&after).for_each(|prefix| out.drop(unreachable_route(*prefix).key()));
    }
}

/// The home prefixes of a virtual home network, the pools, and the prefixes of all rows, aggregated.
fn covering_prefixes(config: &HomeAgentConfig, table: &PrefixTable) -> BTreeSet<Prefix> {
    let home = config.home_prefixes.iter().filter(|_| config.home_link.is_none());
    let pools = config.ipv4_pool.iter().map(|pool| &pool.prefix).chain(&config.prefix_pool);
    let rows = table.rows.iter().flat_map(|row| row.prefixes.iter());
    let all = home.chain(pools).chain(rows).copied().filter(|prefix| prefix.length() > 0);
    aggregate(all.collect())
}

fn aggregate(mut prefixes: Vec<Prefix>) -> BTreeSet<Prefix> {
    prefixes.sort_unstable();
    let mut merged: Vec<Prefix> = Vec::new();
    for prefix in prefixes {
        if merged.last().is_some_and(|last| last.covers(prefix)) {
            continue;
        }
        let mut next = prefix;
        // Two halves merge into their parent.
        while let Some(whole) = merged.last().and_then(|last| merge_halves(*last, next)) {
            merged.pop();
            next = whole;
        }
        merged.push(next);
    }
    merged.into_iter().collect()
}

/// The parent prefix, if these are its two halves.
fn merge_halves(low: Prefix, high: Prefix) -> Option<Prefix> {
    let length = low.length().checked_sub(1).filter(|_| low.length() == high.length())?;
    let [one, other] = [low, high].map(|half| Prefix::new(half.address(), length));
    one.filter(|_| one == other && low != high)
}

fn unreachable_route(destination: Prefix) -> Item {
    Item::route(RouteTable::MAIN, destination, UNREACHABLE_METRIC, NextHop::Unreachable)
}
