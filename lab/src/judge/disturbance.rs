//! Disturbance of the machine by others while something is measured: stolen processor time, work of other programs, and a
//! processor that runs slower than before.

use crate::clock;
use crate::statistics::round;
use serde_json::{Value, json};
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A disturbed measurement has more of any of these.
const MAX_STEAL: f64 = 0.01;
const MAX_FOREIGN_CORES: f64 = 0.05;
const MAX_SLOWNESS: f64 = 1.05;
/// Clock ticks of /proc in a second (USER_HZ).
const TICKS: f64 = 100.0;
/// Multiplications of the loop that shows the speed of the processor, and how often it runs.
const MULTIPLICATIONS: u64 = 200_000;
const LOOPS: u32 = 5;

/// The shortest time of the loop in this process, nanoseconds.
static FASTEST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Processor times since the machine was started, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Times {
    /// Of the programs of the whole machine, in user mode. Time in the kernel is left out: the testbed's packets take it too.
    user: f64,
    /// Taken by the hypervisor for others.
    stolen: f64,
    /// Of the programs of this sandbox, in user mode.
    own: f64,
}

/// A measurement that is being watched.
pub(crate) struct Watch {
    began: Instant,
    times: Times,
    loop_nanos: u64,
}

/// What disturbed a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disturbance {
    /// Stolen share of the processor time, 0 to 1.
    steal: f64,
    /// Cores that other programs used.
    foreign_cores: f64,
    /// Duration of a fixed loop over the shortest one of this process.
    slowness: f64,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn begin() -> Watch {
        Watch { loop_nanos: loop_nanos(), began: clock::now(), times: Times::now() }
    }

    /// What has disturbed since the beginning.
    pub(crate) fn end(&self) -> Disturbance {
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let now = Times::now();
        let slowest = self.loop_nanos.max(loop_nanos());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let foreign = (now.user - self.times.user) - (now.own - self.times.own);
        Disturbance {
            steal: (now.stolen - self.times.stolen) / seconds / cores as f64,
            foreign_cores: foreign.max(0.0) / seconds,
            slowness: slowest as f64 / FASTEST.load(Ordering::Relaxed) as f64,
        }
    }
}

impl Disturbance {
    /// Whether the measurement should be repeated.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.steal > MAX_STEAL || self.foreign_cores > MAX_FOREIGN_CORES || self.slowness > MAX_SLOWNESS
    }

    #[cfg(test)]
    pub(crate) fn of_foreign_cores(foreign_cores: f64) -> Disturbance {
        Disturbance { steal: 0.0, foreign_cores, slowness: 1.0 }
    }

    /// As part of a result.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "steal_percent": round(self.steal * 100.0),
            "foreign_cores": round(self.foreign_cores),
            "slowness": round(self.slowness),
        })
    }
}

impl Times {
    fn now() -> Times {
        let machine = machine_times(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(|first: char| first.is_ascii_digit()));
        let times =
            processes.filter_map(|entry| process_user_time(&fs::read_to_string(entry.path().join("stat")).ok()?));
        Times { own: times.sum(), ..machine }
    }
}

/// Processor times of the machine by the text of /proc/stat: user and nice, and stolen.
fn machine_times(text: &str) -> Times {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0.0) / TICKS;
    Times { user: at(0) + at(1), stolen: at(7), own: 0.0 }
}

/// Seconds in user mode of a process and of its children that have ended, by the text of /proc/PID/stat.
fn process_user_time(text: &str) -> Option<f64> {
    // The name of the program may contain blanks and brackets.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(13)?) / TICKS)
}

/// The shortest duration of a fixed loop, in processor time.
fn loop_nanos() -> u64 {
    let once = || {
        let before = clock::thread_cpu_time();
        let mut value = black_box(3_u64);
        for _ in 0..MULTIPLICATIONS {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005));
        }
        clock::thread_cpu_time().saturating_sub(before)
    };
    let shortest = (0..LOOPS).map(|_| once()).min().unwrap_or_default();
    let nanos = u64::try_from(shortest.as_nanos()).unwrap_or(u64::MAX).max(1);
    FASTEST.fetch_min(nanos, Ordering::Relaxed);
    nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_the_kernels_texts() {
        let times = machine_times("cpu  1000 50 300 9000 20 0 30 7 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
        assert_eq!(times, Times { user: 10.5, stolen: 0.07, own: 0.0 });
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 30 150 10 20 0 1 0 100 0 0";
        assert_eq!(process_user_time(stat), Some(4.0));
        assert_eq!(process_user_time("nonsense"), None);
    }

    #[test]
    fn work_of_others_disturbs_and_little_of_it_does_not() {
        let quiet = Disturbance { steal: 0.0, foreign_cores: 0.02, slowness: 1.01 };
        assert!(!quiet.is_disturbed());
        assert!(Disturbance { foreign_cores: 0.9, ..quiet }.is_disturbed());
        assert!(Disturbance { steal: 0.02, ..quiet }.is_disturbed());
        assert!(Disturbance { slowness: 1.3, ..quiet }.is_disturbed());
        assert!(Watch::begin().end().slowness >= 1.0);
    }
}
