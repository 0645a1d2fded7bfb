//! How long handovers of the mobile router take, and how often each path changes, counted from its reports. A handover lasts from
//! the report of its cause to the acknowledgement of the other care-of address: what the router does, without the time in which
//! a silent path has not been noticed.

use core::time::Duration;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::report::{LinkReport, NemoReport};
use roam6_proto::{LinkId, Report, Time};
use roam6_wire::Bid;
use std::net::Ipv6Addr;

/// Upper bounds of the buckets, milliseconds.
pub(crate) const BUCKETS: [u64; 11] = [10, 25, 50, 100, 250, 500, 1000, 2000, 5000, 10_000, 30_000];
/// Most care-of addresses whose links are remembered.
const MAX_CARE_OF: usize = 32;

/// Why the mobile router changed its care-of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// Another uplink is preferred; the former one still works.
    Planned,
    /// The uplink, its router or its address is gone.
    LinkDown,
    /// Probes are not answered.
    Silent,
    /// Round trip or loss exceed the limits.
    Degraded,
    /// There was no binding before.
    First,
}

/// What has happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathChange {
    Up,
    Down,
    Degraded,
    Restored,
}

impl Cause {
    pub(crate) const ALL: [Cause; 5] = [Cause::Planned, Cause::LinkDown, Cause::Silent, Cause::Degraded, Cause::First];

    /// Its name in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Cause::Planned => "planned",
            Cause::LinkDown => "link_down",
            Cause::Silent => "silent",
            Cause::Degraded => "degraded",
            Cause::First => "first",
        }
    }
}

impl PathChange {
    pub(crate) const ALL: [PathChange; 4] =
        [PathChange::Up, PathChange::Down, PathChange::Degraded, PathChange::Restored];

    /// Its name in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            PathChange::Up => "up",
            PathChange::Down => "down",
            PathChange::Degraded => "degraded",
            PathChange::Restored => "restored",
        }
    }
}

/// Durations in buckets.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// Number of values in each bucket and not in a lower one; larger values are only in `count`.
    pub(crate) buckets: [u64; BUCKETS.len()],
    pub(crate) count: u64,
    pub(crate) sum: Duration,
}

impl Histogram {
    fn add(&mut self, value: Duration) {
        let fits = |bound: &u64| value <= Duration::from_millis(*bound);
        let bucket = BUCKETS.iter().position(fits).and_then(|index| self.buckets.get_mut(index));
        bucket.into_iter().for_each(|bucket| *bucket = bucket.saturating_add(1));
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
    }
}

/// The counts since the daemon started.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct MoveCounts {
    pub(crate) handovers: VecMap<Cause, Histogram>,
    pub(crate) changes: VecMap<(Bid, PathChange), u64>,
}

/// Follows the reports of a mobile router.
#[derive(Debug, Default)]
pub(super) struct HandoverMeter {
    /// The care-of address in use; `None` without a binding.
    in_use: Option<Ipv6Addr>,
    /// The link of each care-of address.
    links: VecMap<Ipv6Addr, LinkId>,
    /// When and why the present handover began.
    begun: Option<(Time, Cause)>,
    pub(super) counts: MoveCounts,
}

impl HandoverMeter {
    /// Learns from a report.
    pub(super) fn observe(&mut self, at: Time, report: &Report) {
        match report {
            Report::Link(LinkReport::LinkDown { link, .. } | LinkReport::RouterLost { link, .. }) => {
                let own = self.in_use.and_then(|address| self.links.get(&address));
                if own == Some(link) {
                    self.begin(at, Cause::LinkDown);
                }
            }
            Report::Nemo(report) => self.observe_router(at, report),
            _ => {}
        }
    }

    fn observe_router(&mut self, at: Time, report: &NemoReport) {
        match report {
            NemoReport::CareOfFormed { link, address, .. } => {
                if self.links.len() < MAX_CARE_OF {
                    self.links.insert(*address, *link);
                }
                if self.in_use.is_none() {
                    self.begin(at, Cause::First);
                }
            }
            NemoReport::CareOfRemoved { address, .. } => {
                self.begin_if_used(at, *address, Cause::LinkDown);
                self.links.remove(address);
            }
            NemoReport::UpdateSent { care_of, lifetime, .. } if !lifetime.is_zero() => {
                let other = care_of.first().is_some_and(|first| Some(*first) != self.in_use);
                if other {
                    self.begin(at, if self.in_use.is_some() { Cause::Planned } else { Cause::First });
                }
            }
            NemoReport::PathDown { bid, care_of, .. } => {
                self.count(*bid, PathChange::Down);
                self.begin_if_used(at, *care_of, Cause::Silent);
            }
            NemoReport::PathDegraded { bid, care_of, .. } => {
                self.count(*bid, PathChange::Degraded);
                self.begin_if_used(at, *care_of, Cause::Degraded);
            }
            NemoReport::PathUp { bid, care_of } => self.recovered(*bid, *care_of, PathChange::Up),
            NemoReport::PathRestored { bid, care_of } => self.recovered(*bid, *care_of, PathChange::Restored),
            NemoReport::Bound { care_of, .. } => self.bound(at, care_of.first().copied()),
            NemoReport::Unbound { .. } | NemoReport::AtHome { .. } => (self.in_use, self.begun) = (None, None),
            _ => {}
        }
    }

