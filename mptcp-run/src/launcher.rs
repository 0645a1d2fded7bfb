//! `roam6 mptcp run -- COMMAND`: runs an unmodified program with MPTCP in place of TCP sockets, also a statically linked one,
//! by a seccomp user notification for socket(2). Signals are forwarded to it, and its exit status is passed on.

use crate::filter;
use crate::supervisor::Supervisor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

/// Exit status of an error of the launcher itself.
const FAILED: u8 = 1;
/// Exit statuses as a shell's: the command cannot be executed, or is not found.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// `si_code` of a signal that the kernel has sent to the terminal's foreground process group.
const SI_KERNEL: i32 = 0x80;
/// This program, even if its file was replaced.
const OURSELVES: &str = "/proc/self/exe";
const FORWARDED_SIGNALS: [Signal; 10] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// `roam6 mptcp run`: runs the command to its end and serves its socket requests.
pub fn run(command: &[OsString]) -> ExitCode {
    match supervise(command) {
        Ok(status) => exit_as(status),
        Err(why) => fail(&why, FAILED),
    }
}

/// The command's process before execve(2): installs the seccomp filter, and sends its notification descriptor to the
/// supervisor over the socket `supervisor_socket`.
pub fn become_command(supervisor_socket: RawFd, command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else { return fail("no command", FAILED) };
    if let Err(error) = filter::install(supervisor_socket) {
        return fail(format!("{error}; programs not statically linked: mptcpize run COMMAND"), FAILED);
    }
    let caught: SigSet = FORWARDED_SIGNALS.into_iter().collect();
    if let Err(error) = caught.thread_unblock() {
        return fail(format!("signals: {error}"), FAILED);
    }
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
    fail(format!("{}: {error}", program.display()), code)
}

/// Serves the processes that the command has left running, until the last has ended. Standard input is the seccomp
/// notification descriptor.
pub fn serve_remaining() -> ExitCode {
    let Ok(listener) = std::io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::from(FAILED) };
    let supervisor = Supervisor::resume(listener);
    while wait(&[supervisor.as_fd()], PollTimeout::NONE).is_ok_and(|ready| ready.contains(PollFlags::POLLIN))
        && supervisor.serve_call().is_ok()
    {}
    ExitCode::SUCCESS
}

fn supervise(command: &[OsString]) -> Result<ExitStatus, String> {
    let caught: SigSet = FORWARDED_SIGNALS.into_iter().collect();
    // Blocked before the command starts, so that none is lost; its process unblocks them before execve(2).
    caught.thread_block().map_err(|error| format!("signals: {error}"))?;
    let signals = SignalFd::with_flags(&caught, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signals = signals.map_err(|error| format!("signals: {error}"))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| error.to_string())?;
    let arguments = ["mptcp", "become", &theirs.as_raw_fd().to_string(), "--"].map(OsString::from);
    let started = Command::new(OURSELVES).args(arguments).args(command).spawn();
    let child = started.map_err(|error| format!("{OURSELVES}: {error}"))?;
    drop(theirs);
    let supervisor = Supervisor::receive(&ours).map_err(|error| error.to_string())?;
    wait_for_command(child, &signals, supervisor)
}

/// Waits for the command, serves its socket requests and forwards signals to it.
fn wait_for_command(
    mut child: Child,
    signals: &SignalFd,
    mut supervisor: Option<Supervisor>,
) -> Result<ExitStatus, String> {
    let process = i32::try_from(child.id()).map(Pid::from_raw).map_err(|error| error.to_string())?;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            supervisor.map_or(Ok(()), hand_over)?;
            return Ok(status);
        }
        let watched: Vec<_> = [signals.as_fd()].into_iter().chain(supervisor.as_ref().map(AsFd::as_fd)).collect();
        let ready = wait(&watched, PollTimeout::NONE)?;
        match &supervisor {
            Some(supervisor) if ready.contains(PollFlags::POLLIN) => {
                supervisor.serve_call().map_err(|error| error.to_string())?
            }
            Some(_) if ready.intersects(HUNG_UP) => supervisor = None,
            _ => {}
        }
        while let Ok(Some(info)) = signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal.filter(|signal| *signal != Signal::SIGCHLD && info.ssi_code != SI_KERNEL) {
                let _ = kill(process, signal);
            }
        }
    }
}

/// Leaves a process that serves what the command has left running: without one, socket(2) would fail there.
fn hand_over(supervisor: Supervisor) -> Result<(), String> {
    let ready = wait(&[supervisor.as_fd()], PollTimeout::ZERO).unwrap_or(PollFlags::empty());
    if ready.intersects(HUNG_UP) && !ready.contains(PollFlags::POLLIN) {
        return Ok(());
    }
    let mut helper = Command::new(OURSELVES);
    helper.args(["mptcp", "give"]).stdin(Stdio::from(supervisor.into_listener())).stdout(Stdio::null());
    let helper = helper.stderr(Stdio::null()).process_group(0).spawn();
    helper.map(drop).map_err(|error| format!("{OURSELVES}: {error}"))
}

/// The other end of a descriptor is closed.
const HUNG_UP: PollFlags = PollFlags::POLLHUP.union(PollFlags::POLLERR);

/// Waits until one of the descriptors is ready; returns what the last one is ready for.
fn wait(descriptors: &[BorrowedFd<'_>], timeout: PollTimeout) -> Result<PollFlags, String> {
    let mut watched: Vec<PollFd<'_>> = descriptors.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    match poll(&mut watched, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(watched.last().and_then(PollFd::revents).unwrap_or(PollFlags::empty())),
        Err(error) => Err(error.to_string()),
    }
}

/// Exits with the command's status, or by the same signal.
fn exit_as(status: ExitStatus) -> ExitCode {
    if let Some(code) = status.code() {
        return ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED));
    }
    let Some(number) = status.signal() else { return ExitCode::from(FAILED) };
    if let Ok(signal) = Signal::try_from(number) {
        // The command itself has already dumped core, if so configured.
        let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
        let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&SigSet::from(signal)), None);
        let _ = raise(signal);
    }
    ExitCode::from(u8::try_from(128 + number).unwrap_or(FAILED))
}

fn fail(why: impl AsRef<OsStr>, code: u8) -> ExitCode {
    eprintln!("roam6: {}", why.as_ref().display());
    ExitCode::from(code)
}
