//! The world of a seed: hosts, uplinks, address proofs, and the script of faults.

use super::topology::{self, HostSpec, Proof, Topology};
use crate::kinds::kinds;
use crate::net::{Choice, Event, LinkSpec};
use core::time::Duration;
use roam6_proto::Entropy;
use std::net::Ipv6Addr;

/// Milliseconds without faults at the start, in which contexts are established.
const CALM_BEFORE_MILLIS: u64 = 15_000;
/// Milliseconds with faults.
const FAULTS_MILLIS: u64 = 60_000;

kinds! {
    /// The kind of a world.
    MultihomedKind {
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
        let kind = MultihomedKind::of_seed(seed);
        let mut builder = ScenarioBuilder {
            entropy: Entropy::seed_from_u64(seed ^ 0x5533),
            script: Vec::new(),
            erases_journals: false,
        };
        let topology = builder.build_topology(seed, kind);
        builder.write_script(kind, &topology);
        let calm = Duration::from_millis(CALM_BEFORE_MILLIS + FAULTS_MILLIS);
        builder.end_faults(&topology, calm);
        MultihomedScenario { kind, topology, script: builder.script, calm }
    }
}

struct ScenarioBuilder {
    entropy: Entropy,
    script: Vec<(Duration, Event)>,
    /// Some host may lose its contexts.
    erases_journals: bool,
}

