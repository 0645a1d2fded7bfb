//! Log lines on stderr: for the journal with its level, for a terminal with the time. A flood of one kind is summed up.

use crate::render::event::timestamp;
use core::fmt::Display;
use core::time::Duration;
use roam6_proto::few;
use roam6_proto::{Report, Time};
use std::io::Write;

/// Most lines of one kind in one [`PERIOD`].
const MAX_LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);

/// How much a line matters (the numbers of syslog).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
    Debug = 7,
}

/// Where log lines go.
pub(crate) struct Log {
    journal: bool,
    least: Level,
    began: Time,
    counts: few::Map<&'static str, u32>,
}

impl Log {
    /// Writes to stderr, in the manner of whoever reads it. Lines that matter less than `least` are left out.
    pub(crate) fn to_stderr(least: Level) -> Log {
        let journal = std::env::var_os("JOURNAL_STREAM").is_some();
        Log { journal, least, began: Time::ZERO, counts: few::Map::new() }
    }

    /// Writes one line.
    pub(crate) fn write(&self, level: Level, unix_micros: u64, text: &dyn Display) {
        if level > self.least {
            return;
        }
        let mut stderr = std::io::stderr().lock();
        // Nobody reads: then nobody misses it.
        let _ = if self.journal {
            writeln!(stderr, "<{}>{text}", level as u8)
        } else {
            writeln!(stderr, "{} {text}", timestamp(unix_micros))
        };
    }

    /// Writes a report, unless there were too many of its kind.
    pub(crate) fn report(&mut self, now: Time, unix_micros: u64, report: &Report) {
        let level = level(report);
        if level > self.least {
            return;
        }
        self.sum_up(now, unix_micros);
        let count = self.counts.entry(report.name()).or_default();
        *count = count.saturating_add(1);
        if *count <= MAX_LINES {
            self.write(level, unix_micros, report);
        }
    }

    /// Once a period has ended, tells what was left out of it.
    pub(crate) fn sum_up(&mut self, now: Time, unix_micros: u64) {
        if now.since(self.began) < PERIOD {
            return;
        }
        self.began = now;
        for (name, count) in std::mem::take(&mut self.counts) {
            if let Some(more @ 1..) = count.checked_sub(MAX_LINES) {
                self.write(Level::Warning, unix_micros, &format_args!("{more} more lines like `{name}` left out"));
            }
        }
    }
}

fn level(report: &Report) -> Level {
    match report {
        Report::Failed { .. } | Report::Duplicate { .. } | Report::TableFull { .. } => Level::Error,
        Report::Notice { .. }
        | Report::Refused { .. }
        | Report::Unbound { .. }
        | Report::PathDown { .. }
        | Report::BindingError { .. } => Level::Warning,
        Report::Dropped { .. } | Report::Solicited { .. } | Report::UpdateSent { .. } | Report::AckReceived { .. } => {
            Level::Debug
        }
        Report::Echo { .. }
        | Report::SubflowUp { .. }
        | Report::SubflowChanged { .. }
        | Report::SubflowDown { .. }
        | Report::Disconnected { .. } => Level::Debug,
        _ => Level::Info,
    }
}
