//! The testbed itself: accuracy of delay, loss and re-plugging of its links, which limits the accuracy of all other
//! figures.

use crate::bed::{Host, LinkEmulator};
use crate::experiments::prelude::*;
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;

const LEFT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const RIGHT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
/// A frame that has not arrived by then is lost, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let span = Duration::from_secs(if run.quick { 1 } else { 10 });
    let specs = [
        ("wire", LinkSpec::default()),
        ("delay 5 ms", LinkSpec { delay: Duration::from_millis(5), ..LinkSpec::default() }),
        ("delay 25 ms", LinkSpec { delay: Duration::from_millis(25), ..LinkSpec::default() }),
        ("loss 5 %", LinkSpec { loss: 0.05, ..LinkSpec::default() }),
    ];
    let emulator = LinkEmulator::new(1)?;
    let (left, right) = (Host::new("left")?, Host::new("right")?);
    let ports = [emulator.add_port(&left, "eth0")?, emulator.add_port(&right, "eth0")?];
    let cable = emulator.cable(ports, LinkSpec::default())?;
    let ends = || [Endpoint { host: &left, address: LEFT }, Endpoint { host: &right, address: RIGHT }];
    for Endpoint { host, address } in ends() {
        host.ip(&[&format!("address add {address}/64 dev eth0 nodad")])?;
    }
    // Otherwise the kernel flushes its neighbour cache on carrier loss and resolves the neighbour again, first into the
    // unplugged port and again a second later. The cable is to be measured.
    for which in ["all", "eth0"] {
        left.set_sysctl(&format!("ipv6/conf/{which}/ndisc_evict_nocarrier"), "0")?;
    }
    run.set_steps(specs.len() + 1);
    let mut worst_late = 0.0_f64;
    for (name, spec) in specs {
        run.step(name);
        emulator.shape(cable, spec);
        let mut train = Train::start(ends(), 9000, 1000)?;
        sleep(span);
        let end = clock::unix_micros();
        sleep(spec.delay + Duration::from_millis(100));
        // On a busy machine the last frames are late; only lost frames are missing.
        let all_arrived = || (spec.loss > 0.0 || train.forward.delivery_counts(0, end).lost == 0).then_some(());
        clock::wait_for(TIMEOUT, all_arrived);
        train.stop();
        let tally = train.forward.delivery_counts(0, end);
        let delays: Vec<f64> = train.forward.delays().iter().map(|delay| *delay as f64 / 1000.0).collect();
        let expected = spec.delay.as_secs_f64() * 1000.0;
        let late = percentile(&delays, 0.5).unwrap_or(f64::INFINITY) - expected;
        worst_late = worst_late.max(late);
        run.require(tally.sent > 0, || format!("{name}: nothing was sent"));
        run.require(spec.loss > 0.0 || tally.lost == 0, || {
            format!("{name}: {} of {} datagrams were lost", tally.lost, tally.sent)
        });
        run.require(late >= 0.0, || format!("{name}: median delay is {} ms too short", -late));
        run.rows.push(json!({
            "link": name, "sent": tally.sent, "lost": tally.lost, "delay_ms": distribution(&delays), "expected_ms": expected,
        }));
    }
    run.step("re-plug");
    let [port, _] = ports;
    emulator.shape(cable, LinkSpec::default());
    let train = Train::start(ends(), 9000, 1000)?;
    let mut gaps = Vec::new();
    for _ in 0..if run.quick { 1 } else { 10 } {
        sleep(Duration::from_millis(1200));
        emulator.unplug(port)?;
        sleep(Duration::from_millis(9));
        let up = emulator.plug(port, cable)?;
        sleep(Duration::from_millis(200));
        let first = clock::wait_for(TIMEOUT, || train.forward.first_after(Stamp::Received, up));
        gaps.extend(first.map(|first| (first - up) as f64 / 1000.0));
        run.require(first.is_some(), || format!("re-plug: nothing was received within {TIMEOUT:?}"));
    }
    run.rows.push(json!({ "link": "re-plug", "carrier_to_first_packet_ms": distribution(&gaps) }));
    run.summarise("delay_error_ms_p50_max", round(worst_late));
    Ok(())
}
