//! Intervals of medians and other quantiles from order statistics: the interval [x(k), x(m)] of the sorted values
//! contains the quantile with the probability that at least k and fewer than m of n values are below it, which is
//! binomial, whatever the distribution of the values ("interval of the median by the sign test").

use crate::statistics::{percentile, round};
use serde::{Deserialize, Serialize};

/// A figure and the interval that contains the true value with the probability `level`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    /// `None`: there are too few values for this end.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// The number of independent values.
    pub(crate) n: usize,
    pub(crate) level: f64,
    pub(crate) method: Method,
}

/// A figure's name, and the figure if it was measured.
pub(crate) type NamedEstimate = (String, Option<Estimate>);

/// How an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    /// The median, or another quantile, of the values.
    Median,
    /// The ratio of two medians, each with its interval.
    RatioOfMedians,
    /// Counted instructions: the range of the rounds.
    Counted,
}

/// What a single count may be off by: the largest deviation that repeated runs showed.
const SPREAD_OF_COUNTS: f64 = 0.02;

/// The ratios of values that were measured in turn, pair by pair.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

/// The median, the middle of both middle values if their number is even. `None` without values.
pub(crate) fn median(values: &[f64], level: f64) -> Option<Estimate> {
    quantile(values, 0.5, level)
}

/// The quantile `share` (0 to 1) of `values`. `None` without values.
fn quantile(values: &[f64], share: f64, level: f64) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (n, value) = (sorted.len(), percentile(values, share)?);
    let tail = (1.0 - level) / 2.0;
    let low = ranks_below(n, share, tail).checked_sub(1).and_then(|index| sorted.get(index)).copied();
    let from_above = ranks_below(n, 1.0 - share, tail);
    let high = from_above.checked_sub(1).and_then(|index| sorted.iter().rev().nth(index)).copied();
    Some(Estimate { value, low, high, n, level, method: Method::Median })
}

/// The median of figures that are counted in instructions, with their range; of one figure, with the usual spread.
pub(crate) fn counted(values: &[f64]) -> Option<Estimate> {
    let Estimate { value, n, .. } = median(values, 0.0)?;
    let low = values.iter().copied().reduce(f64::min).map(|low| low.min(value * (1.0 - SPREAD_OF_COUNTS)));
    let high = values.iter().copied().reduce(f64::max).map(|high| high.max(value * (1.0 + SPREAD_OF_COUNTS)));
    Some(Estimate { value, low, high, n, level: 1.0, method: Method::Counted })
}

/// The ratio of two medians of values that were not measured in turn. Both intervals are wider, so that both hold with `level`.
pub(crate) fn ratio_of_medians(ours: &[f64], theirs: &[f64], level: f64) -> Option<Estimate> {
    let each = f64::midpoint(level, 1.0);
    let (ours, theirs) = (median(ours, each)?, median(theirs, each)?);
    let over = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    Some(Estimate {
        value: ours.value / theirs.value,
        low: over(ours.low, theirs.high),
        high: over(ours.high, theirs.low),
        n: ours.n.min(theirs.n),
        level,
        method: Method::RatioOfMedians,
    })
}

impl Estimate {
    /// With three decimals, the precision of the clocks.
    pub(crate) fn rounded(&self) -> Estimate {
        let (low, high) = (self.low.map(round), self.high.map(round));
        Estimate { value: round(self.value), low, high, ..self.clone() }
    }

    /// The largest of several figures: its value, and the ends of its interval, are the largest of theirs. Fewer confidence
    /// remains, as each of the intervals may be wrong. `None` without parts.
    pub(crate) fn most(parts: impl IntoIterator<Item = Estimate>) -> Option<Estimate> {
        parts.into_iter().reduce(|one, other| one.combine(&other, f64::max))
    }

    /// The interval in words.
    pub(crate) fn to_text(&self) -> String {
        let end = |end: Option<f64>| end.map_or("?".to_owned(), |end| end.to_string());
        match self.method {
            _ if self.low.is_none() && self.high.is_none() => {
                format!("no interval ({} %, n = {})", round(self.level * 100.0), self.n)
            }
            Method::Counted => format!("{} to {} (counted)", end(self.low), end(self.high)),
            _ => format!("{} to {} ({} %, n = {})", end(self.low), end(self.high), round(self.level * 100.0), self.n),
        }
    }

    /// The smallest of several figures, as [`Estimate::most`].
    pub(crate) fn least(parts: impl IntoIterator<Item = Estimate>) -> Option<Estimate> {
        parts.into_iter().reduce(|one, other| one.combine(&other, f64::min))
    }

