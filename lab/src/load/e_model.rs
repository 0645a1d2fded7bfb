//! Quality of a voice call after the E-model (ITU-T G.107), with its default values for all that the network does not change.
//!
//! ```text
//!   R      = 93.2 - Idd - Ie_eff
//!   Idd    = 0 up to 100 ms, else 25 ((1 + X^6)^(1/6) - 3 (1 + (X/3)^6)^(1/6) + 2), X = log2(Ta / 100 ms)
//!   Ie_eff = Ie + (95 - Ie) Ppl / (Ppl / BurstR + Bpl)
//!   MOS    = 1 + 0.035 R + 7e-6 R (R - 60) (100 - R), from 1 (R <= 0) to 4.5 (R >= 100)
//! ```
//!
//! Ta is the delay from mouth to ear, Ppl the share of lost packets in percent, BurstR the mean length of a run of lost
//! packets over that of random loss. Echo is cancelled.

/// R without delay and loss.
const BEST_RATING: f64 = 93.2;
/// Ie of G.711.
const EQUIPMENT_IMPAIRMENT: f64 = 0.0;
/// Bpl of G.711 with packet loss concealment (ITU-T G.113, appendix I).
const LOSS_ROBUSTNESS: f64 = 25.1;

/// What a network does to a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CallConditions {
    /// From mouth to ear, milliseconds.
    pub(crate) delay_ms: f64,
    /// Lost packets and those too late to be played, percent.
    pub(crate) loss_percent: f64,
    /// Mean length of a run of such packets over that of random loss, at least 1.
    pub(crate) burst_ratio: f64,
}

impl CallConditions {
    /// The mean opinion score, 1 to 4.5.
    pub(crate) fn mos(self) -> f64 {
        let rating = self.rating();
        if rating <= 0.0 {
            return 1.0;
        }
        let score = |r: f64| 1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r);
        score(rating.min(100.0)).max(1.0)
    }

    /// The transmission rating factor R.
    fn rating(self) -> f64 {
        let effective = (95.0 - EQUIPMENT_IMPAIRMENT) * self.loss_percent;
        let effective = EQUIPMENT_IMPAIRMENT + effective / (self.loss_percent / self.burst_ratio + LOSS_ROBUSTNESS);
        BEST_RATING - delay_impairment(self.delay_ms) - effective
    }
}

/// Idd.
fn delay_impairment(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = (delay_ms / 100.0).log2();
    let root = |x: f64| (1.0 + x.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(delay_ms: f64, loss_percent: f64, burst_ratio: f64) -> [f64; 2] {
        let call = CallConditions { delay_ms, loss_percent, burst_ratio };
        [call.rating(), call.mos()]
    }

    fn assert_near(found: [f64; 2], expected: [f64; 2]) {
        assert!((found[0] - expected[0]).abs() < 0.06 && (found[1] - expected[1]).abs() < 0.006, "{found:?}");
    }

    #[test]
    fn scores_are_those_of_the_formula_by_hand() {
        assert_near(score(0.0, 0.0, 1.0), [93.2, 4.41]);
        assert_near(score(150.0, 0.0, 1.0), [93.04, 4.406]);
        assert_near(score(400.0, 0.0, 1.0), [69.1, 3.56]);
        assert_near(score(100.0, 1.0, 1.0), [89.56, 4.331]);
        let one_gap = score(105.0, 7.0, 35.0);
        assert!((65.0..75.0).contains(&one_gap[0]), "{one_gap:?}");
    }

    #[test]
    fn scores_fall_with_delay_loss_and_bursts() {
        for (better, worse) in [((150.0, 1.0, 1.0), (300.0, 1.0, 1.0)), ((150.0, 1.0, 1.0), (150.0, 5.0, 1.0))] {
            assert!(score(better.0, better.1, better.2)[1] > score(worse.0, worse.1, worse.2)[1]);
        }
        assert!(score(150.0, 5.0, 1.0)[1] > score(150.0, 5.0, 8.0)[1]);
        assert!(score(2000.0, 100.0, 500.0)[1] >= 1.0);
    }
}
