//! Preconditions of the daemon: no second instance, sufficient capabilities, kernel support. Each refusal has a remedy.

use super::background_task::BackgroundTask;
use super::signals::Signals;
use crate::config::{self, Config, ControlSocket};
use crate::exit::Failure;
use crate::paths;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::PollTimeout;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Group, chown};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Lock of the run directory, held while the daemon runs: there is one daemon for each `run_dir`.
pub(crate) struct Lock {
    _file: Flock<File>,
    path: PathBuf,
}

impl Drop for Lock {
    /// Removes the file while it is still locked; [`lock`] detects the removal.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates the run directory and locks it.
///
/// # Errors
/// Another daemon has locked it, or it cannot be written.
pub(crate) fn lock(run_dir: &Path) -> Result<Lock, String> {
    let what = |error: &dyn std::fmt::Display| {
        format!("run_dir {}: {error}; make it writable for the daemon, or set run_dir in the file", run_dir.display())
    };
    fs::create_dir_all(run_dir).map_err(|error| what(&error))?;
    let path = run_dir.join("roam6.pid");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    loop {
        let mut file = options.open(&path).map_err(|error| what(&error))?;
        let mut former = String::new();
        let _ = file.read_to_string(&mut former);
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            let (directory, former) = (run_dir.display(), former.trim());
            format!("another roam6 runs with run_dir {directory} (pid {former}); stop it, or set another run_dir")
        })?;
        let ours = file.metadata().map_err(|error| what(&error))?;
        if fs::metadata(&path).is_ok_and(|there| there.ino() == ours.ino() && there.dev() == ours.dev()) {
            // Only the owner may read the file, because readers can lock it. The process number in it is informative.
            file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| what(&error))?;
            let _ = file.set_len(0).and_then(|()| file.rewind());
            let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
            return Ok(Lock { _file: file, path });
        }
    }
}

/// Checks the capabilities of the process, and that the kernel has IPv6.
///
/// # Errors
/// What is missing, with a remedy.
pub(crate) fn preflight() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(u64::MAX);
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| held & (1 << bit) == 0).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!("missing capabilities: {missing}; run it as root, or by dist/systemd/roam6.service"));
    }
    if !Path::new("/proc/net/if_inet6").exists() {
        return Err("IPv6 is disabled in this kernel; remove ipv6.disable=1 from the kernel's command line".to_owned());
    }
    Ok(())
}

const CAPABILITIES: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW")];

/// Opens the control socket. With the lock held, an existing socket is left over from a previous run.
///
/// # Errors
/// The socket cannot be created, or its group does not exist.
pub(crate) fn control_socket(config: &Config) -> Result<UnixListener, String> {
    let path = paths::control_socket(&config.run_dir);
    let what = |error: &dyn std::fmt::Display| format!("control socket {}: {error}", path.display());
    let _ = fs::remove_file(&path);
    // No other user can connect before the permissions are set.
    let former = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(&path);
    umask(former);
    let listener = listener.map_err(|error| what(&error))?;
    let ControlSocket { group, mode } = &config.control;
    if let Some(group) = group {
        chown(&path, None, Some(group_id(group)?)).map_err(|error| what(&error.desc()))?;
    }
    fs::set_permissions(&path, Permissions::from_mode(*mode)).map_err(|error| what(&error))?;
    listener.set_nonblocking(true).map_err(|error| what(&error))?;
    Ok(listener)
}

/// Opens the metrics listener.
///
/// # Errors
/// The address is in use.
pub(crate) fn metrics_socket(address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address)
        .map_err(|error| format!("[metrics] listen = \"{address}\": {error}; choose another port"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok(listener)
}

/// How long a stopped daemon waits for its files to be read, milliseconds.
const STOP_GRACE_MS: u16 = 2000;

/// Reads the configuration and a random seed. Either may block, on an unreachable network file system or early at boot;
/// signals are handled meanwhile. `None` if the daemon was stopped.
pub(super) fn prepare(path: &Path, signals: &mut Signals) -> Result<Option<(Config, [u8; 32])>, Failure> {
    let path = path.to_owned();
    let task = BackgroundTask::spawn(move || {
        let config = config::load(&path).map_err(Failure::Config)?;
        Ok::<_, Failure>((config, seed()?))
    })?;
    if !signals.wait_for(task.fd(), PollTimeout::from(STOP_GRACE_MS))? {
        return Ok(None);
    }
    let read = task.finish().unwrap_or_else(|| Err("the configuration could not be read".to_owned().into()));
    read.map(Some)
}

/// 32 random octets; blocks early at boot until the kernel's random number generator is initialised.
pub(crate) fn seed() -> Result<[u8; 32], String> {
    let mut seed = [0; 32];
    let read = File::open("/dev/random").and_then(|mut file| file.read_exact(&mut seed));
    read.map_err(|error| format!("/dev/random: {error}"))?;
    Ok(seed)
}

fn group_id(name: &str) -> Result<Gid, String> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => Err(format!("[control] group = \"{name}\": no such group; create it with: groupadd --system {name}")),
    }
}
