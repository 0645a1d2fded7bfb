//! The daemon as a service of this host: started by `roam6 setup` and `roam6 join`, and awaited.

use crate::cli::prompt::Prompt;
use crate::control::client;
use crate::control::part::Part;
use crate::paths::{self, RUN_DIR};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The folder whose configuration the service reads.
pub(crate) const CONFIG_DIR: &str = "/etc/roam6";
/// The configuration in a folder.
pub(crate) const CONFIG_FILE: &str = "roam6.toml";
/// Time for the daemon to answer.
const START: Duration = Duration::from_secs(30);
/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// The time, from which a command counts how long it waits.
#[allow(clippy::disallowed_methods, reason = "a command of the user, not an engine")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The control socket of the service.
pub(crate) fn control_socket() -> PathBuf {
    paths::control_socket(Path::new(RUN_DIR))
}

/// The command that starts the daemon with the configuration in this folder, at each boot too if there is a service.
pub(crate) fn start_command(dir: &Path) -> Vec<String> {
    let words: &[&str] = &["systemctl", "enable", "--now", "roam6"];
    if has_systemd() && dir == Path::new(CONFIG_DIR) {
        return words.iter().map(|word| (*word).to_owned()).collect();
    }
    ["roam6".to_owned(), "run".to_owned(), "--config".to_owned(), dir.join(CONFIG_FILE).display().to_string()].into()
}

/// Whether this host has a service to start.
pub(crate) fn has_service(dir: &Path) -> bool {
    has_systemd() && dir == Path::new(CONFIG_DIR)
}

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Starts the service, and waits until the daemon answers.
///
/// # Errors
/// It does not start.
pub(crate) fn start(dir: &Path, prompt: Prompt) -> Result<(), String> {
    let command = start_command(dir);
    prompt.say(format!("+ {}", command.join(" ")));
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let status = Command::new(program).args(arguments).stdout(std::process::Stdio::null()).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("{program}: {status}; the reason: journalctl -u roam6 -n 20")),
        Err(error) => return Err(format!("{program}: {error}")),
    }
    let begun = now();
    while client::view(Part::Links, &control_socket()).is_err() {
        if begun.elapsed() > START {
            return Err("the daemon does not answer; the reason: journalctl -u roam6 -n 20".to_owned());
        }
        sleep(LOOK);
    }
    Ok(())
}

/// Files that are written all or none; the folder is made.
pub(crate) struct NewFiles {
    written: Vec<PathBuf>,
    kept: bool,
}

impl NewFiles {
    /// None yet.
    pub(crate) fn new() -> NewFiles {
        NewFiles { written: Vec::new(), kept: false }
    }

    /// Creates a file.
    ///
    /// # Errors
    /// It exists, or cannot be written.
    pub(crate) fn create(&mut self, path: &Path, text: &str, mode: u32) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(crate::files::folder_of(path)).map_err(wrong)?;
        crate::files::create(path, text, mode).map_err(wrong)?;
        self.written.push(path.to_owned());
        Ok(())
    }

    /// A file that another function has created.
    #[cfg(feature = "setup")]
    pub(crate) fn adopt(&mut self, path: PathBuf) {
        self.written.push(path);
    }

    /// Keeps them all, and returns their paths.
    pub(crate) fn keep(&mut self) -> Vec<PathBuf> {
        self.kept = true;
        self.written.clone()
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in self.written.iter().filter(|_| !self.kept) {
            let _ = std::fs::remove_file(path);
        }
    }
}
