use super::*;
use crate::Entropy;

const LIMITS: QualityLimits = QualityLimits { max_rtt: Some(Duration::from_millis(800)), max_loss: Some(20) };
const INTERVAL: Duration = Duration::from_millis(200);

/// A path that is probed five times a second.
struct Path {
    quality: PathQuality,
    now: Time,
    sequence: u16,
    entropy: Entropy,
    /// Answers on their way.
    answers: Vec<(Time, u16)>,
    changes: Vec<(u64, QualityChange)>,
}

impl Path {
    fn new() -> Path {
        let entropy = Entropy::seed_from_u64(1);
        let (quality, now) = (PathQuality::default(), Time::ZERO);
        Path { quality, now, sequence: 0, entropy, answers: Vec::new(), changes: Vec::new() }
    }

    /// Runs for so many seconds with so many milliseconds of round trip and so much loss, percent.
    fn run(&mut self, seconds: u64, millis: u64, loss: u64) {
        for _ in 0..seconds * 5 {
            self.sequence = self.sequence.wrapping_add(1);
            self.quality.record_sent(self.now, self.sequence);
            self.judge();
            if self.entropy.below(100) >= loss {
                self.answers.push((self.now + Duration::from_millis(millis), self.sequence));
            }
            let next = self.now + INTERVAL;
            self.answers.sort_unstable();
            while let Some((at, sequence)) = self.answers.first().copied().filter(|(at, _)| *at < next) {
                self.answers.remove(0);
                self.now = at;
                self.quality.record_answer(at, sequence);
                self.judge();
            }
            self.now = next;
        }
    }

    fn judge(&mut self) {
        if let Some(change) = self.quality.judge(self.now, LIMITS, false) {
            self.changes.push((self.now.as_micros() / 1000, change));
        }
    }

    fn is_degraded(&self) -> bool {
        self.quality.degradation().is_some()
    }
}

#[test]
fn round_trip_jitter_and_loss_are_measured() {
    let mut path = Path::new();
    path.run(20, 50, 0);
    assert_eq!(path.quality.round_trip(), Some(Duration::from_millis(50)));
    assert!(path.quality.jitter() < Duration::from_millis(1));
    assert_eq!(path.quality.loss(path.now), (32, 0));
    path.run(60, 60, 10);
    let round_trip = path.quality.round_trip().unwrap();
    assert!((Duration::from_millis(59)..=Duration::from_millis(60)).contains(&round_trip), "{round_trip:?}");
    let (of, lost) = path.quality.loss(path.now);
    assert!(of >= 31 && (1..=8).contains(&lost), "{lost} of {of}");
}

#[test]
fn loss_beyond_the_limit_degrades_and_less_does_not() {
    for (loss, within) in [(40, 6000), (60, 3000), (95, 2500)] {
        let mut path = Path::new();
        path.run(60, 50, 0);
        path.run(10, 50, loss);
        let (at, change) = path.changes[0];
        assert!(matches!(change, QualityChange::Degraded(Degradation::Loss { .. })), "{change:?}");
        assert!(at - 60_000 <= within, "{loss} %: after {} ms", at - 60_000);
    }
    let mut path = Path::new();
    path.run(600, 50, 2);
    assert!(path.changes.is_empty(), "{:?}", path.changes);
}

#[test]
fn path_that_answers_again_with_loss_is_degraded_by_loss() {
    let mut path = Path::new();
    path.quality.receive_silence(path.now, LIMITS);
    path.run(30, 50, 50);
    let [(at, QualityChange::Degraded(Degradation::Loss { .. }))] = path.changes[..] else {
        panic!("{:?}", path.changes)
    };
    assert!(at <= 6000, "after {at} ms");
    assert!(matches!(path.quality.degradation(), Some(Degradation::Loss { .. })));
}

#[test]
fn long_round_trip_degrades_within_two_seconds() {
    for millis in [360, 850, 2000] {
        let mut path = Path::new();
        path.run(60, 50, 0);
        path.run(6, millis, 0);
        let (at, change) = path.changes[0];
        assert!(matches!(change, QualityChange::Degraded(_)), "{change:?}");
        assert!(at - 60_000 <= 1200 + millis, "{millis} ms: after {} ms", at - 60_000);
    }
}

#[test]
fn round_trip_of_a_satellite_or_of_a_modem_is_no_fault() {
    for millis in [20, 120, 600, 790] {
        let mut path = Path::new();
        path.run(60, millis, 0);
        path.run(60, millis + millis / 100, 0);
        assert!(!path.is_degraded(), "{millis} ms: {:?}", path.changes);
    }
    // Three times as long as before, but short.
    let mut path = Path::new();
    path.run(60, 20, 0);
    path.run(60, 60, 0);
    path.run(60, 300, 0);
    assert!(path.changes.is_empty(), "{:?}", path.changes);
}

#[test]
fn degraded_path_is_restored_after_a_minute_and_later_each_time() {
    let mut path = Path::new();
    path.run(60, 50, 0);
    for hold in [60, 300, 600] {
        path.changes.clear();
        path.run(5, 50, 100);
        assert!(path.is_degraded());
        path.run(hold - 2, 50, 0);
        assert!(path.is_degraded(), "not yet after {hold} s");
        path.run(12, 50, 0);
        assert!(!path.is_degraded(), "{:?}", path.changes);
    }
    // Nothing for a quarter of an hour: as at first.
    path.run(900, 50, 0);
    path.run(5, 50, 100);
    path.run(72, 50, 0);
    assert!(!path.is_degraded());
}

/// Whatever the fault and its rhythm, a path that is bad within each minute moves traffic twice at most in ten
/// minutes.
#[test]
fn flapping_quality_changes_twice_at_most() {
    for (millis, loss) in [(50, 30), (50, 100), (900, 0), (50, 50)] {
        for (bad, good) in [(2, 2), (5, 5), (20, 20), (40, 40), (3, 25), (10, 1)] {
            let mut path = Path::new();
            path.run(60, 50, 0);
            while path.now < Time::from_micros(660_000_000) {
                path.run(bad, millis, loss);
                path.run(good, 50, 0);
            }
            assert!(path.changes.len() <= 2, "{millis} ms {loss} % {bad}/{good} s: {:?}", path.changes);
        }
    }
}

#[test]
fn late_answer_is_not_lost() {
    let mut quality = PathQuality::default();
    for sequence in 0..20 {
        let sent = Time::from_micros(u64::from(sequence) * 200_000);
        quality.record_sent(sent, sequence);
        quality.record_answer(sent + Duration::from_millis(20), sequence);
    }
    let sent = Time::from_micros(4_000_000);
    quality.record_sent(sent, 20);
    let late = sent + Duration::from_millis(700);
    assert_eq!(quality.loss(late), (21, 1));
    assert_eq!(quality.record_answer(late, 20), Some(Duration::from_millis(700)));
    assert_eq!(quality.loss(late), (21, 0));
    assert_eq!(quality.record_answer(late, 20), None, "a duplicate");
    assert_eq!(quality.record_answer(late, 99), None, "none of ours");
}

#[test]
fn without_limits_nothing_is_degraded() {
    let mut quality = PathQuality::default();
    let none = QualityLimits::default();
    for sequence in 0..200 {
        let now = Time::from_micros(u64::from(sequence) * 200_000);
        quality.record_sent(now, sequence);
        assert_eq!(quality.judge(now, none, false), None);
    }
    quality.receive_silence(Time::from_micros(40_000_000), none);
    assert_eq!(quality.degradation(), None);
    assert_eq!(quality.hold_time(), Duration::from_secs(60));
}
