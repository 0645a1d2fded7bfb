//! Detects that the prefix table file was written or replaced (inotify(7)).

use crate::files::folder_of;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Watches one file through its directory, because editors replace the file.
pub(crate) struct TableWatch {
    inotify: Inotify,
    name: OsString,
}

impl TableWatch {
    /// Watches `path` from now on.
    ///
    /// # Errors
    /// Its directory cannot be watched.
    pub(crate) fn new(path: &Path) -> Result<TableWatch, String> {
        let what = |error: nix::Error| format!("{} cannot be watched: {}", path.display(), error.desc());
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(what)?;
        let flags = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
        inotify.add_watch(folder_of(path), flags).map_err(what)?;
        Ok(TableWatch { inotify, name: path.file_name().unwrap_or_default().to_owned() })
    }

    /// Readable once an entry of the directory has changed.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether the file has changed since the last call.
    pub(crate) fn changed(&self) -> bool {
        let events = self.inotify.read_events().unwrap_or_default();
        events.iter().any(|event| event.name.as_ref() == Some(&self.name))
    }
}
