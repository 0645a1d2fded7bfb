//! How much a source sends, so that forwarders need not carry the flood of one: EN 302 636-4-1 annex B.2. The average
//! moves once a window, not with each packet: two copies a millisecond apart would look like a flood.

use crate::time::Time;
use core::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);

/// The packet data rate of one source, an exponential moving average.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    /// Octets a second.
    average: f64,
    /// When the present window began, and the octets in it.
    since: Time,
    octets: u64,
}

impl Rate {
    /// Counts a packet of `octets`; `beta` is the weight of what was before (itsGnMaxPacketDataRateEmaBeta),
    /// hundredths.
    pub fn put(&mut self, now: Time, octets: usize, beta: u8) {
        let window = now.since(self.since);
        if window >= WINDOW {
            let beta = f64::from(beta) / 100.0;
            self.average = beta * self.average + (1.0 - beta) * self.octets as f64 / window.as_secs_f64();
            (self.since, self.octets) = (now, 0);
        }
        self.octets = self.octets.saturating_add(octets as u64);
    }

    /// Octets a second.
    pub fn average(&self) -> f64 {
        self.average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `octets` every `interval` for three seconds.
    fn steady(octets: usize, interval: Duration) -> f64 {
        let mut rate = Rate::default();
        let mut now = Time::ZERO;
        while now < Time::ZERO + Duration::from_secs(10) {
            rate.put(now, octets, 90);
            now = now + interval;
        }
        rate.average()
    }

    #[test]
    fn a_steady_source_is_known_for_what_it_sends() {
        let rate = steady(1_000, Duration::from_millis(5));
        assert!((195_000.0..205_000.0).contains(&rate), "{rate} octets a second");
        assert!(steady(300, Duration::from_secs(1)) < 300.0);
    }

    #[test]
    fn two_copies_at_once_are_no_flood() {
        let mut rate = Rate::default();
        for micros in [1_000_000, 1_000_300, 1_200_000] {
            rate.put(Time::from_micros(micros), 1_400, 90);
        }
        assert!(rate.average() < 2_000.0, "{} octets a second", rate.average());
    }
}
