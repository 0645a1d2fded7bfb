//! Signals of the daemon: SIGTERM and SIGINT stop it, SIGHUP reloads the configuration. They are blocked first of all and stay
//! pending until they are read, so that no early signal is lost.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// The former signal mask of a process that has blocked the daemon's signals.
pub(crate) struct Blocked {
    former: SigSet,
}

impl Blocked {
    /// Blocks the signals in this thread and in threads it starts later.
    pub(crate) fn begin() -> Blocked {
        let former = daemon_signals().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        Blocked { former: former.unwrap_or_else(|_| SigSet::empty()) }
    }

    /// Restores the former mask, for commands on which these signals have their default effect.
    pub(crate) fn end(self) {
        // Fails only for an invalid mode.
        let _ = self.former.thread_set_mask();
    }
}

/// Reads the daemon's signals, and remembers them until they are handled.
pub(super) struct Signals {
    fd: SignalFd,
    end: bool,
    reload: bool,
}

impl Signals {
    /// Blocks the signals, if they are not, and opens a descriptor for them.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub(super) fn open() -> Result<Signals, String> {
        let _blocked = Blocked::begin();
        let fd = SignalFd::with_flags(&daemon_signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let fd = fd.map_err(|error| format!("signals: {}", error.desc()))?;
        Ok(Signals { fd, end: false, reload: false })
    }

    /// Reads all pending signals.
    pub(super) fn read(&mut self) {
        while let Ok(Some(signal)) = self.fd.read_signal() {
            match signal.ssi_signo == Signal::SIGHUP as u32 {
                true => self.reload = true,
                false => self.end = true,
            }
        }
    }

    /// Whether SIGTERM or SIGINT was read.
    pub(super) fn is_end(&self) -> bool {
        self.end
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
        while !self.end {
            let mut fds = [work, self.fd.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            interrupted(poll(&mut fds, PollTimeout::NONE))?;
            if fds.first().and_then(PollFd::any).unwrap_or(false) {
                return Ok(true);
            }
            self.read();
        }
        interrupted(poll(&mut [PollFd::new(work, PollFlags::POLLIN)], grace)).map(|ready| ready > 0)
    }
}

/// An interrupted poll has found no descriptor ready.
fn interrupted(polled: nix::Result<i32>) -> Result<i32, String> {
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
    fn pending_signals_are_read_and_a_wait_ends_by_them() {
        let mut signals = Signals::open().unwrap();
        let (done, work) = UnixStream::pair().unwrap();
        raise(Signal::SIGHUP).unwrap();
        drop(done);
        assert!(signals.wait_for(work.as_fd(), PollTimeout::ZERO).unwrap());
        signals.read();
        assert!(signals.take_reload() && !signals.take_reload() && !signals.is_end());

        let (_never, work) = UnixStream::pair().unwrap();
        raise(Signal::SIGTERM).unwrap();
        assert!(!signals.wait_for(work.as_fd(), PollTimeout::from(1_u8)).unwrap());
        assert!(signals.is_end());
    }
}
