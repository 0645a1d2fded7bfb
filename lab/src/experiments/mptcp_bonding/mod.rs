//! One TCP connection of plain hosts over all uplinks (docs/bonding.md): goodput against the sum of the uplinks, silence when one is
//! lost, what connecting costs, and what relays cost in processor time and memory.

mod cost;
mod goodput;
mod idle;
mod outage;
mod setup;

use crate::experiments::prelude::*;
use crate::run::Part;

const PARTS: [Part; 8] = [
    ("goodput of 20 Mbit/s 40 ms and 30 Mbit/s 80 ms", goodput::measure_usual),
    ("goodput of 50 Mbit/s 20 ms and 10 Mbit/s 160 ms", goodput::measure_unequal),
    ("goodput of an IPv6 and an IPv4 uplink behind a NAT", goodput::measure_mixed),
    ("goodput with a distant correspondent", goodput::measure_distant),
    ("outages", outage::measure),
    ("set-up of connections", setup::measure),
    ("processor time", cost::measure),
    ("idle connections", idle::measure),
];

/// Their names.
pub(super) fn parts() -> impl Iterator<Item = &'static str> {
    PARTS.into_iter().map(|(name, _)| name)
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.run_parts(&PARTS);
    Ok(())
}
