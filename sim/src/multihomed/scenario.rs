//! The world of a seed: hosts, uplinks, address proofs, and the script of faults.

use super::map::{self, Map, Proof, Wish};
use crate::link::LinkSpec;
use crate::world::Happening;
use core::fmt;
use core::time::Duration;
use roam6_proto::Entropy;
use std::net::Ipv6Addr;

/// Milliseconds without faults at the start, in which contexts are established.
const QUIET: u64 = 15_000;
/// Milliseconds with faults.
const FAULTS: u64 = 60_000;

/// The kind of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A world and its script.
#[derive(Debug)]
pub struct Scenario {
    /// The kind of the world.
    pub kind: Kind,
    /// Hosts and paths.
    pub map: Map,
    /// Events by their time.
    pub script: Vec<(Duration, Happening)>,
    /// When the last fault has ended.
    pub calm: Duration,
}

impl Scenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Scenario {
        let kinds = [Kind::Lossy, Kind::Outages, Kind::Uplinks, Kind::Crashes, Kind::Moves, Kind::Hostile, Kind::Storm];
        let kind = kinds.get(usize::try_from(seed % 7).unwrap_or(0)).copied().unwrap_or(Kind::Storm);
        let mut author = Author { chance: Entropy::seed_from_u64(seed ^ 0x5533), script: Vec::new(), forgetful: false };
        let map = author.settle(seed, kind);
        author.write(kind, &map);
        let calm = Duration::from_millis(QUIET + FAULTS);
        author.end(&map, calm);
        Scenario { kind, map, script: author.script, calm }
    }
}

struct Author {
    chance: Entropy,
    script: Vec<(Duration, Happening)>,
    /// Some host may lose its contexts.
    forgetful: bool,
}

impl Author {
    fn settle(&mut self, seed: u64, kind: Kind) -> Map {
        let hosts = if self.one_in(3) { 3 } else { 2 };
        let mut wishes: Vec<Wish> = (0..hosts).map(|_| self.wish(kind)).collect();
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
        let mut map = Map::new(seed);
        map.settle(&wishes, &talks, calm);
        let lossy = matches!(kind, Kind::Lossy | Kind::Storm) || self.one_in(3);
        if lossy {
            let bad = |chance: &mut Entropy| chance.below(150) as f64 / 1000.0;
            let (loss, duplicate, reorder) =
                (bad(&mut self.chance), bad(&mut self.chance) / 3.0, bad(&mut self.chance) / 3.0);
            let spec = LinkSpec { loss, duplicate, reorder, ..calm };
            for (_, medium, _) in map.hosts.iter().flat_map(|host| &host.uplinks) {
                self.script.push((Duration::ZERO, Happening::Quality(*medium, spec)));
                self.script.push((Duration::from_millis(QUIET + FAULTS), Happening::Quality(*medium, calm)));
            }
        }
        map
    }