    /// A handover begins, unless it has begun already: its first cause counts.
    fn begin(&mut self, at: Time, cause: Cause) {
        self.begun.get_or_insert((at, cause));
    }

    fn begin_if_used(&mut self, at: Time, care_of: Ipv6Addr, cause: Cause) {
        if self.in_use == Some(care_of) {
            self.begin(at, cause);
        }
    }

    /// What was wrong with the path in use has ended before the mobile router left it.
    fn recovered(&mut self, bid: Bid, care_of: Ipv6Addr, change: PathChange) {
        self.count(bid, change);
        if self.in_use == Some(care_of) {
            self.begun = None;
        }
    }

    fn bound(&mut self, at: Time, first: Option<Ipv6Addr>) {
        let begun = self.begun.take();
        if self.in_use == first {
            return;
        }
        if let Some((since, cause)) = begun {
            self.counts.handovers.entry(cause).or_default().add(at.since(since));
        }
        self.in_use = first;
    }

    fn count(&mut self, bid: Bid, change: PathChange) {
        let count = self.counts.changes.entry((bid, change)).or_default();
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::report::LossReason;
    use roam6_wire::Sequence;

    fn address(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
    }

    fn formed(last: u16) -> NemoReport {
        NemoReport::CareOfFormed { link: LinkId(u32::from(last)), bid: Bid(last), address: address(last) }
    }

    fn sent(care_of: &[u16]) -> NemoReport {
        let care_of = care_of.iter().map(|last| address(*last)).collect();
        NemoReport::UpdateSent {
            home_agent: address(99),
            care_of,
            sequence: Sequence(1),
            lifetime: Duration::from_secs(60),
        }
    }

    fn bound(care_of: &[u16]) -> NemoReport {
        let care_of = care_of.iter().map(|last| address(*last)).collect();
        NemoReport::Bound { home_agent: address(99), care_of, lifetime: Duration::from_secs(60) }
    }

    fn link_down(link: u32) -> Report {
        Report::Link(LinkReport::LinkDown { link: LinkId(link), name: "up0".to_owned() })
    }

    fn metered(reports: impl IntoIterator<Item = (u64, Report)>) -> Vec<(Cause, u64)> {
        let mut meter = HandoverMeter::default();
        for (millis, report) in reports {
            meter.observe(Time::from_micros(millis * 1000), &report);
        }
        let of = |(cause, histogram): (&Cause, &Histogram)| {
            assert_eq!(histogram.buckets.iter().sum::<u64>(), histogram.count);
            (*cause, u64::try_from(histogram.sum.as_millis()).unwrap())
        };
        meter.counts.handovers.iter().map(of).collect()
    }

    fn nemo(at: u64, report: NemoReport) -> (u64, Report) {
        (at, Report::Nemo(report))
    }

    /// The first registration, with another uplink in reserve.
    fn begin() -> Vec<(u64, Report)> {
        vec![nemo(0, formed(1)), nemo(10, sent(&[1])), nemo(40, bound(&[1])), nemo(500, formed(2))]
    }

    #[test]
    fn a_handover_lasts_from_its_cause_to_the_acknowledgement() {
        let mut reports = begin();
        reports.extend([(60_000, link_down(1)), nemo(60_001, sent(&[2])), nemo(60_030, bound(&[2]))]);
        assert_eq!(metered(reports), [(Cause::LinkDown, 30), (Cause::First, 40)]);
        let mut reports = begin();
        reports.extend([nemo(60_000, sent(&[2, 1])), nemo(60_080, bound(&[2, 1]))]);
        assert_eq!(metered(reports), [(Cause::Planned, 80), (Cause::First, 40)]);
        let mut reports = begin();
        let down = NemoReport::PathDown { bid: Bid(1), care_of: address(1), why: LossReason::Unreachable };
        reports.extend([nemo(60_000, down), nemo(60_090, bound(&[2]))]);
        assert_eq!(metered(reports), [(Cause::Silent, 90), (Cause::First, 40)]);
    }

    #[test]
    fn what_leads_to_no_other_address_is_no_handover() {
        let mut reports = begin();
        // The link in reserve, a path that recovers, a refresh.
        let degraded = NemoReport::PathDegraded { bid: Bid(1), care_of: address(1), why: "loss".to_owned() };
        let restored = NemoReport::PathRestored { bid: Bid(1), care_of: address(1) };
        reports.extend([(1000, link_down(2)), nemo(2000, degraded), nemo(9000, restored), nemo(9500, bound(&[1]))]);
        reports.extend([nemo(60_000, sent(&[2])), nemo(60_020, bound(&[2]))]);
        assert_eq!(metered(reports), [(Cause::Planned, 20), (Cause::First, 40)]);
    }

    #[test]
    fn durations_beyond_the_last_bucket_are_counted() {
        let mut histogram = Histogram::default();
        for micros in [0, 10_000, 10_001, 3_600_000_000] {
            histogram.add(Duration::from_micros(micros));
        }
        assert_eq!((histogram.count, histogram.buckets[0], histogram.buckets[1]), (4, 2, 1));
    }
}
