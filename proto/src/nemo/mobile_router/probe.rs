//! Path probes: one echo request to the home agent each interval, with damping (no RFC; the parameters are the
//! operator's, [`ProbeConfig`]).

use super::path_quality::{PathQuality, QualityLimits};
use super::suspicion::Alarm;
use crate::base::time::Time;
use crate::contract::config::nemo as config;
use core::time::Duration;
use roam6_wire::Bid;

/// Maximum consecutive answers that damping requires.
const MAX_UP_AFTER: u32 = 1024;
/// Consecutive answers that reset damping.
const DAMPING_RESET: u32 = 300;
/// After a probe whose answer is overdue: further probes, by their number in an interval, and for how long.
const BURST_RATE: u32 = 4;
/// Answers after which a path may be probed rarely.
const KNOWN_AFTER: usize = 8;
const BURST_TIME: Duration = Duration::from_secs(1);
/// The first answer of an encrypted path takes two round trips, that of the handshake included: so many timeouts.
const SESSION_TIMEOUTS: u32 = 3;

/// The state of one uplink's path to the home agent; a new one counts as up.
#[derive(Debug, Default, Clone)]
pub struct Prober {
    next_at: Option<Time>,
    sequence: u16,
    missed: u32,
    answered: u32,
    up_after: u32,
    silent: bool,
    /// When the path went down.
    silent_since: Option<Time>,
    /// It was down when probing ended or restarted: the home agent may have lost its binding.
    was_silent: bool,
    /// The time of the last probe, and the interval.
    last_sent: Time,
    interval: Duration,
    round_trip: Option<Duration>,
    /// The interval of probes if it is not the usual one: a longer one as long as they are answered, or any of a silent path.
    pace: Option<Duration>,
    /// When a probe was last answered.
    last_answer: Option<Time>,
    /// What the answers say about the path.
    pub quality: PathQuality,
    /// When the next probe of a burst is due, or a burst may begin.
    burst_at: Option<Time>,
    burst_until: Option<Time>,
    /// The path is under suspicion.
    alarm: Option<Alarm>,
    /// The timeout of the first answer through the session, which the handshake delays.
    session_until: Option<Time>,
}

/// A probe to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The uplink.
    pub bid: Bid,
    /// The sequence number.
    pub sequence: u16,
    /// It belongs to a burst: whether it is answered says something about the quality of the path only.
    pub in_burst: bool,
}

/// A change of the path's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChange {
    /// The path went down.
    Down,
    /// The path came up.
    Up,
}

impl Prober {
    /// Whether the path is down.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether a path that is down has begun to answer.
    pub fn is_recovering(&self) -> bool {
        self.silent && self.answered > 0
    }

    /// Answers since the path went down, while it is down.
    pub fn recovery(&self) -> u32 {
        if self.silent { self.answered } else { 0 }
    }

    /// Whether the path is up and at least one probe was answered since the last change.
    pub fn is_answered(&self) -> bool {
        !self.silent && self.answered > 0
    }

    /// Whether only the last probe is unanswered.
    pub fn has_missed_one(&self) -> bool {
        self.missed == 1
    }

    /// Whether the path may have failed: a probe is overdue.
    pub fn is_troubled(&self) -> bool {
        self.missed > 1 || self.silent || self.burst_until.is_some()
    }

    /// Whether enough probes were answered to judge the path by.
    pub fn is_known(&self) -> bool {
        self.quality.answered() >= KNOWN_AFTER
    }

    /// Number of unanswered probes, the last included.
    pub fn missed(&self) -> u32 {
        self.missed
    }

    /// Since when the path has been down.
    pub fn silent_since(&self) -> Option<Time> {
        self.silent_since.filter(|_| self.silent)
    }

    /// When a probe was last answered, since the last restart.
    pub fn last_answer(&self) -> Option<Time> {
        self.last_answer
    }

    /// The recent maximum of the round trip.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Whether the path was down when probing restarted; reset by the call.
    pub fn take_was_silent(&mut self) -> bool {
        core::mem::take(&mut self.was_silent)
    }

