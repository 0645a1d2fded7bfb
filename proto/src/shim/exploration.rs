//! Locator pair exploration: order of the pairs, probe records and their evaluation (RFC 5534 §4.2, §4.3).

use crate::{AddressPair, Entropy, Time, VecMap};
use core::time::Duration;
use roam6_wire::shim6::{LocatorPreference, Nonce, ProbeRecord};
use std::collections::VecDeque;

/// Initial Probe Timeout (RFC 5534 §7).
const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of Initial Probes.
const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest round-trip time that is recorded.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);
/// Probes remembered, so that late reports still match.
const MAX_PROBES_REMEMBERED: usize = 16;
/// Probe records of each direction in one message.
const MAX_PROBES_REPORTED: usize = 4;

/// Rank of a locator pair among all (RFC 5533 §5.15.3).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairRank {
    /// To be probed only after all others.
    pub(super) last_resort: bool,
    /// Lower is better.
    pub(super) cost: u16,
    /// Relative share of first probes among pairs of equal cost.
    pub(super) weight: u16,
}

impl PairRank {
    /// The rank by the preferences of both ends: permanent before transient locators, then the sum of priorities.
    pub(super) fn of(ours: LocatorPreference, theirs: LocatorPreference) -> PairRank {
        let both = [ours, theirs];
        let transient = both.iter().filter(|end| end.flags & LocatorPreference::TEMPORARY != 0).count() as u16;
        let priority: u16 = both.iter().map(|end| u16::from(end.priority)).sum();
        let weight = both.iter().map(|end| u16::from(end.weight.max(1))).product();
        PairRank { last_resort: false, cost: transient * 512 + priority, weight }
    }

    /// A random sort key made of `bits`; the lowest comes first, with a probability in proportion to the weight. It is
    /// distributed exponentially: the logarithm of a random fraction, linear between powers of two, over the weight.
    fn weighted_draw(self, bits: u64) -> u64 {
        let bits = !bits;
        let halvings = bits.leading_zeros();
        let mantissa = bits.checked_shl(halvings).unwrap_or(0) >> 47 & 0xffff;
        ((u64::from(halvings) << 16) + (0xffff - mantissa)) * 1024 / u64::from(self.weight.max(1))
    }
}

/// An exploration of locator pairs.
#[derive(Debug, Clone)]
pub(super) struct Exploration {
    /// Start of the exploration.
    pub(super) since: Time,
    /// The pair that failed, if any did.
    failed_pair: Option<AddressPair>,
    /// The pairs not yet probed in this round; the next one is last.
    untried: Vec<AddressPair>,
    probes_sent: u32,
    interval: Duration,
    sent: VecDeque<ProbeRecord>,
    /// Transmission time of each probe in `sent`.
    sent_at: VecDeque<Time>,
    received: VecDeque<ProbeRecord>,
}

impl Exploration {
    /// Starts an exploration because `failed` no longer works.
    pub(super) fn new(now: Time, failed: Option<AddressPair>) -> Exploration {
        Exploration {
            since: now,
            failed_pair: failed,
            untried: Vec::new(),
            probes_sent: 0,
            interval: INITIAL_PROBE_TIMEOUT,
            sent: VecDeque::new(),
            sent_at: VecDeque::new(),
            received: VecDeque::new(),
        }
    }

    /// Restarts the back-off, because locators or preferences have changed.
    pub(super) fn restart_backoff(&mut self) {
        (self.probes_sent, self.interval) = (0, INITIAL_PROBE_TIMEOUT);
        self.untried.clear();
    }

    /// Goes from InboundOk to Exploring: probes received earlier no longer count.
    pub(super) fn forget_received(&mut self, now: Time) {
        self.since = now;
        self.received.clear();
    }

    /// The pair to probe next: `wanted`, then pairs disjoint from the failed one in random order, then the rest, the
    /// failed pair last.
    pub(super) fn next_pair(
        &mut self,
        pairs: VecMap<AddressPair, PairRank>,
        wanted: Option<AddressPair>,
        entropy: &mut Entropy,
    ) -> Option<AddressPair> {
        if let Some(wanted) = wanted.filter(|wanted| self.probes_sent < INITIAL_PROBES && pairs.contains_key(wanted)) {
            return Some(wanted);
        }
        self.untried.retain(|pair| pairs.contains_key(pair));
        if self.untried.is_empty() {
            let key = |(pair, rank): (&AddressPair, &PairRank)| {
                (
                    rank.last_resort,
                    self.shared_addresses(*pair),
                    rank.cost,
                    rank.weighted_draw(entropy.next_u64()),
                    *pair,
                )
            };
            let mut order: Vec<_> = pairs.iter().map(key).collect();
            order.sort_unstable();
            self.untried = order.into_iter().rev().map(|(.., pair)| pair).collect();
        }
        self.untried.pop()
    }

