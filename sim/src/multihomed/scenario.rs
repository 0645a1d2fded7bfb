//! The world of a seed: hosts, uplinks, address proofs, and the script of faults.

use super::topology::{self, HostSpec, Proof, Topology};
use crate::net::event::Event;
use crate::net::link::LinkSpec;
use core::fmt;
use core::time::Duration;
use roam6_proto::Entropy;
use std::net::Ipv6Addr;

/// Milliseconds without faults at the start, in which contexts are established.
const CALM_BEFORE_MILLIS: u64 = 15_000;
/// Milliseconds with faults.
const FAULTS_MILLIS: u64 = 60_000;

/// The kind of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MultihomedKind {
    /// Links lose packets.
    Lossy,
    /// Paths between two addresses fail, in one or both directions.
    Outages,
    /// Uplinks lose their carrier, or drop every frame.
    Uplinks,
    /// Engines and hosts crash.
    Crashes,
    /// Addresses are added and removed.
    Moves,
    /// An off-path attacker interferes.
    Hostile,
    /// All of these faults.
    Storm,
}

impl fmt::Display for MultihomedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A world and its script.
#[derive(Debug)]
pub struct MultihomedScenario {
    /// The kind of the world.
    pub kind: MultihomedKind,
    /// Hosts and paths.
    pub topology: Topology,
    /// Events by their time.
    pub script: Vec<(Duration, Event)>,
    /// When the last fault has ended.
    pub calm: Duration,
}

impl MultihomedScenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> MultihomedScenario {
        let kinds = [
            MultihomedKind::Lossy,
            MultihomedKind::Outages,
            MultihomedKind::Uplinks,
            MultihomedKind::Crashes,
            MultihomedKind::Moves,
            MultihomedKind::Hostile,
            MultihomedKind::Storm,
        ];
        let kind = kinds.get(usize::try_from(seed % 7).unwrap_or(0)).copied().unwrap_or(MultihomedKind::Storm);
        let mut author = ScenarioBuilder {
            chance: Entropy::seed_from_u64(seed ^ 0x5533),
            script: Vec::new(),
            erases_journals: false,
        };
        let topology = author.build_topology(seed, kind);
        author.write_script(kind, &topology);
        let calm = Duration::from_millis(CALM_BEFORE_MILLIS + FAULTS_MILLIS);
        author.end_faults(&topology, calm);
        MultihomedScenario { kind, topology, script: author.script, calm }
    }
}

struct ScenarioBuilder {
    chance: Entropy,
    script: Vec<(Duration, Event)>,
    /// Some host may lose its contexts.
    erases_journals: bool,
}

impl ScenarioBuilder {
    fn build_topology(&mut self, seed: u64, kind: MultihomedKind) -> Topology {
        let hosts = if self.one_in(3) { 3 } else { 2 };
        let mut wishes: Vec<HostSpec> = (0..hosts).map(|_| self.host_spec(kind)).collect();
        // Somebody in each conversation has to begin.
        if self.one_in(3) {
            wishes.iter_mut().skip(1).next_back().into_iter().for_each(|last| last.config.trigger = None);
        }
        let mut talks = vec![(0, 1, self.intervals())];
        if hosts == 3 {
            talks.push((if self.one_in(2) { 0 } else { 1 }, 2, self.intervals()));
        }
        let delay = Duration::from_millis(self.chance.below(60));
        let jitter = Duration::from_millis(self.chance.below(5));
        let calm = LinkSpec { delay, jitter, ..LinkSpec::default() };
        let mut topology = Topology::new(seed);
        topology.populate(&wishes, &talks, calm);
        let lossy = matches!(kind, MultihomedKind::Lossy | MultihomedKind::Storm) || self.one_in(3);
        if lossy {
            let bad = |chance: &mut Entropy| chance.below(150) as f64 / 1000.0;
            let (loss, duplicate, reorder) =
                (bad(&mut self.chance), bad(&mut self.chance) / 3.0, bad(&mut self.chance) / 3.0);
            let spec = LinkSpec { loss, duplicate, reorder, ..calm };
            for (_, medium, _) in topology.hosts.iter().flat_map(|host| &host.uplinks) {
                self.script.push((Duration::ZERO, Event::SetLink(*medium, spec)));
                self.script
                    .push((Duration::from_millis(CALM_BEFORE_MILLIS + FAULTS_MILLIS), Event::SetLink(*medium, calm)));
            }
        }
        topology
    }

