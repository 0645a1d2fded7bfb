//! The world of a seed: its hosts, their configuration, and the script of faults.

use crate::kinds::kinds;
use crate::nemo::care_of_prefix::dhcp6_server::ServerSpec;
use crate::nemo::config;
use crate::nemo::ipv4::{self, Ipv4Access};
use crate::nemo::topology::{self, Topology};
use crate::net::items::delay;
use crate::net::{Choice, Event, HostId, LinkSpec, MediumId};
use core::time::Duration;
use roam6_proto::contract::config::nemo::{
    Authentication, CareOfPrefixConfig, DadMode, DsmipService, HomeAgentConfig, LoadSharing, MobileRouterConfig,
    PrefixMode, PrefixPreference, PrefixSharing, PrefixTableRow, ProbeConfig, Transport,
};
use roam6_proto::role::Role;
use roam6_proto::{Entropy, LinkId};
use roam6_wire::ip6::protocol;
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

kinds! {
    /// The kind of a world.
    NemoKind {
        /// One uplink moves between networks.
        Moves,
        /// Two uplinks, of which the best carries all traffic.
        Standby,
        /// Two uplinks share the traffic.
        Weights,
        /// Two home agents, of which one may die for good.
        Fallback,
        /// A mobile router inside the network of another.
        Nested,
        /// Return home; with two uplinks, at home and away at the same time.
        Home,
        /// Home agent and mobile router crash.
        Crashes,
        /// Clocks are wrong, drift and are stepped.
        Skew,
        /// An off-path attacker sends forged, mutated and replayed messages.
        Hostile,
        /// Other hosts have the address a mobile router would form.
        Conflict,
    }
}

/// One world in so many has care-of prefixes.
const CARE_OF_PREFIX_ONE_IN: u64 = 4;
/// One of so many of the others has IPv4.
const IPV4_ONE_IN: u64 = 3;
/// One of so many of those without IPv4 has encrypted paths.
const ENCRYPTED_ONE_IN: u64 = 2;
const VISITED_NETWORKS: u16 = 3;
const SECOND: u64 = 1_000_000;

/// A world and its script.
#[derive(Debug)]
pub struct NemoScenario {
    /// The kind of the world.
    pub kind: NemoKind,
    /// Hosts and links.
    pub topology: Topology,
    /// Events by their time.
    pub script: Vec<(Duration, Event)>,
    /// When the last fault has ended.
    pub calm: Duration,
    /// Mobile routers that are at home in the end.
    pub home: Vec<usize>,
    /// The configuration of care-of prefixes, if the world has them.
    pub care_of_prefixes: Option<CareOfPrefixConfig>,
    /// Whether home agents and some visited networks have IPv4.
    pub ipv4: bool,
    /// Whether all mobile routers and home agents encrypt.
    pub encrypted: bool,
    /// Whether each of several uplinks is registered in the end.
    pub several: bool,
}

