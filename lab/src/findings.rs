//! Results: the result file of every experiment, and statistics.

use crate::clock;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The findings of an experiment.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// One object for each measured case.
    pub(crate) rows: Vec<Value>,
    /// The figures that are compared with bounds.
    pub(crate) summary: Map<String, Value>,
    /// Failed checks that a correct implementation passes on any machine, in words.
    faults: Vec<String>,
}

impl Findings {
    /// Adds a figure to the summary.
    pub(crate) fn summarise(&mut self, name: &str, value: impl Into<Value>) {
        self.summary.insert(name.to_owned(), value.into());
    }

    /// Records a fault: the run is not sound.
    pub(crate) fn add_fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Records `fault` unless `holds`.
    pub(crate) fn require(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.add_fault(fault());
        }
    }

    /// The faults; the run is sound if there are none.
    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// Writes the result file: experiment, machine, rows, summary, and the conditions of the run.
    pub(crate) fn write(&self, experiment: &str, run: &RunInfo, path: &Path) -> Result<()> {
        let document = json!({
            "experiment": experiment,
            "quick": run.quick,
            "seconds": round(run.began.elapsed().as_secs_f64()),
            "machine": machine(&run.load),
            "sound": self.is_sound(),
            "faults": self.faults,
            "rows": self.rows,
            "summary": self.summary,
        });
        let text = serde_json::to_string_pretty(&document)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}

/// One run of an experiment.
pub(crate) struct RunInfo {
    quick: bool,
    began: Instant,
    load: String,
}

impl RunInfo {
    /// Begins a run now.
    pub(crate) fn begin(quick: bool) -> RunInfo {
        let load = read_trimmed("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
        RunInfo { quick, began: clock::now(), load }
    }
}

/// The `share` quantile (0 to 1) of `values`, as one of the values. `None` if there are none.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The median of the ratios of all rounds.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    percentile(&ratios, 0.5).map(round)
}

/// The lesser of both directions, downward (`false`) and upward (`true`).
pub(crate) fn min_of_directions(of: impl Fn(bool) -> Option<f64>) -> Option<f64> {
    [of(false), of(true)].into_iter().flatten().reduce(f64::min)
}

/// Minimum, median, 95th and 99th percentile and maximum, each rounded to three decimals.
pub(crate) fn distribution(values: &[f64]) -> Value {
    let at = |share| percentile(values, share).map(round);
    json!({ "min": at(0.0), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1.0), "n": values.len() })
}

/// Rounds to three decimals, the precision of the clocks.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The commit of the working directory, or outside of a checkout the version of this program.
pub(crate) fn commit() -> String {
    let commit = command_output("git", &["rev-parse", "--short=12", "HEAD"]);
    if commit.is_empty() { concat!("of version ", env!("CARGO_PKG_VERSION")).to_owned() } else { commit }
}

/// The machine, and its load average before the run.
fn machine(load: &str) -> Value {
    json!({
        "kernel": read_trimmed("/proc/sys/kernel/osrelease"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load": load,
        "commit": commit(),
        "date": command_output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
    })
}

fn read_trimmed(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn command_output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsound_run_lists_its_faults() {
        let mut findings = Findings::default();
        findings.require(true, || unreachable!());
        assert!(findings.is_sound() && findings.faults().is_empty());
        findings.require(1 > 2, || "1 is not more than 2".to_owned());
        assert!(!findings.is_sound());
        assert_eq!(findings.faults(), ["1 is not more than 2"]);
    }

    #[test]
    fn percentiles_are_measured_values() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(percentile(&values, 0.5), Some(3.0));
        assert_eq!(percentile(&values, 0.95), Some(5.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
