//! Worlds of two home agents with the same prefix table and long binding lifetimes: a home agent dies and returns,
//! loses its bindings, or the visited network is unreachable for a while. An interruption lasts as long as its
//! detection, not as long as a binding.

use crate::failure::{WorldFamily, ensure};
use crate::nemo::binding_messages::{self, BindingMessage};
use crate::nemo::config;
use crate::nemo::ipv4::{self, Ipv4Access};
use crate::nemo::topology::{self, Topology};
use crate::net::{Choice, Event, HostId, Observation, World};
use crate::run::{MAX_TRANSIT, Network, Script, SeededWorld};
use core::time::Duration;
use roam6_proto::contract::config::nemo::{DsmipService, HomeAgentConfig, MobileRouterConfig};
use roam6_proto::contract::report::{LossReason, NemoReport};
use roam6_proto::role::Role;
use roam6_proto::{Entropy, Report};

/// Limit from the death of a home agent until the other one carries packets: 0.8 s for the probes, 0.3 s for the
/// Binding Update that verifies the binding, 1 s for duplicate address detection at the other one, if enabled.
const REPLACEMENT_LIMIT: Duration = Duration::from_millis(1_300);
const REPLACEMENT_LIMIT_WITH_DAD: Duration = Duration::from_millis(2_300);
/// The same if there is an uplink with IPv4 alone: a NAT may let no echo request through, so that the other home agent is
/// asked in another way, a round of probes later.
const IPV4_EXTRA: Duration = Duration::from_millis(500);
/// Limit from the loss of a binding until it is registered again.
const LOSS_RECOVERY_LIMIT: Duration = Duration::from_millis(1_300);
/// Limit from the end of a black hole until packets of the mobile network pass.
const BLACK_HOLE_RECOVERY_LIMIT: Duration = Duration::from_millis(1_500);
const FAULTS: u32 = 8;
/// Interval of NAT keepalives (RFC 5555 §6).
const KEEPALIVE: Duration = Duration::from_secs(110);
const SECOND: u64 = 1_000_000;

/// The result of a world whose invariants hold.
#[derive(Debug, Default, Clone, Copy)]
pub struct RunResult {
    /// Deaths of a home agent in use.
    pub deaths: u64,
    /// Losses of bindings.
    pub losses: u64,
    /// Black holes.
    pub holes: u64,
    /// Events handled.
    pub events: u64,
}

/// A fault.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The home agent in use loses power, and returns with its journal or without.
    Death { back: Duration, disk: bool },
    /// The home agent in use loses its bindings.
    BindingsLost,
    /// The visited network drops every packet.
    BlackHole(Duration),
}

/// A world of two home agents.
pub struct FailoverWorld {
    topology: Topology,
    entropy: Entropy,
    /// The home agents detect duplicates of the home address at its first binding.
    detection: bool,
    /// Uplinks with IPv4 alone, and such behind a NAT.
    ipv4: bool,
    translated: bool,
    /// The home agent with the binding, and how often that has changed.
    agent: Option<usize>,
    changes: u64,
    /// Bindings that expired while no home agent was reachable: then the first to answer is as good as the other.
    deregistrations: u64,
    result: RunResult,
}

