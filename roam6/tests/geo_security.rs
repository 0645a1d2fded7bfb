//! The real binary as a strict station that verifies signed beacons, with certificates of `roam6 geo cert make`.

#![cfg(feature = "geo-security")]
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{
    Coordinates, ExtendedHeader, GeoAddress, ItsStationType, Lifetime, LongPositionVector, Packet, Timestamp,
    TrafficClass, UpperProtocol, VERSION,
};
use roam6_wire::security::{Certificate, Message, Psid, SignerField, UnsignedData};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testbed::machines::{advertise, cable};
use testbed::pki::Pki;
use testbed::{BINARY, INGRESS, Namespace, ROUTER, Running, Testbed, run, wait_for, wait_or_report};

/// Sends an Ethernet frame, given in hexadecimal.
const SENDER: &str = "
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for frame in sys.argv[2:]:
    s.send(bytes.fromhex(frame))
";

/// A beacon of station `number` from its Basic Header, not signed.
fn beacon(number: u8, micros: u64) -> Vec<u8> {
    let source = LongPositionVector {
        address: GeoAddress::new(ItsStationType::PASSENGER_CAR, LinkAddress([2, 0, 0, 0, 0, number])),
        timestamp: Timestamp(((micros / 1_000) & u64::from(u32::MAX)) as u32),
        place: Coordinates::from_degrees(48.001, 11.0).unwrap(),
        accurate: true,
        speed: 0,
        heading: 0,
    };
    let packet = Packet {
        version: VERSION,
        lifetime: Lifetime(0xf1),
        remaining_hop_limit: 1,
        upper_protocol: UpperProtocol::Any,
        traffic_class: TrafficClass(0),
        flags: 0x80,
        max_hop_limit: 1,
        extended: ExtendedHeader::Beacon { source },
        payload: &[],
    };
    packet.emit()
}

/// The same packet, signed with the ticket of a lab.
fn sign(packet: &[u8], lab: &Path, micros: u64) -> Vec<u8> {
    let octets = fs::read(lab.join("tickets/at-01.cert")).unwrap();
    let key = fs::read_to_string(lab.join("tickets/at-01.key")).unwrap();
    let (basic, payload) = packet.split_at(4);
    let data = UnsignedData::new(payload, Psid::GN_MANAGEMENT, micros);
    let to_be_signed = data.to_be_signed();
    let message = Message::of_data(&to_be_signed, &Certificate::parse(&octets).unwrap());
    let signature: Signature = SigningKey::from_pkcs8_pem(&key).unwrap().sign(message.octets());
    let (r, s) = signature.split_bytes();
    let envelope = UnsignedData::emit(&to_be_signed, SignerField::Certificate(&octets), (r.into(), s.into()));
    [&[basic[0] & 0xf0 | 2], &basic[1..], &envelope].concat()
}

