//! One connection while the vehicle moves from FN1 to FN2, home, and into both (document P2, which restarted its
//! connections): gap at the application, path of the payload, and MPTCP options on the wire.

use crate::bed::dissector;
use crate::bed::sandbox::WORK_DIR;
use crate::experiments::prelude::*;
use crate::load::Delivery;
use crate::mptcp::observed_transfer::{Mode, MoveObservation, ObservedTransfer};
use crate::mptcp::options::{self, OptionCounts};
use crate::mptcp::source_monitor::Observations;
use crate::mptcp::{AttachmentPoint, CareOfPrefixes, LinkShape, MptcpTestbed, PayloadPath};

/// Octets per second in each direction.
const RATE: u64 = 200_000;
/// The port of the second endpoint.
const PORT: u16 = 9500;
/// The handovers of a round in order; each begins where the previous one ends.
static MOVES: [&str; 8] = [
    "hard FN1 to FN2",
    "hard FN2 to home",
    "hard home to FN1",
    "second uplink into FN2",
    "planned FN1 to FN2",
    "first uplink into FN1",
    "black hole in FN1",
    "hard, from FN2 alone into FN1",
];
/// Number of handovers until FN1 has been left for the second time.
const FIRST_RETURN: usize = 5;

/// The kinds of handovers in the summary.
const KINDS: [(&str, &str); 5] = [
    ("hard", "hard FN1 to FN2"),
    ("to_home", "hard FN2 to home"),
    ("from_home", "hard home to FN1"),
    ("planned", "planned FN1 to FN2"),
    ("blackhole", "black hole in FN1"),
];

/// The modes in order, with their names in the summary.
const MODES: [(Mode, &str); 5] = [
    (Mode::Classical, "tcp"),
    (Mode::Outbound, "mptcp"),
    (Mode::CareOf, "mptcp_care_of"),
    (Mode::Shared, "mptcp_shared"),
    (Mode::Inbound, "mptcp_inbound"),
];

/// A change of the vehicle's attachments.
type Action = fn(&MptcpTestbed) -> Result<()>;

/// All handovers of one mode.
struct Series {
    mode: Mode,
    moves: Vec<MoveObservation>,
    is_complete: bool,
    direct_share: f64,
    backup_octets: u64,
    options: OptionCounts,
    capture_errors: Vec<String>,
    sources: Observations,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let times = if run.quick { 1 } else { 10 };
    // In a quick run connections from a care-of address have shared prefixes, and `mptcp/filtered` has those opened outside.
    let is_measured = |mode: &Mode| !run.quick || !matches!(mode, Mode::CareOf | Mode::Inbound);
    let modes: Vec<Mode> = MODES.iter().map(|(mode, _)| *mode).filter(is_measured).collect();
    run.set_steps(modes.iter().map(|mode| times * handovers_of(*mode).len()).sum());
    let mut all = Vec::new();
    for mode in modes {
        all.push(run_series(run, mode, times).with_context(|| format!("{mode:?}"))?);
    }
    summarise(run, &all);
    Ok(())
}

