//! The demos: one runner and its scenes, one for each protocol and one for a fleet.

pub(crate) mod bonding;
pub(crate) mod fleet;
pub(crate) mod geonet;
pub(crate) mod mptcp;
pub(crate) mod nemo;
pub(crate) mod shim6;

use crate::bed::Daemon;
use crate::bed::dissector::{self, Dissection};
use crate::bed::sandbox::{self, WORK_DIR};
use crate::load::Delivery;
use crate::report::chart::{self, Chart};
use crate::threads::Workers;
use crate::ui::{LineStyle, Terminal, print_events_of};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Failed packets of a capture that are listed.
const MAX_LISTED: usize = 5;

/// Options of every demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Writes a picture of the demo to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Keeps the capture of all links in this file (pcapng).
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

/// Builds the networks of a demo, moves them and checks the results; returns the demo's chart if it has one.
type Scene = fn(&mut Demo) -> Result<Option<Chart>>;

/// A running demo: its output, its capture file, and whether all checks have passed.
pub(crate) struct Demo {
    terminal: Arc<Terminal>,
    capture: PathBuf,
    passed: bool,
}

/// Runs a scene in a sandbox; `true` if all checks passed. The picture is the scene's chart, or else the terminal.
pub(crate) fn run(scene: Scene, options: &Options) -> Result<bool> {
    sandbox::enter()?;
    let capture = options.capture.clone().unwrap_or_else(|| Path::new(WORK_DIR).join("demo.pcapng"));
    let mut demo = Demo { terminal: Arc::new(Terminal::new()), capture, passed: true };
    let chart = scene(&mut demo)?;
    let passed = demo.passed;
    demo.check(passed, if passed { "all checks passed" } else { "SOME CHECKS FAILED" });
    match (&options.svg, chart) {
        (Some(path), Some(chart)) => chart::write(path, &[chart])?,
        (Some(path), None) => demo.terminal.write_svg(path)?,
        (None, _) => {}
    }
    Ok(passed)
}

impl Demo {
    /// Prints a line with the time.
    fn status(&self, text: impl AsRef<str>) {
        self.terminal.timed_line(LineStyle::Plain, text);
    }

    /// Prints what the demo does next, with the time.
    fn action(&self, text: impl AsRef<str>) {
        self.terminal.timed_line(LineStyle::Action, text);
    }

    /// Prints a line without the time.
    fn line(&self, style: LineStyle, text: impl Into<String>) {
        self.terminal.line(style, text);
    }

    /// Prints a result, with the time; the demo fails unless it `passed`.
    fn timed_check(&mut self, passed: bool, text: impl AsRef<str>) {
        let style = self.result(passed);
        self.terminal.timed_line(style, text);
    }

    /// Prints a result; the demo fails unless it `passed`.
    fn check(&mut self, passed: bool, text: impl Into<String>) {
        let style = self.result(passed);
        self.terminal.line(style, text);
    }

    fn result(&mut self, passed: bool) -> LineStyle {
        self.passed &= passed;
        if passed { LineStyle::Success } else { LineStyle::Failure }
    }

    /// Prints the events of these daemons, with the names of their hosts, until the workers are dropped.
    fn print_events(&self, daemons: &[(&'static str, &Daemon)]) -> Result<Workers> {
        let sources = daemons.iter().map(|(host, daemon)| (*host, daemon.events.clone()));
        print_events_of(&self.terminal, sources.collect())
    }

    /// Checks that both directions of a transfer delivered every byte.
    fn check_deliveries(&mut self, name: &str, deliveries: &[Delivery; 2]) {
        for (direction, delivery) in ["out", "in "].iter().zip(deliveries) {
            self.check_delivery(&format!("{name} {direction}"), delivery);
        }
    }

    /// Checks that one direction of a transfer delivered every byte.
    fn check_delivery(&mut self, name: &str, delivery: &Delivery) {
        let (sent, received) = (&delivery.sent, &delivery.received);
        let digest = received.digest.get(..16).unwrap_or_default();
        let word = if delivery.is_complete() { "equal" } else { "DIFFERENT" };
        let error = received.error.as_ref().or(sent.error.as_ref()).map(|why| format!(" ({why})"));
        let text = format!(
            "{name}: {} bytes sent, {} received, sha256 {digest}.. {word}{}",
            sent.bytes,
            received.bytes,
            error.unwrap_or_default()
        );
        self.check(delivery.is_complete(), text);
    }

    /// Dissects the capture. `describe` returns whether it has all expected packets, and a text with their number.
    fn check_capture(&mut self, describe: impl FnOnce(&Path, &Dissection) -> Result<(bool, String)>) -> Result<()> {
        let dissection = dissector::dissect(&self.capture)?;
        let (is_complete, counts) = describe(&self.capture, &dissection)?;
        let Dissection { frames, errors, .. } = &dissection;
        let text = format!("tshark: {frames} frames, {counts}, {} malformed or with a wrong checksum", errors.len());
        self.check(is_complete && errors.is_empty(), text);
        for error in errors.iter().take(MAX_LISTED) {
            self.check(false, format!("  {error}"));
        }
        Ok(())
    }

    /// Stops a daemon and checks that it has removed its device.
    fn stop(&mut self, daemon: &mut Daemon, device: &str) -> Result<()> {
        daemon.stop()?;
        let host = &daemon.host;
        let is_removed = host.output("ip", &["link", "show", device]).is_err();
        let word = if is_removed { "removed" } else { "LEFT" };
        self.check(is_removed, format!("{}: daemon stopped, {device} {word}", host.name()));
        Ok(())
    }
}