fn frame(number: u8, packet: &[u8]) -> String {
    let head = [&[0xff; 6][..], &[2, 0, 0, 0, 0, number, 0x89, 0x47]].concat();
    [&head, packet].concat().iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A strict station that does not sign, with two labs, and a radio whose other end a test sends by.
struct StrictStation {
    place: Namespace,
    folder: tempfile::TempDir,
    daemon: Option<Running>,
}

impl StrictStation {
    fn new(test: &str) -> Option<StrictStation> {
        let Some(place) = Namespace::new() else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        place.shell("ip link add radio0 type veth peer name air && ip link set air up && ip link set radio0 up");
        let station = StrictStation { place, folder: tempfile::tempdir().unwrap(), daemon: None };
        for lab in ["lab", "other"] {
            station.certificates("make", lab, &[]);
        }
        Some(station)
    }

    /// Runs `roam6 geo cert COMMAND` on a lab and its files.
    fn certificates(&self, command: &str, lab: &str, files: &[&str]) -> String {
        let files = files.iter().map(|file| self.folder.path().join(file));
        let lab = self.folder.path().join(lab);
        run(Command::new(BINARY).args(["geo", "cert", command]).arg(lab).args(files))
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("strict.toml")
    }

    /// Writes the settings, with these lines in `[geo.security]`.
    fn write(&self, security: &str) {
        let text = format!(
            "run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n[geo]\ninterfaces = [\"radio0\"]\n\
             position = {{ latitude = 48.0, longitude = 11.0 }}\n[geo.security]\nmode = \"strict\"\n{security}\n",
            self.folder.path().display()
        );
        fs::write(self.config(), text).unwrap();
    }

    fn start(&mut self) {
        self.daemon = Some(self.place.roam6(&self.config()));
    }

    fn reload(&self) {
        let daemon = self.daemon.as_ref().unwrap().0.id();
        run(Command::new("kill").args(["-HUP", &daemon.to_string()]));
    }

    fn show(&self, part: &str) -> String {
        let run_dir = self.folder.path().join("run");
        let shown = self.place.command(&[BINARY, "show", part, "--run-dir", run_dir.to_str().unwrap()]).output();
        String::from_utf8(shown.unwrap().stdout).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.config().with_extension("log")).unwrap()
    }

    fn count(&self, reason: &str) -> u64 {
        let counters = self.show("counters");
        let name = format!("dropped_{reason} ");
        counters.lines().find_map(|line| line.strip_prefix(&name)).unwrap().trim().parse().unwrap()
    }

    /// Sends beacons of four stations: 5 does not sign, 6 signs wrongly, 7 with a ticket of the other lab, 8 of the lab.
    fn send_beacons(&self) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let micros = unix - (1_072_915_200 - 5) * 1_000_000;
        let signed = |number, lab: &str| sign(&beacon(number, micros), &self.folder.path().join(lab), micros);
        let mut changed = signed(6, "lab");
        *changed.last_mut().unwrap() ^= 1;
        let frames = [
            frame(5, &beacon(5, micros)),
            frame(6, &changed),
            frame(7, &signed(7, "other")),
            frame(8, &signed(8, "lab")),
        ];
        let words: Vec<&str> =
            ["python3", "-c", SENDER, "air"].into_iter().chain(frames.iter().map(String::as_str)).collect();
        self.place.command(&words).status().unwrap();
    }

    /// Waits until this holds after such beacons.
    fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        let holds = || {
            self.send_beacons();
            holds()
        };
        wait_or_report(what, holds, || self.log() + &self.show("stations") + &self.show("counters"));
    }

    fn is_verified(&self, number: u8) -> bool {
        let address = format!("02:00:00:00:00:{number:02x}");
        self.show("stations").lines().any(|line| line.starts_with(&address) && line.contains("verified"))
    }
}

#[test]
fn a_strict_station_knows_only_stations_that_sign_with_trusted_certificates() {
    let Some(mut station) = StrictStation::new("strict station") else { return };
    let revoke = |station: &StrictStation, files: &[&str]| station.certificates("revoke", "lab", files);
    revoke(&station, &[]);
    station.write("trust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]\nrevocation_lists = [\"lab/root.crl\"]");
    station.start();
    station.wait_for("no station was verified", || station.is_verified(8));
    let stations = station.show("stations");
    for number in 5..8 {
        assert!(!stations.contains(&format!("02:00:00:00:00:0{number}")), "{stations}");
    }
    for reason in ["not_authenticated", "bad_authenticator", "unknown_certificate"] {
        assert!(station.count(reason) > 0, "{}", station.show("counters"));
    }
    assert_eq!(station.count("invalid_certificate"), 0, "{}", station.show("counters"));
    // The authority of the station is revoked while the daemon runs.
    revoke(&station, &["lab/aa.cert"]);
    station.reload();
    station.wait_for("no station of the revoked authority was refused", || station.count("invalid_certificate") > 0);
    let log = station.log();
    assert!(log.contains("revoked certificates: 1") && !log.contains("need a restart"), "{log}");
}

