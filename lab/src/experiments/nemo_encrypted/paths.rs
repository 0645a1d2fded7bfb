//! Two uplinks: planned moves between encrypted paths, and two paths that share flows while keys are renewed: those of sessions by
//! WireGuard, every 120 s (Rekey-After-Time; in a full run only), and those of both ends by `roam6 keygen --renew`.

use super::testbed::{Observed, pick};
use crate::experiments::prelude::*;
use crate::load::handover::OBSERVATION_TIME;

const UPLINKS: [&str; 2] = ["up0", "up1"];
const PORT: u16 = 9200;
/// Packets per second in each direction, in a quick and in a full run.
const RATES: [u32; 2] = [200, 1000];
/// The time of the traffic; a full run is longer than several session keys last.
const TIMES: [Duration; 2] = [Duration::from_secs(16), Duration::from_secs(600)];
/// How long new keys may take to be used.
const TIMEOUT: Duration = Duration::from_secs(30);
const PLANNED: [usize; 2] = [2, 30];
/// Steps of the progress.
pub(super) const RENEWAL_STEPS: usize = 4;
/// Flows that are spread over the uplinks.
const FLOWS: u16 = 32;
/// No session key is used for longer, with some time for the handshake, seconds.
const REKEY_AFTER_TIME: u64 = 130;
/// Packets of the last moments may still be in flight, microseconds.
const IN_FLIGHT: u64 = 300_000;
/// What each of two equal uplinks carries at least, of all flows.
const LEAST_SHARE: f64 = 0.2;

/// Steps of the progress.
pub(super) fn planned_steps(run: &Run) -> usize {
    1 + pick(run, PLANNED)
}

/// The preferred uplink comes back while the other one is in use.
pub(super) fn move_planned(run: &mut Run) -> Result<()> {
    run.step("two uplinks: networks and start");
    let observed = Observed::build(true, &UPLINKS, "")?;
    observed.plug_all()?;
    let train = Train::start(observed.ends(), PORT, RATES[0])?;
    let (preferred, link) = (observed.vehicle.uplink(0)?, observed.network.visited[0].link);
    let mut lost = 0;
    let moves = pick(run, PLANNED);
    for number in 1..=moves {
        run.step(&format!("two uplinks: planned move {number} of {moves}"));
        observed.network.emulator.unplug(preferred)?;
        sleep(OBSERVATION_TIME * 2);
        let begin = clock::unix_micros();
        let up = observed.network.emulator.plug(preferred, link)?;
        observed.vehicle.wait_registered(up, 2).with_context(|| format!("planned move {number}"))?;
        sleep(OBSERVATION_TIME * 2);
        let end = clock::unix_micros() - IN_FLIGHT;
        // When the datagrams that were lost had been sent, after the uplink was plugged in, milliseconds.
        let [outbound, inbound] = [&train.forward, &train.reverse].map(|way| {
            let lost = way.datagrams(begin, end).into_iter().filter(|datagram| datagram.received.is_none());
            lost.map(|datagram| (datagram.sent - begin) / 1000).collect::<Vec<u64>>()
        });
        lost += outbound.len() + inbound.len();
        run.rows.push(json!({ "what": "planned move", "number": number, "lost_outbound_ms": outbound, "lost_inbound_ms": inbound }));
    }
    run.summarise("planned_lost", lost);
    observed.count_plaintext(run);
    Ok(())
}

/// The sessions of the mobile router's devices that are none of `former`: device and age of the handshake.
fn sessions(observed: &Observed, former: &[String]) -> Result<Vec<(String, Option<u64>)>> {
    let shown: Vec<Value> = observed.vehicle.daemon.show("keys")?;
    let session = |session: &Value| {
        let device = session.get("device")?.as_str()?.to_owned();
        Some((device, session.get("handshake_age").and_then(Value::as_u64)))
    };
    Ok(shown.iter().filter_map(session).filter(|(device, _)| !former.contains(device)).collect())
}

/// Has both ends renew their keys, and waits until the mobile router has sessions with the new ones. Its update tells its own, and
/// the answer those of the home agent.
fn renew_at_both_ends(observed: &Observed, former: &[String]) -> Result<()> {
    for daemon in [&observed.network.home_agent, &observed.vehicle.daemon] {
        daemon.query(&["keygen", "--renew"])?;
    }
    let is_renewed = || {
        let new = sessions(observed, former).ok()?;
        (new.iter().filter(|(_, age)| age.is_some()).count() == UPLINKS.len()).then_some(())
    };
    let shown = || observed.vehicle.daemon.query(&["show", "keys"]).unwrap_or_default();
    clock::wait_for(TIMEOUT, is_renewed).with_context(|| format!("no sessions with the renewed keys: {}", shown()))
}

/// Loss over the renewal of keys, and the shares of both uplinks.
pub(super) fn renew_keys(run: &mut Run) -> Result<()> {
    run.step("renewal of keys: networks and start");
    let (rate, time) = (pick(run, RATES), pick(run, TIMES));
    let observed = Observed::build(true, &UPLINKS, "sharing = \"weights\"\n")?;
    observed.plug_all()?;
    let train = Train::start_flows(observed.ends(), PORT, rate, FLOWS)?;
    sleep(OBSERVATION_TIME);
    let before = observed.sightings.lock().encrypted.clone();
    let begin = clock::unix_micros();
    let former: Vec<String> = sessions(&observed, &[])?.into_iter().map(|(device, _)| device).collect();
    run.step(&format!("renewal of keys: {} s of traffic before", time.as_secs() / 2));
    sleep(time / 2);
    run.step("renewal of keys: roam6 keygen --renew at both ends");
    renew_at_both_ends(&observed, &former)?;
    run.step(&format!("renewal of keys: {} s of traffic behind", time.as_secs() / 2));
    sleep(time / 2);
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
    let ages: Vec<u64> = sessions(&observed, &former)?.into_iter().filter_map(|(_, age)| age).collect();
    let is_renewed = ages.len() == UPLINKS.len() && ages.iter().all(|age| *age < REKEY_AFTER_TIME);
    run.require(is_renewed, || format!("keys were not renewed: ages of the handshakes {ages:?} s"));
    run.summarise("rekey_lost", counts.iter().map(|way| way.lost).sum::<usize>());
    run.summarise("weights_both_carry", u8::from(is_shared));
    run.rows.push(json!({
        "what": "renewal of keys", "seconds": time.as_secs(), "packets_per_s_each_way": rate,
        "sent": counts.iter().map(|way| way.sent).sum::<usize>(), "carried_upwards": carried, "handshake_ages_s": ages,
    }));
    observed.count_plaintext(run);
    Ok(())
}
