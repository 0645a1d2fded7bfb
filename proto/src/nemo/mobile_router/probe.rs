//! Whether a path still carries packets: one echo to the home agent each interval, with damping (no RFC; the numbers are
//! the operator's, [`config::Probe`]).

use crate::base::time::Time;
use crate::contract::config::nemo as config;
use core::time::Duration;
use roam6_wire::Bid;

/// No relapse makes a path wait for more answers than this before it is trusted again.
const MAX_RECOVERED: u32 = 1024;
/// After this many answers in a row on a live path, earlier relapses are forgiven.
const FORGIVEN: u32 = 300;

/// The health of one uplink's path to the home agent; a new one is believed alive.
#[derive(Debug, Default, Clone)]
pub struct Prober {
    next: Option<Time>,
    sequence: u16,
    missed: u32,
    answered: u32,
    needed: u32,
    silent: bool,
    /// When the path was given up as dead.
    silent_since: Option<Time>,
    /// It was dead when probing ended or began anew: what the home agent held by it may be gone.
    doubted: bool,
    /// When the last probe left, and the time between probes.
    asked: Time,
    interval: Duration,
    round_trip: Option<Duration>,
}

/// A probe to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// By which uplink.
    pub bid: Bid,
    /// Its number.
    pub sequence: u16,
}

/// What an interval or an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The path is dead.
    Silent,
    /// The path is alive again.
    Answers,
}

impl Prober {
    /// Whether the path is believed dead.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether a path believed dead has begun to answer again.
    pub fn is_recovering(&self) -> bool {
        self.silent && self.answered > 0
    }

    /// Whether the path is alive and at least one probe was answered since the last change.
    pub fn is_answered(&self) -> bool {
        !self.silent && self.answered > 0
    }

    /// Whether the last probe, and none before it, is unanswered.
    pub fn has_missed_one(&self) -> bool {
        self.missed == 1
    }

    /// Probes without an answer, the last included.
    pub fn missed(&self) -> u32 {
        self.missed
    }

    /// Since when the path has been believed dead.
    pub fn silent_since(&self) -> Option<Time> {
        self.silent_since.filter(|_| self.silent)
    }

    /// The longest round trip of late.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Whether the path was believed dead when probing began anew; asked once.
    pub fn take_doubt(&mut self) -> bool {
        core::mem::take(&mut self.doubted)
    }

    /// Begins anew, as after a move: the first probe is due at once.
    pub fn restart(&mut self, now: Time) {
        let doubted = self.doubted || self.silent;
        let (needed, sequence) = (self.needed, self.sequence);
        *self = Prober { next: Some(now), needed, sequence, doubted, ..Prober::default() };
    }

    /// Sends no more.
    pub fn stop(&mut self) {
        self.doubted |= self.silent;
        self.next = None;
        self.silent = false;
    }

    /// When the next probe is due.
    pub fn deadline(&self) -> Option<Time> {
        self.next
    }

    /// The sequence number of the probe to send now, if one is due, and what the silence since the last one means.
    pub fn expire(&mut self, now: Time, probe: config::ProbeConfig) -> Option<(u16, Option<Change>)> {
        self.next.filter(|next| *next <= now)?;
        let mut change = None;
        if self.missed >= probe.down_after {
            self.answered = 0;
            if !self.silent {
                self.silent = true;
                self.silent_since = Some(now);
                self.needed = if self.needed == 0 { probe.up_after } else { self.needed * 2 }.min(MAX_RECOVERED);
                change = Some(Change::Silent);
            }
        }
        self.missed = self.missed.saturating_add(1);
        self.sequence = self.sequence.wrapping_add(1);
        self.next = Some(now + probe.interval);
        (self.asked, self.interval) = (now, probe.interval);
        Some((self.sequence, change))
    }

    /// Takes the answer to probe number `sequence`.
    pub fn answer(&mut self, now: Time, sequence: u16) -> Option<Change> {
        // An answer to none of the probes of the last while proves nothing.
        let behind = self.sequence.wrapping_sub(sequence);
        if self.next.is_none() || behind > 64 || self.missed == 0 {
            return None;
        }
        self.missed = 0;
        let round_trip = now.since(self.asked) + self.interval * u32::from(behind);
        self.round_trip = Some(self.round_trip.map_or(round_trip, |known| round_trip.max(known - known / 8)));
        self.answered = self.answered.saturating_add(1);
        if !self.silent && self.answered >= FORGIVEN {
            self.needed = 0;
        }
        if self.silent && self.answered >= self.needed {
            self.silent = false;
            self.answered = 0;
            return Some(Change::Answers);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: config::ProbeConfig = config::ProbeConfig { interval: Duration::from_millis(200), down_after: 3, up_after: 5 };

    /// Runs `answered` intervals with an answer and then counts those until the path is dead.
    fn intervals_until(prober: &mut Prober, now: &mut Time, answers: bool, change: Change) -> u32 {
        for count in 1..10_000 {
            let (sequence, silence) = prober.expire(*now, PROBE).unwrap();
            *now = prober.deadline().unwrap();
            let answer = if answers { prober.answer(*now, sequence) } else { None };
            if silence.or(answer) == Some(change) {
                return count;
            }
        }
        panic!("never {change:?}");
    }

    #[test]
    fn dead_after_three_lost_alive_after_five_answers_then_ten() {
        let mut prober = Prober::default();
        let mut now = Time::ZERO;
        prober.restart(now);
        assert_eq!(intervals_until(&mut prober, &mut now, false, Change::Silent), 4);
        assert_eq!(intervals_until(&mut prober, &mut now, true, Change::Answers), 5);
        assert_eq!(intervals_until(&mut prober, &mut now, false, Change::Silent), 4);
        assert_eq!(intervals_until(&mut prober, &mut now, true, Change::Answers), 10);
    }

    #[test]
    fn a_late_answer_still_counts_and_a_stray_one_does_not() {
        let mut prober = Prober::default();
        prober.restart(Time::ZERO);
        let (first, _) = prober.expire(Time::ZERO, PROBE).unwrap();
        prober.expire(Time::from_micros(200_000), PROBE).unwrap();
        prober.expire(Time::from_micros(400_000), PROBE).unwrap();
        let now = Time::from_micros(450_000);
        assert_eq!(prober.answer(now, first.wrapping_sub(100)), None);
        assert_eq!(prober.missed, 3);
        prober.answer(now, first);
        assert_eq!(prober.round_trip(), Some(Duration::from_millis(450)));
        assert_eq!(prober.missed, 0);
    }
}