impl NemoScenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> NemoScenario {
        let kind = NemoKind::of_seed(seed);
        let mut rng = Entropy::seed_from_u64(seed ^ 0x5eed_0000);
        let mut topology = Topology::new(seed, VISITED_NETWORKS);
        let mobiles = if kind == NemoKind::Nested { 2 } else { 1 };
        let rows: Vec<PrefixTableRow> = (0..mobiles).map(|index| row(index, kind, &mut rng)).collect();
        let mut care_of_rng = Entropy::seed_from_u64(seed ^ 0x8415_0000);
        let care_of_prefixes = care_of_rng.one_in(CARE_OF_PREFIX_ONE_IN).then(|| care_of_prefixes(&mut care_of_rng));
        let mut ipv4_rng = Entropy::seed_from_u64(seed ^ 0x5555_0000);
        let ipv4 = care_of_prefixes.is_none() && ipv4_rng.one_in(IPV4_ONE_IN);
        let mut transport_rng = Entropy::seed_from_u64(seed ^ 0x4191_0000);
        let filtered = transport_rng.one_in(3);
        let mut encryption_rng = Entropy::seed_from_u64(seed ^ 0x5167_0000);
        let authenticated = rows.iter().all(|row| row.authentication != Authentication::None);
        let encrypted = !ipv4 && authenticated && encryption_rng.one_in(ENCRYPTED_ONE_IN);
        let required = encryption_rng.one_in(2);
        let by_esp = encrypted && !filtered && encryption_rng.one_in(2);
        let mut encryption = |is_agent: bool| match by_esp {
            true => config::encryption_by_esp(is_agent),
            false => config::encryption(is_agent && required, &mut encryption_rng),
        };
        let mut quality_rng = Entropy::seed_from_u64(seed ^ 0x6298_0000);
        let (mut allowed, mut several) = (true, matches!(kind, NemoKind::Standby | NemoKind::Weights));
        for index in 0..if kind == NemoKind::Fallback { 2 } else { 1 } {
            let mut config = HomeAgentConfig {
                home_and_away: kind != NemoKind::Home || !rng.one_in(8),
                ..home_agent(index, &rows, &mut rng)
            };
            config.ipv4 = ipv4.then(|| ipv4_service(index, &mut ipv4_rng));
            config.udp6 = filtered;
            config.encryption = encrypted.then(|| encryption(true).into());
            allowed &= config.multiple_care_of && config.home_and_away;
            several &= config.multiple_care_of;
            let seed = rng.next_u64();
            let (spawn, renew_keys) = config::renewable_engine(Role::HomeAgent(config), seed);
            topology.add_agent(spawn);
            if let Some(agent) = topology.agents.last().map(|agent| agent.host) {
                topology.world.host_mut(agent).renew_keys = Box::new(renew_keys);
            }
        }
        for (index, row) in rows.iter().enumerate() {
            let mut config = mobile_router(u16::try_from(index).unwrap_or(0), kind, row, &mut rng);
            config.care_of_prefixes = care_of_prefixes;
            if ipv4 {
                enable_ipv4(&mut config, kind);
            }
            config.encryption = encrypted.then(|| encryption(false));
            limit_quality(&mut config, &mut quality_rng);
            if filtered {
                config.probe.get_or_insert_default();
                config.uplinks.iter_mut().for_each(|uplink| uplink.transport = Transport::Auto);
            }
            let uplinks = config.uplinks.len();
            let seed = rng.next_u64();
            let (spawn, renew_keys) = config::renewable_engine(Role::MobileRouter(Box::new(config)), seed);
            topology.add_mobile(uplinks, spawn);
            if let Some(mobile) = topology.mobiles.last().map(|mobile| mobile.host) {
                topology.world.host_mut(mobile).renew_keys = Box::new(renew_keys);
            }
        }
        let calm = Duration::from_micros(rng.between(30 * SECOND, 70 * SECOND));
        let mut scenario = NemoScenario {
            kind,
            topology,
            script: Vec::new(),
            calm,
            home: Vec::new(),
            care_of_prefixes,
            ipv4,
            encrypted,
            several,
        };
        if ipv4 {
            scenario.add_ipv4(&mut ipv4_rng);
        }
        if filtered {
            scenario.filter_networks(&mut transport_rng);
        }
        scenario.set_clocks(&mut rng);
        scenario.set_address_conflicts(&mut rng);
        scenario.write_beginning(&mut rng);
        scenario.write_faults(&mut rng);
        scenario.write_end(allowed, &mut rng);
        if care_of_prefixes.is_some() {
            scenario.write_delegation(&mut care_of_rng);
        }
        if ipv4 {
            scenario.write_translation(&mut ipv4_rng);
        }
        if encrypted && !by_esp {
            scenario.write_renewals(&mut encryption_rng);
        }
        scenario
    }

    /// Whether nodes of the mobile network `index` have a preferred care-of prefix in the end, with any server:
    /// the visited link can be shared, unless its router may be a proxy itself.
    pub fn has_care_of_prefixes(&self, index: usize) -> bool {
        let nested = self.kind == NemoKind::Nested && index > 0;
        let shares = |config: CareOfPrefixConfig| {
            config.share == PrefixSharing::NdProxy && config.prefer != PrefixPreference::Home
        };
        self.care_of_prefixes.is_some_and(shares) && !nested && !self.home.contains(&index)
    }

    /// Adds delegating routers in some visited networks, which come and go, and nodes that use care-of prefixes.
    fn write_delegation(&mut self, rng: &mut Entropy) {
        for index in (0..VISITED_NETWORKS).filter(|_| !rng.one_in(4)).collect::<Vec<_>>() {
            let manner = dhcp_server(rng);
            self.topology.add_server(index, |link, address, pool| ServerSpec { link, address, pool, ..manner });
            let Some(server) = self.topology.servers.get(usize::from(index)).copied().flatten() else { continue };
            for _ in 0..rng.below(4) {
                let at = Duration::from_micros(rng.below(u64::try_from(self.calm.as_micros()).unwrap_or(0)));
                let until = at + Duration::from_micros(rng.between(SECOND / 2, 30 * SECOND));
                self.script.extend([(at, Event::Kill(server)), (until.min(self.calm), Event::Start(server))]);
            }
            let last = if rng.one_in(4) { Event::Kill(server) } else { Event::Start(server) };
            self.script.push((self.calm, last));
        }
        (0..self.topology.mobiles.len()).for_each(|index| self.topology.add_mobile_network_node(index));
    }

    /// Adds IPv4 to home agents, mobile routers and most visited networks.
    fn add_ipv4(&mut self, rng: &mut Entropy) {
        self.topology.add_ipv4();
        for index in (0..VISITED_NETWORKS).filter(|_| !rng.one_in(4)).collect::<Vec<_>>() {
            let provision = Ipv4Access { ipv6: rng.one_in(3), translated: !rng.one_in(4) };
            self.topology.add_ipv4_network(index, provision);
        }
    }

    /// NATs lose their mappings at times.
    fn write_translation(&mut self, rng: &mut Entropy) {
        let calm = u64::try_from(self.calm.as_micros()).unwrap_or(0);
        for host in self.topology.translators() {
            for _ in 0..rng.below(4) {
                self.script.push((Duration::from_micros(rng.below(calm)), Event::ForgetMappings(host)));
            }
        }
    }

    /// Half of the hosts renew their keys: among the faults, or later, while nothing may be lost. A daemon refuses a second
    /// renewal while there are sessions with the keys before the first.
    fn write_renewals(&mut self, rng: &mut Entropy) {
        let calm = u64::try_from(self.calm.as_micros()).unwrap_or(0);
        for host in self.engines() {
            let at = if rng.one_in(2) { rng.below(calm) } else { calm + rng.between(SECOND, 20 * SECOND) };
            if rng.one_in(2) {
                self.script.push((Duration::from_micros(at), Event::RenewKeys(host)));
            }
        }
    }

    fn set_clocks(&mut self, rng: &mut Entropy) {
        for host in self.engines() {
            let clock = &mut self.topology.world.host_mut(host).clock;
            let (far, near) = (signed(rng, 1_000 * SECOND), signed(rng, 2 * SECOND));
            match self.kind {
                NemoKind::Skew => {
                    clock.drift_ppm = i32::try_from(signed(rng, 200)).unwrap_or(0);
                    clock.wall_offset_micros = if rng.one_in(2) { far } else { near };
                }
                _ => clock.wall_offset_micros = near / 10,
            }
        }
    }

    fn set_address_conflicts(&mut self, rng: &mut Entropy) {
        if self.kind != NemoKind::Conflict {
            return;
        }
        for index in 0..VISITED_NETWORKS {
            let taken = self.topology.mobiles.first().and_then(|mobile| Some((mobile.host, *mobile.uplinks.first()?)));
            let (Some(port), false) = (taken, rng.one_in(3)) else { continue };
            let identifier = self.topology.link_address(port).interface_identifier();
            let address = topology::visited_prefix(index).with_identifier(identifier).unwrap_or(Ipv6Addr::UNSPECIFIED);
            if let Some(medium) = self.topology.visited.get(usize::from(index)).copied() {
                self.topology.add_address_holder(medium, address);
            }
        }
    }

    /// The home agents and mobile routers.
    fn engines(&self) -> Vec<HostId> {
        let agents = self.topology.agents.iter().map(|agent| agent.host);
        agents.chain(self.topology.mobiles.iter().map(|mobile| mobile.host)).collect()
    }

    /// The uplinks of the mobile router `index` and the networks each may visit.
    fn uplinks(&self, index: usize) -> Vec<(HostId, LinkId)> {
        let mobile = self.topology.mobiles.get(index);
        mobile.into_iter().flat_map(|mobile| mobile.uplinks.iter().map(|link| (mobile.host, *link))).collect()
    }

    fn reachable_networks(&self, index: usize) -> Vec<MediumId> {
        let mut haunts = self.topology.visited.clone();
        match self.kind {
            NemoKind::Home => haunts.extend([self.topology.home; 2]),
            NemoKind::Nested if index > 0 => {
                haunts.extend([self.topology.mobiles.first().map_or(self.topology.home, |m| m.ingress_medium); 4])
            }
            _ => {}
        }
        haunts
    }

    fn write_beginning(&mut self, rng: &mut Entropy) {
        for index in 0..self.topology.mobiles.len() {
            let haunts = self.reachable_networks(index);
            for (host, link) in self.uplinks(index) {
                let medium = rng.pick(&haunts);
                let at = Duration::from_micros(rng.between(0, 2 * SECOND));
                self.script.push((at, Event::Attach(host, link, medium)));
            }
        }
    }

    /// Visited networks drop mobility headers, tunnels or fragments, or some of them.
    fn filter_networks(&mut self, rng: &mut Entropy) {
        for medium in self.topology.visited.clone() {
            let protocols = [protocol::MOBILITY, protocol::IPV6, protocol::FRAGMENT];
            self.topology.world.medium_mut(medium).dropped = protocols.into_iter().filter(|_| rng.one_in(2)).collect();
        }
    }

    fn write_faults(&mut self, rng: &mut Entropy) {
        let mut at = Duration::from_secs(2);
        let pace = rng.between(SECOND, 10 * SECOND);
        loop {
            at += Duration::from_micros(rng.between(200_000, 2 * pace));
            if at >= self.calm {
                return;
            }
            match rng.below(10) {
                0..4 => self.write_move(at, rng),
                4..6 => self.write_link_change(at, rng),
                6 => self.write_flap(at, rng),
                7 => self.write_refusals(at, rng),
                _ => self.write_kind_events(at, rng),
            }
        }
    }

    fn write_move(&mut self, at: Duration, rng: &mut Entropy) {
        let index = rng.index(self.topology.mobiles.len());
        let ports = self.uplinks(index);
        let haunts = self.reachable_networks(index);
        let Some((host, link)) = rng.pick(&ports) else { return };
        let medium = rng.pick(&haunts).filter(|_| !rng.one_in(8));
        if let Some(medium) = medium.filter(|_| rng.one_in(6)) {
            self.script.push((at, Event::Roam(host, link, medium)));
            return;
        }
        self.script.push((at, Event::Attach(host, link, None)));
        let gap = Duration::from_micros(rng.between(0, SECOND / 2));
        if let Some(medium) = medium {
            self.script.push((at + gap, Event::Attach(host, link, Some(medium))));
        }
    }

    fn write_link_change(&mut self, at: Duration, rng: &mut Entropy) {
        let media: Vec<MediumId> = self.topology.world.media().collect();
        let Some(medium) = rng.pick(&media) else { return };
        let share = |rng: &mut Entropy, most: u64| if rng.one_in(2) { rng.below(most) as f64 / 1000.0 } else { 0.0 };
        let spec = LinkSpec {
            delay: Duration::from_micros(rng.between(500, 60_000)),
            jitter: Duration::from_micros(rng.between(0, 20_000)),
            loss: share(rng, 300),
            duplicate: share(rng, 200),
            reorder: share(rng, 200),
            ..LinkSpec::default()
        };
        self.script.push((at, Event::SetLink(medium, spec)));
    }

    fn write_flap(&mut self, at: Duration, rng: &mut Entropy) {
        let Some(medium) = rng.pick(&self.topology.visited) else { return };
        let until = at + Duration::from_micros(rng.between(50_000, 6 * SECOND));
        let (begin, end) = match rng.one_in(2) {
            true => (Event::Carrier(medium, false), Event::Carrier(medium, true)),
            false => (Event::BlackHole(medium, true), Event::BlackHole(medium, false)),
        };
        self.script.extend([(at, begin), (until, end)]);
    }

    fn write_refusals(&mut self, at: Duration, rng: &mut Entropy) {
        let Some(host) = rng.pick(&self.engines()) else { return };
        let permille = u16::try_from(rng.between(10, 300)).unwrap_or(0);
        let until = at + Duration::from_micros(rng.between(SECOND / 10, 8 * SECOND));
        self.script.extend([(at, Event::RefuseItems(host, permille)), (until, Event::RefuseItems(host, 0))]);
    }

    /// Periodic events of the world's kind.
    fn write_kind_events(&mut self, at: Duration, rng: &mut Entropy) {
        let engines = self.engines();
        match self.kind {
            NemoKind::Crashes | NemoKind::Fallback => {
                let Some(host) = rng.pick(&engines) else { return };
                let end = if rng.one_in(3) { Event::PowerOff(host) } else { Event::Kill(host) };
                let down = Duration::from_micros(rng.between(SECOND / 20, 15 * SECOND));
                self.script.extend([(at, end), (at + down, Event::Start(host))]);
                // A home agent without its journal breaks its word; a mobile router must get along without.
                if self.topology.mobiles.iter().any(|mobile| mobile.host == host) && rng.one_in(3) {
                    self.script.push((at, Event::EraseJournal(host)));
                }
            }
            NemoKind::Skew => {
                let Some(host) = rng.pick(&engines) else { return };
                let most = if rng.one_in(2) { SECOND } else { 3_000 * SECOND };
                self.script.push((at, Event::StepClock(host, signed(rng, most))));
            }
            _ => self.write_move(at, rng),
        }
    }

    /// Ends all faults and attaches every mobile router; `allowed` says whether one may be at home and away at the same
    /// time.
    fn write_end(&mut self, allowed: bool, rng: &mut Entropy) {
        self.script.retain(|(at, _)| *at < self.calm);
        let mut last: Vec<Event> = Vec::new();
        for medium in self.topology.world.media() {
            last.push(Event::SetLink(medium, delay(3)));
            last.push(Event::Carrier(medium, true));
            last.push(Event::BlackHole(medium, false));
        }
        last.extend(self.engines().into_iter().flat_map(|host| [Event::RefuseItems(host, 0), Event::Start(host)]));
        for index in 0..self.topology.mobiles.len() {
            let mut haunts = self.reachable_networks(index);
            let uplinks = self.uplinks(index);
            if let (NemoKind::Home, &[first, second]) = (self.kind, &uplinks[..])
                && rng.one_in(2)
            {
                let (at_home, away) = if rng.one_in(2) { (first, second) } else { (second, first) };
                last.push(Event::Attach(at_home.0, at_home.1, Some(self.topology.home)));
                let there = rng.pick(&self.topology.visited);
                last.extend(there.map(|there| Event::Attach(away.0, away.1, Some(there))));
                self.home.extend((!allowed || there.is_none()).then_some(index));
                continue;
            }
            if self.kind == NemoKind::Home && rng.one_in(2) {
                haunts = vec![self.topology.home];
                self.home.push(index);
            } else {
                haunts.retain(|medium| *medium != self.topology.home);
            }
            for (host, link) in uplinks {
                let Some(medium) = rng.pick(&haunts) else { continue };
                last.push(match rng.one_in(4) {
                    true => Event::Roam(host, link, medium),
                    false => Event::Attach(host, link, Some(medium)),
                });
            }
        }
        self.script.extend(last.into_iter().map(|happening| (self.calm, happening)));
    }
}

