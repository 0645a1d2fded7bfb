//! Document P2, shown: one transfer by Multipath TCP goes through the tunnel, finds the direct path, moves with the
//! vehicle and finds the next direct path; no byte is lost and none takes a detour it need not take.

use crate::bed::Daemon;
use crate::bed::cage::WORK;
use crate::chart::{self, Chart, Point, Series, Style};
use crate::check;
use crate::clock;
use crate::multipath::journey::{Journey, Leg, Mode};
use crate::multipath::options::Options;
use crate::multipath::{Path, Shape, Spot, Testbed};
use crate::narrator::Narrator;
use crate::screen::{Screen, Tone};
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
const DARK: Duration = Duration::from_millis(9);
/// What fills a character of the plot in the terminal, octets a second: a little more than both ways take together.
const WHOLE_BLOCK: u64 = 2 * RATE * 4 / 3;
/// Columns of that plot.
const COLUMNS: u32 = 96;

/// What the transfer went through.
struct Story {
    began: u64,
    ended: u64,
    legs: Vec<Leg>,
    deliveries: [Delivery; 2],
}

/// Runs the demo; `true` if every byte arrived and nothing was wrong. The picture goes to `svg`, the capture to `capture`.
pub(crate) fn run(svg: Option<&File>, capture: Option<&File>) -> Result<bool> {
    let screen = Arc::new(Screen::new());
    let recorded = capture.map_or_else(|| File::new(WORK).join("demo.pcapng"), File::to_path_buf);
    screen.moment(Tone::Plain, "building home, FN1 and FN2, each 10 ms away; radvd and dhcpd serve FN1 and FN2");
    let testbed = Testbed::unmanaged(Shape::PAPER.lossless())?;
    testbed.world.air.capture(&recorded)?;
    let inside = testbed.vehicle.mnn_address;
    let peer = format!("{CORRESPONDENT}, a stock kernel with receive buffers of 1 MiB");
    screen.moment(Tone::Plain, format!("node inside {inside} talks to correspondent {peer}"));
    let narrator = Narrator::start(&screen, vec![("mr ", testbed.vehicle.daemon.events().clone())])?;
    screen.moment(Tone::Act, "up0 into FN1");
    testbed.plug(0, Spot::Visited(0))?;
    testbed.wait_home_path()?;
    testbed.wait_care_of(&testbed.vehicle.mnn, 0)?;
    let story = travel(&screen, &testbed)
        .with_context(|| format!("the mobile router's log:\n{}", crate::demo::tail(&testbed.vehicle)))?;
    drop(narrator);
    testbed.world.air.finish_capture()?;
    let sound = conclude(&screen, &testbed, &story, &recorded)?;
    if let Some(path) = svg {
        chart::write(path, &[picture(&testbed, &story)])?;
    }
    Ok(sound)
}

/// The transfer and all moves under it.
fn travel(screen: &Arc<Screen>, testbed: &Testbed) -> Result<Story> {
    let began = clock::unix_micros();
    let mut journey = Journey::begin(testbed, Mode::Outbound, PORT, RATE, &[])?;
    screen.moment(Tone::Act, "a transfer begins, both ways; nobody manages its paths: all goes through the tunnel");
    sleep(Duration::from_secs(3));
    let mut manager: Option<(Daemon, Narrator)> = None;
    let mut legs = Vec::new();
    let mut go = |what: &str, there: &[usize], act: &mut dyn FnMut(&Testbed) -> Result<()>| -> Result<()> {
        screen.moment(Tone::Act, what);
        let leg = journey.go(what, there, act)?;
        tell(screen, &leg);
        legs.push(leg);
        Ok(())
    };
    go("path manager starts", &[0], &mut |bed| {
        let node = bed.manage()?;
        let narrator = Narrator::start(screen, vec![("mnn", node.events().clone())])?;
        manager = Some((node, narrator));
        Ok(())
    })?;
    go("FN1 to FN2", &[1], &mut |bed| {
        bed.unplug(0)?;
        sleep(DARK);
        bed.plug(0, Spot::Visited(1)).map(drop)
    })?;
    go("FN1 too", &[0, 1], &mut |bed| bed.plug(1, Spot::Visited(0)).map(drop))?;
    go("FN2 is left", &[0], &mut |bed| bed.unplug(0).map(drop))?;
    let deliveries = journey.finish()?;
    Ok(Story { began, ended: clock::unix_micros(), legs, deliveries })
}

fn tell(screen: &Screen, leg: &Leg) {
    let tone = if leg.lives && leg.faults.is_empty() { Tone::Good } else { Tone::Bad };
    let direct = leg.to_direct.map_or(String::new(), |millis| format!(", bytes went straight after {millis:.0} ms"));
    let share = leg.direct_share * 100.0;
    screen.moment(tone, format!("{}: silent for {:.0} ms{direct}; now {share:.1} % go straight", leg.what, leg.gap));
    for fault in &leg.faults {
        screen.line(Tone::Bad, format!("           {fault}"));
    }
}

