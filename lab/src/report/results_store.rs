//! Results of earlier runs: a usable result is not produced again, and its duration predicts the next run's.

use crate::{experiments, run};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Durations of experiments.
const SECONDS: &str = include_str!("seconds.csv");
/// The duration of an experiment that is not there, seconds: quick, and full.
const DEFAULT_SECONDS: (u64, u64) = (45, 240);

/// Experiments with their expected durations, seconds: quick, and full.
pub(super) fn expected_seconds() -> impl Iterator<Item = (&'static str, u64, u64)> {
    SECONDS.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(|line| {
        let mut columns = line.split(',');
        let (name, mut seconds) = (columns.next()?, columns.map(str::parse));
        Some((name, seconds.next()?.ok()?, seconds.next()?.ok()?))
    })
}

/// The results in a folder, of any version, in the order of the experiments.
pub(super) fn read_all(folder: &Path) -> Vec<Value> {
    experiments::ALL.iter().filter_map(|one| read_result(&result_path(folder, one.name))).collect()
}

/// The file of an experiment's result.
fn result_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{}.json", name.replace('/', "-")))
}

fn read_result(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// A directory of results.
pub(super) struct ResultsStore {
    folder: PathBuf,
    quick: bool,
    commit: String,
}

impl ResultsStore {
    pub(super) fn open(folder: &Path, quick: bool) -> Result<ResultsStore> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(ResultsStore { folder: folder.to_owned(), quick, commit: run::commit() })
    }

    pub(super) fn result(&self, name: &str) -> PathBuf {
        result_path(&self.folder, name)
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.log", name.replace('/', "-")))
    }

    /// The last result, of any version.
    pub(super) fn read(&self, name: &str) -> Option<Value> {
        read_result(&self.result(name))
    }

    /// Whether there is a result of this version, and a full one if that is required.
    pub(super) fn has(&self, name: &str) -> bool {
        self.read(name).is_some_and(|result| self.is_usable(&result))
    }

    fn is_usable(&self, result: &Value) -> bool {
        let commit = result.pointer("/machine/commit").and_then(Value::as_str);
        let thorough = self.quick || result.get("quick") == Some(&Value::Bool(false));
        let is_clean = !self.commit.ends_with(run::DIRTY);
        commit == Some(self.commit.as_str()) && is_clean && thorough
    }

    /// Expected duration, seconds: that of the last run here, or else the one of the table.
    pub(super) fn seconds(&self, name: &str) -> u64 {
        let known = expected_seconds().find(|(known, ..)| *known == name);
        let (quick, full) = known.map_or(DEFAULT_SECONDS, |(_, quick, full)| (quick, full));
        let guess = if self.quick { quick } else { full };
        let last = self.read(name).filter(|result| result.get("quick") == Some(&Value::Bool(self.quick)));
        last.and_then(|result| result.get("seconds")?.as_f64()).map_or(guess, |seconds| seconds.ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_quick_result_is_not_used_in_a_full_report() {
        let store = |quick| ResultsStore { folder: PathBuf::new(), quick, commit: "c0ffee".to_owned() };
        let result = |quick: bool, commit: &str| json!({ "quick": quick, "machine": { "commit": commit } });
        assert!(store(true).is_usable(&result(true, "c0ffee")));
        assert!(store(true).is_usable(&result(false, "c0ffee")));
        assert!(store(false).is_usable(&result(false, "c0ffee")));
        assert!(!store(false).is_usable(&result(true, "c0ffee")));
        assert!(!store(true).is_usable(&result(true, "beef")), "another version");
        let dirty = ResultsStore { folder: PathBuf::new(), quick: true, commit: "c0ffee-dirty".to_owned() };
        assert!(!dirty.is_usable(&result(true, "c0ffee-dirty")), "the files may have changed since");
    }
}
