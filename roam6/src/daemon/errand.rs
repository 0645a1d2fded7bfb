//! Work that takes long, done on a thread of its own, so that no update waits for it: reading files, writing answers.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Something under way. Forgotten, it ends unheard.
pub(crate) struct Errand<T> {
    done: UnixStream,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Errand<T> {
    /// Begins `work`, which should not panic.
    pub(crate) fn begin(work: impl FnOnce() -> T + Send + 'static) -> Result<Errand<T>, String> {
        let what = |error: std::io::Error| format!("a thread for what takes long: {error}");
        let (done, end) = UnixStream::pair().map_err(what)?;
        let named = std::thread::Builder::new().name("errand".to_owned());
        let thread = named.spawn(move || {
            let result = work();
            drop(end);
            result
        });
        Ok(Errand { done, thread: thread.map_err(what)? })
    }

    /// Readable once the work is done.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// What came of it; waits if it is not done. `None` if the work panicked.
    pub(crate) fn finish(self) -> Option<T> {
        self.thread.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn its_end_is_heard_and_its_result_is_had() {
        let errand = Errand::begin(|| 6 * 7).unwrap();
        // The other end says nothing, it only goes.
        assert_eq!((&errand.done).read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(errand.finish(), Some(42));
    }
}
