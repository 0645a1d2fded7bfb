//! The lifetime field: EN 302 636-4-1 §9.6.4.

use core::time::Duration;

/// Milliseconds of the four bases.
const BASES: [u64; 4] = [50, 1_000, 10_000, 100_000];
const MAX_MULTIPLIER: u64 = 63;

/// The lifetime field: a multiplier of one of four bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime(pub u8);

impl Lifetime {
    /// The nearest field value for `duration`, with the finest possible base; at most 6300 s.
    pub fn of(duration: Duration) -> Lifetime {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let fits = |(base, unit): (u8, u64)| {
            let multiple = milliseconds.saturating_add(unit / 2) / unit;
            (multiple <= MAX_MULTIPLIER).then_some(Lifetime((multiple as u8) << 2 | base))
        };
        (0..).zip(BASES).find_map(fits).unwrap_or(Lifetime(u8::MAX))
    }

    /// The duration.
    pub fn duration(self) -> Duration {
        let unit = BASES.get(usize::from(self.0 & 3)).copied().unwrap_or_default();
        Duration::from_millis(u64::from(self.0 >> 2) * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_round_trips_within_its_base() {
        for (milliseconds, back) in [
            (0, 0),
            (50, 50),
            (74, 50),
            (75, 100),
            (3_150, 3_150),
            (3_200, 3_000),
            (60_000, 60_000),
            (63_000, 63_000),
            (64_000, 60_000),
            (600_000, 600_000),
            (6_300_000, 6_300_000),
            (99_000_000, 6_300_000),
        ] {
            let lifetime = Lifetime::of(Duration::from_millis(milliseconds));
            assert_eq!(lifetime.duration(), Duration::from_millis(back), "{milliseconds} ms as {lifetime:?}");
        }
        assert_eq!(Lifetime::of(Duration::from_secs(6300)), Lifetime(255));
    }
}
