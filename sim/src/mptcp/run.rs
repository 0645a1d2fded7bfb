//! Runs a world of an MPTCP host to its end and checks its invariants.

use super::correspondent::LIMIT;
use super::scenario::MptcpScenario;
use super::topology::prefix;
use crate::failure::{WorldFamily, ensure};
use crate::net::{Observation, World};
use crate::run::{Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::contract::item::MptcpEndpoint;
use roam6_proto::{Item, Time};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Limit of convergence after the last fault: endpoints that fail are retried at growing intervals.
pub const SETTLE: Duration = Duration::from_secs(200);
/// Time after convergence without any change.
const OBSERVED_SPAN: Duration = Duration::from_secs(30);
/// Longest interval between acknowledgements of data.
const SETTLED_SPAN: Duration = Duration::from_secs(3);
/// Attempts in that time for an endpoint beyond the correspondents' limit.
const MAX_ATTEMPTS: u64 = 4;
/// Longest time the kernel takes to apply an item.
const MAX_DELAY: Duration = Duration::from_millis(5);
/// Endpoints added and removed per second of faults, at most on average.
const MAX_CHANGES: u64 = 8;

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Endpoints added and removed.
    pub changes: u64,
}

/// The subflows of connections compared with the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathsFound {
    All,
    /// After the end of its first subflow, the correspondent accepts fewer subflows than there are paths.
    UpToTheLimit,
}

/// A world of an MPTCP host.
pub struct MptcpWorld {
    scenario: MptcpScenario,
}

impl SeededWorld for MptcpWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "MPTCP world", replay: "mptcp" };
    type Result = RunResult;

    fn generate(seed: u64) -> MptcpWorld {
        let scenario = MptcpScenario::new(seed);
        MptcpWorld { scenario }
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let events = core::mem::take(&mut self.scenario.script);
        let calm = self.play(Script { events, last_fault: self.scenario.calm })?;
        let mut end = calm + SETTLED_SPAN;
        self.advance(end)?;
        let changes = self.changes();
        let seconds = self.scenario.calm.as_secs();
        ensure!(changes <= MAX_CHANGES * seconds, "{changes} endpoints made and given up in {seconds} s");
        let patience = calm + SETTLE;
        while self.settled(end) != Ok(PathsFound::All) && end <= patience {
            end = end + Duration::from_secs(1);
            self.advance(end)?;
        }
        let paths = self.settled(end).map_err(|why| format!("not settled after {} s: {why}", SETTLE.as_secs()))?;
        let (settled_after, before) = (end.since(calm) - SETTLED_SPAN, self.changes());
        self.advance(end + OBSERVED_SPAN)?;
        ensure!(self.settled(end + OBSERVED_SPAN)? == paths, "paths come or go in peace");
        let most = if paths == PathsFound::All { 0 } else { MAX_ATTEMPTS };
        match self.changes() - before {
            more if more > most => Err(format!("{more} endpoints made and given up in peace")),
            _ => Ok(RunResult { settled_after, events: self.scenario.topology.world.events, changes }),
        }
    }
}

impl Network for MptcpWorld {
    fn network(&mut self) -> &mut World {
        &mut self.scenario.topology.world
    }

    /// Endpoints are usable addresses as far as the host knows, and those of the mobile network are backups.
    fn check(&mut self, _: &[Observation]) -> Result<(), String> {
        let topology = &self.scenario.topology;
        let now = topology.world.now();
        for (_, item) in topology.world.host(topology.node).kernel.plan().iter() {
            let Item::MptcpEndpoint(endpoint) = item else { continue };
            // An endpoint whose lifetime has just ended is removed at the engine's next deadline.
            if let Err(why) = self.judge(now, endpoint)
                && self.judge(now - MAX_DELAY, endpoint).is_err()
            {
                return Err(format!("endpoint {}: {why}", endpoint.address));
            }
        }
        Ok(())
    }
}

impl MptcpWorld {
    fn changes(&self) -> u64 {
        self.scenario.topology.kernel.borrow().changes
    }

    fn judge(&self, now: Time, endpoint: &MptcpEndpoint) -> Result<(), &'static str> {
        let topology = &self.scenario.topology;
        let autoconf = &topology.kernel.borrow().autoconf;
        let Some(preferred) = autoconf.preferred(now, endpoint.address) else { return Err("no address") };
        if !topology.world.is_up(topology.node, topology.link) || !autoconf.has_router(now) {
            return Err("no way out");
        }
        let backup = prefix(0).contains(endpoint.address) || !preferred;
        if endpoint.flags.backup == backup { Ok(()) } else { Err("a backup or not, and should be the other") }
    }

    /// Whether every path carries data, both ends agree, and no connection has more subflows. The kernel tries a
    /// subflow once: an endpoint is not recreated for one connection while another uses it.
    fn settled(&self, now: Time) -> Result<PathsFound, String> {
        let topology = &self.scenario.topology;
        let direct: BTreeSet<Ipv6Addr> = self.scenario.visited.iter().map(|number| topology.address(*number)).collect();
        let mut all = direct.clone();
        all.insert(topology.address(0));
        let kernel = topology.kernel.borrow();
        let (mut used, mut full) = (BTreeSet::new(), true);
        for (connection, (peer, known)) in kernel.sockets.connections.iter().zip(&topology.peers) {
            let paths: BTreeSet<Ipv6Addr> = connection.paths().into_iter().collect();
            let known: BTreeSet<Ipv6Addr> = known.borrow().keys().copied().collect();
            let agree = paths == known && paths.is_subset(&all);
            ensure!(agree, "{peer} is reached from {paths:?} and knows {known:?}; there are {all:?}");
            let straight = !paths.is_disjoint(&direct);
            match connection.acknowledged {
                Some((at, by)) if at + SETTLED_SPAN >= now && direct.contains(&by) == straight => {}
                other => return Err(format!("data to {peer} last took {other:?}")),
            }
            full &= paths.len() >= LIMIT;
            used.extend(paths);
        }
        match used == all {
            true => Ok(PathsFound::All),
            false if full => Ok(PathsFound::UpToTheLimit),
            false => Err(format!("used are {used:?}, there are {all:?}")),
        }
    }
}
