//! Figures of results, and the verdicts on them.

use crate::judge::{Bound, Estimate, Verdict};
use serde::Deserialize;
use serde_json::Value;

/// One figure of a summary.
pub(super) struct Figure<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a Value,
    pub(super) estimate: Option<Estimate>,
    pub(super) bound: Option<Bound>,
    /// Whether the machine is of the kind that the bound is for.
    is_of_kind: bool,
}

impl<'a> Figure<'a> {
    /// All figures of a result.
    pub(super) fn all(result: &'a Value) -> Vec<Figure<'a>> {
        let experiment = name(result);
        let summary = result.get("summary").and_then(Value::as_object);
        let estimate = |key: &str| Estimate::deserialize(result.get("estimates")?.get(key)?).ok();
        let kinds = || result.pointer("/machine/kinds").and_then(Value::as_array).into_iter().flatten();
        let figure = |(key, value): (&'a String, &'a Value)| {
            let (estimate, bound) = (estimate(key), Bound::of(experiment, key));
            let is_of_kind =
                bound.is_none_or(|bound| bound.place().is_empty() || kinds().any(|kind| kind == bound.place()));
            Figure { key, value, estimate, bound, is_of_kind }
        };
        summary.into_iter().flatten().map(figure).collect()
    }

    /// The verdict, if there is a bound, and it is for this kind of machine.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.bound.filter(|_| self.is_of_kind).map(|bound| bound.judge(self.value.as_f64(), self.estimate.as_ref()))
    }
}

/// The experiment of a result; empty if it is none.
pub(super) fn name(result: &Value) -> &str {
    result.get("experiment").and_then(Value::as_str).unwrap_or_default()
}