    fn host_spec(&mut self, kind: MultihomedKind) -> HostSpec {
        let proofs = match kind {
            MultihomedKind::Moves => [Proof::Cga, Proof::Both, Proof::Cga, Proof::Both],
            _ => [Proof::Hba, Proof::Hba, Proof::Cga, Proof::Both],
        };
        let proof = if self.one_in(12) { Proof::None } else { self.one_of(&proofs).unwrap_or(Proof::Hba) };
        let mut seed = [0; 32];
        self.chance.fill(&mut seed);
        let mut config = topology::config();
        let timeouts = [100, 500, 1000, 2000, 2500, 5000];
        config.send_timeout = Duration::from_millis(self.one_of(&timeouts).unwrap_or(2000));
        if self.one_in(6) {
            // Within an outage it forgets what a crash would have made it forget.
            config.idle_timeout = Duration::from_secs(5);
            self.erases_journals = true;
        }
        // Of the seed's own chance, which nothing else here depends on.
        let [first, ..] = seed;
        config.return_after = (first % 3 != 0).then(|| Duration::from_secs(u64::from(first % 16) + 1));
        let uplinks = u16::try_from(self.chance.below(3)).unwrap_or(0) + if self.one_in(8) { 1 } else { 2 };
        HostSpec { uplinks, proof, config, seed }
    }

    /// Traffic in both directions, or in one.
    fn intervals(&mut self) -> [Option<Duration>; 2] {
        let interval = Some(Duration::from_millis(self.one_of(&[250, 400, 900]).unwrap_or(400)));
        match self.chance.below(5) {
            0 => [interval, None],
            1 => [None, interval],
            _ => [interval, interval],
        }
    }

    fn write_script(&mut self, kind: MultihomedKind, topology: &Topology) {
        let faults = 2 + self.chance.below(8);
        for _ in 0..faults {
            let at = CALM_BEFORE_MILLIS + self.chance.below(FAULTS_MILLIS - 2000);
            let kind = match kind {
                MultihomedKind::Storm => {
                    let some = [
                        MultihomedKind::Outages,
                        MultihomedKind::Uplinks,
                        MultihomedKind::Crashes,
                        MultihomedKind::Moves,
                    ];
                    self.one_of(&some).unwrap_or(MultihomedKind::Outages)
                }
                kind => kind,
            };
            match kind {
                MultihomedKind::Outages | MultihomedKind::Hostile => self.outage(at, topology),
                MultihomedKind::Uplinks => self.uplink(at, topology),
                MultihomedKind::Crashes => {
                    self.crash(at, topology);
                    self.outage(at + 1000, topology);
                }
                MultihomedKind::Moves => {
                    self.readdress(at, topology);
                    self.outage(at + 500, topology);
                }
                MultihomedKind::Lossy | MultihomedKind::Storm => {}
            }
        }
    }

    /// Paths between two hosts fail: one, or all of one address, in one or both directions; some recover.
    fn outage(&mut self, at: u64, topology: &Topology) {
        let Some((near, far)) = self.two_hosts(topology) else { return };
        let whole = self.one_in(3);
        let both = self.one_in(2);
        let Some(chosen) = self.one_of(&addresses(topology, near)) else { return };
        let Some(other) = self.one_of(&addresses(topology, far)) else { return };
        for peer in addresses(topology, far).into_iter().filter(|peer| whole || *peer == other) {
            self.block_path(at, chosen, peer, true);
            if both {
                self.block_path(at, peer, chosen, true);
            }
            if self.one_in(3) {
                let back = at + self.chance.below(20_000);
                self.block_path(back, chosen, peer, false);
                self.block_path(back, peer, chosen, false);
            }
        }
    }

