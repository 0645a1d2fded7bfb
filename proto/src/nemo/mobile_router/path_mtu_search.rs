//! The search for a path MTU by probes: a state machine without packets (RFC 8899 §5.2).

use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::ip6::MINIMUM_MTU;

/// BASE_PLPMTU: the minimum MTU of every IPv6 path (RFC 8200 §5), octets.
const BASE_PLPMTU: u32 = MINIMUM_MTU;
/// MAX_PROBES of RFC 8899 §5.1.2, for the size in use and for a size that is tried.
const MAX_PROBES: u32 = 3;
const MAX_SEARCH_PROBES: u32 = 2;
/// Interval of confirmation for a path in use; others are confirmed less often, because idle uplinks may be metered.
const CONFIRMATION_TIMER: Duration = Duration::from_secs(60);
/// PMTU_RAISE_TIMER of RFC 8899 §5.1.1.
const PMTU_RAISE_TIMER: Duration = Duration::from_secs(600);
/// PROBE_TIMER: a number of round trips, within bounds.
const ROUND_TRIPS: u32 = 3;
const MIN_TIMEOUT: Duration = Duration::from_millis(300);
const MAX_TIMEOUT: Duration = Duration::from_secs(3);
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The search for the path MTU. Sizes are those of outer packets, octets.
#[derive(Debug, Default, Clone)]
pub struct PathMtuSearch {
    state: SearchState,
    /// The link MTU.
    link_mtu: u32,
    /// The path MTU, if less than the link MTU.
    found: Option<u32>,
    /// The size that is tried, the number of its probes, and the time of the last.
    probed_size: u32,
    probe_count: u32,
    probe_sent: Time,
    /// When something is to be done next.
    next_at: Option<Time>,
    /// When a larger size is tried again.
    raise_at: Time,
    /// A base probe was answered since this size is tried.
    base_answered: bool,
    round_trip: Option<Duration>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum SearchState {
    #[default]
    Idle,
    /// Confirming the size in use.
    Confirming,
    /// Searching: `low` octets pass, `high` do not.
    Searching { low: u32, high: u32 },
    /// Trying a larger size.
    Raising,
    /// Search complete, until the next confirmation.
    SearchComplete,
}

impl PathMtuSearch {
    /// The path MTU, if less than that of the link, octets.
    pub fn mtu(&self) -> Option<u32> {
        self.found
    }

    /// Whether the path MTU is known, until the next confirmation.
    pub fn is_complete(&self) -> bool {
        self.state == SearchState::SearchComplete
    }

    /// When [`PathMtuSearch::next_probes`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        self.next_at
    }

    /// The sizes of the probes to send now. `top` is the MTU of the link; `in_use` says whether packets take this path.
    pub fn next_probes(&mut self, now: Time, top: u32, in_use: bool) -> Vec<u32> {
        if top != self.link_mtu {
            self.link_mtu = top;
            self.found.take_if(|found| *found >= top);
            (self.state, self.next_at) = (SearchState::Idle, Some(now));
        }
        if top <= BASE_PLPMTU {
            // Nothing to search; a larger link MTU restarts it.
            (self.state, self.next_at) = (SearchState::Idle, None);
            return Vec::new();
        }
        if self.next_at.is_some_and(|next| next > now) {
            return Vec::new();
        }
        match self.state {
            SearchState::Idle => self.confirm(),
            SearchState::SearchComplete if self.found.is_some() && self.raise_at <= now => {
                self.try_size(SearchState::Raising, self.current() + 1)
            }
            SearchState::SearchComplete => self.confirm(),
            _ if self.probe_count >= self.max_probes() => self.probe_failed(now, in_use),
            _ => {}
        }
        if self.state == SearchState::SearchComplete {
            return Vec::new();
        }
        self.probe_count += 1;
        self.probe_sent = now;
        self.next_at = Some(now + self.timeout());
        let base = Some(BASE_PLPMTU).filter(|_| self.state == SearchState::Confirming && !self.base_answered);
        base.into_iter().chain([self.probed_size]).collect()
    }

    /// A probe of `size` octets was answered.
    pub fn receive_answer(&mut self, now: Time, size: u32) {
        if self.next_at.is_none() {
            return;
        }
        if self.probe_count == 1 {
            self.round_trip = Some(now.since(self.probe_sent));
        }
        self.base_answered |= size == BASE_PLPMTU;
        match self.state {
            SearchState::Confirming if size >= self.probed_size => self.complete(now, CONFIRMATION_TIMER),
            SearchState::Searching { low, high } if size > low => self.bisect(now, size, high.max(size + 1)),
            SearchState::Raising if size >= self.probed_size => self.bisect(now, size, self.link_mtu + 1),
            _ => {}
        }
    }

    fn current(&self) -> u32 {
        self.found.unwrap_or(self.link_mtu)
    }

    fn confirm(&mut self) {
        self.base_answered = false;
        self.try_size(SearchState::Confirming, self.current());
    }

    fn try_size(&mut self, step: SearchState, size: u32) {
        (self.state, self.probed_size, self.probe_count) = (step, size, 0);
    }

    fn max_probes(&self) -> u32 {
        if self.state == SearchState::Confirming { MAX_PROBES } else { MAX_SEARCH_PROBES }
    }

    fn timeout(&self) -> Duration {
        let measured = self.round_trip.map(|round_trip| round_trip * ROUND_TRIPS);
        measured.map_or(INITIAL_TIMEOUT, |timeout| timeout.clamp(MIN_TIMEOUT, MAX_TIMEOUT))
    }

