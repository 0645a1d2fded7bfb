//! One link model for the simulator and for network namespaces: the arrival time of a frame sent at a given time.
//!
//! Pure arithmetic on the given time and a seeded generator: the same frames have the same arrivals everywhere.

use core::time::Duration;
use roam6_proto::{Entropy, Time};
use std::collections::VecDeque;

/// Impairments of one direction of a link. The default has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSpec {
    /// Propagation delay after the last bit is sent.
    pub delay: Duration,
    /// Added to `delay`: uniform from zero to this value, without reordering.
    pub jitter: Duration,
    /// Bits per second; `None` for no serialization delay.
    pub rate_bps: Option<u64>,
    /// Octets of the transmit queue, including the frame in transmission; a frame that does not fit is dropped.
    pub queue_bytes: usize,
    /// Probability of loss, 0 to 1.
    pub loss: f64,
    /// Probability of duplication, 0 to 1.
    pub duplicate: f64,
    /// Probability of reordering, 0 to 1: such a frame skips `delay` and `jitter`.
    pub reorder: f64,
    /// Largest frame in octets; longer ones are dropped.
    pub mtu: usize,
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        LinkSpec {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bps: None,
            queue_bytes: 256 * 1024,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            mtu: 65_536,
        }
    }
}

/// One direction of a link, with its queue and random generator.
#[derive(Debug, Clone)]
pub struct LinkModel {
    spec: LinkSpec,
    entropy: Entropy,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    last_departure: Time,
}

/// A frame in the queue until its last bit is sent.
#[derive(Debug, Clone, Copy)]
struct Queued {
    sent: Time,
    bytes: usize,
}

impl LinkModel {
    /// A link with these impairments; random choices follow from `seed`.
    pub fn new(spec: LinkSpec, seed: u64) -> LinkModel {
        LinkModel {
            spec,
            entropy: Entropy::seed_from_u64(seed),
            queue: VecDeque::new(),
            queued_bytes: 0,
            last_departure: Time::ZERO,
        }
    }

    /// The impairments of the link.
    pub fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// Changes the impairments from the next frame on; frames in flight are not affected.
    pub fn set_spec(&mut self, spec: LinkSpec) {
        self.spec = spec;
    }

    /// Sends a frame of `size` octets at `now`; returns its arrivals: none (lost), one, or two (duplicated).
    ///
    /// `now` never goes backwards. Arrivals are not before `now` and, apart from reordering, not before those of
    /// earlier frames.
    pub fn offer(&mut self, now: Time, size: usize) -> impl Iterator<Item = Time> + use<> {
        let arrival = self.arrival(now, size);
        let twice = arrival.filter(|_| self.chance(self.spec.duplicate));
        arrival.into_iter().chain(twice)
    }

    fn arrival(&mut self, now: Time, size: usize) -> Option<Time> {
        self.expire(now);
        if size > self.spec.mtu || self.chance(self.spec.loss) {
            return None;
        }
        let sent = self.enqueue(now, size)?;
        if self.chance(self.spec.reorder) {
            return Some(sent);
        }
        let jitter = u64::try_from(self.spec.jitter.as_micros()).unwrap_or(u64::MAX);
        let extra = if jitter == 0 { 0 } else { self.entropy.below(jitter.saturating_add(1)) };
        self.last_departure = self.last_departure.max(sent + self.spec.delay + Duration::from_micros(extra));
        Some(self.last_departure)
    }

    /// When the last bit of the frame is sent; `None` if the queue is full.
    fn enqueue(&mut self, now: Time, size: usize) -> Option<Time> {
        let Some(rate) = self.spec.rate_bps else { return Some(now) };
        if !self.queue.is_empty() && self.queued_bytes.saturating_add(size) > self.spec.queue_bytes {
            return None;
        }
        let bits = u64::try_from(size).unwrap_or(u64::MAX).saturating_mul(8);
        let micros = bits.saturating_mul(1_000_000).div_ceil(rate.max(1));
        let begin = self.queue.back().map_or(now, |last| last.sent.max(now));
        let sent = begin + Duration::from_micros(micros);
        self.queue.push_back(Queued { sent, bytes: size });
        self.queued_bytes = self.queued_bytes.saturating_add(size);
        Some(sent)
    }

