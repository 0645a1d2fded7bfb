//! What a tunnel costs a router: packets a second of processor time through four hosts in a row, beside plain forwarding,
//! the kernel's own tunnel and a router that looks at nothing; and bulk TCP. Each round goes through all of them in turn.

use super::Experiment;
use crate::bed::{Host, host};
use crate::chain::{self, Chain, Kind};
use crate::figures::{Findings, percentile, round};
use crate::progress::Progress;
use crate::traffic::bulk;
use crate::traffic::wind::{Blow, Wind};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// See the file's head.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "nemo/throughput",
    about: "P1 Fig 7: packets a second of processor time by plain routing, by the tunnel, by the kernel's own",
    run,
};

/// Octets of the IPv6 packets of the paper, the least and the most besides: 64 of payload, and what just fits.
const SIZES: [usize; 7] = [112, 250, 500, 750, 1000, 1250, 1452];
const QUICK: [usize; 3] = [112, 500, 1250];
/// Frames sent before those that count, so that neighbours and next hops are known.
const WARM: u32 = 1024;
/// A lane that loses more loses its claim.
const ARRIVED: f64 = 0.99;
/// Connections at once.
const FLOWS: [usize; 2] = [1, 4];

/// What of the way from one end to the other is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    /// The generator alone: what it sends is swallowed at once.
    Nothing,
    /// The router that encapsulates.
    Entry,
    /// The router that decapsulates.
    Exit,
    /// Both.
    Whole,
    /// Nothing, and a receiver that takes frames: no socket buffer anywhere.
    NothingBare,
    /// Both, and such a receiver.
    WholeBare,
}

impl Section {
    /// The generator alone, to the same receiver.
    fn nothing(self) -> Section {
        if matches!(self, Section::NothingBare | Section::WholeBare) { Section::NothingBare } else { Section::Nothing }
    }
}

/// One kind of packet on one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    kind: Kind,
    section: Section,
    upward: bool,
}

const fn lane(kind: Kind, section: Section, upward: bool) -> Lane {
    Lane { kind, section, upward }
}

const LANES: [Lane; 21] = [
    lane(Kind::Plain, Section::Nothing, false),
    lane(Kind::Plain, Section::Whole, false),
    lane(Kind::Roam6, Section::Whole, false),
    lane(Kind::Segments, Section::Whole, false),
    lane(Kind::Ceiling, Section::Whole, false),
    lane(Kind::Xdp, Section::Whole, false),
    lane(Kind::Plain, Section::Whole, true),
    lane(Kind::Roam6, Section::Whole, true),
    lane(Kind::Xdp, Section::Whole, true),
    lane(Kind::Plain, Section::NothingBare, false),
    lane(Kind::Plain, Section::WholeBare, false),
    lane(Kind::Xdp, Section::WholeBare, false),
    lane(Kind::Ceiling, Section::WholeBare, false),
    lane(Kind::Plain, Section::Entry, false),
    lane(Kind::Roam6, Section::Entry, false),
    lane(Kind::Plain, Section::Exit, false),
    lane(Kind::Roam6, Section::Exit, false),
    lane(Kind::Plain, Section::Entry, true),
    lane(Kind::Roam6, Section::Entry, true),
    lane(Kind::Plain, Section::Exit, true),
    lane(Kind::Roam6, Section::Exit, true),
];

/// Thousands of packets a second of processor time, one of each round.
type Rates = BTreeMap<(usize, Lane), Vec<f64>>;

