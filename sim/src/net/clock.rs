//! The two clocks of a simulated host: a monotonic one with drift, and a wall clock that may be stepped.

use core::time::Duration;
use roam6_proto::{Clock, Time};

/// The wall clock at the start of a world, Unix microseconds (2026-01-01T00:00Z).
const WALL_AT_START: u64 = 1_767_225_600_000_000;
const MILLION: i128 = 1_000_000;

/// The error of a host's clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct HostClock {
    /// Drift of both clocks against the world, parts per million.
    pub drift_ppm: i32,
    /// Offset of the wall clock, microseconds.
    pub wall_offset_micros: i64,
}

impl HostClock {
    /// The monotonic clock after `elapsed` time of the world.
    pub fn count(&self, elapsed: Duration) -> Time {
        let micros = i128::try_from(elapsed.as_micros()).unwrap_or(i128::MAX);
        Time::from_micros(clamp(micros.saturating_mul(self.rate()) / MILLION))
    }

    /// The least time of the world after which the monotonic clock reaches `count`.
    pub fn elapsed(&self, count: Time) -> Duration {
        let micros = i128::from(count.as_micros()) * MILLION;
        Duration::from_micros(clamp((micros + self.rate() - 1) / self.rate()))
    }

    /// The wall clock at `now` of the world.
    pub fn wall(&self, now: Time) -> Clock {
        let micros = i128::from(now.as_micros()) * self.rate() / MILLION;
        Clock { unix_micros: clamp(i128::from(WALL_AT_START) + micros + i128::from(self.wall_offset_micros)) }
    }

    fn rate(&self) -> i128 {
        MILLION + i128::from(self.drift_ppm)
    }
}

fn clamp(micros: i128) -> u64 {
    u64::try_from(micros.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drifting_clock_never_reaches_a_deadline_early() {
        for drift_ppm in [-250, 0, 1, 250] {
            let clock = HostClock { drift_ppm, wall_offset_micros: 0 };
            for micros in [0, 1, 999_999, 1_000_000, 123_456_789] {
                let due = Time::from_micros(micros);
                assert!(clock.count(clock.elapsed(due)) >= due, "{drift_ppm} {micros}");
            }
        }
    }
}
