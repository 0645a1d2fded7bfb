//! Runs a world of multihomed hosts to its end and checks its invariants.

use super::attacker::Attacker;
use super::scenario::{MultihomedKind, MultihomedScenario};
use super::topology::Conversation;
use crate::datagram::Header;
use crate::failure::{Failure, WorldFamily};
use crate::world::Observation;
use core::time::Duration;
use roam6_proto::contract::view::ContextView;
use roam6_proto::{Report, Time};
use roam6_wire::shim6::PROTOCOL;

/// Limit of convergence: after the last fault every conversation recovers in this time, if any locator pair works.
pub const SETTLE: Duration = Duration::from_secs(300);
/// Time after convergence in which nothing may be lost.
const OBSERVED_SPAN: Duration = Duration::from_secs(15);
/// Time without loss that counts as converged.
const SETTLED_SPAN: Duration = Duration::from_secs(5);
/// Largest transit time of a packet.
const MAX_TRANSIT: Duration = Duration::from_millis(500);
/// Largest number of messages per second and host in a calm world.
const MAX_MESSAGES: u64 = 70;
/// The largest control message, octets (RFC 5533 §5.1).
const MAX_MESSAGE_OCTETS: usize = 1280;

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// The kind of the world.
    pub kind: MultihomedKind,
    /// Time from the last fault to convergence.
    pub settled_after: Duration,
    /// Events handled.
    pub events: u64,
    /// Locator pairs found.
    pub switches: u64,
    /// Contexts created or restored.
    pub contexts: u64,
    /// Some conversation has no working locator pair.
    pub unreachable_pairs: bool,
}

const FAMILY: WorldFamily = WorldFamily { name: "multihomed world", replay: "one_multihomed" };

/// Runs the world of `seed`, and prints every event to standard output if `loud`.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run(seed: u64, loud: bool) -> Result<RunResult, Failure> {
    let mut scenario = MultihomedScenario::new(seed);
    scenario.map.world.verbose = loud;
    let kind = scenario.kind;
    let mut play = Run { attacker: Attacker::new(seed), events: 0, switches: 0, contexts: 0, messages: 0, scenario };
    play.run().map_err(|what| Failure {
        family: FAMILY,
        seed,
        kind: Some(kind.to_string()),
        at: play.scenario.map.world.now(),
        message: what,
    })
}

struct Run {
    scenario: MultihomedScenario,
    attacker: Attacker,
    events: u64,
    switches: u64,
    contexts: u64,
    messages: u64,
}

impl Run {
    fn run(&mut self) -> Result<RunResult, String> {
        for (after, happening) in core::mem::take(&mut self.scenario.script) {
            self.scenario.map.world.schedule(after, happening);
        }
        self.scenario.map.start();
        let calm = Time::ZERO + self.scenario.calm;
        self.advance(calm)?;
        self.exchange_ulids();
        let mut end = calm + SETTLED_SPAN + MAX_TRANSIT;
        self.advance(end)?;
        while let Err(why) = self.settled(end) {
            if end > calm + SETTLE {
                return Err(format!("not settled after {} s: {why}", SETTLE.as_secs()));
            }
            end = end + Duration::from_secs(2);
            self.advance(end)?;
        }
        self.messages = 0;
        self.advance(end + OBSERVED_SPAN)?;
        self.settled(end + OBSERVED_SPAN)?;
        let hosts = u64::try_from(self.scenario.map.hosts.len()).unwrap_or(1);
        if self.messages > MAX_MESSAGES * hosts * OBSERVED_SPAN.as_secs() {
            return Err(format!("{} signalling packets in {} quiet seconds", self.messages, OBSERVED_SPAN.as_secs()));
        }
        for talk in self.reachable_conversations() {
            let missing = talk.tally.borrow().missing(end, end + OBSERVED_SPAN - MAX_TRANSIT);
            if missing > 0 {
                return Err(format!("{missing} packets lost in peace, {} to {}", talk.from, talk.to));
            }
        }
        Ok(RunResult {
            kind: self.scenario.kind,
            settled_after: end.since(calm) - SETTLED_SPAN,
            events: self.events,
            switches: self.switches,
            contexts: self.contexts,
            unreachable_pairs: self.reachable_conversations().count() < self.scenario.map.conversations.len(),
        })
    }