fn run(quick: bool) -> Result<Findings> {
    let (sizes, rounds, frames): (&[usize], usize, u32) =
        if quick { (&QUICK, 3, 30_000) } else { (&SIZES, 9, 120_000) };
    let mut bench = Bench::build()?;
    let mut findings = Findings { sound: true, ..Findings::default() };
    let mut progress = Progress::new(2 * rounds as u64);
    let mut rates = Rates::new();
    for at in 0..rounds {
        progress.say(&format!("round {} of {rounds}", at + 1));
        for &size in sizes {
            for lane in (0..LANES.len()).filter_map(|place| LANES.get((place + at) % LANES.len())) {
                let blow = bench.blow(*lane, size, frames)?;
                findings.sound &= blow.arrived as f64 >= ARRIVED * f64::from(blow.sent);
                rates.entry((size, *lane)).or_default().push(blow.kpps());
            }
        }
        progress.step();
    }
    for &size in sizes {
        sum_up(&mut findings, &rates, size);
    }
    let mut bulks = BTreeMap::new();
    for at in 0..rounds {
        progress.say(&format!("TCP, round {} of {rounds}", at + 1));
        bench.bulks(&mut bulks, if quick { 64 << 20 } else { 256 << 20 }, at)?;
        progress.step();
    }
    sum_up_bulks(&mut findings, &bulks);
    findings.sum_up("absent", absent(&bench.chain(Kind::Plain)?.agent));
    Ok(findings)
}

/// The chains, a counter that stays at each end, and a second one for what comes to the middle.
struct Bench {
    chains: Vec<Chain>,
    wind: Wind,
}

impl Bench {
    fn build() -> Result<Bench> {
        let kinds = [Kind::Plain, Kind::Roam6, Kind::Xdp, Kind::Segments, Kind::Ceiling];
        let chains: Vec<Chain> = kinds.into_iter().map(Chain::build).collect::<Result<_>>()?;
        let mut wind = Wind::new()?;
        for chain in &chains {
            wind.count_at(&chain.sink, "d0")?;
            wind.count_at(&chain.source, "s0")?;
        }
        Ok(Bench { chains, wind })
    }

    fn chain(&self, kind: Kind) -> Result<&Chain> {
        self.chains.iter().find(|chain| chain.kind == kind).context("no such chain")
    }

    /// Sends packets of `size` octets, without the tunnel's header, along a lane.
    fn blow(&mut self, lane: Lane, size: usize, frames: u32) -> Result<Blow> {
        let Lane { kind, section, upward } = lane;
        let chain = self.chains.iter().find(|chain| chain.kind == kind).context("no such chain")?;
        let middle = match (section, upward) {
            (Section::Nothing | Section::NothingBare, _) => Some((&chain.agent, "h0")),
            (Section::WholeBare, _) => Some((&chain.sink, "d0")),
            (Section::Entry, false) => Some((&chain.router, "up0")),
            (Section::Entry, true) => Some((&chain.agent, "h1")),
            _ => None,
        };
        let (host, from, to) = match (section, upward) {
            (Section::Exit, false) => (&chain.agent, "h1", "up0"),
            (Section::Exit, true) => (&chain.router, "up0", "h1"),
            (_, false) => (&chain.source, "s0", "h0"),
            (_, true) => (&chain.sink, "d0", "in0"),
        };
        let plain = chain::packet(size, upward);
        let inside = section == Section::Exit && kind == Kind::Roam6;
        let packet = if inside { chain::tunnelled(&plain, upward) } else { plain };
        let frame = chain::frame(from, to, &packet);
        self.wind.blow(host, from, &frame, WARM)?;
        let count = if section.nothing() == Section::Nothing { Wind::count_at } else { Wind::swallow_at };
        let place = middle.map(|(host, interface)| count(&mut self.wind, host, interface)).transpose()?;
        let blow = self.wind.blow(host, from, &frame, frames)?;
        place.map(|place| self.wind.leave(place)).transpose()?;
        Ok(blow)
    }

