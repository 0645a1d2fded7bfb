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
const QUICK: [usize; 2] = [500, 1250];
/// The time of a quick and of a full run.
const BUDGETS: [Duration; 2] = [Duration::from_secs(290), Duration::from_secs(1500)];
/// Parallel connections.
const FLOWS: [usize; 2] = [1, 4];

/// The bursts of all rounds.
type Bursts = BTreeMap<(usize, PacketLane), Vec<Burst>>;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let effort = Effort::of(run.quick);
    let mut rounds = Rounds::growing(run, BUDGETS);
    run.set_steps(rounds.expected());
    let mut all = Measured::default();
    while let Some(at) = rounds.next() {
        run.step(&format!("round {}", at + 1));
        let of_round = Measured::round(&effort, at)?;
        if rounds.keep() {
            all.extend(of_round);
        }
        rounds.look(|rounds| all.estimates(rounds, effort.sizes));
    }
    run.estimate_all(all.estimates(&rounds, effort.sizes));
    rounds.finish(run);
    for &size in effort.sizes {
        SizeResult { bursts: &all.bursts, size }.report(run);
    }
    report_bulk(run, &all.bulks);
    run.summarise("absent", all.unavailable);
    Ok(())
}

/// What was measured.
#[derive(Default)]
struct Measured {
    bursts: Bursts,
    bulks: BulkRates,
    /// Forwardings that this machine does not support, with the reason.
    unavailable: Vec<String>,
}

impl Measured {
    /// Builds the networks, and measures each lane once, in turn.
    fn round(effort: &Effort, at: usize) -> Result<Measured> {
        let mut bench = ThroughputBench(ChainBench::new(&[])?);
        let turns = if clock::counts_instructions() {
            FORWARDINGS.map(<[Forwarding]>::to_vec).to_vec()
        } else {
            vec![FORWARDINGS.concat()]
        };
        let mut measured = Measured::default();
        for kinds in turns {
            bench.0.add(&kinds)?;
            for &size in effort.sizes {
                for (lane, burst) in bench.measure_lanes(&kinds, size, effort, at)? {
                    measured.bursts.entry((size, lane)).or_default().push(burst);
                }
            }
        }
        bench.measure_bulk(&mut measured.bulks, effort.octets, at)?;
        measured.unavailable = bench.0.unavailable;
        Ok(measured)
    }

    fn extend(&mut self, other: Measured) {
        other.bursts.into_iter().for_each(|(lane, own)| self.bursts.entry(lane).or_default().extend(own));
        other.bulks.into_iter().for_each(|(lane, own)| self.bulks.entry(lane).or_default().extend(own));
        self.unavailable = other.unavailable;
    }

    /// All ratios.
    fn estimates(&self, rounds: &Rounds, sizes: &[usize]) -> Vec<NamedEstimate> {
        let results = || sizes.iter().map(|&size| SizeResult { bursts: &self.bursts, size });
        let mut figures: Vec<NamedEstimate> = results().flat_map(|of_size| of_size.estimates(rounds)).collect();
        // In a virtual machine that counts instructions under another name.
        let machine = if clock::counts_instructions() { "vm_" } else { "" };
        let middles = [
            (
                "roam6_over_ip6tnl".to_owned(),
                Estimate::middle(results().filter_map(|of_size| of_size.over_ip6tnl(rounds))),
            ),
            (
                format!("{}_over_wireguard", Forwarding::Udp4.name()),
                over_wireguard(results(), rounds, Forwarding::Udp4),
            ),
            (
                format!("{}_over_wireguard", Forwarding::Udp6.name()),
                over_wireguard(results(), rounds, Forwarding::Udp6),
            ),
        ];
        let measured = middles.into_iter().filter(|(_, middle)| middle.is_some());
        figures.extend(measured.map(|(name, middle)| (format!("{machine}{name}"), middle)));
        figures.extend(bulk_estimates(rounds, &self.bulks));
        figures
    }
}

