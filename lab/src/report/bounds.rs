//! Bounds of the summary figures (lab/papers/bounds.csv).

const BOUNDS: &str = include_str!("../../papers/bounds.csv");

/// The bounds of a figure; `None`: no bound on that side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    least: Option<f64>,
    most: Option<f64>,
}

impl Bound {
    /// The bound of a figure, if it has one.
    pub(super) fn of(experiment: &str, key: &str) -> Option<Bound> {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => key == pattern,
        };
        BOUNDS.lines().find_map(|line| {
            let columns: Vec<&str> = line.split(',').collect();
            let [name, pattern, least, most] = columns.as_slice() else { return None };
            (*name == experiment && fits(pattern)).then(|| Bound { least: least.parse().ok(), most: most.parse().ok() })
        })
    }

    pub(super) fn holds(self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }

    /// The bound in words.
    pub(super) fn to_text(self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_on_both_sides() {
        let between = Bound::of("mptcp/scenarios", "rtt_ns1p_over_ns0").expect("a bound");
        assert_eq!((between.holds(0.97), between.holds(1.0), between.holds(1.03)), (false, true, false));
        assert_eq!(between.to_text(), "0.98 to 1.02");
        let family = Bound::of("nemo/throughput", "roam6_over_plain_250").expect("a bound");
        assert_eq!((family.holds(1.19), family.holds(1.2)), (false, true));
        assert_eq!(Bound::of("nemo/handover", "unheard_of"), None);
    }

    #[test]
    fn every_line_names_an_experiment_and_a_figure() {
        for line in BOUNDS.lines().filter(|line| !line.starts_with('#')).skip(1) {
            assert_eq!(line.split(',').count(), 4, "{line}");
            assert!(line.split(',').skip(2).any(|bound| bound.parse::<f64>().is_ok()), "{line}");
        }
    }
}
