//! The ego position vector and the ITS clock of this station: EN 302 636-4-1 §8.2.

use super::geometry;
use crate::base::time::Time;
use crate::contract::input::{Clock, Fix};
use crate::contract::view::{PositionState, PositionView};
use core::time::Duration;
use roam6_wire::geo::{Coordinates, GeoAddress, LongPositionVector, Timestamp};

/// Milliseconds from 1970 to 2004 of UTC, and the leap seconds since then, which TAI counts.
const ITS_EPOCH_MILLIS: u64 = 1_072_915_200_000;
const LEAP_MILLIS: u64 = 5_000;
/// How long a moving station is extrapolated along its heading: receivers report a fix once a second.
const MAX_EXTRAPOLATION: Duration = Duration::from_millis(1_200);

/// The state of this station that the upper layers need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EgoState {
    /// Its position vector; the last known one without a fix.
    pub position: LongPositionVector,
    /// Accuracy of the place in metres, if the receiver reports one.
    pub position_accuracy: Option<u32>,
    /// Whether the receiver has a fix.
    pub has_fix: bool,
    /// ITS time: milliseconds of TAI since 2004.
    pub its_time: u64,
}

/// The ego position vector.
#[derive(Debug, Clone, Default)]
pub struct EgoPosition {
    /// Unix time in milliseconds when the node started.
    boot_unix_millis: u64,
    fix: Option<Fix>,
    /// When the receiver reported last.
    fix_time: Option<Time>,
    /// The last known place and its time, after the fix was lost.
    last_known: Option<(Coordinates, Time)>,
}

impl EgoPosition {
    /// Sets the wall clock.
    pub fn set_clock(&mut self, now: Time, clock: Clock) {
        self.boot_unix_millis = clock.unix_micros.saturating_sub(now.as_micros()) / 1000;
    }

    /// Sets the receiver's fix; `None` if it has lost it.
    pub fn set_fix(&mut self, now: Time, fix: Option<Fix>) {
        if let (None, Some(lost)) = (fix, self.fix) {
            self.last_known = Some((lost.place, now));
        }
        if fix.is_some() {
            self.fix_time = Some(now);
        }
        self.fix = fix;
    }

    /// The current place: the last fix, extrapolated by its speed and heading, or the last known place without a fix.
    pub fn place(&self, now: Time) -> Option<Coordinates> {
        let Some(Fix { place, speed, heading, .. }) = self.fix else { return self.last_known.map(|(place, _)| place) };
        let since = self.fix_time.map_or(Duration::ZERO, |fix_time| now.since(fix_time).min(MAX_EXTRAPOLATION));
        Some(geometry::extrapolate(place, speed, heading, since))
    }

    /// Whether the receiver has a fix.
    pub fn has_fix(&self) -> bool {
        self.fix.is_some()
    }

    /// The position vector to send at `now`; `None` before the first fix. `pai_interval` in metres.
    pub fn position(&self, now: Time, address: GeoAddress, pai_interval: u32) -> Option<LongPositionVector> {
        if let Some(fix) = self.fix {
            let accurate = fix.uncertainty.is_some_and(|metres| metres < pai_interval);
            let Fix { speed, heading, .. } = fix;
            let place = self.place(now)?;
            return Some(LongPositionVector {
                address,
                timestamp: self.timestamp(now),
                place,
                accurate,
                speed,
                heading,
            });
        }
        let (place, since) = self.last_known?;
        let timestamp = self.timestamp(since);
        Some(LongPositionVector { address, timestamp, place, accurate: false, speed: 0, heading: 0 })
    }

    /// The state that the control socket shows.
    pub fn view(&self, now: Time, address: GeoAddress) -> PositionView {
        let state = match (self.fix, self.last_known) {
            (Some(_), _) => PositionState::Fix,
            (None, Some(_)) => PositionState::NoFix,
            (None, None) => PositionState::Never,
        };
        PositionView {
            mid: address.mid,
            kind: address.station.to_string(),
            place: self.place(now),
            uncertainty: self.fix.and_then(|fix| fix.uncertainty),
            speed: self.fix.map_or(0, |fix| fix.speed),
            heading: self.fix.map_or(0, |fix| fix.heading),
            age: self.fix_time.map(|fix_time| now.since(fix_time)),
            state,
        }
    }

    /// Milliseconds of TAI since 2004, modulo 2^32 (§9.5.2).
    pub fn timestamp(&self, now: Time) -> Timestamp {
        Timestamp((self.its_time(now) & u64::from(u32::MAX)) as u32)
    }

    /// Milliseconds of TAI since 2004 (TimestampIts of TS 102 894-2).
    pub fn its_time(&self, now: Time) -> u64 {
        let unix = self.boot_unix_millis.saturating_add(now.as_micros() / 1000);
        unix.saturating_add(LEAP_MILLIS).saturating_sub(ITS_EPOCH_MILLIS)
    }

    /// Accuracy of the place in metres, if the receiver reports one.
    pub fn uncertainty(&self) -> Option<u32> {
        self.fix.and_then(|fix| fix.uncertainty)
    }
}