#[test]
fn a_reload_reads_trust_lists_of_another_manager() {
    let Some(mut station) = StrictStation::new("trust lists") else { return };
    for lab in ["lab", "other"] {
        station.certificates("trust-lists", lab, &[]);
    }
    let settings = |labs: &[&str]| {
        let files = |names: &[&str]| {
            let files = labs.iter().flat_map(|lab| names.iter().map(move |name| format!("\"{lab}/{name}\"")));
            files.collect::<Vec<_>>().join(", ")
        };
        let (managers, lists) = (files(&["tlm.cert"]), files(&["tlm.ctl", "root.ctl"]));
        format!("trust_list_managers = [{managers}]\ntrust_lists = [{lists}]")
    };
    station.write(&settings(&["lab"]));
    station.start();
    station.wait_for("no station was verified", || station.is_verified(8));
    assert!(!station.is_verified(7));
    station.write(&settings(&["lab", "other"]));
    station.reload();
    station.wait_for("no station of the second list was verified", || station.is_verified(7));
    station.write(&settings(&["other"]));
    station.reload();
    let before = station.count("unknown_certificate");
    station.wait_for("no station of the removed list was refused", || station.count("unknown_certificate") > before);
    let log = station.log();
    assert!(log.contains("root authorities: 2, others: 2") && !log.contains("need a restart"), "{log}");
}

/// Two stations that sign, with certificates of one lab.
struct SigningPair {
    places: [Namespace; 2],
    folder: tempfile::TempDir,
    daemons: Vec<Running>,
}

impl SigningPair {
    fn new(test: &str) -> Option<SigningPair> {
        let (Some(one), Some(other)) = (Namespace::new(), Namespace::new()) else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        one.shell(&format!("ip link add radio0 type veth peer name radio0 netns {}", other.number()));
        let places = [one, other];
        for place in &places {
            place.shell("echo 1 > /proc/sys/net/ipv6/conf/radio0/disable_ipv6; ip link set radio0 up");
        }
        let folder = tempfile::tempdir().unwrap();
        run(Command::new(BINARY).args(["geo", "cert", "make", "--count", "4"]).arg(folder.path().join("lab")));
        Some(SigningPair { places, folder, daemons: Vec::new() })
    }

    fn start(&mut self) {
        self.start_with(["lab/tickets/at-01.cert", "lab/tickets/at-02.cert"]);
    }

    /// Starts the stations with these tickets.
    fn start_with(&mut self, tickets: [&str; 2]) {
        for (number, tickets) in tickets.into_iter().enumerate() {
            let folder = self.folder.path();
            let text = format!(
                "run_dir = \"{0}/{number}/run\"\nstate_dir = \"{0}/{number}/state\"\n[geo]\ninterfaces = [\"radio0\"]\n\
                 position = {{ latitude = 48.0, longitude = 11.00{number} }}\n\
                 facilities = {{ station_id = {number}, length = 4.2, width = 1.8 }}\n\
                 [geo.security]\nmode = \"strict\"\ntrust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]\n\
                 tickets = \"{1}\"\n[[geo.links]]\nname = \"gn0\"\naround = 1500\n",
                folder.display(),
                tickets
            );
            let config = folder.join(format!("{number}.toml"));
            fs::write(&config, text).unwrap();
            self.daemons.push(self.places[number].roam6(&config));
        }
    }