    /// The probes of the size were not answered.
    fn probe_failed(&mut self, now: Time, in_use: bool) {
        match self.state {
            // A black hole (RFC 8899 §4.3): base probes pass, those of the size in use do not.
            SearchState::Confirming if self.base_answered && self.probed_size > BASE_PLPMTU => {
                let high = self.probed_size;
                self.found = Some(BASE_PLPMTU);
                self.bisect(now, BASE_PLPMTU, high);
            }
            // Without answers to base probes nothing is known: echo requests may be filtered.
            SearchState::Confirming => self.complete(now, if in_use { CONFIRMATION_TIMER } else { PMTU_RAISE_TIMER }),
            SearchState::Searching { low, .. } => self.bisect(now, low, self.probed_size),
            SearchState::Raising => {
                self.raise_at = now + PMTU_RAISE_TIMER;
                self.complete(now, CONFIRMATION_TIMER);
            }
            SearchState::Idle | SearchState::SearchComplete => {}
        }
    }

    /// Continues between `low`, which passes, and `high`, which does not; at the end `low` is the path MTU.
    fn bisect(&mut self, now: Time, low: u32, high: u32) {
        if high.saturating_sub(low) <= 1 {
            self.found = Some(low).filter(|low| *low < self.link_mtu);
            self.raise_at = now + PMTU_RAISE_TIMER;
            return self.complete(now, CONFIRMATION_TIMER);
        }
        self.try_size(SearchState::Searching { low, high }, u32::midpoint(low, high));
        self.next_at = Some(now);
    }

    fn complete(&mut self, now: Time, pause: Duration) {
        self.state = SearchState::SearchComplete;
        self.next_at = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that carries packets of up to `mtu` octets and answers after `delay`.
    struct Path {
        mtu: u32,
        delay: Duration,
        sent: u32,
    }

    impl Path {
        /// Runs the search from `now` to `end`.
        fn run(&mut self, search: &mut PathMtuSearch, mut now: Time, end: Time) {
            let mut answers: Vec<(Time, u32)> = Vec::new();
            loop {
                let answer = answers.first().map(|(at, _)| *at);
                let Some(next) = search.deadline().or(Some(now)).into_iter().chain(answer).min() else { return };
                if next > end {
                    return;
                }
                now = now.max(next);
                if answer.is_some_and(|at| at <= now) {
                    let (_, size) = answers.remove(0);
                    search.receive_answer(now, size);
                    continue;
                }
                let sizes = search.next_probes(now, 1500, true);
                self.sent += u32::try_from(sizes.len()).unwrap();
                let passing = sizes.into_iter().filter(|size| *size <= self.mtu);
                answers.extend(passing.map(|size| (now + self.delay, size)));
            }
        }
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    fn path(mtu: u32, delay: u64) -> Path {
        Path { mtu, delay: Duration::from_millis(delay), sent: 0 }
    }

    #[test]
    fn path_mtu_equal_to_link_mtu_is_only_confirmed() {
        let (mut search, mut path) = (PathMtuSearch::default(), path(1500, 20));
        path.run(&mut search, at(0), at(59_000));
        assert_eq!((search.mtu(), path.sent), (None, 2), "one probe of each size, then a minute of rest");
    }

    #[test]
    fn path_mtu_black_hole_is_found_exactly_within_seconds() {
        for delay in [1, 20, 100, 600, 900] {
            for mtu in [1280, 1281, 1400, 1420, 1492, 1499] {
                let (mut search, mut path) = (PathMtuSearch::default(), path(mtu, delay));
                path.run(&mut search, at(0), at(if delay < 200 { 10_000 } else { 59_000 }));
                assert_eq!(search.mtu(), Some(mtu), "delay {delay} ms");
            }
        }
    }

    #[test]
    fn base_plpmtu_is_used_while_searching() {
        let (mut search, mut path) = (PathMtuSearch::default(), path(1400, 20));
        path.run(&mut search, at(0), at(1700));
        assert_eq!(search.mtu(), Some(BASE_PLPMTU), "clamped after the third unanswered probe");
    }

    #[test]
    fn path_mtu_is_kept_if_base_probes_are_unanswered() {
        let (mut search, mut path) = (PathMtuSearch::default(), path(100, 20));
        path.run(&mut search, at(0), at(3_600_000));
        assert_eq!(search.mtu(), None);
    }

    #[test]
    fn decreased_and_increased_path_mtu_are_found() {
        let (mut search, mut path) = (PathMtuSearch::default(), path(1500, 20));
        path.run(&mut search, at(0), at(30_000));
        path.mtu = 1400;
        path.run(&mut search, at(30_000), at(90_000));
        assert_eq!(search.mtu(), Some(1400));
        path.mtu = 1300;
        path.run(&mut search, at(90_000), at(180_000));
        assert_eq!(search.mtu(), Some(1300));
        path.mtu = 1500;
        path.run(&mut search, at(180_000), at(180_000 + 700_000));
        assert_eq!(search.mtu(), None);
    }

    #[test]
    fn link_of_minimum_mtu_is_not_searched() {
        let mut search = PathMtuSearch::default();
        search.next_probes(at(0), 1500, true);
        assert!(search.next_probes(at(10), 1280, true).is_empty());
        assert_eq!(search.deadline(), None, "nothing is ever due");
        assert!(!search.next_probes(at(20), 1500, true).is_empty());
    }

    #[test]
    fn packet_too_big_ends_the_path_mtu_search() {
        let (mut search, mut path) = (PathMtuSearch::default(), path(1400, 20));
        path.run(&mut search, at(0), at(30_000));
        assert_eq!(search.mtu(), Some(1400));
        search.next_probes(at(31_000), 1380, true);
        assert_eq!(search.mtu(), None, "the link itself is narrower now");
    }
}
