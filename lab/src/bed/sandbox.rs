//! The sandbox: the lab runs in process, mount and network namespaces of its own. However its first process ends, all
//! programs, devices, files and namespaces of the testbed end with it.

use crate::sys::{ChildSetup, set_up_child};
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

const INNER_VARIABLE: &str = "ROAM6_LAB_INSIDE";
/// Environment variable that names the temporary directory outside the sandbox, removed with it.
const TEMP_DIR_VARIABLE: &str = "ROAM6_LAB_OUTSIDE";

/// Working directory of the lab: a tmpfs that is removed with the sandbox.
pub(crate) const WORK_DIR: &str = "/run/lab";

/// Returns in a copy of this program that runs inside a new sandbox; the original process waits for the copy and exits
/// with its status.
pub(crate) fn enter() -> Result<()> {
    if std::env::var_os(INNER_VARIABLE).is_some() && getpid() == Pid::from_raw(1) {
        return mount_file_systems().context("cannot mount the file systems of the sandbox");
    }
    check_root()?;
    std::process::exit(run_inner(None)?);
}

/// [`enter`] with a listening socket that `open` creates outside of the sandbox and that is usable inside.
pub(crate) fn enter_with_listener(open: impl FnOnce() -> Result<TcpListener>) -> Result<TcpListener> {
    if std::env::var_os(INNER_VARIABLE).is_none() {
        let listener = open()?;
        check_root()?;
        std::process::exit(run_inner(Some(listener))?);
    }
    enter()?;
    // The copy inside inherits the listener as its standard input.
    Ok(TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

fn check_root() -> Result<()> {
    if !geteuid().is_root() {
        bail!("the testbed creates network namespaces and devices: run it as root");
    }
    Ok(())
}

/// Kills every sandbox on this machine with all its processes. `true` once none is left.
pub(crate) fn clean() -> Result<bool> {
    let mut left = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let wanted = format!("{INNER_VARIABLE}=1");
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
            && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
        {
            left += 1;
        }
    }
    println!("{}", if left == 0 { "no process is left".to_owned() } else { format!("killed {left} processes") });
    Ok(true)
}

/// Starts the inner copy as the first process of new namespaces and waits. A signal kills it, and with it all others.
fn run_inner(listener: Option<TcpListener>) -> Result<i32> {
    super::congestion::allow_cubic();
    unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
        .context("cannot make namespaces")?;
    let mut command = Command::new(std::env::current_exe()?);
    let outside = TempDir(std::env::temp_dir().join(format!("roam6-lab-{}", getpid())));
    command.args(std::env::args_os().skip(1)).env(INNER_VARIABLE, "1").env(TEMP_DIR_VARIABLE, &outside.0);
    if let Some(listener) = listener {
        command.stdin(OwnedFd::from(listener));
    }
    set_up_child(&mut command, ChildSetup { die_with_parent: true, ..ChildSetup::default() });
    // A signal before the handlers are installed ends this process, and its death ends the child.
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
            inner.wait()?; // returns when the last process of the sandbox is gone
            eprintln!("\ninterrupted; the testbed is removed");
            return Ok(128 + i32::try_from(signal)?);
        }
        if let Some(status) = inner.try_wait()? {
            return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The temporary directory outside the sandbox; it may not exist.
struct TempDir(PathBuf);

impl Drop for TempDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A directory in the machine's temporary directory for files that belong on a disk, and its file system type. It is
/// removed with the sandbox.
pub(crate) fn disk_dir() -> Result<(PathBuf, &'static str)> {
    let folder = PathBuf::from(std::env::var_os(TEMP_DIR_VARIABLE).context("not in the sandbox")?);
    fs::create_dir_all(&folder)?;
    let kind = if statfs(&folder)?.filesystem_type() == TMPFS_MAGIC { "in memory" } else { "on disk" };
    Ok((folder, kind))
}

/// CPU time of all the kernel's softirq threads, which are outside of the sandbox. Zero if they are not visible.
pub(crate) fn softirq_cpu_time() -> Duration {
    KSOFTIRQD_SCHEDSTATS.get().into_iter().flatten().filter_map(thread_cpu_time).sum()
}

/// The first column (CPU time) of a thread's `schedstat`.
fn thread_cpu_time(file: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// CPU time of each of the kernel's worker threads, by thread number.
pub(crate) struct KworkerTimes(BTreeMap<String, Duration>);

impl KworkerTimes {
    /// The present values; empty if the threads are not visible.
    pub(crate) fn now() -> KworkerTimes {
        let outside = PROC_DIR.get().and_then(|folder| folder.as_ref());
        let path = outside.map(|folder| PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())));
        let threads = path.map(|path| kernel_threads(&path, "kworker/")).unwrap_or_default();
        let time = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.to_owned();
            Some((number, thread_cpu_time(&File::open(path.join("schedstat")).ok()?)?))
        };
        KworkerTimes(threads.into_iter().filter_map(time).collect())
    }

    /// CPU time since `then`; threads created since are included.
    pub(crate) fn cpu_time_since(&self, then: &KworkerTimes) -> Duration {
        let before = |number| then.0.get(number).copied().unwrap_or_default();
        self.0.iter().map(|(number, time)| time.saturating_sub(before(number))).sum()
    }
}

/// `/proc` of the machine, opened before it is hidden.
static PROC_DIR: OnceLock<Option<File>> = OnceLock::new();

/// `schedstat` of each `ksoftirqd` thread, opened before `/proc` is hidden.
static KSOFTIRQD_SCHEDSTATS: OnceLock<Vec<File>> = OnceLock::new();

fn softirq_threads() -> Vec<File> {
    let threads = kernel_threads(Path::new("/proc"), "ksoftirqd/").into_iter();
    threads.filter_map(|path| File::open(path.join("schedstat")).ok()).collect()
}

/// The `/proc` directories of threads whose names begin with `beginning`.
fn kernel_threads(processes: &Path, beginning: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(processes).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with(beginning));
    folders.filter(is_one).collect()
}

/// Mounts a new `/run` and `/proc` over those of the machine.
fn mount_file_systems() -> Result<()> {
    let none = None::<&str>;
    KSOFTIRQD_SCHEDSTATS.get_or_init(softirq_threads);
    PROC_DIR.get_or_init(|| File::open("/proc").ok());
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    mount(Some("lab"), "/run", Some("tmpfs"), MsFlags::empty(), none)?;
    fs::create_dir_all(WORK_DIR)?;
    Ok(())
}
