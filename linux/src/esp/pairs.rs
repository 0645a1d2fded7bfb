//! The pairs of associations of one path, the newest first, and by which of them packets leave.
//!
//! A mobile router sends by the pair that the last acknowledgement has completed. A home agent cannot know that its acknowledgement
//! has arrived: it sends by the newest pair on which packets have come, of those that lead to the registered care-of address; by
//! the newest of all these if none has come yet, as after a move. The others receive for a while.

use core::time::Duration;
use roam6_proto::Time;
use std::net::Ipv6Addr;

/// Pairs that a path has at most.
const MAX_PAIRS: usize = 4;
/// How long packets of a former pair are accepted once another one carries.
const RETIREMENT: Duration = Duration::from_secs(180);
/// A pair that has stood for so long, while nothing has come by any other, is that of a mobile router that has nothing to send.
const IDLE: Duration = Duration::from_secs(60);
/// Pause between two looks for packets: as long as the newest pair has waited, and within these limits.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The two SPIs: of what is received, and of what is sent.
pub(super) type Spis = (u32, u32);

/// The pairs of a path; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pairs {
    initiates: bool,
    /// The pair that the path has by the registration.
    wanted: Spis,
    /// The registered care-of address, or the home agent.
    remote: Ipv6Addr,
    pairs: Vec<Pair>,
    /// Since when the newest pair waits for packets, and since when none have come by any pair; once that was looked for.
    waits_since: Option<Time>,
    idle_since: Option<Time>,
}

/// One pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) spis: Spis,
    /// The address of this host by which it receives.
    pub(super) inbound_at: Ipv6Addr,
    /// The ends of what is sent.
    pub(super) local: Ipv6Addr,
    pub(super) remote: Ipv6Addr,
    /// The packets received when that was looked for last.
    pub(super) received: u64,
    /// Packets have come by it.
    pub(super) is_used: bool,
    /// It ends then; `None` while it carries, or until that is looked for.
    ends: Option<Time>,
}

impl Pair {
    pub(super) fn new(spis: Spis, local: Ipv6Addr, remote: Ipv6Addr, received: u64) -> Pair {
        Pair { spis, inbound_at: local, local, remote, received, is_used: received > 0, ends: None }
    }
}

impl Pairs {
    pub(super) fn new(pair: Pair, initiates: bool) -> Pairs {
        let (waits_since, idle_since) = (None, None);
        Pairs { initiates, wanted: pair.spis, remote: pair.remote, pairs: vec![pair], waits_since, idle_since }
    }

    /// Adds a pair, which the path has now. Returns those that it has to give up for want of room.
    pub(super) fn add(&mut self, pair: Pair) -> Vec<Pair> {
        (self.wanted, self.remote) = (pair.spis, pair.remote);
        (self.waits_since, self.idle_since) = (None, None);
        self.pairs.insert(0, pair);
        let carrier = self.carrier().spis;
        let mut given_up = Vec::new();
        while self.pairs.len() > MAX_PAIRS {
            let Some(oldest) = self.pairs.iter().rposition(|known| known.spis != carrier) else { break };
            given_up.extend(self.take(oldest));
        }
        given_up
    }

    /// Takes the pairs out that have an SPI of these: both cannot be.
    pub(super) fn take_sharing(&mut self, (inbound, outbound): Spis) -> Vec<Pair> {
        let shares = |pair: &Pair| pair.spis.0 == inbound || pair.spis.1 == outbound;
        let sharing = self.pairs.iter().copied().filter(shares).collect();
        self.pairs.retain(|pair| !shares(pair));
        sharing
    }

    fn take(&mut self, index: usize) -> Option<Pair> {
        (index < self.pairs.len()).then(|| self.pairs.remove(index))
    }

    /// A pair that is known, by its SPIs: that which the path has now, to this remote end.
    pub(super) fn want(&mut self, spis: Spis, remote: Ipv6Addr) -> Option<&mut Pair> {
        let known = self.pairs.iter_mut().find(|known| known.spis == spis)?;
        (self.wanted, self.remote) = (spis, remote);
        known.ends = None;
        Some(known)
    }

