//! Worlds of two home agents with the same prefix table and long binding lifetimes: a home agent dies and returns,
//! loses its bindings, or the visited network is unreachable for a while. An interruption lasts as long as its
//! detection, not as long as a binding.

use crate::failure::{Failure, Family};
use crate::host::{Brain, HostId};
use crate::map::{self, Map};
use crate::signal::{self, Signal};
use crate::world::{Fact, Happening};
use core::time::Duration;
use roam6_proto::contract::config::nemo::{
    Authentication, DadMode, HomeAgentConfig, HomeNetwork, IngressConfig, MobileRouterConfig, PrefixMode,
    PrefixTable, PrefixTableRow, ProbeConfig, SharedKey, LoadSharing, UplinkConfig,
};
use roam6_proto::contract::report::LossReason;
use roam6_proto::role::Role;
use roam6_proto::{Entropy, Node, Report};
use roam6_wire::Bid;
use std::net::Ipv6Addr;

/// Limit from the death of a home agent until the other one carries packets: 0.8 s for the probes, 0.3 s for the
/// Binding Update that verifies the binding, 1 s for duplicate address detection at the other one, if enabled.
const REPLACED: Duration = Duration::from_millis(1_300);
const REPLACED_WITH_DETECTION: Duration = Duration::from_millis(2_300);
/// Limit from the loss of a binding until it is registered again.
const MENDED: Duration = Duration::from_millis(1_300);
/// Limit from the end of a black hole until packets of the mobile network pass.
const RECOVERED: Duration = Duration::from_millis(1_500);
/// Largest transit time of a packet.
const TRANSIT: Duration = Duration::from_millis(500);
const FAULTS: u32 = 8;
const SECOND: u64 = 1_000_000;
const FAMILY: Family = Family { name: "failover world", replay: "one_world_of_two_home_agents" };

/// The result of a world whose invariants hold.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tale {
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
    Loss,
    /// The visited network drops every packet.
    Hole(Duration),
}

/// Runs the world of `seed`, and prints every event to standard output if `loud`.
///
/// # Errors
/// The first invariant that does not hold.
pub fn play(seed: u64, loud: bool) -> Result<Tale, Failure> {
    let mut world = Failover::new(seed);
    world.map.world.loud = loud;
    let played = world.run();
    let at = world.map.world.now();
    played.map_err(|what| Failure { family: FAMILY, seed, kind: None, at, what })?;
    Ok(world.tale)
}

struct Failover {
    map: Map,
    chance: Entropy,
    /// The home agents detect duplicates of the home address at its first binding.
    detection: bool,
    /// The home agent with the binding, and how often that has changed.
    agent: Option<usize>,
    changes: u64,
    /// Bindings that expired while no home agent was reachable: then the first to answer is as good as the other.
    ended: u64,
    tale: Tale,
}

impl Failover {
    fn new(seed: u64) -> Failover {
        let mut chance = Entropy::seed_from_u64(seed ^ 0xfa11_0000);
        let mut map = Map::new(seed, 2);
        let detection = chance.below(2) == 0;
        let mut secret = vec![0; 16];
        chance.fill(&mut secret);
        let row = PrefixTableRow {
            home_address: map::home_address(0),
            prefixes: [map::mobile_prefix(0)].into(),
            authentication: Authentication::SharedKey(SharedKey { spi: 256, secret }),
            next_key: None,
        };
        let lifetime = Duration::from_secs(if chance.below(2) == 0 { 600 } else { 3600 });
        for index in 0..2 {
            let role = Role::HomeAgent(home_agent(index, &row, detection));
            map.add_agent(birth(role, chance.next_u64()));
        }
        let uplinks = 1 + usize::try_from(chance.below(2)).unwrap_or(0);
        let role = Role::MobileRouter(Box::new(mobile_router(&row, lifetime, uplinks)));
        map.add_mobile(uplinks, birth(role, chance.next_u64()));
        Failover { map, chance, detection, agent: None, changes: 0, ended: 0, tale: Tale::default() }
    }

