//! Packets that the kernel could not send are retried: right after a handover a route or a neighbour entry may be
//! missing for some milliseconds, and the engine's own retransmission takes a second (RFC 6275 §12,
//! INITIAL_BINDACK_TIMEOUT).

use core::time::Duration;
use roam6_proto::{Time, Transmit};
use std::io;

/// Most packets queued; further ones are dropped at once.
const MAX_PENDING: usize = 16;
/// Delay of the first retry; it doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Retries: a third of a second altogether.
const ATTEMPTS: u32 = 6;

/// Packets to be retried.
#[derive(Debug, Default)]
pub(crate) struct RetryQueue {
    pending: Vec<PendingSend>,
}

/// A packet to be retried.
#[derive(Debug)]
pub(crate) struct PendingSend {
    pub(crate) transmit: Transmit,
    /// Retries so far.
    pub(crate) attempts: u32,
    due: Time,
}

impl RetryQueue {
    /// Queues a packet that failed with `error` after so many retries; `false` if another one is pointless.
    pub(crate) fn push(&mut self, now: Time, transmit: &Transmit, attempts: u32, error: &io::Error) -> bool {
        let kept = attempts < ATTEMPTS && self.pending.len() < MAX_PENDING && is_transient(error);
        if kept {
            let due = now + FIRST_RETRY * 2u32.pow(attempts);
            self.pending.push(PendingSend { transmit: transmit.clone(), attempts, due });
        }
        kept
    }

    /// When the next retry is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.pending.iter().map(|waiting| waiting.due).min()
    }

    /// Removes the packets whose retry is due, in the order in which they were queued.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<PendingSend> {
        let (due, waiting) = std::mem::take(&mut self.pending).into_iter().partition(|waiting| waiting.due <= now);
        self.pending = waiting;
        due
    }
}

/// Whether the kernel may accept the same packet a moment later: not if the interface is absent or down, or the packet
/// is too large.
fn is_transient(error: &io::Error) -> bool {
    let transient =
        [libc::EINVAL, libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EADDRNOTAVAIL, libc::ENOBUFS, libc::EAGAIN];
    error.raw_os_error().is_some_and(|number| transient.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::Via;

    #[test]
    fn failed_send_is_retried_within_a_third_of_a_second() {
        let mut unsent = RetryQueue::default();
        let transmit = Transmit { via: Via::Route, bytes: vec![0x60] };
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        let (mut now, mut attempts) = (Time::ZERO, 0);
        while unsent.push(now, &transmit, attempts, &error) {
            now = unsent.due().unwrap();
            assert!(unsent.take_due(now - Duration::from_millis(1)).is_empty());
            let due = unsent.take_due(now);
            assert_eq!(due.len(), 1);
            attempts = due[0].attempts + 1;
        }
        assert_eq!((attempts, now), (6, Time::ZERO + Duration::from_millis(315)));
    }

    #[test]
    fn permanent_send_errors_are_not_retried_and_the_queue_is_bounded() {
        let mut unsent = RetryQueue::default();
        let transmit = Transmit { via: Via::Route, bytes: vec![0x60] };
        for number in [libc::ENODEV, libc::ENETDOWN, libc::EMSGSIZE, libc::EPERM] {
            assert!(!unsent.push(Time::ZERO, &transmit, 0, &io::Error::from_raw_os_error(number)));
        }
        let error = io::Error::from_raw_os_error(libc::ENETUNREACH);
        assert_eq!((0..100).filter(|_| unsent.push(Time::ZERO, &transmit, 0, &error)).count(), MAX_PENDING);
    }
}