    /// The middle one of several figures: its value, and the ends of its interval, are the medians of theirs.
    pub(crate) fn middle(parts: impl IntoIterator<Item = Estimate>) -> Option<Estimate> {
        let parts: Vec<Estimate> = parts.into_iter().collect();
        let first = parts.first()?;
        let middle = |ends: Option<Vec<f64>>| percentile(ends?, 0.5);
        Some(Estimate {
            value: percentile(parts.iter().map(|part| part.value), 0.5)?,
            low: middle(parts.iter().map(|part| part.low).collect()),
            high: middle(parts.iter().map(|part| part.high).collect()),
            ..first.clone()
        })
    }

    fn combine(&self, other: &Estimate, pick: fn(f64, f64) -> f64) -> Estimate {
        let both = |one: Option<f64>, other: Option<f64>| Some(pick(one?, other?));
        Estimate {
            value: pick(self.value, other.value),
            low: both(self.low, other.low),
            high: both(self.high, other.high),
            n: self.n.min(other.n),
            level: (self.level + other.level - 1.0).max(0.0),
            method: self.method,
        }
    }
}

/// The largest k with P(Bin(n, share) < k) <= `tail`; 0: there is none.
fn ranks_below(n: usize, share: f64, tail: f64) -> usize {
    let mut chance = (1.0 - share).powf(n as f64);
    let (mut sum, mut k) = (chance, 0);
    while k < n && sum <= tail {
        chance *= (n - k) as f64 / (k + 1) as f64 * share / (1.0 - share);
        sum += chance;
        k += 1;
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        let of = |level: f64| [5, 6, 8, 10, 12, 18, 27, 40].map(|n| ranks_below(n, 0.5, (1.0 - level) / 2.0));
        assert_eq!(of(0.95), [0, 1, 1, 2, 3, 5, 8, 14]);
        assert_eq!(of(0.99), [0, 0, 1, 1, 2, 4, 7, 12]);
    }

    #[test]
    fn medians_are_in_the_middle_and_few_values_have_open_intervals() {
        let four = median(&[4.0, 1.0, 3.0, 2.0], 0.95).unwrap();
        assert_eq!((four.value, four.low, four.high, four.n), (2.5, None, None, 4));
        let eight: Vec<f64> = (1..=8).map(f64::from).collect();
        let eight = median(&eight, 0.95).unwrap();
        assert_eq!((eight.value, eight.low, eight.high), (4.5, Some(1.0), Some(8.0)));
        assert_eq!(median(&[], 0.95), None);
        let high = quantile(&(1..=80).map(f64::from).collect::<Vec<_>>(), 0.95, 0.95).unwrap();
        assert!(high.value == 76.5 && high.high == Some(80.0), "{high:?}");
        assert!(quantile(&[1.0, 2.0, 3.0], 0.95, 0.95).unwrap().high.is_none());
    }

    #[test]
    fn combined_figures_have_the_ends_of_their_parts() {
        let eight = |from: u32| (from..from + 8).map(f64::from).collect::<Vec<_>>();
        let parts = || [median(&eight(1), 0.95).unwrap(), median(&eight(3), 0.95).unwrap()];
        let least = Estimate::least(parts()).unwrap();
        assert_eq!((least.value, least.low, least.high), (4.5, Some(1.0), Some(8.0)));
        assert!((least.level - 0.9).abs() < 1e-9);
        let most = Estimate::most(parts()).unwrap();
        assert_eq!((most.value, most.low, most.high), (6.5, Some(3.0), Some(10.0)));
        assert_eq!(Estimate::least([]), None);
        let ratio = ratio_of_medians(&eight(1), &eight(3), 0.95).unwrap();
        assert_eq!((ratio.low, ratio.high), (Some(0.1), Some(8.0 / 3.0)));
        assert_eq!(counted(&[2.0]).unwrap().low, Some(1.96));
    }

    /// 2000 samples of 12 values of a skewed distribution.
    #[test]
    fn intervals_contain_the_median_as_often_as_promised() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut inside = 0;
        for _ in 0..2000 {
            let values: Vec<f64> = (0..12).map(|_| -(1.0 - uniform()).ln()).collect();
            let Estimate { low, high, .. } = median(&values, 0.95).unwrap();
            let truth = std::f64::consts::LN_2;
            inside += usize::from(low.unwrap() <= truth && truth <= high.unwrap());
        }
        assert!(inside >= 1900, "{inside}");
    }
}
