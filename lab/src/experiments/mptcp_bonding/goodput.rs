//! Goodput of one connection against that of each uplink alone, in both directions.

use crate::experiments::prelude::*;
use crate::topology::bonding::{ALONE, BONDED, BondingBed, link};
use crate::topology::uplinks::Family;
use roam6_sim::LinkSpec;

/// Until a connection is at its rate, and for how long that is measured, in a quick and in a full run.
const WARM_UP: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(5)];
const SPAN: [Duration; 2] = [Duration::from_secs(6), Duration::from_secs(8)];
/// One-way delay between home agent and distant correspondent.
const DISTANCE: Duration = Duration::from_millis(50);
/// What a correspondent may send at once, octets.
const WINDOW: usize = 4 << 20;
/// Rounds of a full run.
const ROUNDS: usize = 6;

/// The goodputs of a round, Mbit/s.
struct Goodput {
    alone: [f64; 2],
    bonded: f64,
}

impl Goodput {
    fn over_sum(&self) -> f64 {
        self.bonded / self.alone.iter().sum::<f64>()
    }

    fn over_best(&self) -> f64 {
        self.bonded / self.alone.iter().copied().fold(0.0, f64::max)
    }
}

pub(super) fn measure_usual(run: &mut Run) -> Result<()> {
    let bed = BondingBed::new([link(20, 40), link(30, 80)])?;
    let [over_sum, _] = measure(run, &bed, "20/40 + 30/80")?;
    run.estimate("goodput_over_sum", over_sum);
    Ok(())
}

pub(super) fn measure_unequal(run: &mut Run) -> Result<()> {
    let bed = BondingBed::new([link(50, 20), link(10, 160)])?;
    let [over_sum, over_best] = measure(run, &bed, "50/20 + 10/160")?;
    run.estimate("unequal_over_sum", over_sum);
    run.estimate("unequal_over_best", over_best);
    Ok(())
}

pub(super) fn measure_mixed(run: &mut Run) -> Result<()> {
    let bed = BondingBed::of_families([Family::Ipv6, Family::Nat], [link(20, 40), link(30, 80)])?;
    let [over_sum, _] = measure(run, &bed, "20/40 IPv6 + 30/80 IPv4 behind a NAT")?;
    run.estimate("mixed_families_over_sum", over_sum);
    Ok(())
}

/// The data rate of the plain connection between relay and correspondent depends on its buffers, if its round trip is long.
pub(super) fn measure_distant(run: &mut Run) -> Result<()> {
    let bed = BondingBed::new([link(20, 40), link(30, 80)])?;
    let spec = LinkSpec { delay: DISTANCE, queue_bytes: WINDOW, ..LinkSpec::default() };
    bed.network.emulator.shape(bed.network.correspondent_link, spec);
    let [over_sum, _] = measure(run, &bed, "20/40 + 30/80, correspondent 100 ms from the home agent")?;
    run.estimate("distant_over_sum", over_sum);
    Ok(())
}

/// The ratios to the sum and to the better uplink; the lesser of both directions.
fn measure(run: &mut Run, bed: &BondingBed, links: &str) -> Result<[Option<Estimate>; 2]> {
    let rounds = if run.quick { 1 } else { ROUNDS };
    let times = [WARM_UP, SPAN].map(|[quick, full]| if run.quick { quick } else { full });
    let mut ways: [Vec<Goodput>; 2] = Default::default();
    for _ in 0..rounds {
        for (upward, way) in [true, false].into_iter().zip(&mut ways) {
            let rate = |port| rate(bed, upward, port, times);
            let goodput = Goodput { alone: [rate(ALONE[0])?, rate(ALONE[1])?], bonded: rate(BONDED)? };
            run.rows.push(json!({ "kind": "goodput", "links": links, "upward": upward,
                "alone_mbps": goodput.alone.map(round), "bonded_mbps": round(goodput.bonded),
                "over_sum": round(goodput.over_sum()), "over_best": round(goodput.over_best()) }));
            way.push(goodput);
        }
    }
    let least = |of: fn(&Goodput) -> f64| {
        Estimate::least(ways.iter().filter_map(|way| median(&way.iter().map(of).collect::<Vec<_>>(), LEVEL)))
    };
    Ok([least(Goodput::over_sum), least(Goodput::over_best)])
}

/// Mbit/s that arrive of one connection to this port.
fn rate(bed: &BondingBed, upward: bool, port: u16, [warm_up, span]: [Duration; 2]) -> Result<f64> {
    let transfer = bed.send(upward, port)?;
    sleep(warm_up);
    let rate = transfer.forward_rate(span);
    transfer.finish(Duration::from_secs(3))?;
    Ok(rate)
}