    /// Records a probe on `pair`. Returns the Probe Sent records for the message, this one first.
    pub(super) fn record_sent(&mut self, now: Time, pair: AddressPair, entropy: &mut Entropy) -> Vec<ProbeRecord> {
        let nonce = Nonce(entropy.next_u64() as u32);
        let record = ProbeRecord { source: pair.local, destination: pair.peer, nonce, data: 0 };
        push_bounded(&mut self.sent, record);
        push_bounded(&mut self.sent_at, now);
        self.sent.iter().rev().take(MAX_PROBES_REPORTED).copied().collect()
    }

    /// Time until the next probe; exponential back-off starts after the initial probes (RFC 5534 §4.3).
    pub(super) fn next_interval(&mut self, entropy: &mut Entropy) -> Duration {
        self.probes_sent = self.probes_sent.saturating_add(1);
        if self.probes_sent >= INITIAL_PROBES {
            self.interval = (self.interval * 3 / 2).min(MAX_PROBE_TIMEOUT);
        }
        // Jitter of 20 %, so that contexts that lost a path together do not probe together.
        let share = u32::try_from(entropy.below(401)).unwrap_or(200) + 800;
        self.interval * share / 1000
    }

    /// Records a probe received from the peer.
    pub(super) fn record_received(&mut self, record: ProbeRecord) {
        if self.received.iter().all(|known| known.nonce != record.nonce) {
            push_bounded(&mut self.received, record);
        }
    }

    /// The Probe Received records for the next message.
    pub(super) fn received_reports(&self) -> Vec<ProbeRecord> {
        self.received.iter().rev().take(MAX_PROBES_REPORTED).copied().collect()
    }

    /// The pair to use, of those whose probes the peer has `reported`: `wanted`, else `present`, else the one probed
    /// last.
    pub(super) fn select_pair(
        &self,
        reported: &[ProbeRecord],
        wanted: Option<AddressPair>,
        present: AddressPair,
    ) -> Option<AddressPair> {
        let came = |record: &&ProbeRecord| reported.contains(record);
        let pairs = || self.sent.iter().rev().filter(came).map(pair_of);
        let wanted = pairs().find(|pair| wanted == Some(*pair));
        wanted.or_else(|| pairs().find(|pair| *pair == present)).or_else(|| pairs().next())
    }

    /// Time from the last reported probe to its report; an outage of the return path is cut off.
    pub(super) fn round_trip(&self, now: Time, reported: &[ProbeRecord]) -> Option<Duration> {
        let mut probes = self.sent.iter().zip(&self.sent_at).rev();
        probes.find(|(record, _)| reported.contains(record)).map(|(_, at)| now.since(*at).min(MAX_ROUND_TRIP))
    }

    /// Number of addresses that `pair` shares with the failed pair.
    fn shared_addresses(&self, pair: AddressPair) -> u8 {
        self.failed_pair.map_or(0, |failed| u8::from(pair.local == failed.local) + u8::from(pair.peer == failed.peer))
    }
}

fn pair_of(record: &ProbeRecord) -> AddressPair {
    AddressPair { local: record.source, peer: record.destination }
}

