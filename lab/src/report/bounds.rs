//! All bounds, with what was measured: also those for which there is no figure.

use super::figure::{self, Figure};
use crate::judge::{Bound, Estimate, Verdict};
use serde_json::{Value, json};

/// A bound, with the figure if there is one.
pub(super) struct Judged<'a> {
    pub(super) experiment: &'a str,
    /// The figure's key, or the pattern of keys if nothing was measured.
    pub(super) key: &'a str,
    pub(super) bound: Bound,
    pub(super) value: Option<&'a Value>,
    pub(super) estimate: Option<Estimate>,
    /// `None`: not measured.
    pub(super) verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub(super) why: String,
}

/// All bounds in the order of lab/papers/bounds.csv.
pub(super) fn judge_all(results: &[Value]) -> Vec<Judged<'_>> {
    Bound::all().flat_map(|(experiment, pattern, bound)| judge(results, experiment, pattern, bound)).collect()
}

fn judge<'a>(results: &'a [Value], experiment: &'a str, pattern: &'a str, bound: Bound) -> Vec<Judged<'a>> {
    let result = results.iter().find(|result| figure::name(result) == experiment);
    let of_line = |one: &Figure| Bound::pattern_of(experiment, one.key) == Some(pattern);
    let figures = result.into_iter().flat_map(Figure::all).filter(of_line);
    let judged = |one: Figure<'a>| {
        let verdict = one.verdict();
        let why = if verdict.is_none() { format!("not on this machine: {}", bound.place()) } else { String::new() };
        Judged { experiment, key: one.key, bound, value: Some(one.value), estimate: one.estimate, verdict, why }
    };
    let all: Vec<Judged> = figures.map(judged).collect();
    if !all.is_empty() {
        return all;
    }
    let absent =
        result.and_then(|result| result.pointer("/summary/absent")?.as_array()).filter(|list| !list.is_empty());
    let why = match (result, bound.place(), absent) {
        (None, ..) => "the experiment has no result".to_owned(),
        (_, "counted", _) => "only where a clock counts instructions (scripts/vm-run -i)".to_owned(),
        (.., Some(list)) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => "this run did not measure it".to_owned(),
    };
    vec![Judged { experiment, key: pattern, bound, value: None, estimate: None, verdict: None, why }]
}

impl Judged<'_> {
    /// The verdict in words, or why there is none.
    pub(super) fn verdict_in_words(&self) -> String {
        self.verdict.map_or_else(|| format!("not measured: {}", self.why), |verdict| verdict.to_text().to_owned())
    }

    /// As a line of the summary.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "experiment": self.experiment, "key": self.key, "bound": self.bound.to_text(), "value": self.value,
            "estimate": self.estimate, "verdict": self.verdict.map_or("not measured", Verdict::to_text), "why": self.why,
        })
    }
}

/// How many bounds hold, are missed, are undecided and were not measured.
pub(super) fn count(all: &[Judged]) -> [usize; 4] {
    let with = |verdict| all.iter().filter(|one| one.verdict == verdict).count();
    [with(Some(Verdict::Holds)), with(Some(Verdict::Missed)), with(Some(Verdict::Undecided)), with(None)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_without_a_figure_are_listed_with_the_reason() {
        let results = [json!({
            "experiment": "nemo/throughput",
            "summary": { "roam6_over_plain_250": 1.3, "roam6_over_plain_500": 1.4, "absent": ["ip6tnl: no module"] },
        })];
        let all = judge_all(&results);
        let find = |key: &str| all.iter().find(|one| one.key == key).map(Judged::verdict_in_words).unwrap_or_default();
        assert_eq!(find("roam6_over_plain_500"), "undecided");
        assert_eq!(find("roam6_over_plain_*"), "", "measured under two names");
        assert_eq!(find("xdp_over_plain_*"), "not measured: ip6tnl: no module");
        assert!(find("vm_roam6_over_ip6tnl").starts_with("not measured: only where a clock counts"));
        assert_eq!(find("planned_lost_max"), "not measured: the experiment has no result");
        assert_eq!(count(&all)[2], 2);
    }

    #[test]
    fn a_bound_of_another_kind_of_machine_has_no_verdict() {
        let result = |kinds: Value| {
            [
                json!({ "experiment": "shim6/generation", "machine": { "kinds": kinds }, "summary": { "rate_over_openssl": 6.4 } }),
            ]
        };
        let words = |results: &[Value]| {
            let all = judge_all(results);
            all.iter().find(|one| one.key == "rate_over_openssl").map(Judged::verdict_in_words).unwrap()
        };
        assert_eq!(words(&result(json!([]))), "not measured: not on this machine: avx512");
        assert_eq!(words(&result(json!(["avx512"]))), "undecided");
    }
}
