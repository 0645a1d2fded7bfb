//! The Send and Keepalive Timers, computed from samples of the data plane (RFC 5534 §4.1, §6).
//!
//! No packet is handled here: the times of the first and last packets in each direction determine when the timers would have
//! been started and stopped. An idle context costs nothing, and a busy one a sample now and then.

use crate::{Activity, Time};
use core::time::Duration;

/// The two timers of a context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReapTimers {
    /// Start of the Send Timer, while it runs: since then nothing was received.
    send_timer_since: Option<Time>,
    /// Start of the Keepalive Timer, while it runs: since then nothing was sent.
    keepalive_timer_since: Option<Time>,
    /// The last upper-layer packet received.
    payload_received: Option<Time>,
    /// The last control message received that stops the Send Timer.
    message_received: Option<Time>,
    /// The last control message sent that stops the Keepalive Timer.
    message_sent: Option<Time>,
    /// The last Keepalive sent.
    keepalive_sent: Option<Time>,
}

impl ReapTimers {
    /// Updates both timers by a sample of the data plane.
    pub(super) fn record_activity(&mut self, activity: &Activity) {
        let Activity {
            last_sent: sent,
            last_received: received,
            unanswered_since: unanswered,
            unreturned_since: unreturned,
            ..
        } = *activity;
        self.payload_received = self.payload_received.max(received);
        self.send_timer_since =
            timer_start(self.send_timer_since, (sent, unanswered), (received, self.message_received));
        self.keepalive_timer_since =
            timer_start(self.keepalive_timer_since, (received, unreturned), (sent, self.message_sent));
    }

    /// A control message was received: stops the Send Timer.
    pub(super) fn on_message_received(&mut self, now: Time) {
        (self.send_timer_since, self.message_received) = (None, Some(now));
    }

    /// A control message was sent that needs an answer: starts the Send Timer and stops the Keepalive Timer.
    pub(super) fn on_message_sent(&mut self, now: Time) {
        self.send_timer_since.get_or_insert(now);
        (self.keepalive_timer_since, self.message_sent) = (None, Some(now));
    }

    /// As `on_message_sent`, but restarts a running Send Timer.
    pub(super) fn restart_send_timer(&mut self, now: Time) {
        self.send_timer_since = None;
        self.on_message_sent(now);
    }

    /// Starts the Keepalive Timer.
    pub(super) fn start_keepalive_timer(&mut self, now: Time) {
        self.keepalive_timer_since.get_or_insert(now);
    }

    /// A Keepalive was sent.
    pub(super) fn on_keepalive_sent(&mut self, now: Time) {
        self.keepalive_sent = Some(now);
    }

    /// Stops both timers.
    pub(super) fn stop(&mut self) {
        (self.send_timer_since, self.keepalive_timer_since) = (None, None);
    }

    /// When the Send Timer expires.
    pub(super) fn send_timer_expiry(&self, timeout: Duration) -> Option<Time> {
        self.send_timer_since.map(|since| since + timeout)
    }

    /// When the next Keepalive is due: every third of `timeout`, until nothing was received for `timeout`
    /// (RFC 5534 §4.1).
    pub(super) fn keepalive_due(&self, timeout: Duration) -> Option<Time> {
        let since = self.keepalive_timer_since?;
        let due = self.keepalive_sent.filter(|kept| *kept >= since).unwrap_or(since) + timeout / 3;
        let last = self.payload_received.max(self.message_received).unwrap_or(since).max(since);
        (due <= last + timeout).then_some(due)
    }
}

