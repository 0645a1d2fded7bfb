//! Two GeoNetworking stations on radios of 802.11 outside the context of a BSS (OCB, once 802.11p), which the kernel
//! simulates (mac80211_hwsim): the frames are those of the standard, no Ethernet in between. Needs two idle radios.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{BINARY, Namespace, run, wait_for};

/// Simulated radios this machine has.
fn radios() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/ieee80211").into_iter().flatten().flatten();
    let is_simulated = |path: &Path| {
        fs::canonicalize(path.join("device")).is_ok_and(|device| device.to_string_lossy().contains("hwsim"))
    };
    let simulated = entries.filter(|entry| is_simulated(&entry.path()));
    let mut names: Vec<String> = simulated.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A place with a radio on the control channel of ITS-G5 (EN 302 663: 5900 MHz, 10 MHz wide); or why it cannot be.
fn station(radio: &str) -> Result<Namespace, String> {
    let place = Namespace::new().ok_or("no network namespaces here (not root?)")?;
    let moved = Command::new("iw").args(["phy", radio, "set", "netns", &place.number().to_string()]).output();
    if !moved.as_ref().is_ok_and(|output| output.status.success()) {
        return Err(format!("iw cannot move {radio}: {moved:?}"));
    }
    let join = "set -e; device=$(iw dev | awk '$1 == \"Interface\" { print $2; exit }')
        ip link set $device down; ip link set $device name radio0
        echo 1 > /proc/sys/net/ipv6/conf/radio0/disable_ipv6
        iw dev radio0 set type ocb; ip link set radio0 up; iw dev radio0 ocb join 5900 10MHZ";
    let joined = place.command(&["sh", "-c", join]).output().unwrap();
    if joined.status.success() { Ok(place) } else { Err(String::from_utf8_lossy(&joined.stderr).trim().to_owned()) }
}

fn config(folder: &Path, number: u8) -> std::path::PathBuf {
    let file = folder.join(format!("{number}.toml"));
    let text = format!(
        "run_dir = \"{0}/{number}/run\"\nstate_dir = \"{0}/{number}/state\"\n[geo]\ninterfaces = [\"radio0\"]\n\
         position = {{ latitude = 48.0, longitude = 11.00{number} }}\n[[geo.links]]\nname = \"gn0\"\naround = 1500\n",
        folder.display()
    );
    fs::write(&file, text).unwrap();
    file
}

fn link_local(place: &Namespace) -> Option<String> {
    let shown = place.command(&["ip", "-6", "-o", "address", "show", "dev", "gn0", "scope", "link"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let address =
        text.split_whitespace().find(|word| word.starts_with("fe80")).filter(|_| !text.contains("tentative"))?;
    address.split('/').next().map(str::to_owned)
}

#[test]
fn stations_are_neighbours_over_simulated_ocb_radios() {
    let test = "stations_are_neighbours_over_simulated_ocb_radios";
    let radios = radios();
    let [one, two, ..] = radios.as_slice() else {
        return println!("skipped: {test}: no two simulated radios here (modprobe mac80211_hwsim)");
    };
    let places = match [station(one), station(two)] {
        [Ok(a), Ok(b)] => [a, b],
        [Err(why), _] | [_, Err(why)] => return println!("skipped: {test}: {why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let _daemons = [places[0].roam6(&config(folder.path(), 0)), places[1].roam6(&config(folder.path(), 1))];
    wait_for("a virtual link at each end", || places.iter().all(|place| link_local(place).is_some()));
    let far = format!("{}%gn0", link_local(&places[1]).unwrap());
    let ping = |seconds, size: &str| places[0].ping(seconds, size, &far);
    wait_for("the far station", || ping(1, "8").contains("1 received"));
    for size in ["8", "1350"].repeat(5) {
        let text = ping(30, size);
        assert!(text.contains("1 received"), "{size} octets: {text}");
    }
    let run_dir = folder.path().join("0/run");
    // Only a beacon makes it one (EN 302 636-4-1 §10.3.6.3), and the first may have come before this station listened.
    let stations = || run(Command::new(BINARY).args(["show", "stations", "--run-dir"]).arg(&run_dir));
    wait_for("a neighbour", || stations().contains("neighbour"));
}
