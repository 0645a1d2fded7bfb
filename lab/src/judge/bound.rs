//! Bounds of the summary figures (lab/papers/bounds.csv), and verdicts on them.

use super::interval::Estimate;
use serde::{Deserialize, Serialize};

const BOUNDS: &str = include_str!("../../papers/bounds.csv");

/// The bound of a figure; `None`: no bound on that side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    least: Option<f64>,
    most: Option<f64>,
    kind: BoundKind,
    /// The kind of machine, or of run, that can hold it; empty: all.
    place: &'static str,
}

/// What the figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundKind {
    /// A count, or the largest of all values: it is judged by itself.
    Exact,
    /// A median, judged by its interval.
    Median,
    /// Counted instructions, judged by the range of the rounds.
    Counted,
}

/// Whether a figure keeps its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The whole interval is within the bound.
    Holds,
    /// The whole interval is outside.
    Missed,
    /// The interval crosses the bound, or there is none.
    Undecided,
}

impl Bound {
    /// The bound of a figure, if it has one.
    pub(crate) fn of(experiment: &str, key: &str) -> Option<Bound> {
        find(experiment, key).map(|(_, bound)| bound)
    }

    /// The key of the table's line for a figure: its own, or one that ends with `*`.
    pub(crate) fn pattern_of(experiment: &str, key: &str) -> Option<&'static str> {
        find(experiment, key).map(|(pattern, _)| pattern)
    }

    /// All bounds, with their experiments and keys.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str, Bound)> {
        lines()
    }

    /// The kind of machine, or of run, that can hold it; empty: all.
    pub(crate) fn place(self) -> &'static str {
        self.place
    }

    /// The verdict on a figure. A missing figure misses its bound.
    pub(crate) fn judge(self, value: Option<f64>, estimate: Option<&Estimate>) -> Verdict {
        let Some(value) = value else { return Verdict::Missed };
        match (self.kind, estimate) {
            (BoundKind::Exact, _) => self.of_interval(Some(value), Some(value)),
            (BoundKind::Median | BoundKind::Counted, Some(estimate)) => self.of_interval(estimate.low, estimate.high),
            (BoundKind::Median | BoundKind::Counted, None) => Verdict::Undecided,
        }
    }

    /// `None`: the interval is open on that side.
    fn of_interval(self, low: Option<f64>, high: Option<f64>) -> Verdict {
        let above_least = self.least.is_none_or(|least| low.is_some_and(|low| low >= least));
        let below_most = self.most.is_none_or(|most| high.is_some_and(|high| high <= most));
        let under = self.least.is_some_and(|least| high.is_some_and(|high| high < least));
        let over = self.most.is_some_and(|most| low.is_some_and(|low| low > most));
        if under || over {
            Verdict::Missed
        } else if above_least && below_most {
            Verdict::Holds
        } else {
            Verdict::Undecided
        }
    }

    /// The bound in words.
    pub(crate) fn to_text(self) -> String {
        let bound = match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => String::new(),
        };
        if self.place.is_empty() { bound } else { format!("{bound}, on {}", self.place) }
    }
}

impl Verdict {
    pub(crate) fn to_text(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Missed => "missed",
            Verdict::Undecided => "undecided",
        }
    }
}

fn find(experiment: &str, key: &str) -> Option<(&'static str, Bound)> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == pattern,
    };
    lines().find_map(|(name, pattern, bound)| (name == experiment && fits(pattern)).then_some((pattern, bound)))
}

fn lines() -> impl Iterator<Item = (&'static str, &'static str, Bound)> {
    BOUNDS.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(parse)
}

fn parse(line: &'static str) -> Option<(&'static str, &'static str, Bound)> {
    let columns: Vec<&str> = line.split(',').collect();
    let [experiment, key, least, most, kind, place] = *columns.as_slice() else { return None };
    let kind = match kind {
        "exact" => BoundKind::Exact,
        "median" => BoundKind::Median,
        "counted" => BoundKind::Counted,
        _ => return None,
    };
    Some((experiment, key, Bound { least: least.parse().ok(), most: most.parse().ok(), kind, place }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::LEVEL;

    fn estimate(low: Option<f64>, high: Option<f64>) -> Estimate {
        Estimate { value: 1.0, low, high, n: 8, level: LEVEL, method: crate::judge::interval::Method::Median }
    }

    #[test]
    fn verdicts_by_the_side_of_the_bound() {
        use Verdict::{Holds, Missed, Undecided};
        let at_least = Bound::of("nemo/throughput", "roam6_over_plain_250").expect("a bound");
        let between = Bound::of("mptcp/scenarios", "rtt_ns1p_over_ns0").expect("a bound");
        let cases = [
            (at_least, Some(1.3), Some(1.5), Holds),
            (at_least, Some(1.3), None, Holds),
            (at_least, Some(1.1), Some(1.3), Undecided),
            (at_least, None, Some(1.3), Undecided),
            (at_least, None, Some(1.1), Missed),
            (at_least, None, None, Undecided),
            (between, Some(0.99), Some(1.01), Holds),
            (between, Some(0.97), Some(1.01), Undecided),
            (between, Some(1.03), Some(1.05), Missed),
            (between, Some(0.99), None, Undecided),
            (between, Some(0.9), Some(0.97), Missed),
        ];
        for (bound, low, high, wanted) in cases {
            assert_eq!(bound.judge(Some(1.0), Some(&estimate(low, high))), wanted, "{bound:?} {low:?} {high:?}");
        }
        assert_eq!(at_least.judge(Some(5.0), None), Undecided, "a median without an interval");
        assert_eq!(at_least.judge(None, None), Missed);
        assert_eq!(between.to_text(), "0.98 to 1.02");
    }

    #[test]
    fn counts_are_judged_by_themselves() {
        let none = Bound::of("nemo/handover", "planned_lost_max").expect("a bound");
        assert_eq!([none.judge(Some(0.0), None), none.judge(Some(1.0), None)], [Verdict::Holds, Verdict::Missed]);
        assert_eq!(Bound::of("nemo/handover", "unheard_of"), None);
    }

    #[test]
    fn every_line_names_an_experiment_a_figure_a_kind_and_a_place() {
        for line in BOUNDS.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let (experiment, key, bound) = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert!(crate::experiments::ALL.iter().any(|one| one.name == experiment), "{line}");
            assert!(!key.is_empty() && (bound.least.is_some() || bound.most.is_some()), "{line}");
            assert!(["", "avx512", "counted"].contains(&bound.place), "{line}");
        }
    }
}
