//! Runs a NEMO world to its end and checks its invariants.

use crate::attacker::Attacker;
use crate::care_of_prefix::invariants::CareOfPrefixInvariants;
use crate::failure::{Failure, WorldFamily};
use crate::invariants::Invariants;
use crate::scenario::{NemoKind, NemoScenario};
use crate::world::Observation;
use core::time::Duration;
use roam6_proto::Time;
use roam6_wire::Ipv4Endpoint;

/// Limit of convergence after the last fault.
pub const SETTLE: Duration = Duration::from_secs(120);
/// Time after convergence in which nothing may be lost.
const OBSERVED_SPAN: Duration = Duration::from_secs(20);
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

const FAMILY: WorldFamily = WorldFamily { name: "world", replay: "one_world" };

/// Runs the world of `seed`, and prints every event to standard output if `loud`.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run(seed: u64, loud: bool) -> Result<RunResult, Failure> {
    let mut scenario = NemoScenario::new(seed);
    scenario.map.world.verbose = loud;
    let (attacker, checks, watch) = (Attacker::new(seed), Invariants::default(), CareOfPrefixInvariants::default());
    let mut play =
        Run { attacker, invariants: checks, care_of_prefixes: watch, events: 0, packets_delivered: 0, scenario };
    let kind = play.scenario.kind;
    play.run().map_err(|what| Failure {
        family: FAMILY,
        seed,
        kind: Some(kind.to_string()),
        at: play.scenario.map.world.now(),
        message: what,
    })
}

struct Run {
    scenario: NemoScenario,
    invariants: Invariants,
    care_of_prefixes: CareOfPrefixInvariants,
    attacker: Attacker,
    events: u64,
    packets_delivered: u64,
}

impl Run {
    fn run(&mut self) -> Result<RunResult, String> {
        for (after, happening) in core::mem::take(&mut self.scenario.script) {
            self.invariants.expect_event(&happening);
            self.scenario.map.world.schedule(after, happening);
        }
        self.scenario.map.start();
        let calm = Time::ZERO + self.scenario.calm;
        self.advance(calm + SETTLED_SPAN + MAX_TRANSIT)?;
        let mut end = calm + SETTLED_SPAN + MAX_TRANSIT;
        while let Err(why) = self.settled(end) {
            if end > calm + SETTLE {
                return Err(format!("not settled after {} s: {why}", SETTLE.as_secs()));
            }
            end = end + Duration::from_secs(1);
            self.advance(end)?;
        }
        self.advance(end + OBSERVED_SPAN)?;
        self.settled(end + OBSERVED_SPAN)?;
        let missing = self.missing(end, end + OBSERVED_SPAN - MAX_TRANSIT);
        if missing > 0 {
            return Err(format!("{missing} packets lost in peace"));
        }
        self.no_packet_lost(end, end + OBSERVED_SPAN - MAX_TRANSIT)?;
        Ok(RunResult {
            kind: self.scenario.kind,
            settled_after: end.since(calm) - SETTLED_SPAN,
            events: self.events,
            acknowledged: self.invariants.acknowledged,
            refused: self.invariants.refused,
            packets_delivered: self.packets_delivered,
        })
    }

    fn advance(&mut self, end: Time) -> Result<(), String> {
        let hostile = self.scenario.kind == NemoKind::Hostile;
        while let Some(facts) = self.scenario.map.world.step(end) {
            self.events += 1;
            if facts.is_empty() {
                continue;
            }
            let carried = |fact: &&Observation| matches!(fact, Observation::Tunnelled(.., end) if Ipv4Endpoint::from_ipv6(*end).is_some());
            self.packets_delivered += u64::try_from(facts.iter().filter(carried).count()).unwrap_or(0);
            self.invariants.check(&mut self.scenario.map, &facts)?;
            if self.scenario.care_of_prefixes.is_some() {
                self.care_of_prefixes.check(&mut self.scenario.map, &facts)?;
            }
            if hostile && self.scenario.map.world.now() < Time::ZERO + self.scenario.calm {
                self.attacker.step(&mut self.scenario.map, &facts);
            }
        }
        Ok(())
    }

    /// Whether every mobile router is registered as it should be at `now`, and all recent packets have arrived.
    fn settled(&self, now: Time) -> Result<(), String> {
        let map = &self.scenario.map;
        for (index, mobile) in map.mobiles.iter().enumerate() {
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

    /// Whether every node with care-of prefixes was answered, and can bypass the tunnel where a network allows it.
    fn no_packet_lost(&self, since: Time, until: Time) -> Result<(), String> {
        for (index, mobile) in self.scenario.map.mobiles.iter().enumerate() {
            let Some(ledger) = &mobile.mnn_log else { continue };
            let (ledger, name) = (ledger.borrow(), &self.scenario.map.world.host(mobile.host).name);
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
        let mobiles = self.scenario.map.mobiles.iter();
        let lost = |tally: &std::cell::RefCell<crate::traffic::TrafficLog>| tally.borrow().missing(since, until);
        mobiles.map(|mobile| lost(&mobile.upstream) + lost(&mobile.downstream)).sum()
    }
}
