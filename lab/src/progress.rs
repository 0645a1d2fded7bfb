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
    told: Option<Instant>,
}

/// Minimum time between two lines without a terminal.
const QUIET: Duration = Duration::from_secs(10);

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
        Progress { bar, total, done: 0, began: clock::now(), told: None }
    }

    /// Shows the present step.
    pub(crate) fn say(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => {
                if self.told.is_none_or(|told| told.elapsed() >= QUIET) {
                    self.told = Some(clock::now());
                    eprintln!("{}/{} {what}{}", self.done, self.total, self.left());
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

    fn left(&self) -> String {
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
