//! Voice, video and mail between a node in a vehicle and its correspondent, and what a move does to them.

use super::e_model::CallConditions;
use super::packet_train::{Pattern, Sent};
use super::{Delivery, OneWayTrain, Protocol, Train, Transfer, TransferLoad};
use crate::clock;
use crate::statistics::{percentile, round};
use crate::topology::nemo::{NemoNetwork, Vehicle};
use anyhow::Result;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// Calls in both directions, 50 packets a second: names and octets of UDP payload, of which 12 are RTP's (RFC 3550). G.711 has
/// 160 octets in 20 ms; Opus here 24 kbit/s.
pub(crate) const CODECS: [(&str, usize); 2] = [("g711", 172), ("opus", 72)];
/// Speech of a packet.
const PACKET_TIME: Duration = Duration::from_millis(20);
/// A packet that comes later than this after one of median delay is not played.
const PLAYOUT_BUFFER: Duration = Duration::from_millis(60);

/// The video goes to the vehicle: 30 frames a second of 8 datagrams each; every 30th has 40 and needs no other frame. 2.6 Mbit/s.
const FRAME_TIME: Duration = Duration::from_micros(33_333);
const VIDEO_OCTETS: usize = 1200;
const FRAMES_OF_GROUP: u64 = 30;
const DATAGRAMS_OF_KEY_FRAME: u64 = 40;
const DATAGRAMS_OF_FRAME: u64 = 8;
const DATAGRAMS_OF_GROUP: u64 = DATAGRAMS_OF_KEY_FRAME + (FRAMES_OF_GROUP - 1) * DATAGRAMS_OF_FRAME;
/// A frame is shown if it is whole so long after it was sent.
const VIDEO_BUFFER: Duration = Duration::from_millis(200);

/// Octets per second of the mail in each direction.
const MAIL_RATE: u64 = 200_000;

/// What is observed of a move: from before it, until after its end.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(5);
/// How long the transfer may take to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// All streams.
pub(crate) struct MediaTraffic {
    calls: [Train; 2],
    video: Train,
    mail: Transfer,
}

/// What a move did to the streams.
#[derive(Debug, Clone)]
pub(crate) struct MediaWindow {
    /// Mean opinion score of each of [`CODECS`], of the direction that is worse.
    pub(crate) mos: [f64; 2],
    /// Packets of both calls and directions that were not played.
    pub(crate) voice_lost: usize,
    /// The largest jitter (RFC 3550 §6.4.1), milliseconds.
    pub(crate) jitter_ms: f64,
    /// Frames sent, and those shown.
    pub(crate) frames: [usize; 2],
    /// The longest time without a new frame, less the time of a frame, milliseconds.
    pub(crate) freeze_ms: f64,
}

/// One direction of a call.
struct Call {
    mos: f64,
    lost: usize,
    jitter_ms: f64,
}

impl MediaTraffic {
    /// Starts all streams between the node in `vehicle` and the correspondent.
    pub(crate) fn start(network: &NemoNetwork, vehicle: &Vehicle) -> Result<MediaTraffic> {
        let ends = || [vehicle.node(), network.correspondent()];
        let call = |port: u16, octets: usize| {
            let pattern = Pattern { octets, interval: PACKET_TIME, burst: |_| 1 };
            Train::start_with(ends(), port, [pattern, pattern])
        };
        let [(_, g711), (_, opus)] = CODECS;
        let video = |burst| Pattern { octets: VIDEO_OCTETS, interval: FRAME_TIME, burst };
        Ok(MediaTraffic {
            calls: [call(9500, g711)?, call(9501, opus)?],
            video: Train::start_with(ends(), 9502, [video(|_| 0), video(datagrams_of_frame)])?,
            mail: Transfer::start(ends(), TransferLoad::steady(Protocol::Tcp, 9503, MAIL_RATE))?,
        })
    }

    /// Performs `act`, and observes the streams before and after it.
    pub(crate) fn observe(&self, act: impl FnOnce() -> Result<()>) -> Result<MediaWindow> {
        let begin = clock::unix_micros();
        sleep(BEFORE);
        act()?;
        sleep(AFTER);
        let end = clock::unix_micros();
        // What is not there by then is late.
        sleep(VIDEO_BUFFER + PLAYOUT_BUFFER);
        let calls = self.calls.each_ref().map(|train| {
            [&train.forward, &train.reverse].map(|flow: &OneWayTrain| Call::judge(&flow.datagrams(begin, end)))
        });
        let all = || calls.iter().flatten();
        let frames = whole_frames(&self.video.reverse.datagrams(begin, end));
        let shown = shown_frames(&frames);
        Ok(MediaWindow {
            mos: calls.each_ref().map(|[up, down]| up.mos.min(down.mos)),
            voice_lost: all().map(|call| call.lost).sum(),
            jitter_ms: all().map(|call| call.jitter_ms).fold(0.0, f64::max),
            frames: [frames.len(), shown.len()],
            freeze_ms: longest_freeze(&frames, &shown),
        })
    }