    fn ask(&self, number: usize, arguments: &[&str]) -> String {
        let run_dir = self.folder.path().join(format!("{number}/run"));
        let output = Command::new(BINARY).args(arguments).arg("--run-dir").arg(run_dir).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn story(&self) -> String {
        let log = |number| fs::read_to_string(self.folder.path().join(format!("{number}.log"))).unwrap();
        (0..2).map(|number| log(number) + &self.ask(number, &["show", "counters"])).collect()
    }

    fn link_local(&self, number: usize) -> Option<String> {
        let shown =
            self.places[number].command(&["ip", "-6", "-o", "address", "show", "dev", "gn0", "scope", "link"]).output();
        let text = String::from_utf8(shown.unwrap().stdout).unwrap();
        let address =
            text.split_whitespace().find(|word| word.starts_with("fe80")).filter(|_| !text.contains("tentative"))?;
        address.split('/').next().map(str::to_owned)
    }
}

#[test]
fn two_stations_that_sign_verify_each_other_and_exchange_cams_echoes_and_ipv6() {
    let Some(mut pair) = SigningPair::new("stations that sign") else { return };
    let file = pair.folder.path().join("road.pcap");
    let tcpdump =
        pair.places[0].command(&["tcpdump", "-U", "--immediate-mode", "-n", "-i", "radio0", "-w"]).arg(&file).spawn();
    let mut tcpdump = Running(tcpdump.unwrap());
    pair.start();
    for number in 0..2 {
        wait_or_report(
            "a station is not verified",
            || pair.ask(number, &["show", "stations"]).contains("verified"),
            || pair.story(),
        );
        let knows_cam = || {
            let ldm = pair.ask(number, &["show", "ldm"]);
            ldm.lines().any(|line| line.split_whitespace().nth(1) == Some(if number == 0 { "1" } else { "0" }))
        };
        wait_or_report("a CAM is not in the LDM", knows_cam, || pair.ask(number, &["show", "ldm"]) + &pair.story());
    }
    wait_or_report("no address", || (0..2).all(|number| pair.link_local(number).is_some()), || pair.story());
    let to = format!("{}%gn0", pair.link_local(1).unwrap());
    let link = pair.places[0].shell("ip link show dev gn0");
    assert!(link.contains("mtu 1314 "), "1500, less the headers and the envelope with a digest: {link}");
    for size in ["56", "1266"] {
        let answered = || pair.places[0].ping(5, size, &to).contains("1 received");
        wait_or_report("no echo reply by IPv6", answered, || pair.story());
    }
    let target = pair.link_local(1).unwrap();
    let echo = || pair.ask(0, &["geo", "ping", &target, "--count", "1"]).contains("octets from");
    wait_or_report("no echo reply by GeoNetworking", echo, || pair.story());
    run(Command::new("kill").args(["-INT", &tcpdump.0.id().to_string()]));
    tcpdump.0.wait().unwrap();
    let count = |filter: &str| {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&file).args(["-n", "-Y", filter, "-T", "fields", "-e", "frame.number"]);
        run(&mut tshark).lines().count()
    };
    assert_eq!(count("_ws.malformed"), 0);
    assert!(count("ieee1609dot2.psid == 36") > 0 && count("ieee1609dot2.psid == 270549118") > 0);
    // Basic Header next header 2: not a packet without signature.
    assert_eq!(count("gnw") - count("geonw.bh.nh == 2"), 0);
    let shown = run(Command::new(BINARY).args(["geo", "cert", "show"]).arg(&file));
    let verdicts = |verdict: &str| shown.matches(&format!("signature    {verdict}")).count();
    assert!(verdicts("valid") > 5 && verdicts("INVALID") == 0 && verdicts("not verified") == 0, "{shown}");
}

#[test]
fn stations_with_tickets_of_a_pki_verify_cams_of_each_other() {
    let Some(mut pair) = SigningPair::new("stations of a PKI") else { return };
    let folder = pair.folder.path().to_owned();
    let pki = Pki::start(&folder.join("lab"));
    for station in ["car-0", "car-1"] {
        pki.provide(station, &folder.join(station), 2);
    }
    pair.start_with(["car-0/tickets", "car-1/tickets"]);
    for number in 0..2 {
        let is_verified = || pair.ask(number, &["show", "stations"]).contains("verified");
        wait_or_report("a station is not verified", is_verified, || pair.story());
        let knows_cam = || {
            let ldm = pair.ask(number, &["show", "ldm"]);
            ldm.lines().any(|line| line.split_whitespace().nth(1) == Some(if number == 0 { "1" } else { "0" }))
        };
        wait_or_report("a CAM is not in the LDM", knows_cam, || pair.ask(number, &["show", "ldm"]) + &pair.story());
    }
}

