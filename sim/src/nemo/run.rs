//! Runs a NEMO world to its end and checks its invariants.

use crate::failure::WorldFamily;
use crate::nemo::attacker::Attacker;
use crate::nemo::care_of_prefix::invariants::CareOfPrefixInvariants;
use crate::nemo::invariants::Invariants;
use crate::nemo::scenario::{NemoKind, NemoScenario};
use crate::net::event::Observation;
use crate::run::{Convergence, Converging, SeededWorld};
use core::time::Duration;
use roam6_proto::Time;
use roam6_wire::Ipv4Endpoint;

/// Convergence after the last fault, and the time after it in which nothing may be lost.
const CONVERGENCE: Convergence = Convergence {
    limit: Duration::from_secs(120),
    step: Duration::from_secs(1),
    observed: Duration::from_millis(3500),
    calm: Duration::from_secs(20),
};
/// Time without loss that counts as converged.
const SETTLED_SPAN: Duration = Duration::from_secs(3);
/// Largest transit time of a packet.
const MAX_TRANSIT: Duration = Duration::from_millis(500);

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
    /// Packets tunnelled over IPv4.
    pub packets_delivered: u64,
}

/// A NEMO world.
pub struct NemoWorld {
    scenario: NemoScenario,
    invariants: Invariants,
    care_of_prefixes: CareOfPrefixInvariants,
    attacker: Attacker,
    events: u64,
    packets_delivered: u64,
}

impl SeededWorld for NemoWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "NEMO world", replay: "nemo" };
    type Result = RunResult;

    fn generate(seed: u64, verbose: bool) -> NemoWorld {
        let mut scenario = NemoScenario::new(seed);
        scenario.topology.world.verbose = verbose;
        let (invariants, care_of_prefixes) = (Invariants::default(), CareOfPrefixInvariants::default());
        let attacker = Attacker::new(seed);
        NemoWorld { attacker, invariants, care_of_prefixes, events: 0, packets_delivered: 0, scenario }
    }

    fn kind(&self) -> Option<String> {
        Some(self.scenario.kind.to_string())
    }

    fn now(&self) -> Time {
        self.scenario.topology.world.now()
    }

    fn run(&mut self) -> Result<RunResult, String> {
        for (after, event) in core::mem::take(&mut self.scenario.script) {
            self.invariants.expect_event(&event);
            self.scenario.topology.world.schedule(after, event);
        }
        self.scenario.topology.start();
        let last_fault = Time::ZERO + self.scenario.calm;
        self.advance(last_fault)?;
        let converged = CONVERGENCE.reach(self, last_fault)?;
        CONVERGENCE.hold(self, converged)?;
        let end = converged + CONVERGENCE.calm - MAX_TRANSIT;
        let missing = self.missing(converged, end);
        if missing > 0 {
            return Err(format!("{missing} packets lost after convergence"));
        }
        self.no_packet_lost(converged, end)?;
        Ok(RunResult {
            kind: self.scenario.kind,
            settled_after: converged.since(last_fault).saturating_sub(CONVERGENCE.observed),
            events: self.events,
            acknowledged: self.invariants.acknowledged,
            refused: self.invariants.refused,
            packets_delivered: self.packets_delivered,
        })
    }
}

impl Converging for NemoWorld {
    fn advance(&mut self, end: Time) -> Result<(), String> {
        let hostile = self.scenario.kind == NemoKind::Hostile;
        while let Some(facts) = self.scenario.topology.world.step(end) {
            self.events += 1;
            if facts.is_empty() {
                continue;
            }
            let carried = |fact: &&Observation| matches!(fact, Observation::Tunnelled(.., end) if Ipv4Endpoint::from_ipv6(*end).is_some());
            self.packets_delivered += u64::try_from(facts.iter().filter(carried).count()).unwrap_or(0);
            self.invariants.check(&mut self.scenario.topology, &facts)?;
            if self.scenario.care_of_prefixes.is_some() {
                self.care_of_prefixes.check(&mut self.scenario.topology, &facts)?;
            }
            if hostile && self.scenario.topology.world.now() < Time::ZERO + self.scenario.calm {
                self.attacker.step(&mut self.scenario.topology, &facts);
            }
        }
        Ok(())
    }

    /// Whether every mobile router is registered as it should be at `now`, and all recent packets have arrived.
    fn converged(&self, now: Time) -> Result<(), String> {
        let topology = &self.scenario.topology;
        for (index, mobile) in topology.mobiles.iter().enumerate() {
            let home = self.scenario.home.contains(&index);
            let bound = self.invariants.is_bound(now, mobile.home_address);
            if home == bound {
                let place = if home { "at home" } else { "away" };
                let state = if bound { "bound" } else { "not bound" };
                return Err(format!("{} is {place} and {state}", mobile.home_address));
            }
        }
        let missing = self.missing(now - SETTLED_SPAN - MAX_TRANSIT, now - MAX_TRANSIT);
        if missing > 0 {
            return Err(format!("{missing} packets lost lately"));
        }
        self.no_packet_lost(now - SETTLED_SPAN - MAX_TRANSIT, now - MAX_TRANSIT)
    }
}

impl NemoWorld {
    /// Whether every node with care-of prefixes was answered, and can bypass the tunnel where a network allows it.
    fn no_packet_lost(&self, since: Time, until: Time) -> Result<(), String> {
        for (index, mobile) in self.scenario.topology.mobiles.iter().enumerate() {
            let Some(ledger) = &mobile.mnn_log else { continue };
            let (ledger, name) = (ledger.borrow(), &self.scenario.topology.world.host(mobile.host).name);
            if let Some((source, sent)) = ledger.unanswered(since, until) {
                return Err(format!("in {name} nobody has answered {source}, which asked at {sent}"));
            }
            if self.scenario.has_care_of_prefixes(index) && !ledger.has_connectivity(since) {
                return Err(format!("in {name} no way past the tunnel, with {:?}", ledger.addresses));
            }
        }
        Ok(())
    }

    fn missing(&self, since: Time, until: Time) -> usize {
        let mobiles = self.scenario.topology.mobiles.iter();
        let lost = |tally: &std::cell::RefCell<crate::net::traffic::TrafficLog>| tally.borrow().missing(since, until);
        mobiles.map(|mobile| lost(&mobile.upstream) + lost(&mobile.downstream)).sum()
    }
}