/// From `-most` to `most`.
fn signed(rng: &mut Entropy, most: u64) -> i64 {
    let number = i64::try_from(rng.below(most + 1)).unwrap_or(0);
    if rng.one_in(2) { -number } else { number }
}

fn care_of_prefixes(rng: &mut Entropy) -> CareOfPrefixConfig {
    CareOfPrefixConfig {
        delegation: !rng.one_in(6),
        length: if rng.one_in(2) { 0 } else { 56 },
        share: if rng.one_in(4) { PrefixSharing::Never } else { PrefixSharing::NdProxy },
        prefer: match rng.below(5) {
            0 => PrefixPreference::Home,
            1 => PrefixPreference::Either,
            _ => PrefixPreference::CareOf,
        },
    }
}

/// The behaviour of a delegating router; its place is filled in later.
fn dhcp_server(rng: &mut Entropy) -> ServerSpec {
    let valid = u32::try_from(rng.between(12, 600)).unwrap_or(60);
    ServerSpec {
        link: LinkId(0),
        address: LinkAddress([0; 6]),
        pool: Prefix::ALL,
        length: rng.pick(&[56, 60, 64]).unwrap_or(56),
        valid,
        timers: if rng.one_in(2) { (0, 0) } else { (valid / 4, valid / 3) },
        rapid: rng.one_in(2),
        preference: if rng.one_in(2) { 255 } else { 0 },
        without_prefixes: rng.one_in(8),
        sends_status: rng.one_in(2),
    }
}

