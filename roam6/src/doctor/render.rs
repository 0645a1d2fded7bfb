//! Findings as text, and as JSON whose keys keep their names (docs/troubleshooting.md).

use super::facts::Facts;
use super::finding::{Finding, Findings, Level};
use serde_json::{Value, json};
use std::fmt::Write;

/// The form of the JSON; it changes only if a key changes its meaning.
const SCHEMA: u32 = 1;

/// One line for each check, then the first fault with its cure. Checks without a finding are omitted if `brief`.
pub(crate) fn to_text(facts: &Facts, found: &Findings, brief: bool) -> String {
    let mut text = String::new();
    let shown = |finding: &&Finding| !(brief && matches!(finding.level, Level::Ok | Level::Skipped));
    for Finding { id, subject, level, text: what, cure } in found.iter().filter(shown) {
        let subject =
            if subject.is_empty() || what.contains(subject.as_str()) { String::new() } else { format!("{subject}: ") };
        let _ = writeln!(text, "{:<8} {id:<20} {subject}{what}", level.as_str());
        if *level == Level::Warning && !cure.is_empty() {
            let _ = writeln!(text, "{:30}{cure}", "");
        }
    }
    match found.first_fault() {
        Some(first) => {
            let _ = write!(text, "\nFirst fault: {}\nCure:\n    {}\n", first.text, first.cure);
        }
        None if facts.daemon.is_err() => {}
        None => text.push_str("\nNo fault found.\n"),
    }
    if facts.probes.is_none() && facts.daemon.is_ok() {
        text.push_str("Not examined: what answers in the network. Run it as root, without --quick.\n");
    }
    text
}

/// All findings as JSON.
pub(crate) fn to_json(facts: &Facts, found: &Findings) -> Value {
    let config = facts.config.as_ref().ok();
    let role = config.map(|config| match (&config.home_agent, &config.mobile_router) {
        (Some(_), _) => "home_agent",
        (None, Some(_)) => "mobile_router",
        (None, None) => "other",
    });
    let checks: Vec<Value> = found
        .iter()
        .map(|Finding { id, subject, level, text, cure }| {
            json!({ "id": id, "subject": subject, "level": level.as_str(), "text": text, "cure": cure })
        })
        .collect();
    let verdict = match (found.first_fault(), found.has(Level::Warning)) {
        (Some(_), _) => Level::Fault,
        (None, true) => Level::Warning,
        (None, false) => Level::Ok,
    };
    json!({
        "schema": SCHEMA,
        "name": config.map(|config| &config.name),
        "role": role,
        "verdict": verdict.as_str(),
        "first": found.first_fault().map(|finding| finding.id),
        "probed": facts.probes.is_some(),
        "checks": checks,
    })
}
