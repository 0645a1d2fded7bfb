//! The world of a seed: the moves of a mobile router, and faults in what its nodes learn of them.

use super::mobile_router::AdvertisedPrefixes;
use super::topology::{Topology, VISITED, prefix};
use crate::net::items::delay;
use crate::net::{Choice, Event, LinkSpec};
use core::time::Duration;
use roam6_proto::{Entropy, Time};

const SECOND: u64 = 1_000_000;
/// Lifetimes of a prefix with connectivity, seconds: preferred and valid.
const STAY_SECONDS: (u32, u32) = (60, 120);
/// The index of the mobile network prefix.
const HOME: u16 = 0;

/// A world and its script.
#[derive(Debug)]
pub struct MptcpScenario {
    /// Hosts and links.
    pub topology: Topology,
    /// Events by their time.
    pub script: Vec<(Duration, Event)>,
    /// When the last fault has ended.
    pub calm: Duration,
    /// The visited networks with connectivity in the end.
    pub visited: Vec<u16>,
}

/// The connectivity and advertisements, move by move.
struct ScriptBuilder {
    entropy: Entropy,
    now: u64,
    advertised: AdvertisedPrefixes,
    visited: Vec<u16>,
    schedule: Vec<(Time, AdvertisedPrefixes)>,
    /// When a prefix gains or loses connectivity.
    path_changes: Vec<(u64, u16, bool)>,
}

impl MptcpScenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> MptcpScenario {
        let mut builder = ScriptBuilder::begin(seed);
        let calm = builder.entropy.between(30 * SECOND, 60 * SECOND);
        while builder.now < calm {
            builder.next_move();
        }
        builder.end();
        let calm = Duration::from_micros(builder.now);
        let topology = Topology::new(seed, builder.schedule.clone());
        let mut scenario = MptcpScenario { topology, script: Vec::new(), calm, visited: builder.visited.clone() };
        scenario.write_path_changes(&builder.path_changes);
        scenario.write_link_changes(&mut builder);
        scenario
    }

    fn write_path_changes(&mut self, ways: &[(u64, u16, bool)]) {
        for (at, number, open) in ways {
            let own = self.topology.address(*number);
            for (peer, _) in &self.topology.peers {
                for (source, destination) in [(own, *peer), (*peer, own)] {
                    let event = Event::BlockPath(source, destination, !open);
                    self.script.push((Duration::from_micros(*at), event));
                }
            }
        }
    }

    /// Link impairments, loss of carrier, and refusals of the kernel.
    fn write_link_changes(&mut self, builder: &mut ScriptBuilder) {
        let (inside, node) = (self.topology.inside, self.topology.node);
        let calm = u64::try_from(self.calm.as_micros()).unwrap_or(0);
        let mut at = 0;
        while at < calm {
            at += builder.entropy.between(SECOND, 15 * SECOND);
            let until = (at + builder.entropy.between(SECOND / 20, 5 * SECOND)).min(calm);
            let (from, until) = (Duration::from_micros(at.min(calm)), Duration::from_micros(until));
            let bad = LinkSpec {
                loss: builder.entropy.below(300) as f64 / 1000.0,
                jitter: Duration::from_micros(builder.entropy.below(20_000)),
                ..delay(5)
            };
            let pair = match builder.entropy.below(4) {
                0 => [Event::SetLink(inside, bad), Event::SetLink(inside, delay(5))],
                1 => [Event::Carrier(inside, false), Event::Carrier(inside, true)],
                2 => [Event::BlackHole(inside, true), Event::BlackHole(inside, false)],
                _ => [Event::RefuseItems(node, 300), Event::RefuseItems(node, 0)],
            };
            let [begin, end] = pair;
            self.script.extend([(from, begin), (until, end)]);
        }
        // Two of a kind may overlap; in the end all is well.
        let last = [
            Event::SetLink(inside, delay(5)),
            Event::Carrier(inside, true),
            Event::BlackHole(inside, false),
            Event::RefuseItems(node, 0),
        ];
        self.script.extend(last.map(|event| (self.calm, event)));
    }
}

impl ScriptBuilder {
    fn begin(seed: u64) -> ScriptBuilder {
        let mut builder = ScriptBuilder {
            entropy: Entropy::seed_from_u64(seed ^ 0x9a75),
            now: 0,
            advertised: AdvertisedPrefixes::new(),
            visited: Vec::new(),
            schedule: Vec::new(),
            path_changes: (1..=VISITED).map(|number| (0, number, false)).collect(),
        };
        builder.arrive(HOME);
        builder
    }

    fn next_move(&mut self) {
        self.now += self.entropy.between(SECOND, 12 * SECOND);
        match (self.entropy.below(6), self.visited.is_empty()) {
            (_, true) => self.visit_new(),
            (0..3, _) => self.hard_handover(),
            (3, _) => self.soft_handover(),
            (4, _) => self.visit_new(),
            _ => self.leave_gracefully(),
        }
    }

    /// All uplinks but at most one are lost; the tunnel recovers first, then another network appears.
    fn hard_handover(&mut self) {
        let left = core::mem::take(&mut self.visited);
        for number in left.iter().copied().chain([HOME]) {
            self.path_changes.push((self.now, number, false));
            self.advertised.insert(prefix(number), if number == HOME { (0, STAY_SECONDS.1) } else { (0, 0) });
        }
        // The router sometimes learns of it late.
        let late = if self.entropy.below(6) == 0 { SECOND } else { SECOND / 50 };
        self.now += self.entropy.below(late);
        self.advertise();
        self.now += self.entropy.between(SECOND / 50, 2 * SECOND);
        self.arrive(HOME);
        if self.entropy.below(5) > 0 {
            self.now += self.entropy.below(SECOND);
            self.visit_new();
        }
    }

    /// Another network appears before the former one disappears.
    fn soft_handover(&mut self) {
        let left = self.visited.clone();
        self.visit_new();
        self.now += self.entropy.between(SECOND / 2, 5 * SECOND);
        left.into_iter().for_each(|number| self.leave(number));
    }

    /// A network disappears while the tunnel uses another.
    fn leave_gracefully(&mut self) {
        let number = self.visited.first().copied();
        number.into_iter().for_each(|number| self.leave(number));
    }

    fn leave(&mut self, number: u16) {
        self.visited.retain(|there| *there != number);
        self.path_changes.push((self.now, number, false));
        self.advertised.insert(prefix(number), (0, 0));
        self.now += self.entropy.below(SECOND / 20);
        self.advertise();
    }

    /// One network more, of at most two.
    fn visit_new(&mut self) {
        if let Some(first) = self.visited.first().copied().filter(|_| self.visited.len() > 1) {
            self.leave(first);
        }
        let absent: Vec<u16> = (1..=VISITED).filter(|number| !self.visited.contains(number)).collect();
        if let Some(number) = self.entropy.pick(&absent) {
            self.visited.push(number);
            self.arrive(number);
        }
    }

    /// Packets are forwarded, and the nodes are informed.
    fn arrive(&mut self, number: u16) {
        self.path_changes.push((self.now, number, true));
        self.advertised.insert(prefix(number), STAY_SECONDS);
        self.now += 1;
        self.advertise();
    }

    fn advertise(&mut self) {
        self.schedule.push((Time::from_micros(self.now), self.advertised.clone()));
    }

    fn end(&mut self) {
        self.now += SECOND;
        if self.visited.is_empty() {
            self.visit_new();
        }
        self.now += SECOND;
    }
}
