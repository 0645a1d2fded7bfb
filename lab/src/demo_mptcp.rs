//! Document P2, shown: one transfer by Multipath TCP goes through the tunnel, finds the direct path, moves with the
//! vehicle and finds the next direct path; no byte is lost and none takes a detour it need not take.

use crate::bed::Daemon;
use crate::bed::sandbox::WORK_DIR;
use crate::chart::{self, Chart, Point, Series, Style};
use crate::clock;
use crate::dissector;
use crate::event_printer::EventPrinter;
use crate::multipath::observed_transfer::{Mode, MoveObservation, ObservedTransfer};
use crate::multipath::options::MptcpOptionCounts;
use crate::multipath::{AttachmentPoint, LinkShape, MptcpTestbed, PayloadPath};
use crate::terminal::{LineStyle, Terminal};
use crate::topology::CORRESPONDENT;
use crate::traffic::Delivery;
use anyhow::{Context, Result};
use std::path::Path as File;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Octets a second, each way.
const RATE: u64 = 150_000;
const PORT: u16 = 9700;
/// How long a re-plugged cable is out.
const UNPLUGGED_TIME: Duration = Duration::from_millis(9);
/// What fills a character of the plot in the terminal, octets a second: a little more than both ways take together.
const FULL_BLOCK: u64 = 2 * RATE * 4 / 3;
/// Columns of that plot.
const COLUMNS: u32 = 96;

/// What the transfer went through.
struct DemoRun {
    began: u64,
    ended: u64,
    moves: Vec<MoveObservation>,
    deliveries: [Delivery; 2],
}

/// Runs the demo; `true` if every byte arrived and nothing was wrong. The picture goes to `svg`, the capture to `capture`.
pub(crate) fn run(svg: Option<&File>, capture: Option<&File>) -> Result<bool> {
    let screen = Arc::new(Terminal::new());
    let recorded = capture.map_or_else(|| File::new(WORK_DIR).join("demo.pcapng"), File::to_path_buf);
    screen
        .timed_line(LineStyle::Plain, "building home, FN1 and FN2, each 10 ms away; radvd and dhcpd serve FN1 and FN2");
    let testbed = MptcpTestbed::without_path_manager(LinkShape::PAPER.lossless())?;
    testbed.world.emulator.capture(&recorded)?;
    let inside = testbed.vehicle.mnn_address;
    let peer = format!("{CORRESPONDENT}, a stock kernel with receive buffers of 1 MiB");
    screen.timed_line(LineStyle::Plain, format!("node inside {inside} talks to correspondent {peer}"));
    let narrator = EventPrinter::start(&screen, vec![("mr ", testbed.vehicle.daemon.events().clone())])?;
    screen.timed_line(LineStyle::Action, "up0 into FN1");
    testbed.plug(0, AttachmentPoint::Visited(0))?;
    testbed.wait_home_path()?;
    testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
    let story = run_moves(&screen, &testbed)
        .with_context(|| format!("the mobile router's log:\n{}", crate::demo::log_tail(&testbed.vehicle)))?;
    drop(narrator);
    testbed.world.emulator.finish_capture()?;
    let sound = print_summary(&screen, &testbed, &story, &recorded)?;
    if let Some(path) = svg {
        chart::write(path, &[chart(&testbed, &story)])?;
    }
    Ok(sound)
}

/// The transfer and all moves under it.
fn run_moves(screen: &Arc<Terminal>, testbed: &MptcpTestbed) -> Result<DemoRun> {
    let began = clock::unix_micros();
    let mut journey = ObservedTransfer::begin(testbed, Mode::Outbound, PORT, RATE, &[])?;
    screen.timed_line(
        LineStyle::Action,
        "a transfer begins, both ways; nobody manages its paths: all goes through the tunnel",
    );
    sleep(Duration::from_secs(3));
    let mut manager: Option<(Daemon, EventPrinter)> = None;
    let mut legs = Vec::new();
    let mut go = |what: &str, there: &[usize], act: &mut dyn FnMut(&MptcpTestbed) -> Result<()>| -> Result<()> {
        screen.timed_line(LineStyle::Action, what);
        let leg = journey.run_move(what, there, act)?;
        print_move(screen, &leg);
        legs.push(leg);
        Ok(())
    };
    go("path manager starts", &[0], &mut |bed| {
        let node = bed.start_path_manager()?;
        let narrator = EventPrinter::start(screen, vec![("mnn", node.events().clone())])?;
        manager = Some((node, narrator));
        Ok(())
    })?;
    go("FN1 to FN2", &[1], &mut |bed| {
        bed.unplug(0)?;
        sleep(UNPLUGGED_TIME);
        bed.plug(0, AttachmentPoint::Visited(1)).map(drop)
    })?;
    go("FN1 too", &[0, 1], &mut |bed| bed.plug(1, AttachmentPoint::Visited(0)).map(drop))?;
    go("FN2 is left", &[0], &mut |bed| bed.unplug(0).map(drop))?;
    let deliveries = journey.finish()?;
    Ok(DemoRun { began, ended: clock::unix_micros(), moves: legs, deliveries })
}

fn print_move(screen: &Terminal, leg: &MoveObservation) {
    let tone = if leg.is_alive && leg.faults.is_empty() { LineStyle::Success } else { LineStyle::Failure };
    let direct = leg.direct_after.map_or(String::new(), |millis| format!(", bytes went straight after {millis:.0} ms"));
    let share = leg.direct_share * 100.0;
    screen
        .timed_line(tone, format!("{}: silent for {:.0} ms{direct}; now {share:.1} % go straight", leg.what, leg.gap));
    for fault in &leg.faults {
        screen.line(LineStyle::Failure, format!("           {fault}"));
    }
}

