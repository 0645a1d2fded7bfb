//! Instructions for each packet through both routers, beside those of WireGuard between the same routers, and of the tunnel without
//! encryption.

use super::require_figures;
use super::testbed::pick;
use crate::experiments::prelude::*;
use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator;
use crate::topology::chain::Forwarding;

/// Octets of a packet.
const SIZES: [usize; 2] = [250, 1200];
/// Frames before the measured ones, and those of a quick and of a full run.
const WARM_UP: u32 = 1024;
const FRAMES: [u32; 2] = [1_000, 8_000];
/// One after the other: packet sockets of daemons cost each packet that the kernel receives in any network namespace.
const KINDS: [Forwarding; 4] = [Forwarding::Plain, Forwarding::WireGuard, Forwarding::Roam6, Forwarding::Encrypted];

pub(super) fn measure(run: &mut Run) -> Result<()> {
    run.set_steps(KINDS.len());
    let mut counts: Vec<(Forwarding, usize, bool, f64)> = Vec::new();
    for kind in KINDS {
        run.step(kind.name());
        let mut bench = ChainBench::new(&[kind])?;
        for size in SIZES {
            for upward in [false, true] {
                let frames = pick(run, FRAMES);
                let burst = bench.send_burst((kind, upward), size, 0..1, (WARM_UP, frames))?;
                let bursts = [burst];
                let losses = packet_generator::describe_losses(&bursts);
                run.faults.extend(losses.map(|lost| format!("{}, {size} octets, {lost}", kind.name())));
                // The clock counts an instruction as a nanosecond.
                let instructions = burst.cpu_time.as_nanos() as f64 / burst.arrived.max(1) as f64;
                run.rows.push(json!({
                    "by": kind.name(), "octets": size, "upward": upward, "instructions_per_packet": instructions.round(),
                }));
                counts.push((kind, size, upward, instructions));
            }
        }
    }
    let of =
        |kind, size, upward| counts.iter().find(|one| (one.0, one.1, one.2) == (kind, size, upward)).map(|one| one.3);
    for size in SIZES {
        for (name, reference) in [("wireguard", Forwarding::WireGuard), ("tunnel", Forwarding::Roam6)] {
            let ratio = |upward| Some(of(Forwarding::Encrypted, size, upward)? / of(reference, size, upward)?);
            let worse = [false, true].into_iter().filter_map(ratio).reduce(f64::max);
            let figure = format!("instructions_over_{name}_{size}");
            run.summarise(&figure, worse.map(round));
            require_figures(run, [figure]);
        }
    }
    Ok(())
}
