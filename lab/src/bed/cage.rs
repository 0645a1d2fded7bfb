//! The cage: everything the lab does happens in process, mount and network namespaces of its own, so that the end of
//! one process, however it comes, ends every program, device, file and namespace of the testbed.

use crate::sys::{Birth, at_birth};
use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::{Pid, geteuid, getpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const INSIDE: &str = "ROAM6_LAB_INSIDE";
/// Names the folder outside that vanishes with the cage.
const OUTSIDE: &str = "ROAM6_LAB_OUTSIDE";

/// Where the lab keeps its files: a file system in memory that vanishes with the cage.
pub(crate) const WORK: &str = "/run/lab";

/// Returns in a copy of this program that runs inside a new cage; the original waits for it and ends with its status.
pub(crate) fn enter() -> Result<()> {
    if std::env::var_os(INSIDE).is_some() && getpid() == Pid::from_raw(1) {
        return furnish().context("cannot furnish the cage");
    }
    check_root()?;
    std::process::exit(guard(None)?);
}

/// The same with a door: a listening socket of the machine outside that `open` makes there, and that works inside.
pub(crate) fn enter_with_door(open: impl FnOnce() -> Result<TcpListener>) -> Result<TcpListener> {
    if std::env::var_os(INSIDE).is_none() {
        let door = open()?;
        check_root()?;
        std::process::exit(guard(Some(door))?);
    }
    enter()?;
    // The copy inside found it as its standard input.
    Ok(TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

fn check_root() -> Result<()> {
    if !geteuid().is_root() {
        bail!("the testbed makes network namespaces and devices: run it as root");
    }
    Ok(())
}

/// Kills every cage on this machine, and with each all that is in it. `true` once none is left.
pub(crate) fn clean() -> Result<bool> {
    let mut left = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let wanted = format!("{INSIDE}=1");
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
            && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
        {
            left += 1;
        }
    }
    println!("{}", if left == 0 { "nothing was left behind".to_owned() } else { format!("ended {left} processes") });
    Ok(true)
}

/// Starts the inner copy as the first process of new namespaces and waits. A signal kills it, and with it all the rest.
fn guard(door: Option<TcpListener>) -> Result<i32> {
    unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
        .context("cannot make namespaces")?;
    let mut command = Command::new(std::env::current_exe()?);
    let outside = Outside(std::env::temp_dir().join(format!("roam6-lab-{}", getpid())));
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1").env(OUTSIDE, &outside.0);
    if let Some(door) = door {
        command.stdin(OwnedFd::from(door));
    }
    at_birth(&mut command, Birth { die_with_parent: true, ..Birth::default() });
    // A signal before the handlers stand ends this process, and its death ends the child.
    let mut inner = command.spawn().context("cannot start the inner process")?;
    let pid = Pid::from_raw(i32::try_from(inner.id())?);
    let received = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, received.clone(), usize::try_from(signal)?)?;
    }
    loop {
        let signal = received.load(std::sync::atomic::Ordering::Relaxed);
        if signal != 0 {
            kill(pid, Signal::SIGKILL).ok();
            inner.wait()?; // returns when the last process of the cage is gone
            eprintln!("\ninterrupted; nothing is left behind");
            return Ok(128 + i32::try_from(signal)?);
        }
        if let Some(status) = inner.try_wait()? {
            return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folder outside; nobody need have made it.
struct Outside(PathBuf);

impl Drop for Outside {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A folder for files that belong on a disk, where the machine keeps its temporary ones, and what file system that is.
/// It vanishes with the cage.
pub(crate) fn disk() -> Result<(PathBuf, &'static str)> {
    let folder = PathBuf::from(std::env::var_os(OUTSIDE).context("not in a cage")?);
    fs::create_dir_all(&folder)?;
    let kind = if statfs(&folder)?.filesystem_type() == TMPFS_MAGIC { "in memory" } else { "on disk" };
    Ok((folder, kind))
}

/// Processor time of the kernel's own threads for packets, all of them together; they are outside of the cage. Zero if they
/// cannot be seen.
pub(crate) fn softirq_time() -> Duration {
    SOFTIRQ.get().into_iter().flatten().filter_map(time_of).sum()
}

/// The first column of the open file `schedstat` of a thread.
fn time_of(file: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Processor time of each of the kernel's worker threads, by its number.
pub(crate) struct Workers(BTreeMap<String, Duration>);

impl Workers {
    /// As of now; of none if they cannot be seen.
    pub(crate) fn now() -> Workers {
        let outside = PROCESSES.get().and_then(|folder| folder.as_ref());
        let path = outside.map(|folder| PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())));
        let threads = path.map(|path| kernel_threads(&path, "kworker/")).unwrap_or_default();
        let time = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.to_owned();
            Some((number, time_of(&File::open(path.join("schedstat")).ok()?)?))
        };
        Workers(threads.into_iter().filter_map(time).collect())
    }

    /// What they have worked since; those that have begun meanwhile too.
    pub(crate) fn worked_since(&self, then: &Workers) -> Duration {
        let before = |number| then.0.get(number).copied().unwrap_or_default();
        self.0.iter().map(|(number, time)| time.saturating_sub(before(number))).sum()
    }
}

/// The table of all processes, opened while it could be seen.
static PROCESSES: OnceLock<Option<File>> = OnceLock::new();

/// What tells the time of each thread `ksoftirqd`, opened while it could be seen.
static SOFTIRQ: OnceLock<Vec<File>> = OnceLock::new();

fn softirq_threads() -> Vec<File> {
    let threads = kernel_threads(Path::new("/proc"), "ksoftirqd/").into_iter();
    threads.filter_map(|path| File::open(path.join("schedstat")).ok()).collect()
}

/// The folders of those whose names begin so.
fn kernel_threads(processes: &Path, beginning: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(processes).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with(beginning));
    folders.filter(is_one).collect()
}

/// Hides the host's `/run` and process table behind fresh ones.
fn furnish() -> Result<()> {
    let none = None::<&str>;
    SOFTIRQ.get_or_init(softirq_threads);
    PROCESSES.get_or_init(|| File::open("/proc").ok());
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    mount(Some("lab"), "/run", Some("tmpfs"), MsFlags::empty(), none)?;
    fs::create_dir_all(WORK)?;
    Ok(())
}
