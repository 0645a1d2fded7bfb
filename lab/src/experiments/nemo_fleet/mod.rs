//! A fleet of three home agents with one address, each with a node of etcd and BIRD: what is lost when a member dies, hands
//! over or is upgraded; registrations per second and their cost; moves, replays, and updates at two members at once; the pool
//! of IPv4 addresses; partitions, a slow store, a wrong clock; and a member that joins.

mod failures;
mod faults;
mod join;
mod pool;
mod registrations;
mod rivals;

use crate::experiments::prelude::*;
use crate::load::fleet_updates::FleetUpdates;
use crate::topology::fleet::tables::common_table;
use crate::topology::fleet::{FleetNetwork, FleetSetup};

/// Steps beside the deaths of leaders.
const STEPS: usize = 17;
/// Emulated mobile routers, in quick and in full runs.
const SIZES: (u32, u32) = (3_000, 100_000);
/// Of these, such as ask for an IPv4 address.
const WITHOUT_ADDRESS: u32 = 1_012;
/// The pool of IPv4 addresses: 512, of which some have owners.
const IPV4: &str = "[home_agent.ipv4]\naddress = \"203.0.113.1\"\n[home_agent.ipv4_pool]\nprefix = \"10.64.0.0/23\"\n";

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(STEPS + if run.quick { faults::LEADERS.0 } else { faults::LEADERS.1 });
    {
        let fast = FleetSetup { bfd: Duration::from_millis(50), ..FleetSetup::default() };
        let mut network = FleetNetwork::build(&fast)?;
        failures::measure_silences(run, &mut network, "bfd50")?;
    }
    let size = if run.quick { SIZES.0 } else { SIZES.1 };
    let mut network =
        FleetNetwork::build(&FleetSetup { routers: size, extra: IPV4.to_owned(), ..FleetSetup::default() })?;
    failures::measure_silences(run, &mut network, "bfd100")?;
    failures::measure_planned(run, &mut network)?;
    let mut updates = FleetUpdates::new(std::mem::take(&mut network.taps), size);
    let registered = size - WITHOUT_ADDRESS;
    registrations::measure(run, &network, &mut updates, registered)?;
    registrations::measure_delay(run, &network, &mut updates)?;
    registrations::measure_moves(run, &mut updates)?;
    rivals::measure_replays(run, &mut updates)?;
    rivals::measure_rivals(run, &network, &mut updates)?;
    pool::measure(run, &network, &mut updates, registered..size)?;
    faults::measure_partitions(run, &network, &mut updates)?;
    faults::measure_slow_store(run, &network, &mut updates)?;
    faults::measure_leader_loss(run, &mut network, &mut updates)?;
    faults::measure_wrong_clock(run, &mut network, &mut updates)?;
    join::measure(run, &mut network, &mut updates, registered)
}

/// All members have the same bindings; `key` summarises how many rows differ.
fn require_common_table(run: &mut Run, network: &FleetNetwork, key: &str) -> Result<()> {
    let (_, differing) = common_table(&network.members)?;
    run.summarise(key, differing.len());
    run.require_bound(key);
    if !differing.is_empty() {
        run.rows.push(json!({ key: differing }));
    }
    Ok(())
}
