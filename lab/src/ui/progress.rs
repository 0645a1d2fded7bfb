//! Progress of an experiment and its remaining time: a progress bar on a terminal, lines elsewhere.

use crate::clock;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The progress of one experiment.
pub(crate) struct Progress {
    /// Hidden without a terminal.
    bar: ProgressBar,
    last_line: Mutex<Option<Instant>>,
}

/// Minimum time between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Progress {
    /// An experiment whose number of steps is not known yet.
    pub(crate) fn new() -> Progress {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)") {
            bar.set_style(style);
        }
        Progress { bar, last_line: Mutex::default() }
    }

    /// Sets the number of steps.
    pub(crate) fn set_steps(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Begins the next step, which completes the previous one, and shows it.
    pub(crate) fn step(&self, what: &str) {
        if !self.bar.message().is_empty() {
            self.bar.inc(1);
        }
        self.bar.set_message(what.to_owned());
        let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_hidden() && last.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
            *last = Some(clock::now());
            eprintln!("{}/{} {what}{}", self.bar.position(), self.bar.length().unwrap_or(0), self.eta());
        }
    }

    fn eta(&self) -> String {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        if done == 0 {
            return String::new();
        }
        let seconds = self.bar.elapsed().as_secs_f64() / done as f64 * total.saturating_sub(done) as f64;
        format!(" (about {seconds:.0} s left)")
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
