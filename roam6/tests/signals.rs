//! Signals sent to the real daemon at any moment of its start.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testbed::{BINARY, Namespace, wait_or_report};

/// A daemon that does not end within this time has ignored the signal. It starts within a fraction of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Signals of the daemon in the masks of `/proc/PID/status`: SIGHUP, SIGINT and SIGTERM.
const MASK: u64 = 1 | 1 << 1 | 1 << 14;

fn write_config(folder: &Path) {
    let table = "[[home_agent.mobile]]\nhome_address = \"2001:db8:1::100\"\nprefixes = [\"2001:db8:100::/56\"]\n\
                 auth = \"none\"\n";
    let config = format!(
        "name = \"ha\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n\
         [home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n{table}",
        folder.display()
    );
    fs::write(folder.join("ha.toml"), config).unwrap();
}

/// Starts the daemon and returns once its program runs, blocking the signals.
fn start(place: &Namespace, folder: &Path) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    let config = folder.join("ha.toml");
    let mut command = place.command(&[BINARY, "run", "--config", config.to_str().unwrap()]);
    let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let blocked = || {
        let status = fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & MASK == MASK
    };
    let until = Instant::now() + PATIENCE;
    while !blocked() {
        assert!(Instant::now() < until, "the daemon blocks no signals");
        std::hint::spin_loop();
    }
    child
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
}

/// Whether it ends, and well.
fn ends_well(child: &mut Child) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// Milliseconds after the start of the program.
const INSTANTS: [u64; 12] = [0, 1, 3, 6, 10, 20, 35, 60, 100, 150, 250, 400];

#[test]
fn sigterm_during_the_start_stops_the_daemon() {
    let Some(place) = Namespace::new() else {
        return println!("skipped: sigterm_during_the_start_stops_the_daemon: no network namespaces here (not root?)");
    };
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path());
    for (turn, after) in INSTANTS.into_iter().enumerate() {
        let signal = if turn % 2 == 0 { "TERM" } else { "INT" };
        let mut child = start(&place, folder.path());
        std::thread::sleep(Duration::from_millis(after));
        send(&child, signal);
        let well = ends_well(&mut child);
        assert!(well, "SIG{signal} after {after} ms: {}", fs::read_to_string(folder.path().join("log")).unwrap());
        assert!(!place.shell("ip -o link").contains("nemo0"), "SIG{signal} after {after} ms left the tunnel device");
    }
}

#[test]
fn sighup_during_the_start_reloads_the_files() {
    let Some(place) = Namespace::new() else {
        return println!("skipped: sighup_during_the_start_reloads_the_files: no namespaces (not root?)");
    };
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path());
    let log = || fs::read_to_string(folder.path().join("log")).unwrap();
    for after in INSTANTS {
        let mut child = start(&place, folder.path());
        std::thread::sleep(Duration::from_millis(after));
        send(&child, "HUP");
        wait_or_report(&format!("SIGHUP after {after} ms"), || log().contains("configuration reloaded"), log);
        send(&child, "TERM");
        assert!(ends_well(&mut child), "{}", log());
    }
}