fn push_bounded<T>(records: &mut VecDeque<T>, record: T) {
    if records.len() == MAX_PROBES_REMEMBERED {
        records.pop_front();
    }
    records.push_back(record);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::vec_set::VecSet;

    fn pair(local: u16, peer: u16) -> AddressPair {
        let address = |host, number| format!("2001:db8:{number:x}::{host}").parse().unwrap();
        AddressPair { local: address(1, local), peer: address(2, peer) }
    }

    fn pairs() -> VecMap<AddressPair, PairRank> {
        (0..3).flat_map(|local| (0..3).map(move |peer| (pair(local, peer), PairRank::default()))).collect()
    }

    #[test]
    fn disjoint_pairs_are_probed_first_and_the_failed_one_last() {
        let mut orders = VecSet::new();
        for seed in 0..20 {
            let mut entropy = Entropy::seed_from_u64(seed);
            let mut exploration = Exploration::new(Time::ZERO, Some(pair(0, 0)));
            let order: Vec<AddressPair> =
                (0..9).map(|_| exploration.next_pair(pairs(), None, &mut entropy).unwrap()).collect();
            let disjoint =
                |pair: &AddressPair| pair.local != self::pair(0, 0).local && pair.peer != self::pair(0, 0).peer;
            assert!(order[..4].iter().all(disjoint));
            assert!(!order[4..].iter().any(disjoint));
            assert_eq!(order[8], pair(0, 0));
            orders.insert(order);
        }
        assert!(orders.len() > 10, "the order is random");
    }

    #[test]
    fn the_wanted_pair_is_probed_first_and_broken_pairs_last() {
        let mut entropy = Entropy::seed_from_u64(1);
        let mut exploration = Exploration::new(Time::ZERO, None);
        let wanted = Some(pair(2, 2));
        let last = PairRank { last_resort: true, ..PairRank::default() };
        let some =
            VecMap::from([(pair(1, 1), last), (pair(2, 1), PairRank::default()), (pair(2, 2), PairRank::default())]);
        for _ in 0..INITIAL_PROBES {
            assert_eq!(exploration.next_pair(some.clone(), wanted, &mut entropy), wanted);
            exploration.next_interval(&mut entropy);
        }
        let rest: Vec<_> = (0..3).filter_map(|_| exploration.next_pair(some.clone(), wanted, &mut entropy)).collect();
        assert_eq!(rest.last(), Some(&pair(1, 1)));
        assert_eq!(exploration.next_pair(VecMap::new(), wanted, &mut entropy), None);
    }

    #[test]
    fn locator_preferences_of_both_ends_order_the_pairs() {
        let preference = |flags, priority, weight| LocatorPreference { flags, priority, weight };
        let rank = |number: u16| match number {
            0 => PairRank::of(preference(0, 0, 0), preference(0, 9, 3)),
            1 => PairRank::of(preference(0, 9, 1), preference(0, 0, 1)),
            2 => PairRank::of(preference(0, 10, 0), preference(0, 0, 0)),
            _ => PairRank::of(preference(LocatorPreference::TEMPORARY, 0, 0), preference(0, 0, 0)),
        };
        let pairs: VecMap<AddressPair, PairRank> = (0..4).map(|number| (pair(number, number), rank(number))).collect();
        let mut entropy = Entropy::seed_from_u64(1);
        let mut first = 0;
        for _ in 0..1000 {
            let mut exploration = Exploration::new(Time::ZERO, None);
            let order: Vec<AddressPair> =
                (0..4).filter_map(|_| exploration.next_pair(pairs.clone(), None, &mut entropy)).collect();
            assert_eq!(order[2..], [pair(2, 2), pair(3, 3)]);
            first += u32::from(order[0] == pair(0, 0));
        }
        assert!((700..800).contains(&first), "three to one: {first}");
    }

    #[test]
    fn probe_interval_backs_off_after_four_probes_up_to_a_minute() {
        let mut entropy = Entropy::seed_from_u64(1);
        let mut exploration = Exploration::new(Time::ZERO, None);
        let pauses: Vec<u128> = (0..30).map(|_| exploration.next_interval(&mut entropy).as_millis()).collect();
        assert!(pauses[..3].iter().all(|pause| (400..=600).contains(pause)));
        assert!((600..=900).contains(&pauses[3]));
        assert!((48_000..=72_000).contains(pauses.last().unwrap()));
        exploration.restart_backoff();
        assert!(exploration.next_interval(&mut entropy) <= Duration::from_millis(600));
    }

    #[test]
    fn only_a_reported_probe_selects_the_pair() {
        let mut entropy = Entropy::seed_from_u64(1);
        let mut exploration = Exploration::new(Time::ZERO, None);
        let first = exploration.record_sent(Time::ZERO, pair(0, 0), &mut entropy)[0];
        let second = exploration.record_sent(Time::ZERO, pair(1, 1), &mut entropy);
        assert_eq!(second[1], first, "earlier probes are listed again");
        let later = Time::ZERO + Duration::from_millis(90);
        assert_eq!(exploration.round_trip(later, &[first]), Some(Duration::from_millis(90)));
        let made_up = ProbeRecord { nonce: Nonce(first.nonce.0 ^ 1), ..first };
        assert_eq!(exploration.select_pair(&[made_up], None, pair(9, 9)), None);
        assert_eq!(exploration.select_pair(&[first, second[0]], None, pair(9, 9)), Some(pair(1, 1)));
        assert_eq!(
            exploration.select_pair(&[first, second[0]], None, pair(0, 0)),
            Some(pair(0, 0)),
            "no need to change"
        );
        let wanted = Some(pair(0, 0));
        assert_eq!(exploration.select_pair(&[first, second[0]], wanted, pair(1, 1)), wanted);
        for _ in 0..40 {
            exploration.record_sent(Time::ZERO, pair(2, 2), &mut entropy);
            exploration.record_received(ProbeRecord { nonce: Nonce(entropy.next_u64() as u32), ..first });
        }
        assert_eq!(
            (exploration.sent.len(), exploration.received_reports().len()),
            (MAX_PROBES_REMEMBERED, MAX_PROBES_REPORTED)
        );
    }
}