impl SigningPair {
    /// The configuration of station `number`, whose network 2001:db8:N00::/64 is announced to neighbours.
    fn start_with_networks(&mut self) {
        let folder = self.folder.path().to_owned();
        copy_tickets(&folder);
        for number in 0..2 {
            let security = match number {
                0 => "tickets = \"own\"\npseudonyms = true\n",
                _ => "tickets = \"lab/tickets/at-04.cert\"\n",
            };
            let text = format!(
                "run_dir = \"{0}/{number}/run\"\nstate_dir = \"{0}/{number}/state\"\n[geo]\ninterfaces = [\"radio0\"]\n\
                 position = {{ latitude = 48.0, longitude = 11.00{number} }}\n\
                 facilities = {{ length = 4.2, width = 1.8 }}\n\
                 [geo.security]\nmode = \"strict\"\ntrust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]\n{security}\
                 [[geo.links]]\nname = \"gn0\"\naround = 1500\n\
                 [mnpp]\nauth = \"none\"\nannounce = [\"2001:db8:{1}00::/64\"]\n\
                 [[mnpp.accept]]\nauth = \"none\"\nprefixes = [\"2001:db8::/32\"]\n",
                folder.display(),
                number + 1
            );
            let config = folder.join(format!("{number}.toml"));
            fs::write(&config, text).unwrap();
            let place = &self.places[number];
            place.shell(&format!("ip address add 2001:db8:{}00::1/128 dev lo", number + 1));
            self.daemons.push(place.roam6(&config));
        }
    }

    fn json(&self, number: usize, part: &str) -> serde_json::Value {
        serde_json::from_str(&self.ask(number, &["show", part, "--json"])).unwrap_or_default()
    }

    /// What tells one pseudonym of the first station from another: octets that its packets would contain.
    fn identity(&self, capture: &Path) -> Vec<(&'static str, Vec<u8>)> {
        let position = self.json(0, "position");
        let mid: Vec<u8> =
            position["mid"].as_array().unwrap().iter().map(|octet| octet.as_u64().unwrap() as u8).collect();
        let identifier = [&[mid[0] ^ 2], &mid[1..3], &[0xff, 0xfe], &mid[3..]].concat();
        // The header of a CAM behind the port of CAMs: version, message, station ID.
        let station = frames_of(capture, &mid).iter().find_map(|frame| {
            let at = frame.windows(6).position(|part| part == [0x07, 0xd1, 0, 0, 2, 2])?;
            Some(frame[at + 6..at + 10].to_vec())
        });
        let station = station.unwrap();
        let shown = run(Command::new(BINARY).args(["geo", "cert", "show", "--json"]).arg(capture));
        let packets: Vec<serde_json::Value> = serde_json::from_str(&shown).unwrap();
        let source = mid.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":");
        let is_own =
            |packet: &&serde_json::Value| packet["packet"]["source"].as_str().is_some_and(|it| it.ends_with(&source));
        let digest = packets.iter().find(is_own).unwrap()["packet"]["signer"].as_str().unwrap().to_owned();
        let digest = u64::from_str_radix(&digest, 16).unwrap().to_be_bytes().to_vec();
        vec![("address", mid), ("interface identifier", identifier), ("certificate", digest), ("station ID", station)]
    }

    fn capture(&self, name: &str) -> (std::path::PathBuf, Running) {
        let file = self.folder.path().join(name);
        let words = ["tcpdump", "-U", "--immediate-mode", "-n", "-i", "radio0", "-w"];
        let tcpdump = self.places[1].command(&words).arg(&file).spawn();
        (file, Running(tcpdump.unwrap()))
    }
}

/// Makes a directory `own` with three of the tickets of a lab.
fn copy_tickets(folder: &Path) {
    let own = folder.join("own");
    fs::create_dir(&own).unwrap();
    for ticket in 1..=3 {
        for extension in ["cert", "key"] {
            let name = format!("at-0{ticket}.{extension}");
            fs::copy(folder.join("lab/tickets").join(&name), own.join(&name)).unwrap();
        }
    }
}

fn end(mut tcpdump: Running) {
    run(Command::new("kill").args(["-INT", &tcpdump.0.id().to_string()]));
    tcpdump.0.wait().unwrap();
}

/// In this time a station sends CAMs.
const CAMS: Duration = Duration::from_secs(4);

/// The frames of a capture (pcap) that were sent by a link-layer address.
fn frames_of(capture: &Path, source: &[u8]) -> Vec<Vec<u8>> {
    let octets = fs::read(capture).unwrap();
    let mut rest = &octets[24..];
    let mut frames = Vec::new();
    while let Some((head, after)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let Some((frame, next)) = after.split_at_checked(length) else { break };
        frames.extend((frame[6..12] == *source).then(|| frame.to_vec()));
        rest = next;
    }
    frames
}

