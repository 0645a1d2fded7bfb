//! The real binary as three GeoNetworking stations in a row: IPv6 from the first to the last by the one between.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::{BINARY, Namespace, Running, run, wait_for};

const ONE_LINK: &str = "[[geo.links]]\nname = \"gn0\"\naround = 1500\n";
/// One of each kind, and two of one kind.
const FOUR_LINKS: &str =
    concat!("[[geo.links]]\nname = \"gn0\"\naround = 1500\n", include_str!("../../lab/src/topology/three_links.toml"));

/// Stations a, b and c, 223 m apart; b has a radio towards each of the others.
struct Row {
    /// Where the first one is.
    first: &'static str,
    /// The virtual links of each.
    links: &'static str,
    places: Vec<Namespace>,
    folder: tempfile::TempDir,
    daemons: Vec<Running>,
}

impl Row {
    fn new(test: &str) -> Option<Row> {
        Row::from(test, "{ latitude = 48.0, longitude = 11.0 }", ONE_LINK)
    }

    fn from(test: &str, first: &'static str, links: &'static str) -> Option<Row> {
        let places: Option<Vec<Namespace>> = (0..3).map(|_| Namespace::new()).collect();
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
        fs::write(folder.path().join("drive.csv"), DRIVE).unwrap();
        let mut row = Row { first, links, places, folder, daemons: Vec::new() };
        row.daemons = (0..3).map(|number| row.places[number].roam6(&row.write(number))).collect();
        Some(row)
    }

    fn write(&self, number: usize) -> PathBuf {
        let radios = if number == 1 { "\"radio0\", \"radio1\"" } else { "\"radio0\"" };
        let folder = self.folder.path().join(number.to_string());
        let position = match number {
            0 => self.first,
            1 => "{ latitude = 48.0, longitude = 11.003 }",
            _ => "{ latitude = 48.0, longitude = 11.006 }",
        };
        let announced = if number == 1 { announce(540_801) } else { String::new() };
        let text = format!(
            "run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n[geo]\ninterfaces = [{radios}]\nposition = {position}\n\
             busy_poll = \"50us\"\nfacilities = {{ station_id = {number}, length = 4.2, width = 1.8 }}\n\
             {1}{announced}",
            folder.display(),
            self.links
        );
        let file = self.folder.path().join(format!("{number}.toml"));
        fs::write(&file, text).unwrap();
        file
    }

