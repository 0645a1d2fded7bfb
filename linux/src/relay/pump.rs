//! Moves octets from one socket to another, with back-pressure: what cannot be sent is not received.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, send, shutdown};
use std::os::fd::{AsRawFd, OwnedFd};

/// Octets moved at once.
pub(super) const BUFFER: usize = 64 * 1024;
/// Buffers moved before other connections are served.
const ROUNDS: usize = 8;

/// One direction.
#[derive(Debug)]
pub(super) struct Direction {
    /// What was received and could not be sent yet.
    left: Vec<u8>,
    /// The source has ended.
    ended: bool,
    /// The end was signalled to the destination.
    shut: bool,
    /// Octets sent so far.
    pub(super) octets: u64,
    /// No more is received once so many octets were sent.
    limit: u64,
}

/// How far a direction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Until the kernel announces that there is more, or more room.
    Waits,
    /// There is more to do at once.
    More,
    /// It has ended in order.
    Ended,
    /// An end was reset, or has failed.
    Broken,
}

impl Direction {
    /// One that stops after so many octets until [`Direction::lift`].
    pub(super) fn up_to(limit: u64) -> Direction {
        Direction { left: Vec::new(), ended: false, shut: false, octets: 0, limit }
    }

    /// Removes the limit.
    pub(super) fn lift(&mut self) {
        self.limit = u64::MAX;
    }

    /// Moves what can be moved.
    pub(super) fn run(&mut self, from: &OwnedFd, to: &OwnedFd, buffer: &mut [u8]) -> Progress {
        if self.shut {
            return Progress::Ended;
        }
        for _ in 0..ROUNDS {
            match self.flush(to) {
                Progress::More => {}
                other => return other,
            }
            if self.ended {
                self.shut = true;
                return match shutdown(to.as_raw_fd(), Shutdown::Write) {
                    Ok(()) => Progress::Ended,
                    Err(_) => Progress::Broken,
                };
            }
            if self.octets >= self.limit {
                return Progress::Waits;
            }
            match recv(from.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => self.ended = true,
                Ok(length) => {
                    let octets = buffer.get(..length).unwrap_or_default();
                    match self.send(to, octets) {
                        Ok(sent) => self.left.extend(octets.get(sent..).unwrap_or_default()),
                        Err(()) => return Progress::Broken,
                    }
                }
                Err(Errno::EAGAIN) => return Progress::Waits,
                Err(Errno::EINTR) => {}
                Err(_) => return Progress::Broken,
            }
        }
        Progress::More
    }

    /// Sends what is left.
    fn flush(&mut self, to: &OwnedFd) -> Progress {
        if self.left.is_empty() {
            return Progress::More;
        }
        let left = std::mem::take(&mut self.left);
        match self.send(to, &left) {
            Ok(sent) if sent == left.len() => Progress::More,
            Ok(sent) => {
                self.left = left;
                self.left.drain(..sent);
                Progress::Waits
            }
            Err(()) => Progress::Broken,
        }
    }

    /// Sends as much as there is room for.
    fn send(&mut self, to: &OwnedFd, octets: &[u8]) -> Result<usize, ()> {
        let mut sent = 0;
        while let Some(rest) = octets.get(sent..).filter(|rest| !rest.is_empty()) {
            match send(to.as_raw_fd(), rest, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return Err(()),
            }
        }
        self.octets += sent as u64;
        Ok(sent)
    }
}