/// Plot, digests and verdict.
fn print_summary(screen: &Terminal, testbed: &MptcpTestbed, story: &DemoRun, recorded: &File) -> Result<bool> {
    plot(screen, testbed, story);
    let mut sound = story.moves.iter().all(|leg| leg.is_alive && leg.faults.is_empty());
    for (direction, delivery) in ["out", "in "].iter().zip(&story.deliveries) {
        let (tone, word) =
            if delivery.is_complete() { (LineStyle::Success, "equal") } else { (LineStyle::Failure, "DIFFERENT") };
        sound &= delivery.is_complete();
        let digest = delivery.received.digest.get(..16).unwrap_or_default();
        let (sent, received) = (delivery.sent.bytes, delivery.received.bytes);
        screen.line(tone, format!("bytes {direction}: {sent} sent, {received} received, sha256 {digest}.. {word}"));
    }
    let (sent, wrong, untold) = (
        testbed.source_monitor.sent(),
        testbed.source_monitor.wrong_source(),
        testbed.source_monitor.wrong_in_grace_period(),
    );
    sound &= wrong == 0;
    screen.line(line_style(wrong == 0), format!("uplinks: {sent} packets, {wrong} with a source of another network, {untold} sent before the kernel told of it"));
    for story in testbed.source_monitor.samples() {
        screen.line(LineStyle::Failure, format!("  {story}"));
    }
    let verdict = dissector::dissect(recorded)?;
    let options = MptcpOptionCounts::count(recorded, &["mr0.in0", "mnn0.eth0"])?;
    let clean = verdict.errors.is_empty() && options.join > 0 && options.remove_addr > 0 && options.prio > 0;
    sound &= clean;
    screen.line(
        line_style(clean),
        format!(
            "tshark: {} frames, {} malformed or wrong; {} MP_JOIN, {} ADD_ADDR, {} REMOVE_ADDR, {} MP_PRIO",
            verdict.frames,
            verdict.errors.len(),
            options.join,
            options.add_addr,
            options.remove_addr,
            options.prio
        ),
    );
    for complaint in verdict.errors.iter().take(5) {
        screen.line(LineStyle::Failure, format!("  {complaint}"));
    }
    screen.line(line_style(sound), if sound { "nothing broke" } else { "SOMETHING BROKE" });
    Ok(sound)
}

fn line_style(good: bool) -> LineStyle {
    if good { LineStyle::Success } else { LineStyle::Failure }
}

/// The paths of the bytes over time, in blocks.
fn plot(screen: &Terminal, testbed: &MptcpTestbed, story: &DemoRun) {
    let rows: Vec<Vec<f64>> = PayloadPath::ALL.iter().map(|path| rates(testbed, story, *path, COLUMNS)).collect();
    let full = FULL_BLOCK as f64 / 1000.0;
    screen.line(LineStyle::Plain, "");
    let scale = format!("a whole block is {full:.0} kB/s or more");
    screen.line(LineStyle::Action, format!("which path the bytes took, both ways together ({scale})"));
    for (path, row) in PayloadPath::ALL.iter().zip(&rows) {
        screen.line(LineStyle::Event, format!("{:>12} |{}|", path_name(*path), chart::block_row(row, full)));
    }
    let span = story.ended.saturating_sub(story.began).max(1);
    let column = |at: u64| (at.saturating_sub(story.began) * u64::from(COLUMNS) / span) as usize;
    let mut ruler = vec![' '; COLUMNS as usize];
    for (number, leg) in story.moves.iter().enumerate() {
        if let Some(slot) = ruler.get_mut(column(leg.began)) {
            *slot = char::from_digit(u32::try_from(number + 1).unwrap_or(0), 10).unwrap_or('*');
        }
    }
    screen.line(LineStyle::Plain, format!("{:>12} |{}|", "", ruler.iter().collect::<String>()));
    let moves: Vec<String> =
        story.moves.iter().enumerate().map(|(number, leg)| format!("{} {}", number + 1, leg.what)).collect();
    screen.line(LineStyle::Plain, format!("{:>14}{}; {:.0} s in all", "", moves.join(", "), span as f64 / 1e6));
    screen.line(LineStyle::Plain, "");
}

/// The same as a figure.
fn chart(testbed: &MptcpTestbed, story: &DemoRun) -> Chart {
    let columns = 4 * COLUMNS;
    let seconds = |number: usize| number as f64 * (story.ended - story.began) as f64 / 1e6 / f64::from(columns);
    let series = PayloadPath::ALL.iter().map(|path| {
        let rates = rates(testbed, story, *path, columns);
        let points =
            rates.iter().enumerate().map(|(number, rate)| Point { x: seconds(number), y: *rate, spread: None });
        Series { name: path_name(*path).to_owned(), style: Style::Area, points: points.collect() }
    });
    Chart {
        title: "One transfer by Multipath TCP while its vehicle moves: the path its bytes took".to_owned(),
        x_label: "seconds".to_owned(),
        y_label: "kB/s, both ways".to_owned(),
        categories: Vec::new(),
        series: series.collect(),
        markers: story.moves.iter().map(|leg| ((leg.began - story.began) as f64 / 1e6, leg.what.clone())).collect(),
    }
}

/// Kilobytes a second on `path` in each of so many equal spans.
fn rates(testbed: &MptcpTestbed, story: &DemoRun, path: PayloadPath, columns: u32) -> Vec<f64> {
    let span = (story.ended.saturating_sub(story.began) / u64::from(columns)).max(1);
    let rate = |number: u32| {
        let begin = story.began + u64::from(number) * span;
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