    pub(super) fn all(&self) -> &[Pair] {
        &self.pairs
    }

    pub(super) fn all_mut(&mut self) -> &mut [Pair] {
        &mut self.pairs
    }

    /// The pair by which packets leave.
    pub(super) fn carrier(&self) -> Pair {
        let wanted = self.pairs.iter().find(|pair| pair.spis == self.wanted);
        let leads_there = |pair: &&Pair| pair.remote == self.remote;
        let used = self.pairs.iter().filter(leads_there).find(|pair| pair.is_used);
        let chosen = if self.initiates { wanted } else { used.or(wanted) };
        // There is one always.
        chosen.or(self.pairs.first()).copied().unwrap_or(Pair::new(self.wanted, self.remote, self.remote, 0))
    }

    /// Whether this end is the mobile router.
    pub(super) fn is_mobile_router(&self) -> bool {
        self.initiates
    }

    /// Whether the other end is known to have the pair by which packets leave.
    pub(super) fn has_session(&self) -> bool {
        self.initiates || self.carrier().is_used
    }

    /// Whether packets of a newer pair than that by which packets leave are awaited.
    pub(super) fn is_waiting(&self) -> bool {
        !self.initiates && self.pairs.iter().any(|pair| pair.spis == self.wanted && !pair.is_used)
    }

    /// Advances to `now`; what was received by each pair was written into it. Returns the pairs that have ended.
    pub(super) fn advance(&mut self, now: Time, is_active: bool) -> Vec<Pair> {
        if self.is_waiting() {
            self.waits_since = self.waits_since.or(Some(now));
            self.idle_since = self.idle_since.filter(|_| !is_active).or(Some(now));
            if self.idle_since.is_some_and(|since| now.since(since) >= IDLE)
                && let Some(newest) = self.pairs.iter_mut().find(|pair| pair.spis == self.wanted)
            {
                newest.is_used = true;
            }
        }
        let carrier = self.carrier().spis;
        let newest = self.wanted;
        for pair in &mut self.pairs {
            let is_kept = pair.spis == carrier || pair.spis == newest;
            pair.ends = if is_kept { None } else { pair.ends.or(Some(now + RETIREMENT)) };
        }
        let is_over = |pair: &Pair| pair.ends.is_some_and(|ends| ends <= now);
        let over: Vec<Pair> = self.pairs.iter().copied().filter(is_over).collect();
        self.pairs.retain(|pair| !is_over(pair));
        over
    }

    /// When to look again; `None` if there is nothing to look for.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let carrier = self.carrier().spis;
        let ends = self.pairs.iter().filter(|pair| pair.spis != carrier && pair.spis != self.wanted);
        let ends = ends.map(|pair| pair.ends.unwrap_or(now));
        let waited = self.waits_since.map_or(Duration::ZERO, |since| now.since(since));
        let awaited = self.is_waiting().then(|| now + waited.clamp(PAUSE.0, PAUSE.1));
        ends.chain(awaited).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    fn address(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
    }

    fn pair(spi: u32, remote: u16, received: u64) -> Pair {
        Pair::new((spi, spi), address(1), address(remote), received)
    }

    fn received(pairs: &mut Pairs, spi: u32) {
        for pair in pairs.all_mut().iter_mut().filter(|pair| pair.spis.0 == spi) {
            (pair.received, pair.is_used) = (pair.received + 1, true);
        }
    }

    fn spis(pairs: &[Pair]) -> Vec<u32> {
        pairs.iter().map(|pair| pair.spis.0).collect()
    }

