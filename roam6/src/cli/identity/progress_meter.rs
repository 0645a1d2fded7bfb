//! Progress of a search: a bar on a terminal, otherwise a line every few seconds.

use nix::time::{ClockId, clock_gettime};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Intervals between updates of the bar, and between lines.
const BAR_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Columns of the bar.
const WIDTH: usize = 30;
/// Fewer candidates are counted in thousands, more in millions.
const THOUSANDS_BELOW: u64 = 10_000_000;

/// Shows the progress of one search.
pub(super) struct ProgressMeter {
    title: String,
    expected: u64,
    terminal: bool,
    began: Duration,
    first: Option<u64>,
    drawn: Option<Duration>,
}

impl ProgressMeter {
    /// For a search of `expected` candidates on average.
    pub(super) fn new(title: &str, expected: u64) -> ProgressMeter {
        let terminal = std::io::stderr().is_terminal();
        ProgressMeter { title: title.to_owned(), expected, terminal, began: now(), first: None, drawn: None }
    }

    /// Shows the number of candidates tried, including those of earlier runs.
    pub(super) fn show(&mut self, tried: u64) {
        let (now, pause) = (now(), if self.terminal { BAR_INTERVAL } else { LINE_INTERVAL });
        let first = *self.first.get_or_insert(tried);
        if now.saturating_sub(self.drawn.unwrap_or(self.began)) < pause {
            return;
        }
        self.drawn = Some(now);
        let rate = tried.saturating_sub(first) as f64 / now.saturating_sub(self.began).as_secs_f64();
        let text = line(&self.title, tried, self.expected, rate);
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let _ = write!(std::io::stderr(), "{before}{text}{after}");
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if self.terminal && self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The search is memoryless: the expected remaining time is that of a whole search (RFC 3972 §4).
fn line(title: &str, tried: u64, expected: u64, rate: f64) -> String {
    let share = (tried as f64 / expected as f64).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    let bar: String = (0..WIDTH).map(|column| if column < full { '#' } else { '.' }).collect();
    let seconds = expected as f64 / rate;
    let (unit, word) = if expected < THOUSANDS_BELOW { (1e3, "thousand") } else { (1e6, "million") };
    let (tried, expected, speed) = (tried as f64 / unit, expected as f64 / unit, rate / unit);
    let text = format!("{title} {bar} {tried:.0} of about {expected:.0} {word}");
    // No candidate was tried since the last update, on a busy machine.
    if rate < 1.0 {
        return text;
    }
    format!("{text}, {speed:.1} {word}/s, a whole search about {}", format_seconds(seconds))
}

/// Formats seconds with a suitable unit.
pub(super) fn format_seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_has_count_rate_and_duration() {
        let line = line("h1.toml", 50_000_000, 100_000_000, 2e6);
        assert!(line.starts_with("h1.toml ###############..............."), "{line}");
        assert!(line.ends_with("50 of about 100 million, 2.0 million/s, a whole search about 50.0 s"), "{line}");
        let first = super::line("h1.toml", 0, 65_536, 0.0);
        assert!(first.ends_with(".. 0 of about 66 thousand"), "{first}");
        assert_eq!(format_seconds(0.002), "2.0 ms");
        assert_eq!(format_seconds(7200.0), "2.0 h");
    }
}
