//! The only clock of roam6: microseconds since the daemon started, time asleep included, and steps of the wall clock.

use crate::error::{Context, Error};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Source, clock_gettime};
use roam6_proto::{Clock as WallClock, Time};
use std::os::fd::{AsFd, BorrowedFd};

/// Reads the time and detects steps of the wall clock.
pub struct Clock {
    started: u64,
    steps: TimerFd,
    alarm: TimerFd,
    alarm_at: Option<Time>,
}

impl Clock {
    /// A clock that reads [`Time::ZERO`] now.
    ///
    /// # Errors
    /// The kernel's, if it refuses a timer.
    pub fn start() -> Result<Clock, Error> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let clock = Clock {
            started: micros(Source::CLOCK_BOOTTIME),
            steps: TimerFd::new(ClockId::CLOCK_REALTIME, flags).context("timer of the wall clock")?,
            alarm: TimerFd::new(ClockId::CLOCK_BOOTTIME, flags).context("timer")?,
            alarm_at: None,
        };
        clock.watch_steps()?;
        Ok(clock)
    }

    /// Time since the clock was started.
    pub fn now(&self) -> Time {
        Time::from_micros(micros(Source::CLOCK_BOOTTIME).saturating_sub(self.started))
    }

    /// The wall clock.
    pub fn wall(&self) -> WallClock {
        WallClock { unix_micros: micros(Source::CLOCK_REALTIME) }
    }

    /// Makes [`Clock::alarm_fd`] readable at `until`, or never.
    pub(crate) fn set_alarm(&mut self, until: Option<Time>) -> Result<(), Error> {
        if self.alarm_at == until {
            return Ok(());
        }
        self.alarm_at = until;
        let Some(until) = until else {
            return self.alarm.unset().context("timer");
        };
        let at = self.started.saturating_add(until.as_micros()).min(MAX_STEP_TIMER_MICROS);
        let at = TimeSpec::microseconds(at.cast_signed());
        self.alarm.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME).context("timer")
    }

    /// Acknowledges the alarm after it went off.
    pub(crate) fn read_alarm(&mut self) {
        self.alarm_at = None;
        // Not yet expired is no error: the caller compares times.
        let _ = self.alarm.unset();
    }

    /// The new wall-clock time, if it was stepped since the last call. The descriptor itself is read, because
    /// [`TimerFd::wait`] takes a step for the expiry of the timer.
    pub(crate) fn read_step(&mut self) -> Result<Option<WallClock>, Error> {
        match nix::unistd::read(&self.steps, &mut [0; 8]) {
            Err(nix::errno::Errno::ECANCELED) => {
                self.watch_steps()?;
                Ok(Some(self.wall()))
            }
            _ => Ok(None),
        }
    }

    /// Readable once the alarm's time has come.
    pub(crate) fn alarm_fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// Readable once the wall clock was stepped.
    pub(crate) fn steps_fd(&self) -> BorrowedFd<'_> {
        self.steps.as_fd()
    }

    fn watch_steps(&self) -> Result<(), Error> {
        let never = Expiration::OneShot(TimeSpec::microseconds(MAX_STEP_TIMER_MICROS.cast_signed()));
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        self.steps.set(never, flags).context("timer of the wall clock")
    }
}

/// Longer than any timer runs, in microseconds: some 200 years, which still fits the kernel's nanoseconds; where
/// seconds have 32 bits, as many as those.
const MAX_STEP_TIMER_MICROS: u64 = 1_000_000 * if usize::BITS == 32 { i32::MAX as u64 } else { 200 * 365 * 86_400 };

fn micros(source: Source) -> u64 {
    // Reading these two clocks cannot fail on any kernel that has epoll.
    clock_gettime(source).map_or(0, |time| u64::try_from(time.num_microseconds()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn time_begins_at_zero_and_runs_on() {
        let clock = Clock::start().unwrap();
        let first = clock.now();
        assert!(first < Time::ZERO + Duration::from_secs(1));
        assert!(clock.now() >= first);
        assert!(clock.wall().unix_micros > 1_600_000_000_000_000);
    }
}