    /// The fault that this prevents: after two updates in short order packets left by a pair of which the mobile router knew nothing,
    /// because the acknowledgement with it was not the one that it took.
    #[test]
    fn home_agent_sends_by_the_newest_pair_that_the_mobile_router_uses() {
        let mut pairs = Pairs::new(pair(1, 2, 1), false);
        pairs.add(pair(2, 2, 0));
        pairs.add(pair(3, 2, 0));
        assert_eq!(pairs.carrier().spis.0, 1, "nobody knows which acknowledgement has arrived");
        pairs.advance(at(0), true);
        received(&mut pairs, 2);
        pairs.advance(at(300), true);
        assert_eq!((pairs.carrier().spis.0, pairs.is_waiting()), (2, true));
        // The retransmitted update is answered with the same pair, which the mobile router takes now.
        received(&mut pairs, 3);
        assert!(pairs.advance(at(600), true).is_empty(), "packets under way are accepted");
        assert_eq!((pairs.carrier().spis.0, pairs.is_waiting()), (3, false));
        assert_eq!(spis(&pairs.advance(at(181_000), true)), [2, 1]);
    }

    #[test]
    fn packets_follow_a_move_at_once_by_the_pair_of_the_acknowledgement() {
        let mut pairs = Pairs::new(pair(1, 2, 1), false);
        pairs.add(pair(2, 3, 0));
        assert_eq!((pairs.carrier().spis.0, pairs.has_session()), (2, false), "the former address is left");
        received(&mut pairs, 2);
        assert!(pairs.has_session());
    }

    #[test]
    fn mobile_router_sends_by_the_last_pair_at_once_and_returns_to_a_former_one() {
        let mut pairs = Pairs::new(pair(1, 2, 0), true);
        pairs.add(pair(2, 2, 0));
        assert_eq!((pairs.carrier().spis.0, pairs.has_session(), pairs.is_waiting()), (2, true, false));
        assert!(pairs.advance(at(0), false).is_empty());
        assert_eq!(pairs.deadline(at(0)), Some(at(180_000)));
        assert!(pairs.want((1, 1), address(2)).is_some());
        assert_eq!(pairs.carrier().spis.0, 1);
        pairs.advance(at(1000), false);
        assert_eq!(spis(&pairs.advance(at(181_000), false)), [2]);
        assert_eq!(pairs.deadline(at(181_000)), None);
    }

    #[test]
    fn newest_pair_carries_if_the_mobile_router_sends_nothing() {
        let mut pairs = Pairs::new(pair(1, 2, 1), false);
        pairs.add(pair(2, 2, 0));
        for second in 0..50 {
            pairs.advance(at(second * 1000), second < 10);
        }
        assert_eq!(pairs.carrier().spis.0, 1);
        pairs.advance(at(70_000), false);
        assert_eq!(pairs.carrier().spis.0, 2);
    }

    #[test]
    fn pair_that_carries_is_never_given_up_for_want_of_room() {
        let mut pairs = Pairs::new(pair(1, 2, 1), false);
        let given_up: Vec<u32> = (2..=7).flat_map(|spi| spis(&pairs.add(pair(spi, 2, 0)))).collect();
        assert_eq!(given_up, [2, 3, 4]);
        assert_eq!((spis(pairs.all()), pairs.carrier().spis.0), (vec![7, 6, 5, 1], 1));
    }

    /// As those of two answers to one offer, if the home agent has lost what it answered first.
    #[test]
    fn pairs_with_an_spi_of_another_one_make_room_for_it() {
        let mut pairs = Pairs::new(pair(1, 2, 1), true);
        pairs.add(pair(2, 2, 0));
        assert_eq!(spis(&pairs.take_sharing((2, 3))), [2]);
        pairs.add(Pair::new((2, 3), address(1), address(2), 0));
        assert_eq!((pairs.carrier().spis, spis(pairs.all())), ((2, 3), vec![2, 1]));
    }

    #[test]
    fn looks_are_the_rarer_the_longer_packets_are_awaited() {
        let mut pairs = Pairs::new(pair(1, 2, 0), false);
        assert_eq!(pairs.deadline(at(0)), Some(at(50)));
        pairs.advance(at(0), false);
        assert_eq!([at(200), at(5000)].map(|now| pairs.deadline(now)), [Some(at(400)), Some(at(6000))]);
        received(&mut pairs, 1);
        assert_eq!(pairs.deadline(at(5000)), None);
    }
}
