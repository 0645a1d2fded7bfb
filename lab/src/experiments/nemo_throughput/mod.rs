//! Cost of a tunnel for a router: packets per second of CPU time through four hosts in a row, compared with plain
//! forwarding, the kernel's own tunnels and an XDP redirect without a lookup; and bulk TCP. Each round measures all of
//! them in turn.

use crate::experiments::prelude::*;
mod bench;
mod lanes;

use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator::{self, Burst};
use crate::topology::chain::Forwarding;
use bench::{BulkRates, FORWARDINGS, ThroughputBench};
use lanes::{PacketLane, Section, lane, lanes};
use std::collections::BTreeMap;

/// Octets of the paper's IPv6 packets, with a minimum (64 octets of payload) and a maximum (just fits).
const SIZES: [usize; 7] = [112, 250, 500, 750, 1000, 1250, 1452];
const QUICK: [usize; 3] = [112, 500, 1250];
/// Parallel connections.
const FLOWS: [usize; 2] = [1, 4];

/// The bursts of all rounds.
type Bursts = BTreeMap<(usize, PacketLane), Vec<Burst>>;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let Effort { sizes, rounds, frames, octets } = Effort::of(run.quick);
    let mut bench = ThroughputBench(ChainBench::new(&[])?);
    let turns = if clock::is_emulated() {
        FORWARDINGS.map(<[Forwarding]>::to_vec).to_vec()
    } else {
        vec![FORWARDINGS.concat()]
    };
    run.set_steps((turns.len() + 1) * rounds);
    let mut bursts = Bursts::new();
    for kinds in turns {
        bench.0.add(&kinds)?;
        for at in 0..rounds {
            run.step(&format!("round {} of {rounds}", at + 1));
            for &size in sizes {
                let mut turn = lanes();
                let first = at % turn.len();
                turn.rotate_left(first);
                for lane in turn.into_iter().filter(|lane| kinds.contains(&lane.forwarding)) {
                    if bench.can_measure(lane, size) {
                        bursts.entry((size, lane)).or_default().push(bench.send_burst(lane, size, frames)?);
                    }
                }
            }
        }
    }
    let results: Vec<SizeResult<'_>> = sizes.iter().map(|&size| SizeResult { bursts: &bursts, size }).collect();
    for of_size in &results {
        of_size.summarise(run);
        of_size.check(run);
    }
    // In a virtual machine under another name.
    let machine = if clock::is_emulated() { "vm_" } else { "" };
    if let Some(middle) = percentile(results.iter().filter_map(SizeResult::over_ip6tnl), 0.5) {
        run.summarise(&format!("{machine}roam6_over_ip6tnl"), middle);
    }
    for kind in [Forwarding::Udp4, Forwarding::Udp6] {
        if let Some(middle) = percentile(results.iter().filter_map(|of_size| of_size.over_wireguard(kind)), 0.5) {
            run.summarise(&format!("{machine}{}_over_wireguard", kind.name()), middle);
        }
    }
    let mut bulks = BulkRates::new();
    for at in 0..rounds {
        run.step(&format!("TCP, round {} of {rounds}", at + 1));
        bench.measure_bulk(&mut bulks, octets, at)?;
    }
    summarise_bulk(run, &bulks);
    run.summarise("absent", bench.0.unavailable);
    Ok(())
}

/// Extent of the measurement.
struct Effort {
    sizes: &'static [usize],
    rounds: usize,
    /// Frames of each lane in each round.
    frames: u32,
    /// Octets of each bulk transfer.
    octets: usize,
}

impl Effort {
    fn of(quick: bool) -> Effort {
        match (clock::is_emulated(), quick) {
            (false, false) => Effort { sizes: &SIZES, rounds: 9, frames: 120_000, octets: 256 << 20 },
            (false, true) => Effort { sizes: &QUICK, rounds: 3, frames: 30_000, octets: 64 << 20 },
            (true, false) => Effort { sizes: &SIZES, rounds: 3, frames: 2_000, octets: 16 << 20 },
            (true, true) => Effort { sizes: &QUICK, rounds: 1, frames: 2_000, octets: 16 << 20 },
        }
    }
}

/// The bursts of one packet size.
struct SizeResult<'a> {
    bursts: &'a Bursts,
    size: usize,
}

