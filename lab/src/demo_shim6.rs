//! Shim6, shown: two hosts, two providers; one provider after the other fails under an interactive session and a bulk
//! transfer, and both go on (RFC 5533, RFC 5534).

use crate::bed::sandbox::WORK_DIR;
use crate::clock;
use crate::dissector;
use crate::event_printer::EventPrinter;
use crate::providers::{MultihomedHost, ProviderSettings, Providers};
use crate::terminal::{LineStyle, Terminal};
use crate::traffic::{Delivery, Protocol, Transfer, TransferLoad};
use anyhow::{Context, Result};
use roam6_proto::Report;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// A path that is silent for so long is left.
const SHIM: &str = "send_timeout = \"1s\"\n";
/// One-way delay of each cable.
const DELAY: Duration = Duration::from_millis(3);
/// How long a change of path may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long an outage lasts before it is mended, and traffic before the next one.
const PHASE_TIME: Duration = Duration::from_secs(4);
/// A session that is silent for longer than this, one in the outage counted, is not alive.
const MAX_SILENCE: u64 = 3_500_000;

/// Runs the demo; `true` if every byte arrived and nothing was wrong. What was shown goes to `svg`, the capture to
/// `capture`.
pub(crate) fn run(svg: Option<&Path>, capture: Option<&Path>) -> Result<bool> {
    let screen = Arc::new(Terminal::new());
    let recorded = capture.map_or_else(|| Path::new(WORK_DIR).join("demo.pcapng"), Path::to_path_buf);
    screen.timed_line(LineStyle::Plain, "building two hosts, each with a cable to provider a and one to provider b");
    let mut world = Providers::build(ProviderSettings { delay: DELAY, shim_config: SHIM, label: "" })?;
    world.air.capture(&recorded)?;
    for side in &world.hosts {
        let [a, b] = side.addresses;
        screen.timed_line(
            LineStyle::Plain,
            format!("{:<5} made itself a set of hash-based addresses: {a} and {b}", side.host.name()),
        );
    }
    let sources =
        vec![("left ", world.hosts[0].daemon.events().clone()), ("right", world.hosts[1].daemon.events().clone())];
    let narrator = EventPrinter::start(&screen, sources)?;
    let sessions = Sessions::start(&world)?;
    screen.timed_line(LineStyle::Action, "a session of keystrokes and a bulk transfer begin, both by provider a");
    let told = run_failures(&screen, &world, &sessions);
    let deliveries = sessions.finish();
    drop(narrator);
    let alive = told.with_context(|| log_tails(&world.hosts))?;
    let deliveries = deliveries?;
    let errors = world.checksum_errors()?;
    world.air.finish_capture()?;
    for side in &mut world.hosts {
        side.daemon.stop()?;
    }
    let sound = print_summary(&screen, &world, &deliveries, (&recorded, errors))? && alive;
    let (tone, word) =
        if sound { (LineStyle::Success, "nothing broke") } else { (LineStyle::Failure, "SOMETHING BROKE") };
    screen.line(tone, word);
    if let Some(path) = svg {
        screen.write_svg(path)?;
    }
    Ok(sound)
}

/// All that happens to the providers; `true` if both sessions went on each time.
fn run_failures(screen: &Terminal, world: &Providers, sessions: &Sessions) -> Result<bool> {
    let changed = |report: &Report| matches!(report, Report::PathChanged { .. });
    world.wait_both(0, "a context", |report| matches!(report, Report::ContextUp { .. }))?;
    sleep(PHASE_TIME);
    screen
        .timed_line(LineStyle::Action, "provider a goes silent: no carrier is lost, nothing is told, nothing arrives");
    let at = world.black_hole(0)?;
    world.wait_both(at, "another path", changed)?;
    sleep(PHASE_TIME);
    let mut alive = sessions.print_silence(screen, "provider a silent", at);
    world.restore(0)?;
    screen.timed_line(LineStyle::Action, "provider a is mended, and each host is told to use it again: roam6 shim use");
    let at = clock::unix_micros();
    let [left, right] = &world.hosts;
    for (from, to) in [(left, right), (right, left)] {
        let ([local, _], [peer, _]) = (from.addresses, to.addresses);
        let asked = clock::unix_micros();
        from.daemon.query(&["shim", "use", &local.to_string(), &peer.to_string()])?;
        from.daemon
            .events()
            .wait_for(asked, TIMEOUT, changed)
            .with_context(|| format!("{} stays", from.host.name()))?;
        // The peer is still being told of the first search.
        sleep(Duration::from_secs(1));
    }
    sleep(PHASE_TIME);
    alive &= sessions.print_silence(screen, "back to provider a", at);
    screen.timed_line(LineStyle::Action, "the cable of left to provider a is pulled");
    let at = world.unplug(left, 0)?;
    world.wait_both(at, "another path", changed)?;
    sleep(PHASE_TIME);
    Ok(alive & sessions.print_silence(screen, "cable pulled", at))
}

