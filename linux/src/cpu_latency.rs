//! Keeps the cores from sleeping while frames come. To wake a core that sleeps costs more time than a frame does, and on
//! the way of a packet each station may have to. The kernel asks those who need it otherwise to say so
//! (Documentation/power/pm_qos_interface.rst), and forgets what they said once they are gone.

use crate::error::{Context, Error};
use core::time::Duration;
use roam6_proto::Time;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Whoever has it open says how many microseconds a core may need to wake.
const DEVICE: &str = "/dev/cpu_dma_latency";
const NO_LATENCY: i32 = 0;
/// As if nobody had said anything (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const NO_LIMIT: i32 = 2_000_000_000;

/// What the kernel is told, and until when.
#[derive(Default)]
pub(crate) struct CpuLatency {
    device: Option<File>,
    hold_time: Duration,
    last_frame: Time,
    next_check: Option<Time>,
}

impl CpuLatency {
    /// From a frame on they stay awake for `pause`; not at all if it is zero. Also says why they will not, if so.
    pub(crate) fn open(pause: Duration) -> (CpuLatency, Option<String>) {
        if pause.is_zero() {
            return (CpuLatency::default(), None);
        }
        match OpenOptions::new().write(true).open(DEVICE) {
            Ok(device) => (CpuLatency { device: Some(device), hold_time: pause, ..CpuLatency::default() }, None),
            Err(error) => {
                (CpuLatency::default(), Some(format!("cores will sleep in spite of awake: {DEVICE}: {error}")))
            }
        }
    }

    /// When to look, even if there is nothing else to do: not with each frame anew.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.next_check
    }

    /// A frame came.
    pub(crate) fn note_frame(&mut self, now: Time) -> Result<(), Error> {
        self.last_frame = now;
        if self.next_check.is_some() || self.device.is_none() {
            return Ok(());
        }
        self.next_check = Some(now + self.hold_time);
        self.request(NO_LATENCY)
    }

    /// Lets them sleep if no frame came for long enough.
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

    /// What was said since it was asked last.
    fn requests(file: &mut File) -> Vec<i32> {
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).unwrap();
        octets.chunks_exact(4).map(|word| i32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn cpu_latency_is_requested_from_the_first_frame_until_idle() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let mut ear = device.reopen().unwrap();
        let mut cores = CpuLatency {
            device: Some(device.reopen().unwrap()),
            hold_time: Duration::from_millis(100),
            ..CpuLatency::default()
        };
        assert_eq!(cores.next_check(), None);
        cores.note_frame(at(5)).unwrap();
        cores.note_frame(at(60)).unwrap();
        assert_eq!((requests(&mut ear), cores.next_check()), (vec![NO_LATENCY], Some(at(105))));
        cores.check(at(104)).unwrap();
        cores.check(at(105)).unwrap();
        assert_eq!((requests(&mut ear), cores.next_check()), (vec![], Some(at(160))), "the second frame counts");
        cores.check(at(161)).unwrap();
        assert_eq!((requests(&mut ear), cores.next_check()), (vec![NO_LIMIT], None));
        cores.note_frame(at(200)).unwrap();
        assert_eq!(requests(&mut ear), [NO_LATENCY]);
    }

    #[test]
    fn cpu_latency_device_stays_closed_unless_configured() {
        let mut cores = CpuLatency::open(Duration::ZERO).0;
        cores.note_frame(at(1)).unwrap();
        assert!(cores.device.is_none() && cores.next_check().is_none());
    }
}
