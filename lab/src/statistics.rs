//! Statistics of measured values.

use serde_json::{Value, json};
use std::borrow::Borrow;

/// The `share` quantile (0 to 1) of `values`: one of the values, or the middle of two between which it is. `None` if there are
/// none.
pub(crate) fn percentile(values: impl IntoIterator<Item: Borrow<f64>>, share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    let place = share * sorted.len() as f64;
    let below = (place.ceil() as usize).max(1) - 1;
    let above = (place.floor() as usize).min(sorted.len().saturating_sub(1));
    Some(f64::midpoint(*sorted.get(below)?, *sorted.get(above)?))
}

/// Minimum, 5th percentile, median, 95th and 99th percentile and maximum, each rounded to three decimals.
pub(crate) fn distribution(values: impl IntoIterator<Item: Borrow<f64>>) -> Value {
    let values: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    let at = |share| percentile(&values, share).map(round);
    json!({ "min": at(0.0), "p05": at(0.05), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1.0), "n": values.len() })
}

/// The longest time between two consecutive `times`, which ascend, that overlaps the span from `begin` to `end`,
/// microseconds; a silence that lasts at `end` counts up to `end`.
pub(crate) fn longest_silence(times: impl IntoIterator<Item = u64>, begin: u64, end: u64) -> u64 {
    let (mut previous, mut longest) = (begin, 0);
    for time in times {
        if time >= begin {
            longest = longest.max(time - previous);
        }
        previous = time;
        if time >= end {
            return longest;
        }
    }
    longest.max(end.saturating_sub(previous))
}

/// Rounds to three decimals, the precision of the clocks.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(percentile(values, 0.5), Some(3.0));
        assert_eq!(percentile(values, 0.95), Some(5.0));
        assert_eq!(percentile([1.0, 2.0, 4.0, 9.0], 0.5), Some(3.0), "the middle of an even number of values");
        assert_eq!(percentile(values, 0.0), Some(1.0));
        assert_eq!(percentile([0.0; 0], 0.5), None);
    }
}
