//! The packet data rate of one source: EN 302 636-4-1 annex B.2. The standard averages the rate and forwards nothing
//! while the average exceeds itsGnMaxPacketDataRate. A token bucket of the same rate and memory drops only the excess,
//! and fills with time whether the source sends or not.

use crate::base::time::Time;
use crate::base::token_bucket::BucketLevel;
use core::time::Duration;

/// The averaging window that annex B.2 weights with itsGnMaxPacketDataRateEmaBeta.
const WINDOW: Duration = Duration::from_millis(100);

/// The token bucket of one source.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacketDataRate {
    level: BucketLevel,
}

impl PacketDataRate {
    /// The burst: the memory of an average with weight `beta`, in hundredths, for its previous value.
    pub fn burst(beta: u8) -> Duration {
        WINDOW * 100 / u32::from(100_u8.saturating_sub(beta).max(1))
    }

    /// Takes `octets` from the bucket; `false` if it is empty and the packet is to be dropped. `rate` in octets per
    /// second; `burst` is the time in which the bucket fills. The last packet may exceed what is left.
    pub fn take(&mut self, now: Time, octets: usize, rate: u32, burst: Duration) -> bool {
        if !self.level.has(now, Duration::ZERO, burst) {
            return false;
        }
        let micros = (octets as u64).saturating_mul(1_000_000) / u64::from(rate.max(1));
        self.level.charge(now, Duration::from_micros(micros));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: Duration = Duration::from_secs(1);

    /// Octets forwarded for a source that sends `octets` every `interval` for ten seconds.
    fn steady(octets: usize, interval: Duration) -> usize {
        let (mut rate, mut now, mut forwarded) = (PacketDataRate::default(), Time::ZERO, 0);
        while now < Time::ZERO + Duration::from_secs(10) {
            forwarded += if rate.take(now, octets, 100_000, BURST) { octets } else { 0 };
            now = now + interval;
        }
        forwarded
    }

    #[test]
    fn packets_above_the_packet_data_rate_are_dropped() {
        assert_eq!(PacketDataRate::burst(90), BURST);
        assert_eq!(steady(1_000, Duration::from_millis(10)), 1_000_000);
        // The bucket holds what may be sent in a second.
        let excess = steady(1_000, Duration::from_millis(1));
        assert!((1_095_000..1_105_000).contains(&excess), "{excess} octets");
    }

    #[test]
    fn the_token_bucket_fills_while_nothing_is_sent() {
        let mut rate = PacketDataRate::default();
        while rate.take(Time::ZERO, 1_400, 100_000, BURST) {}
        let later = Time::ZERO + Duration::from_millis(14) * 10;
        assert_eq!((0..100).filter(|_| rate.take(later, 1_400, 100_000, BURST)).count(), 10);
    }

    #[test]
    fn a_packet_larger_than_the_token_bucket_passes_when_it_is_full() {
        let mut rate = PacketDataRate::default();
        assert!(rate.take(Time::ZERO, 1_400, 100, BURST) && !rate.take(Time::ZERO, 1_400, 100, BURST));
        assert!(rate.take(Time::ZERO + Duration::from_secs(13), 1_400, 100, BURST));
    }
}
