//! The last events of the daemon.

use super::{RETRY, Site};
use crate::control::Request;
use crate::control::client::connect;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::PoisonError;
use std::thread;

/// Most events kept.
const MAX_EVENTS: usize = 512;
/// Longest line of the event stream, octets; a row of a state may be longer, an event is not.
const MAX_LINE: u64 = 1 << 20;
/// Longest event kept, octets.
const MAX_EVENT: usize = 2000;
/// Events of single packets, which would leave no room for others: they are counted.
const FREQUENT: [&str; 1] = ["dropped"];

/// The last events, the latest last.
#[derive(Debug, Default)]
pub(super) struct Events {
    lines: VecDeque<String>,
    /// Number of the event after the last one.
    next: u64,
}

impl Events {
    /// The events since the one with the number `after`, and the number to ask for next, as JSON.
    pub(super) fn since(&self, after: u64) -> String {
        let kept = u64::try_from(self.lines.len()).unwrap_or(u64::MAX);
        let first = self.next.saturating_sub(kept);
        // A number of an earlier process is ahead: the page starts over.
        let after = if after > self.next { 0 } else { after };
        let skip = usize::try_from(after.saturating_sub(first)).unwrap_or(usize::MAX);
        let events: Vec<&str> = self.lines.iter().skip(skip).map(String::as_str).collect();
        format!("{{\"next\":{},\"events\":[{}]}}", self.next, events.join(","))
    }

    /// Adds a line, which is JSON.
    fn add(&mut self, line: String) {
        if self.lines.len() >= MAX_EVENTS {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        self.next = self.next.saturating_add(1);
    }
}

/// Follows the daemon's events as long as the process lives; a daemon that restarts is followed again.
pub(super) fn follow(site: &Site) {
    loop {
        if let Ok(stream) = connect(&Request::Watch, &site.socket) {
            let mut reader = BufReader::new(stream);
            while let Some(line) = next_line(&mut reader) {
                if is_kept(&line) {
                    site.events.lock().unwrap_or_else(PoisonError::into_inner).add(line);
                }
            }
        }
        thread::sleep(RETRY);
    }
}

fn next_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    reader.take(MAX_LINE).read_until(b'\n', &mut line).ok().filter(|count| *count > 0)?;
    let line = String::from_utf8(line).ok()?;
    line.strip_suffix('\n').map(str::to_owned)
}

/// Whether a line is an event, not a row of the state at the beginning of the stream, and is worth keeping.
fn is_kept(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        event: &'a str,
    }
    let Ok(Kind { event }) = serde_json::from_str::<Kind<'_>>(line) else { return false };
    line.len() <= MAX_EVENT && !event.starts_with("state_") && !FREQUENT.contains(&event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(events: &Events, after: u64) -> (u64, Vec<u64>) {
        let page: serde_json::Value = serde_json::from_str(&events.since(after)).unwrap();
        let numbers = page["events"].as_array().unwrap().iter().map(|event| event.as_u64().unwrap()).collect();
        (page["next"].as_u64().unwrap(), numbers)
    }

    #[test]
    fn events_are_numbered_and_bounded() {
        let mut events = Events::default();
        for number in 0..600 {
            events.add(number.to_string());
        }
        assert_eq!(page(&events, 0).1.len(), MAX_EVENTS);
        assert_eq!(page(&events, 598), (600, vec![598, 599]));
        assert_eq!(page(&events, 600), (600, vec![]));
        assert_eq!(page(&events, 9999).1.len(), MAX_EVENTS, "a number of an earlier process");
    }

    #[test]
    fn rows_of_the_state_and_frequent_events_are_not_kept() {
        assert!(is_kept(r#"{"at":1,"event":"bound"}"#));
        for line in [r#"{"event":"state_link"}"#, r#"{"event":"dropped"}"#, "no JSON", "{}"] {
            assert!(!is_kept(line), "{line}");
        }
        assert!(!is_kept(&format!(r#"{{"event":"bound","why":"{}"}}"#, "x".repeat(MAX_EVENT))));
    }
}
