//! The prefix table of the real daemon: rows that are wrong, files that are cut off or emptied, and `roam6 enroll`.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use testbed::{BINARY, Namespace, Running, run, wait_or_report};

fn row(home: u16, prefix: &str) -> String {
    format!("[[mobile]]\nhome_address = \"2001:db8:1::{home:x}\"\nprefixes = [\"{prefix}\"]\nauth = \"none\"\n")
}

fn write_config(folder: &Path) -> PathBuf {
    let own = folder.display();
    let text = format!(
        "run_dir = \"{own}/run\"\nstate_dir = \"{own}/state\"\n\
         [home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"mobiles.toml\"\n"
    );
    fs::write(folder.join("ha.toml"), text).unwrap();
    folder.join("ha.toml")
}

/// A home agent with the rows of `text`.
struct Agent {
    _place: Namespace,
    folder: TempDir,
    daemon: Running,
}

impl Agent {
    fn new(test: &str, text: &str) -> Option<Agent> {
        let Some(place) = Namespace::new() else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mobiles.toml"), text).unwrap();
        let daemon = place.roam6(&write_config(folder.path()));
        let agent = Agent { _place: place, folder, daemon };
        agent.wait_for("is ready");
        Some(agent)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("ha.log")).unwrap_or_default()
    }

    fn wait_for(&self, text: &str) {
        wait_or_report(text, || self.log().contains(text), || self.log());
    }

    fn write(&self, text: &str) {
        fs::write(self.folder.path().join("mobiles.toml"), text).unwrap();
    }

    fn check(&self) -> Output {
        Command::new(BINARY).arg("check").arg(self.folder.path().join("ha.toml")).output().unwrap()
    }
}

#[test]
fn an_invalid_prefix_table_row_does_not_affect_others() {
    let good = row(0x100, "2001:db8:100::/56");
    let overlapping = row(0x101, "2001:db8:100:10::/60");
    let unreadable = "[[mobile]]\nhome_address = \"2001:db8:1::102\nprefixes = [\"2001:db8:102::/56\"]\n";
    let last = row(0x103, "2001:db8:103::/56");
    let text = format!("{good}{overlapping}{unreadable}{last}{}", row(0x106, "2001:db8:106::/56"));
    let Some(mut agent) = Agent::new("an_invalid_prefix_table_row_does_not_affect_others", &text) else { return };
    let log = agent.log();
    assert!(log.contains("mobiles.toml:7:12: prefix 2001:db8:100:10::/60 overlaps 2001:db8:100::/56 of"), "{log}");
    assert!(log.contains("mobiles.toml:10:"), "{log}");
    let checked = agent.check();
    let stderr = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("7 | prefixes = [\"2001:db8:100:10::/60\"]\n    |            ^^^"), "{stderr}");

    // A good row behind bad ones is read; what has become bad, or is missing, is served as before.
    let spoilt = row(0x103, "ff00::/8");
    agent.write(&format!("{good}{unreadable}{overlapping}{spoilt}{}", row(0x104, "2001:db8:104::/56")));
    agent.wait_for("prefix table reloaded: 4 mobile routers");
    agent.wait_for("prefix table: 2 former rows are kept");
    assert!(agent.log().contains("prefix ff00::/8 is not for hosts"), "{}", agent.log());

    // A file without a mistake is taken word for word.
    agent.write(&good);
    agent.wait_for("prefix table reloaded: 1 mobile routers");
    assert!(agent.check().status.success());

    // An emptied file is an error, unless it declares an empty table.
    agent.write("");
    agent.wait_for("no mobile router is left of 1; if this is meant, write: mobile = []");
    agent.wait_for("the previous settings remain in effect");
    agent.write("mobile = []\n");
    agent.wait_for("the prefix table has no rows");
    assert!(agent.daemon.0.try_wait().unwrap().is_none());
}

fn enroll(folder: &Path, home: &str, prefix: &str, key: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["enroll", "--home-address", home, "--prefix", prefix, "--table"]).arg(folder.join("mobiles.toml"));
    command.arg("--key-file").arg(folder.join(key));
    command
}

#[test]
fn concurrent_enrolments_are_all_in_the_prefix_table() {
    let folder = tempfile::tempdir().unwrap();
    // Left by one that was killed.
    fs::write(folder.path().join("mobiles.toml.new"), "half").unwrap();
    let one = |number: usize| {
        let (home, prefix) =
            (format!("2001:db8:1::{:x}", 0x100 + number), format!("2001:db8:{:x}::/56", 0x100 + number));
        enroll(folder.path(), &home, &prefix, &format!("{number}.key")).spawn().unwrap()
    };
    let running: Vec<_> = (0..40).map(one).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    let text = fs::read_to_string(folder.path().join("mobiles.toml")).unwrap();
    assert_eq!(text.matches("[[mobile]]").count(), 40, "{text}");
    for number in 0..40 {
        let key = fs::read_to_string(folder.path().join(format!("{number}.key"))).unwrap();
        let secret = key.lines().find(|line| line.starts_with("key = ")).unwrap();
        assert!(text.contains(secret), "{number}");
    }
    assert!(!folder.path().join("mobiles.toml.new").exists());
}

#[test]
fn enroll_refuses_what_the_home_agent_would_reject() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path());
    run(&mut enroll(folder.path(), "2001:db8:1::100", "2001:db8:100::/56", "1.key"));
    let before = fs::read_to_string(folder.path().join("mobiles.toml")).unwrap();
    for (home, prefix, why) in [
        ("2001:db8:1::101", "2001:db8:100::/48", "overlaps 2001:db8:100::/56 of 2001:db8:1::100"),
        ("2001:db8:2::101", "2001:db8:101::/56", "lies outside home_prefixes"),
        ("2001:db8:1::1", "2001:db8:101::/56", "is the home agent's own"),
        ("2001:db8:1::", "2001:db8:101::/56", "is reserved for anycast"),
        ("2001:db8:1:0:fdff:ffff:ffff:fffe", "2001:db8:101::/56", "is reserved for anycast"),
        ("2001:db8:1::101", "2001:db8:1:0:1::/80", "overlaps the home prefix 2001:db8:1::/64"),
        ("2001:db8:1::101", "2001:db8::/32", "contains the home agent's address"),
        ("2001:db8:1::101", "fe80::/64", "is not for hosts"),
        ("2001:db8:1::101", "::1/128", "is not for hosts"),
        ("2001:db8:1::101", "ff00::/8", "is not for hosts"),
    ] {
        let refused = enroll(folder.path(), home, prefix, "2.key").output().unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && stderr.contains(why), "{home} {prefix}: {stderr}");
        assert!(!folder.path().join("2.key").exists());
    }
    let again = enroll(folder.path(), "2001:db8:1::101", "2001:db8:101::/56", "1.key").output().unwrap();
    let stderr = String::from_utf8(again.stderr).unwrap();
    assert!(stderr.contains("1.key: File exists") && stderr.contains("choose another --key-file"), "{stderr}");
    assert_eq!(fs::read_to_string(folder.path().join("mobiles.toml")).unwrap(), before);
}