impl SeededWorld for FailoverWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "failover world", replay: "failover" };
    type Result = RunResult;

    fn generate(seed: u64) -> FailoverWorld {
        let mut entropy = Entropy::seed_from_u64(seed ^ 0xfa11_0000);
        let mut topology = Topology::new(seed, 2);
        let detection = entropy.below(2) == 0;
        let row = config::row(0, &mut entropy);
        let lifetime = Duration::from_secs(if entropy.below(2) == 0 { 600 } else { 3600 });
        // Of each visited network.
        let access = [0; 2].map(|_| match entropy.below(4) {
            0 => Some(Ipv4Access { ipv6: false, translated: false }),
            1 => Some(Ipv4Access { ipv6: false, translated: true }),
            _ => None,
        });
        let ipv4 = access.iter().any(Option::is_some);
        for index in 0..2 {
            let home_agent = config::home_agent(index, core::slice::from_ref(&row));
            let address = ipv4::agent_address(index);
            let service = DsmipService { address, keepalive: KEEPALIVE, force_udp: entropy.one_in(2) };
            let role = Role::HomeAgent(HomeAgentConfig {
                duplicate_detection: detection,
                ipv4: ipv4.then_some(service),
                ..home_agent
            });
            topology.add_agent(config::engine_factory(vec![role], entropy.next_u64()));
        }
        let uplinks = 1 + usize::try_from(entropy.below(2)).unwrap_or(0);
        let names = [topology::FIRST_INTERFACE, topology::SECOND_INTERFACE];
        let mobile_router = config::mobile_router(0, &row, names.get(..uplinks).unwrap_or_default(), 2);
        let home_agents_ipv4 = if ipv4 { (0..2).map(ipv4::agent_address).collect() } else { Vec::new() };
        let role = Role::MobileRouter(Box::new(MobileRouterConfig { lifetime, home_agents_ipv4, ..mobile_router }));
        topology.add_mobile(uplinks, config::engine_factory(vec![role], entropy.next_u64()));
        if ipv4 {
            topology.add_ipv4();
        }
        for (index, access) in (0..).zip(access) {
            access.into_iter().for_each(|access| topology.add_ipv4_network(index, access));
        }
        FailoverWorld {
            topology,
            entropy,
            detection,
            ipv4,
            translated: access.iter().flatten().any(|access| access.translated),
            agent: None,
            changes: 0,
            deregistrations: 0,
            result: RunResult::default(),
        }
    }

    fn run(&mut self) -> Result<RunResult, String> {
        let ports: Vec<_> = self.topology.mobiles.iter().flat_map(|mobile| &mobile.uplinks).copied().collect();
        let host = self.topology.mobiles.first().map(|mobile| mobile.host).ok_or("no mobile router")?;
        let attach = |(link, medium)| (Duration::from_secs(1), Event::Attach(host, link, Some(medium)));
        let events = ports.into_iter().zip(self.topology.visited.clone()).map(attach).collect();
        self.play(Script { events, last_fault: Duration::ZERO })?;
        self.wait(Duration::from_secs(10))?;
        self.check_stable(Duration::from_secs(5))?;
        for _ in 0..FAULTS {
            let fault = self.choose_fault();
            self.inject_fault(fault)?;
            // Long after a binding is refreshed, and at any moment between two probes.
            let pause = Duration::from_micros(20 * SECOND + self.entropy.below(180 * SECOND));
            self.check_stable(pause)?;
        }
        let deaths = self.result.deaths;
        // Behind a NAT nothing shows that a home agent that has lost the binding lives, until it has detected duplicates.
        let lost = if self.translated && self.detection { self.result.losses } else { 0 };
        match self.changes <= 1 + deaths + lost + self.deregistrations {
            true => Ok(RunResult { events: self.topology.world.events, ..self.result }),
            false => Err(format!("{} changes of the home agent for {deaths} deaths", self.changes)),
        }
    }
}

impl Network for FailoverWorld {
    fn network(&mut self) -> &mut World {
        &mut self.topology.world
    }

    fn check(&mut self, observations: &[Observation]) -> Result<(), String> {
        observations.iter().for_each(|observation| self.observe(observation));
        Ok(())
    }
}

impl FailoverWorld {
    fn choose_fault(&mut self) -> Fault {
        match self.entropy.below(4) {
            0 | 1 => Fault::Death {
                back: Duration::from_micros(5 * SECOND + self.entropy.below(120 * SECOND)),
                disk: self.entropy.below(2) == 0,
            },
            2 => Fault::BindingsLost,
            _ => Fault::BlackHole(Duration::from_micros(SECOND / 2 + self.entropy.below(25 * SECOND))),
        }
    }

