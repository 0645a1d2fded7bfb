//! Signals of the daemon: SIGTERM and SIGINT stop it, SIGHUP reloads the configuration. They are blocked first of all and stay
//! pending until they are read, so that no early signal is lost.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// The former signal mask of a process that has blocked the daemon's signals.
pub(crate) struct BlockedSignals {
    former: SigSet,
}

impl BlockedSignals {
    /// Blocks the signals in this thread and in threads it starts later.
    pub(crate) fn begin() -> BlockedSignals {
        let former = daemon_signals().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        BlockedSignals { former: former.unwrap_or_else(|_| SigSet::empty()) }
    }

    /// Restores the former mask, for commands on which these signals have their default effect.
    pub(crate) fn restore(self) {
        // Fails only for an invalid mode.
        let _ = self.former.thread_set_mask();
    }
}

/// Reads the daemon's signals, and remembers them until they are handled.
pub(super) struct Signals {
    fd: SignalFd,
    stop: bool,
    reload: bool,
}

impl Signals {
    /// Blocks the signals, if they are not, and opens a descriptor for them.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub(super) fn open() -> Result<Signals, String> {
        let _blocked = BlockedSignals::begin();
        let fd = SignalFd::with_flags(&daemon_signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let fd = fd.map_err(|error| format!("signals: {}", error.desc()))?;
        Ok(Signals { fd, stop: false, reload: false })
    }

    /// Reads all pending signals.
    pub(super) fn read(&mut self) {
        while let Ok(Some(signal)) = self.fd.read_signal() {
            match signal.ssi_signo == Signal::SIGHUP as u32 {
                true => self.reload = true,
                false => self.stop = true,
            }
        }
    }

    /// Whether SIGTERM or SIGINT is pending or was received.
    pub(super) fn is_stop_requested(&mut self) -> bool {
        self.read();
        self.stop
    }

    /// Whether SIGHUP was read since the last call.
    pub(super) fn take_reload(&mut self) -> bool {
        std::mem::take(&mut self.reload)
    }

    /// Waits until `work` is readable; once SIGTERM or SIGINT was read, for at most `grace`. Returns whether it is readable.
    ///
    /// # Errors
    /// poll(2) fails.
    pub(super) fn wait_for(&mut self, work: BorrowedFd<'_>, grace: PollTimeout) -> Result<bool, String> {
        while !self.stop {
            let mut fds = [work, self.fd.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            ignore_interrupt(poll(&mut fds, PollTimeout::NONE))?;
            if fds.first().and_then(PollFd::any).unwrap_or(false) {
                return Ok(true);
            }
            self.read();
        }
        ignore_interrupt(poll(&mut [PollFd::new(work, PollFlags::POLLIN)], grace)).map(|ready| ready > 0)
    }
}

/// An interrupted poll has found no descriptor ready.
fn ignore_interrupt(polled: nix::Result<i32>) -> Result<i32, String> {
    match polled {
        Err(Errno::EINTR) => Ok(0),
        other => other.map_err(|error| format!("poll: {}", error.desc())),
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn daemon_signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::raise;
    use std::os::unix::net::UnixStream;

    #[test]
    fn pending_signals_are_read_and_end_a_wait() {
        let mut signals = Signals::open().unwrap();
        let (done, work) = UnixStream::pair().unwrap();
        raise(Signal::SIGHUP).unwrap();
        drop(done);
        assert!(signals.wait_for(work.as_fd(), PollTimeout::ZERO).unwrap());
        signals.read();
        assert!(signals.take_reload() && !signals.take_reload() && !signals.is_stop_requested());

        let (_never, work) = UnixStream::pair().unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert!(!signals.wait_for(work.as_fd(), PollTimeout::from(1_u8)).unwrap());
        assert!(signals.is_stop_requested());
    }
}