impl ScenarioBuilder {
    fn build_topology(&mut self, seed: u64, kind: MultihomedKind) -> Topology {
        let hosts = if self.entropy.one_in(3) { 3 } else { 2 };
        let mut host_specs: Vec<HostSpec> = (0..hosts).map(|_| self.host_spec(kind)).collect();
        // Somebody in each conversation has to begin.
        if self.entropy.one_in(3) {
            host_specs.iter_mut().skip(1).next_back().into_iter().for_each(|last| last.config.trigger = None);
        }
        let mut conversations = vec![(0, 1, self.intervals())];
        if hosts == 3 {
            conversations.push((if self.entropy.one_in(2) { 0 } else { 1 }, 2, self.intervals()));
        }
        let delay = Duration::from_millis(self.entropy.below(60));
        let jitter = Duration::from_millis(self.entropy.below(5));
        let calm = LinkSpec { delay, jitter, ..LinkSpec::default() };
        let mut topology = Topology::new(seed);
        topology.populate(&host_specs, &conversations, calm);
        let lossy = matches!(kind, MultihomedKind::Lossy | MultihomedKind::Storm) || self.entropy.one_in(3);
        if lossy {
            let bad = |entropy: &mut Entropy| entropy.below(150) as f64 / 1000.0;
            let (loss, duplicate, reorder) =
                (bad(&mut self.entropy), bad(&mut self.entropy) / 3.0, bad(&mut self.entropy) / 3.0);
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
        let proof =
            if self.entropy.one_in(12) { Proof::None } else { self.entropy.pick(&proofs).unwrap_or(Proof::Hba) };
        let mut seed = [0; 32];
        self.entropy.fill(&mut seed);
        let mut config = topology::config();
        let timeouts = [100, 500, 1000, 2000, 2500, 5000];
        config.send_timeout = Duration::from_millis(self.entropy.pick(&timeouts).unwrap_or(2000));
        if self.entropy.one_in(6) {
            // Within an outage it forgets what a crash would have made it forget.
            config.idle_timeout = Duration::from_secs(5);
            self.erases_journals = true;
        }
        // Of the seed's own chance, which nothing else here depends on.
        let [first, ..] = seed;
        config.return_after = (first % 3 != 0).then(|| Duration::from_secs(u64::from(first % 16) + 1));
        let uplinks = u16::try_from(self.entropy.below(3)).unwrap_or(0) + if self.entropy.one_in(8) { 1 } else { 2 };
        HostSpec { uplinks, proof, config, seed }
    }

    /// Traffic in both directions, or in one.
    fn intervals(&mut self) -> [Option<Duration>; 2] {
        let interval = Some(Duration::from_millis(self.entropy.pick(&[250, 400, 900]).unwrap_or(400)));
        match self.entropy.below(5) {
            0 => [interval, None],
            1 => [None, interval],
            _ => [interval, interval],
        }
    }

    fn write_script(&mut self, kind: MultihomedKind, topology: &Topology) {
        let faults = 2 + self.entropy.below(8);
        for _ in 0..faults {
            let at = CALM_BEFORE_MILLIS + self.entropy.below(FAULTS_MILLIS - 2000);
            let kind = match kind {
                MultihomedKind::Storm => {
                    let some = [
                        MultihomedKind::Outages,
                        MultihomedKind::Uplinks,
                        MultihomedKind::Crashes,
                        MultihomedKind::Moves,
                    ];
                    self.entropy.pick(&some).unwrap_or(MultihomedKind::Outages)
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
        let whole = self.entropy.one_in(3);
        let both = self.entropy.one_in(2);
        let Some(chosen) = self.entropy.pick(&addresses(topology, near)) else { return };
        let Some(other) = self.entropy.pick(&addresses(topology, far)) else { return };
        for peer in addresses(topology, far).into_iter().filter(|peer| whole || *peer == other) {
            self.at(at, Event::BlockPath(chosen, peer, true));
            if both {
                self.at(at, Event::BlockPath(peer, chosen, true));
            }
            if self.entropy.one_in(3) {
                let back = at + self.entropy.below(20_000);
                self.at(back, Event::BlockPath(chosen, peer, false));
                self.at(back, Event::BlockPath(peer, chosen, false));
            }
        }
    }

    fn uplink(&mut self, at: u64, topology: &Topology) {
        let Some(host) = topology.hosts.get(self.entropy.index(topology.hosts.len())) else { return };
        let Some((_, medium, _)) = self.entropy.pick(&host.uplinks) else { return };
        let black = self.entropy.one_in(2);
        let event = |on| if black { Event::BlackHole(medium, on) } else { Event::Carrier(medium, !on) };
        self.at(at, event(true));
        if self.entropy.one_in(2) {
            let back = at + self.entropy.below(20_000);
            self.at(back, event(false));
        }
    }

    fn crash(&mut self, at: u64, topology: &Topology) {
        let Some(host) = topology.hosts.get(self.entropy.index(topology.hosts.len())) else { return };
        self.erases_journals = true;
        let end = if self.entropy.one_in(2) { Event::Kill(host.host) } else { Event::PowerOff(host.host) };
        self.at(at, end);
        let back = at + self.entropy.below(5000);
        self.at(back, Event::Start(host.host));
    }

    fn readdress(&mut self, at: u64, topology: &Topology) {
        let Some(host) = topology.hosts.get(self.entropy.index(topology.hosts.len())) else { return };
        let Some((link, _, address)) = self.entropy.pick(&host.uplinks) else { return };
        let first = host.uplinks.first().map_or(link, |(link, _, _)| *link);
        if self.entropy.one_in(2) {
            self.at(at, Event::SetAddress(host.host, first, host.spare, true));
        }
        let (gone, back) = (self.entropy.one_in(2), self.entropy.one_in(2));
        if gone {
            self.at(at + 700, Event::SetAddress(host.host, link, address, false));
        }
        if gone && back {
            let later = at + 800 + self.entropy.below(15_000);
            self.at(later, Event::SetAddress(host.host, link, address, true));
        }
    }

    /// Whatever remains broken, the ULIDs of two hosts that both lost their contexts must work again, as neither knows
    /// any other locator; likewise for a host that cannot prove any other address.
    fn end_faults(&mut self, topology: &Topology, calm: Duration) {
        for conversation in topology.conversations.iter().filter(|_| self.erases_journals) {
            let events = topology.unblock_ulids(conversation.from, conversation.to, conversation.ulids);
            self.script.extend(events.into_iter().map(|event| (calm, event)));
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.script.push((Duration::from_millis(at.min(CALM_BEFORE_MILLIS + FAULTS_MILLIS)), event));
    }

    fn two_hosts(&mut self, topology: &Topology) -> Option<(usize, usize)> {
        let conversations: Vec<(usize, usize)> =
            topology.conversations.iter().map(|conversation| (conversation.from, conversation.to)).collect();
        self.entropy.pick(&conversations)
    }
}

fn addresses(topology: &Topology, host: usize) -> Vec<Ipv6Addr> {
    let Some(host) = topology.hosts.get(host) else { return Vec::new() };
    host.uplinks.iter().map(|(_, _, address)| *address).chain([host.spare]).collect()
}
