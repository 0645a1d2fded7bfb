//! Suspicion: packets leave by a path and none comes back, or a stream of received packets stops. Then probes follow each
//! other at once, and the path counts as down when they are not answered either: much sooner than by probes at intervals
//! (no RFC; RFC 6298 for the timeout). The traffic is counted by the data plane; a state machine without packets.

use crate::Time;
use crate::contract::input::PathTraffic;
use core::time::Duration;

/// A silence is suspicious after so many times the mean distance of received packets, and after this time.
const SUSPICIOUS_PACKETS: u32 = 3;
const MIN_SILENCE: Duration = Duration::from_millis(25);
/// Received packets that are further apart than a probe's interval say no more than probes.
const MAX_SILENCE: Duration = Duration::from_millis(200);
/// The time in which the distance of received packets is averaged.
const AVERAGED: Duration = Duration::from_millis(500);
/// Interval of the queries while packets pass, and while there may be reason for suspicion.
const USUAL_INTERVAL: Duration = Duration::from_millis(50);
const SHORT_INTERVAL: Duration = Duration::from_millis(10);
/// Interval without packets: the data plane notifies of the first one.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// A path is idle this long after its last packet.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// A path without packets counts as not tested after this time.
const UNTESTED_AFTER: Duration = Duration::from_secs(1);
/// The shortest time between two suspicions, doubled each time that the first was wrong, so many times at most.
const PAUSE: Duration = Duration::from_millis(200);
const MAX_DOUBLINGS: u32 = 5;
/// Without a suspicion for this time, former ones do not count.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);

/// The traffic of one path, as far as it is known.
#[derive(Debug, Default, Clone)]
pub(super) struct Suspicion {
    /// The last reading.
    last: Option<PathTraffic>,
    /// When packets were last seen to be received, by the reading, and how many a second then, in thousandths.
    progress_at: Option<Time>,
    rate: u64,
    /// When the first packet after a pause was sent, until one is received.
    woken: Option<Time>,
    /// When the path was last suspected, and how often in a row wrongly.
    suspected: Option<Time>,
    was_wrong: bool,
    wrong: u32,
}

impl Suspicion {
    /// Evaluates a reading: whether the path is to be tested now. `variation`: of the round trip.
    pub(super) fn receive(&mut self, now: Time, traffic: &PathTraffic, variation: Duration) -> bool {
        let paused = self.last_packet().is_none_or(|last| Some(last + UNTESTED_AFTER) <= traffic.last_sent);
        let before = self.last.replace(*traffic);
        self.update_rate(now, before.as_ref(), traffic);
        if traffic.last_received >= self.woken {
            self.woken = None;
        }
        if paused && traffic.last_sent > traffic.last_received {
            self.woken = traffic.last_sent;
        }
        if !self.was_wrong && self.suspected.is_some_and(|suspected| traffic.last_received > Some(suspected)) {
            self.was_wrong = true;
            self.wrong = (self.wrong + 1).min(MAX_DOUBLINGS);
        }
        let due = self.suspicious_from(variation).is_some_and(|from| from <= now);
        if due {
            if self.suspected.replace(now).is_none_or(|before| before + FORGIVEN_AFTER <= now) {
                self.wrong = 0;
            }
            self.was_wrong = false;
        }
        due
    }

    /// When the path becomes suspicious if nothing comes; `None` if there is no reason.
    fn suspicious_from(&self, variation: Duration) -> Option<Time> {
        let traffic = self.last.as_ref()?;
        // What follows a pause tests the path.
        let (silent_since, patience) = match self.woken {
            Some(woken) => (woken, Some(Duration::ZERO)),
            None => (traffic.unanswered_since.or(traffic.last_received)?, self.patience(variation)),
        };
        // One test for each silence: after it the usual probes suffice.
        let is_tested = self.suspected.is_some_and(|suspected| suspected >= silent_since);
        let from = silent_since + patience.filter(|_| !is_tested)?;
        let pause = PAUSE * 2_u32.saturating_pow(self.wrong);
        Some(self.suspected.map_or(from, |suspected| from.max(suspected + pause)))
    }

    /// How long a silence may last; `None` if packets are too rare to tell.
    fn patience(&self, variation: Duration) -> Option<Duration> {
        let distance = Duration::from_micros(1_000_000_000_u64.checked_div(self.rate)?);
        let patience = (distance * SUSPICIOUS_PACKETS).max(variation * 4).max(MIN_SILENCE);
        (patience <= MAX_SILENCE).then_some(patience)
    }

    fn update_rate(&mut self, now: Time, before: Option<&PathTraffic>, traffic: &PathTraffic) {
        let received = before.map_or(0, |before| traffic.rx.packets.saturating_sub(before.rx.packets));
        if received == 0 {
            return;
        }
        let Some(since) = self.progress_at.replace(now).map(|at| now.since(at)) else { return };
        let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = received.saturating_mul(1_000_000_000) / micros;
        let averaged = u64::try_from(AVERAGED.as_micros()).unwrap_or(u64::MAX);
        let share = micros.min(averaged);
        self.rate = (u128::from(self.rate) * u128::from(averaged - share) + u128::from(rate) * u128::from(share))
            .checked_div(u128::from(averaged))
            .and_then(|rate| u64::try_from(rate).ok())
            .unwrap_or(u64::MAX);
    }

    /// When packets were last sent or received.
    pub(super) fn last_packet(&self) -> Option<Time> {
        let traffic = self.last.as_ref()?;
        traffic.last_sent.max(traffic.last_received)
    }

    /// When to read again; `tested`: the path is under suspicion.
    pub(super) fn next_reading(&self, now: Time, variation: Duration, tested: bool) -> Time {
        match self.suspicious_from(variation) {
            _ if tested => now + SHORT_INTERVAL,
            _ if self.is_idle(now) => now + IDLE_INTERVAL,
            Some(from) => from.clamp(now + SHORT_INTERVAL, now + USUAL_INTERVAL),
            None => now + USUAL_INTERVAL,
        }
    }

    /// Whether no packets pass.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        self.last_packet().is_none_or(|last| last + IDLE_AFTER <= now)
    }
}

/// Probes of a path under suspicion.
const ALARM_PROBES: u32 = 3;
const ALARM_SPACING: Duration = Duration::from_millis(10);

/// A path under suspicion is tested.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alarm {
    since: Time,
    sent: u32,
    next: Time,
    verdict: Time,
}

impl Alarm {
    /// Begins; `timeout`: of the first probe, the others confirm it.
    pub(super) fn raise(now: Time, timeout: Duration) -> Alarm {
        Alarm { since: now, sent: 0, next: now, verdict: now + timeout }
    }

    /// Whether a probe is to be sent now.
    pub(super) fn take_probe(&mut self, now: Time) -> bool {
        let due = self.sent < ALARM_PROBES && self.next <= now;
        if due {
            self.sent += 1;
            self.next = now + ALARM_SPACING;
        }
        due
    }

    /// Whether what was received at `received` ends it.
    pub(super) fn is_ended_by(&self, received: Time) -> bool {
        received > self.since
    }

    /// Whether the path has failed.
    pub(super) fn has_failed(&self, now: Time) -> bool {
        self.sent == ALARM_PROBES && self.verdict <= now
    }

    /// When a probe or the verdict is due.
    pub(super) fn deadline(&self) -> Time {
        if self.sent < ALARM_PROBES { self.next } else { self.verdict }
    }
}