    /// Bulk TCP, both ways, through plain routers and through the tunnel in turn.
    fn bulks(&self, bulks: &mut BTreeMap<(usize, bool, bool, Kind), Vec<f64>>, octets: usize, at: usize) -> Result<()> {
        let mut kinds = [Kind::Plain, Kind::Roam6];
        kinds.rotate_left(at % 2);
        for flows in FLOWS {
            for kind in kinds {
                let chain = self.chain(kind)?;
                let far = (&chain.source, chain::SOURCE);
                let nodes = [(false, (&chain.sink, chain::SINK)), (true, (&chain.router, chain.router_address()))];
                for (local, near) in nodes {
                    for (upward, from, to) in [(false, far, near), (true, near, far)] {
                        let rate = bulk::carry(from, to, flows, octets)?;
                        bulks.entry((flows, local, upward, kind)).or_default().push(rate);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The median of the rounds' ratios.
fn ratio(ours: Option<&Vec<f64>>, theirs: Option<&Vec<f64>>) -> Option<f64> {
    let ratios: Vec<f64> = ours?.iter().zip(theirs?).map(|(ours, theirs)| ours / theirs).collect();
    percentile(&ratios, 0.5).map(round)
}

/// The lesser of both ways.
fn lesser(of: impl Fn(bool) -> Option<f64>) -> Option<f64> {
    [of(false), of(true)].into_iter().flatten().reduce(f64::min)
}

fn sum_up(findings: &mut Findings, rates: &Rates, size: usize) {
    let of = |kind, section, upward| rates.get(&(size, lane(kind, section, upward)));
    let over_plain =
        |kind, section| lesser(|upward| ratio(of(kind, section, upward), of(Kind::Plain, section, upward)));
    let roam6_over_plain = |section| over_plain(Kind::Roam6, section);
    let whole = |kind| of(kind, Section::Whole, false);
    let bare = |kind| of(kind, Section::WholeBare, false);
    let summary = [
        ("roam6_over_plain", roam6_over_plain(Section::Whole)),
        ("encap_over_plain", roam6_over_plain(Section::Entry)),
        ("decap_over_plain", roam6_over_plain(Section::Exit)),
        ("roam6_over_kernel_tunnel", ratio(whole(Kind::Roam6), whole(Kind::Segments))),
        ("ceiling_over_plain", ratio(whole(Kind::Ceiling), whole(Kind::Plain))),
        ("xdp_over_plain", over_plain(Kind::Xdp, Section::Whole)),
        ("xdp_over_ceiling", ratio(whole(Kind::Xdp), whole(Kind::Ceiling))),
        ("xdp_xdp_over_plain", over_plain(Kind::Xdp, Section::WholeBare)),
        ("xdp_xdp_over_ceiling", ratio(bare(Kind::Xdp), bare(Kind::Ceiling))),
    ];
    for (name, value) in summary {
        findings.sum_up(&format!("{name}_{size}"), value);
    }
    for lane in LANES {
        let Some(rates) = rates.get(&(size, lane)) else { continue };
        let median = percentile(rates, 0.5);
        let generator = lane.section.nothing();
        if lane.section != generator {
            let generator = of(Kind::Plain, generator, false).and_then(|rates| percentile(rates, 0.5));
            findings.sound &= generator > median;
        }
        findings.rows.push(json!({
            "octets": size,
            "by": format!("{:?}", lane.kind).to_lowercase(),
            "section": format!("{:?}", lane.section).to_lowercase(),
            "upward": lane.upward,
            "kpps_of_cpu": median.map(round),
            "rounds": rates.iter().copied().map(round).collect::<Vec<_>>(),
        }));
    }
}

fn sum_up_bulks(findings: &mut Findings, bulks: &BTreeMap<(usize, bool, bool, Kind), Vec<f64>>) {
    for flows in FLOWS {
        for (name, local) in [("tcp_roam6_over_plain", false), ("tcp_local_roam6_over_plain", true)] {
            let of = |kind, upward| bulks.get(&(flows, local, upward, kind));
            let value = lesser(|upward| ratio(of(Kind::Roam6, upward), of(Kind::Plain, upward)));
            findings.sum_up(&format!("{name}_{flows}"), value);
        }
    }
    for ((flows, local, upward, kind), rates) in bulks {
        findings.rows.push(json!({
            "flows": flows,
            "by": format!("{kind:?}").to_lowercase(),
            "sockets_on_the_router": local,
            "upward": upward,
            "gbit_per_s_of_cpu": percentile(rates, 0.5).map(round),
        }));
    }
}

/// Which other tunnels this kernel has not.
fn absent(host: &Host) -> Value {
    let makes = |kind: &str| {
        let mut add = Command::new("ip");
        add.args(["-n", host.name(), "link", "add", "tried0", "type", kind]);
        let made = host::run(&mut add).is_ok();
        host.ip(&["link delete tried0"]).ok();
        made
    };
    json!(["ip6tnl", "wireguard"].into_iter().filter(|kind| !makes(kind)).collect::<Vec<_>>())
}