fn run_series(run: &Run, mode: Mode, times: usize) -> Result<Series> {
    let prefixes = if mode == Mode::Shared { CareOfPrefixes::Shared } else { CareOfPrefixes::Delegated };
    let testbed = MptcpTestbed::build_with(LinkShape::PAPER.lossless(), prefixes)?;
    testbed.plug(0, AttachmentPoint::Visited(0))?;
    testbed.wait_home_path()?;
    if mode != Mode::Classical {
        testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
    }
    if mode == Mode::Inbound {
        testbed.set_accepted_announcements(2)?;
    }
    if mode.begins_at_care_of() {
        testbed.accept_subflows()?;
    }
    let capture = std::path::Path::new(WORK_DIR).join("handover.pcapng");
    testbed.network.emulator.capture(&capture)?;
    let began = crate::clock::unix_micros();
    let mut transfer = ObservedTransfer::begin(&testbed, mode, PORT, RATE, &[0])?;
    sleep(Duration::from_secs(2));
    let (mut moves, mut deliveries) = (Vec::new(), Vec::new());
    for round in 0..times {
        if mode.begins_at_care_of() && round > 0 {
            deliveries.extend(transfer.finish()?);
            transfer = begin_anew(&testbed, mode, PORT + u16::try_from(round)?)?;
        }
        moves.extend(round_trip(run, &mut transfer, mode)?);
        if round == 0 {
            // One round contains every option; a longer capture would exhaust memory.
            testbed.network.emulator.finish_capture()?;
        }
    }
    deliveries.extend(transfer.finish()?);
    let end = crate::clock::unix_micros();
    let verdict = dissector::dissect(&capture)?;
    Ok(Series {
        mode,
        is_complete: deliveries.iter().all(Delivery::is_complete),
        direct_share: testbed.path_monitor.direct_share(began, end),
        backup_octets: testbed.path_monitor.octets(PayloadPath::Home, began, end),
        options: options::count(&capture, &["mr0.in0", "mnn0.eth0"])?,
        capture_errors: verdict.errors,
        sources: testbed.source_monitor.observations(),
        moves,
    })
}

/// All handovers once, from FN1 on the first uplink back to the same state.
fn round_trip(run: &Run, transfer: &mut ObservedTransfer<'_>, mode: Mode) -> Result<Vec<MoveObservation>> {
    let mut moves = Vec::new();
    for what in handovers_of(mode) {
        run.step(&format!("{mode:?}: {what}"));
        let (there, act): (&[usize], Action) = match *what {
            "hard FN1 to FN2" => (&[1], |bed| bed.replug(AttachmentPoint::Visited(1))),
            "hard FN2 to home" => (&[], |bed| bed.replug(AttachmentPoint::Home)),
            "hard home to FN1" => (&[0], |bed| bed.replug(AttachmentPoint::Visited(0))),
            "second uplink into FN2" => (&[0, 1], |bed| bed.plug(1, AttachmentPoint::Visited(1)).map(drop)),
            "planned FN1 to FN2" => (&[1], |bed| bed.unplug(0).map(drop)),
            "first uplink into FN1" => (&[0, 1], |bed| bed.plug(0, AttachmentPoint::Visited(0)).map(drop)),
            "black hole in FN1" => (&[1], |bed| bed.cut(0, true)),
            _ => (&[0], |bed| {
                // The failed path is unplugged and restored first, so that it starts afresh.
                bed.unplug(0)?;
                bed.cut(0, false)?;
                bed.unplug(1)?;
                bed.replug(AttachmentPoint::Visited(0))
            }),
        };
        moves.push(transfer.run_move(what, there, act)?);
    }
    Ok(moves)
}

/// The handovers of one round. A connection opened from a care-of address ends before that address returns for the
/// second time: Linux 6.18 uses the address of the first subflow again only once if it is also announced to the peer.
fn handovers_of(mode: Mode) -> &'static [&'static str] {
    if mode.begins_at_care_of() { MOVES.split_at(FIRST_RETURN).0 } else { &MOVES }
}

/// Moves the vehicle from FN2 by the second uplink to FN1 by the first, and connects from the care-of address there.
fn begin_anew(testbed: &MptcpTestbed, mode: Mode, port: u16) -> Result<ObservedTransfer<'_>> {
    testbed.unplug(1)?;
    testbed.plug(0, AttachmentPoint::Visited(0))?;
    testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
    let transfer = ObservedTransfer::begin(testbed, mode, port, RATE, &[0])?;
    sleep(Duration::from_secs(2));
    Ok(transfer)
}

