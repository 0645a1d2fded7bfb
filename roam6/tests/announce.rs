//! A home agent that is alone announces itself to a routing daemon, by kernel routes in a table of their own, and hands over
//! before it stops.

#![cfg(feature = "fleet")]
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use testbed::{BINARY, Namespace, wait_for};

const ANNOUNCED: [&str; 4] = ["2001:db8:1::1", "2001:db8:1::/64", "2001:db8:100::/40", "192.0.2.0/24"];

fn start(place: &Namespace, folder: &Path) -> Child {
    let config = folder.join("ha.toml");
    let text = format!(
        "name = \"ha\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n\
         [home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n\
         [[home_agent.mobile]]\nhome_address = \"2001:db8:1::100\"\nprefixes = [\"2001:db8:100::/56\"]\nauth = \"none\"\n\
         [fleet]\nname = \"north\"\nmember = \"ha\"\nannounce = {{}}\ndrain = \"1s\"\n\
         aggregates = [\"2001:db8:100::/40\", \"::ffff:192.0.2.0/120\"]\n",
        folder.display()
    );
    fs::write(&config, text).unwrap();
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = place.command(&[BINARY, "run", "--config", config.to_str().unwrap()]);
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn announced(place: &Namespace) -> String {
    // `ip` calls a table without routes an error.
    place.shell("for family in -6 -4; do ip $family route show table 107 2>/dev/null || true; done")
}

/// Whether everything is announced, with this metric and no other.
fn is_announced(place: &Namespace, metric: u32) -> bool {
    let shown = announced(place);
    let with = format!("metric {metric}");
    let all = ANNOUNCED.iter().all(|prefix| shown.lines().any(|line| line.starts_with(prefix) && line.contains(&with)));
    all && shown.lines().all(|line| line.contains("dev r6fleet proto 107") && line.contains(&with))
}

#[test]
fn home_agent_is_announced_until_it_stops_or_dies() {
    let Some(place) = Namespace::new() else {
        return println!(
            "skipped: home_agent_is_announced_until_it_stops_or_dies: no network namespaces here (not root?)"
        );
    };
    let folder = tempfile::tempdir().unwrap();
    // A route of others, in another table, is left alone.
    place.shell("ip -6 route add 2001:db8:f00::/48 dev lo table 108 proto 107");
    let mut child = start(&place, folder.path());
    wait_for("announcements", || is_announced(&place, 100));
    // A member that stops is the last choice for a while, and then none.
    assert!(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap().success());
    wait_for("worse metric", || is_announced(&place, 200));
    assert!(child.try_wait().unwrap().is_none(), "it ended without handing over");
    wait_for("withdrawal", || announced(&place).is_empty());
    assert!(child.wait().unwrap().success(), "{}", fs::read_to_string(folder.path().join("log")).unwrap());
    // One that dies is withdrawn by the kernel.
    let mut child = start(&place, folder.path());
    wait_for("announcements", || is_announced(&place, 100));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("withdrawal by the kernel", || announced(&place).is_empty());
    assert!(place.shell("ip -6 route show table 108").contains("2001:db8:f00::/48"));
    // A crash leaves nothing that keeps the next one from starting.
    let mut child = start(&place, folder.path());
    wait_for("announcements", || is_announced(&place, 100));
    child.kill().unwrap();
    child.wait().unwrap();
}
