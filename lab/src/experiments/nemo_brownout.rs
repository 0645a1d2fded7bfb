//! Brownouts: the preferred of two uplinks keeps its carrier, but loses packets, delays them or freezes. How soon traffic
//! is on the other one, in both directions, and how often it moves while the first one comes and goes.

use crate::experiments::prelude::*;
use crate::topology::nemo::{NemoNetwork, Vehicle, visited_prefix};
use crate::topology::two_uplinks::{start_afresh, two_uplinks};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;

/// One-way delay to the home agent.
const DELAY: Duration = Duration::from_millis(25);
/// A brownout that is not left by then never is.
const TIMEOUT: Duration = Duration::from_secs(15);
/// After the move: for how long packets are counted.
const CHECK_TIME: Duration = Duration::from_secs(1);
/// Probes before a brownout, so that round trip and loss are known.
const KNOWN_TIME: Duration = Duration::from_secs(4);
/// Packets per second of the datagrams in each direction.
const RATE: u32 = 100;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 200_000;
/// Flapping: how long the first uplink is bad and then good.
const BAD_TIME: Duration = Duration::from_secs(5);
const GOOD_TIME: Duration = Duration::from_secs(10);

/// The faults, in each direction of the first access network's cable.
const FAULTS: [(&str, LinkFault); 4] = [
    ("loss 30 %", LinkFault { loss: 0.3, delay: Duration::ZERO }),
    ("round trip + 800 ms", LinkFault { loss: 0.0, delay: Duration::from_millis(400) }),
    ("round trip + 2 s", LinkFault { loss: 0.0, delay: Duration::from_secs(1) }),
    ("frozen", LinkFault { loss: 1.0, delay: Duration::ZERO }),
];

/// What a brownout does to a link.
#[derive(Debug, Clone, Copy)]
struct LinkFault {
    loss: f64,
    delay: Duration,
}

impl LinkFault {
    fn spec(self) -> LinkSpec {
        LinkSpec { loss: self.loss, delay: self.delay, ..LinkSpec::default() }
    }
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 1 } else { 15 };
    let flapping = Duration::from_secs(if run.quick { 30 } else { 600 });
    run.set_steps(times * FAULTS.len() + 1);
    let (network, vehicle) = two_uplinks(DELAY, LinkSpec::default())?;
    let ends = || [vehicle.node(), network.correspondent()];
    let mut train = Train::start(ends(), 9100, RATE)?;
    let transfer = Transfer::start(ends(), TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE))?;
    let cable = network.visited[0].cable;
    let mut all = Vec::new();
    for (name, fault) in FAULTS {
        let mut left = Vec::new();
        for _ in 0..times {
            run.step(name);
            sleep(KNOWN_TIME);
            let (millis, lost) = brown_out(&network, &vehicle, &train, fault)?;
            run.require(lost <= 2, || format!("{name}: {lost} packets lost in the second after the move"));
            left.push(millis);
            start_afresh(&network, &[&vehicle], LinkSpec::default())?;
        }
        run.rows.push(json!({ "fault": name, "left_ms": distribution(left.iter().copied()) }));
        all.extend(left);
    }
    run.estimate("left_ms_p50", median(&all, LEVEL));
    run.summarise("left_ms_p95", percentile(all.iter(), 0.95).map(round));
    run.summarise("left_ms_max", percentile(all, 1.0).map(round));

    run.step("flapping");
    let (begin, end) = (clock::unix_micros(), clock::now() + flapping);
    for (_, fault) in FAULTS.iter().cycle().take_while(|_| clock::now() < end) {
        network.emulator.shape(cable, fault.spec());
        sleep(BAD_TIME);
        network.emulator.shape(cable, LinkSpec::default());
        sleep(GOOD_TIME);
    }
    let changes = changes_since(&vehicle, begin);
    run.rows.push(json!({ "flapping_s": flapping.as_secs(), "bad_s": BAD_TIME.as_secs(), "changes": changes }));
    run.summarise("changes_in_flapping_max", changes);
    train.stop();
    let survived = transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete);
    run.require_tcp(survived);
    Ok(())
}

/// The time until the home agent has acknowledged the other uplink as the first one, milliseconds, and the datagrams lost in
/// the second after it.
fn brown_out(network: &NemoNetwork, vehicle: &Vehicle, train: &Train, fault: LinkFault) -> Result<(f64, usize)> {
    let begin = clock::unix_micros();
    network.emulator.shape(network.visited[0].cable, fault.spec());
    let moved = vehicle.daemon.events.wait_for(begin, TIMEOUT, |report| carries(report) == Some(1));
    let Some(moved) = moved else { return Ok((f64::INFINITY, 0)) };
    sleep(CHECK_TIME + Duration::from_millis(300));
    let check_micros = u64::try_from(CHECK_TIME.as_micros()).unwrap_or_default();
    let lost = train.lost(moved.unix_micros, moved.unix_micros + check_micros);
    Ok(((moved.unix_micros - begin) as f64 / 1000.0, lost))
}

/// The access network of the path that carries traffic after this report, if it is about that.
fn carries(report: &Report) -> Option<usize> {
    let Report::Nemo(NemoReport::Bound { care_of, .. }) = report else { return None };
    let first: &Ipv6Addr = care_of.first()?;
    (0..2).find(|number| visited_prefix(*number).segments().get(..4) == first.segments().get(..4))
}

/// How often traffic moved from one access network to the other since `begin`, from the first one on.
fn changes_since(vehicle: &Vehicle, begin: u64) -> usize {
    let events = vehicle.daemon.events.events_from(0);
    let bound = events.iter().filter(|event| event.unix_micros >= begin).filter_map(|event| carries(&event.report));
    let (mut on, mut changes) = (0, 0);
    for number in bound {
        changes += usize::from(number != on);
        on = number;
    }
    changes
}