/// Plot, digests and verdict.
fn conclude(screen: &Screen, testbed: &Testbed, story: &Story, recorded: &File) -> Result<bool> {
    plot(screen, testbed, story);
    let mut sound = story.legs.iter().all(|leg| leg.lives && leg.faults.is_empty());
    for (direction, delivery) in ["out", "in "].iter().zip(&story.deliveries) {
        let (tone, word) = if delivery.is_whole() { (Tone::Good, "equal") } else { (Tone::Bad, "DIFFERENT") };
        sound &= delivery.is_whole();
        let digest = delivery.received.digest.get(..16).unwrap_or_default();
        let (sent, received) = (delivery.sent.bytes, delivery.received.bytes);
        screen.line(tone, format!("bytes {direction}: {sent} sent, {received} received, sha256 {digest}.. {word}"));
    }
    let (sent, wrong, untold) = (testbed.uplinks.sent(), testbed.uplinks.wrong(), testbed.uplinks.untold());
    sound &= wrong == 0;
    screen.line(tone(wrong == 0), format!("uplinks: {sent} packets, {wrong} with a source of another network, {untold} sent before the kernel told of it"));
    for story in testbed.uplinks.stories() {
        screen.line(Tone::Bad, format!("  {story}"));
    }
    let verdict = check::dissect(recorded)?;
    let options = Options::count(recorded, &["mr0.in0", "mnn0.eth0"])?;
    let clean = verdict.complaints.is_empty() && options.join > 0 && options.remove_addr > 0 && options.prio > 0;
    sound &= clean;
    screen.line(
        tone(clean),
        format!(
            "tshark: {} frames, {} malformed or wrong; {} MP_JOIN, {} ADD_ADDR, {} REMOVE_ADDR, {} MP_PRIO",
            verdict.frames,
            verdict.complaints.len(),
            options.join,
            options.add_addr,
            options.remove_addr,
            options.prio
        ),
    );
    for complaint in verdict.complaints.iter().take(5) {
        screen.line(Tone::Bad, format!("  {complaint}"));
    }
    screen.line(tone(sound), if sound { "nothing broke" } else { "SOMETHING BROKE" });
    Ok(sound)
}

fn tone(good: bool) -> Tone {
    if good { Tone::Good } else { Tone::Bad }
}

/// The paths of the bytes over time, in blocks.
fn plot(screen: &Screen, testbed: &Testbed, story: &Story) {
    let rows: Vec<Vec<f64>> = Path::ALL.iter().map(|path| rates(testbed, story, *path, COLUMNS)).collect();
    let full = WHOLE_BLOCK as f64 / 1000.0;
    screen.line(Tone::Plain, "");
    let scale = format!("a whole block is {full:.0} kB/s or more");
    screen.line(Tone::Act, format!("which path the bytes took, both ways together ({scale})"));
    for (path, row) in Path::ALL.iter().zip(&rows) {
        screen.line(Tone::Event, format!("{:>12} |{}|", name(*path), chart::blocks(row, full)));
    }
    let span = story.ended.saturating_sub(story.began).max(1);
    let column = |at: u64| (at.saturating_sub(story.began) * u64::from(COLUMNS) / span) as usize;
    let mut ruler = vec![' '; COLUMNS as usize];
    for (number, leg) in story.legs.iter().enumerate() {
        if let Some(slot) = ruler.get_mut(column(leg.began)) {
            *slot = char::from_digit(u32::try_from(number + 1).unwrap_or(0), 10).unwrap_or('*');
        }
    }
    screen.line(Tone::Plain, format!("{:>12} |{}|", "", ruler.iter().collect::<String>()));
    let moves: Vec<String> =
        story.legs.iter().enumerate().map(|(number, leg)| format!("{} {}", number + 1, leg.what)).collect();
    screen.line(Tone::Plain, format!("{:>14}{}; {:.0} s in all", "", moves.join(", "), span as f64 / 1e6));
    screen.line(Tone::Plain, "");
}

/// The same as a figure.
fn picture(testbed: &Testbed, story: &Story) -> Chart {
    let columns = 4 * COLUMNS;
    let seconds = |number: usize| number as f64 * (story.ended - story.began) as f64 / 1e6 / f64::from(columns);
    let series = Path::ALL.iter().map(|path| {
        let rates = rates(testbed, story, *path, columns);
        let points =
            rates.iter().enumerate().map(|(number, rate)| Point { x: seconds(number), y: *rate, spread: None });
        Series { name: name(*path).to_owned(), style: Style::Area, points: points.collect() }
    });
    Chart {
        title: "One transfer by Multipath TCP while its vehicle moves: the path its bytes took".to_owned(),
        across: "seconds".to_owned(),
        up: "kB/s, both ways".to_owned(),
        places: Vec::new(),
        series: series.collect(),
        marks: story.legs.iter().map(|leg| ((leg.began - story.began) as f64 / 1e6, leg.what.clone())).collect(),
    }
}

/// Kilobytes a second on `path` in each of so many equal spans.
fn rates(testbed: &Testbed, story: &Story, path: Path, columns: u32) -> Vec<f64> {
    let span = (story.ended.saturating_sub(story.began) / u64::from(columns)).max(1);
    let rate = |number: u32| {
        let begin = story.began + u64::from(number) * span;
        testbed.paths.octets(path, begin, begin + span) as f64 * 1000.0 / span as f64
    };
    (0..columns).map(rate).collect()
}

fn name(path: Path) -> &'static str {
    match path {
        Path::Home => "tunnel",
        Path::Direct(0) => "FN1 direct",
        Path::Direct(_) => "FN2 direct",
    }
}
