//! The traffic of the paths, as the data plane counts it: read often while packets pass, so that a path from which nothing
//! comes back is tested at once; without packets the data plane notifies of the first.

use super::MobileRouter;
use super::forwarding::TUNNEL;
use super::uplink::Uplink;
use crate::contract::config::flow::has_bonding;
use crate::contract::input::PathTraffic;
use crate::contract::output::PathTrafficQuery;
use crate::{LinkId, Outbox, Time};
use core::time::Duration;
use roam6_wire::Bid;

/// Interval of the queries that no data plane answers: at first, as it may have no tunnel yet, and at last.
const UNANSWERED_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Queries without an answer that are counted.
const MAX_UNANSWERED: u32 = 10;

/// A queue that the subflows of relayed connections may fill.
const SUBFLOW_QUEUE: Duration = Duration::from_millis(150);

/// When the traffic of the paths is read.
#[derive(Debug, Default, Clone)]
pub(super) struct PathWatch {
    next: Option<Time>,
    /// Queries since the last answer.
    unanswered: u32,
}

impl MobileRouter {
    /// Whether paths are watched: where bursts of probes are wanted at all.
    fn is_watching(&self) -> bool {
        let wanted = |uplink: &Uplink| self.probe_config(uplink).is_some_and(|config| config.burst);
        self.is_probing() && self.registration.binding().is_some() && self.uplinks.iter().any(wanted)
    }

    /// When the traffic is to be read.
    pub(super) fn reading_deadline(&self) -> Option<Time> {
        let watching = self.config.probe.is_some() && self.is_watching();
        watching.then(|| self.path_watch.next.unwrap_or(self.now))
    }

    /// Reads the traffic of the paths, if it is time.
    pub(super) fn query_paths(&mut self, now: Time, out: &mut Outbox) {
        if self.config.probe.is_none() || !self.is_watching() || self.path_watch.next.is_some_and(|at| at > now) {
            return;
        }
        let notify_sent = self.uplinks.iter().all(|uplink| uplink.suspicion.is_idle(now));
        out.query_path_traffic(PathTrafficQuery { tunnel: TUNNEL, notify_sent });
        let [first, last] = UNANSWERED_INTERVALS;
        self.path_watch.next = Some(now + (first * (self.path_watch.unanswered + 1)).min(last));
        self.path_watch.unanswered = (self.path_watch.unanswered + 1).min(MAX_UNANSWERED);
    }

    /// Processes a reading: tests the path if nothing comes back by it, and another one is there to take its place.
    pub(super) fn receive_path_traffic(&mut self, now: Time, traffic: &PathTraffic) {
        let Some(link) = self.link_of_path(traffic.bid).filter(|_| traffic.tunnel == TUNNEL && self.is_watching())
        else {
            return;
        };
        let (replaceable, queue) = (self.is_replaceable(link), self.queue_of_others());
        let Some(uplink) = self.uplink_on(link) else { return };
        if let Some(received) = traffic.last_received {
            uplink.prober.end_alarm(received);
        }
        let variation = uplink.prober.quality.jitter();
        if uplink.suspicion.receive(now, traffic, variation) && replaceable {
            uplink.prober.raise_alarm(now, queue);
        }
        if !uplink.suspicion.is_idle(now) {
            uplink.traffic.note_traffic(now);
        }
        let next = uplink.suspicion.next_reading(now, variation, uplink.prober.is_alarmed());
        let before = self.path_watch.next.filter(|_| self.path_watch.unanswered == 0);
        self.path_watch = PathWatch { next: Some(before.map_or(next, |at| at.min(next))), unanswered: 0 };
    }

    /// Whether another path works that could take the place of that on `link`.
    fn is_replaceable(&self, link: LinkId) -> bool {
        let works = |uplink: &Uplink| !uplink.prober.is_silent();
        self.usable_care_of().iter().any(|other| other.link != link && self.uplink_of(other).is_some_and(works))
    }

    /// Tests the path on `link`, which may have failed, if another one or another home agent could take its place. One
    /// that is probed rarely may need longer for its first answer: the next probe has to do.
    pub(super) fn test_path(&mut self, now: Time, link: LinkId) {
        let wanted = |uplink: &Uplink| self.probe_config(uplink).is_some_and(|config| config.burst);
        let tested = |uplink: &&Uplink| uplink.up() == Some(link) && wanted(uplink) && !uplink.prober.is_slow();
        let is_tested = self.is_watching() && self.uplinks.iter().any(|uplink| tested(&uplink));
        if !is_tested || !(self.is_replaceable(link) || self.home_agents.has_other()) {
            return;
        }
        let queue = self.queue_of_others();
        if let Some(uplink) = self.uplink_on(link) {
            uplink.prober.raise_alarm(now, queue);
        }
        // What is received by the path ends the test.
        if self.path_watch.unanswered == 0 {
            self.path_watch.next = Some(now);
        }
    }

    /// How long packets may wait behind those that the counters of a path do not include: subflows of relayed connections fill the queue
    /// of an uplink within a round trip, sooner than probes would show it.
    fn queue_of_others(&self) -> Duration {
        if has_bonding(&self.config.flows) { SUBFLOW_QUEUE } else { Duration::ZERO }
    }

    /// The interface by which a path leaves.
    fn link_of_path(&self, bid: Bid) -> Option<LinkId> {
        self.paths().iter().find(|path| path.bid == bid && !path.direct)?.link
    }
}
