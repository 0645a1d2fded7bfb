//! Two uplinks: planned moves between encrypted paths, and two paths that share flows while WireGuard renews the session keys,
//! which it does every 120 s (Rekey-After-Time).

use super::testbed::{Observed, pick};
use crate::experiments::prelude::*;
use crate::load::handover::OBSERVATION_TIME;

const UPLINKS: [&str; 2] = ["up0", "up1"];
const PORT: u16 = 9200;
/// Packets per second in each direction, in a quick and in a full run.
const RATES: [u32; 2] = [200, 1000];
/// The time of the traffic, which has to be longer than that of a session key.
const TIMES: [Duration; 2] = [Duration::from_secs(150), Duration::from_secs(600)];
const PLANNED: [usize; 2] = [3, 30];
/// Flows that are spread over the uplinks.
const FLOWS: u16 = 32;
/// Packets of the last moments may still be in flight, microseconds.
const IN_FLIGHT: u64 = 300_000;
/// What each of two equal uplinks carries at least, of all flows.
const LEAST_SHARE: f64 = 0.2;

/// The preferred uplink comes back while the other one is in use.
pub(super) fn move_planned(run: &mut Run) -> Result<()> {
    let observed = Observed::build(true, &UPLINKS, "")?;
    observed.plug_all()?;
    let train = Train::start(observed.ends(), PORT, RATES[0])?;
    let (preferred, link) = (observed.vehicle.uplink(0)?, observed.network.visited[0].link);
    let mut lost = 0;
    for _ in 0..pick(run, PLANNED) {
        observed.network.emulator.unplug(preferred)?;
        sleep(OBSERVATION_TIME * 2);
        let begin = clock::unix_micros();
        let up = observed.network.emulator.plug(preferred, link)?;
        observed.vehicle.wait_registered(up, 2)?;
        sleep(OBSERVATION_TIME * 2);
        lost += train.lost(begin, clock::unix_micros() - IN_FLIGHT);
    }
    run.summarise("planned_lost", lost);
    observed.count_plaintext(run);
    Ok(())
}

/// Loss over the time of several session keys, and the shares of both uplinks.
pub(super) fn renew_keys(run: &mut Run) -> Result<()> {
    let (rate, time) = (pick(run, RATES), pick(run, TIMES));
    let observed = Observed::build(true, &UPLINKS, "sharing = \"weights\"\n")?;
    observed.plug_all()?;
    let train = Train::start_flows(observed.ends(), PORT, rate, FLOWS)?;
    sleep(OBSERVATION_TIME);
    let before = observed.sightings.lock().encrypted.clone();
    let begin = clock::unix_micros();
    sleep(time);
    let end = clock::unix_micros() - IN_FLIGHT;
    sleep(OBSERVATION_TIME);
    let counts = [&train.forward, &train.reverse].map(|way| way.delivery_counts(begin, end));
    let after = observed.sightings.lock().encrypted.clone();
    let carried: Vec<usize> = observed
        .vehicle
        .uplinks
        .iter()
        .map(|uplink| after.get(uplink).unwrap_or(&0) - before.get(uplink).unwrap_or(&0))
        .collect();
    let total: usize = carried.iter().sum();
    let is_shared = carried.iter().all(|count| *count as f64 >= LEAST_SHARE * total as f64 && *count > 0);
    let sessions: Vec<Value> = observed.vehicle.daemon.show("keys")?;
    let ages: Vec<u64> = sessions.iter().filter_map(|session| session.get("handshake_age")?.as_u64()).collect();
    let is_renewed = ages.len() == UPLINKS.len() && ages.iter().all(|age| *age < time.as_secs());
    run.require(is_renewed, || format!("session keys were not renewed: ages of the handshakes {ages:?} s"));
    run.summarise("rekey_lost", counts.iter().map(|way| way.lost).sum::<usize>());
    run.summarise("weights_both_carry", u8::from(is_shared));
    run.rows.push(json!({
        "what": "renewal of session keys", "seconds": time.as_secs(), "packets_per_s_each_way": rate,
        "sent": counts.iter().map(|way| way.sent).sum::<usize>(), "carried_upwards": carried, "handshake_ages_s": ages,
    }));
    observed.count_plaintext(run);
    Ok(())
}
