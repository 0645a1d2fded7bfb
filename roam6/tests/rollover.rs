//! The real binaries: a shared key is changed while the mobile router is bound, and no packet is lost.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod road;

use road::{BINARY, Road, Running, run, wait_for, wait_or_tell};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

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
fn last_sequence(road: &Road) -> Option<u64> {
    let shown = road.agent.command(&[BINARY, "show", "bindings", "--json", "--run-dir"]);
    let shown = { shown }.arg(road.file("ha").join("run")).output().unwrap();
    let bindings: serde_json::Value = serde_json::from_slice(&shown.stdout).ok()?;
    bindings.get(0)?.get("sequence")?.as_u64()
}

#[test]
fn a_key_is_changed_without_losing_a_packet() {
    let Some(road) = Road::new("a_key_is_changed_without_losing_a_packet") else { return };
    road.enroll(&[]);
    let agent = road.start_agent();
    let _radvd = road.advertise("2001:db8:2::/64");
    let router = road.start_router("");
    road.await_binding("2001:db8:2:");
    let reaches = || road.node.ping(1, "56", "2001:db8:9::9").contains("1 received");
    wait_for("a way out", reaches);

    let words = ["ping", "-nq", "-i", "0.05", "-w", "600", "2001:db8:9::9"];
    let pings = Running(road.node.command(&words).stdout(Stdio::piped()).spawn().unwrap());
    let (table, key_file) = (road.file("mobiles.toml"), road.file("mr.key"));
    let old = fs::read_to_string(&table).unwrap();
    let next = run(Command::new(BINARY).args(["keygen"]));
    let next_file = road.file("next.key");
    replace(&next_file, &next);
    replace(&table, &format!("{old}\n[mobile.next]\n{}", key_lines(&next_file)));
    hang_up(&agent);
    // Until the home agent has read the row, an update with the next key goes unanswered and is sent again.
    replace(&key_file, &next);
    let before = last_sequence(&road);
    hang_up(&router);
    wait_or_tell("a refresh with the next key", || last_sequence(&road) > before, || road.logs());
    let log = || road.logs();
    assert!(!log().contains("no longer bound"), "{}", log());

    let row = old.lines().filter(|line| !line.starts_with("spi") && !line.starts_with("key"));
    let row: String = row.map(|line| format!("{line}\n")).collect();
    replace(&table, &format!("{row}{}", key_lines(&next_file)));
    hang_up(&agent);
    let before = last_sequence(&road);
    hang_up(&router);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(road.show("ha", "bindings").contains("2001:db8:2:"), "{before:?}: {}", log());

    let pid = nix::unistd::Pid::from_raw(i32::try_from(pings.0.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let mut pings = pings;
    let mut told = String::new();
    std::io::Read::read_to_string(pings.0.stdout.as_mut().unwrap(), &mut told).unwrap();
    assert!(told.contains(" 0% packet loss"), "{told}\n{}", log());
}
