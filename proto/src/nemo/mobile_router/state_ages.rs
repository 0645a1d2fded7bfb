//! Since when each uplink and each path is in its present state, for the operator.

use super::MobileRouter;
use super::registration::CareOf;
use crate::Time;
use crate::base::vec_map::VecMap;
use crate::contract::item::TunnelPath;
use crate::contract::view::{LinkState, PathState};
use core::time::Duration;
use roam6_wire::Bid;
use std::net::Ipv6Addr;

/// Since when each uplink and each path is in its present state.
#[derive(Debug, Default, Clone)]
pub(super) struct StateAges {
    links: VecMap<Bid, (LinkState, Time)>,
    /// By BID and local address.
    paths: VecMap<(Bid, Ipv6Addr), (PathState, Time)>,
}

impl StateAges {
    /// How long the uplink `bid` has been in its state.
    pub(super) fn of_link(&self, now: Time, bid: Bid) -> Option<Duration> {
        self.links.get(&bid).map(|(_, since)| now.since(*since))
    }

    /// How long a path has been in its state.
    pub(super) fn of_path(&self, now: Time, path: &TunnelPath) -> Option<Duration> {
        self.paths.get(&(path.bid, path.local)).map(|(_, since)| now.since(*since))
    }
}

impl MobileRouter {
    /// Notes which uplinks and paths have changed their state.
    pub(super) fn note_changes(&mut self, now: Time) {
        let links = self.uplinks.iter().map(|uplink| {
            let (bid, state) = (uplink.config.bid, self.link_state(now, uplink));
            let since = since(now, self.state_ages.links.get(&bid), &state);
            (bid, (state, since))
        });
        let paths = self.paths();
        let paths = paths.iter().map(|path| {
            let (key, state) = ((path.bid, path.local), self.state_of_path(path));
            let since = since(now, self.state_ages.paths.get(&key), &state);
            (key, (state, since))
        });
        self.state_ages = StateAges { links: links.collect(), paths: paths.collect() };
    }

    /// The state of one of [`MobileRouter::paths`]: it is in use only once the home agent has acknowledged it.
    pub(super) fn state_of_path(&self, path: &TunnelPath) -> PathState {
        let is_its = |care_of: &CareOf| {
            let of = self.path(care_of, 0);
            of.is_some_and(|of| (of.bid, of.local, of.link, of.encap) == (path.bid, path.local, path.link, path.encap))
        };
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        match (held.iter().any(is_its), path.weight) {
            (true, 0) => PathState::Standby,
            (true, _) => PathState::Up,
            (false, _) if self.lingering.iter().any(|left| is_its(&left.care_of)) => PathState::Left,
            (false, _) => PathState::Registering,
        }
    }
}

/// Since when something is in `state`, by what it was before.
fn since<S: PartialEq>(now: Time, before: Option<&(S, Time)>, state: &S) -> Time {
    before.filter(|(known, _)| known == state).map_or(now, |(_, since)| *since)
}
