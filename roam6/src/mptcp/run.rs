//! `roam6 mptcp run -- COMMAND`: runs a program whose TCP sockets are MPTCP, unmodified and statically linked ones too.
//! Its exit status and signals are passed on, and nothing is left behind.

use crate::FAILED;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use roam6_linux::mptcp::force::{self, Giver};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

/// As a shell's: the command cannot be run, or is not there.
const NOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Sent by the kernel on behalf of a terminal, to all of its foreground.
const BY_KERNEL: i32 = 0x80;
/// This program, whatever became of its file.
const OURSELVES: &str = "/proc/self/exe";
const CAUGHT: [Signal; 10] = [
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

/// Runs the command to its end, giving it sockets.
pub(crate) fn run(command: &[OsString]) -> ExitCode {
    match supervise(command) {
        Ok(status) => pass_on(status),
        Err(why) => complain(&why, FAILED),
    }
}

/// What the command's process does before it becomes the command: it asks for the sockets' sake to be asked about.
/// `passage` is the descriptor by which the one who answers hears of it.
pub(crate) fn become_command(passage: RawFd, command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else { return complain("no command", FAILED) };
    if let Err(error) = force::submit(passage) {
        return complain(format!("{error}; programs not statically linked: mptcpize run COMMAND"), FAILED);
    }
    let caught: SigSet = CAUGHT.into_iter().collect();
    if let Err(error) = caught.thread_unblock() {
        return complain(format!("signals: {error}"), FAILED);
    }
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
    complain(format!("{}: {error}", program.display()), code)
}

/// Gives sockets to what the command left running, until all of it has ended.
/// They ask by what is our standard input.
pub(crate) fn give_on() -> ExitCode {
    let Ok(listener) = std::io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::from(FAILED) };
    let giver = Giver::resume(listener);
    while wait(&[giver.as_fd()]).is_ok_and(|ready| ready.first() == Some(&Ready::Readable)) && giver.give().is_ok() {}
    ExitCode::SUCCESS
}

fn supervise(command: &[OsString]) -> Result<ExitStatus, String> {
    let caught: SigSet = CAUGHT.into_iter().collect();
    // Blocked before the command runs, so that none falls between; its process unblocks them before it becomes it.
    caught.thread_block().map_err(|error| format!("signals: {error}"))?;
    let signals = SignalFd::with_flags(&caught, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signals = signals.map_err(|error| format!("signals: {error}"))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| error.to_string())?;
    let verb = ["mptcp", "become", &theirs.as_raw_fd().to_string(), "--"].map(OsString::from);
    let started = Command::new(OURSELVES).args(verb).args(command).spawn();
    let child = started.map_err(|error| format!("{OURSELVES}: {error}"))?;
    drop(theirs);
    let giver = Giver::receive(&ours).map_err(|error| error.to_string())?;
    attend(child, &signals, giver)
}

/// Waits for the command, giving it sockets and handing signals to it.
fn attend(mut child: Child, signals: &SignalFd, mut giver: Option<Giver>) -> Result<ExitStatus, String> {
    let process = i32::try_from(child.id()).map(Pid::from_raw).map_err(|error| error.to_string())?;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            giver.map_or(Ok(()), leave)?;
            return Ok(status);
        }
        let asked: Vec<_> = [signals.as_fd()].into_iter().chain(giver.as_ref().map(|giver| giver.as_fd())).collect();
        let ready = wait(&asked)?;
        match ready.get(1) {
            Some(Ready::Readable) => giver.as_ref().map_or(Ok(()), Giver::give).map_err(|error| error.to_string())?,
            Some(Ready::Over) => giver = None,
            _ => {}
        }
        while let Ok(Some(told)) = signals.read_signal() {
            let signal = i32::try_from(told.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal.filter(|signal| *signal != Signal::SIGCHLD && told.ssi_code != BY_KERNEL) {
                let _ = kill(process, signal);
            }
        }
    }
}

/// What the command left running could make no TCP socket any more if nobody answered.
fn leave(giver: Giver) -> Result<(), String> {
    let mut asked = [PollFd::new(giver.as_fd(), PollFlags::POLLIN)];
    let over = poll(&mut asked, PollTimeout::ZERO).is_ok() && readiness(&asked).first() == Some(&Ready::Over);
    if over {
        return Ok(());
    }
    let mut helper = Command::new(OURSELVES);
    helper.args(["mptcp", "give"]).stdin(Stdio::from(giver.into_listener())).stdout(Stdio::null());
    let helper = helper.stderr(Stdio::null()).process_group(0).spawn();
    helper.map(drop).map_err(|error| format!("{OURSELVES}: {error}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Not,
    Readable,
    /// Nobody is at the other end any more.
    Over,
}

fn wait(descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Result<Vec<Ready>, String> {
    let mut asked: Vec<PollFd<'_>> = descriptors.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    match poll(&mut asked, PollTimeout::NONE) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(readiness(&asked)),
        Err(error) => Err(error.to_string()),
    }
}

fn readiness(asked: &[PollFd<'_>]) -> Vec<Ready> {
    let one = |asked: &PollFd<'_>| match asked.revents() {
        Some(events) if events.contains(PollFlags::POLLIN) => Ready::Readable,
        Some(events) if events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) => Ready::Over,
        _ => Ready::Not,
    };
    asked.iter().map(one).collect()
}

/// Ends as the command ended.
fn pass_on(status: ExitStatus) -> ExitCode {
    if let Some(code) = status.code() {
        return ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED));
    }
    let Some(number) = status.signal() else { return ExitCode::from(FAILED) };
    if let Ok(signal) = Signal::try_from(number) {
        // The command has left a core dump if one is wanted.
        let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
        let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&SigSet::from(signal)), None);
        let _ = raise(signal);
    }
    ExitCode::from(u8::try_from(128 + number).unwrap_or(FAILED))
}

fn complain(why: impl AsRef<OsStr>, code: u8) -> ExitCode {
    eprintln!("roam6: {}", why.as_ref().display());
    ExitCode::from(code)
}
