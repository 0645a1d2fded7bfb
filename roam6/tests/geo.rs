//! The real binary as three GeoNetworking stations in a row: IPv6 from the first to the last by the one between.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails where it stands")]

mod road;

use road::{BINARY, Place, Running, run, wait_for};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Stations a, b and c, 223 m apart; b has a radio towards each of the others.
struct Row {
    places: Vec<Place>,
    folder: tempfile::TempDir,
    _daemons: Vec<Running>,
}

impl Row {
    fn new(test: &str) -> Option<Row> {
        let places: Option<Vec<Place>> = (0..3).map(|_| Place::new()).collect();
        let Some(places) = places else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let between = places[1].number();
        for (place, radio) in [(&places[0], "radio0"), (&places[2], "radio1")] {
            place.shell(&format!("ip link add radio0 type veth peer name {radio} netns {between}"));
        }
        // Not a word of IPv6 on the radio itself.
        for (place, radio) in [(0, "radio0"), (1, "radio0"), (1, "radio1"), (2, "radio0")] {
            places[place].shell(&format!("echo 1 > /proc/sys/net/ipv6/conf/{radio}/disable_ipv6"));
            places[place].shell(&format!("ip link set {radio} up"));
        }
        let mut row = Row { places, folder, _daemons: Vec::new() };
        row._daemons = (0..3).map(|number| row.places[number].roam6(&row.write(number))).collect();
        Some(row)
    }

    fn write(&self, number: usize) -> PathBuf {
        let radios = if number == 1 { "\"radio0\", \"radio1\"" } else { "\"radio0\"" };
        let folder = self.folder.path().join(number.to_string());
        let longitude = 11.0 + 0.003 * f64::from(u8::try_from(number).unwrap());
        let text = format!(
            "run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n[geo]\ninterfaces = [{radios}]\n\
             position = {{ latitude = 48.0, longitude = {longitude} }}\n[[geo.links]]\nname = \"gn0\"\naround = 1500\n",
            folder.display()
        );
        let file = self.folder.path().join(format!("{number}.toml"));
        fs::write(&file, text).unwrap();
        file
    }

    fn link_local(&self, number: usize) -> Option<String> {
        let shown = self.places[number].command(&["ip", "-6", "-o", "address", "show", "dev", "gn0", "scope", "link"]);
        let output = { shown }.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let is_ready = !text.contains("tentative");
        let address = text.split_whitespace().find(|word| word.starts_with("fe80")).filter(|_| is_ready)?;
        address.split('/').next().map(str::to_owned)
    }

    fn show(&self, number: usize, what: &str) -> String {
        self.ask(number, &["show", what])
    }

    fn ask(&self, number: usize, words: &[&str]) -> String {
        let run_dir = self.folder.path().join(format!("{number}/run"));
        run(Command::new(BINARY).args(words).arg("--run-dir").arg(run_dir))
    }

    /// The same, or nothing while nobody answers.
    fn look(&self, number: usize, words: &[&str]) -> String {
        let run_dir = self.folder.path().join(format!("{number}/run"));
        let output = Command::new(BINARY).args(words).arg("--run-dir").arg(run_dir).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What each station has counted.
    fn counters(&self) -> String {
        (0..3).map(|number| format!("{number}:\n{}", self.show(number, "counters"))).collect()
    }

    /// The link-layer address of a station.
    fn mid(&self, number: usize) -> String {
        let told: serde_json::Value = serde_json::from_str(&self.ask(number, &["show", "position", "--json"])).unwrap();
        let octets = told["mid"].as_array().unwrap().iter().map(|octet| format!("{:02x}", octet.as_u64().unwrap()));
        octets.collect::<Vec<_>>().join(":")
    }
}

#[test]
fn stations_and_areas_are_asked_traced_and_given_to_groups() {
    let Some(row) = Row::new("stations_and_areas_are_asked_traced_and_given_to_groups") else { return };
    wait_for("a neighbour", || row.look(0, &["geo", "neighbours"]).contains("223 m"));
    assert!(row.show(0, "position").contains("fix"));

    // Nobody has heard of the far one: the location service finds it first.
    let far = row.mid(2);
    let told = row.ask(0, &["geo", "ping", &far, "--count", "3", "--interval", "0.1", "--timeout", "10"]);
    assert!(told.contains(&format!("from {far} (passenger-car): seq=0 hops=2 distance=447 m")), "{told}");
    assert!(told.contains("3 asked, 1 station answered") && told.contains("0 %"), "{told}");

    let words = ["geo", "ping", "circle", "48.0", "11.003", "1000", "--count", "2", "--timeout", "5", "--json"];
    let told = row.ask(0, &words);
    let sum: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let stations = sum["stations"].as_array().unwrap();
    assert!(stations.len() == 2 && stations.iter().all(|one| one["answers"] == 2), "{told}");

    let told = row.ask(0, &["geo", "trace", &far, "--timeout", "10"]);
    let hops: Vec<&str> = told.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(hops, [row.mid(1), far.clone()], "{told}");

    row.ask(0, &["geo", "area", "add", "ff18::7", "circle", "48.0", "11.006", "100"]);
    assert!(row.ask(0, &["geo", "area", "show"]).contains("ff18::7  all in  circle 48 11.006 100"));
    row.ask(0, &["geo", "area", "del", "ff18::7"]);
    assert_eq!(row.ask(0, &["geo", "area", "show"]), "none\n");
    assert!(row.show(0, "counters").contains("dropped_no_neighbour"));
}

#[test]
fn ipv6_travels_over_two_hops_at_every_size_and_longer_packets_are_answered() {
    let Some(row) = Row::new("ipv6_travels_over_two_hops_at_every_size_and_longer_packets_are_answered") else {
        return;
    };
    wait_for("a virtual link at each end", || row.link_local(0).is_some() && row.link_local(2).is_some());
    let far = format!("{}%gn0", row.link_local(2).unwrap());
    let ping = |seconds, size: &str| row.places[0].ping(seconds, size, &far);
    wait_for("the far station", || ping(1, "8").contains("1 received"));
    for size in ["0", "700", "1232", "1350"].repeat(3) {
        let told = ping(30, size);
        assert!(told.contains("1 received"), "{size} octets: {told}\n{}", row.counters());
    }
    // One octet more than the link's 1398 leave, headers counted.
    let told = ping(1, "1351");
    assert!(told.contains("mtu: 1398") && told.contains("0 received"), "{told}");

    let stations = row.show(0, "stations");
    for word in ["own", "neighbour", "known", "223 m", "447 m"] {
        assert!(stations.contains(word), "no {word} in\n{stations}");
    }
}