/// The start of a timer that packets of one direction start and packets of the other stop, if it still runs.
///
/// `ours`: the last packet that starts the timer, and the first one after the last stop. `theirs`: the last packet that
/// stops it, and the last control message that does.
fn timer_start(
    known: Option<Time>,
    ours: (Option<Time>, Option<Time>),
    theirs: (Option<Time>, Option<Time>),
) -> Option<Time> {
    let (last, first) = ours;
    let stopped = theirs.0.max(theirs.1);
    let message_after = |at: Time| theirs.1.is_some_and(|message| message >= at);
    match first {
        Some(first) if !message_after(first) => {
            // A control message may have started it before the first packet, with no stop since.
            Some(known.filter(|known| *known < first && stopped.is_none_or(|stop| stop < *known)).unwrap_or(first))
        }
        _ => {
            let after = |at: &Time| stopped.is_none_or(|stop| stop < *at);
            known.filter(after).or(last.filter(after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{AddressPair, ContextId};
    use crate::contract::input::TrafficCount;
    use roam6_wire::shim6::Fork;

    const TIMEOUT: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// The sample for packets sent (`>`) and received (`<`) at these seconds.
    fn activity(packets: &[(char, u64)]) -> Activity {
        let ulids = AddressPair { local: "2001:db8::1".parse().unwrap(), peer: "2001:db8::2".parse().unwrap() };
        let context = ContextId { ulids, fork: Fork::NONE };
        let (out, into) = (TrafficCount::default(), TrafficCount::default());
        let mut activity = Activity {
            context,
            last_sent: None,
            last_received: None,
            unanswered_since: None,
            unreturned_since: None,
            tx: out,
            rx: into,
        };
        for (direction, second) in packets {
            let time = Some(at(*second));
            if *direction == '>' {
                (activity.last_sent, activity.unanswered_since, activity.unreturned_since) =
                    (time, activity.unanswered_since.or(time), None);
            } else {
                (activity.last_received, activity.unreturned_since, activity.unanswered_since) =
                    (time, activity.unreturned_since.or(time), None);
            }
        }
        activity
    }

    fn after(packets: &[(char, u64)]) -> ReapTimers {
        let mut watch = ReapTimers::default();
        watch.record_activity(&activity(packets));
        watch
    }

    #[test]
    fn send_timer_starts_at_the_first_unanswered_packet() {
        assert_eq!(after(&[]).send_timer_expiry(TIMEOUT), None);
        assert_eq!(after(&[('>', 1), ('>', 9)]).send_timer_expiry(TIMEOUT), Some(at(16)));
        assert_eq!(after(&[('>', 1), ('<', 2)]).send_timer_expiry(TIMEOUT), None);
        assert_eq!(after(&[('>', 1), ('<', 2), ('>', 3), ('>', 4)]).send_timer_expiry(TIMEOUT), Some(at(18)));
    }

    #[test]
    fn keepalives_are_sent_while_only_the_peer_sends() {
        let mut watch = after(&[('<', 1), ('<', 8)]);
        assert_eq!(watch.keepalive_due(TIMEOUT), Some(at(6)));
        watch.on_keepalive_sent(at(9));
        assert_eq!(watch.keepalive_due(TIMEOUT), Some(at(14)));
        watch.on_keepalive_sent(at(19));
        assert_eq!(watch.keepalive_due(TIMEOUT), None, "it has been silent itself for as long");
        watch.record_activity(&activity(&[('<', 1), ('<', 8), ('<', 30)]));
        assert!(watch.keepalive_due(TIMEOUT).is_some());
        watch.record_activity(&activity(&[('<', 30), ('>', 31)]));
        assert_eq!(watch.keepalive_due(TIMEOUT), None);
    }

    #[test]
    fn a_keepalive_stops_the_send_timer_until_the_next_packet() {
        let mut watch = after(&[('>', 1), ('>', 4)]);
        watch.on_message_received(at(5));
        watch.record_activity(&activity(&[('>', 1), ('>', 4)]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), None);
        watch.record_activity(&activity(&[('>', 1), ('>', 7)]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), Some(at(22)));
        watch.record_activity(&activity(&[('>', 1), ('>', 9)]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), Some(at(22)), "the first counts");
        watch.record_activity(&activity(&[('>', 9), ('<', 10)]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), None);
    }

    #[test]
    fn a_probe_starts_the_send_timer_without_payload() {
        let mut watch = ReapTimers::default();
        watch.on_message_sent(at(1));
        watch.record_activity(&activity(&[]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), Some(at(16)));
        watch.record_activity(&activity(&[('>', 5)]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), Some(at(16)));
        watch.record_activity(&activity(&[('>', 5), ('<', 6)]));
        assert_eq!(watch.send_timer_expiry(TIMEOUT), None);
    }
}