    /// Ends all streams; the delivery of the mail in each direction.
    pub(crate) fn finish(mut self) -> Result<[Delivery; 2]> {
        self.calls.iter_mut().for_each(Train::stop);
        self.video.stop();
        self.mail.finish(TIMEOUT)
    }
}

impl MediaWindow {
    /// As an element of a row.
    pub(crate) fn to_json(&self) -> Value {
        let ([g711, opus], [sent, shown]) = (self.mos.map(round), self.frames);
        json!({
            "mos_g711": g711, "mos_opus": opus, "voice_lost": self.voice_lost, "jitter_ms": round(self.jitter_ms),
            "frames": sent, "frames_shown": shown, "freeze_ms": round(self.freeze_ms),
        })
    }

    /// Frames shown of those sent, percent.
    pub(crate) fn shown_percent(&self) -> f64 {
        let [sent, shown] = self.frames;
        shown as f64 / sent.max(1) as f64 * 100.0
    }
}

impl Call {
    fn judge(datagrams: &[Sent]) -> Call {
        let delays = datagrams.iter().filter_map(|one| Some(one.received? as f64 - one.sent as f64));
        let typical = percentile(delays.collect::<Vec<_>>(), 0.5).unwrap_or(f64::INFINITY);
        let last = typical + PLAYOUT_BUFFER.as_secs_f64() * 1e6;
        let is_lost = |one: &Sent| one.received.is_none_or(|received| received as f64 - one.sent as f64 > last);
        let lost: Vec<bool> = datagrams.iter().map(is_lost).collect();
        let count = lost.iter().filter(|lost| **lost).count();
        let runs = lost.chunk_by(|one, next| one == next).filter(|run| run.first() == Some(&true)).count();
        let share = count as f64 / lost.len().max(1) as f64;
        // Runs of random loss have the mean length 1 / (1 - share).
        let burst_ratio = (count as f64 / runs.max(1) as f64 * (1.0 - share)).max(1.0);
        let buffered = (PACKET_TIME + PLAYOUT_BUFFER).as_secs_f64() * 1000.0;
        let delay_ms = typical / 1000.0 + buffered;
        let call = CallConditions { delay_ms, loss_percent: share * 100.0, burst_ratio };
        Call {
            mos: if typical.is_finite() { call.mos() } else { 1.0 },
            lost: count,
            jitter_ms: largest_jitter(datagrams),
        }
    }
}

/// The largest interarrival jitter of RFC 3550 §6.4.1, milliseconds.
fn largest_jitter(datagrams: &[Sent]) -> f64 {
    let mut arrived: Vec<(u64, u64)> = datagrams.iter().filter_map(|one| Some((one.received?, one.sent))).collect();
    arrived.sort_unstable();
    let transits: Vec<f64> = arrived.iter().map(|(received, sent)| *received as f64 - *sent as f64).collect();
    let (mut jitter, mut largest) = (0.0_f64, 0.0_f64);
    for pair in transits.windows(2) {
        let [earlier, later] = pair else { continue };
        jitter += ((later - earlier).abs() - jitter) / 16.0;
        largest = largest.max(jitter);
    }
    largest / 1000.0
}

fn datagrams_of_frame(frame: u64) -> u64 {
    if frame.is_multiple_of(FRAMES_OF_GROUP) { DATAGRAMS_OF_KEY_FRAME } else { DATAGRAMS_OF_FRAME }
}

/// The frame of a datagram.
fn frame_of(datagram: u64) -> u64 {
    let (group, rest) = (datagram / DATAGRAMS_OF_GROUP, datagram % DATAGRAMS_OF_GROUP);
    let within = rest.checked_sub(DATAGRAMS_OF_KEY_FRAME).map_or(0, |rest| 1 + rest / DATAGRAMS_OF_FRAME);
    group * FRAMES_OF_GROUP + within
}

/// A frame: its number, when it was sent (microseconds), and whether all of it arrived in time.
type Frame = (u64, u64, bool);

