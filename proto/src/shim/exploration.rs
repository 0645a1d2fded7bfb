//! Which pairs of locators are tried, in which order, and what became of the probes (RFC 5534 §4.2, §4.3).

use crate::entropy::Entropy;
use crate::plan::Pair;
use crate::time::Time;
use core::time::Duration;
use roam6_wire::shim6::{Nonce, ProbeRecord};
use std::collections::{BTreeMap, VecDeque};

/// Initial Probe Timeout (RFC 5534 §7).
const FIRST_INTERVAL: Duration = Duration::from_millis(500);
/// Number of Initial Probes.
const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// Probes remembered, so that a late report is still understood.
const REMEMBERED: usize = 16;
/// Probes of either kind told of in one message.
const TOLD: usize = 4;

/// A search for a pair that works.
#[derive(Debug, Clone)]
pub(super) struct Exploration {
    /// When it began.
    pub(super) since: Time,
    /// A pair that is to be tried before all others, and taken if it works.
    pub(super) wanted: Option<Pair>,
    /// The pair that failed, if any did.
    failed: Option<Pair>,
    /// The pairs still to be tried in this round, the next at the end.
    round: Vec<Pair>,
    probes: u32,
    interval: Duration,
    sent: VecDeque<ProbeRecord>,
    received: VecDeque<ProbeRecord>,
}

impl Exploration {
    /// A search that begins now, because of `failed`.
    pub(super) fn new(now: Time, failed: Option<Pair>) -> Exploration {
        Exploration {
            since: now,
            wanted: None,
            failed,
            round: Vec::new(),
            probes: 0,
            interval: FIRST_INTERVAL,
            sent: VecDeque::new(),
            received: VecDeque::new(),
        }
    }

    /// Begins anew, with short intervals: something has changed.
    pub(super) fn hurry(&mut self) {
        (self.probes, self.interval) = (0, FIRST_INTERVAL);
        self.round.clear();
    }

    /// Begins to explore after a time in which the peer was heard: what was received before counts no more.
    pub(super) fn forget_received(&mut self, now: Time) {
        self.since = now;
        self.received.clear();
    }

    /// The pair to try next of those there are: the one wanted, then wholly other ones than the failed one in random
    /// order, then the rest, the failed one last.
    pub(super) fn next(&mut self, pairs: impl Iterator<Item = (Pair, bool)>, entropy: &mut Entropy) -> Option<Pair> {
        let pairs: BTreeMap<Pair, bool> = pairs.collect();
        if let Some(wanted) = self.wanted.filter(|wanted| self.probes < INITIAL_PROBES && pairs.contains_key(wanted)) {
            return Some(wanted);
        }
        self.round.retain(|pair| pairs.contains_key(pair));
        if self.round.is_empty() {
            let mut order: Vec<_> =
                pairs.iter().map(|(pair, broken)| (self.rank(*pair, *broken), entropy.bits(), *pair)).collect();
            order.sort_unstable();
            self.round = order.into_iter().rev().map(|(_, _, pair)| pair).collect();
        }
        self.round.pop()
    }

    /// Remembers a probe on `pair`, and returns it first of those the peer is told of.
    pub(super) fn send(&mut self, pair: Pair, entropy: &mut Entropy) -> Vec<ProbeRecord> {
        let nonce = Nonce(entropy.bits() as u32);
        let record = ProbeRecord { source: pair.local, destination: pair.peer, nonce, data: 0 };
        remember(&mut self.sent, record);
        self.sent.iter().rev().take(TOLD).copied().collect()
    }

    /// How long to wait after a probe: back-off begins after the first few (RFC 5534 §4.3).
    pub(super) fn pause(&mut self, entropy: &mut Entropy) -> Duration {
        self.probes = self.probes.saturating_add(1);
        if self.probes >= INITIAL_PROBES {
            self.interval = (self.interval * 3 / 2).min(LONGEST_INTERVAL);
        }
        // A fifth either way, so that contexts that lost a path together do not probe together.
        let share = u32::try_from(entropy.below(401)).unwrap_or(200) + 800;
        self.interval * share / 1000
    }

    /// Remembers a probe of the peer.
    pub(super) fn receive(&mut self, record: ProbeRecord) {
        if self.received.iter().all(|known| known.nonce != record.nonce) {
            remember(&mut self.received, record);
        }
    }

    /// What the peer is told has come of its own.
    pub(super) fn received(&self) -> Vec<ProbeRecord> {
        self.received.iter().rev().take(TOLD).copied().collect()
    }

    /// The pair to be taken now that the peer has `reported` what it received of ours: the one wanted, else the
    /// present one, else the last one tried that came through.
    pub(super) fn choose(&self, reported: &[ProbeRecord], present: Pair) -> Option<Pair> {
        let came = |record: &&ProbeRecord| reported.contains(record);
        let pairs = || self.sent.iter().rev().filter(came).map(pair_of);
        let wanted = pairs().find(|pair| self.wanted == Some(*pair));
        wanted.or_else(|| pairs().find(|pair| *pair == present)).or_else(|| pairs().next())
    }

