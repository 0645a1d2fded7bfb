//! A fleet in two places, 10 and 60 ms away: whether a vehicle and a correspondent in one place pay for the other one, and what an
//! acknowledgement takes where the quorum of the store is near, and where it is far.

use crate::experiments::prelude::*;
use crate::load::forge::parse_acknowledgement;
use crate::load::registrations::synthetic_router;
use crate::topology::fleet::{MEMBERS, Places};

/// Echo requests of each pair.
const PINGS: (usize, usize) = (20, 100);
/// Updates of each place.
const UPDATES: (u32, u32) = (10, 40);
const TIMEOUT: Duration = Duration::from_secs(15);
/// Until a member has noticed that its node of the store had no leader.
const SETTLE_TIME: Duration = Duration::from_secs(1);
const NAMES: [&str; 2] = ["first", "second"];

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(NAMES.len() + 1);
    let (pings, updates) = if run.quick { (PINGS.0, UPDATES.0) } else { (PINGS.1, UPDATES.1) };
    let mut network = Places::build()?;
    for (place, name) in NAMES.iter().enumerate() {
        run.step(&format!("the vehicle is in the {name} place"));
        network.attach(place)?;
        for (other, cn) in network.places.iter().enumerate() {
            let inside = network.vehicle.mnn_address.to_string();
            let times = cn.correspondent.ping(pings, &["-i", "0.05", &inside])?;
            let is_near = place == other;
            run.require(times.len() + 1 >= pings, || format!("{} of {pings} echo requests were answered", times.len()));
            run.rows.push(
                json!({ "vehicle_in": name, "correspondent": NAMES.get(other), "round_trip_ms": distribution(&times) }),
            );
            if is_near {
                run.estimate(&format!("near_{name}_rtt_ms_p50"), median(&times, LEVEL));
            } else {
                run.estimate(&format!("far_from_{name}_rtt_ms_p50"), median(&times, LEVEL));
            }
        }
        for leader in [0, 1] {
            move_leader(&network, leader)?;
            let delays = update_delays(&mut network, place, updates)?;
            run.rows
                .push(json!({ "vehicle_in": name, "leader": NAMES.get(leader), "bu_to_ba_ms": distribution(&delays) }));
            let leader = NAMES.get(leader).copied().unwrap_or_default();
            run.estimate(&format!("bu_to_ba_in_{name}_leader_{leader}_ms_p50"), median(&delays, LEVEL));
        }
    }
    run.step("the member of the second place is drained");
    measure_without_near_member(run, &network, pings)
}

/// With its own member drained, the second place pays for the first one.
fn measure_without_near_member(run: &mut Run, network: &Places, pings: usize) -> Result<()> {
    let member = network.members.get(1).context("no such member")?;
    member.daemon.query(&["fleet", "drain", "--wait"])?;
    let cn = &network.places.get(1).context("no such place")?.correspondent;
    let times = cn.ping(pings, &["-i", "0.05", &network.vehicle.mnn_address.to_string()])?;
    run.rows.push(json!({ "vehicle_in": "second", "correspondent": "second", "drained": "ha2", "round_trip_ms": distribution(&times) }));
    run.estimate("drained_second_rtt_ms_p50", median(&times, LEVEL));
    Ok(())
}

/// A node of the store in this place becomes its leader. Returns once all nodes know, and all members are healthy: one whose node had
/// no leader for a moment is degraded for a second and answers no update, and an emulated mobile router sends each once.
fn move_leader(network: &Places, place: usize) -> Result<()> {
    let status = |number: usize| -> Result<Value> {
        let member = network.members.get(number).context("no such member")?;
        let text = member.etcdctl(&["endpoint", "status", "-w", "json"])?;
        Ok(serde_json::from_str(&text)?)
    };
    let field = |status: &Value, path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let target = field(&status(place)?, "/0/Status/header/member_id");
    let has_led = || {
        let statuses: Vec<Value> = (0..MEMBERS).map(|number| status(number).unwrap_or_default()).collect();
        let leader = |status: &Value| field(status, "/0/Status/leader");
        if statuses.iter().all(|status| leader(status) == target) {
            return Some(());
        }
        let leads = |status: &Value| leader(status) == field(status, "/0/Status/header/member_id");
        let number = statuses.iter().position(leads).filter(|number| *number != place)?;
        network.members.get(number)?.etcdctl(&["move-leader", &format!("{target:x}")]).ok()?;
        None
    };
    clock::wait_for(TIMEOUT, has_led).context("the leader of the store does not move")?;
    sleep(SETTLE_TIME);
    network.members.iter().try_for_each(|member| member.wait_for_state("healthy"))
}

/// The time from an update of an emulated mobile router beside the router of a place until its acknowledgement, milliseconds.
fn update_delays(network: &mut Places, place: usize, count: u32) -> Result<Vec<f64>> {
    let (mut delays, sequence) = (Vec::new(), &mut network.sequence);
    let tap = &mut network.places.get_mut(place).context("no such place")?.routers;
    for _ in 0..count {
        *sequence = sequence.next();
        let began = clock::now();
        tap.send(&synthetic_router(0).update(*sequence))?;
        let accepted = |packet: &[u8]| {
            let (_, status, of) = parse_acknowledgement(packet)?;
            (status < 128 && of == *sequence).then_some(())
        };
        tap.receive_within(TIMEOUT, accepted).context("no acknowledgement")?;
        delays.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(delays)
}
