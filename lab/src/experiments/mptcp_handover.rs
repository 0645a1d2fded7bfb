//! One connection while the vehicle moves from FN1 to FN2, home, and into both (document P2, which restarted its
//! connections): gap at the application, path of the payload, and MPTCP options on the wire.

use super::Experiment;
use crate::bed::cage::WORK;
use crate::check;
use crate::figures::{Findings, percentile, round, spread};
use crate::multipath::journey::{Journey, Leg, Mode};
use crate::multipath::options::Options;
use crate::multipath::{Path, Shape, Spot, Testbed};
use crate::progress::Progress;
use crate::traffic::Delivery;
use anyhow::{Context, Result};
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mptcp/handover",
    about: "one connection through hard, planned and black-hole handovers, with and without MPTCP",
    run,
};

/// Octets per second in each direction.
const RATE: u64 = 200_000;
/// The port of the second endpoint.
const PORT: u16 = 9500;
/// How long a re-plugged cable is out.
const DARK: Duration = Duration::from_millis(9);
/// The handovers of a round in order; each begins where the previous one ends.
const MOVES: [&str; 8] = [
    "hard FN1 to FN2",
    "hard FN2 to home",
    "hard home to FN1",
    "second uplink into FN2",
    "planned FN1 to FN2",
    "first uplink into FN1",
    "black hole in FN1",
    "hard, from FN2 alone into FN1",
];

/// The kinds of handovers in the summary.
const KINDS: [(&str, &str); 5] = [
    ("hard", "hard FN1 to FN2"),
    ("to_home", "hard FN2 to home"),
    ("from_home", "hard home to FN1"),
    ("planned", "planned FN1 to FN2"),
    ("blackhole", "black hole in FN1"),
];

/// Maximum gap ratio of MPTCP over TCP. Over the same path they differ only by chance.
const NO_LONGER: f64 = 1.25;

/// A change of the vehicle's attachments.
type Act = fn(&Testbed) -> Result<()>;

/// All handovers of one mode.
struct Series {
    mode: Mode,
    legs: Vec<Leg>,
    whole: bool,
    direct_share: f64,
    backup_octets: u64,
    options: Options,
    complaints: Vec<String>,
    wrong_sources: Vec<String>,
    wrong: u64,
    untold: u64,
}

fn run(quick: bool) -> Result<Findings> {
    let times = if quick { 1 } else { 10 };
    let modes = [Mode::Classical, Mode::Outbound, Mode::Inbound];
    let mut progress = Progress::new((modes.len() * times * MOVES.len()) as u64);
    let mut findings = Findings::default();
    let mut all = Vec::new();
    for mode in modes {
        all.push(series(mode, times, &mut progress).with_context(|| format!("{mode:?}"))?);
    }
    report(&mut findings, &all, quick);
    Ok(findings)
}

fn series(mode: Mode, times: usize, progress: &mut Progress) -> Result<Series> {
    let testbed = Testbed::build(Shape::PAPER.lossless())?;
    testbed.plug(0, Spot::Visited(0))?;
    testbed.wait_home_path()?;
    if mode != Mode::Classical {
        testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
    }
    if mode == Mode::Inbound {
        testbed.accept_offers()?;
    }
    let capture = std::path::Path::new(WORK).join("handover.pcapng");
    testbed.world.air.capture(&capture)?;
    let began = crate::clock::unix_micros();
    let mut journey = Journey::begin(&testbed, mode, PORT, RATE, &[0])?;
    sleep(Duration::from_secs(2));
    let mut legs = Vec::new();
    for round in 0..times {
        legs.extend(round_trip(&mut journey, mode, progress)?);
        if round == 0 {
            // One round contains every option; a longer capture would exhaust memory.
            testbed.world.air.finish_capture()?;
        }
    }
    let deliveries = journey.finish()?;
    let end = crate::clock::unix_micros();
    let verdict = check::dissect(&capture)?;
    Ok(Series {
        mode,
        whole: deliveries.iter().all(Delivery::is_whole),
        direct_share: testbed.paths.direct_share(began, end),
        backup_octets: testbed.paths.octets(Path::Home, began, end),
        options: Options::count(&capture, &["mr0.in0", "mnn0.eth0"])?,
        complaints: verdict.complaints,
        wrong_sources: testbed.uplinks.stories(),
        wrong: testbed.uplinks.wrong(),
        untold: testbed.uplinks.untold(),
        legs,
    })
}

