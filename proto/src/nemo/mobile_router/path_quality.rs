//! The quality of a path, measured by probes: round trip and its variation (RFC 6298 §2), loss, and when a path is too
//! bad to be used while another one is better. A state machine without packets.
//!
//! A path that is left is used again only after it has been good for a while, and for longer each time (hysteresis): one
//! that comes and goes moves traffic twice and then stays the last choice.

use crate::base::time::Time;
use crate::contract::config::nemo::UplinkConfig;
use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

/// Probes of which the loss is computed.
const WINDOW: usize = 32;
/// Parts of the window in which loss counts, and by how much more than the limit: few probes prove only heavy loss.
/// In tenths.
const LOSS_WINDOWS: [(usize, u32); 3] = [(8, 20), (16, 15), (WINDOW, 10)];
/// Answers and time that a judgement of the round trip needs.
const ROUND_TRIP_SAMPLES: usize = 5;
const ROUND_TRIP_TIME: Duration = Duration::from_secs(1);
/// A round trip that is so much longer than the shortest one known shows a full queue: by a factor, and by a time.
const QUEUE_FACTOR: u32 = 4;
const QUEUE_DELAY: Duration = Duration::from_millis(300);
/// How long the shortest round trip is known, in two halves.
const MINIMUM_AGE: Duration = Duration::from_secs(300);
/// RFC 6298 §2.1: the timeout while no round trip is known; and its bounds.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const MIN_TIMEOUT: Duration = Duration::from_millis(50);
const MIN_VARIATION: Duration = Duration::from_millis(20);
/// Part of the limits below which a path that was left is good again, in tenths.
const GOOD_TENTHS: u32 = 7;
/// How long it has to be good, by the number of times that it was left within [`FLAPPING_TIME`].
const HOLD_TIMES: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(600)];
/// Probes of a degraded path in that time.
const HOLD_PROBES: u32 = 64;
const FLAPPING_TIME: Duration = Duration::from_secs(600);

/// The limits of a path; without any it is never left because of its quality.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct QualityLimits {
    /// Of the round trip.
    pub max_rtt: Option<Duration>,
    /// Of the loss of probes, percent.
    pub max_loss: Option<u8>,
}

impl UplinkConfig {
    /// The limits of its path.
    pub(super) fn quality_limits(&self) -> QualityLimits {
        QualityLimits { max_rtt: self.max_rtt, max_loss: self.max_loss }
    }
}

impl QualityLimits {
    /// Whether there is a limit.
    pub fn is_limited(self) -> bool {
        self.max_rtt.is_some() || self.max_loss.is_some()
    }
}

/// Why a path is the last choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Degradation {
    /// So many of so many probes were lost.
    Loss {
        /// Lost ones.
        lost: usize,
        /// All.
        of: usize,
    },
    /// The round trip is longer than the limit.
    RoundTrip {
        /// The round trip.
        measured: Duration,
        /// The limit.
        limit: Duration,
    },
    /// It was silent, and has not answered for long enough.
    Silence,
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Degradation::Loss { lost, of } => write!(f, "{lost} of {of} probes lost"),
            Degradation::RoundTrip { measured, limit } => {
                write!(f, "round trip {} ms, more than {} ms", measured.as_millis(), limit.as_millis())
            }
            Degradation::Silence => f.write_str("probes lost"),
        }
    }
}

/// A change of the judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QualityChange {
    /// The path is the last choice from now on.
    Degraded(Degradation),
    /// It is as good as others again.
    Restored,
}

/// A probe that was sent.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sequence: u16,
    sent: Time,
    round_trip: Option<Duration>,
}

/// What is known about a path.
#[derive(Debug, Default, Clone)]
pub struct PathQuality {
    /// The last probes, the latest last.
    samples: VecDeque<Sample>,
    smoothed: Option<Duration>,
    variation: Duration,
    /// The shortest round trips of this and of the former half of [`MINIMUM_AGE`], and when this one began.
    shortest: (Option<Duration>, Option<Duration>),
    shortest_since: Time,
    degraded: Option<Degradation>,
    /// Only probes sent since the last change count.
    judged_from: Time,
    /// Since when a path that was left has been good.
    good_since: Option<Time>,
    /// When it was left, the latest last.
    left: VecDeque<Time>,
    /// When the last probe was sent of which it was noticed that the answer is overdue.
    noticed: Option<Time>,
}