    /// Injects a fault, and returns when packets must pass again.
    fn inject_fault(&mut self, fault: Fault) -> Result<(), String> {
        let agent = self.agent.ok_or("not bound")?;
        let host = self.topology.agents.get(agent).map(|agent| agent.host).ok_or("no home agent")?;
        match fault {
            Fault::Death { back, disk } => {
                self.result.deaths += 1;
                self.schedule(Event::PowerOff(host));
                let limit = if self.detection { REPLACEMENT_LIMIT_WITH_DAD } else { REPLACEMENT_LIMIT };
                self.wait(limit + if self.ipv4 { IPV4_EXTRA } else { Duration::ZERO })?;
                self.check_stable(back)?;
                if !disk {
                    self.schedule(Event::EraseJournal(host));
                }
                self.schedule(Event::Start(host));
            }
            Fault::BindingsLost => {
                self.result.losses += 1;
                self.schedule(Event::PowerOff(host));
                self.schedule(Event::EraseJournal(host));
                self.schedule(Event::Start(host));
                let detection = if self.detection { Duration::from_secs(1) } else { Duration::ZERO };
                self.wait(LOSS_RECOVERY_LIMIT + detection)?;
            }
            Fault::BlackHole(length) => {
                self.result.holes += 1;
                for medium in self.topology.visited.clone() {
                    self.schedule(Event::BlackHole(medium, true));
                }
                self.wait(length)?;
                for medium in self.topology.visited.clone() {
                    self.schedule(Event::BlackHole(medium, false));
                }
                self.wait(BLACK_HOLE_RECOVERY_LIMIT)?;
            }
        }
        Ok(())
    }

    fn schedule(&mut self, event: Event) {
        self.topology.world.schedule(Duration::ZERO, event);
    }

    /// Lets time pass, in which nothing may be lost.
    fn check_stable(&mut self, span: Duration) -> Result<(), String> {
        let since = self.topology.world.now();
        let until = since + span;
        self.wait(span + MAX_TRANSIT)?;
        for mobile in &self.topology.mobiles {
            for (way, tally) in [("out of", &mobile.upstream), ("into", &mobile.downstream)] {
                let missing = tally.borrow().missing(since, until);
                ensure!(missing == 0, "{missing} packets {way} the mobile network lost since {since}");
            }
        }
        Ok(())
    }

    fn wait(&mut self, span: Duration) -> Result<(), String> {
        let end = self.topology.world.now() + span;
        self.advance(end)?;
        self.topology.world.wait_until(end);
        Ok(())
    }

    /// Follows the home agent of the binding, as the routing of the home network does.
    fn observe(&mut self, observation: &Observation) {
        match observation {
            Observation::Sent(host, packet) => {
                let Some(BindingMessage::Acknowledgement(answer)) = binding_messages::parse(packet) else { return };
                let agent = self.topology.agents.iter().position(|agent| agent.host == *host);
                if let Some(agent) = agent.filter(|_| answer.status < 128 && !answer.lifetime.is_zero()) {
                    self.topology.announce(0, agent);
                }
            }
            Observation::Reported(host, Report::Nemo(NemoReport::Unbound { why, .. })) if self.is_mobile(*host) => {
                self.deregistrations += u64::from(*why == LossReason::Expired.to_string());
            }
            Observation::Reported(host, Report::Nemo(NemoReport::Bound { home_agent, .. }))
                if self.is_mobile(*host) =>
            {
                let agent = self.topology.agents.iter().position(|agent| agent.address == *home_agent);
                self.changes += u64::from(agent != self.agent);
                self.agent = agent;
            }
            _ => {}
        }
    }

    fn is_mobile(&self, host: HostId) -> bool {
        self.topology.mobiles.iter().any(|mobile| mobile.host == host)
    }
}