/// All handovers once, from FN1 on the first uplink back to the same state.
fn round_trip(journey: &mut Journey<'_>, mode: Mode, progress: &mut Progress) -> Result<Vec<Leg>> {
    let mut legs = Vec::new();
    for what in MOVES {
        progress.say(&format!("{mode:?}: {what}"));
        let (there, act): (&[usize], Act) = match what {
            "hard FN1 to FN2" => (&[1], |bed| replug(bed, Spot::Visited(1))),
            "hard FN2 to home" => (&[], |bed| replug(bed, Spot::Home)),
            "hard home to FN1" => (&[0], |bed| replug(bed, Spot::Visited(0))),
            "second uplink into FN2" => (&[0, 1], |bed| bed.plug(1, Spot::Visited(1)).map(drop)),
            "planned FN1 to FN2" => (&[1], |bed| bed.unplug(0).map(drop)),
            "first uplink into FN1" => (&[0, 1], |bed| bed.plug(0, Spot::Visited(0)).map(drop)),
            "black hole in FN1" => (&[1], |bed| bed.cut(0, true)),
            _ => (&[0], |bed| {
                // The failed path is unplugged and restored first, so that it starts afresh.
                bed.unplug(0)?;
                bed.cut(0, false)?;
                bed.unplug(1)?;
                sleep(DARK);
                bed.plug(0, Spot::Visited(0)).map(drop)
            }),
        };
        legs.push(journey.go(what, there, act)?);
        progress.step();
    }
    Ok(legs)
}

fn replug(testbed: &Testbed, spot: Spot) -> Result<()> {
    testbed.unplug(0)?;
    sleep(DARK);
    testbed.plug(0, spot).map(drop)
}

fn report(findings: &mut Findings, all: &[Series], quick: bool) {
    for series in all {
        let faults: Vec<&String> = series.legs.iter().flat_map(|leg| &leg.faults).collect();
        let kinds = MOVES.iter().map(|what| {
            let of = || series.legs.iter().filter(|leg| leg.what == *what);
            let gaps: Vec<f64> = of().map(|leg| leg.gap).collect();
            let direct: Vec<f64> = of().filter_map(|leg| leg.to_direct).collect();
            let withdrawn: Vec<f64> = of().filter_map(|leg| leg.withdrawn).collect();
            json!({
                "move": what, "gap_ms": spread(&gaps), "to_direct_ms": spread(&direct),
                "withdrawn_ms": spread(&withdrawn),
            })
        });
        let mode = series.mode;
        faults.iter().for_each(|fault| findings.blame(format!("{mode:?}: {fault}")));
        series.complaints.iter().for_each(|complaint| findings.blame(format!("{mode:?}: {complaint}")));
        findings.require(series.whole, || format!("{mode:?}: not every octet was delivered once"));
        findings.require(series.wrong == 0, || format!("{mode:?}: {} packets with a wrong source", series.wrong));
        findings.require(mode == Mode::Classical || spoke(series), || {
            format!("{mode:?}: an MPTCP option that was due was not seen")
        });
        findings.rows.push(json!({
            "mode": format!("{:?}", series.mode).to_lowercase(),
            "bytes_whole": series.whole,
            "direct_share": round(series.direct_share),
            "home_path_octets": series.backup_octets,
            "mptcp_options": series.options.row(),
            "complaints": series.complaints,
            "wrong_source_packets": series.wrong,
            "packets_before_the_kernel_told": series.untold,
            "wrong_sources": series.wrong_sources,
            "faults": faults,
            "moves": kinds.collect::<Vec<_>>(),
            "each": series.legs.iter().map(Leg::row).collect::<Vec<_>>(),
        }));
    }
    let find = |mode: Mode| all.iter().find(|series| series.mode == mode);
    for (name, what) in KINDS {
        let gap = |mode: Mode| {
            let legs = find(mode).into_iter().flat_map(|series| &series.legs).filter(|leg| leg.what == what);
            percentile(&legs.map(|leg| leg.gap).collect::<Vec<_>>(), 0.5)
        };
        let gaps = [Mode::Classical, Mode::Outbound, Mode::Inbound].map(gap);
        for (word, gap) in ["tcp", "mptcp", "mptcp_inbound"].iter().zip(gaps) {
            findings.sum_up(&format!("{name}_gap_ms_p50_{word}"), gap);
        }
        let [tcp, mptcp, _] = gaps;
        let ratio = mptcp.zip(tcp).map(|(mptcp, tcp)| mptcp / tcp);
        // One run of each is not significant.
        findings.require(quick || ratio.is_some_and(|ratio| ratio <= NO_LONGER), || {
            format!("{name}: the gap of MPTCP over that of TCP is {ratio:?}; at most {NO_LONGER} is required")
        });
        findings.sum_up(&format!("gap_mptcp_over_tcp_{name}"), ratio.map(round));
    }
    let faults: usize = all.iter().flat_map(|series| &series.legs).map(|leg| leg.faults.len()).sum();
    findings.sum_up("bytes_whole", u8::from(all.iter().all(|series| series.whole)));
    findings.sum_up("direct_share", find(Mode::Outbound).map(|series| round(series.direct_share)));
    findings.sum_up("direct_share_inbound", find(Mode::Inbound).map(|series| round(series.direct_share)));
    let beside = all.iter().flat_map(|series| &series.legs).map(|leg| leg.backup_octets).sum::<u64>();
    findings.sum_up("backup_octets_beside_direct", beside);
    findings.sum_up("wrong_source_packets", all.iter().map(|series| series.wrong).sum::<u64>());
    findings.sum_up("faults", faults);
}

/// Whether the capture contains every expected option.
fn spoke(series: &Series) -> bool {
    let Options { capable, join, add_addr, remove_addr, prio, fail } = series.options;
    [capable, join, add_addr, remove_addr, prio].iter().all(|count| *count > 0) && fail == 0
}
