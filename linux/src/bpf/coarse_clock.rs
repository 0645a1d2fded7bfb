//! The clock of the programs, which is cheap to read: nanoseconds of the coarse monotonic clock; 0 is never.

use core::time::Duration;
use nix::time::{ClockId, clock_gettime};
use roam6_proto::Time;

/// The same instant on the engines' clock and on the programs'.
pub(crate) struct ClockReading {
    now: Time,
    nanos: u64,
}

impl ClockReading {
    pub(crate) fn of(now: Time) -> ClockReading {
        let clock = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::ZERO, Duration::from);
        ClockReading { now, nanos: u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// The engines' time of a time of the programs.
    pub(crate) fn time(&self, nanos: u64) -> Option<Time> {
        let ago = self.nanos.saturating_sub(nanos) / 1000;
        (nanos != 0).then(|| Time::from_micros(self.now.as_micros().saturating_sub(ago)))
    }
}
