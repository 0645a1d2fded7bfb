//! Time in microseconds since the start of the node, so that it can be recorded and replayed.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Microseconds since the start of the node. Never wall-clock time; the wall clock is `contract::input::Clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Time(
    /// Microseconds plus one, so that `Option<Time>` needs no more space.
    NonZeroU64,
);

impl Time {
    /// The start of the node.
    pub const ZERO: Time = Time(NonZeroU64::MIN);

    /// `micros` microseconds after the start of the node.
    pub const fn from_micros(micros: u64) -> Time {
        Time(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Microseconds since the start of the node.
    pub const fn as_micros(self) -> u64 {
        self.0.get() - 1
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.as_micros().saturating_sub(earlier.as_micros()))
    }
}

impl Default for Time {
    fn default() -> Time {
        Time::ZERO
    }
}

impl From<u64> for Time {
    fn from(micros: u64) -> Time {
        Time::from_micros(micros)
    }
}

impl From<Time> for u64 {
    fn from(time: Time) -> u64 {
        time.as_micros()
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        Time::from_micros(self.as_micros().saturating_sub(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.as_micros() / 1_000_000, self.as_micros() % 1_000_000)
    }
}