    /// Where a host has no context, after repeated loss of the handshake, only the ULIDs are known: their path is
    /// restored.
    fn exchange_ulids(&mut self) {
        let strangers = |talk: &&Conversation| {
            let near = self.context(talk.from, talk.ulids);
            near.is_none() || self.context(talk.to, reversed(talk.ulids)).is_none()
        };
        let strangers: Vec<_> = self
            .scenario
            .map
            .conversations
            .iter()
            .filter(strangers)
            .map(|talk| (talk.from, talk.to, talk.ulids))
            .collect();
        for (from, to, ulids) in strangers {
            for happening in self.scenario.map.unblock_ulids(from, to, ulids) {
                self.scenario.map.world.schedule(Duration::ZERO, happening);
            }
        }
    }

    fn advance(&mut self, end: Time) -> Result<(), String> {
        let hostile = matches!(self.scenario.kind, MultihomedKind::Hostile | MultihomedKind::Storm);
        while let Some(facts) = self.scenario.map.world.step(end) {
            self.events += 1;
            for fact in &facts {
                self.check(fact)?;
            }
            if hostile && !facts.is_empty() && self.scenario.map.world.now() < Time::ZERO + self.scenario.calm {
                self.attacker.step(&mut self.scenario.map, &facts);
            }
        }
        Ok(())
    }

    fn check(&mut self, fact: &Observation) -> Result<(), String> {
        match fact {
            Observation::Looping(host) => Err(format!("{} turns in circles", self.scenario.map.world.host(*host).name)),
            Observation::Sent(_, packet) if Header::parse(packet).is_some_and(|header| header.next == PROTOCOL) => {
                self.messages += 1;
                let size = packet.len();
                if size > MAX_MESSAGE_OCTETS { Err(format!("a message of {size} octets")) } else { Ok(()) }
            }
            Observation::Reported(host, report) => {
                match report {
                    Report::PathChanged { .. } => self.switches += 1,
                    Report::ContextUp { context, path, .. } | Report::ContextRenewed { context, path, .. } => {
                        self.contexts += 1;
                        let owner = |address| {
                            let all = self.scenario.map.hosts.iter().enumerate();
                            let has = |at: &&(_, _, _)| at.2 == address;
                            all.filter(|(_, host)| host.uplinks.iter().any(|at| has(&at)) || host.spare == address)
                                .map(|(index, _)| index)
                                .next()
                        };
                        if owner(path.peer) != owner(context.ulids.peer) {
                            let name = &self.scenario.map.world.host(*host).name;
                            return Err(format!("{name} sends what is for {} to {}", context.ulids.peer, path.peer));
                        }
                    }
                    _ => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Conversations with a locator pair that works in both directions: without a reply no path is known to work.
    fn reachable_conversations(&self) -> impl Iterator<Item = &Conversation> {
        let map = &self.scenario.map;
        map.conversations.iter().filter(|talk| map.reachable(talk.from, talk.to) && map.reachable(talk.to, talk.from))
    }

    /// Whether every conversation continues and both ends of its context agree.
    fn settled(&self, now: Time) -> Result<(), String> {
        for talk in self.reachable_conversations() {
            let missing = talk.tally.borrow().missing(now - SETTLED_SPAN - MAX_TRANSIT, now - MAX_TRANSIT);
            if missing > 0 {
                return Err(format!("{missing} packets lost lately, {} to {}", talk.from, talk.to));
            }
            let near = self.context(talk.from, talk.ulids);
            let far = self.context(talk.to, reversed(talk.ulids));
            if let (Some(near), Some(far)) = (near, far)
                && talk.has_traffic
                && near.path != near.context.ulids
                && near.tag_out != Some(far.tag_in)
            {
                return Err(format!("{} sends with a tag {} does not know", talk.from, talk.to));
            }
        }
        Ok(())
    }

    fn context(&self, host: usize, ulids: roam6_proto::base::ids::AddressPair) -> Option<ContextView> {
        let host = self.scenario.map.hosts.get(host)?;
        let world = &self.scenario.map.world;
        let view = world.host(host.host).view(world.now());
        view.contexts.into_iter().find(|context| context.context.ulids == ulids && context.tag_out.is_some())
    }
}

fn reversed(pair: roam6_proto::base::ids::AddressPair) -> roam6_proto::base::ids::AddressPair {
    roam6_proto::base::ids::AddressPair { local: pair.peer, peer: pair.local }
}