/// Two TCP connections between the ULIDs.
struct Sessions {
    interactive: Transfer,
    bulk: Transfer,
}

impl Sessions {
    fn start(world: &Providers) -> Result<Sessions> {
        // A few octets at a time, fifty times a second, as somebody types and sees the echo.
        let keys = TransferLoad { message: 16, ..TransferLoad::steady(Protocol::Tcp, 9701, 800) };
        Ok(Sessions {
            interactive: Transfer::start_with(world.ends(), keys)?,
            bulk: Transfer::start_with(world.ends(), TransferLoad::steady(Protocol::Tcp, 9700, 500_000))?,
        })
    }

    /// Says how long each was silent since `begin`; `true` if both live.
    fn print_silence(&self, screen: &Terminal, what: &str, begin: u64) -> bool {
        let now = clock::unix_micros();
        let silence = |transfer: &Transfer| {
            transfer.arrivals().iter().map(|arrivals| arrivals.longest_silence(begin, now)).max().unwrap_or(u64::MAX)
        };
        let (keys, bulk) = (silence(&self.interactive), silence(&self.bulk));
        let alive = keys.max(bulk) < MAX_SILENCE;
        let millis = |micros: u64| micros as f64 / 1000.0;
        let text = format!("{what}: session silent for {:.0} ms, transfer for {:.0} ms", millis(keys), millis(bulk));
        screen.timed_line(if alive { LineStyle::Success } else { LineStyle::Failure }, text);
        alive
    }

    fn finish(self) -> Result<[(&'static str, [Delivery; 2]); 2]> {
        let patience = Duration::from_secs(20);
        Ok([("session", self.interactive.finish(patience)?), ("transfer", self.bulk.finish(patience)?)])
    }
}

fn print_summary(
    screen: &Terminal,
    world: &Providers,
    deliveries: &[(&str, [Delivery; 2])],
    (recorded, checksum_errors): (&Path, u64),
) -> Result<bool> {
    let mut sound = true;
    let mut say = |good: bool, text: String| {
        sound &= good;
        screen.line(if good { LineStyle::Success } else { LineStyle::Failure }, text);
    };
    for (name, directions) in deliveries {
        for (direction, delivery) in ["out", "in "].iter().zip(directions) {
            let (sent, received) = (&delivery.sent, &delivery.received);
            let digest = received.digest.get(..16).unwrap_or_default();
            let word = if delivery.is_complete() { "equal" } else { "DIFFERENT" };
            let text = format!(
                "{name:<8} {direction}: {} bytes sent, {} received, sha256 {digest}.. {word}",
                sent.bytes, received.bytes
            );
            say(delivery.is_complete(), text);
        }
    }
    say(checksum_errors == 0, format!("{checksum_errors} wrong checksums at both hosts"));
    let verdict = dissector::dissect(recorded)?;
    let count = |filter: &str| Ok::<_, anyhow::Error>(dissector::tshark(recorded, filter, &[])?.lines().count());
    let (control, payload) = (count("shim6.p == 0")?, count("shim6.p == 1")?);
    let clean = verdict.errors.is_empty() && control > 0 && payload > 0;
    let wrong = verdict.errors.len();
    say(
        clean,
        format!(
            "tshark: {} frames, {control} Shim6 messages, {payload} with the payload header, {wrong} malformed or wrong",
            verdict.frames
        ),
    );
    for complaint in verdict.errors.iter().take(5) {
        say(false, format!("  {complaint}"));
    }
    for side in &world.hosts {
        let left = side.host.output("ip", &["-6", "route", "show", "table", "all", "proto", "106"])?;
        let devices = side.host.output("ip", &["link", "show", "shim6"]).is_ok();
        let tidy = left.trim().is_empty() && !devices;
        say(tidy, format!("{} ended and left {}", side.host.name(), if tidy { "nothing" } else { "SOMETHING" }));
    }
    Ok(sound)
}

fn log_tails(sides: &[MultihomedHost; 2]) -> String {
    let mut text = String::new();
    for side in sides {
        let log = std::fs::read_to_string(side.daemon.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n");
        text.push_str(&format!("the log of {}:\n{tail}\n", side.host.name()));
    }
    text
}
