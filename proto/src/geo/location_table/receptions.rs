//! How well each interface of this station receives a neighbour. A station with several radios hears a neighbour by some or all of
//! them; unicast frames to the neighbour leave by the interface that receives most of the neighbour's own frames.

use super::Hop;
use crate::base::time::Time;
use core::time::Duration;

/// In this time a reception loses half of its weight: beacons are 3 s apart, CAMs at most 1 s.
const HALF_LIFE: Duration = Duration::from_secs(3);
/// By this factor another interface has to receive more than the one in use, so that single losses change nothing where frames
/// are frequent.
const CHANGE_RATIO: f64 = 1.25;

/// The receptions of one neighbour, one entry for each interface.
#[derive(Debug, Clone, Default)]
pub(super) struct Receptions(Vec<Reception>);

#[derive(Debug, Clone, Copy)]
struct Reception {
    hop: Hop,
    last: Time,
    /// The weights of all frames so far, as of the last one.
    weight: f64,
}

impl Reception {
    fn weight_at(&self, now: Time) -> f64 {
        let half_lives = now.since(self.last).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.weight * (-half_lives).exp2()
    }
}

impl Receptions {
    /// Records a frame that the neighbour itself has sent.
    pub(super) fn record(&mut self, now: Time, hop: Hop) {
        match self.0.iter_mut().find(|known| known.hop.link == hop.link) {
            Some(known) => *known = Reception { hop, last: now, weight: known.weight_at(now) + 1.0 },
            None => self.0.push(Reception { hop, last: now, weight: 1.0 }),
        }
    }

    /// Whether frames of this next hop are received.
    pub(super) fn contains(&self, hop: Hop) -> bool {
        self.0.iter().any(|known| known.hop == hop)
    }

    /// Forgets the next hops that are lost.
    pub(super) fn forget(&mut self, is_lost: impl Fn(Hop) -> bool) {
        self.0.retain(|known| !is_lost(known.hop));
    }

    /// Forgets the interfaces that have received nothing for this time.
    pub(super) fn expire(&mut self, now: Time, lifetime: Duration) {
        self.0.retain(|known| now.since(known.last) < lifetime);
    }

    /// The next hop by the interface in use, unless another one receives considerably more. `None` if none receives anything.
    pub(super) fn best(&self, now: Time, in_use: Option<Hop>) -> Option<Hop> {
        let best = self.0.iter().max_by(|one, other| one.weight_at(now).total_cmp(&other.weight_at(now)))?;
        let in_use = in_use.and_then(|hop| self.0.iter().find(|known| known.hop.link == hop.link));
        let stays = |kept: &&Reception| best.weight_at(now) < kept.weight_at(now) * CHANGE_RATIO;
        Some(in_use.filter(stays).unwrap_or(best).hop)
    }
}