impl SizeResult<'_> {
    fn bursts(&self, lane: PacketLane) -> &[Burst] {
        self.bursts.get(&(self.size, lane)).map_or(&[], Vec::as_slice)
    }

    /// Thousands of packets per second of CPU time.
    fn rates(&self, kind: Forwarding, section: Section, upward: bool) -> Vec<f64> {
        self.bursts(lane(kind, section, upward)).iter().map(Burst::kpps).collect()
    }

    fn median(&self, lane: PacketLane) -> Option<f64> {
        percentile(self.bursts(lane).iter().map(Burst::kpps), 0.5)
    }

    fn summarise(&self, run: &mut Run) {
        let of = |kind, section, upward| self.rates(kind, section, upward);
        let over_plain = |kind, section| {
            min_of_directions(|upward| ratio(&of(kind, section, upward), &of(Forwarding::Plain, section, upward)))
        };
        let roam6_over_plain = |section| over_plain(Forwarding::Roam6, section);
        let whole = |kind| of(kind, Section::Whole, false);
        let bare = |kind| of(kind, Section::WholeBare, false);
        let summary = [
            ("roam6_over_plain", roam6_over_plain(Section::Whole)),
            ("encap_over_plain", roam6_over_plain(Section::Entry)),
            ("decap_over_plain", roam6_over_plain(Section::Exit)),
            ("udp4_over_plain", over_plain(Forwarding::Udp4, Section::Whole)),
            ("udp6_over_plain", over_plain(Forwarding::Udp6, Section::Whole)),
            ("roam6_over_kernel_tunnel", ratio(&whole(Forwarding::Roam6), &whole(Forwarding::Seg6))),
            ("roam6_over_ip6tnl", self.over_ip6tnl()),
            ("roam6_over_wireguard", self.over_wireguard(Forwarding::Roam6)),
            ("ceiling_over_plain", ratio(&whole(Forwarding::Redirect), &whole(Forwarding::Plain))),
            ("xdp_over_plain", over_plain(Forwarding::Xdp, Section::Whole)),
            ("xdp_over_ceiling", ratio(&whole(Forwarding::Xdp), &whole(Forwarding::Redirect))),
            ("xdp_xdp_over_plain", over_plain(Forwarding::Xdp, Section::WholeBare)),
            ("xdp_xdp_over_ceiling", ratio(&bare(Forwarding::Xdp), &bare(Forwarding::Redirect))),
        ];
        for (name, value) in summary {
            if let Some(value) = value {
                run.summarise(&format!("{name}_{}", self.size), value);
            }
        }
        let seen = lanes().into_iter().filter(|lane| !self.bursts(*lane).is_empty());
        run.rows.extend(seen.map(|lane| self.row(lane)));
    }

    fn over_wireguard(&self, kind: Forwarding) -> Option<f64> {
        let of = |kind| self.rates(kind, Section::Whole, false);
        ratio(&of(kind), &of(Forwarding::WireGuard))
    }

    fn over_ip6tnl(&self) -> Option<f64> {
        let of = |kind, upward| self.rates(kind, Section::Whole, upward);
        min_of_directions(|upward| ratio(&of(Forwarding::Roam6, upward), &of(Forwarding::Ip6tnl, upward)))
    }

    fn row(&self, lane: PacketLane) -> Value {
        let bursts = self.bursts(lane).iter();
        json!({
            "octets": self.size,
            "by": lane.forwarding.name(),
            "section": format!("{:?}", lane.section).to_lowercase(),
            "upward": lane.upward,
            "kpps_of_cpu": self.median(lane).map(round),
            "rounds": bursts.clone().map(|burst| round(burst.kpps())).collect::<Vec<_>>(),
            "arrived": bursts.map(|burst| round(burst.delivered_share())).collect::<Vec<_>>(),
        })
    }

    /// Packets must arrive, and the forwarding must be slower than the generator alone.
    fn check(&self, run: &mut Run) {
        for lane in lanes() {
            packet_generator::describe_losses(self.bursts(lane))
                .for_each(|lost| run.faults.push(format!("{lane}, {} octets, {lost}", self.size)));
            let generator =
                PacketLane { section: lane.section.generator_only(), forwarding: Forwarding::Plain, upward: false };
            let (alone, through) = (self.median(generator), self.median(lane));
            if lane.section != generator.section && alone <= through {
                run.faults.push(format!(
                    "{lane}, {} octets: {through:?} thousand packets a second, and the generator alone {alone:?}",
                    self.size
                ));
            }
        }
    }
}

fn summarise_bulk(run: &mut Run, bulks: &BulkRates) {
    for flows in FLOWS {
        for (name, kind, local) in [
            ("tcp_roam6_over_plain", Forwarding::Roam6, false),
            ("tcp_local_roam6_over_plain", Forwarding::Roam6, true),
            ("tcp_udp4_over_plain", Forwarding::Udp4, false),
            ("tcp_local_udp4_over_plain", Forwarding::Udp4, true),
            ("tcp_udp6_over_plain", Forwarding::Udp6, false),
            ("tcp_local_udp6_over_plain", Forwarding::Udp6, true),
        ] {
            let of = |kind, upward| bulks.get(&(flows, local, upward, kind)).map(Vec::as_slice);
            let value = min_of_directions(|upward| ratio(of(kind, upward)?, of(Forwarding::Plain, upward)?));
            run.summarise(&format!("{name}_{flows}"), value);
        }
    }
    for ((flows, local, upward, kind), rates) in bulks {
        run.rows.push(json!({
            "flows": flows,
            "by": kind.name(),
            "sockets_on_the_router": local,
            "upward": upward,
            "gbit_per_s_of_cpu": percentile(rates, 0.5).map(round),
        }));
    }
}