    fn uplink(&mut self, at: u64, topology: &Topology) {
        let hosts = u64::try_from(topology.hosts.len()).unwrap_or(0);
        let index = usize::try_from(self.chance.below(hosts)).unwrap_or(0);
        let Some(host) = topology.hosts.get(index) else { return };
        let Some((_, medium, _)) = self.one_of(&host.uplinks) else { return };
        let black = self.one_in(2);
        let event = |on| if black { Event::BlackHole(medium, on) } else { Event::Carrier(medium, !on) };
        self.at(at, event(true));
        if self.one_in(2) {
            let back = at + self.chance.below(20_000);
            self.at(back, event(false));
        }
    }

    fn crash(&mut self, at: u64, topology: &Topology) {
        let hosts = u64::try_from(topology.hosts.len()).unwrap_or(0);
        let index = usize::try_from(self.chance.below(hosts)).unwrap_or(0);
        let Some(host) = topology.hosts.get(index) else { return };
        self.erases_journals = true;
        let end = if self.one_in(2) { Event::Kill(host.host) } else { Event::PowerOff(host.host) };
        self.at(at, end);
        let back = at + self.chance.below(5000);
        self.at(back, Event::Start(host.host));
    }

    fn readdress(&mut self, at: u64, topology: &Topology) {
        let hosts = u64::try_from(topology.hosts.len()).unwrap_or(0);
        let index = usize::try_from(self.chance.below(hosts)).unwrap_or(0);
        let Some(host) = topology.hosts.get(index) else { return };
        let Some((link, _, address)) = self.one_of(&host.uplinks) else { return };
        let first = host.uplinks.first().map_or(link, |(link, _, _)| *link);
        if self.one_in(2) {
            self.at(at, Event::SetAddress(host.host, first, host.spare, true));
        }
        let (gone, back) = (self.one_in(2), self.one_in(2));
        if gone {
            self.at(at + 700, Event::SetAddress(host.host, link, address, false));
        }
        if gone && back {
            let later = at + 800 + self.chance.below(15_000);
            self.at(later, Event::SetAddress(host.host, link, address, true));
        }
    }

    /// Whatever remains broken, the ULIDs of two hosts that both lost their contexts must work again, as neither knows
    /// any other locator; likewise for a host that cannot prove any other address.
    fn end_faults(&mut self, topology: &Topology, calm: Duration) {
        let calm = u64::try_from(calm.as_millis()).unwrap_or(0);
        if !self.erases_journals {
            return;
        }
        for talk in &topology.conversations {
            for happening in topology.unblock_ulids(talk.from, talk.to, talk.ulids) {
                self.at(calm, happening);
            }
        }
    }

    fn block_path(&mut self, at: u64, source: Ipv6Addr, destination: Ipv6Addr, cut: bool) {
        self.at(at, Event::BlockPath(source, destination, cut));
    }

    fn at(&mut self, at: u64, happening: Event) {
        self.script.push((Duration::from_millis(at.min(CALM_BEFORE_MILLIS + FAULTS_MILLIS)), happening));
    }

    fn two_hosts(&mut self, topology: &Topology) -> Option<(usize, usize)> {
        let talks: Vec<(usize, usize)> = topology.conversations.iter().map(|talk| (talk.from, talk.to)).collect();
        self.one_of(&talks)
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.chance.below(number) == 0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let count = u64::try_from(all.len()).unwrap_or(0);
        all.get(usize::try_from(self.chance.below(count)).unwrap_or(0)).copied()
    }
}

fn addresses(topology: &Topology, host: usize) -> Vec<Ipv6Addr> {
    let Some(host) = topology.hosts.get(host) else { return Vec::new() };
    host.uplinks.iter().map(|(_, _, address)| *address).chain([host.spare]).collect()
}
