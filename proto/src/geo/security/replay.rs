//! Packets of one signer that were verified: what is received again is not verified again.

use std::collections::VecDeque;

/// Packets remembered of one signer, at most.
const MAX_PACKETS: usize = 64;

/// The packets verified last, by the time of their generation.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplayWindow {
    /// Microseconds of TAI since 2004, and the fingerprint.
    packets: VecDeque<(u64, u64)>,
    /// The latest time of generation of a packet that is no longer remembered.
    forgotten: Option<u64>,
}

impl ReplayWindow {
    pub(super) fn contains(&self, fingerprint: u64) -> bool {
        self.packets.iter().any(|(_, known)| *known == fingerprint)
    }

    /// Whether a packet of this time may have been remembered once.
    pub(super) fn is_forgotten(&self, generated: u64) -> bool {
        self.forgotten.is_some_and(|until| generated <= until)
    }

    pub(super) fn record(&mut self, packet: (u64, u64)) {
        let at = self.packets.partition_point(|known| *known < packet);
        self.packets.insert(at, packet);
        if self.packets.len() > MAX_PACKETS
            && let Some((oldest, _)) = self.packets.pop_front()
        {
            self.forgotten = self.forgotten.max(Some(oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_known_or_too_old_for_ever() {
        let mut window = ReplayWindow::default();
        for number in 0..1_000_u64 {
            // Two of a time, and some late.
            let time = number / 2 + 40 * u64::from(number % 7 == 0);
            let is_new = !window.contains(number) && !window.is_forgotten(time);
            if is_new {
                window.record((time, number));
            }
            assert!(window.packets.len() <= MAX_PACKETS);
            for earlier in 0..=number {
                let time = earlier / 2 + 40 * u64::from(earlier % 7 == 0);
                assert!(window.contains(earlier) || window.is_forgotten(time), "{earlier} of {number}");
            }
        }
    }
}
