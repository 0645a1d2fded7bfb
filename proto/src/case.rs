//! A recorded conversation as text: the inputs of an engine and its outputs, one line each.
//!
//! The daemon records these, tests replay and compare them, and a sequence chart is drawn from them.

use crate::base::hex;
use crate::base::ids::PutId;
use crate::role::Role;
use crate::{Engine, Input, Key, Node, Outbox, Output, Time};
use core::fmt::Write;
use derive_more::Display;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A conversation.
///
/// ```text
/// # title
/// role {"home_agent":{...}}
/// seed 00...
/// @12.000000 < {"link":{...}}
/// > {"transmit":{...}}
/// ```
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Case {
    /// What it shows, line by line.
    pub title: Vec<String>,
    /// The roles of the node.
    pub roles: Vec<Role>,
    /// Seed of the node's randomness.
    pub seed: [u8; 32],
    /// What happened.
    pub steps: Vec<Step>,
}

/// One input and the outputs it caused.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Time of the input.
    pub at: Time,
    /// The input of the node.
    pub input: Input,
    /// The outputs, in order.
    pub outputs: Vec<Output>,
}

/// Why a text is not a case.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
#[display("line {line}: {why}")]
pub struct CaseError {
    /// Line, counted from 1; 0 for the text as a whole.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl core::error::Error for CaseError {}

impl Case {
    /// Reads a case. Comments before the first line of another kind are its title, later ones are skipped.
    ///
    /// # Errors
    /// The first line that is not of the form above.
    pub fn parse(text: &str) -> Result<Case, CaseError> {
        let mut case = Case::default();
        for (index, line) in text.lines().enumerate() {
            case.parse_line(line.trim_end()).map_err(|why| CaseError { line: index.saturating_add(1), why })?;
        }
        if case.roles.is_empty() {
            return Err(CaseError { line: 0, why: "no role".to_owned() });
        }
        Ok(case)
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            if self.roles.is_empty() {
                self.title.push(comment.trim().to_owned());
            }
        } else if let Some(role) = line.strip_prefix("role ") {
            self.roles.push(from_json(role)?);
        } else if let Some(seed) = line.strip_prefix("seed ") {
            let seed = hex::decode(seed).and_then(|bytes| bytes.try_into().ok());
            self.seed = seed.ok_or("a seed is 64 hexadecimal digits")?;
        } else if let Some(step) = line.strip_prefix('@') {
            let (at, input) = step.split_once(" < ").ok_or("an input is written as @SECONDS < INPUT")?;
            let at = parse_time(at).ok_or("a time is written as SECONDS.MICROSECONDS, six digits")?;
            if self.steps.last().is_some_and(|last| last.at > at) {
                return Err("time goes backwards".to_owned());
            }
            self.steps.push(Step { at, input: from_json(input)?, outputs: Vec::new() });
        } else if let Some(output) = line.strip_prefix("> ") {
            let step = self.steps.last_mut().ok_or("an output before any input")?;
            step.outputs.push(from_json(output)?);
        } else if !line.is_empty() {
            return Err("begins with none of # role seed @ >".to_owned());
        }
        Ok(())
    }

    /// Feeds the same inputs to a new node of the same roles and seed, and records its outputs. An outcome
    /// answers the oldest `Put` of its key, because a recording has no identifiers of `Put`s.
    pub fn replay(&self) -> Case {
        let mut node = Node::from_roles(&self.roles, self.seed);
        let mut out = Outbox::new();
        let mut replayed = self.clone();
        let mut waiting: BTreeMap<Key, VecDeque<PutId>> = BTreeMap::new();
        for step in &mut replayed.steps {
            let mut input = step.input.clone();
            if let Input::Outcome(outcome) = &mut input {
                outcome.id = waiting.get_mut(&outcome.key).and_then(VecDeque::pop_front).unwrap_or_default();
            }
            node.handle(step.at, &input, &mut out);
            step.outputs = out.drain().collect();
            for output in &mut step.outputs {
                if let Output::Put(put) = output {
                    waiting.entry(put.item.key()).or_default().push_back(core::mem::take(&mut put.id));
                }
            }
        }
        replayed
    }