/// The frames of which all datagrams are here; the first and the last may be cut.
fn whole_frames(datagrams: &[Sent]) -> Vec<Frame> {
    let limit = u64::try_from(VIDEO_BUFFER.as_micros()).unwrap_or(u64::MAX);
    let frames = datagrams.chunk_by(|one, next| frame_of(one.number) == frame_of(next.number));
    let frame = |parts: &[Sent]| {
        let first = parts.first()?;
        let number = frame_of(first.number);
        let in_time = |part: &Sent| part.received.is_some_and(|received| received.saturating_sub(first.sent) <= limit);
        let is_cut = (parts.len() as u64) < datagrams_of_frame(number);
        (!is_cut).then(|| (number, first.sent, parts.iter().all(in_time)))
    };
    frames.filter_map(frame).collect()
}

/// When the shown frames were sent: those that are in time, and whose predecessor was shown unless they need none.
fn shown_frames(frames: &[Frame]) -> Vec<u64> {
    let mut has_reference = true;
    let mut shown = Vec::new();
    for (number, sent, in_time) in frames {
        has_reference = *in_time && (has_reference || number.is_multiple_of(FRAMES_OF_GROUP));
        if has_reference {
            shown.push(*sent);
        }
    }
    shown
}

/// Milliseconds.
fn longest_freeze(frames: &[Frame], shown: &[u64]) -> f64 {
    let (Some((_, begin, _)), Some((_, end, _))) = (frames.first(), frames.last()) else { return f64::INFINITY };
    let times: Vec<u64> = [*begin].into_iter().chain(shown.iter().copied()).chain([*end]).collect();
    let pauses = times.iter().zip(times.iter().skip(1)).map(|(earlier, later)| later.saturating_sub(*earlier));
    let longest = pauses.max().unwrap_or_default();
    (longest as f64 - FRAME_TIME.as_secs_f64() * 1e6).max(0.0) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Datagrams 20 ms apart, with these delays in milliseconds.
    fn call(delays: impl IntoIterator<Item = Option<u64>>) -> Call {
        let sent = (0..).map(|number| number * 20_000);
        let one = |(number, (delay, sent)): (usize, (Option<u64>, u64))| Sent {
            number: number as u64,
            sent,
            received: delay.map(|delay| sent + delay * 1000),
        };
        Call::judge(&delays.into_iter().zip(sent).enumerate().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn calls_suffer_from_loss_and_from_what_is_late() {
        let clean = call([Some(25); 300]);
        assert!(clean.mos > 4.4 && clean.lost == 0 && clean.jitter_ms == 0.0, "{}", clean.mos);
        let late = call((0..300).map(|number| Some(if number == 100 { 86 } else { 25 })));
        let gone = call((0..300).map(|number| (number != 100).then_some(25)));
        assert_eq!((late.lost, gone.lost, late.mos), (1, 1, gone.mos));
        assert!(late.jitter_ms > 3.0 && gone.mos < clean.mos);
        let gap = call((0..300).map(|number| (!(100..115).contains(&number)).then_some(25)));
        let scattered = call((0..300).map(|number| (number % 20 != 0).then_some(25)));
        assert_eq!((gap.lost, scattered.lost), (15, 15));
        assert!(gap.mos < scattered.mos, "{} {}: one gap is worse than as many single losses", gap.mos, scattered.mos);
        assert!(call([None; 300]).mos < 1.01);
    }

    /// Two groups of frames; datagram `lost` is lost.
    fn video(lost: u64) -> Vec<Sent> {
        let send = |number: u64| {
            let sent = frame_of(number) * 33_333;
            Sent { number, sent, received: (number != lost).then_some(sent + 25_000) }
        };
        (0..2 * DATAGRAMS_OF_GROUP).map(send).collect()
    }

    #[test]
    fn a_lost_frame_freezes_the_video_until_the_next_key_frame() {
        let frames = whole_frames(&video(u64::MAX));
        let shown = shown_frames(&frames);
        assert_eq!((frames.len(), shown.len()), (60, 60));
        assert!(longest_freeze(&frames, &shown) < 0.1);
        // A datagram of frame 10.
        let frames = whole_frames(&video(DATAGRAMS_OF_KEY_FRAME + 9 * DATAGRAMS_OF_FRAME));
        let shown = shown_frames(&frames);
        assert_eq!((frames.len(), shown.len()), (60, 40));
        assert!((longest_freeze(&frames, &shown) - 20.0 * 33.333).abs() < 0.1);
        assert_eq!(whole_frames(&video(u64::MAX)[3..60]).len(), 2, "the first and the last frame are cut");
    }
}