    fn run(&mut self) -> Result<(), String> {
        let ports: Vec<_> = self.map.mobiles.iter().flat_map(|mobile| &mobile.uplinks).copied().collect();
        let host = self.map.mobiles.first().map(|mobile| mobile.host).ok_or("no mobile router")?;
        for (link, medium) in ports.into_iter().zip(self.map.visited.clone()) {
            self.map.world.plan(Duration::from_secs(1), Happening::Plug(host, link, Some(medium)));
        }
        self.map.start();
        self.advance(Duration::from_secs(10));
        self.keeps(Duration::from_secs(5))?;
        for _ in 0..FAULTS {
            let fault = self.choose();
            self.strike(fault)?;
            // Long after a binding is refreshed, and at any moment between two probes.
            let pause = Duration::from_micros(20 * SECOND + self.chance.below(180 * SECOND));
            self.keeps(pause)?;
        }
        let deaths = self.tale.deaths;
        match self.changes <= 1 + deaths + self.ended {
            true => Ok(()),
            false => Err(format!("{} changes of the home agent for {deaths} deaths", self.changes)),
        }
    }

    fn choose(&mut self) -> Fault {
        match self.chance.below(4) {
            0 | 1 => Fault::Death {
                back: Duration::from_micros(5 * SECOND + self.chance.below(120 * SECOND)),
                disk: self.chance.below(2) == 0,
            },
            2 => Fault::Loss,
            _ => Fault::Hole(Duration::from_micros(SECOND / 2 + self.chance.below(25 * SECOND))),
        }
    }