fn ipv4_service(index: u16, rng: &mut Entropy) -> DsmipService {
    let keepalive = Duration::from_secs(rng.between(10, 60));
    DsmipService { address: ipv4::agent_address(index), keepalive, force_udp: rng.one_in(2) }
}

/// The home agents' IPv4 addresses are configured together with the others.
fn enable_ipv4(config: &mut MobileRouterConfig, kind: NemoKind) {
    let agents = 0..if kind == NemoKind::Fallback { 2 } else { 1 };
    config.home_agents = agents.clone().map(topology::agent_address).collect();
    config.home_agents_ipv4 = agents.map(ipv4::agent_address).collect();
}

/// In every other world paths are left because of their loss and round trip, and probed by their use.
fn limit_quality(config: &mut MobileRouterConfig, rng: &mut Entropy) {
    if rng.one_in(2) {
        return;
    }
    if let Some(probe) = &mut config.probe {
        probe.burst = rng.one_in(2);
        probe.idle = rng.one_in(2).then(|| Duration::from_secs(rng.between(1, 20)));
        probe.standby = rng.one_in(2).then(|| Duration::from_secs(rng.between(1, 60)));
    }
    for uplink in &mut config.uplinks {
        uplink.max_rtt = rng.one_in(2).then(|| Duration::from_millis(rng.between(50, 800)));
        uplink.max_loss = rng.one_in(2).then(|| u8::try_from(rng.between(5, 50)).unwrap_or(20));
    }
}

