//! The only place of the lab that reads clocks.
#![allow(clippy::disallowed_methods, reason = "a testbed measures real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970-01-01T00:00Z, the clock of packets, events and captures.
pub(crate) fn unix_micros() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds of TAI since 2004-01-01T00:00Z, the clock of GeoNetworking (EN 302 636-4-1 §9.5.2): five leap seconds since.
pub(crate) fn its_micros() -> u64 {
    unix_micros().saturating_sub(1_072_915_195_000_000)
}

/// The present on the monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Set in a virtual machine, whose processors are emulated.
pub(crate) const EMULATED_VARIABLE: &str = "ROAM6_LAB_VM";
/// How much slower those may be: a daemon starts in 90 to 140 s there, most of it for the verifier of BPF programs.
const EMULATION_FACTOR: u32 = 30;

/// Whether this program runs in a virtual machine that the lab has started.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os(EMULATED_VARIABLE).is_some()
}

/// Calls `question` every 5 ms until it returns a value; `None` after `timeout`, which is longer on emulated processors.
pub(crate) fn wait_for<T>(timeout: Duration, mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let end = now() + if is_emulated() { timeout * EMULATION_FACTOR } else { timeout };
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

/// Whether the clock counts instructions, as in `scripts/vm-run -i`, so that few repetitions suffice.
pub(crate) fn counts_instructions() -> bool {
    std::env::var_os("ROAM6_LAB_CLOCK").is_some_and(|clock| clock == "instructions")
}

/// Processor time of this thread.
pub(crate) fn thread_cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
