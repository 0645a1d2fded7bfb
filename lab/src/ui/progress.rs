//! Progress of an experiment and its remaining time: a progress bar on a terminal, lines elsewhere.

use crate::clock;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The progress of one experiment.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    done: u64,
    began: Instant,
    last_line: Option<Instant>,
}

/// Minimum time between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Progress {
    /// An experiment of `total` steps.
    pub(crate) fn new(total: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)") {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar, total, done: 0, began: clock::now(), last_line: None }
    }

    /// Shows the present step.
    pub(crate) fn message(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => {
                if self.last_line.is_none_or(|told| told.elapsed() >= LINE_INTERVAL) {
                    self.last_line = Some(clock::now());
                    eprintln!("{}/{} {what}{}", self.done, self.total, self.eta());
                }
            }
        }
    }

    /// Counts a completed step.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }

    fn eta(&self) -> String {
        if self.done == 0 {
            return String::new();
        }
        let seconds =
            self.began.elapsed().as_secs_f64() / self.done as f64 * self.total.saturating_sub(self.done) as f64;
        format!(" (about {seconds:.0} s left)")
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
