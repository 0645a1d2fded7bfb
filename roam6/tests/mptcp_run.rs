//! `roam6 mptcp run`: what a script, a supervisor and a terminal see of the command is what they would see without it.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails at the assertion")]

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_roam6");
/// Of env(1).
const HEEDS_SIGNALS: &str = "--default-signal=INT,HUP";
/// Slow machines are no failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ends with the test, together with its children.
struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `roam6 mptcp run -- WORDS`. What a shell runs in the background may have been told to ignore interrupts, and what nohup(1)
/// runs to ignore that the terminal is gone.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args([HEEDS_SIGNALS, BINARY, "mptcp", "run", "--"]).args(words).stdin(Stdio::null());
    command
}

/// Whether it works here: not under another such listener, as some containers are.
fn works(test: &str) -> bool {
    let output = command(&["true"]).output().unwrap();
    if !output.status.success() {
        println!("skipped: {test}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// What becomes of a script.
fn run(script: &str) -> ExitStatus {
    command(&["sh", "-c", script]).status().unwrap()
}

/// Starts a script that says `ready`, and waits for that.
fn start(script: &str) -> (Running, BufReader<std::process::ChildStdout>) {
    let child = command(&["sh", "-c", script]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (running, stdout)
}

fn signal(running: &Running, signal: Signal) {
    kill(running.pid(), signal).unwrap();
}

fn wait(running: &mut Running) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = running.0.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    if !works("the_exit_status_is_that_of_the_command") {
        return;
    }
    for code in [0, 1, 7, 125, 255] {
        assert_eq!(run(&format!("exit {code}")).code(), Some(code));
    }
}

#[test]
fn a_missing_command_exits_127_and_a_non_executable_126() {
    if !works("a_missing_command_exits_127_and_a_non_executable_126") {
        return;
    }
    for (word, code) in [("no-such-command-anywhere", 127), ("/no/such/file", 127), ("/", 126), ("/etc/passwd", 126)] {
        let output = command(&[word]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{word}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("roam6: ") && text.contains(word), "{text}");
    }
}

#[test]
fn a_signal_that_kills_the_command_is_passed_on() {
    if !works("a_signal_that_kills_the_command_is_passed_on") {
        return;
    }
    for number in [9, 15, 2, 6] {
        let status = run(&format!("kill -{number} $$"));
        assert_eq!(status.signal(), Some(number), "{status:?}");
    }
    for number in [9, 13, 15] {
        let shell = format!("{BINARY} mptcp run -- sh -c 'kill -{number} $$'; echo $?");
        let output = Command::new("sh").args(["-c", &shell]).stderr(Stdio::null()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), (128 + number).to_string());
    }
}

#[test]
fn signals_are_forwarded_to_the_command() {
    if !works("signals_are_forwarded_to_the_command") {
        return;
    }
    let waits = "echo ready; while :; do sleep 0.05; done";
    for (name, which) in [("TERM", Signal::SIGTERM), ("HUP", Signal::SIGHUP), ("USR1", Signal::SIGUSR1)] {
        let (mut running, _said) = start(&format!("trap 'exit 5' {name}; {waits}"));
        signal(&running, which);
        assert_eq!(wait(&mut running).code(), Some(5), "{name}");
    }
    let (mut running, _said) = start(waits);
    signal(&running, Signal::SIGTERM);
    assert_eq!(wait(&mut running).signal(), Some(15));
}

#[test]
fn a_terminal_interrupt_reaches_the_command_once() {
    let test = "a_terminal_interrupt_reaches_the_command_once";
    if !works(test) {
        return;
    }
    if Command::new("script").arg("--version").output().is_err() {
        return println!("skipped: {test}: script is missing");
    }
    // Until it has seen one, and then for a while, in which a second would be seen. How many it saw is its exit status:
    // a pseudo-terminal's last words may come too late for `script`, which ends soon after its command.
    let inside = "n=0; trap \"n=\\$((n+1))\" INT; echo ready; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.5; \
                  exit $((10+n))";
    // Not with a shell between: one that stays (dash) dies of the interrupt itself, and `script` tells of that death.
    let line = format!("exec env {HEEDS_SIGNALS} {BINARY} mptcp run -- sh -c '{inside}'");
    let mut terminal = Command::new("script");
    terminal.args(["-qefc", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = Running(terminal.spawn().unwrap());
    let mut keys = terminal.0.stdin.take().unwrap();
    let mut screen = BufReader::new(terminal.0.stdout.take().unwrap());
    let mut shown = String::new();
    while !shown.contains("ready") {
        assert!(screen.read_line(&mut shown).unwrap() > 0, "{shown}");
    }
    keys.write_all(b"\x03").unwrap();
    screen.read_to_string(&mut shown).unwrap();
    assert_eq!(wait(&mut terminal).code(), Some(10 + 1), "{shown}");
}

#[test]
fn an_uncaught_sigint_ends_the_command_and_its_supervisor() {
    let test = "an_uncaught_sigint_ends_the_command_and_its_supervisor";
    if !works(test) {
        return;
    }
    let (mut running, mut stdout) = start("echo ready; exec sleep 60");
    signal(&running, Signal::SIGINT);
    assert_eq!(wait(&mut running).signal(), Some(2));
    // All processes that hold the other end of its output have ended too.
    assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
}

/// A command of [`background_processes_still_get_mptcp_sockets`]: listens, and waits to be inspected.
#[test]
#[ignore = "a helper process, started by a test"]
fn listener() {
    if std::env::var("ROAM6_TEST_ROLE").as_deref() == Ok("listen") {
        std::thread::sleep(Duration::from_millis(500));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        println!("port {}", listener.local_addr().unwrap().port());
        std::thread::sleep(PATIENCE);
    }
}

#[test]
fn background_processes_still_get_mptcp_sockets() {
    let test = "background_processes_still_get_mptcp_sockets";
    if !works(test) {
        return;
    }
    let ours = std::env::current_exe().unwrap();
    let script = format!("{} --exact listener --ignored --nocapture & echo pid $! && exit 3", ours.display());
    let mut command = command(&["sh", "-c", &script]);
    let child = command.env("ROAM6_TEST_ROLE", "listen").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut running = Running(child);
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (mut left, mut port) = (None, None);
    for line in lines {
        // What comes before is the test runner's.
        let after = |word| line.split_once(word).map(|(_, number)| number.trim().to_owned());
        left = left.or_else(|| Some(Pid::from_raw(after("pid ")?.parse().ok()?)));
        port = port.or_else(|| after("port "));
        if left.is_some() && port.is_some() {
            break;
        }
    }
    let (left, port) = (left.unwrap(), port.unwrap());
    assert_eq!(wait(&mut running).code(), Some(3), "it does not wait for what is left");
    let shown = Command::new("ss").args(["-HMln", &format!("sport = :{port}")]).output();
    kill(left, Signal::SIGKILL).unwrap();
    let Ok(shown) = shown.map(|output| String::from_utf8(output.stdout).unwrap()) else {
        return println!("skipped: the rest of {test}: ss is missing");
    };
    assert!(shown.contains(&port), "not MPTCP: {shown}");
}