impl PathQuality {
    /// The smoothed round trip (SRTT of RFC 6298), if one is known.
    pub fn round_trip(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The variation of the round trip (RTTVAR of RFC 6298).
    pub fn jitter(&self) -> Duration {
        self.variation
    }

    /// The last probes that were answered or lost, and how many of them were lost.
    pub fn loss(&self, now: Time) -> (usize, usize) {
        self.count_lost(now, Time::ZERO, WINDOW)
    }

    /// How many of the last probes were answered.
    pub fn answered(&self) -> usize {
        self.samples.iter().filter(|sample| sample.round_trip.is_some()).count()
    }

    /// Why the path is the last choice; `None` if it is not.
    pub fn degradation(&self) -> Option<Degradation> {
        self.degraded
    }

    /// When the judgement last changed.
    pub fn changed(&self) -> Time {
        self.judged_from
    }

    /// Time after which a probe without an answer is suspicious (RTO of RFC 6298).
    pub fn timeout(&self) -> Duration {
        let measured = self.smoothed.map(|smoothed| smoothed + (self.variation * 4).max(MIN_VARIATION));
        measured.map_or(INITIAL_TIMEOUT, |timeout| timeout.clamp(MIN_TIMEOUT, INITIAL_TIMEOUT * 60))
    }

    /// The same where probes may wait in a queue of this length.
    pub fn timeout_behind(&self, queue: Duration) -> Duration {
        self.shortest().map_or(Duration::ZERO, |shortest| shortest + queue).max(self.timeout())
    }

    /// Forgets the measurements, as for another network. How often the uplink was left stays known.
    pub fn restart(&mut self, now: Time) {
        let left = core::mem::take(&mut self.left);
        *self = PathQuality { left, judged_from: now, shortest_since: now, ..PathQuality::default() };
    }

    /// Only probes from now on count in the judgement: before, the path was probed too rarely.
    pub fn judge_from(&mut self, now: Time) {
        if self.degraded.is_none() {
            self.judged_from = now;
        }
    }

    /// How often to probe the path while it is degraded.
    pub fn degraded_interval(&self) -> Option<Duration> {
        self.degraded.map(|_| self.hold_time() / HOLD_PROBES)
    }

    /// A probe is sent.
    pub fn record_sent(&mut self, now: Time, sequence: u16) {
        if self.samples.len() >= WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { sequence, sent: now, round_trip: None });
    }

