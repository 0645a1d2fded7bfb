//! Voice, video and mail through each kind of move ("VoIP, mail, streaming" on the slides of P1, which measure none).

use crate::experiments::prelude::*;
use crate::load::handover::{OBSERVATION_TIME, replug};
use crate::load::media::{CODECS, MediaTraffic, MediaWindow};
use crate::topology::nemo::NemoNetwork;
use crate::topology::two_uplinks::{start_afresh, two_uplinks};
use roam6_sim::LinkSpec;

/// One-way delay to the home agent.
const DELAY: Duration = Duration::from_millis(25);
/// Loss of the bad link, each way.
const LOSS: f64 = 0.3;

/// A kind of move, and what was observed of each.
type Observed = (&'static str, Vec<MediaWindow>);

pub(super) fn run(run: &mut Run) -> Result<()> {
    // Six values are the fewest that have an interval.
    let (times, faults) = if run.quick { (6, 2) } else { (12, 12) };
    run.set_steps(faults + times + 2 * times + 2 * faults);
    let (mut all, mut mail_whole) = (Vec::new(), true);
    for (observed, whole) in [one_uplink(run, times, faults)?, both_uplinks(run, times, faults)?] {
        all.extend(observed);
        mail_whole &= whole;
    }
    for (kind, windows) in &all {
        summarise(run, kind, windows);
    }
    run.summarise("mail_whole", u8::from(mail_whole));
    run.require(mail_whole, || "the mail did not arrive whole".to_owned());
    Ok(())
}

/// One uplink: no move, and moves between the access networks. Whether the mail arrived whole.
fn one_uplink(run: &Run, times: usize, rest: usize) -> Result<(Vec<Observed>, bool)> {
    let (network, vehicle) = NemoNetwork::with_vehicle(DELAY, "", "")?;
    let (uplink, [fn1, fn2]) = (vehicle.uplink(0)?, &network.visited);
    sleep(OBSERVATION_TIME);
    let traffic = MediaTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let (mut none, mut hard) = (Vec::new(), Vec::new());
    for _ in 0..rest {
        run.step("no move");
        none.push(traffic.observe(|| Ok(()))?);
    }
    for number in 0..times {
        run.step("hard handovers");
        let to = if number % 2 == 0 { fn2.link } else { fn1.link };
        hard.push(traffic.observe(|| replug(&network, uplink, to).map(drop))?);
    }
    let whole = traffic.finish()?.iter().all(Delivery::is_complete);
    Ok((vec![("none", none), ("hard", hard)], whole))
}

/// Two uplinks: the first loses its carrier, comes back, and fails with carrier. Whether the mail arrived whole.
fn both_uplinks(run: &Run, times: usize, faults: usize) -> Result<(Vec<Observed>, bool)> {
    let (network, vehicle) = two_uplinks(DELAY, LinkSpec::default())?;
    let (up0, [fn1, _]) = (vehicle.uplink(0)?, &network.visited);
    let traffic = MediaTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let (mut down, mut planned) = (Vec::new(), Vec::new());
    for _ in 0..times {
        run.step("link down");
        down.push(traffic.observe(|| network.emulator.unplug(up0).map(drop))?);
        run.step("planned handovers");
        planned.push(traffic.observe(|| vehicle.wait_registered(network.emulator.plug(up0, fn1.link)?, 2))?);
    }
    let mut observed = vec![("linkdown", down), ("planned", planned)];
    for (kind, loss) in [("blackhole", 1.0), ("loss", LOSS)] {
        let mut windows = Vec::new();
        for _ in 0..faults {
            run.step(kind);
            windows.push(traffic.observe(|| {
                network.emulator.shape(fn1.cable, LinkSpec { loss, ..LinkSpec::default() });
                Ok(())
            })?);
            start_afresh(&network, &[&vehicle], LinkSpec::default())?;
            sleep(OBSERVATION_TIME);
        }
        observed.push((kind, windows));
    }
    Ok((observed, traffic.finish()?.iter().all(Delivery::is_complete)))
}

fn summarise(run: &mut Run, kind: &str, windows: &[MediaWindow]) {
    let each = |pick: fn(&MediaWindow) -> f64| -> Vec<f64> { windows.iter().map(pick).collect() };
    let scores = [each(|one| one.mos[0]), each(|one| one.mos[1])];
    let (lost, jitter) = (each(|one| one.voice_lost as f64), each(|one| one.jitter_ms));
    let (shown, freeze) = (each(MediaWindow::shown_percent), each(|one| one.freeze_ms));
    for ((codec, _), scores) in CODECS.iter().zip(&scores) {
        run.estimate(&format!("mos_{codec}_{kind}_p50"), median(scores, LEVEL));
    }
    run.summarise(&format!("voice_lost_{kind}_max"), percentile(&lost, 1.0));
    run.estimate(&format!("jitter_ms_{kind}_p50"), median(&jitter, LEVEL));
    run.estimate(&format!("freeze_ms_{kind}_p50"), median(&freeze, LEVEL));
    let [g711, opus] = &scores;
    run.rows.push(json!({
        "kind": kind, "moves": windows.len(), "mos_g711": distribution(g711), "mos_opus": distribution(opus),
        "voice_lost": distribution(&lost), "jitter_ms": distribution(&jitter),
        "frames_shown_percent": distribution(&shown), "freeze_ms": distribution(&freeze),
        "each": windows.iter().map(MediaWindow::to_json).collect::<Vec<_>>(),
    }));
}
