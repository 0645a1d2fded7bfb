//! A fleet: three home agents are one. One is cut off, one loses the store, one is upgraded; the connections survive.

use super::Demo;
use crate::clock;
use crate::load::{Delivery, Protocol, Train, Transfer, TransferLoad};
use crate::report::chart::Chart;
use crate::topology::fleet::{FleetNetwork, FleetSetup, MEMBERS};
use crate::ui::LineStyle;
use anyhow::Result;
use std::thread::sleep;
use std::time::Duration;

/// Flows of datagrams, which the router spreads over the members.
const FLOWS: u16 = 8;
/// Datagrams per second and direction of each.
const RATE: u32 = 100;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 200_000;
/// How long traffic is watched before and after each step.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The longest silence that a member may cause that dies without a word: BFD notices after 300 ms.
const LONGEST: u64 = 600_000;
const TIMEOUT: Duration = Duration::from_secs(15);

/// A step, and what it cost.
struct Row {
    what: &'static str,
    lost: usize,
    silence: u64,
    passed: bool,
}

/// The scene.
pub(crate) fn scene(demo: &mut Demo) -> Result<Option<Chart>> {
    demo.status(format!(
        "building {MEMBERS} home agents with one address, each with etcd and BIRD, and a router before them"
    ));
    let mut network = FleetNetwork::build(&FleetSetup::default())?;
    network.emulator.capture(&demo.capture)?;
    demo.status("all members are healthy; the router has a route by each of them; the vehicle is bound at all three");
    let ends = || [network.vehicle.node(), network.correspondent()];
    let trains: Vec<Train> = (0..FLOWS).map(|flow| Train::start(ends(), 9100 + flow, RATE)).collect::<Result<_>>()?;
    let transfer = Transfer::start(ends(), TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE))?;
    demo.status(format!("traffic: {FLOWS} flows of {RATE} packets/s and a TCP transfer, in both directions"));
    sleep(QUIET_TIME);
    let rows = steps(demo, &mut network, &trains)?;
    let deliveries = transfer.finish(TIMEOUT)?;
    drop(trains);
    demo.line(LineStyle::Plain, "");
    demo.line(LineStyle::Action, format!("{:<44} {:>6} {:>12}", "step", "lost", "silence ms"));
    for row in rows {
        let text = format!("{:<44} {:>6} {:>12.1}", row.what, row.lost, row.silence as f64 / 1000.0);
        demo.check(row.passed, text);
    }
    demo.check(deliveries.iter().all(Delivery::is_complete), "TCP survived");
    demo.check_deliveries("TCP", &deliveries);
    network.emulator.finish_capture()?;
    Ok(None)
}

/// All steps in turn.
fn steps(demo: &mut Demo, network: &mut FleetNetwork, trains: &[Train]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    demo.action("the cable of ha1 is cut: it is silent, and nobody says so");
    rows.push(measure(demo, trains, "ha1 dies without a word", false, || {
        network.cut(1, true)?;
        network.wait_for_routes(MEMBERS - 1)
    })?);
    demo.action("ha1 is back: it joins, and is announced when it knows everything");
    rows.push(measure(demo, trains, "ha1 comes back", true, || {
        network.cut(1, false)?;
        network.wait_for_state(1, "healthy")?;
        network.wait_for_routes(MEMBERS)
    })?);
    demo.action("ha2 loses the store: it forwards, acknowledges nothing, and is the last choice");
    rows.push(measure(demo, trains, "ha2 loses the store", true, || {
        network.member(2)?.store.freeze(true)?;
        network.wait_for_state(2, "degraded")?;
        network.wait_for_routes(MEMBERS - 1)
    })?);
    rows.push(measure(demo, trains, "ha2 has the store again", true, || {
        network.member(2)?.store.freeze(false)?;
        network.wait_for_state(2, "healthy")?;
        network.wait_for_routes(MEMBERS)
    })?);
    demo.action("ha3 is upgraded: it hands over, stops, and the new one joins");
    rows.push(measure(demo, trains, "ha3 is upgraded", true, || {
        network.member_mut(3)?.daemon.stop()?;
        network.wait_for_routes(MEMBERS - 1)?;
        network.member_mut(3)?.daemon.spawn()?;
        network.wait_for_state(3, "healthy")?;
        network.wait_for_routes(MEMBERS)
    })?);
    Ok(rows)
}

/// What an action costs; a `planned` one must lose nothing.
fn measure(
    demo: &mut Demo,
    trains: &[Train],
    what: &'static str,
    planned: bool,
    act: impl FnOnce() -> Result<()>,
) -> Result<Row> {
    let begin = clock::unix_micros();
    act()?;
    sleep(QUIET_TIME);
    // What is on its way still counts as lost otherwise.
    let end = clock::unix_micros() - 200_000;
    let lost = trains.iter().map(|train| train.lost(begin, end)).sum();
    let silence = trains.iter().map(|train| train.longest_silence(begin, end)).max().unwrap_or(0);
    let passed = if planned { lost == 0 } else { silence <= LONGEST };
    demo.timed_check(passed, format!("{what}: {lost} packets lost, longest silence {:.0} ms", silence as f64 / 1000.0));
    Ok(Row { what, lost, silence, passed })
}
