//! One run of an experiment: its progress, its findings and its result file.

use crate::clock;
use crate::judge::{Bound, Estimate, NamedEstimate, Verdict, Watch};
use crate::statistics::round;
use crate::ui::Progress;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A part of an experiment: what it measures, and how.
pub(crate) type Part = (&'static str, fn(&mut Run) -> Result<()>);

/// A run and its findings so far.
pub(crate) struct Run {
    /// The name of the experiment.
    pub(crate) experiment: String,
    /// Whether the quick variant is requested, under a minute.
    pub(crate) quick: bool,
    /// Text in the names of the parts that are to run; `None`: all run.
    pub(crate) part: Option<String>,
    /// One object for each measured case.
    pub(crate) rows: Vec<Value>,
    /// The figures that are compared with bounds.
    pub(crate) summary: Map<String, Value>,
    /// Intervals of figures of the summary.
    estimates: Map<String, Value>,
    /// Failed checks that a correct implementation passes on any machine, in words; the run is sound if there are none.
    pub(crate) faults: Vec<String>,
    /// How many rounds there were, for each series of them.
    pub(crate) rounds: Vec<Value>,
    progress: Progress,
    watch: Watch,
    began: Instant,
    /// Load average before the run.
    load: String,
}

impl Run {
    /// Begins a run of an experiment now.
    pub(crate) fn begin(experiment: &str, quick: bool, part: Option<&str>) -> Run {
        let load = read_trimmed("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
        let (progress, began) = (Progress::new(), clock::now());
        let (summary, estimates) = (Map::new(), Map::new());
        let (rows, faults, rounds) = (Vec::new(), Vec::new(), Vec::new());
        let (experiment, watch) = (experiment.to_owned(), Watch::begin());
        let part = part.map(str::to_owned);
        Run { experiment, quick, part, rows, summary, estimates, faults, rounds, progress, watch, began, load }
    }

    /// Sets the number of steps that the experiment has.
    pub(crate) fn set_steps(&self, total: usize) {
        self.progress.set_steps(total as u64);
    }

    /// Begins the next step and shows `what` it does.
    pub(crate) fn step(&self, what: &str) {
        self.progress.step(what);
    }

    /// Runs the parts of an experiment, a step each. One that fails is a fault, and hides no figure of another one.
    pub(crate) fn run_parts(&mut self, parts: &[Part]) {
        let selected: Vec<&Part> = parts.iter().filter(|(name, _)| self.selects(name)).collect();
        self.set_steps(selected.len());
        for (name, part) in selected {
            self.step(name);
            self.run_part(name, *part);
        }
    }

    /// Whether a part is to run.
    pub(crate) fn selects(&self, part: &str) -> bool {
        self.part.as_ref().is_none_or(|text| part.contains(text))
    }

    /// Runs a part that shows its own steps. If it fails, that is a fault.
    pub(crate) fn run_part(&mut self, name: &str, part: fn(&mut Run) -> Result<()>) {
        if let Err(error) = part(self) {
            self.faults.push(format!("{name}: {error:#}"));
        }
    }

    /// Adds a figure to the summary.
    pub(crate) fn summarise(&mut self, name: &str, value: impl Into<Value>) {
        self.summary.insert(name.to_owned(), value.into());
    }

    /// Adds a figure and its interval to the summary; `None`: it was not measured.
    pub(crate) fn estimate(&mut self, name: &str, estimate: Option<Estimate>) {
        self.summarise(name, estimate.as_ref().map(|estimate| round(estimate.value)));
        if let Some(estimate) = estimate {
            self.estimates.insert(name.to_owned(), json!(estimate.rounded()));
        }
    }

    /// Adds figures and their intervals.
    pub(crate) fn estimate_all(&mut self, estimates: impl IntoIterator<Item = NamedEstimate>) {
        estimates.into_iter().for_each(|(name, estimate)| self.estimate(&name, estimate));
    }

    /// Requires that a figure does not miss its bound, which must hold on any machine.
    pub(crate) fn require_bound(&mut self, name: &str) {
        let value = self.summary.get(name).and_then(Value::as_f64);
        let estimate = self.estimates.get(name).and_then(|estimate| Estimate::deserialize(estimate).ok());
        let Some(bound) = Bound::of(&self.experiment, name) else { return };
        let is_missed = bound.judge(value, estimate.as_ref()) == Verdict::Missed;
        self.require(!is_missed, || format!("{name} is {value:?}, and should be {}", bound.to_text()));
    }

    /// Records `fault` unless `holds`.
    pub(crate) fn require(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }

    /// Records whether the TCP connections survived, which is required.
    pub(crate) fn require_tcp(&mut self, survived: bool) {
        self.summarise("tcp_survived", u8::from(survived));
        self.require(survived, || "a TCP connection did not survive".to_owned());
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// Writes the result file: experiment, machine, rows, summary, and the conditions of the run.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let document = json!({
            "experiment": self.experiment,
            "quick": self.quick,
            "part": self.part,
            "seconds": round(self.began.elapsed().as_secs_f64()),
            "machine": machine(&self.load, self.watch.end().to_json()),
            "rounds": self.rounds,
            "sound": self.is_sound(),
            "faults": self.faults,
            "rows": self.rows,
            "summary": self.summary,
            "estimates": self.estimates,
        });
        let text = serde_json::to_string_pretty(&document)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The end of the commit's name if files differ from it.
pub(crate) const DIRTY: &str = "-dirty";

/// The commit of the working directory, or outside of a checkout the version of this program.
pub(crate) fn commit() -> String {
    let commit = command_output("git", &["rev-parse", "--short=12", "HEAD"]);
    if commit.is_empty() {
        return concat!("of version ", env!("CARGO_PKG_VERSION")).to_owned();
    }
    let changes = command_output("git", &["status", "--porcelain", "--untracked-files=no"]);
    if changes.is_empty() { commit } else { commit + DIRTY }
}

/// The machine, its load average before the run, and what disturbed the run.
fn machine(load: &str, disturbance: Value) -> Value {
    json!({
        "kernel": read_trimmed("/proc/sys/kernel/osrelease"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "processor": processor(),
        "kinds": kinds(),
        "load": load,
        "disturbance": disturbance,
        "commit": commit(),
        "date": command_output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
    })
}

/// The kinds of machine, of those that bounds are for (`where` in lab/papers/bounds.csv).
fn kinds() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let has_avx512 = std::arch::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    let has_avx512 = false;
    let kinds = [(has_avx512, "avx512"), (clock::counts_instructions(), "counted")];
    kinds.into_iter().filter_map(|(is_one, kind)| is_one.then_some(kind)).collect()
}

/// The name of the processor; empty if the kernel does not tell.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or(String::new(), |(_, name)| name.trim().to_owned())
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
        let mut run = Run::begin("nemo/handover", true, None);
        run.require(true, || unreachable!());
        assert!(run.is_sound() && run.faults.is_empty());
        run.require(1 > 2, || "1 is not more than 2".to_owned());
        assert!(!run.is_sound());
        assert_eq!(run.faults, ["1 is not more than 2"]);
    }
}
