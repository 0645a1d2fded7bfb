//! Default directories, and the files in them.

use std::path::{Path, PathBuf};

/// The daemon's configuration, by default.
#[cfg(any(feature = "doctor", feature = "fleet", feature = "setup", feature = "web"))]
pub(crate) const CONFIG: &str = "/etc/roam6/roam6.toml";
/// Directory of the control socket and the lock, by default.
pub(crate) const RUN_DIR: &str = "/run/roam6";
/// Directory of the journal, by default.
pub(crate) const STATE_DIR: &str = "/var/lib/roam6";

/// The control socket in a run directory.
pub(crate) fn control_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("control.sock")
}
