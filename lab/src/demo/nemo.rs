//! NEMO: a vehicle moves through three networks while its connections survive (RFC 3963).

use super::Demo;
use crate::load::handover::{HandoverMeasurement, HandoverTraffic, OBSERVATION_TIME, replug};
use crate::report::chart::Chart;
use crate::topology::nemo::{CORRESPONDENT, HOME_AGENT, NO_DAD, NemoNetwork, Vehicle, is_accepted};
use crate::ui::LineStyle;
use anyhow::{Context, Result};
use std::thread::sleep;
use std::time::Duration;

/// How long the second uplink may take to register.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The scene.
pub(crate) fn scene(demo: &mut Demo) -> Result<Option<Chart>> {
    demo.status("building home, FN1, FN2 and backbone, 7 hosts; radvd advertises in FN1 and FN2");
    let mut network = NemoNetwork::build(Duration::from_millis(5), 1, NO_DAD)?;
    network.emulator.capture(&demo.capture)?;
    let mut vehicle = network.vehicle(0, &["up1", "up0"])?;
    demo.status(format!("home agent {HOME_AGENT}, 5 ms away; mobile router {}", vehicle.home_address));
    demo.status(format!("mobile network node {}, correspondent {CORRESPONDENT}", vehicle.mnn_address));
    let printer = demo.print_events(&[("mr", &vehicle.daemon), ("ha", &network.home_agent)])?;
    demo.action("up0 is plugged into the home link");
    network.emulator.plug(vehicle.uplink(1)?, network.home_link)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    sleep(OBSERVATION_TIME);
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    demo.status("traffic: 100 and 1000 packets/s and a TCP transfer, in both directions");
    let handovers = run_handovers(demo, &network, &vehicle, &traffic);
    let deliveries = traffic.finish()?;
    drop(printer);
    let handovers = handovers.with_context(|| vehicle.daemon.log_tail())?;
    print_table(demo, &handovers);
    demo.check_deliveries("TCP", &deliveries);
    demo.stop(&mut vehicle.daemon, "nemo0")?;
    demo.stop(&mut network.home_agent, "nemo0")?;
    network.emulator.finish_capture()?;
    demo.check_capture(|_, found| {
        let (mobility, tunnelled) = (found.mobility_messages, found.tunnelled);
        Ok((mobility > 0 && tunnelled > 0, format!("{mobility} mobility messages, {tunnelled} tunnelled packets")))
    })?;
    Ok(None)
}

/// All handovers in turn.
fn run_handovers(
    demo: &mut Demo,
    network: &NemoNetwork,
    vehicle: &Vehicle,
    traffic: &HandoverTraffic,
) -> Result<Vec<HandoverMeasurement>> {
    let (up1, up0) = (vehicle.uplink(0)?, vehicle.uplink(1)?);
    let ([fn1, fn2], home) = (&network.visited, network.home_link);
    let mut handovers = Vec::new();
    for (name, to) in
        [("home -> FN1", fn1.link), ("FN1 -> FN2", fn2.link), ("FN2 -> home", home), ("home -> FN1", fn1.link)]
    {
        demo.action(format!("{name}: up0 is unplugged and plugged into the other network"));
        let measured = traffic.measure(vehicle, name, || replug(network, up0, to))?;
        print_handover(demo, &measured, traffic);
        handovers.push(measured);
    }
    let name = "FN1 -> FN2, both up";
    demo.action(format!("{name}: up1, the preferred uplink, is plugged into FN2 while up0 stays"));
    let measured = traffic.measure(vehicle, name, || {
        let at = network.emulator.plug(up1, fn2.link)?;
        let events = &vehicle.daemon.events;
        events.wait_for(at, TIMEOUT, is_accepted).context("no acknowledgement for the second uplink")?;
        sleep(Duration::from_millis(300));
        demo.action("up0 is unplugged; no traffic uses it");
        network.emulator.unplug(up0)?;
        Ok(Some(at))
    })?;
    print_handover(demo, &measured, traffic);
    handovers.push(measured);
    Ok(handovers)
}

fn print_handover(demo: &mut Demo, measured: &HandoverMeasurement, traffic: &HandoverTraffic) {
    let [out, inward] = traffic.transferred_octets().map(|bytes| bytes as f64 / 1e6);
    let text = format!(
        "{}: gap {:.1} ms, {} of the 100/s packets lost; TCP so far {out:.2} MB out, {inward:.2} MB in",
        measured.what, measured.gap_fine, measured.lost
    );
    demo.timed_check(measured.recovered && measured.tcp_survived, text);
}

/// The phases of all handovers; a planned one must lose nothing.
fn print_table(demo: &mut Demo, handovers: &[HandoverMeasurement]) {
    demo.line(LineStyle::Plain, "");
    let header = format!(
        "{:<20} {:>8} {:>12} {:>9} {:>9} {:>12} {:>6} {:>7}  {}",
        "handover", "gap ms", "link-up..RA", "RA..BU", "BU..BA", "BA..packet", "lost", "of1000", "TCP"
    );
    demo.line(LineStyle::Action, header);
    let phase = |value: Option<f64>| value.map_or("-".to_owned(), |millis| format!("{:.1}", millis.max(0.0)));
    for one in handovers {
        let [ra, bu, ba, packet] = one.phases.map(phase);
        let row = format!(
            "{:<20} {:>8.1} {ra:>12} {bu:>9} {ba:>9} {packet:>12} {:>6} {:>7}  {}",
            one.what,
            one.gap_fine,
            one.lost,
            one.lost_fine,
            if one.tcp_survived { "survived" } else { "FAILED" }
        );
        let lost_planned = one.what.contains("both") && one.lost_fine > 0;
        demo.check(one.recovered && one.tcp_survived && !lost_planned, row);
    }
}