fn summarise(run: &mut Run, all: &[Series]) {
    for series in all {
        let faults: Vec<&String> = series.moves.iter().flat_map(|observation| &observation.faults).collect();
        let kinds = MOVES.iter().map(|what| {
            let of = || series.moves.iter().filter(|observation| observation.what == *what);
            json!({
                "move": what,
                "gap_ms": distribution(of().map(|observation| observation.gap)),
                "to_direct_ms": distribution(of().filter_map(|observation| observation.direct_after)),
                "care_of_to_direct_ms": distribution(of().filter_map(|observation| observation.direct_after_care_of)),
                "withdrawn_ms": distribution(of().filter_map(|observation| observation.deprecated_after)),
            })
        });
        let mode = series.mode;
        faults.iter().for_each(|fault| run.faults.push(format!("{mode:?}: {fault}")));
        series.capture_errors.iter().for_each(|complaint| run.faults.push(format!("{mode:?}: {complaint}")));
        run.require(series.is_complete, || format!("{mode:?}: not every octet was delivered once"));
        let wrong = series.sources.wrong_source;
        run.require(wrong == 0, || format!("{mode:?}: {wrong} packets with a wrong source"));
        run.require(mode == Mode::Classical || saw_expected_options(series), || {
            format!("{mode:?}: an expected MPTCP option is missing")
        });
        run.rows.push(json!({
            "mode": format!("{:?}", series.mode).to_lowercase(),
            "bytes_whole": series.is_complete,
            "direct_share": round(series.direct_share),
            "home_path_octets": series.backup_octets,
            "mptcp_options": series.options,
            "complaints": series.capture_errors,
            "wrong_source_packets": wrong,
            "packets_before_the_kernel_told": series.sources.grace_period,
            "wrong_sources": series.sources.samples,
            "faults": faults,
            "moves": kinds.collect::<Vec<_>>(),
            "each": series.moves.iter().map(MoveObservation::row).collect::<Vec<_>>(),
        }));
    }
    let find = |mode: Mode| all.iter().find(|series| series.mode == mode);
    for (name, what) in KINDS {
        let gaps = MODES.map(|(mode, _)| {
            let moves =
                find(mode).into_iter().flat_map(|series| &series.moves).filter(|observation| observation.what == what);
            moves.map(|observation| observation.gap).collect::<Vec<f64>>()
        });
        for ((_, word), gaps) in MODES.iter().zip(&gaps) {
            run.estimate(&format!("{name}_gap_ms_p50_{word}"), median(gaps, LEVEL));
        }
        // Over the same path they differ only by chance. The networks of the modes exist one after the other.
        let [tcp, mptcp, ..] = &gaps;
        let key = format!("gap_mptcp_over_tcp_{name}");
        run.estimate(&key, ratio_of_medians(mptcp, tcp, LEVEL));
        run.require_bound(&key);
    }
    let faults: usize = all.iter().flat_map(|series| &series.moves).map(|observation| observation.faults.len()).sum();
    run.summarise("bytes_whole", u8::from(all.iter().all(|series| series.is_complete)));
    for (name, mode) in
        [("", Mode::Outbound), ("_care_of", Mode::CareOf), ("_shared", Mode::Shared), ("_inbound", Mode::Inbound)]
    {
        run.summarise(&format!("direct_share{name}"), find(mode).map(|series| round(series.direct_share)));
    }
    summarise_direct_paths(run, all);
    let beside = all.iter().flat_map(|series| &series.moves).map(|observation| observation.backup_octets).sum::<u64>();
    run.summarise("backup_octets_beside_direct", beside);
    run.summarise("wrong_source_packets", all.iter().map(|series| series.sources.wrong_source).sum::<u64>());
    run.summarise("faults", faults);
}

/// How soon the direct path is in use without prefix delegation, and how long connections from care-of addresses stall.
fn summarise_direct_paths(run: &mut Run, all: &[Series]) {
    let moves = |series: fn(Mode) -> bool| all.iter().filter(move |one| series(one.mode)).flat_map(|one| &one.moves);
    let shared = moves(|mode| mode == Mode::Shared).filter_map(|observation| observation.direct_after_care_of);
    run.summarise("direct_ms_p95_shared", percentile(shared, 0.95));
    let stalls = moves(Mode::begins_at_care_of).map(|observation| observation.gap);
    run.summarise("outbound_stall_ms_max", percentile(stalls, 1.0));
}

/// Whether the capture contains every expected option.
fn saw_expected_options(series: &Series) -> bool {
    series.options.iter().all(|(name, count)| (*count > 0) == (*name != "mp_fail"))
}
