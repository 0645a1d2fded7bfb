//! The queue from the store thread to the event loop: bounded, with an eventfd that is readable while it is not empty.

use super::StoreEvent;
use crate::error::{Context, Error};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Events in the queue from which on the thread reads no more from the store.
const ENOUGH: usize = 16_384;

/// Converts an event of the thread into one of the event loop; `None`: it has no meaning there.
pub(super) type Decode<E> = Box<dyn Fn(StoreEvent) -> Option<E> + Send + Sync>;

/// The queue.
pub(super) struct Queue<E> {
    decode: Decode<E>,
    events: Mutex<VecDeque<E>>,
    ready: EventFd,
    drained: Notify,
}

/// The thread's end of the queue.
pub(super) trait Sink: Send + Sync {
    /// Appends an event.
    fn push(&self, event: StoreEvent);

    /// Whether the queue is full.
    fn is_full(&self) -> bool;

    /// Notified each time the event loop has taken events.
    fn drained(&self) -> &Notify;
}

impl<E: Send> Queue<E> {
    /// # Errors
    /// The kernel's, if it refuses the descriptor.
    pub(super) fn new(decode: Decode<E>) -> Result<Queue<E>, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let ready = EventFd::from_value_and_flags(0, flags).context("eventfd")?;
        Ok(Queue { decode, events: Mutex::default(), ready, drained: Notify::new() })
    }

    /// Readable while the queue is not empty.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Takes at most `most` events. The descriptor stays readable if there are more.
    pub(super) fn take(&self, most: usize) -> Vec<E> {
        let mut events = self.lock();
        let count = most.min(events.len());
        let taken = events.drain(..count).collect();
        if events.is_empty() {
            // Empty already if another call has taken what it announced.
            let _ = self.ready.read();
        }
        drop(events);
        self.drained.notify_one();
        taken
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<E>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Send> Sink for Queue<E> {
    fn push(&self, event: StoreEvent) {
        let Some(event) = (self.decode)(event) else { return };
        let mut events = self.lock();
        events.push_back(event);
        if events.len() == 1 {
            // Cannot block: it counts to 2^64.
            let _ = self.ready.write(1);
        }
    }

    fn is_full(&self) -> bool {
        self.lock().len() >= ENOUGH
    }

    fn drained(&self) -> &Notify {
        &self.drained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn readable(queue: &Queue<u64>) -> bool {
        poll(&mut [PollFd::new(queue.fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn descriptor_is_readable_while_events_wait() {
        let decode = |event| match event {
            StoreEvent::SnapshotBegins { head } => Some(head),
            _ => None,
        };
        let queue = Queue::new(Box::new(decode)).unwrap();
        assert!(!readable(&queue));
        queue.push(StoreEvent::SnapshotEnds { head: 9 });
        assert!(!readable(&queue), "nothing to the loop");
        (1..=3).for_each(|head| queue.push(StoreEvent::SnapshotBegins { head }));
        assert!(readable(&queue));
        assert_eq!(queue.take(2), [1, 2]);
        assert!(readable(&queue), "one is left");
        assert_eq!(queue.take(2), [3]);
        assert!(!readable(&queue));
        assert!(queue.take(2).is_empty());
        queue.push(StoreEvent::SnapshotBegins { head: 4 });
        assert!(readable(&queue));
    }
}
