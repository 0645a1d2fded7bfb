//! Verdicts of two reports side by side: figures repeat if the same bounds get the same verdicts.

use super::figure::{self, Figure};
use crate::judge::{Estimate, Verdict};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The share of bounds that must get the same verdict.
const LEAST_SHARE: f64 = 0.95;

/// The verdict on a figure, and the figure in words.
type Judged = (Verdict, String);

/// Prints the share of equal verdicts, and those that differ. `true` if there are enough equal ones.
pub(crate) fn compare(one: &Path, other: &Path) -> Result<bool> {
    let [first, second] = [judge(one)?, judge(other)?];
    ensure!(!first.is_empty(), "no figure with a bound in {}", one.display());
    let (text, is_enough) = describe(&first, &second);
    print!("{text}");
    Ok(is_enough)
}

/// The verdicts on all figures with bounds in a folder of results, by experiment and key.
fn judge(folder: &Path) -> Result<BTreeMap<(String, String), Judged>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let result: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is not a result", path.display()))?;
        for figure in Figure::all(&result) {
            if let Some(verdict) = figure.verdict() {
                let interval = figure.estimate.as_ref().map_or("no interval".to_owned(), Estimate::to_text);
                let words = format!("{} ({}: {interval})", verdict.to_text(), figure.value);
                all.insert((figure::name(&result).to_owned(), figure.key.to_owned()), (verdict, words));
            }
        }
    }
    Ok(all)
}

fn describe(first: &BTreeMap<(String, String), Judged>, second: &BTreeMap<(String, String), Judged>) -> (String, bool) {
    let mut text = String::new();
    let absent = || (None, "not measured".to_owned());
    let keys: std::collections::BTreeSet<_> = first.keys().chain(second.keys()).collect();
    let mut same = 0;
    for key in &keys {
        let of = |all: &BTreeMap<_, Judged>| {
            all.get(*key).map_or_else(absent, |(verdict, words)| (Some(*verdict), words.clone()))
        };
        let ((one, one_words), (other, other_words)) = (of(first), of(second));
        if one == other {
            same += 1;
        } else {
            text += &format!("{} {}: {one_words}; {other_words}\n", key.0, key.1);
        }
    }
    let share = f64::from(same) / keys.len().max(1) as f64;
    text += &format!("{same} of {} bounds have the same verdict: {:.1} %\n", keys.len(), share * 100.0);
    (text, share >= LEAST_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_listed_with_both_figures() {
        let key = |name: &str| ("nemo/flows".to_owned(), name.to_owned());
        let judged = |verdict: Verdict| (verdict, verdict.to_text().to_owned());
        let first = BTreeMap::from([(key("a"), judged(Verdict::Holds)), (key("b"), judged(Verdict::Holds))]);
        let second = BTreeMap::from([(key("a"), judged(Verdict::Holds)), (key("b"), judged(Verdict::Undecided))]);
        let (text, is_enough) = describe(&first, &second);
        assert_eq!(text, "nemo/flows b: holds; undecided\n1 of 2 bounds have the same verdict: 50.0 %\n");
        assert!(!is_enough);
        assert!(describe(&first, &first).1);
    }
}
