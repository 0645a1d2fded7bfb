//! What must hold before the daemon begins: it is alone, it is allowed to, and the kernel can. Each refusal says what to do.

use super::Failure;
use super::errand::Errand;
use super::signals::Signals;
use crate::config::{self, Config, Control};
use crate::control::socket_path;
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

/// Held while the daemon lives; no second one runs with the same `run_dir`.
pub(crate) struct Lock {
    _file: Flock<File>,
    path: PathBuf,
}

impl Drop for Lock {
    /// The file goes while it is still locked: whoever waits for it finds out in [`lock`].
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the run directory and locks it.
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
            // Whoever may read the file may lock it too. The number in it is for people.
            file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| what(&error))?;
            let _ = file.set_len(0).and_then(|()| file.rewind());
            let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
            return Ok(Lock { _file: file, path });
        }
    }
}

/// Refuses to begin without what the daemon cannot work without.
pub(crate) fn preflight() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(u64::MAX);
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| held & (1 << bit) == 0).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!("not allowed: {missing} is missing; run it as root, or by dist/systemd/roam6.service"));
    }
    if !Path::new("/proc/net/if_inet6").exists() {
        return Err("this kernel has IPv6 switched off; remove ipv6.disable=1 from its command line".to_owned());
    }
    Ok(())
}

const CAPABILITIES: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW")];

/// Opens the control socket. The lock is held, so a socket that is there is left from an earlier life.
pub(crate) fn control_socket(config: &Config) -> Result<UnixListener, String> {
    let path = socket_path(&config.run_dir);
    let what = |error: &dyn std::fmt::Display| format!("control socket {}: {error}", path.display());
    let _ = fs::remove_file(&path);
    // Nobody gets in between its making and its permissions.
    let former = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(&path);
    umask(former);
    let listener = listener.map_err(|error| what(&error))?;
    let Control { group, mode } = &config.control;
    if let Some(group) = group {
        chown(&path, None, Some(group_id(group)?)).map_err(|error| what(&error.desc()))?;
    }
    fs::set_permissions(&path, Permissions::from_mode(*mode)).map_err(|error| what(&error))?;
    listener.set_nonblocking(true).map_err(|error| what(&error))?;
    Ok(listener)
}

/// Opens the metrics listener.
pub(crate) fn metrics_socket(address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address)
        .map_err(|error| format!("[metrics] listen = \"{address}\": {error}; choose another port"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok(listener)
}

/// How long reading the files may still take once the daemon is told to end.
const GRACE: u16 = 2000;

/// Reads the configuration, and takes a seed. Both may take for ever, on a dead network file system or early at boot:
/// meanwhile signals are obeyed. `None`: told to end.
pub(super) fn prepare(path: &Path, signals: &mut Signals) -> Result<Option<(Config, [u8; 32])>, Failure> {
    let path = path.to_owned();
    let errand = Errand::begin(move || {
        let config = config::load(&path).map_err(Failure::Config)?;
        Ok::<_, Failure>((config, seed()?))
    })?;
    if !signals.wait_for(errand.fd(), PollTimeout::from(GRACE))? {
        return Ok(None);
    }
    let read = errand.finish().unwrap_or_else(|| Err("the configuration could not be read".to_owned().into()));
    read.map(Some)
}

/// 32 octets nobody can guess; waits for the kernel to have gathered enough, early at boot.
fn seed() -> Result<[u8; 32], String> {
    let mut seed = [0; 32];
    let read = File::open("/dev/random").and_then(|mut file| file.read_exact(&mut seed));
    read.map_err(|error| format!("/dev/random: {error}"))?;
    Ok(seed)
}

fn group_id(name: &str) -> Result<Gid, String> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => Err(format!("[control] group = \"{name}\": no such group; make it with: groupadd --system {name}")),
    }
}
