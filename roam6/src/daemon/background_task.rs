//! Background tasks: long work on a thread of its own, so that it does not delay signalling. Reads files and encodes dumps.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// A running background task. If dropped, it runs to its end and its result is discarded.
pub(crate) struct BackgroundTask<T> {
    done: UnixStream,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> BackgroundTask<T> {
    /// Runs `work` on a thread of its own; it should not panic.
    ///
    /// # Errors
    /// The system is out of threads or descriptors.
    pub(crate) fn spawn(work: impl FnOnce() -> T + Send + 'static) -> Result<BackgroundTask<T>, String> {
        let what = |error: std::io::Error| format!("cannot start a background thread: {error}");
        let (done, end) = UnixStream::pair().map_err(what)?;
        let named = std::thread::Builder::new().name("background".to_owned());
        let thread = named.spawn(move || {
            let result = work();
            drop(end);
            result
        });
        Ok(BackgroundTask { done, thread: thread.map_err(what)? })
    }

    /// Readable once the task is done.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// The result; waits if the task is not done. `None` if it panicked.
    pub(crate) fn finish(self) -> Option<T> {
        self.thread.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_end_of_a_task_makes_its_descriptor_readable() {
        let task = BackgroundTask::spawn(|| 6 * 7).unwrap();
        // The thread writes nothing; it only closes its end.
        assert_eq!((&task.done).read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(task.finish(), Some(42));
    }
}
