//! The option of all commands that connect to the daemon.

use crate::paths::{self, RUN_DIR};
use clap::Args;
use std::path::PathBuf;

/// Location of the daemon's control socket.
#[derive(Args)]
pub(crate) struct SocketArgs {
    /// The daemon's run directory
    #[arg(long, value_name = "FOLDER", default_value = RUN_DIR)]
    run_dir: PathBuf,
}

impl SocketArgs {
    /// The control socket.
    pub(crate) fn path(&self) -> PathBuf {
        paths::control_socket(&self.run_dir)
    }
}