fn over_wireguard<'a>(
    results: impl Iterator<Item = SizeResult<'a>>,
    rounds: &Rounds,
    kind: Forwarding,
) -> Option<Estimate> {
    Estimate::middle(results.filter_map(|of_size| of_size.over_wireguard(rounds, kind)))
}

/// Extent of the measurement.
struct Effort {
    sizes: &'static [usize],
    /// Passes over all lanes in each round: a processor that changes its speed within a round meets all lanes alike.
    passes: usize,
    /// Frames of each lane in each pass.
    frames: u32,
    /// Octets of each bulk transfer.
    octets: usize,
}

impl Effort {
    fn of(quick: bool) -> Effort {
        match (clock::counts_instructions(), quick) {
            (false, false) => Effort { sizes: &SIZES, passes: 5, frames: 24_000, octets: 256 << 20 },
            (false, true) => Effort { sizes: &QUICK, passes: 5, frames: 5_000, octets: 32 << 20 },
            (true, false) => Effort { sizes: &SIZES, passes: 1, frames: 2_000, octets: 16 << 20 },
            (true, true) => Effort { sizes: &QUICK, passes: 1, frames: 2_000, octets: 16 << 20 },
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

    /// Ratios at this size; of both directions the lesser one.
    fn estimates(&self, rounds: &Rounds) -> Vec<NamedEstimate> {
        let of = |kind, section, upward| self.rates(kind, section, upward);
        let over_plain = |kind, section| {
            let plain = |upward| of(Forwarding::Plain, section, upward);
            let direction = |upward| rounds.ratio(&of(kind, section, upward), &plain(upward));
            Estimate::least([false, true].into_iter().filter_map(direction))
        };
        let ratio = |ours: &[f64], theirs: &[f64]| rounds.ratio(ours, theirs);
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
            ("roam6_over_ip6tnl", self.over_ip6tnl(rounds)),
            ("roam6_over_wireguard", self.over_wireguard(rounds, Forwarding::Roam6)),
            ("ceiling_over_plain", ratio(&whole(Forwarding::Redirect), &whole(Forwarding::Plain))),
            ("xdp_over_plain", over_plain(Forwarding::Xdp, Section::Whole)),
            ("xdp_over_ceiling", ratio(&whole(Forwarding::Xdp), &whole(Forwarding::Redirect))),
            ("xdp_xdp_over_plain", over_plain(Forwarding::Xdp, Section::WholeBare)),
            ("xdp_xdp_over_ceiling", ratio(&bare(Forwarding::Xdp), &bare(Forwarding::Redirect))),
        ];
        let measured = summary.into_iter().filter(|(_, value)| value.is_some());
        measured.map(|(name, value)| (format!("{name}_{}", self.size), value)).collect()
    }

    fn report(&self, run: &mut Run) {
        self.check(run);
        let seen = lanes().into_iter().filter(|lane| !self.bursts(*lane).is_empty());
        run.rows.extend(seen.map(|lane| self.row(lane)));
    }

    fn over_wireguard(&self, rounds: &Rounds, kind: Forwarding) -> Option<Estimate> {
        let of = |kind| self.rates(kind, Section::Whole, false);
        rounds.ratio(&of(kind), &of(Forwarding::WireGuard))
    }

    fn over_ip6tnl(&self, rounds: &Rounds) -> Option<Estimate> {
        let of = |kind, upward| self.rates(kind, Section::Whole, upward);
        let direction = |upward| rounds.ratio(&of(Forwarding::Roam6, upward), &of(Forwarding::Ip6tnl, upward));
        Estimate::least([false, true].into_iter().filter_map(direction))
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

fn bulk_estimates(rounds: &Rounds, bulks: &BulkRates) -> Vec<NamedEstimate> {
    let mut figures = Vec::new();
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
            let direction = |upward| rounds.ratio(of(kind, upward)?, of(Forwarding::Plain, upward)?);
            let value = Estimate::least([false, true].into_iter().filter_map(direction));
            figures.push((format!("{name}_{flows}"), value));
        }
    }
    figures
}

fn report_bulk(run: &mut Run, bulks: &BulkRates) {
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