fn row(index: u16, kind: NemoKind, rng: &mut Entropy) -> PrefixTableRow {
    let mut row = config::row(index, rng);
    if kind != NemoKind::Hostile && rng.one_in(5) {
        row.authentication = Authentication::None;
    }
    row
}

fn home_agent(index: u16, rows: &[PrefixTableRow], rng: &mut Entropy) -> HomeAgentConfig {
    HomeAgentConfig {
        max_lifetime: lifetime(rng, 20, 600),
        refresh_advice: rng.one_in(3).then_some(Duration::from_secs(16)),
        multiple_care_of: !rng.one_in(8),
        duplicate_detection: rng.one_in(2),
        ..config::home_agent(index, rows)
    }
}

/// A lifetime of bindings: short ones expire within a world; those of the defaults and the examples outlive it, so that
/// a lost binding must be detected by other means.
fn lifetime(rng: &mut Entropy, least: u64, most: u64) -> Duration {
    Duration::from_secs(match rng.below(4) {
        0 => 600,
        1 => 3600,
        _ => rng.between(least, most),
    })
}

fn mobile_router(index: u16, kind: NemoKind, row: &PrefixTableRow, rng: &mut Entropy) -> MobileRouterConfig {
    let both = kind == NemoKind::Home && rng.one_in(2);
    let names: &[&str] = match kind {
        NemoKind::Standby | NemoKind::Weights => &[topology::FIRST_INTERFACE, topology::SECOND_INTERFACE],
        _ if both => &[topology::FIRST_INTERFACE, topology::SECOND_INTERFACE],
        _ => &[topology::FIRST_INTERFACE],
    };
    let shares = kind == NemoKind::Weights || both && rng.one_in(2);
    let home_agents = match kind {
        NemoKind::Fallback => 2,
        // It discovers its home agent.
        _ if rng.one_in(6) => 0,
        _ => 1,
    };
    let mut config = config::mobile_router(index, row, names, home_agents);
    config.prefix_mode = if rng.one_in(2) { PrefixMode::Implicit } else { PrefixMode::Explicit };
    config.lifetime = lifetime(rng, 12, 120);
    config.home_and_away = both;
    if shares {
        config.load_sharing = LoadSharing::Weighted;
        config.uplinks.iter_mut().for_each(|uplink| uplink.priority = 1);
    }
    for uplink in &mut config.uplinks {
        uplink.weight = uplink.bid.0;
    }
    let advertisement_interval = Duration::from_secs(rng.between(2, 10));
    config.ingress.iter_mut().for_each(|ingress| ingress.advertisement_interval = advertisement_interval);
    config.duplicate_detection = match rng.below(3) {
        0 => DadMode::Wait,
        1 if kind != NemoKind::Conflict => DadMode::Off,
        _ => DadMode::Optimistic,
    };
    config.probe = (kind != NemoKind::Moves || rng.one_in(2)).then(ProbeConfig::default);
    config
}
