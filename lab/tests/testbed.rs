//! The testbed from outside: experiments, demos, and the removal of all processes and namespaces however it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]
#![allow(clippy::zombie_processes, reason = "every caller waits for what it kills")]

mod common;

use common::skipped;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LAB: &str = env!("CARGO_BIN_EXE_roam6-lab");

/// Starts an experiment of the testbed, marked by an environment variable that all its processes inherit.
fn start(mark: &str) -> Child {
    let mut child = Command::new(LAB)
        .args(["run", "lab/links"])
        .env("ROAM6_LAB_TEST", mark)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("wire"), "the testbed says {line:?}");
    child
}

/// The number of processes with this mark.
fn marked(mark: &str) -> usize {
    let wanted = format!("ROAM6_LAB_TEST={mark}");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments.filter(|text| text.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())).count()
}

fn assert_nothing_left(mark: &str) {
    for _ in 0..100 {
        if marked(mark) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} processes are left", marked(mark));
}

fn namespaces() -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).filter(|name| name == "left" || name == "right").collect()
}

#[test]
fn emulated_links_match_their_specification() {
    if skipped("emulated_links_match_their_specification", &["ip"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("links.json");
    let status = Command::new(LAB).args(["run", "lab/links", "--quick", "--json"]).arg(&file).status().unwrap();
    assert!(status.success());
    let document: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for key in ["experiment", "machine", "rows", "summary"] {
        assert!(document.get(key).is_some(), "no {key} in {document}");
    }
}

#[test]
fn killed_testbed_leaves_no_process_or_namespace() {
    if skipped("killed_testbed_leaves_no_process_or_namespace", &["ip"]) {
        return;
    }
    let mark = format!("killed-{}", std::process::id());
    let mut child = start(&mark);
    assert!(marked(&mark) >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_nothing_left(&mark);
    assert!(namespaces().is_empty());
}

#[test]
fn interrupted_testbed_leaves_no_process() {
    if skipped("interrupted_testbed_leaves_no_process", &["ip"]) {
        return;
    }
    let mark = format!("interrupted-{}", std::process::id());
    let mut child = start(&mark);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_nothing_left(&mark);
}

#[test]
fn nemo_demo_passes() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let programs = ["ip", "ping", "radvd", "tshark", roam6.to_str().unwrap()];
    if skipped("nemo_demo_passes", &programs) {
        return;
    }
    let output = Command::new(LAB).arg("demo").output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("all checks passed"));
}

/// The picture of a demo whose checks have passed. `None`: a program is missing.
fn demo_with_picture(test: &str, command: &str, programs: &[&str]) -> Option<String> {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    if skipped(test, &[programs, &[roam6.to_str().unwrap()]].concat()) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("demo.svg");
    let output = Command::new(LAB).args([command, "--svg"]).arg(&picture).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("all checks passed"));
    Some(fs::read_to_string(picture).unwrap())
}

#[test]
fn mptcp_demo_switches_to_the_direct_path() {
    let programs = ["ip", "ping", "radvd", "dhcpd", "tshark"];
    let shown = demo_with_picture("mptcp_demo_switches_to_the_direct_path", "demo-mptcp", &programs);
    let Some(picture) = shown else { return };
    assert!(picture.contains("FN2 direct"));
}

#[test]
fn bonding_demo_uses_both_uplinks() {
    let shown = demo_with_picture("bonding_demo_uses_both_uplinks", "demo-bonding", &["ip", "ping", "radvd"]);
    let Some(picture) = shown else { return };
    assert!(picture.contains("up1 is back"));
}

#[test]
fn mptcp_model_delays_match_the_paper() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let programs = ["ip", "ping", "radvd", "dhcpd", roam6.to_str().unwrap()];
    if skipped("mptcp_model_delays_match_the_paper", &programs) {
        return;
    }
    let output = Command::new(LAB).args(["run", "mptcp/model", "--quick"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stderr}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn nested_mobile_networks_work_through_different_home_agents() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let name = "nested_mobile_networks_work_through_different_home_agents";
    if skipped(name, &["ip", "ping", "radvd", "tshark", roam6.to_str().unwrap()]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nested.json");
    let output = Command::new(LAB).args(["run", "nemo/nested", "--quick", "--json"]).arg(&file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stderr}", String::from_utf8_lossy(&output.stdout));
    let told: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(told["summary"]["mtu_own_agents"], serde_json::json!([1460, 1420, 1380]), "{told}");
    let deepest = |agents: &str| {
        let rows = told["rows"].as_array().unwrap();
        rows.iter().find(|row| row["home_agents"] == agents && row["depth"] == 3).unwrap().clone()
    };
    let [one, own] = ["one", "own"].map(deepest);
    // A busy machine delays more; the path never less: 10 ms to and from each home agent, in both directions.
    assert!(own["rtt_ms_p50"].as_f64().unwrap() >= 120.0 && one["rtt_ms_p50"].as_f64().unwrap() >= 40.0, "{told}");
    let visits = |row: &serde_json::Value, host: &str| {
        row["path"].as_array().unwrap().iter().any(|link| link.as_str().unwrap().starts_with(host))
    };
    assert!(["ha.", "ha1.", "ha2."].iter().all(|host| visits(&own, host)), "{own}");
    assert!(!visits(&one, "ha1."), "{one}");
}

#[test]
fn v2i_uses_direct_roadside_and_cellular_paths() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let name = "v2i_uses_direct_roadside_and_cellular_paths";
    if skipped(name, &["ip", "ping", "radvd", roam6.to_str().unwrap()]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("v2i.json");
    let output = Command::new(LAB).args(["run", "geonet/v2i", "--quick", "--json"]).arg(&file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}\n{stderr}"));
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    // How soon all settles depends on what else the machine does, that data goes straight and connections live does not.
    assert_eq!(told["summary"]["tcp_survived"], 1, "{told}");
    let share = |phase: usize, way: &str| told["rows"][phase][way].as_f64().unwrap();
    assert!(share(1, "share_direct") > 0.2, "{told}");
    assert!(share(0, "share_direct") < 0.2 && share(0, "share_cellular") > 0.5, "{told}");
}

#[test]
fn geonet_rtt_has_no_loss_over_one_and_two_hops() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let name = "geonet_rtt_has_no_loss_over_one_and_two_hops";
    if skipped(name, &["ip", "ping", roam6.to_str().unwrap()]) {
        return;
    }
    let output = Command::new(LAB).args(["run", "geonet/rtt", "--quick"]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["loss"], 0, "{summary}");
    for key in ["overhead_us_p50_1hop", "overhead_us_p50_2hop", "first_packet_location_service_ms_p50"] {
        assert!(summary[key].is_number(), "no {key} in {summary}");
    }
}
