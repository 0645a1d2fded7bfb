//! Runs a NEMO world to its end and checks its invariants.

use crate::failure::WorldFamily;
use crate::nemo::attacker::Attacker;
use crate::nemo::care_of_prefix::invariants::CareOfPrefixInvariants;
use crate::nemo::invariants::Invariants;
use crate::nemo::scenario::{NemoKind, NemoScenario};
use crate::net::{Observation, World};
use crate::run::{Converging, Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::Time;
use roam6_wire::Ipv4Endpoint;

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// The kind of the world.
    pub kind: NemoKind,
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Accepted Binding Updates.
    pub acknowledged: u64,
    /// Refused Binding Updates.
    pub refused: u64,
    /// Packets tunnelled where all of them are encrypted.
    pub sealed: u64,
    /// Packets tunnelled over IPv4.
    pub packets_delivered: u64,
}

/// A NEMO world.
pub struct NemoWorld {
    scenario: NemoScenario,
    invariants: Invariants,
    care_of_prefixes: CareOfPrefixInvariants,
    attacker: Attacker,
    packets_delivered: u64,
}

impl SeededWorld for NemoWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "NEMO world", replay: "nemo" };
    type Result = RunResult;

    fn generate(seed: u64) -> NemoWorld {
        let scenario = NemoScenario::new(seed);
        let mut invariants = Invariants::default();
        invariants.encrypted = scenario.encrypted;
        let care_of_prefixes = CareOfPrefixInvariants::default();
        let attacker = Attacker::new(seed);
        NemoWorld { attacker, invariants, care_of_prefixes, packets_delivered: 0, scenario }
    }

    fn kind(&self) -> Option<String> {
        Some(self.scenario.kind.to_string())
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let events = core::mem::take(&mut self.scenario.script);
        let settled_after = self.converge(Script { events, last_fault: self.scenario.calm })?;
        Ok(RunResult {
            kind: self.scenario.kind,
            settled_after,
            events: self.scenario.topology.world.events,
            acknowledged: self.invariants.acknowledged,
            refused: self.invariants.refused,
            sealed: self.invariants.sealed,
            packets_delivered: self.packets_delivered,
        })
    }
}

impl Network for NemoWorld {
    fn network(&mut self) -> &mut World {
        &mut self.scenario.topology.world
    }

    fn check(&mut self, observations: &[Observation]) -> Result<(), String> {
        if observations.is_empty() {
            return Ok(());
        }
        let over_ipv4 = |observation: &&Observation| matches!(observation, Observation::Tunnelled(.., end) if Ipv4Endpoint::from_ipv6(*end).is_some());
        self.packets_delivered += observations.iter().filter(over_ipv4).count() as u64;
        let NemoScenario { topology, kind, calm, care_of_prefixes, .. } = &mut self.scenario;
        self.invariants.check(topology, observations)?;
        if care_of_prefixes.is_some() {
            self.care_of_prefixes.check(topology, observations)?;
        }
        if *kind == NemoKind::Hostile && topology.world.now() < Time::ZERO + *calm {
            self.attacker.step(topology, observations);
        }
        Ok(())
    }
}

impl Converging for NemoWorld {
    /// Whether every mobile router is registered as it should be.
    fn converged(&self, now: Time) -> Result<(), String> {
        for (index, mobile) in self.scenario.topology.mobiles.iter().enumerate() {
            let home = self.scenario.home.contains(&index);
            let bound = self.invariants.is_bound(now, mobile.home_address);
            if home == bound {
                let place = if home { "at home" } else { "away" };
                let state = if bound { "bound" } else { "not bound" };
                return Err(format!("{} is {place} and {state}", mobile.home_address));
            }
            if self.scenario.several {
                Invariants::check_uplinks(now, &self.scenario.topology, mobile)?;
            }
        }
        Ok(())
    }

    fn delivered(&self, since: Time, until: Time) -> Result<(), String> {
        self.scenario.topology.delivered(since, until)?;
        self.care_of_prefixes_usable(since, until)
    }
}

impl NemoWorld {
    /// Whether every node with care-of prefixes was answered, and can bypass the tunnel where a network allows it.
    fn care_of_prefixes_usable(&self, since: Time, until: Time) -> Result<(), String> {
        for (index, mobile) in self.scenario.topology.mobiles.iter().enumerate() {
            let Some(log) = &mobile.mnn_log else { continue };
            let (log, name) = (log.borrow(), &self.scenario.topology.world.host(mobile.host).name);
            if let Some((source, sent)) = log.unanswered(since, until) {
                return Err(format!("in {name} the probe of {source} at {sent} was not answered"));
            }
            if self.scenario.has_care_of_prefixes(index) && !log.has_connectivity(since) {
                return Err(format!("in {name} no way past the tunnel, with {:?}", log.addresses));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worlds whose hosts do not encrypt, held to the invariant of those that do: it finds every one of them.
    #[test]
    fn path_in_the_clear_is_found_where_all_has_to_be_encrypted() {
        let mut found = 0;
        for seed in 0..200 {
            let mut world = NemoWorld::generate(seed);
            if world.scenario.encrypted {
                continue;
            }
            world.invariants.encrypted = true;
            let why = match world.run() {
                Err(why) => why,
                // It was at home all the time.
                Ok(result) => {
                    assert_eq!(result.sealed, 0, "seed {seed}: a packet in the clear counts as encrypted");
                    continue;
                }
            };
            assert!(why.contains("has a path in the clear"), "seed {seed} at {}: {why}", world.network().now());
            found += 1;
        }
        assert!(found >= 100, "{found}");
    }
}