    fn expire(&mut self, now: Time) {
        while let Some(first) = self.queue.front().filter(|first| first.sent <= now) {
            self.queued_bytes = self.queued_bytes.saturating_sub(first.bytes);
            self.queue.pop_front();
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        if share <= 0.0 {
            return false;
        }
        const STEPS: u64 = 1 << 32;
        (self.entropy.below(STEPS) as f64) < share * STEPS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn arrivals(link: &mut LinkModel, now: u64, size: usize) -> Vec<u64> {
        link.offer(at(now), size).map(Time::as_micros).collect()
    }

    #[test]
    fn a_link_without_impairment_delivers_at_once() {
        let mut link = LinkModel::new(LinkSpec::default(), 1);
        assert_eq!(arrivals(&mut link, 7, 1500), [7]);
    }

    #[test]
    fn delay_and_serialization_add_up_and_frames_queue() {
        let spec = LinkSpec { delay: Duration::from_millis(10), rate_bps: Some(8_000_000), ..LinkSpec::default() };
        let mut link = LinkModel::new(spec, 1);
        assert_eq!(arrivals(&mut link, 0, 1000), [11_000]);
        assert_eq!(arrivals(&mut link, 0, 1000), [12_000]);
        assert_eq!(arrivals(&mut link, 5_000, 1000), [16_000]);
    }

    #[test]
    fn a_full_queue_drops_and_drains_with_time() {
        let spec = LinkSpec { rate_bps: Some(8_000_000), queue_bytes: 2000, ..LinkSpec::default() };
        let mut link = LinkModel::new(spec, 1);
        assert_eq!(arrivals(&mut link, 0, 1000).len(), 1);
        assert_eq!(arrivals(&mut link, 0, 1000).len(), 1);
        assert_eq!(arrivals(&mut link, 0, 1000).len(), 0);
        assert_eq!(arrivals(&mut link, 1_000, 1000), [3_000]);
    }

    #[test]
    fn a_frame_longer_than_the_mtu_is_lost() {
        let mut link = LinkModel::new(LinkSpec { mtu: 1280, ..LinkSpec::default() }, 1);
        assert_eq!(arrivals(&mut link, 0, 1280).len(), 1);
        assert_eq!(arrivals(&mut link, 0, 1281).len(), 0);
    }

    #[test]
    fn loss_has_its_probability_and_repeats_with_the_seed() {
        let spec = LinkSpec { loss: 0.25, duplicate: 0.5, ..LinkSpec::default() };
        let run = |seed| {
            let mut link = LinkModel::new(spec, seed);
            (0..10_000).map(|now| arrivals(&mut link, now, 100).len()).collect::<Vec<_>>()
        };
        let counts = run(3);
        assert_eq!(counts, run(3));
        assert_ne!(counts, run(4));
        let lost = counts.iter().filter(|count| **count == 0).count();
        let twice = counts.iter().filter(|count| **count == 2).count();
        assert!((2_300..2_700).contains(&lost), "{lost} lost of 10000 at 25 %");
        assert!((3_550..3_950).contains(&twice), "{twice} duplicated of 10000 at 37.5 %");
    }

    #[test]
    fn jitter_preserves_order_and_reordering_does_not() {
        let delay = Duration::from_millis(10);
        let mut link = LinkModel::new(LinkSpec { delay, jitter: delay, ..LinkSpec::default() }, 5);
        let times: Vec<u64> = (0..100).flat_map(|now| arrivals(&mut link, now * 100, 100)).collect();
        assert!(times.is_sorted());
        let mut link = LinkModel::new(LinkSpec { delay, reorder: 0.2, ..LinkSpec::default() }, 5);
        let times: Vec<u64> = (0..100).flat_map(|now| arrivals(&mut link, now * 100, 100)).collect();
        assert!(!times.is_sorted());
    }
}
