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
/// The service of OpenWrt.
const PROCD_SERVICE: &str = "/etc/init.d/roam6";
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
    run_and_await(&[start_command(dir)], "journalctl -u roam6 -n 20", prompt)
}

/// Whether OpenWrt's procd has the service.
pub(crate) fn has_procd() -> bool {
    Path::new(PROCD_SERVICE).exists()
}

/// The commands that start the service of OpenWrt, at each boot too.
pub(crate) fn procd_commands() -> [Vec<String>; 2] {
    ["enable", "start"].map(|verb| vec![PROCD_SERVICE.to_owned(), verb.to_owned()])
}

/// Starts the service of OpenWrt, and waits until the daemon answers.
///
/// # Errors
/// It does not start.
pub(crate) fn start_by_procd(prompt: Prompt) -> Result<(), String> {
    run_and_await(&procd_commands(), "logread -e roam6", prompt)
}

/// Runs these commands, and waits until the daemon answers; `reason` is the command that shows why it does not.
fn run_and_await(commands: &[Vec<String>], reason: &str, prompt: Prompt) -> Result<(), String> {
    for command in commands {
        prompt.say(format!("+ {}", command.join(" ")));
        let (program, arguments) = command.split_first().ok_or("no command")?;
        let status = Command::new(program).args(arguments).stdout(std::process::Stdio::null()).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("{program}: {status}; the reason: {reason}")),
            Err(error) => return Err(format!("{program}: {error}")),
        }
    }
    let begun = now();
    while client::view(Part::Links, &control_socket()).is_err() {
        if begun.elapsed() > START {
            return Err(format!("the daemon does not answer; the reason: {reason}"));
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
        let wrong = |error: std::io::Error| crate::files::not_written(path, &error);
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