#[test]
fn a_reload_replaces_the_tickets_of_a_station() {
    let Some(mut pair) = SigningPair::new("a replaced ticket") else { return };
    let (own, lab) = (pair.folder.path().join("own"), pair.folder.path().join("lab/tickets"));
    let ticket = |number: u8, extension: &str| format!("at-0{number}.{extension}");
    let install = |number: u8| {
        for extension in ["cert", "key"] {
            let file = ticket(number, extension);
            fs::copy(lab.join(&file), own.join(&file)).unwrap();
        }
    };
    fs::create_dir(&own).unwrap();
    install(1);
    let (before, tcpdump) = pair.capture("before.pcap");
    pair.start_with(["own", "lab/tickets/at-02.cert"]);
    wait_or_report("no link", || (0..2).all(|number| pair.link_local(number).is_some()), || pair.story());
    let to = format!("{}%gn0", pair.link_local(1).unwrap());
    wait_or_report("no ping", || pair.places[0].ping(1, "56", &to).contains("1 received"), || pair.story());
    std::thread::sleep(CAMS);
    end(tcpdump);
    let former = pair.identity(&before);

    let words = ["ping", "-nc", "40", "-i", "0.05", &to];
    let ping = pair.places[0].command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let reload = || run(Command::new("kill").args(["-HUP", &pair.daemons[0].0.id().to_string()]));
    let logs = |line: &str| pair.story().contains(line);
    install(3);
    reload();
    wait_or_report("the tickets are not reloaded", || logs("authorisation tickets: 2"), || pair.story());
    let output = ping.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("40 received") && !logs("are signed with"), "{text}\n{}", pair.story());
    fs::remove_file(own.join(ticket(1, "cert"))).unwrap();
    reload();
    wait_or_report("the ticket is not replaced", || logs("packets are signed with the certificate"), || pair.story());
    // Neighbours accept another certificate of a station 5 s after the former one.
    wait_or_report("no ping", || pair.places[0].ping(1, "56", &to).contains("1 received"), || pair.story());
    let (after, tcpdump) = pair.capture("after.pcap");
    std::thread::sleep(CAMS);
    end(tcpdump);
    let now = pair.identity(&after);
    for ((name, old), (_, new)) in former.iter().zip(&now) {
        assert_eq!(old == new, *name != "certificate", "{name}");
    }
}

