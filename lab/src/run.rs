//! One run of an experiment: its progress, its findings and its result file.

use crate::clock;
use crate::statistics::round;
use crate::ui::Progress;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A run and its findings so far.
pub(crate) struct Run {
    /// Whether the quick variant is requested, under a minute.
    pub(crate) quick: bool,
    /// One object for each measured case.
    pub(crate) rows: Vec<Value>,
    /// The figures that are compared with bounds.
    pub(crate) summary: Map<String, Value>,
    /// Failed checks that a correct implementation passes on any machine, in words; the run is sound if there are none.
    pub(crate) faults: Vec<String>,
    progress: Progress,
    began: Instant,
    /// Load average before the run.
    load: String,
}

impl Run {
    /// Begins a run now.
    pub(crate) fn begin(quick: bool) -> Run {
        let load = read_trimmed("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
        let (progress, began) = (Progress::new(), clock::now());
        Run { quick, rows: Vec::new(), summary: Map::new(), faults: Vec::new(), progress, began, load }
    }

    /// Sets the number of steps that the experiment has.
    pub(crate) fn set_steps(&self, total: usize) {
        self.progress.set_steps(total as u64);
    }

    /// Begins the next step and shows `what` it does.
    pub(crate) fn step(&self, what: &str) {
        self.progress.step(what);
    }

    /// Adds a figure to the summary.
    pub(crate) fn summarise(&mut self, name: &str, value: impl Into<Value>) {
        self.summary.insert(name.to_owned(), value.into());
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
    pub(crate) fn write(&self, experiment: &str, path: &Path) -> Result<()> {
        let document = json!({
            "experiment": experiment,
            "quick": self.quick,
            "seconds": round(self.began.elapsed().as_secs_f64()),
            "machine": machine(&self.load),
            "sound": self.is_sound(),
            "faults": self.faults,
            "rows": self.rows,
            "summary": self.summary,
        });
        let text = serde_json::to_string_pretty(&document)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
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
        let mut run = Run::begin(true);
        run.require(true, || unreachable!());
        assert!(run.is_sound() && run.faults.is_empty());
        run.require(1 > 2, || "1 is not more than 2".to_owned());
        assert!(!run.is_sound());
        assert_eq!(run.faults, ["1 is not more than 2"]);
    }
}