    /// Restarts, as after a handover: the first probe is due at once.
    pub fn restart(&mut self, now: Time) {
        let doubted = self.was_silent || self.silent;
        let (needed, sequence) = (self.up_after, self.sequence);
        let mut quality = core::mem::take(&mut self.quality);
        quality.restart(now);
        *self = Prober {
            next_at: Some(now),
            up_after: needed,
            sequence,
            was_silent: doubted,
            quality,
            ..Prober::default()
        };
    }

    /// Stops probing.
    pub fn stop(&mut self) {
        self.was_silent |= self.silent;
        self.next_at = None;
        (self.burst_at, self.alarm) = (None, None);
        self.silent = false;
    }

    /// Waits for the session of an encrypted path whose care-of address has been registered: the next probe is due at once, and its
    /// answer confirms the path. Until the answer or the timeout, a late answer neither takes the path down nor counts as a loss.
    pub fn await_session(&mut self, now: Time) {
        self.next_at = self.next_at.map(|_| now);
        self.last_answer = None;
        (self.alarm, self.burst_at, self.burst_until) = (None, None, None);
        self.session_until = Some(now + self.quality.timeout() * SESSION_TIMEOUTS);
    }

    /// Whether the path waits for its session, and the timeout has not passed.
    pub fn awaits_session(&self, now: Time) -> bool {
        self.session_until.is_some_and(|until| now < until)
    }

    /// Tests the path at once, unless it is down. `queue`: by how much the round trip may exceed the shortest one.
    pub fn raise_alarm(&mut self, now: Time, queue: Duration) {
        if self.next_at.is_some() && !self.silent && self.alarm.is_none() && !self.awaits_session(now) {
            self.alarm = Some(Alarm::raise(now, self.quality.timeout_behind(queue)));
        }
    }

    /// Whether the path is tested because of a suspicion.
    pub fn is_alarmed(&self) -> bool {
        self.alarm.is_some()
    }

    /// Something came by the path.
    pub fn end_alarm(&mut self, received: Time) {
        self.alarm.take_if(|alarm| alarm.is_ended_by(received));
    }

