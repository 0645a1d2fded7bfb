//! Whether a path still carries packets: one echo to the home agent each interval, with damping (no RFC; the numbers are
//! the operator's, [`config::Probe`]).

use crate::base::time::Time;
use crate::contract::config::nemo as config;
use core::time::Duration;
use roam6_wire::Bid;

/// No relapse makes a path wait for more answers than this before it is trusted again.
const MAX_UP_AFTER: u32 = 1024;
/// After this many answers in a row on a live path, earlier relapses are forgiven.
const DAMPING_RESET: u32 = 300;

/// The health of one uplink's path to the home agent; a new one is believed alive.
#[derive(Debug, Default, Clone)]
pub struct Prober {
    next_at: Option<Time>,
    sequence: u16,
    missed: u32,
    answered: u32,
    up_after: u32,
    silent: bool,
    /// When the path was given up as dead.
    silent_since: Option<Time>,
    /// It was dead when probing ended or began anew: what the home agent held by it may be gone.
    was_silent: bool,
    /// When the last probe left, and the time between probes.
    last_sent: Time,
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
pub enum PathChange {
    /// The path is dead.
    Down,
    /// The path is alive again.
    Up,
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
    pub fn take_was_silent(&mut self) -> bool {
        core::mem::take(&mut self.was_silent)
    }

    /// Begins anew, as after a move: the first probe is due at once.
    pub fn restart(&mut self, now: Time) {
        let doubted = self.was_silent || self.silent;
        let (needed, sequence) = (self.up_after, self.sequence);
        *self = Prober { next_at: Some(now), up_after: needed, sequence, was_silent: doubted, ..Prober::default() };
    }

    /// Sends no more.
    pub fn stop(&mut self) {
        self.was_silent |= self.silent;
        self.next_at = None;
        self.silent = false;
    }

    /// When the next probe is due.
    pub fn deadline(&self) -> Option<Time> {
        self.next_at
    }

    /// The sequence number of the probe to send now, if one is due, and what the silence since the last one means.
    pub fn next_probe(&mut self, now: Time, probe: config::ProbeConfig) -> Option<(u16, Option<PathChange>)> {
        self.next_at.filter(|next| *next <= now)?;
        let mut change = None;
        if self.missed >= probe.down_after {
            self.answered = 0;
            if !self.silent {
                self.silent = true;
                self.silent_since = Some(now);
                self.up_after = if self.up_after == 0 { probe.up_after } else { self.up_after * 2 }.min(MAX_UP_AFTER);
                change = Some(PathChange::Down);
            }
        }
        self.missed = self.missed.saturating_add(1);
        self.sequence = self.sequence.wrapping_add(1);
        self.next_at = Some(now + probe.interval);
        (self.last_sent, self.interval) = (now, probe.interval);
        Some((self.sequence, change))
    }

    /// Takes the answer to probe number `sequence`.
    pub fn receive_reply(&mut self, now: Time, sequence: u16) -> Option<PathChange> {
        // An answer to none of the probes of the last while proves nothing.
        let behind = self.sequence.wrapping_sub(sequence);
        if self.next_at.is_none() || behind > 64 || self.missed == 0 {
            return None;
        }
        self.missed = 0;
        let round_trip = now.since(self.last_sent) + self.interval * u32::from(behind);
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

    const PROBE: config::ProbeConfig =
        config::ProbeConfig { interval: Duration::from_millis(200), down_after: 3, up_after: 5 };

    /// Runs `answered` intervals with an answer and then counts those until the path is dead.
    fn intervals_until(prober: &mut Prober, now: &mut Time, answers: bool, change: PathChange) -> u32 {
        for count in 1..10_000 {
            let (sequence, silence) = prober.next_probe(*now, PROBE).unwrap();
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
    fn late_probe_reply_counts_and_stray_one_does_not() {
        let mut prober = Prober::default();
        prober.restart(Time::ZERO);
        let (first, _) = prober.next_probe(Time::ZERO, PROBE).unwrap();
        prober.next_probe(Time::from_micros(200_000), PROBE).unwrap();
        prober.next_probe(Time::from_micros(400_000), PROBE).unwrap();
        let now = Time::from_micros(450_000);
        assert_eq!(prober.receive_reply(now, first.wrapping_sub(100)), None);
        assert_eq!(prober.missed, 3);
        prober.receive_reply(now, first);
        assert_eq!(prober.round_trip(), Some(Duration::from_millis(450)));
        assert_eq!(prober.missed, 0);
    }
}