    /// A probe was answered: its round trip, if it was one of the last and was not answered before.
    pub fn record_answer(&mut self, now: Time, sequence: u16) -> Option<Duration> {
        let sample = self.samples.iter_mut().rev().find(|sample| sample.sequence == sequence)?;
        if sample.round_trip.is_some() {
            return None;
        }
        let measured = now.since(sample.sent);
        sample.round_trip = Some(measured);
        match self.smoothed {
            None => {
                (self.smoothed, self.variation) = (Some(measured), measured / 2);
                // Probes before the first answer show that the path was not there yet, not that it loses packets.
                self.judged_from = self.judged_from.max(now - measured);
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(measured)) / 4;
                self.smoothed = Some((smoothed * 7 + measured) / 8);
            }
        }
        if now.since(self.shortest_since) >= MINIMUM_AGE {
            self.shortest = (None, self.shortest.0);
            self.shortest_since = now;
        }
        self.shortest.0 = Some(self.shortest.0.map_or(measured, |shortest| shortest.min(measured)));
        Some(measured)
    }

    /// When the answer to a probe will be overdue.
    pub fn next_overdue(&self) -> Option<Time> {
        self.unanswered().next().map(|sent| sent + self.timeout())
    }

    /// Whether the answer to another probe is overdue; each one is noticed once.
    pub fn notice_overdue(&mut self, now: Time) -> bool {
        let timeout = self.timeout();
        let Some(sent) = self.unanswered().take_while(|sent| *sent + timeout <= now).last() else { return false };
        self.noticed = Some(sent);
        true
    }

    /// When the probes without an answer were sent of which it was not noticed yet.
    fn unanswered(&self) -> impl Iterator<Item = Time> {
        let open = self.samples.iter().filter(|sample| sample.round_trip.is_none() && Some(sample.sent) > self.noticed);
        open.map(|sample| sample.sent)
    }

    /// The path went down because no probe is answered.
    pub fn receive_silence(&mut self, now: Time, limits: QualityLimits) {
        self.good_since = None;
        if limits.is_limited() {
            match self.degraded {
                Some(_) => self.degraded = Some(Degradation::Silence),
                // It was never used: the first probes of a new network may go before its router resolves the address.
                None if self.smoothed.is_none() => {}
                None => self.leave(now, Degradation::Silence),
            }
        }
    }

    /// Judges the path; called after each probe and answer. `silent`: it is down.
    pub fn judge(&mut self, now: Time, limits: QualityLimits, silent: bool) -> Option<QualityChange> {
        if !limits.is_limited() {
            return self.degraded.take().map(|_| QualityChange::Restored);
        }
        if self.degraded.is_none() {
            let found = self.degradation_by(now, limits, 10).filter(|_| !silent)?;
            self.leave(now, found);
            return Some(QualityChange::Degraded(found));
        }
        if silent || self.degradation_by(now, limits, GOOD_TENTHS).is_some() {
            self.good_since = None;
            return self.replace_silence(now, limits, silent);
        }
        let since = *self.good_since.get_or_insert(now);
        if now.since(since) < self.hold_time() {
            return None;
        }
        self.degraded = None;
        (self.judged_from, self.good_since) = (now, None);
        Some(QualityChange::Restored)
    }

    /// A path that was silent answers again, and is bad: from now on that is the reason why it is the last choice.
    fn replace_silence(&mut self, now: Time, limits: QualityLimits, silent: bool) -> Option<QualityChange> {
        let was_silent = self.degraded == Some(Degradation::Silence) && !silent;
        let found = self.degradation_by(now, limits, 10).filter(|_| was_silent)?;
        self.degraded = Some(found);
        Some(QualityChange::Degraded(found))
    }

    /// How long the path has to be good before it is used again.
    pub fn hold_time(&self) -> Duration {
        let last = HOLD_TIMES.len() - 1;
        HOLD_TIMES.get(self.left.len().saturating_sub(1).min(last)).copied().unwrap_or(FLAPPING_TIME)
    }

    /// When the path will be used as before, if it was left and is good again, as enough probes since then show.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        let since = self.good_since.filter(|_| self.degraded.is_some())?;
        let [(window, _), ..] = LOSS_WINDOWS;
        let (of, _) = self.count_lost(now, self.judged_from, window);
        (of == window).then(|| since + self.hold_time())
    }

    /// Whether a path that was left keeps its limits, but not for long enough yet: one that was silent answers, and of one with
    /// loss or delay enough probes were good.
    pub fn is_recovering(&self, now: Time) -> bool {
        match self.degraded {
            Some(Degradation::Silence) => self.good_since.is_some(),
            _ => self.held_until(now).is_some(),
        }
    }

    fn leave(&mut self, now: Time, why: Degradation) {
        self.left.retain(|left| now.since(*left) < FLAPPING_TIME);
        if self.left.len() >= HOLD_TIMES.len() {
            self.left.pop_front();
        }
        self.left.push_back(now);
        (self.degraded, self.judged_from, self.good_since) = (Some(why), now, None);
    }

    /// What exceeds so many tenths of a limit.
    fn degradation_by(&self, now: Time, limits: QualityLimits, tenths: u32) -> Option<Degradation> {
        let by_loss = limits.max_loss.and_then(|limit| self.heavy_loss(now, u32::from(limit) * tenths));
        by_loss.or_else(|| {
            let limit = self.round_trip_limit(limits.max_rtt?, tenths);
            let measured = self.median_round_trip(now).filter(|measured| *measured > limit)?;
            Some(Degradation::RoundTrip { measured, limit })
        })
    }

    /// The loss, if it exceeds `limit` (tenths of a percent).
    fn heavy_loss(&self, now: Time, limit: u32) -> Option<Degradation> {
        LOSS_WINDOWS.iter().find_map(|(window, factor)| {
            let (of, lost) = self.count_lost(now, self.judged_from, *window);
            let share = u32::try_from(lost * 10_000).unwrap_or(u32::MAX);
            let exceeds = share > u32::try_from(of).unwrap_or(0).saturating_mul(limit).saturating_mul(*factor);
            (of == *window && exceeds).then_some(Degradation::Loss { lost, of })
        })
    }

    /// The last `window` probes sent since `since` that were answered or lost, and how many of them were lost.
    ///
    /// A probe is lost if a later one was answered and its own answer is overdue, or if no answer came in the time that
    /// a full queue may take.
    fn count_lost(&self, now: Time, since: Time, window: usize) -> (usize, usize) {
        let timeout = self.timeout();
        let patience = timeout.max(self.shortest().map_or(INITIAL_TIMEOUT, |shortest| shortest + QUEUE_DELAY));
        let (mut of, mut lost, mut overtaken) = (0, 0, false);
        for sample in self.samples.iter().rev().take_while(|sample| sample.sent >= since) {
            if of == window {
                break;
            }
            let age = now.since(sample.sent);
            match sample.round_trip {
                Some(_) => (of, overtaken) = (of + 1, true),
                None if age >= patience || overtaken && age >= timeout => (of, lost) = (of + 1, lost + 1),
                None => {}
            }
        }
        (of, lost)
    }

    /// The shortest round trip of the last minutes.
    fn shortest(&self) -> Option<Duration> {
        self.shortest.0.into_iter().chain(self.shortest.1).min()
    }

    /// The longest round trip that so many tenths of the limit allow; never less than half of the way from the shortest
    /// known one to the limit, which a path could not reach.
    fn round_trip_limit(&self, max_rtt: Duration, tenths: u32) -> Duration {
        let Some(shortest) = self.shortest() else { return max_rtt };
        let limit = max_rtt.min((shortest * QUEUE_FACTOR).max(shortest + QUEUE_DELAY));
        if tenths >= 10 { limit } else { (limit * tenths / 10).max((limit + shortest.min(limit)) / 2) }
    }

    /// The median of the round trips of the last second, and of five answers at least.
    fn median_round_trip(&self, now: Time) -> Option<Duration> {
        let mut measured = Vec::new();
        for sample in self.samples.iter().rev().take_while(|sample| sample.sent >= self.judged_from) {
            measured.extend(sample.round_trip);
            if measured.len() >= ROUND_TRIP_SAMPLES && now.since(sample.sent) >= ROUND_TRIP_TIME {
                measured.sort_unstable();
                return measured.get(measured.len() / 2).copied();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
