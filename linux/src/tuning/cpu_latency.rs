//! Keeps CPU cores out of deep idle states while frames arrive: to wake a core takes longer than to handle a frame, and
//! each station on the path of a packet may have to. The kernel takes such requests from a file
//! (Documentation/power/pm_qos_interface.rst) and drops them when it is closed.

use crate::error::{Context, Error};
use core::time::Duration;
use roam6_proto::Time;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// The file: it takes the longest tolerable wake-up latency in microseconds, while it is open.
const DEVICE: &str = "/dev/cpu_dma_latency";
const NO_LATENCY: i32 = 0;
/// No request (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const NO_LIMIT: i32 = 2_000_000_000;

/// The present request, and until when it holds.
#[derive(Default)]
pub(crate) struct CpuLatency {
    device: Option<File>,
    hold_time: Duration,
    last_frame: Time,
    next_check: Option<Time>,
}

impl CpuLatency {
    /// Opens the file if `hold_time`, for which a request outlasts a frame, is not zero. Also returns why it could not
    /// be opened.
    pub(crate) fn open(pause: Duration) -> (CpuLatency, Option<String>) {
        if pause.is_zero() {
            return (CpuLatency::default(), None);
        }
        match OpenOptions::new().write(true).open(DEVICE) {
            Ok(device) => (CpuLatency { device: Some(device), hold_time: pause, ..CpuLatency::default() }, None),
            Err(error) => (
                CpuLatency::default(),
                Some(format!("CPU cores cannot be kept awake (setting awake): {DEVICE}: {error}")),
            ),
        }
    }

    /// When to call [`CpuLatency::check`], even if nothing else happens: not reset by each frame.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.next_check
    }

    /// Notes a frame, which begins or prolongs the request.
    ///
    /// # Errors
    /// The kernel's, if it refuses the request.
    pub(crate) fn note_frame(&mut self, now: Time) -> Result<(), Error> {
        self.last_frame = now;
        if self.next_check.is_some() || self.device.is_none() {
            return Ok(());
        }
        self.next_check = Some(now + self.hold_time);
        self.request(NO_LATENCY)
    }

    /// Ends the request if no frame arrived for long enough.
    ///
    /// # Errors
    /// The kernel's, if it refuses the request.
    pub(crate) fn check(&mut self, now: Time) -> Result<(), Error> {
        if self.next_check.is_none_or(|at| now < at) {
            return Ok(());
        }
        let until = self.last_frame + self.hold_time;
        self.next_check = (now < until).then_some(until);
        if self.next_check.is_some() { Ok(()) } else { self.request(NO_LIMIT) }
    }

    fn request(&mut self, microseconds: i32) -> Result<(), Error> {
        let Some(device) = &mut self.device else { return Ok(()) };
        device.write_all(&microseconds.to_ne_bytes()).context(DEVICE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    /// What was requested since the last call.
    fn requests(file: &mut File) -> Vec<i32> {
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).unwrap();
        octets.chunks_exact(4).map(|word| i32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn cpu_latency_is_requested_from_the_first_frame_until_idle() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let mut reader = device.reopen().unwrap();
        let mut latency = CpuLatency {
            device: Some(device.reopen().unwrap()),
            hold_time: Duration::from_millis(100),
            ..CpuLatency::default()
        };
        assert_eq!(latency.next_check(), None);
        latency.note_frame(at(5)).unwrap();
        latency.note_frame(at(60)).unwrap();
        assert_eq!((requests(&mut reader), latency.next_check()), (vec![NO_LATENCY], Some(at(105))));
        latency.check(at(104)).unwrap();
        latency.check(at(105)).unwrap();
        assert_eq!((requests(&mut reader), latency.next_check()), (vec![], Some(at(160))), "the second frame counts");
        latency.check(at(161)).unwrap();
        assert_eq!((requests(&mut reader), latency.next_check()), (vec![NO_LIMIT], None));
        latency.note_frame(at(200)).unwrap();
        assert_eq!(requests(&mut reader), [NO_LATENCY]);
    }

    #[test]
    fn cpu_latency_device_stays_closed_unless_configured() {
        let mut latency = CpuLatency::open(Duration::ZERO).0;
        latency.note_frame(at(1)).unwrap();
        assert!(latency.device.is_none() && latency.next_check().is_none());
    }
}