    /// Injects a fault, and returns when packets must pass again.
    fn strike(&mut self, fault: Fault) -> Result<(), String> {
        let agent = self.agent.ok_or("not bound")?;
        let host = self.map.agents.get(agent).map(|agent| agent.host).ok_or("no home agent")?;
        match fault {
            Fault::Death { back, disk } => {
                self.tale.deaths += 1;
                self.happen(Happening::PowerOff(host));
                let limit = if self.detection { REPLACED_WITH_DETECTION } else { REPLACED };
                self.advance(limit);
                self.keeps(back)?;
                if !disk {
                    self.happen(Happening::LoseDisk(host));
                }
                self.happen(Happening::Start(host));
            }
            Fault::Loss => {
                self.tale.losses += 1;
                self.happen(Happening::PowerOff(host));
                self.happen(Happening::LoseDisk(host));
                self.happen(Happening::Start(host));
                let detection = if self.detection { Duration::from_secs(1) } else { Duration::ZERO };
                self.advance(MENDED + detection);
            }
            Fault::Hole(length) => {
                self.tale.holes += 1;
                for medium in self.map.visited.clone() {
                    self.happen(Happening::BlackHole(medium, true));
                }
                self.advance(length);
                for medium in self.map.visited.clone() {
                    self.happen(Happening::BlackHole(medium, false));
                }
                self.advance(RECOVERED);
            }
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening) {
        self.map.world.plan(Duration::ZERO, happening);
    }

    /// Lets time pass, in which nothing may be lost.
    fn keeps(&mut self, span: Duration) -> Result<(), String> {
        let since = self.map.world.now();
        let until = since + span;
        self.advance(span + TRANSIT);
        for mobile in &self.map.mobiles {
            for (way, tally) in [("out of", &mobile.upward), ("into", &mobile.downward)] {
                let missing = tally.borrow().missing(since, until);
                if missing > 0 {
                    return Err(format!("{missing} packets {way} the mobile network lost since {since}"));
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, span: Duration) {
        let end = self.map.world.now() + span;
        while let Some(facts) = self.map.world.step(end) {
            self.tale.events += 1;
            facts.iter().for_each(|fact| self.look(fact));
        }
        // Time stands at the last event before.
        let rest = end.since(self.map.world.now());
        self.map.world.plan(rest, Happening::Quality(self.map.home, map::calm()));
        self.map.world.step(end + Duration::from_micros(1));
    }

    /// Follows the home agent of the binding, as the routing of the home network does.
    fn look(&mut self, fact: &Fact) {
        match fact {
            Fact::Sent(host, packet) => {
                let Some(Signal::Acknowledgement(answer)) = signal::read(packet) else { return };
                let agent = self.map.agents.iter().position(|agent| agent.host == *host);
                if let Some(agent) = agent.filter(|_| answer.status < 128 && !answer.lifetime.is_zero()) {
                    self.map.announce(0, agent);
                }
            }
            Fact::Told(host, Report::Unbound { why, .. }) if self.is_mobile(*host) => {
                self.ended += u64::from(*why == LossReason::Expired.to_string());
            }
            Fact::Told(host, Report::Bound { home_agent, .. }) if self.is_mobile(*host) => {
                let agent = self.agent_at(*home_agent);
                self.changes += u64::from(agent != self.agent);
                self.agent = agent;
            }
            _ => {}
        }
    }

    fn is_mobile(&self, host: HostId) -> bool {
        self.map.mobiles.iter().any(|mobile| mobile.host == host)
    }

    fn agent_at(&self, address: Ipv6Addr) -> Option<usize> {
        self.map.agents.iter().position(|agent| agent.address == address)
    }
}

fn birth(role: Role, seed: u64) -> impl Fn(u32) -> Brain + 'static {
    move |life| {
        let mut bytes = [0; 32];
        Entropy::seed_from_u64(seed.wrapping_add(u64::from(life))).fill(&mut bytes);
        Box::new(Node::from_roles(core::slice::from_ref(&role), bytes))
    }
}

fn home_agent(index: u16, row: &PrefixTableRow, detection: bool) -> HomeAgentConfig {
    HomeAgentConfig {
        address: map::agent_address(index),
        home_prefixes: vec![map::home_prefix()],
        home_link: Some(map::FIRST_INTERFACE.to_owned()),
        prefix_table: PrefixTable { rows: vec![row.clone()] }.into(),
        max_lifetime: Duration::from_secs(3600),
        refresh_advice: None,
        multiple_care_of: true,
        home_and_away: true,
        max_bindings: 8,
        duplicate_detection: detection,
        preference: index,
        advertisement_interval: Some(Duration::from_secs(3)),
        path_mtu: 1500,
        ipv4: None,
        ipv4_pool: None,
    }
}

fn mobile_router(row: &PrefixTableRow, lifetime: Duration, uplinks: usize) -> MobileRouterConfig {
    let names = [map::FIRST_INTERFACE, map::SECOND_INTERFACE];
    let uplink = |(name, number): (&&str, u8)| UplinkConfig {
        interface: (*name).to_owned(),
        bid: Bid(u16::from(number)),
        priority: number,
        weight: 1,
        care_of_prefix: true,
        address: None,
    };
    MobileRouterConfig {
        home_address: row.home_address,
        home_prefix: map::home_prefix(),
        home_network: HomeNetwork::default(),
        home_agents: (0..2).map(map::agent_address).collect(),
        home_agents_ipv4: Vec::new(),
        dynamic_ipv4: None,
        prefixes: row.prefixes.to_vec(),
        prefix_mode: PrefixMode::Explicit,
        authentication: row.authentication.clone(),
        lifetime,
        uplinks: names.iter().take(uplinks).zip(1..).map(uplink).collect(),
        load_sharing: if uplinks > 1 { LoadSharing::Standby } else { LoadSharing::Single },
        home_and_away: false,
        ingress: vec![IngressConfig {
            interface: map::INSIDE_INTERFACE.to_owned(),
            prefix: map::mobile_prefix(0),
            advertisement_interval: Duration::from_secs(10),
            dns: None,
            search_domains: None,
        }],
        duplicate_detection: DadMode::Optimistic,
        probe: Some(ProbeConfig::default()),
        flows: Vec::new(),
        care_of_prefixes: None,
    }
}