    /// The sequence number of the probe of a test to send now, if one is due.
    pub fn next_alarm_probe(&mut self, now: Time) -> Option<u16> {
        if !self.alarm.as_mut()?.take_probe(now) {
            return None;
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.quality.record_sent(now, self.sequence);
        Some(self.sequence)
    }

    /// The change caused by a test that has failed.
    pub fn judge_alarm(&mut self, now: Time, probe: config::ProbeConfig, limits: QualityLimits) -> Option<PathChange> {
        self.alarm.take_if(|alarm| alarm.has_failed(now))?;
        self.receive_silence(now, probe, limits)
    }

    /// The sequence number of a probe beside the others, whose absence means nothing.
    pub fn extra_probe(&mut self, now: Time) -> Option<u16> {
        self.next_at?;
        self.sequence = self.sequence.wrapping_add(1);
        self.quality.record_sent(now, self.sequence);
        Some(self.sequence)
    }

    fn receive_silence(&mut self, now: Time, probe: config::ProbeConfig, limits: QualityLimits) -> Option<PathChange> {
        self.answered = 0;
        if self.silent {
            return None;
        }
        self.silent = true;
        self.silent_since = Some(now);
        self.up_after = if self.up_after == 0 { probe.up_after } else { self.up_after * 2 }.min(MAX_UP_AFTER);
        self.quality.receive_silence(now, limits);
        Some(PathChange::Down)
    }

    /// When the next probe is due.
    pub fn deadline(&self) -> Option<Time> {
        let alarm = self.alarm.map(|alarm| alarm.deadline());
        self.next_at.map(|next| self.burst_at.into_iter().chain(alarm).fold(next, Time::min))
    }

    /// Whether the path is probed rarely now.
    pub fn is_slow(&self) -> bool {
        self.pace.is_some_and(|pace| pace > self.interval)
    }

    /// Whether the interval of probes is not the usual one.
    pub fn has_pace(&self) -> bool {
        self.pace.is_some()
    }

    /// Sets the interval of probes as long as they are answered, or of those of a silent path; a probe that is not answered
    /// is followed by others at the usual interval in any case.
    pub fn set_pace(&mut self, now: Time, usual: Duration, pace: Duration) {
        let pace = Some(pace).filter(|pace| *pace != usual);
        self.interval = usual;
        if self.pace == pace {
            return;
        }
        let (before, after) = (self.pace.unwrap_or(usual), pace.unwrap_or(usual));
        self.pace = pace;
        if let Some(next) = self.next_at.filter(|_| after < before) {
            self.next_at = Some(next.min(self.last_sent + after).max(now));
        }
        if before > usual && after <= usual {
            self.quality.judge_from(now);
        }
    }

    /// Sends the next probe now if probes are far apart: the path may have failed.
    pub fn hurry(&mut self, now: Time) {
        if self.is_slow() && !self.silent {
            self.next_at = self.next_at.map(|next| next.min(now));
        }
    }

    /// The sequence number of the probe of a burst to send now, if one is due: after a probe whose answer is overdue,
    /// which is soon enough to tell a path that loses much from one that lost one packet.
    pub fn next_burst_probe(&mut self, now: Time, probe: config::ProbeConfig) -> Option<u16> {
        if !probe.burst
            || self.is_slow()
            || self.next_at.is_none()
            || self.silent
            || self.quality.degradation().is_some()
            || self.awaits_session(now)
        {
            // What was lost until now begins no burst later.
            self.quality.notice_overdue(now);
            (self.burst_at, self.burst_until) = (None, None);
            return None;
        }
        self.burst_at.filter(|burst| *burst <= now)?;
        if self.quality.notice_overdue(now) {
            self.burst_until = Some(now + BURST_TIME);
        }
        if self.burst_until.take_if(|until| *until <= now).is_some() || self.burst_until.is_none() {
            self.burst_at = self.quality.next_overdue();
            return None;
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.quality.record_sent(now, self.sequence);
        self.burst_at = Some(now + probe.interval / BURST_RATE);
        Some(self.sequence)
    }

    /// The sequence number of the probe to send now, if one is due, and the change caused by missing answers.
    pub fn next_probe(
        &mut self,
        now: Time,
        probe: config::ProbeConfig,
        limits: QualityLimits,
    ) -> Option<(u16, Option<PathChange>)> {
        self.next_at.filter(|next| *next <= now)?;
        let is_silent = self.missed >= probe.down_after && !self.awaits_session(now);
        let change = if is_silent { self.receive_silence(now, probe, limits) } else { None };
        self.missed = self.missed.saturating_add(1);
        self.sequence = self.sequence.wrapping_add(1);
        // On a path that slept a while, the first answer takes longer.
        let patience = match self.pace {
            Some(pace) if self.silent => pace,
            Some(slow) => self.quality.timeout().max(probe.interval).min(slow),
            None => probe.interval,
        };
        self.next_at = Some(now + patience);
        (self.last_sent, self.interval) = (now, probe.interval);
        self.quality.record_sent(now, self.sequence);
        if probe.burst && self.burst_at.is_none() {
            self.burst_at = self.quality.next_overdue();
        }
        Some((self.sequence, change))
    }

    /// Processes the answer to the probe with this sequence number.
    pub fn receive_reply(&mut self, now: Time, sequence: u16) -> Option<PathChange> {
        // An answer to none of the recent probes is ignored.
        let behind = self.sequence.wrapping_sub(sequence);
        if self.next_at.is_none() || behind > 64 {
            return None;
        }
        self.last_answer = Some(now);
        if self.session_until.take().is_some() {
            self.quality.judge_from(now);
        }
        let measured = self.quality.record_answer(now, sequence);
        if let Some(burst) = self.burst_at.filter(|_| self.burst_until.is_none()) {
            // Nothing to do for an answer that came in time.
            self.burst_at = self.quality.next_overdue().map(|overdue| overdue.max(burst));
        }
        self.alarm = None;
        if self.missed == 0 {
            return None;
        }
        self.missed = 0;
        if let Some(pace) = self.pace.filter(|_| !self.silent && self.is_slow()) {
            self.next_at = Some((self.last_sent + pace).max(now));
        }
        let round_trip = measured.unwrap_or_else(|| now.since(self.last_sent) + self.interval * u32::from(behind));
        self.round_trip = Some(self.round_trip.map_or(round_trip, |known| round_trip.max(known - known / 8)));
        self.answered = self.answered.saturating_add(1);
        if !self.silent && self.answered >= DAMPING_RESET {
            self.up_after = 0;
        }
        if self.silent && self.answered >= self.up_after {
            self.silent = false;
            self.answered = 0;
            return Some(PathChange::Up);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: config::ProbeConfig = config::ProbeConfig {
        interval: Duration::from_millis(200),
        down_after: 3,
        up_after: 5,
        burst: false,
        idle: None,
        standby: None,
    };
    const LIMITS: QualityLimits = QualityLimits { max_rtt: None, max_loss: None };

    /// Runs `answered` intervals with an answer and then counts those until the path is dead.
    fn intervals_until(prober: &mut Prober, now: &mut Time, answers: bool, change: PathChange) -> u32 {
        for count in 1..10_000 {
            let (sequence, silence) = prober.next_probe(*now, PROBE, LIMITS).unwrap();
            *now = prober.deadline().unwrap();
            let answer = if answers { prober.receive_reply(*now, sequence) } else { None };
            if silence.or(answer) == Some(change) {
                return count;
            }
        }
        panic!("never {change:?}");
    }

    #[test]
    fn path_is_down_after_three_probes_and_up_after_five_then_ten() {
        let mut prober = Prober::default();
        let mut now = Time::ZERO;
        prober.restart(now);
        assert_eq!(intervals_until(&mut prober, &mut now, false, PathChange::Down), 4);
        assert_eq!(intervals_until(&mut prober, &mut now, true, PathChange::Up), 5);
        assert_eq!(intervals_until(&mut prober, &mut now, false, PathChange::Down), 4);
        assert_eq!(intervals_until(&mut prober, &mut now, true, PathChange::Up), 10);
    }

    #[test]
    fn burst_needs_no_timer_while_probes_are_answered() {
        let probe = config::ProbeConfig { burst: true, ..PROBE };
        let mut prober = Prober::default();
        prober.restart(Time::ZERO);
        for number in 0..10 {
            let now = Time::from_micros(number * 200_000);
            let (sequence, _) = prober.next_probe(now, probe, LIMITS).unwrap();
            prober.receive_reply(now + Duration::from_millis(20), sequence);
            assert_eq!(prober.deadline(), Some(now + probe.interval), "the next probe");
        }
        prober.next_probe(Time::from_micros(2_000_000), probe, LIMITS).unwrap();
        let overdue = prober.deadline().unwrap();
        assert!(overdue < Time::from_micros(2_200_000), "{overdue}");
        assert!(prober.next_burst_probe(overdue, probe).is_some());
    }

    #[test]
    fn late_probe_reply_counts_and_stray_one_does_not() {
        let mut prober = Prober::default();
        prober.restart(Time::ZERO);
        let (first, _) = prober.next_probe(Time::ZERO, PROBE, LIMITS).unwrap();
        prober.next_probe(Time::from_micros(200_000), PROBE, LIMITS).unwrap();
        prober.next_probe(Time::from_micros(400_000), PROBE, LIMITS).unwrap();
        let now = Time::from_micros(450_000);
        assert_eq!(prober.receive_reply(now, first.wrapping_sub(100)), None);
        assert_eq!(prober.missed, 3);
        prober.receive_reply(now, first);
        assert_eq!(prober.round_trip(), Some(Duration::from_millis(450)));
        assert_eq!(prober.missed, 0);
    }
}
