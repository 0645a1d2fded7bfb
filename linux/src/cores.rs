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
const NONE: i32 = 0;
/// As if nobody had said anything (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const ANY: i32 = 2_000_000_000;

/// What the kernel is told, and until when.
#[derive(Default)]
pub(crate) struct Cores {
    device: Option<File>,
    pause: Duration,
    heard: Time,
    look_at: Option<Time>,
}

impl Cores {
    /// From a frame on they stay awake for `pause`; not at all if it is zero. Also says why they will not, if so.
    pub(crate) fn open(pause: Duration) -> (Cores, Option<String>) {
        if pause.is_zero() {
            return (Cores::default(), None);
        }
        match OpenOptions::new().write(true).open(DEVICE) {
            Ok(device) => (Cores { device: Some(device), pause, ..Cores::default() }, None),
            Err(error) => (Cores::default(), Some(format!("cores will sleep in spite of awake: {DEVICE}: {error}"))),
        }
    }

    /// When to look, even if there is nothing else to do: not with each frame anew.
    pub(crate) fn look_at(&self) -> Option<Time> {
        self.look_at
    }

    /// A frame came.
    pub(crate) fn hear(&mut self, now: Time) -> Result<(), Error> {
        self.heard = now;
        if self.look_at.is_some() || self.device.is_none() {
            return Ok(());
        }
        self.look_at = Some(now + self.pause);
        self.tell(NONE)
    }

    /// Lets them sleep if no frame came for long enough.
    pub(crate) fn look(&mut self, now: Time) -> Result<(), Error> {
        if self.look_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        let until = self.heard + self.pause;
        self.look_at = (now < until).then_some(until);
        if self.look_at.is_some() { Ok(()) } else { self.tell(ANY) }
    }

    fn tell(&mut self, microseconds: i32) -> Result<(), Error> {
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
    fn said(file: &mut File) -> Vec<i32> {
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).unwrap();
        octets.chunks_exact(4).map(|word| i32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn cores_stay_awake_from_the_first_frame_until_none_came_for_a_while() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let mut ear = device.reopen().unwrap();
        let mut cores =
            Cores { device: Some(device.reopen().unwrap()), pause: Duration::from_millis(100), ..Cores::default() };
        assert_eq!(cores.look_at(), None);
        cores.hear(at(5)).unwrap();
        cores.hear(at(60)).unwrap();
        assert_eq!((said(&mut ear), cores.look_at()), (vec![NONE], Some(at(105))));
        cores.look(at(104)).unwrap();
        cores.look(at(105)).unwrap();
        assert_eq!((said(&mut ear), cores.look_at()), (vec![], Some(at(160))), "the second frame counts");
        cores.look(at(161)).unwrap();
        assert_eq!((said(&mut ear), cores.look_at()), (vec![ANY], None));
        cores.hear(at(200)).unwrap();
        assert_eq!(said(&mut ear), [NONE]);
    }

    #[test]
    fn who_does_not_ask_opens_nothing() {
        let mut cores = Cores::open(Duration::ZERO).0;
        cores.hear(at(1)).unwrap();
        assert!(cores.device.is_none() && cores.look_at().is_none());
    }
}
