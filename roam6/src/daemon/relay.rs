//! Keeps the relay running: a process of its own, which outlives this one. Another daemon finds it by its lock.

use crate::config::Config;
use crate::exit::Failure;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// First and longest pause before the relay is started again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A relay that has run for so long is started again after the first pause.
const STABLE: Duration = Duration::from_secs(60);

/// The daemon ends: the relay is not started again.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Starts the relay, and starts it again whenever it ends. One that an earlier daemon has started opens the maps of this one.
///
/// # Errors
/// The system is out of threads.
pub(super) fn supervise(config: &Config, file: &Path) -> Result<(), Failure> {
    let lock_file = config.run_dir.join(roam6_linux::relay::LOCK_FILE);
    if let Some(pid) = running(&lock_file) {
        let _ = kill(pid, Signal::SIGHUP);
    }
    let file = file.to_owned();
    let thread = std::thread::Builder::new().name("relay watch".to_owned());
    thread.spawn(move || watch(&lock_file, &file)).map(drop).map_err(|error| format!("relay: {error}").into())
}

/// The daemon ends, perhaps to be started again: the relay waits for another one for a minute, and ends then.
pub(super) fn stop(config: &Config) {
    STOPPED.store(true, Ordering::Relaxed);
    signal_relay(config, Signal::SIGUSR2);
}

/// The relay is to read the configuration again.
pub(super) fn reload(config: &Config) {
    signal_relay(config, Signal::SIGUSR1);
}

fn signal_relay(config: &Config, signal: Signal) {
    if let Some(pid) = running(&config.run_dir.join(roam6_linux::relay::LOCK_FILE)) {
        let _ = kill(pid, signal);
    }
}

/// The relay that runs.
fn running(lock_file: &Path) -> Option<Pid> {
    let file = File::open(lock_file).ok()?;
    let Err((_, _)) = Flock::lock(file, FlockArg::LockSharedNonblock) else { return None };
    std::fs::read_to_string(lock_file).ok()?.trim().parse().ok().map(Pid::from_raw)
}

#[allow(clippy::disallowed_methods, reason = "it is no engine: it waits for a process")]
fn watch(lock_file: &Path, config: &Path) {
    let mut pause = PAUSE.0;
    loop {
        // Waits for the end of one that runs.
        if let Ok(file) = File::options().create(true).truncate(false).write(true).read(true).open(lock_file) {
            drop(Flock::lock(file, FlockArg::LockExclusive));
        }
        if STOPPED.load(Ordering::Relaxed) {
            return;
        }
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("roam6"));
        let mut command = Command::new(program);
        command.arg("relay").arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        let ended = command.spawn().and_then(|mut relay| relay.wait());
        if started.elapsed() > STABLE {
            pause = PAUSE.0;
        }
        if STOPPED.load(Ordering::Relaxed) {
            return;
        }
        let how =
            ended.map_or_else(|error| format!("cannot be started: {error}"), |status| format!("has ended: {status}"));
        eprintln!(
            "roam6: the relay {how}; its connections were reset, new ones take the tunnel; next start in {pause:?}"
        );
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE.1);
    }
}