    fn rank(&self, pair: Pair, broken: bool) -> (bool, u8) {
        let Some(failed) = self.failed else { return (broken, 0) };
        let shared = u8::from(pair.local == failed.local) + u8::from(pair.peer == failed.peer);
        (broken, shared)
    }
}

fn pair_of(record: &ProbeRecord) -> Pair {
    Pair { local: record.source, peer: record.destination }
}

fn remember(records: &mut VecDeque<ProbeRecord>, record: ProbeRecord) {
    if records.len() == REMEMBERED {
        records.pop_front();
    }
    records.push_back(record);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(local: u16, peer: u16) -> Pair {
        let address = |host, number| format!("2001:db8:{number:x}::{host}").parse().unwrap();
        Pair { local: address(1, local), peer: address(2, peer) }
    }

    fn pairs() -> impl Iterator<Item = (Pair, bool)> {
        (0..3).flat_map(|local| (0..3).map(move |peer| (pair(local, peer), false)))
    }

    #[test]
    fn pairs_that_share_nothing_with_the_failed_one_come_first_and_it_comes_last() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let mut entropy = Entropy::from_number(seed);
            let mut exploration = Exploration::new(Time::ZERO, Some(pair(0, 0)));
            let order: Vec<Pair> = (0..9).map(|_| exploration.next(pairs(), &mut entropy).unwrap()).collect();
            let disjoint = |pair: &Pair| pair.local != self::pair(0, 0).local && pair.peer != self::pair(0, 0).peer;
            assert!(order[..4].iter().all(disjoint));
            assert!(!order[4..].iter().any(disjoint));
            assert_eq!(order[8], pair(0, 0));
            orders.insert(order);
        }
        assert!(orders.len() > 10, "the order is random");
    }

    #[test]
    fn what_does_not_work_is_tried_after_the_rest_and_what_is_wanted_before() {
        let mut entropy = Entropy::from_number(1);
        let mut exploration = Exploration::new(Time::ZERO, None);
        exploration.wanted = Some(pair(2, 2));
        let some = || [(pair(1, 1), true), (pair(2, 1), false), (pair(2, 2), false)].into_iter();
        for _ in 0..INITIAL_PROBES {
            assert_eq!(exploration.next(some(), &mut entropy), Some(pair(2, 2)));
            exploration.pause(&mut entropy);
        }
        let rest: Vec<_> = (0..3).filter_map(|_| exploration.next(some(), &mut entropy)).collect();
        assert_eq!(rest.last(), Some(&pair(1, 1)));
        assert_eq!(exploration.next([].into_iter(), &mut entropy), None);
    }

    #[test]
    fn intervals_grow_after_four_probes_up_to_a_minute() {
        let mut entropy = Entropy::from_number(1);
        let mut exploration = Exploration::new(Time::ZERO, None);
        let pauses: Vec<u128> = (0..30).map(|_| exploration.pause(&mut entropy).as_millis()).collect();
        assert!(pauses[..3].iter().all(|pause| (400..=600).contains(pause)));
        assert!((600..=900).contains(&pauses[3]));
        assert!((48_000..=72_000).contains(pauses.last().unwrap()));
        exploration.hurry();
        assert!(exploration.pause(&mut entropy) <= Duration::from_millis(600));
    }

    #[test]
    fn only_a_probe_of_ours_that_came_through_decides() {
        let mut entropy = Entropy::from_number(1);
        let mut exploration = Exploration::new(Time::ZERO, None);
        let first = exploration.send(pair(0, 0), &mut entropy)[0];
        let second = exploration.send(pair(1, 1), &mut entropy);
        assert_eq!(second[1], first, "earlier ones are told of again");
        let made_up = ProbeRecord { nonce: Nonce(first.nonce.0 ^ 1), ..first };
        assert_eq!(exploration.choose(&[made_up], pair(9, 9)), None);
        assert_eq!(exploration.choose(&[first, second[0]], pair(9, 9)), Some(pair(1, 1)));
        assert_eq!(exploration.choose(&[first, second[0]], pair(0, 0)), Some(pair(0, 0)), "no need to change");
        exploration.wanted = Some(pair(0, 0));
        assert_eq!(exploration.choose(&[first, second[0]], pair(1, 1)), Some(pair(0, 0)));
        for _ in 0..40 {
            exploration.send(pair(2, 2), &mut entropy);
            exploration.receive(ProbeRecord { nonce: Nonce(entropy.bits() as u32), ..first });
        }
        assert_eq!((exploration.sent.len(), exploration.received().len()), (REMEMBERED, TOLD));
    }
}