#[test]
fn no_field_of_a_former_pseudonym_is_sent_and_connections_of_the_mobile_network_live_on() {
    let Some(mut pair) = SigningPair::new("pseudonyms") else { return };
    let (before, tcpdump) = pair.capture("before.pcap");
    pair.start_with_networks();
    let has_route = || pair.ask(0, &["show", "networks"]).contains("2001:db8:200::/64");
    wait_or_report("no network announced", has_route, || pair.story());
    let reaches = || pair.places[0].ping(2, "56", "2001:db8:200::1").contains("1 received");
    wait_or_report("the other network is not reached", reaches, || pair.story());
    // A station that stands sends a CAM a second.
    std::thread::sleep(CAMS);
    end(tcpdump);
    let former = pair.identity(&before);
    let hardware = pair.places[0].link_address("radio0");
    let octet = |pair: &str| u8::from_str_radix(pair, 16).unwrap();
    let hardware: Vec<u8> = hardware.split(':').map(octet).collect();

    let listener = pair.places[1].enter(|| TcpListener::bind("[2001:db8:200::1]:7000").unwrap());
    let mut client = pair.places[0].enter(|| TcpStream::connect("[2001:db8:200::1]:7000").unwrap());
    let (mut server, _) = listener.accept().unwrap();
    let mut exchange = |octet: u8| {
        let begin = Instant::now();
        client.write_all(&[octet]).unwrap();
        let mut received = [0];
        for stream in [&server, &client] {
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        }
        server.read_exact(&mut received).unwrap();
        server.write_all(&received).unwrap();
        client.read_exact(&mut received).unwrap();
        assert_eq!(received, [octet]);
        println!("pseudonyms: octet {octet} and its echo took {:?}", begin.elapsed());
    };
    exchange(1);
    pair.ask(0, &["geo", "pseudonym", "lock", "255"]);
    pair.ask(0, &["geo", "pseudonym", "change"]);
    std::thread::sleep(Duration::from_secs(1));
    let mid_of = |identity: &[(&str, Vec<u8>)]| identity[0].1.clone();
    let mid_now = || {
        let position = pair.json(0, "position");
        position["mid"].as_array().unwrap().iter().map(|octet| octet.as_u64().unwrap() as u8).collect::<Vec<u8>>()
    };
    assert_eq!(mid_now(), mid_of(&former), "it is locked");
    let (after, tcpdump) = pair.capture("after.pcap");
    pair.ask(0, &["geo", "pseudonym", "unlock"]);
    wait_or_report("the pseudonym is not changed", || mid_now() != mid_of(&former), || pair.story());
    exchange(2);
    let is_known = || {
        let text: String = mid_now().iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":");
        pair.ask(1, &["show", "stations"]).lines().any(|line| line.contains(&text) && line.contains("verified"))
    };
    wait_or_report("the new station is not verified", is_known, || pair.story());
    exchange(3);
    std::thread::sleep(CAMS);
    end(tcpdump);
    let now = pair.identity(&after);
    let frames = frames_of(&after, &mid_of(&now));
    assert!(frames.len() > 5, "{}", frames.len());
    let has = |octets: &[u8]| frames.iter().any(|frame| frame.windows(octets.len()).any(|part| part == octets));
    for ((name, old), (_, new)) in former.iter().zip(&now) {
        assert_ne!(old, new, "{name}");
        assert!(has(new) || *name == "certificate", "the new {name} is in the capture");
        assert!(!has(old), "the former {name}");
    }
    assert!(!has(&hardware), "the link-layer address of the interface");
    assert!(frames_of(&after, &hardware).is_empty());
}

/// A roadside unit that signs and advertises 2001:db8:b0::/64 on its virtual link, connected to the home agent.
fn start_roadside_unit(testbed: &Testbed, rsu: &Namespace) -> [Running; 2] {
    cable(&testbed.agent, "core0", rsu, "net0");
    cable(rsu, "radio0", &testbed.router, "radio0");
    for place in [rsu, &testbed.router] {
        place.shell("echo 1 > /proc/sys/net/ipv6/conf/radio0/disable_ipv6");
    }
    testbed
        .agent
        .shell("ip address add 2001:db8:f9::1/64 dev core0 nodad && ip route add 2001:db8:b0::/64 via 2001:db8:f9::2");
    rsu.shell(
        "sysctl -qw net.ipv6.conf.all.forwarding=1 && ip address add 2001:db8:f9::2/64 dev net0 nodad && \
         ip route add default via 2001:db8:f9::1",
    );
    let daemon = rsu.roam6(&testbed.write_config("rsu", &signing("11.001", "tickets = \"lab/tickets/at-04.cert\"\n")));
    wait_for("the virtual link of the roadside unit", || has_link(rsu));
    rsu.shell("ip address add 2001:db8:b0::1/64 dev gn0 nodad");
    [daemon, advertise(rsu, testbed.folder.path(), "gn0", "prefix 2001:db8:b0::/64 { };")]
}

fn has_link(place: &Namespace) -> bool {
    place.command(&["ip", "link", "show", "dev", "gn0"]).output().unwrap().status.success()
}

/// A strict station with a virtual link.
fn signing(longitude: &str, tickets: &str) -> String {
    format!(
        "[geo]\ninterfaces = [\"radio0\"]\nposition = {{ latitude = 48.0, longitude = {longitude} }}\n\
         facilities = {{}}\n[geo.security]\nmode = \"strict\"\ntrust = [\"lab/root.cert\"]\n\
         issuers = [\"lab/aa.cert\"]\n{tickets}[[geo.links]]\nname = \"gn0\"\naround = 1500\n"
    )
}

