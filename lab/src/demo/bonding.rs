//! One download of a plain host over two uplinks at once: the second one is pulled, and comes back (docs/bonding.md).

use super::Demo;
use crate::bed::Segment;
use crate::clock;
use crate::report::chart::{Chart, Point, Series, Style, block_row};
use crate::threads::Shared;
use crate::topology::bonding::{ALONE, BONDED, BondingBed, link};
use crate::ui::LineStyle;
use anyhow::Result;
use std::thread::sleep;
use std::time::Duration;

/// Columns of the chart in the terminal, and of the picture.
const COLUMNS: [usize; 2] = [96, 240];
/// The rate of a full block, Mbit/s.
const FULL_BLOCK: f64 = 50.0;
/// Until a connection is at its rate; for how long the rate of an uplink alone is measured; and how long each part of the download
/// takes.
const WARM_UP: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(3);
const PART: Duration = Duration::from_secs(8);
/// Until the uplink that is back is used.
const RETURN_TIME: Duration = Duration::from_secs(20);
/// What the download has to reach of the sum of both uplinks.
const LEAST_SHARE: f64 = 0.9;

/// Frames: time (microseconds since 1970), uplink, octets.
type Frames = Shared<Vec<(u64, usize, usize)>>;

/// The scene.
pub(crate) fn scene(demo: &mut Demo) -> Result<Option<Chart>> {
    demo.status("building two uplinks: up0 of 20 Mbit/s and 40 ms, up1 of 30 Mbit/s and 80 ms");
    let bed = BondingBed::new([link(20, 40), link(30, 80)])?;
    let cables = bed.network.visited.each_ref().map(|access| access.cable);
    let frames = observe(&bed, cables);
    let mut alone = Vec::new();
    for (uplink, port) in ALONE.into_iter().enumerate() {
        let transfer = bed.send(false, port)?;
        sleep(WARM_UP);
        alone.push(transfer.forward_rate(SPAN));
        transfer.finish(WARM_UP)?;
        demo.status(format!("a download by up{uplink} alone: {:.1} Mbit/s", alone.last().unwrap_or(&0.0)));
    }
    let sum: f64 = alone.iter().sum();
    let began = clock::unix_micros();
    let transfer = bed.send(false, BONDED)?;
    demo.action("one download by both begins");
    sleep(PART.saturating_sub(SPAN));
    let both = transfer.forward_rate(SPAN);
    let share = both / sum;
    demo.timed_check(share >= LEAST_SHARE, format!("both: {both:.1} Mbit/s, {share:.2} of the sum"));
    demo.action("up1 is pulled");
    let pulled = clock::unix_micros();
    bed.network.emulator.unplug(bed.vehicle.uplink(1)?)?;
    sleep(PART);
    let silence = transfer.forward_silence(pulled, clock::unix_micros()) / 1000;
    demo.timed_check(silence < 1000, format!("the download was silent for {silence} ms, and goes on by up0"));
    let back = clock::unix_micros();
    demo.action("up1 is plugged in again");
    bed.plug(1)?;
    let used = bed.wait_for_subflows(RETURN_TIME);
    let after = (clock::unix_micros() - back) / 1000;
    demo.timed_check(used.is_ok(), format!("the same download uses up1 again after {after} ms"));
    sleep(PART);
    let ended = clock::unix_micros();
    let [download, _] = transfer.finish(Duration::from_secs(5))?;
    demo.check_delivery("download", &download);
    let run = DemoRun { frames, began, ended, moves: [(pulled, "up1 is pulled"), (back, "up1 is back")] };
    run.plot(demo);
    Ok(Some(run.chart()))
}

/// Observes frames towards the vehicle.
fn observe(bed: &BondingBed, cables: [Segment; 2]) -> Frames {
    let away = bed.network.visited.each_ref().map(|access| access.uplink_port);
    bed.network.emulator.collect(move |frames: &mut Vec<_>, frame| {
        let uplink = cables.iter().position(|cable| *cable == frame.segment);
        let uplink = uplink.filter(|_| !away.contains(&frame.port));
        frames.extend(uplink.map(|uplink| (frame.unix_micros, uplink, frame.frame.len())));
    })
}

/// What was observed of the download; times in microseconds since 1970.
struct DemoRun {
    frames: Frames,
    began: u64,
    ended: u64,
    moves: [(u64, &'static str); 2],
}

impl DemoRun {
    /// Mbit/s by an uplink in each of so many equal spans.
    fn rates(&self, uplink: usize, columns: usize) -> Vec<f64> {
        let span = (self.ended - self.began) / columns as u64;
        let mut octets = vec![0; columns];
        for (at, of, length) in self.frames.lock().iter().filter(|(at, ..)| *at >= self.began) {
            if let Some(sum) = octets.get_mut(((at - self.began) / span.max(1)) as usize).filter(|_| *of == uplink) {
                *sum += length;
            }
        }
        octets.into_iter().map(|octets| octets as f64 * 8.0 / span.max(1) as f64).collect()
    }

    fn plot(&self, demo: &Demo) {
        demo.line(LineStyle::Plain, "");
        demo.line(
            LineStyle::Action,
            format!("the download by uplink (a full block is {FULL_BLOCK:.0} Mbit/s or more)"),
        );
        for uplink in 0..2 {
            let row = block_row(&self.rates(uplink, COLUMNS[0]), FULL_BLOCK);
            demo.line(LineStyle::Event, format!("{:>6} |{row}|", format!("up{uplink}")));
        }
        demo.line(LineStyle::Plain, "");
    }

    fn chart(&self) -> Chart {
        let since_start = |at: u64| (at - self.began) as f64 / 1e6;
        let seconds = |number: usize| number as f64 * since_start(self.ended) / COLUMNS[1] as f64;
        let series =
            ["up0: 20 Mbit/s, 40 ms", "up1: 30 Mbit/s, 80 ms"].into_iter().enumerate().map(|(uplink, name)| {
                let rates = self.rates(uplink, COLUMNS[1]);
                let points =
                    rates.into_iter().enumerate().map(|(number, rate)| Point::at(seconds(number), rate)).collect();
                Series { name: name.to_owned(), style: Style::Area, points }
            });
        Chart {
            title: "One TCP download of plain hosts over two uplinks".to_owned(),
            x_label: "seconds".to_owned(),
            y_label: "Mbit/s".to_owned(),
            series: series.collect(),
            markers: self.moves.iter().map(|(at, what)| (since_start(*at), (*what).to_owned())).collect(),
            ..Chart::default()
        }
    }
}