    /// From now on the station between announces another application.
    fn announce(&self, application: u32) {
        let file = self.folder.path().join("1.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(&announce(540_801), &announce(application))).unwrap();
        run(Command::new("kill").args(["-HUP", &self.daemons[1].0.id().to_string()]));
    }

    fn link_local(&self, number: usize) -> Option<String> {
        self.link_local_on(number, "gn0")
    }

    fn link_local_on(&self, number: usize, link: &str) -> Option<String> {
        let shown = self.places[number].command(&["ip", "-6", "-o", "address", "show", "dev", link, "scope", "link"]);
        let output = { shown }.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let is_ready = !text.contains("tentative");
        let address = text.split_whitespace().find(|word| word.starts_with("fe80")).filter(|_| is_ready)?;
        address.split('/').next().map(str::to_owned)
    }

    fn show(&self, number: usize, what: &str) -> String {
        self.ask(number, &["show", what])
    }

    fn ask(&self, number: usize, arguments: &[&str]) -> String {
        let run_dir = self.folder.path().join(format!("{number}/run"));
        run(Command::new(BINARY).args(arguments).arg("--run-dir").arg(run_dir))
    }

    /// The same, or an empty text if no station replies.
    fn look(&self, number: usize, arguments: &[&str]) -> String {
        let run_dir = self.folder.path().join(format!("{number}/run"));
        let output = Command::new(BINARY).args(arguments).arg("--run-dir").arg(run_dir).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What each station has counted.
    fn counters(&self) -> String {
        (0..3).map(|number| format!("{number}:\n{}", self.show(number, "counters"))).collect()
    }

    /// The link-layer address of a station.
    fn mid(&self, number: usize) -> String {
        let output: serde_json::Value =
            serde_json::from_str(&self.ask(number, &["show", "position", "--json"])).unwrap();
        let octets = output["mid"].as_array().unwrap().iter().map(|octet| format!("{:02x}", octet.as_u64().unwrap()));
        octets.collect::<Vec<_>>().join(":")
    }
}

/// The services that the station in the middle announces.
fn announce(application: u32) -> String {
    format!(
        "[geo.announce]\nname = \"between\"\ninterval = \"500ms\"\n\
         routing = {{ prefix = \"2001:db8:9::/64\", gateway = \"fe80::1\", dns = [\"2001:db8::53\"] }}\n\
         [[geo.announce.services]]\napplication = {application}\naddress = \"2001:db8::1\"\nport = 80\n"
    )
}

#[test]
fn geo_ping_trace_and_area_commands_work() {
    let Some(row) = Row::new("geo_ping_trace_and_area_commands_work") else { return };
    wait_for("a neighbour", || row.look(0, &["geo", "neighbours"]).contains("223 m"));
    assert!(row.show(0, "position").contains("fix"));

    // No station has the position of the far one: the location service resolves it first.
    let far = row.mid(2);
    let output = row.ask(0, &["geo", "ping", &far, "--count", "3", "--interval", "0.1", "--timeout", "10"]);
    assert!(output.contains(&format!("from {far} (passenger-car): seq=0 hops=2 distance=447 m")), "{output}");
    assert!(output.contains("3 requests, replies from 1 station") && output.contains("0 %"), "{output}");

    let arguments = ["geo", "ping", "circle", "48.0", "11.003", "1000", "--count", "2", "--timeout", "5", "--json"];
    let output = row.ask(0, &arguments);
    let sum: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    let stations = sum["stations"].as_array().unwrap();
    assert!(stations.len() == 2 && stations.iter().all(|one| one["answers"] == 2), "{output}");

    let output = row.ask(0, &["geo", "trace", &far, "--timeout", "10"]);
    let hops: Vec<&str> = output.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(hops, [row.mid(1), far.clone()], "{output}");

    row.ask(0, &["geo", "area", "add", "ff18::7", "circle", "48.0", "11.006", "100"]);
    assert!(row.ask(0, &["geo", "area", "show"]).contains("ff18::7  all in  circle 48 11.006 100"));
    only_multicast_listeners_receive_packets_for_an_area(&row);
    row.ask(0, &["geo", "area", "del", "ff18::7"]);
    assert_eq!(row.ask(0, &["geo", "area", "show"]), "none\n");
    assert!(row.show(0, "counters").contains("dropped_no_neighbour"));
}

/// The far station is in the area of the group, and at first without a listener.
fn only_multicast_listeners_receive_packets_for_an_area(row: &Row) {
    wait_for("a virtual link at each end", || row.link_local(0).is_some() && row.link_local(2).is_some());
    let group: Ipv6Addr = "ff18::7".parse().unwrap();
    let listener = row.places[2].enter(|| UdpSocket::bind("[::]:5018").unwrap());
    listener.set_nonblocking(true).unwrap();
    let speaker = row.places[0].enter(|| UdpSocket::bind("[::]:0").unwrap());
    let mut buffer = [0; 16];
    let mut comes = || {
        speaker.send_to(b"here", (group, 5018)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        listener.recv(&mut buffer).is_ok_and(|length| &buffer[..length] == b"here")
    };
    let unwanted = || {
        let counters = row.show(2, "counters");
        let line = counters.lines().find(|line| line.starts_with("dropped_not_for_us ")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    wait_for("a packet without a listener", || !comes() && unwanted() > 0);
    assert_eq!(row.ask(2, &["geo", "groups", "--json"]).matches("ff18::7").count(), 0);
    let gn0 = row.places[2].shell("ip -o link show dev gn0 | cut -d: -f1").trim().parse().unwrap();
    listener.join_multicast_v6(&group, gn0).unwrap();
    wait_for("a packet with a listener", &mut comes);
    assert!(row.ask(2, &["geo", "groups"]).contains("ff18::7  gn0   that of the link"));
    listener.leave_multicast_v6(&group, gn0).unwrap();
    wait_for("the end of it", || !row.ask(2, &["geo", "groups"]).contains("ff18::7"));
}

#[test]
fn ipv6_over_two_hops_at_every_size_and_packet_too_big() {
    let Some(row) = Row::new("ipv6_over_two_hops_at_every_size_and_packet_too_big") else {
        return;
    };
    wait_for("a virtual link at each end", || row.link_local(0).is_some() && row.link_local(2).is_some());
    let far = format!("{}%gn0", row.link_local(2).unwrap());
    let ping = |seconds, size: &str| row.places[0].ping(seconds, size, &far);
    wait_for("the far station", || ping(1, "8").contains("1 received"));
    for size in ["0", "700", "1232", "1350"].repeat(3) {
        let output = ping(30, size);
        assert!(output.contains("1 received"), "{size} octets: {output}\n{}", row.counters());
    }
    // One octet more than the link's 1398 leave, headers counted.
    let output = ping(1, "1351");
    assert!(output.contains("mtu: 1398") && output.contains("0 received"), "{output}");

    let stations = row.show(0, "stations");
    for word in ["own", "neighbour", "known", "223 m", "447 m"] {
        assert!(stations.contains(word), "no {word} in\n{stations}");
    }
}

#[test]
fn ipv6_unicast_is_forwarded_on_every_virtual_link() {
    let test = "ipv6_unicast_is_forwarded_on_every_virtual_link";
    let Some(row) = Row::from(test, "{ latitude = 48.0, longitude = 11.0 }", FOUR_LINKS) else { return };
    let links = ["gn0", "gn1", "gn2", "gn3"];
    for number in [0, 2] {
        for link in links {
            wait_for("a virtual link at each end", || row.link_local_on(number, link).is_some());
            let address = format!("2001:db8:{}::{}", &link[2..], number + 1);
            row.places[number].shell(&format!("ip -6 address add {address}/64 dev {link} nodad"));
        }
    }
    // From one to the next and back, with the neighbour in the cache of the kernel, and without.
    for link in links.iter().chain(links.iter().rev()) {
        let near = format!("{}%{link}", row.link_local_on(2, link).unwrap());
        for to in [near, format!("2001:db8:{}::3", &link[2..])] {
            wait_for(&to, || row.places[0].ping(1, "8", &to).contains("1 received"));
            for _ in 0..3 {
                let output = row.places[0].ping(20, "8", &to);
                assert!(output.contains("1 received"), "{to}: {output}\n{}", row.counters());
            }
        }
    }
}

#[test]
fn tcp_through_a_forwarder_runs_at_the_packet_data_rate() {
    let Some(row) = Row::new("tcp_through_a_forwarder_runs_at_the_packet_data_rate") else { return };
    wait_for("a virtual link at each end", || row.link_local(0).is_some() && row.link_local(2).is_some());
    let far = row.link_local(2).unwrap();
    wait_for("the far station", || row.places[0].ping(1, "8", &format!("{far}%gn0")).contains("1 received"));
    let gn0 = row.places[0].shell("ip -o link show dev gn0 | cut -d: -f1").trim().parse().unwrap();
    let listener = row.places[2].enter(|| TcpListener::bind("[::]:5020").unwrap());
    let to = SocketAddrV6::new(far.parse().unwrap(), 5020, 0, gn0);
    let mut speaker = row.places[0].enter(|| TcpStream::connect(to).unwrap());
    std::thread::spawn(move || while speaker.write_all(&[7; 10_000]).is_ok() {});
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // A full bucket passes at once; then 100 kB per second.
    let (began, mut buffer, mut octets) = (Instant::now(), vec![0; 65_536], 0);
    while began.elapsed() < Duration::from_secs(14) {
        let read = stream.read(&mut buffer).unwrap_or(0);
        octets += if began.elapsed() < Duration::from_secs(4) { 0 } else { read };
    }
    assert!((300_000..1_500_000).contains(&octets), "{octets} octets in 10 s\n{}", row.counters());
}

#[test]
fn frames_have_the_access_category_of_their_traffic_class() {
    let test = "frames_have_the_access_category_of_their_traffic_class";
    let Some(row) = Row::new(test) else { return };
    let rules = "table netdev edca { chain out { type filter hook egress device \"radio0\" priority 0;\n\
                 ether type 0x8947 meta priority 0:104 counter\n ether type 0x8947 meta priority 0:101 counter\n }\n }\n";
    let file = row.folder.path().join("rules");
    fs::write(&file, rules).unwrap();
    if !row.places[0].command(&["nft", "-f", file.to_str().unwrap()]).status().unwrap().success() {
        return println!("skipped: {test}: this kernel has no egress hook of nftables");
    }
    let counts = || {
        let shown = row.places[0].shell("nft list ruleset");
        let counts = shown.lines().filter_map(|line| line.split_whitespace().skip_while(|it| *it != "packets").nth(1));
        counts.map(|count| count.parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    wait_for("a neighbour", || row.look(0, &["geo", "neighbours"]).contains("223 m"));
    let before = counts();
    let [urgent, background] = before[..] else { panic!("{before:?}") };
    for class in ["1", "1", "1", "9"] {
        let ping = ["geo", "ping", "neighbours", "--count", "1", "--timeout", "0.1", "--traffic-class", class];
        row.look(0, &ping);
    }
    wait_for("frames of both", || counts()[0] >= urgent + 3 && counts()[1] > background);
}

#[test]
fn a_duplicate_gn_address_is_replaced() {
    let test = "a_duplicate_gn_address_is_replaced";
    let Some(row) = Row::new(test) else { return };
    wait_for("a neighbour", || row.look(0, &["geo", "neighbours"]).contains("223 m"));
    let before = [row.mid(0), row.mid(1)];
    let taken = row.places[1].link_address("radio0");
    row.places[0].shell(&format!("ip link set radio0 address {taken}"));
    // Who notices first takes another.
    let changed = || (0..2).find(|number| row.mid(*number) != before[*number]);
    wait_for("a new address", || changed().is_some());
    let number = changed().unwrap();
    let new = row.mid(number);
    wait_for("an answer", || {
        let arguments = ["geo", "ping", &new, "--count", "1", "--timeout", "2"];
        row.look(1 - number, &arguments).contains(&format!("from {new}"))
    });
    // The interface lets frames for the new address through.
    let received = row.places[number].shell("bridge fdb show dev radio0");
    assert!(received.contains(&new), "{new} is not among {received}");
}

#[test]
fn cam_and_denm_fill_the_local_dynamic_map() {
    let Some(row) = Row::new("cam_and_denm_fill_the_local_dynamic_map") else { return };
    // CAMs go one hop, DENMs to all stations in their area.
    wait_for("both neighbours on the map", || row.look(1, &["show", "ldm"]).matches("passenger-car").count() == 2);
    assert!(!row.show(0, "ldm").contains("station  2"), "{}", row.show(0, "ldm"));
    let area = ["circle", "48.0", "11.003", "1000"];
    let send =
        |arguments: &[&str]| row.ask(0, &[arguments, &area, &["--validity", "5m", "--repeat", "500ms"]].concat());
    let name = send(&["denm", "send", "stationary-vehicle"]);
    assert_eq!(name, "0/0\n");
    let event = |kind: &str| format!("event    0/0   {kind}");
    wait_for("the event at the far station", || row.show(2, "ldm").contains(&event("stationary-vehicle ")));
    send(&["denm", "update", "0/0", "accident", "--sub", "2"]);
    wait_for("the change", || row.show(2, "ldm").contains(&event("accident 2 ")));

    let output: serde_json::Value = serde_json::from_str(&row.ask(2, &["show", "ldm", "--json"])).unwrap();
    let features = output["features"].as_array().unwrap();
    let found = features.iter().find(|one| one["properties"]["what"] == "event").unwrap();
    assert_eq!((&output["type"], &found["geometry"]["coordinates"][0]), (&"FeatureCollection".into(), &11.0.into()));

    row.ask(0, &["denm", "cancel", "0/0"]);
    wait_for("its end", || !row.show(2, "ldm").contains("event"));
    sam_announcements_are_received_and_reloaded(&row);
}

/// Both neighbours receive them, and a change after a reload.
fn sam_announcements_are_received_and_reloaded(row: &Row) {
    let served = |number: usize, application: u32| {
        let output = row.show(number, "services");
        let line = |texts: &[&str]| output.lines().any(|line| texts.iter().all(|word| line.contains(word)));
        let heading = ["1 ", &row.mid(1), "between"];
        line(&[&heading[..], &[&format!("application {application}"), "[2001:db8::1]:80"]].concat())
            && line(&[&heading[..], &["the Internet", "2001:db8:9::/64 by fe80::1 for 30m, dns 2001:db8::53"]].concat())
    };
    wait_for("the services of the one between", || served(0, 540_801) && served(2, 540_801));
    assert!(row.show(1, "services").contains("own"));
    row.announce(37);
    wait_for("another service", || served(0, 37) && served(2, 37));
    let output: serde_json::Value = serde_json::from_str(&row.ask(0, &["show", "services", "--json"])).unwrap();
    assert_eq!((&output[0]["content"], &output[0]["services"][0]["port"]), (&1.into(), &80.into()), "{output}");
    assert!(row.show(0, "counters").contains("services_heard"));
}

/// 20 m/s to the east and back.
const DRIVE: &str = "0,48.0,11.0\n10,48.0,11.0026853\n20,48.0,11.0\n";

#[test]
fn cam_rate_depends_on_movement_and_tshark_decodes_it() {
    let test = "cam_rate_depends_on_movement_and_tshark_decodes_it";
    for tool in ["tcpdump", "tshark"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return println!("skipped: {test}: {tool} is missing");
        }
    }
    let Some(row) = Row::from(test, "{ track = \"drive.csv\", repeat = true }", ONE_LINK) else { return };
    wait_for("the driver on the map", || row.look(1, &["show", "ldm"]).contains("station  0"));
    let area = ["circle", "48.0", "11.003", "1000", "--repeat", "500ms"];
    row.ask(0, &[&["denm", "send", "obstacle"][..], &area].concat());
    let file = row.folder.path().join("capture");
    let log = row.folder.path().join("capture.log");
    let arguments = ["tcpdump", "-Z", "root", "-U", "-i", "radio0", "-w", file.to_str().unwrap()];
    let mut tcpdump = row.places[1].command(&arguments);
    let mut tcpdump = Running(tcpdump.stderr(File::create(&log).unwrap()).spawn().unwrap());
    wait_for("tcpdump", || fs::read_to_string(&log).unwrap().contains("listening on"));
    std::thread::sleep(Duration::from_secs(5));
    run(Command::new("kill").args(["-INT", &tcpdump.0.id().to_string()]));
    tcpdump.0.wait().unwrap();

    let fields = ["eth.src", "its.messageID", "cam.generationDeltaTime", "_ws.malformed", "_ws.expert.message"];
    let dissect = |wanted: &str| {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-T", "fields", "-E", "separator=|", "-Y", wanted, "-r"]).arg(&file);
        run(tshark.args(fields.iter().flat_map(|field| ["-e", field])))
    };
    let announced = dissect("btpb.dstport == 2005");
    assert!(announced.lines().count() >= 5, "each 500 ms, for 5 s: {announced}");
    assert!(announced.lines().all(|line| line.starts_with(&row.mid(1)) && line.ends_with("||")), "{announced}");
    let output = dissect("its && btpb.dstport != 2005");
    let lines: Vec<Vec<&str>> = output.lines().map(|line| line.split('|').collect()).collect();
    assert!(lines.iter().all(|line| line[3..] == ["", ""]), "{output}");
    let (driver, stander) = (row.mid(0), row.mid(1));
    let of = |mid: &str, kind: &str| -> Vec<u16> {
        let found = lines.iter().filter(|line| line[0] == mid && line[1] == kind);
        found.map(|line| line[2].parse().unwrap_or_default()).collect()
    };
    let (drives, stands) = (of(&driver, "2"), of(&stander, "2"));
    assert!(stands.len() >= 2 && drives.len() > 2 * stands.len(), "{output}");
    // T_GenCamMin, and T_GenCamMax while nothing changes.
    assert!(drives.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) >= 100), "{output}");
    assert!(stands.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) >= 1000), "{output}");
    assert!(of(&driver, "1").len() >= 3, "{output}");
}