/// Octets of a connection each 20 ms from the node to the correspondent; the longest silence of the receiver.
fn longest_silence(testbed: &Testbed, span: Duration, act: impl FnOnce()) -> Duration {
    let listener = testbed.agent.enter(|| TcpListener::bind("[2001:db8:9::9]:7001").unwrap());
    let mut client = testbed.node.enter(|| TcpStream::connect("[2001:db8:9::9]:7001").unwrap());
    let (mut server, _) = listener.accept().unwrap();
    let sender = std::thread::spawn(move || {
        let until = Instant::now() + span;
        while Instant::now() < until && client.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let receiver = std::thread::spawn(move || {
        let (mut buffer, mut last, mut longest) = ([0; 256], Instant::now(), Duration::ZERO);
        let mut octets = 0;
        while let Ok(length @ 1..) = server.read(&mut buffer) {
            longest = longest.max(last.elapsed());
            (last, octets) = (Instant::now(), octets + length);
        }
        assert!(octets > 100, "{octets}");
        longest
    });
    act();
    sender.join().unwrap();
    receiver.join().unwrap()
}

#[test]
fn a_connection_by_nemo_lives_on_when_the_pseudonym_changes() {
    let test = "a_connection_by_nemo_lives_on_when_the_pseudonym_changes";
    let (Some(testbed), Some(rsu)) = (Testbed::new(test), Namespace::new()) else { return };
    run(Command::new(BINARY).args(["geo", "cert", "make", "--count", "4"]).arg(testbed.file("lab")));
    copy_tickets(testbed.folder.path());
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _rsu = start_roadside_unit(&testbed, &rsu);
    let uplink = "[[mobile_router.uplink]]\ninterface = \"gn0\"\n";
    let config = format!("{ROUTER}{uplink}{INGRESS}{}", signing("11.0", "tickets = \"own\"\npseudonyms = true\n"));
    let _router = testbed.router.roam6(&testbed.write_config("mr", &config));
    testbed.await_binding("2001:db8:b0:");
    wait_or_report(
        "the correspondent",
        || testbed.node.ping(2, "56", "2001:db8:9::9").contains("1 received"),
        || testbed.logs(),
    );
    let former = bound_address(&testbed);
    let file = testbed.file("road.pcap");
    let words = ["tcpdump", "-U", "--immediate-mode", "-n", "-i", "radio0", "-w"];
    let tcpdump = Running(rsu.command(&words).arg(&file).spawn().unwrap());
    let silence = longest_silence(&testbed, Duration::from_secs(12), || {
        std::thread::sleep(Duration::from_secs(2));
        let run_dir = testbed.file("mr").join("run");
        run(Command::new(BINARY).args(["geo", "pseudonym", "change", "--run-dir"]).arg(run_dir));
        let is_moved = || bound_address(&testbed).is_some_and(|now| Some(now) != former);
        wait_or_report("no new care-of address", is_moved, || testbed.logs());
    });
    end(tcpdump);
    println!("{test}: longest silence {silence:?}");
    assert!(silence < Duration::from_secs(8), "{silence:?}");
    let now = bound_address(&testbed).unwrap();
    // Frames of the new station have nothing of the former one.
    let frames = frames_of(&file, &link_address(now));
    assert!(frames.len() > 20, "{}", frames.len());
    let identifier = former.unwrap().octets();
    let has = |octets: &[u8]| frames.iter().any(|frame| frame.windows(octets.len()).any(|part| part == octets));
    assert!(has(&now.octets()[8..]) && !has(&identifier[8..]) && !has(&link_address(former.unwrap())));
}

/// The care-of address of the binding.
fn bound_address(testbed: &Testbed) -> Option<Ipv6Addr> {
    let shown = testbed.show("ha", "bindings");
    let is_care_of = |word: &&str| word.starts_with("2001:db8:b0:");
    shown.split_whitespace().find(is_care_of).and_then(|word| word.parse().ok())
}

/// The link-layer address that an interface identifier was made of (RFC 4291 appendix A).
fn link_address(address: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c, _, _, d, e, f] = address.octets();
    vec![a ^ 2, b, c, d, e, f]
}
