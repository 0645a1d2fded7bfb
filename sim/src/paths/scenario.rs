//! The world of a seed: the moves of a mobile router, and faults in what its nodes learn of them.

use super::lender::Offer;
use super::map::{self, Map, VISITED, prefix};
use crate::link::LinkSpec;
use crate::world::Happening;
use core::time::Duration;
use roam6_proto::{Entropy, Time};

const SECOND: u64 = 1_000_000;
/// Lifetimes of a prefix with connectivity, seconds: preferred and valid.
const STANDS: (u32, u32) = (60, 120);
/// The index of the mobile network prefix.
const HOME: u16 = 0;

/// A world and its script.
#[derive(Debug)]
pub struct Scenario {
    /// Hosts and links.
    pub map: Map,
    /// Events by their time.
    pub script: Vec<(Duration, Happening)>,
    /// When the last fault has ended.
    pub calm: Duration,
    /// The visited networks with connectivity in the end.
    pub there: Vec<u16>,
}

/// The connectivity and advertisements, move by move.
struct Story {
    chance: Entropy,
    now: u64,
    offer: Offer,
    there: Vec<u16>,
    schedule: Vec<(Time, Offer)>,
    /// When a prefix gains or loses connectivity.
    ways: Vec<(u64, u16, bool)>,
}

impl Scenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Scenario {
        let mut story = Story::begin(seed);
        let calm = story.between(30 * SECOND, 60 * SECOND);
        while story.now < calm {
            story.go_on();
        }
        story.end();
        let calm = Duration::from_micros(story.now);
        let map = Map::new(seed, story.schedule.clone());
        let mut scenario = Scenario { map, script: Vec::new(), calm, there: story.there.clone() };
        scenario.write_ways(&story.ways);
        scenario.write_weather(&mut story);
        scenario
    }

    fn write_ways(&mut self, ways: &[(u64, u16, bool)]) {
        for (at, number, open) in ways {
            let own = self.map.address(*number);
            for (peer, _) in &self.map.peers {
                for (source, destination) in [(own, *peer), (*peer, own)] {
                    let happening = Happening::Cut(source, destination, !open);
                    self.script.push((Duration::from_micros(*at), happening));
                }
            }
        }
    }

    /// Link impairments, loss of carrier, and refusals of the kernel.
    fn write_weather(&mut self, story: &mut Story) {
        let (inside, node) = (self.map.inside, self.map.node);
        let calm = u64::try_from(self.calm.as_micros()).unwrap_or(0);
        let mut at = 0;
        while at < calm {
            at += story.between(SECOND, 15 * SECOND);
            let until = (at + story.between(SECOND / 20, 5 * SECOND)).min(calm);
            let (from, until) = (Duration::from_micros(at.min(calm)), Duration::from_micros(until));
            let bad = LinkSpec {
                loss: story.chance.below(300) as f64 / 1000.0,
                jitter: Duration::from_micros(story.chance.below(20_000)),
                ..map::calm()
            };
            let pair = match story.chance.below(4) {
                0 => [Happening::Quality(inside, bad), Happening::Quality(inside, map::calm())],
                1 => [Happening::Carrier(inside, false), Happening::Carrier(inside, true)],
                2 => [Happening::BlackHole(inside, true), Happening::BlackHole(inside, false)],
                _ => [Happening::Refuse(node, 300), Happening::Refuse(node, 0)],
            };
            let [begin, end] = pair;
            self.script.extend([(from, begin), (until, end)]);
        }
        // Two of a kind may overlap; in the end all is well.
        let last = [
            Happening::Quality(inside, map::calm()),
            Happening::Carrier(inside, true),
            Happening::BlackHole(inside, false),
            Happening::Refuse(node, 0),
        ];
        self.script.extend(last.map(|happening| (self.calm, happening)));
    }
}

impl Story {
    fn begin(seed: u64) -> Story {
        let mut story = Story {
            chance: Entropy::seed_from_u64(seed ^ 0x9a75),
            now: 0,
            offer: Offer::new(),
            there: Vec::new(),
            schedule: Vec::new(),
            ways: (1..=VISITED).map(|number| (0, number, false)).collect(),
        };
        story.arrive(HOME);
        story
    }

    fn go_on(&mut self) {
        self.now += self.between(SECOND, 12 * SECOND);
        match (self.chance.below(6), self.there.is_empty()) {
            (_, true) => self.visit(),
            (0..3, _) => self.move_hard(),
            (3, _) => self.move_in_time(),
            (4, _) => self.visit(),
            _ => self.leave_in_time(),
        }
    }

    /// All uplinks but at most one are lost; the tunnel recovers first, then another network appears.
    fn move_hard(&mut self) {
        let left = core::mem::take(&mut self.there);
        for number in left.iter().copied().chain([HOME]) {
            self.ways.push((self.now, number, false));
            self.offer.insert(prefix(number), if number == HOME { (0, STANDS.1) } else { (0, 0) });
        }
        // The router hears of it late at times.
        let late = if self.chance.below(6) == 0 { SECOND } else { SECOND / 50 };
        self.now += self.chance.below(late);
        self.tell();
        self.now += self.between(SECOND / 50, 2 * SECOND);
        self.arrive(HOME);
        if self.chance.below(5) > 0 {
            self.now += self.chance.below(SECOND);
            self.visit();
        }
    }

    /// Another network appears before the former one disappears.
    fn move_in_time(&mut self) {
        let left = self.there.clone();
        self.visit();
        self.now += self.between(SECOND / 2, 5 * SECOND);
        left.into_iter().for_each(|number| self.leave(number));
    }

    /// A network disappears while the tunnel uses another.
    fn leave_in_time(&mut self) {
        let number = self.there.first().copied();
        number.into_iter().for_each(|number| self.leave(number));
    }

    fn leave(&mut self, number: u16) {
        self.there.retain(|there| *there != number);
        self.ways.push((self.now, number, false));
        self.offer.insert(prefix(number), (0, 0));
        self.now += self.chance.below(SECOND / 20);
        self.tell();
    }

    /// One network more, of at most two.
    fn visit(&mut self) {
        if let Some(first) = self.there.first().copied().filter(|_| self.there.len() > 1) {
            self.leave(first);
        }
        let absent: Vec<u16> = (1..=VISITED).filter(|number| !self.there.contains(number)).collect();
        let index = usize::try_from(self.chance.below(absent.len() as u64)).unwrap_or(0);
        if let Some(number) = absent.get(index) {
            self.there.push(*number);
            self.arrive(*number);
        }
    }

    /// Packets are forwarded, and the nodes are informed.
    fn arrive(&mut self, number: u16) {
        self.ways.push((self.now, number, true));
        self.offer.insert(prefix(number), STANDS);
        self.now += 1;
        self.tell();
    }

    fn tell(&mut self) {
        self.schedule.push((Time::from_micros(self.now), self.offer.clone()));
    }

    fn end(&mut self) {
        self.now += SECOND;
        if self.there.is_empty() {
            self.visit();
        }
        self.now += SECOND;
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.chance.below(most.saturating_sub(least) + 1)
    }
}
