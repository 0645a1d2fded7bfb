//! The real binary as two GeoNetworking stations with two radios each.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{BINARY, Namespace, run, wait_for};

const RADIOS: [&str; 2] = ["radio0", "radio1"];

#[test]
fn unicast_leaves_by_the_radio_that_receives_the_neighbour() {
    let test = "unicast_leaves_by_the_radio_that_receives_the_neighbour";
    let Some([first, second, elsewhere]) = namespaces() else {
        return println!("skipped: {test}: no network namespaces here (not root?)");
    };
    for radio in RADIOS {
        first.shell(&format!("ip link add {radio} type veth peer name {radio} netns {}", second.number()));
        enable(&first, radio);
        enable(&second, radio);
    }
    let folder = tempfile::tempdir().unwrap();
    let _daemons = [&first, &second].map(|station| {
        let folder = folder.path().join(station.number().to_string());
        station.roam6(&write_settings(&folder))
    });
    let run_dir = folder.path().join(first.number().to_string()).join("run");
    wait_for("a neighbour", || link_of_neighbour(&run_dir).is_some());
    let in_use = link_of_neighbour(&run_dir).unwrap();

    // The peer of that radio stays up, and nobody is there: its carrier tells nothing.
    second.shell(&format!("ip link set {in_use} netns {}", elsewhere.number()));
    enable(&elsewhere, &in_use);
    wait_for("the other radio", || link_of_neighbour(&run_dir).is_some_and(|link| link != in_use));
    let mid = run(Command::new(BINARY)
        .args(["show", "position", "--json", "--run-dir"])
        .arg(folder.path().join(second.number().to_string()).join("run")));
    let mid = address_of(&serde_json::from_str(&mid).unwrap());
    let answer = run(Command::new(BINARY)
        .args(["geo", "ping", &mid, "--count", "3", "--timeout", "5", "--run-dir"])
        .arg(&run_dir));
    assert!(answer.contains(&format!("from {mid}")), "{answer}");
}

fn namespaces() -> Option<[Namespace; 3]> {
    Some([Namespace::new()?, Namespace::new()?, Namespace::new()?])
}

fn enable(station: &Namespace, radio: &str) {
    station.shell(&format!("echo 1 > /proc/sys/net/ipv6/conf/{radio}/disable_ipv6; ip link set {radio} up"));
}

fn write_settings(folder: &Path) -> std::path::PathBuf {
    fs::create_dir_all(folder).unwrap();
    let file = folder.join("roam6.toml");
    let text = format!(
        "run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n[geo]\ninterfaces = [\"radio0\", \"radio1\"]\n\
         position = {{ latitude = 48.0, longitude = 11.0 }}\n",
        folder.display()
    );
    fs::write(&file, text).unwrap();
    file
}

/// The interface by which frames leave for the neighbour, if there is one.
fn link_of_neighbour(run_dir: &Path) -> Option<String> {
    let shown = Command::new(BINARY).args(["show", "stations", "--json", "--run-dir"]).arg(run_dir).output().unwrap();
    let stations: Vec<Value> = serde_json::from_slice(&shown.stdout).ok()?;
    stations.iter().find_map(|station| station["link"].as_str().map(str::to_owned))
}

fn address_of(position: &Value) -> String {
    let octets = position["mid"].as_array().unwrap().iter();
    octets.map(|octet| format!("{:02x}", octet.as_u64().unwrap())).collect::<Vec<_>>().join(":")
}
