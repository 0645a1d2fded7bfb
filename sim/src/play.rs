//! Runs a NEMO world to its end and checks its invariants.

use crate::attacker::Attacker;
use crate::care_of::watch::Watch;
use crate::check::Checks;
use crate::failure::{Failure, Family};
use crate::scenario::{Kind, Scenario};
use crate::world::Fact;
use core::time::Duration;
use roam6_proto::Time;
use roam6_wire::Ipv4Endpoint;

/// Limit of convergence after the last fault.
pub const SETTLE: Duration = Duration::from_secs(120);
/// Time after convergence in which nothing may be lost.
const QUIET: Duration = Duration::from_secs(20);
/// Time without loss that counts as converged.
const STREAK: Duration = Duration::from_secs(3);
/// Largest transit time of a packet.
const TRANSIT: Duration = Duration::from_millis(500);

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct Tale {
    /// The kind of the world.
    pub kind: Kind,
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Accepted Binding Updates.
    pub acknowledged: u64,
    /// Refused Binding Updates.
    pub refused: u64,
    /// Packets tunnelled over IPv4.
    pub carried: u64,
}

const FAMILY: Family = Family { name: "world", replay: "one_world" };

/// Runs the world of `seed`, and prints every event to standard output if `loud`.
///
/// # Errors
/// The first invariant that does not hold.
pub fn play(seed: u64, loud: bool) -> Result<Tale, Failure> {
    let mut scenario = Scenario::new(seed);
    scenario.map.world.loud = loud;
    let (attacker, checks, watch) = (Attacker::new(seed), Checks::default(), Watch::default());
    let mut play = Play { attacker, checks, watch, events: 0, carried: 0, scenario };
    let kind = play.scenario.kind;
    play.run().map_err(|what| Failure {
        family: FAMILY,
        seed,
        kind: Some(kind.to_string()),
        at: play.scenario.map.world.now(),
        what,
    })
}

struct Play {
    scenario: Scenario,
    checks: Checks,
    watch: Watch,
    attacker: Attacker,
    events: u64,
    carried: u64,
}

impl Play {
    fn run(&mut self) -> Result<Tale, String> {
        for (after, happening) in core::mem::take(&mut self.scenario.script) {
            self.checks.excuse(&happening);
            self.scenario.map.world.plan(after, happening);
        }
        self.scenario.map.start();
        let calm = Time::ZERO + self.scenario.calm;
        self.advance(calm + STREAK + TRANSIT)?;
        let mut end = calm + STREAK + TRANSIT;
        while let Err(why) = self.settled(end) {
            if end > calm + SETTLE {
                return Err(format!("not settled after {} s: {why}", SETTLE.as_secs()));
            }
            end = end + Duration::from_secs(1);
            self.advance(end)?;
        }
        self.advance(end + QUIET)?;
        self.settled(end + QUIET)?;
        let missing = self.missing(end, end + QUIET - TRANSIT);
        if missing > 0 {
            return Err(format!("{missing} packets lost in peace"));
        }
        self.contented(end, end + QUIET - TRANSIT)?;
        Ok(Tale {
            kind: self.scenario.kind,
            settled_after: end.since(calm) - STREAK,
            events: self.events,
            acknowledged: self.checks.acknowledged,
            refused: self.checks.refused,
            carried: self.carried,
        })
    }

    fn advance(&mut self, end: Time) -> Result<(), String> {
        let hostile = self.scenario.kind == Kind::Hostile;
        while let Some(facts) = self.scenario.map.world.step(end) {
            self.events += 1;
            if facts.is_empty() {
                continue;
            }
            let carried = |fact: &&Fact| matches!(fact, Fact::Tunnelled(.., end) if Ipv4Endpoint::from_ipv6(*end).is_some());
            self.carried += u64::try_from(facts.iter().filter(carried).count()).unwrap_or(0);
            self.checks.look(&mut self.scenario.map, &facts)?;
            if self.scenario.care_of_prefixes.is_some() {
                self.watch.look(&mut self.scenario.map, &facts)?;
            }
            if hostile && self.scenario.map.world.now() < Time::ZERO + self.scenario.calm {
                self.attacker.act(&mut self.scenario.map, &facts);
            }
        }
        Ok(())
    }

    /// Whether every mobile router is registered as it should be at `now`, and all recent packets have arrived.
    fn settled(&self, now: Time) -> Result<(), String> {
        let map = &self.scenario.map;
        for (index, mobile) in map.mobiles.iter().enumerate() {
            let home = self.scenario.home.contains(&index);
            let bound = self.checks.is_bound(now, mobile.home_address);
            if home == bound {
                let place = if home { "at home" } else { "away" };
                let state = if bound { "bound" } else { "not bound" };
                return Err(format!("{} is {place} and {state}", mobile.home_address));
            }
        }
        let missing = self.missing(now - STREAK - TRANSIT, now - TRANSIT);
        if missing > 0 {
            return Err(format!("{missing} packets lost lately"));
        }
        self.contented(now - STREAK - TRANSIT, now - TRANSIT)
    }

    /// Whether every node with care-of prefixes was answered, and can bypass the tunnel where a network allows it.
    fn contented(&self, since: Time, until: Time) -> Result<(), String> {
        for (index, mobile) in self.scenario.map.mobiles.iter().enumerate() {
            let Some(ledger) = &mobile.passenger else { continue };
            let (ledger, name) = (ledger.borrow(), &self.scenario.map.world.host(mobile.host).name);
            if let Some((source, sent)) = ledger.unanswered(since, until) {
                return Err(format!("in {name} nobody has answered {source}, which asked at {sent}"));
            }
            if self.scenario.lends(index) && !ledger.has_way_out(since) {
                return Err(format!("in {name} no way past the tunnel, with {:?}", ledger.addresses));
            }
        }
        Ok(())
    }

    fn missing(&self, since: Time, until: Time) -> usize {
        let mobiles = self.scenario.map.mobiles.iter();
        let lost = |tally: &std::cell::RefCell<crate::talker::Tally>| tally.borrow().missing(since, until);
        mobiles.map(|mobile| lost(&mobile.upward) + lost(&mobile.downward)).sum()
    }
}
