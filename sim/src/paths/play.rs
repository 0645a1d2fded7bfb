//! Runs a world of an MPTCP host to its end and checks its invariants.

use super::map::prefix;
use super::peer::LIMIT;
use super::scenario::Scenario;
use crate::failure::{Failure, Family};
use crate::world::Fact;
use core::time::Duration;
use roam6_proto::contract::item::MptcpEndpoint;
use roam6_proto::{Item, Time};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Limit of convergence after the last fault: endpoints that fail are retried at growing intervals.
pub const SETTLE: Duration = Duration::from_secs(200);
/// Time after convergence without any change.
const QUIET: Duration = Duration::from_secs(30);
/// Longest interval between acknowledgements of data.
const STREAK: Duration = Duration::from_secs(3);
/// Attempts in that time for an endpoint beyond the correspondents' limit.
const MOST_TRIES: u64 = 4;
/// Longest time the kernel takes to apply an item.
const LATE: Duration = Duration::from_millis(5);
/// Endpoints added and removed per second of faults, at most on average.
const MOST_CHANGES: u64 = 8;

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct Tale {
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Endpoints added and removed.
    pub changes: u64,
}

const FAMILY: Family = Family { name: "world of paths", replay: "one_world_of_paths" };

/// Runs the world of `seed`, and prints every event to standard output if `loud`.
///
/// # Errors
/// The first invariant that does not hold.
pub fn play(seed: u64, loud: bool) -> Result<Tale, Failure> {
    let mut scenario = Scenario::new(seed);
    scenario.map.world.loud = loud;
    let mut play = Play { scenario, events: 0 };
    play.run().map_err(|what| Failure { family: FAMILY, seed, kind: None, at: play.scenario.map.world.now(), what })
}

/// The subflows of connections compared with the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paths {
    All,
    /// After the end of its first subflow, the correspondent accepts fewer subflows than there are paths.
    AsManyAsThePeersTake,
}

struct Play {
    scenario: Scenario,
    events: u64,
}

impl Play {
    fn run(&mut self) -> Result<Tale, String> {
        for (after, happening) in core::mem::take(&mut self.scenario.script) {
            self.scenario.map.world.plan(after, happening);
        }
        self.scenario.map.start();
        let calm = Time::ZERO + self.scenario.calm;
        let mut end = calm + STREAK;
        self.advance(end)?;
        let changes = self.changes();
        if changes > MOST_CHANGES * self.scenario.calm.as_secs() {
            return Err(format!("{changes} endpoints made and given up in {} s", self.scenario.calm.as_secs()));
        }
        let patience = calm + SETTLE;
        while self.settled(end) != Ok(Paths::All) && end <= patience {
            end = end + Duration::from_secs(1);
            self.advance(end)?;
        }
        let paths = self.settled(end).map_err(|why| format!("not settled after {} s: {why}", SETTLE.as_secs()))?;
        let (settled_after, before) = (end.since(calm) - STREAK, self.changes());
        self.advance(end + QUIET)?;
        if self.settled(end + QUIET)? != paths {
            return Err("paths come or go in peace".to_owned());
        }
        let most = if paths == Paths::All { 0 } else { MOST_TRIES };
        match self.changes() - before {
            more if more > most => Err(format!("{more} endpoints made and given up in peace")),
            _ => Ok(Tale { settled_after, events: self.events, changes }),
        }
    }

    fn advance(&mut self, end: Time) -> Result<(), String> {
        while let Some(facts) = self.scenario.map.world.step(end) {
            self.events += 1;
            if facts.iter().any(|fact| matches!(fact, Fact::Busy(_))) {
                return Err("the node turns in circles".to_owned());
            }
            self.look()?;
        }
        Ok(())
    }

    fn changes(&self) -> u64 {
        self.scenario.map.kernel.borrow().changes
    }

    /// Endpoints are usable addresses as far as the host knows, and those of the mobile network are backups.
    fn look(&self) -> Result<(), String> {
        let map = &self.scenario.map;
        let now = map.world.now();
        for (_, item) in map.world.host(map.node).kernel.plan().iter() {
            let Item::MptcpEndpoint(endpoint) = item else { continue };
            // What has just ended by itself is known as soon as the engine is asked again.
            if let Err(why) = self.judge(now, endpoint)
                && self.judge(now - LATE, endpoint).is_err()
            {
                return Err(format!("endpoint {}: {why}", endpoint.address));
            }
        }
        Ok(())
    }

    fn judge(&self, now: Time, endpoint: &MptcpEndpoint) -> Result<(), &'static str> {
        let map = &self.scenario.map;
        let autoconf = &map.kernel.borrow().autoconf;
        let Some(preferred) = autoconf.preferred(now, endpoint.address) else { return Err("no address") };
        if !map.world.is_up(map.node, map.link) || !autoconf.has_router(now) {
            return Err("no way out");
        }
        let backup = prefix(0).contains(endpoint.address) || !preferred;
        if endpoint.flags.backup == backup { Ok(()) } else { Err("a backup or not, and should be the other") }
    }

    /// Whether every path carries data, both ends agree, and no connection has more subflows. The kernel tries a
    /// subflow once: an endpoint is not recreated for one connection while another uses it.
    fn settled(&self, now: Time) -> Result<Paths, String> {
        let map = &self.scenario.map;
        let direct: BTreeSet<Ipv6Addr> = self.scenario.there.iter().map(|number| map.address(*number)).collect();
        let mut all = direct.clone();
        all.insert(map.address(0));
        let kernel = map.kernel.borrow();
        let (mut used, mut full) = (BTreeSet::new(), true);
        for (connection, (peer, known)) in kernel.sockets.connections().iter().zip(&map.peers) {
            let paths: BTreeSet<Ipv6Addr> = connection.paths().into_iter().collect();
            let known: BTreeSet<Ipv6Addr> = known.borrow().keys().copied().collect();
            if paths != known || !paths.is_subset(&all) {
                return Err(format!("{peer} is reached from {paths:?} and knows {known:?}; there are {all:?}"));
            }
            let straight = !paths.is_disjoint(&direct);
            match connection.acknowledged {
                Some((at, by)) if at + STREAK >= now && direct.contains(&by) == straight => {}
                other => return Err(format!("data to {peer} last went {other:?}")),
            }
            full &= paths.len() >= LIMIT;
            used.extend(paths);
        }
        match used == all {
            true => Ok(Paths::All),
            false if full => Ok(Paths::AsManyAsThePeersTake),
            false => Err(format!("used are {used:?}, there are {all:?}")),
        }
    }
}
