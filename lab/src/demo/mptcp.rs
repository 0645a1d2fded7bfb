//! Document P2: one MPTCP transfer goes through the tunnel, moves to the direct path, and follows the vehicle to the next
//! direct path; no byte is lost, and none takes a detour without need.

use super::Demo;
use crate::bed::Daemon;
use crate::clock;
use crate::load::Delivery;
use crate::mptcp::observed_transfer::{Mode, MoveObservation, ObservedTransfer};
use crate::mptcp::options;
use crate::mptcp::source_monitor::Observations;
use crate::mptcp::{AttachmentPoint, LinkShape, MptcpTestbed, PayloadPath};
use crate::report::chart::{Chart, Point, Series, Style, block_row};
use crate::threads::Workers;
use crate::topology::nemo::CORRESPONDENT;
use crate::ui::{LineStyle, print_events_of};
use anyhow::{Context, Result};
use std::thread::sleep;
use std::time::Duration;

/// Octets per second in each direction.
const RATE: u64 = 150_000;
const PORT: u16 = 9700;
/// The rate of a full block in the terminal's chart, octets per second: a little more than both directions together.
const FULL_BLOCK: u64 = 2 * RATE * 4 / 3;
/// Columns of that chart.
const COLUMNS: u32 = 96;

/// The moves and results of the transfer. Times in microseconds since 1970.
struct DemoRun {
    began: u64,
    ended: u64,
    moves: Vec<MoveObservation>,
    deliveries: [Delivery; 2],
}

/// The scene.
pub(crate) fn scene(demo: &mut Demo) -> Result<Option<Chart>> {
    demo.status("building home, FN1 and FN2, each 10 ms away; radvd and dhcpd serve FN1 and FN2");
    let testbed = MptcpTestbed::without_path_manager(LinkShape::PAPER.lossless())?;
    testbed.network.emulator.capture(&demo.capture)?;
    let node = testbed.vehicle.mnn_address;
    demo.status(format!("mobile network node {node}"));
    demo.status(format!("correspondent {CORRESPONDENT}: a stock kernel with receive buffers of 1 MiB"));
    let printer = demo.print_events(&[("mr ", &testbed.vehicle.daemon)])?;
    demo.action("up0 is plugged into FN1");
    testbed.visit(0)?;
    let run = run_moves(demo, &testbed).with_context(|| testbed.vehicle.daemon.log_tail())?;
    drop(printer);
    testbed.network.emulator.finish_capture()?;
    plot(demo, &testbed, &run);
    demo.check_deliveries("bytes", &run.deliveries);
    check_sources(demo, &testbed);
    demo.check_capture(|capture, _| {
        let options = options::count(capture, &["mr0.in0", "mnn0.eth0"])?;
        let [join, add, remove, prio] =
            ["mp_join", "add_addr", "remove_addr", "mp_prio"].map(|name| options.get(name).copied().unwrap_or(0));
        let counts = format!("{join} MP_JOIN, {add} ADD_ADDR, {remove} REMOVE_ADDR, {prio} MP_PRIO");
        Ok((join > 0 && remove > 0 && prio > 0, counts))
    })?;
    Ok(Some(chart(&testbed, &run)))
}

/// The transfer and all moves under it.
fn run_moves(demo: &mut Demo, testbed: &MptcpTestbed) -> Result<DemoRun> {
    let began = clock::unix_micros();
    let mut transfer = ObservedTransfer::begin(testbed, Mode::Outbound, PORT, RATE, &[])?;
    demo.action("a transfer begins in both directions; without a path manager it uses the tunnel");
    sleep(Duration::from_secs(3));
    let mut manager: Option<(Daemon, Workers)> = None;
    let terminal = demo.terminal.clone();
    let mut moves = Vec::new();
    let mut run = |what: &str, attached: &[usize], act: &mut dyn FnMut(&MptcpTestbed) -> Result<()>| -> Result<()> {
        demo.action(what);
        let observed = transfer.run_move(what, attached, act)?;
        print_move(demo, &observed);
        moves.push(observed);
        Ok(())
    };
    run("path manager starts", &[0], &mut |bed| {
        let node = bed.start_path_manager()?;
        let printer = print_events_of(&terminal, vec![("mnn", node.events.clone())])?;
        manager = Some((node, printer));
        Ok(())
    })?;
    run("FN1 to FN2", &[1], &mut |bed| bed.replug(AttachmentPoint::Visited(1)))?;
    run("FN1 too", &[0, 1], &mut |bed| bed.plug(1, AttachmentPoint::Visited(0)).map(drop))?;
    run("FN2 is left", &[0], &mut |bed| bed.unplug(0).map(drop))?;
    let deliveries = transfer.finish()?;
    Ok(DemoRun { began, ended: clock::unix_micros(), moves, deliveries })
}

