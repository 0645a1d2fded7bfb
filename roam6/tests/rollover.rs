//! The real binaries: a shared key is changed while the mobile router is bound, and no packet is lost.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use testbed::{BINARY, Running, Testbed, run, wait_for, wait_or_report};

/// The lines of a key file that are no comments.
fn key_lines(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// A whole file in the place of the old one, as an editor writes it.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("tmp");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

fn hang_up(daemon: &Running) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(daemon.0.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
}

/// The sequence number of the last update that the home agent has accepted.
fn last_sequence(testbed: &Testbed) -> Option<u64> {
    let shown = testbed.agent.command(&[BINARY, "show", "bindings", "--json", "--run-dir"]);
    let shown = { shown }.arg(testbed.file("ha").join("run")).output().unwrap();
    let bindings: serde_json::Value = serde_json::from_slice(&shown.stdout).ok()?;
    bindings.get(0)?.get("sequence")?.as_u64()
}

#[test]
fn a_key_rollover_loses_no_packet() {
    let Some(testbed) = Testbed::new("a_key_rollover_loses_no_packet") else { return };
    testbed.enroll(&[]);
    let agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let reaches = || testbed.node.ping(1, "56", "2001:db8:9::9").contains("1 received");
    wait_for("a way out", reaches);

    let arguments = ["ping", "-nq", "-i", "0.05", "-w", "600", "2001:db8:9::9"];
    let pings = Running(testbed.node.command(&arguments).stdout(Stdio::piped()).spawn().unwrap());
    let (table, key_file) = (testbed.file("mobiles.toml"), testbed.file("mr.key"));
    let old = fs::read_to_string(&table).unwrap();
    let next = run(Command::new(BINARY).args(["keygen"]));
    let next_file = testbed.file("next.key");
    replace(&next_file, &next);
    replace(&table, &format!("{old}\n[mobile.next]\n{}", key_lines(&next_file)));
    hang_up(&agent);
    // Until the home agent has read the row, an update with the next key goes unanswered and is sent again.
    replace(&key_file, &next);
    let before = last_sequence(&testbed);
    hang_up(&router);
    wait_or_report("a refresh with the next key", || last_sequence(&testbed) > before, || testbed.logs());
    let log = || testbed.logs();
    assert!(!log().contains("no longer bound"), "{}", log());

    let row = old.lines().filter(|line| !line.starts_with("spi") && !line.starts_with("key"));
    let row: String = row.map(|line| format!("{line}\n")).collect();
    replace(&table, &format!("{row}{}", key_lines(&next_file)));
    hang_up(&agent);
    let before = last_sequence(&testbed);
    hang_up(&router);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(testbed.show("ha", "bindings").contains("2001:db8:2:"), "{before:?}: {}", log());

    let pid = nix::unistd::Pid::from_raw(i32::try_from(pings.0.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let mut pings = pings;
    let mut output = String::new();
    std::io::Read::read_to_string(pings.0.stdout.as_mut().unwrap(), &mut output).unwrap();
    assert!(output.contains(" 0% packet loss"), "{output}\n{}", log());
}