    fn wish(&mut self, kind: Kind) -> Wish {
        let proofs = match kind {
            Kind::Moves => [Proof::Cga, Proof::Both, Proof::Cga, Proof::Both],
            _ => [Proof::Hba, Proof::Hba, Proof::Cga, Proof::Both],
        };
        let proof = if self.one_in(12) { Proof::None } else { self.one_of(&proofs).unwrap_or(Proof::Hba) };
        let mut seed = [0; 32];
        self.chance.fill(&mut seed);
        let mut config = map::config();
        let timeouts = [100, 500, 1000, 2000, 2500, 5000];
        config.send_timeout = Duration::from_millis(self.one_of(&timeouts).unwrap_or(2000));
        if self.one_in(6) {
            // Within an outage it forgets what a crash would have made it forget.
            config.idle_timeout = Duration::from_secs(5);
            self.forgetful = true;
        }
        // Of the seed's own chance, which nothing else here depends on.
        let [first, ..] = seed;
        config.return_after = (first % 3 != 0).then(|| Duration::from_secs(u64::from(first % 16) + 1));
        let uplinks = u16::try_from(self.chance.below(3)).unwrap_or(0) + if self.one_in(8) { 1 } else { 2 };
        Wish { uplinks, proof, config, seed }
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

    fn write(&mut self, kind: Kind, map: &Map) {
        let faults = 2 + self.chance.below(8);
        for _ in 0..faults {
            let at = QUIET + self.chance.below(FAULTS - 2000);
            let kind = match kind {
                Kind::Storm => {
                    let some = [Kind::Outages, Kind::Uplinks, Kind::Crashes, Kind::Moves];
                    self.one_of(&some).unwrap_or(Kind::Outages)
                }
                kind => kind,
            };
            match kind {
                Kind::Outages | Kind::Hostile => self.outage(at, map),
                Kind::Uplinks => self.uplink(at, map),
                Kind::Crashes => {
                    self.crash(at, map);
                    self.outage(at + 1000, map);
                }
                Kind::Moves => {
                    self.readdress(at, map);
                    self.outage(at + 500, map);
                }
                Kind::Lossy | Kind::Storm => {}
            }
        }
    }

    /// Paths between two hosts fail: one, or all of one address, in one or both directions; some recover.
    fn outage(&mut self, at: u64, map: &Map) {
        let Some((near, far)) = self.two(map) else { return };
        let whole = self.one_in(3);
        let both = self.one_in(2);
        let Some(chosen) = self.one_of(&addresses(map, near)) else { return };
        let Some(other) = self.one_of(&addresses(map, far)) else { return };
        for peer in addresses(map, far).into_iter().filter(|peer| whole || *peer == other) {
            self.cut(at, chosen, peer, true);
            if both {
                self.cut(at, peer, chosen, true);
            }
            if self.one_in(3) {
                let back = at + self.chance.below(20_000);
                self.cut(back, chosen, peer, false);
                self.cut(back, peer, chosen, false);
            }
        }
    }

    fn uplink(&mut self, at: u64, map: &Map) {
        let hosts = u64::try_from(map.hosts.len()).unwrap_or(0);
        let index = usize::try_from(self.chance.below(hosts)).unwrap_or(0);
        let Some(host) = map.hosts.get(index) else { return };
        let Some((_, medium, _)) = self.one_of(&host.uplinks) else { return };
        let black = self.one_in(2);
        let event = |on| if black { Happening::BlackHole(medium, on) } else { Happening::Carrier(medium, !on) };
        self.at(at, event(true));
        if self.one_in(2) {
            let back = at + self.chance.below(20_000);
            self.at(back, event(false));
        }
    }

    fn crash(&mut self, at: u64, map: &Map) {
        let hosts = u64::try_from(map.hosts.len()).unwrap_or(0);
        let index = usize::try_from(self.chance.below(hosts)).unwrap_or(0);
        let Some(host) = map.hosts.get(index) else { return };
        self.forgetful = true;
        let end = if self.one_in(2) { Happening::Kill(host.host) } else { Happening::PowerOff(host.host) };
        self.at(at, end);
        let back = at + self.chance.below(5000);
        self.at(back, Happening::Start(host.host));
    }

    fn readdress(&mut self, at: u64, map: &Map) {
        let hosts = u64::try_from(map.hosts.len()).unwrap_or(0);
        let index = usize::try_from(self.chance.below(hosts)).unwrap_or(0);
        let Some(host) = map.hosts.get(index) else { return };
        let Some((link, _, address)) = self.one_of(&host.uplinks) else { return };
        let first = host.uplinks.first().map_or(link, |(link, _, _)| *link);
        if self.one_in(2) {
            self.at(at, Happening::Readdress(host.host, first, host.spare, true));
        }
        let (gone, back) = (self.one_in(2), self.one_in(2));
        if gone {
            self.at(at + 700, Happening::Readdress(host.host, link, address, false));
        }
        if gone && back {
            let later = at + 800 + self.chance.below(15_000);
            self.at(later, Happening::Readdress(host.host, link, address, true));
        }
    }

    /// Whatever remains broken, the ULIDs of two hosts that both lost their contexts must work again, as neither knows
    /// any other locator; likewise for a host that cannot prove any other address.
    fn end(&mut self, map: &Map, calm: Duration) {
        let calm = u64::try_from(calm.as_millis()).unwrap_or(0);
        if !self.forgetful {
            return;
        }
        for talk in &map.talks {
            for happening in map.mend_ulids(talk.from, talk.to, talk.ulids) {
                self.at(calm, happening);
            }
        }
    }

    fn cut(&mut self, at: u64, source: Ipv6Addr, destination: Ipv6Addr, cut: bool) {
        self.at(at, Happening::Cut(source, destination, cut));
    }

    fn at(&mut self, at: u64, happening: Happening) {
        self.script.push((Duration::from_millis(at.min(QUIET + FAULTS)), happening));
    }

    fn two(&mut self, map: &Map) -> Option<(usize, usize)> {
        let talks: Vec<(usize, usize)> = map.talks.iter().map(|talk| (talk.from, talk.to)).collect();
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

fn addresses(map: &Map, host: usize) -> Vec<Ipv6Addr> {
    let Some(host) = map.hosts.get(host) else { return Vec::new() };
    host.uplinks.iter().map(|(_, _, address)| *address).chain([host.spare]).collect()
}
