//! The longest silence of a relayed connection when an uplink loses its carrier, when its packets vanish, and when those of both do.

use crate::experiments::prelude::*;
use crate::topology::bonding::{BONDED, BondingBed, link};

/// Until a connection is at its rate.
const WARM_UP: Duration = Duration::from_secs(3);
/// After the loss of an uplink.
const OBSERVATION_TIME: Duration = Duration::from_secs(3);
/// Both uplinks are lost for so long.
const DARK: Duration = Duration::from_secs(15);
/// Until the connection moves on thereafter.
const DARK_TIMEOUT: Duration = Duration::from_secs(30);
/// Until an uplink that is back is used: probes of a lost path are a second apart, and then it has to answer.
const RETURN_TIME: Duration = Duration::from_secs(25);
/// Connections in each direction, each in networks of its own.
const CONNECTIONS: [usize; 2] = [1, 3];
/// Losses of each uplink, of each kind, under one connection. After more of them damping withholds the uplink for longer than
/// [`RETURN_TIME`].
const LOSSES: usize = 2;

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let mut stalls: [Vec<f64>; 2] = Default::default();
    let (mut lived, mut tried, mut returned) = (0, 0, 0);
    let connections = if run.quick { CONNECTIONS[0] } else { CONNECTIONS[1] };
    for upward in [true, false].into_iter().cycle().take(2 * connections) {
        let bed = BondingBed::new([link(20, 40), link(30, 80)])?;
        let transfer = bed.send(upward, BONDED)?;
        bed.wait_for_subflows(RETURN_TIME)?;
        sleep(WARM_UP);
        for (number, uplink) in (0..2 * LOSSES).zip([0, 1].into_iter().cycle()) {
            for (black_hole, of) in [false, true].into_iter().zip(&mut stalls) {
                let silence = lose(&bed, &transfer, uplink, black_hole)?;
                of.push(silence);
                tried += 1;
                lived += usize::from(is_moving(&transfer, OBSERVATION_TIME));
                let kind = if black_hole { "black hole" } else { "carrier" };
                let back = give_back(&bed, uplink, black_hole);
                returned += usize::from(back.is_ok());
                run.rows
                    .push(json!({ "kind": "loss", "of": kind, "upward": upward, "uplink": uplink, "number": number,
                    "silence_ms": round(silence), "returned": back.is_ok() }));
                run.require(back.is_ok(), || format!("{kind}, uplink {uplink}: {:?}", back.err()));
                sleep(WARM_UP);
            }
        }
        let dark = darken(&bed, &transfer)?;
        run.rows.push(json!({ "kind": "dark", "upward": upward, "silence_ms": round(dark) }));
        let worst = run.summary.get("dark15_ms").and_then(Value::as_f64).unwrap_or(0.0).max(dark);
        run.summarise("dark15_ms", round(worst));
        tried += 1;
        lived += usize::from(is_moving(&transfer, OBSERVATION_TIME));
        transfer.finish(Duration::from_secs(3))?;
    }
    for (loss, of) in ["carrier", "black hole"].into_iter().zip(&stalls) {
        run.rows.push(json!({ "kind": "silence", "loss": loss, "silence_ms": distribution(of) }));
    }
    let [carrier, black_hole] = &stalls;
    run.summarise("stall_carrier_ms_p95", percentile(carrier, 0.95).map(round));
    run.summarise("stall_blackhole_ms_p95", percentile(black_hole, 0.95).map(round));
    run.summarise("lived", u8::from(lived == tried));
    run.summarise("returned", u8::from(returned == stalls.iter().map(Vec::len).sum::<usize>()));
    Ok(())
}

/// Takes an uplink away; the longest silence thereafter, milliseconds.
fn lose(bed: &BondingBed, transfer: &Transfer, uplink: usize, black_hole: bool) -> Result<f64> {
    let began = clock::unix_micros();
    if black_hole {
        bed.cut(&[uplink]);
    } else {
        bed.network.emulator.unplug(bed.vehicle.uplink(uplink)?)?;
    }
    sleep(OBSERVATION_TIME);
    Ok(transfer.forward_silence(began, clock::unix_micros()) as f64 / 1000.0)
}

/// Ends the loss, and waits until the connection uses both uplinks.
fn give_back(bed: &BondingBed, uplink: usize, black_hole: bool) -> Result<()> {
    if black_hole {
        bed.restore();
    } else {
        bed.plug(uplink)?;
    }
    bed.wait_for_subflows(RETURN_TIME)
}

/// Takes both uplinks away for a while; the silence from then on, milliseconds.
fn darken(bed: &BondingBed, transfer: &Transfer) -> Result<f64> {
    let began = clock::unix_micros();
    bed.cut(&[0, 1]);
    sleep(DARK);
    bed.restore();
    ensure!(is_moving(transfer, DARK_TIMEOUT), "nothing arrives after both uplinks were lost; {}", bed.logs());
    sleep(OBSERVATION_TIME);
    Ok(transfer.forward_silence(began, clock::unix_micros()) as f64 / 1000.0)
}

fn is_moving(transfer: &Transfer, timeout: Duration) -> bool {
    let before = transfer.received_octets()[0];
    clock::wait_for(timeout, || (transfer.received_octets()[0] > before).then_some(())).is_some()
}
