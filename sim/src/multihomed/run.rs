//! Runs a world of multihomed hosts to its end and checks its invariants.

use super::attacker::Attacker;
use super::scenario::{MultihomedKind, MultihomedScenario};
use super::topology::Conversation;
use crate::failure::{WorldFamily, ensure};
use crate::net::{Header, Observation, World};
use crate::run::{Convergence, Converging, Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::report::ShimReport;
use roam6_proto::contract::view::ContextView;
use roam6_proto::{Report, Time};
use roam6_wire::shim6::PROTOCOL;

/// Largest number of messages per second and host in a calm world.
const MAX_MESSAGES: u64 = 70;
/// The largest control message, octets (RFC 5533 §5.1).
const MAX_MESSAGE_OCTETS: usize = roam6_wire::ip6::MINIMUM_MTU as usize;

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

/// A world of Shim6 hosts.
pub struct MultihomedWorld {
    scenario: MultihomedScenario,
    attacker: Attacker,
    switches: u64,
    contexts: u64,
    messages: u64,
}

impl SeededWorld for MultihomedWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "multihomed world", replay: "multihomed" };
    type Result = RunResult;

    fn generate(seed: u64) -> MultihomedWorld {
        let scenario = MultihomedScenario::new(seed);
        MultihomedWorld { attacker: Attacker::new(seed), switches: 0, contexts: 0, messages: 0, scenario }
    }

    fn kind(&self) -> Option<String> {
        Some(self.scenario.kind.to_string())
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let events = core::mem::take(&mut self.scenario.script);
        let last_fault = self.play(Script { events, last_fault: self.scenario.calm })?;
        self.exchange_ulids();
        let converged = self.reach_convergence(last_fault)?;
        self.messages = 0;
        self.hold_convergence(converged)?;
        let (hosts, seconds) = (self.scenario.topology.hosts.len(), Self::CONVERGENCE.calm.as_secs());
        let limit = MAX_MESSAGES * u64::try_from(hosts).unwrap_or(1) * seconds;
        ensure!(self.messages <= limit, "{} messages in {seconds} calm seconds", self.messages);
        Ok(RunResult {
            kind: self.scenario.kind,
            settled_after: converged.since(last_fault).saturating_sub(Self::CONVERGENCE.observed),
            events: self.scenario.topology.world.events,
            switches: self.switches,
            contexts: self.contexts,
            unreachable_pairs: self.reachable_conversations().count() < self.scenario.topology.conversations.len(),
        })
    }
}

impl MultihomedWorld {
    /// Where a host has no context, after repeated loss of the handshake, only the ULIDs are known: their path is
    /// restored.
    fn exchange_ulids(&mut self) {
        let without_context = |conversation: &&Conversation| {
            let near = self.context(conversation.from, conversation.ulids);
            near.is_none() || self.context(conversation.to, reversed(conversation.ulids)).is_none()
        };
        let without_context: Vec<_> = self
            .scenario
            .topology
            .conversations
            .iter()
            .filter(without_context)
            .map(|conversation| (conversation.from, conversation.to, conversation.ulids))
            .collect();
        for (from, to, ulids) in without_context {
            for event in self.scenario.topology.unblock_ulids(from, to, ulids) {
                self.scenario.topology.world.schedule(Duration::ZERO, event);
            }
        }
    }
}

impl Network for MultihomedWorld {
    fn network(&mut self) -> &mut World {
        &mut self.scenario.topology.world
    }

    fn check(&mut self, observations: &[Observation]) -> Result<(), String> {
        observations.iter().try_for_each(|observation| self.check_observation(observation))?;
        let MultihomedScenario { topology, kind, calm, .. } = &mut self.scenario;
        let hostile = matches!(kind, MultihomedKind::Hostile | MultihomedKind::Storm);
        if hostile && !observations.is_empty() && topology.world.now() < Time::ZERO + *calm {
            self.attacker.step(topology, observations);
        }
        Ok(())
    }
}

impl Converging for MultihomedWorld {
    const CONVERGENCE: Convergence = Convergence {
        limit: Duration::from_secs(300),
        step: Duration::from_secs(2),
        observed: Duration::from_millis(5500),
        calm: Duration::from_secs(15),
    };

    /// Whether both ends of every context agree on its tags.
    fn converged(&self, _: Time) -> Result<(), String> {
        for conversation in self.reachable_conversations().filter(|conversation| conversation.has_traffic) {
            let near = self.context(conversation.from, conversation.ulids);
            let far = self.context(conversation.to, reversed(conversation.ulids));
            if let (Some(near), Some(far)) = (near, far)
                && near.path != near.context.ulids
                && near.tag_out != Some(far.tag_in)
            {
                return Err(format!("{} sends with a tag {} does not know", conversation.from, conversation.to));
            }
        }
        Ok(())
    }

    fn delivered(&self, since: Time, until: Time) -> Result<(), String> {
        for conversation in self.reachable_conversations() {
            let missing = conversation.tally.borrow().missing(since, until);
            ensure!(missing == 0, "{missing} packets lost, {} to {}", conversation.from, conversation.to);
        }
        Ok(())
    }
}

impl MultihomedWorld {
    fn check_observation(&mut self, observation: &Observation) -> Result<(), String> {
        match observation {
            Observation::Sent(_, packet) if Header::parse(packet).is_some_and(|header| header.next == PROTOCOL) => {
                self.messages += 1;
                let size = packet.len();
                if size > MAX_MESSAGE_OCTETS { Err(format!("a message of {size} octets")) } else { Ok(()) }
            }
            Observation::Reported(host, report) => {
                match report {
                    Report::Shim(ShimReport::PathChanged { .. }) => self.switches += 1,
                    Report::Shim(ShimReport::ContextUp { context, path, .. })
                    | Report::Shim(ShimReport::ContextRenewed { context, path, .. }) => {
                        self.contexts += 1;
                        let owner = |address| {
                            let all = self.scenario.topology.hosts.iter().enumerate();
                            let has = |at: &&(_, _, _)| at.2 == address;
                            all.filter(|(_, host)| host.uplinks.iter().any(|at| has(&at)) || host.spare == address)
                                .map(|(index, _)| index)
                                .next()
                        };
                        if owner(path.peer) != owner(context.ulids.peer) {
                            let name = &self.scenario.topology.world.host(*host).name;
                            return Err(format!("{name} sends packets for {} to {}", context.ulids.peer, path.peer));
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
        let topology = &self.scenario.topology;
        topology.conversations.iter().filter(|conversation| {
            topology.reachable(conversation.from, conversation.to)
                && topology.reachable(conversation.to, conversation.from)
        })
    }

    fn context(&self, host: usize, ulids: AddressPair) -> Option<ContextView> {
        let host = self.scenario.topology.hosts.get(host)?;
        let world = &self.scenario.topology.world;
        let view = world.host(host.host).view(world.now());
        view.contexts.into_iter().find(|context| context.context.ulids == ulids && context.tag_out.is_some())
    }
}

fn reversed(pair: AddressPair) -> AddressPair {
    AddressPair { local: pair.peer, peer: pair.local }
}
