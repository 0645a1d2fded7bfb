//! Shim6: two hosts, two providers; one provider after the other fails under an interactive session and a bulk transfer,
//! which both survive (RFC 5533, RFC 5534).

use super::Demo;
use crate::bed::dissector;
use crate::clock;
use crate::load::{Delivery, Protocol, Transfer, TransferLoad};
use crate::report::chart::Chart;
use crate::topology::providers::{ProviderSettings, Providers};
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::ShimReport;
use std::thread::sleep;
use std::time::Duration;

/// A path without return traffic for this long is explored.
const SHIM: &str = "send_timeout = \"1s\"\n";
/// One-way delay of each link.
const DELAY: Duration = Duration::from_millis(3);
/// How long a path change may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Duration of an outage, and of the traffic before the next one.
const PHASE_TIME: Duration = Duration::from_secs(4);
/// Maximum silence of a session, an outage included; microseconds.
const MAX_SILENCE: u64 = 3_500_000;
/// How long the last bytes of a session may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The scene.
pub(crate) fn scene(demo: &mut Demo) -> Result<Option<Chart>> {
    demo.status("building two hosts, each with a link to provider a and one to provider b");
    let mut network =
        Providers::build(ProviderSettings { delay: DELAY, shim_config: SHIM, label: "", peering: false })?;
    network.emulator.capture(&demo.capture)?;
    for side in &network.hosts {
        let [a, b] = side.addresses;
        demo.status(format!("{:<5} has generated an HBA set: {a} and {b}", side.host.name()));
    }
    let [left, right] = &network.hosts;
    let printer = demo.print_events(&[("left ", &left.daemon), ("right", &right.daemon)])?;
    let sessions = Sessions::start(&network)?;
    demo.action("an interactive session and a bulk transfer begin, both by provider a");
    let outcome = run_failures(demo, &network, &sessions);
    let deliveries = sessions.finish();
    drop(printer);
    outcome.with_context(|| network.hosts.each_ref().map(|side| side.daemon.log_tail()).concat())?;
    for (name, delivery) in deliveries? {
        demo.check_deliveries(name, &delivery);
    }
    let errors = network.checksum_errors()?;
    demo.check(errors == 0, format!("{errors} wrong checksums at both hosts"));
    network.emulator.finish_capture()?;
    for side in &mut network.hosts {
        demo.stop(&mut side.daemon, "shim6")?;
        let routes = side.host.output("ip", &["-6", "route", "show", "table", "all", "proto", "106"])?;
        demo.check(routes.trim().is_empty(), format!("{}: routes left: {}", side.host.name(), routes.lines().count()));
    }
    demo.check_capture(|capture, _| {
        let count = |filter: &str| Ok::<_, anyhow::Error>(dissector::tshark(capture, filter, &[])?.lines().count());
        let (control, payload) = (count("shim6.p == 0")?, count("shim6.p == 1")?);
        let counts = format!("{control} Shim6 messages, {payload} packets with the payload extension header");
        Ok((control > 0 && payload > 0, counts))
    })?;
    Ok(None)
}

/// All failures in turn.
fn run_failures(demo: &mut Demo, network: &Providers, sessions: &Sessions) -> Result<()> {
    let changed = |report: &Report| matches!(report, Report::Shim(ShimReport::PathChanged { .. }));
    network.wait_both(0, "a context", |report| matches!(report, Report::Shim(ShimReport::ContextUp { .. })))?;
    sleep(PHASE_TIME);
    demo.action("provider a drops everything: no carrier is lost, no error is sent");
    let at = network.black_hole(0)?;
    network.wait_both(at, "another path", changed)?;
    sleep(PHASE_TIME);
    sessions.check_silence(demo, "provider a silent", at);
    network.restore(0)?;
    demo.action("provider a is restored, and each host is switched back to it: roam6 shim use");
    let at = clock::unix_micros();
    let [left, right] = &network.hosts;
    for (from, to) in [(left, right), (right, left)] {
        let ([local, _], [peer, _]) = (from.addresses, to.addresses);
        let asked = clock::unix_micros();
        from.daemon.query(&["shim", "use", &local.to_string(), &peer.to_string()])?;
        let event = from.daemon.events.wait_for(asked, TIMEOUT, changed);
        event.with_context(|| format!("{} does not switch back", from.host.name()))?;
        // The peer may still be processing the first exploration.
        sleep(Duration::from_secs(1));
    }
    sleep(PHASE_TIME);
    sessions.check_silence(demo, "back to provider a", at);
    demo.action("left is unplugged from provider a");
    let at = network.unplug(left, 0)?;
    network.wait_both(at, "another path", changed)?;
    sleep(PHASE_TIME);
    sessions.check_silence(demo, "cable pulled", at);
    Ok(())
}

/// Two TCP connections between the ULIDs.
struct Sessions {
    interactive: Transfer,
    bulk: Transfer,
}

impl Sessions {
    fn start(network: &Providers) -> Result<Sessions> {
        // A few octets at a time, fifty times a second, as of typed and echoed characters.
        let keys = TransferLoad { message: 16, ..TransferLoad::steady(Protocol::Tcp, 9701, 800) };
        Ok(Sessions {
            interactive: Transfer::start(network.ends(), keys)?,
            bulk: Transfer::start(network.ends(), TransferLoad::steady(Protocol::Tcp, 9700, 500_000))?,
        })
    }

    /// Prints how long each was silent since `begin` (microseconds since 1970); both must survive.
    fn check_silence(&self, demo: &mut Demo, what: &str, begin: u64) {
        let silence = |transfer: &Transfer| transfer.longest_silence(begin, clock::unix_micros());
        let (session, transfer) = (silence(&self.interactive), silence(&self.bulk));
        let millis = |micros: u64| micros as f64 / 1000.0;
        let (first, second) = (millis(session), millis(transfer));
        let text = format!("{what}: session silent for {first:.0} ms, transfer for {second:.0} ms");
        demo.timed_check(session.max(transfer) < MAX_SILENCE, text);
    }

    fn finish(self) -> Result<[(&'static str, [Delivery; 2]); 2]> {
        let (interactive, bulk) = (self.interactive.finish(DRAIN_TIMEOUT)?, self.bulk.finish(DRAIN_TIMEOUT)?);
        Ok([("session ", interactive), ("transfer", bulk)])
    }
}
