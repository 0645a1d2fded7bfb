//! Whether an uplink carries traffic beside roam6's own packets, by the counters of its interface: a path without traffic
//! is probed less often.

use crate::Time;
use crate::base::token_bucket::BucketLevel;
use crate::contract::input::LinkTraffic;
use core::time::Duration;

/// Interval of the queries.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);
/// A path is active for this long after its last traffic.
const ACTIVE_TIME: Duration = Duration::from_secs(5);
/// Packets that are no traffic: neighbour discovery and updates. The interval of those sent, and how many may come at once.
const SENT_NOISE: (Duration, u32) = (Duration::from_secs(2), 4);
/// The same of those received, with what other hosts of the link send to all.
const RECEIVED_NOISE: (Duration, u32) = (Duration::from_millis(50), 20);

/// The traffic of an uplink whose path is in use.
#[derive(Debug, Default, Clone)]
pub(super) struct PathTraffic {
    /// Packets sent and received when the counters were read last.
    counted: Option<(u64, u64)>,
    /// Probes since then.
    probes: u64,
    sent_noise: BucketLevel,
    received_noise: BucketLevel,
    next_query: Option<Time>,
    /// `None` until the counters were read twice.
    active_until: Option<Time>,
}

impl PathTraffic {
    /// Whether there is traffic; until it is known, there is.
    pub(super) fn is_active(&self, now: Time) -> bool {
        self.active_until.is_none_or(|until| until > now)
    }

    /// The path is in use: its counters are read from now on.
    pub(super) fn watch(&mut self, now: Time) {
        self.next_query.get_or_insert(now);
    }

    /// The path is not in use.
    pub(super) fn rest(&mut self) {
        *self = PathTraffic::default();
    }

    /// A probe is sent.
    pub(super) fn note_probe(&mut self) {
        self.probes = self.probes.saturating_add(1);
    }

    /// The data plane has just seen traffic.
    pub(super) fn note_traffic(&mut self, now: Time) {
        if self.next_query.is_some() {
            self.active_until = Some(now + ACTIVE_TIME);
        }
    }

    /// Whether the counters are to be read now.
    pub(super) fn take_query(&mut self, now: Time) -> bool {
        let due = self.next_query.is_some_and(|next| next <= now);
        if due {
            self.next_query = Some(now + QUERY_INTERVAL);
        }
        due
    }

    /// When the counters are to be read next.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.next_query
    }

    /// Evaluates a reading.
    pub(super) fn receive(&mut self, now: Time, traffic: &LinkTraffic) {
        if self.next_query.is_none() {
            return;
        }
        let (sent, received) = (traffic.tx.packets, traffic.rx.packets);
        let own = core::mem::take(&mut self.probes);
        // A new interface counts from 0.
        let Some(before) = self.counted.replace((sent, received)) else { return };
        let sent = sent.saturating_sub(before.0).saturating_sub(own);
        let received = received.saturating_sub(before.1).saturating_sub(own);
        let quiet_out = is_noise(&mut self.sent_noise, now, sent, SENT_NOISE);
        let quiet_in = is_noise(&mut self.received_noise, now, received, RECEIVED_NOISE);
        if !(quiet_out && quiet_in) {
            self.active_until = Some(now + ACTIVE_TIME);
        }
        self.active_until.get_or_insert(now);
    }
}

/// Whether so many packets are noise, of which `level` has the rest.
fn is_noise(level: &mut BucketLevel, now: Time, packets: u64, (interval, burst): (Duration, u32)) -> bool {
    (0..packets).all(|_| level.take(now, interval, interval * burst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkId;
    use crate::contract::input::TrafficCount;

    /// For how many of sixty seconds a path is active with such packets a second in each direction.
    fn active_seconds(sent: impl Fn(u64) -> u64, received: u64) -> usize {
        let (mut traffic, mut total) = (PathTraffic::default(), (1000, 1000));
        traffic.watch(Time::ZERO);
        let active = |second: &u64| {
            let now = Time::from_micros(second * 1_000_000);
            assert!(traffic.take_query(now));
            traffic.note_probe();
            total = (total.0 + 1 + sent(*second), total.1 + 1 + received);
            let count = |packets| TrafficCount { packets, octets: 0 };
            traffic.receive(now, &LinkTraffic { link: LinkId(1), tx: count(total.0), rx: count(total.1) });
            traffic.is_active(now)
        };
        (0..60).filter(active).count()
    }

    #[test]
    fn sparse_traffic_is_traffic_and_neighbour_discovery_is_not() {
        assert_eq!(active_seconds(|_| 0, 0), 1, "unknown at first");
        assert!(active_seconds(|_| 1, 0) >= 50, "one packet a second");
        assert_eq!(active_seconds(|second| if second % 15 == 10 { 4 } else { 0 }, 10), 1);
        assert_eq!(active_seconds(|_| 0, 100), 60);
        assert_eq!(active_seconds(|second| if second == 30 { 50 } else { 0 }, 0), 6, "for five seconds");
    }
}
