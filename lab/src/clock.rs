//! The only place of the lab that reads clocks.
#![allow(clippy::disallowed_methods, reason = "a testbed measures real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970-01-01T00:00Z, the clock of packets, events and captures.
pub(crate) fn unix_micros() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// The present on the monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Calls `question` every 5 ms until it returns a value; `None` after `timeout`.
pub(crate) fn wait_for<T>(timeout: Duration, mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let end = now() + timeout;
    loop {
        if let Some(answer) = question() {
            return Some(answer);
        }
        if now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the processor is emulated by qemu. Under `scripts/vm-run -i` its clock counts instructions, so that few
/// repetitions suffice.
pub(crate) fn is_emulated() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("QEMU TCG"))
}