    /// Writes the whole case; the `remark` on an input or output precedes it as a comment.
    pub fn render(&self, remark: impl Fn(Line<'_>) -> Option<String>) -> String {
        let mut text = String::new();
        for line in &self.title {
            let _ = writeln!(text, "{}", format!("# {line}").trim_end());
        }
        text.push_str(&header(&self.roles, self.seed));
        for step in &self.steps {
            push_line(&mut text, remark(Line::Input(&step.input)), &input_line(step.at, &step.input));
            for output in &step.outputs {
                push_line(&mut text, remark(Line::Output(output)), &output_line(output));
            }
        }
        text
    }
}

/// A line one may have a remark about.
#[derive(Debug, Clone, Copy)]
pub enum Line<'a> {
    /// An input.
    Input(&'a Input),
    /// An output.
    Output(&'a Output),
}

/// The first lines of a recording.
pub fn header(roles: &[Role], seed: [u8; 32]) -> String {
    let mut text = String::new();
    for role in roles {
        let _ = writeln!(text, "role {}", to_json(role));
    }
    let _ = writeln!(text, "seed {}", hex::encode(&seed));
    text
}

/// The line of one input, without its end.
pub fn input_line(at: Time, input: &Input) -> String {
    format!("@{at} < {}", to_json(input))
}

/// The line of one output, without its end.
pub fn output_line(output: &Output) -> String {
    format!("> {}", to_json(output))
}

#[cfg(any(test, feature = "fuzzing"))]
/// Reads `data` as a case, and one that can be read must come out of its own text the same.
///
/// # Panics
/// If it does not.
pub fn scenario(data: &[u8]) {
    let Some(case) = core::str::from_utf8(data).ok().and_then(|text| Case::parse(text).ok()) else { return };
    assert_eq!(Case::parse(&case.render(|_| None)), Ok(case));
}

fn push_line(text: &mut String, remark: Option<String>, line: &str) {
    if let Some(remark) = remark {
        let _ = writeln!(text, "# {remark}");
    }
    let _ = writeln!(text, "{line}");
}

fn to_json(value: &impl Serialize) -> String {
    // Every type here is made of strings, numbers, lists and maps with string keys, so writing cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn from_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn parse_time(text: &str) -> Option<Time> {
    let (seconds, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = micros.parse().ok()?;
    Some(Time::from_micros(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LinkId;
    use crate::contract::config::nemo::HomeAgentConfig;
    use crate::contract::input::LinkEvent;
    use crate::contract::report::LinkReport;
    use crate::contract::report::Report;
    use core::time::Duration;

    fn case() -> Case {
        let config = HomeAgentConfig {
            address: "2001:db8::1".parse().unwrap(),
            home_prefixes: vec!["2001:db8::/64".parse().unwrap()],
            max_lifetime: Duration::from_secs(600),
            max_bindings: 10,
            ..Default::default()
        };
        let link = LinkEvent { link: LinkId(2), name: "eth0".to_owned(), address: None, up: true, mtu: 1500 };
        let step = |at, input| Step {
            at: Time::from_micros(at),
            input,
            outputs: vec![Output::Report(Report::Link(LinkReport::RouterSolicitationSent { link: LinkId(2) }))],
        };
        Case {
            title: vec!["one thing".to_owned(), String::new(), "and another".to_owned()],
            roles: vec![Role::HomeAgent(config)],
            seed: [7; 32],
            steps: vec![step(0, Input::Link(link)), step(1_000_001, Input::Tick)],
        }
    }

    #[test]
    fn a_case_round_trips_through_its_text() {
        let text = case().render(|line| matches!(line, Line::Input(_)).then(|| "an input".to_owned()));
        assert_eq!(Case::parse(&text), Ok(case()));
        assert!(text.contains("# an input\n@1.000001 < \"tick\"\n> "), "{text}");
    }

    #[test]
    fn an_error_names_its_line() {
        let head = header(&case().roles, [0; 32]);
        let error = |rest: &str| Case::parse(&format!("{head}{rest}")).unwrap_err();
        assert_eq!(error("@1.5 < \"tick\"").line, 3);
        assert_eq!(error("@1.000000 < \"tick\"\n@0.999999 < \"tick\"").why, "time goes backwards");
        assert_eq!(error("> {}").why, "an output before any input");
        assert_eq!(error("@1.000000 < \"tock\"").line, 3);
        assert_eq!(Case::parse("").unwrap_err().why, "no role");
    }

    #[test]
    fn the_committed_corpus_passes() {
        crate::fuzz_inputs::run_files("../fuzz/corpus/case", scenario);
        crate::fuzz_inputs::run_files("../cases/nemo", scenario);
    }
}