fn print_move(demo: &mut Demo, observed: &MoveObservation) {
    let MoveObservation { what, gap, direct_after, .. } = observed;
    let direct = direct_after.map_or(String::new(), |millis| format!(", direct path after {millis:.0} ms"));
    let share = observed.direct_share * 100.0;
    let text = format!("{what}: silent for {gap:.0} ms{direct}; now {share:.1} % on direct paths");
    demo.timed_check(observed.is_alive && observed.faults.is_empty(), text);
    for fault in &observed.faults {
        demo.check(false, format!("           {fault}"));
    }
}

fn check_sources(demo: &mut Demo, testbed: &MptcpTestbed) {
    let Observations { sent, wrong_source: wrong, grace_period: late, samples, .. } =
        testbed.source_monitor.observations();
    let text = format!(
        "uplinks: {sent} packets, {wrong} with a source address of another network, {late} before the kernel reported the move"
    );
    demo.check(wrong == 0, text);
    for sample in samples {
        demo.check(false, format!("  {sample}"));
    }
}

/// The paths of the bytes over time, as rows of blocks.
fn plot(demo: &Demo, testbed: &MptcpTestbed, run: &DemoRun) {
    let full = FULL_BLOCK as f64 / 1000.0;
    demo.line(LineStyle::Plain, "");
    let title = format!("path of the bytes, both directions together (a full block is {full:.0} kB/s or more)");
    demo.line(LineStyle::Action, title);
    for path in PayloadPath::ALL {
        let row = block_row(&rates(testbed, run, path, COLUMNS), full);
        demo.line(LineStyle::Event, format!("{:>12} |{row}|", path_name(path)));
    }
    let span = run.ended.saturating_sub(run.began).max(1);
    let column = |at: u64| (at.saturating_sub(run.began) * u64::from(COLUMNS) / span) as usize;
    let mut ruler = vec![' '; COLUMNS as usize];
    for (number, observed) in (1..).zip(&run.moves) {
        if let Some(slot) = ruler.get_mut(column(observed.began)) {
            *slot = char::from_digit(number, 10).unwrap_or('*');
        }
    }
    demo.line(LineStyle::Plain, format!("{:>12} |{}|", "", ruler.iter().collect::<String>()));
    let moves: Vec<String> =
        (1..).zip(&run.moves).map(|(number, observed)| format!("{number} {}", observed.what)).collect();
    demo.line(LineStyle::Plain, format!("{:>14}{}; {:.0} s in all", "", moves.join(", "), span as f64 / 1e6));
    demo.line(LineStyle::Plain, "");
}

/// The paths of the bytes over time, as a chart.
fn chart(testbed: &MptcpTestbed, run: &DemoRun) -> Chart {
    let columns = 4 * COLUMNS;
    let since_start = |at: u64| (at - run.began) as f64 / 1e6;
    let seconds = |number: usize| number as f64 * since_start(run.ended) / f64::from(columns);
    let series = PayloadPath::ALL.iter().map(|path| {
        let rates = rates(testbed, run, *path, columns);
        let points = rates.iter().enumerate().map(|(number, rate)| Point::at(seconds(number), *rate));
        Series { name: path_name(*path).to_owned(), style: Style::Area, points: points.collect() }
    });
    Chart {
        title: "One MPTCP transfer while its vehicle moves: the path of its bytes".to_owned(),
        x_label: "seconds".to_owned(),
        y_label: "kB/s, both directions".to_owned(),
        series: series.collect(),
        markers: run.moves.iter().map(|observed| (since_start(observed.began), observed.what.clone())).collect(),
        ..Chart::default()
    }
}

/// Kilobytes per second on `path` in each of so many equal spans.
fn rates(testbed: &MptcpTestbed, run: &DemoRun, path: PayloadPath, columns: u32) -> Vec<f64> {
    let span = (run.ended.saturating_sub(run.began) / u64::from(columns)).max(1);
    let rate = |number: u32| {
        let begin = run.began + u64::from(number) * span;
        testbed.path_monitor.octets(path, begin, begin + span) as f64 * 1000.0 / span as f64
    };
    (0..columns).map(rate).collect()
}

fn path_name(path: PayloadPath) -> &'static str {
    match path {
        PayloadPath::Home => "tunnel",
        PayloadPath::Direct(0) => "FN1 direct",
        PayloadPath::Direct(_) => "FN2 direct",
    }
}
