//! Bonding between hosts that encrypt: one download by the devices of both uplinks, and nothing of it, or of the relays, in the clear,
//! also while no daemon runs, or after it was stopped. What else has an address of subflows is not accepted.

use crate::bed::{Bed, ROUTER_DAEMON, SERVER, Settings, expect, octets_from, send_all};
use crate::testbed::{Namespace, Testbed, wait_or_report};
use roam6_proto::contract::item::subflow::subflow_address;
use roam6_wire::Bid;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const AGENT: &str = "2001:db8:1::1";
const CORRESPONDENT: &str = "2001:db8:9::9";
/// Octets of the download.
const ALL: usize = 4_000_000;
/// Those read before the daemon is killed.
const BEFORE: usize = 1_000_000;

/// How the two ends encrypt.
pub(crate) struct Method<'a> {
    /// The lines of the home agent and of the mobile router.
    pub(crate) keys: [&'a str; 2],
    /// The devices of the two uplinks at the mobile router.
    pub(crate) devices: [&'a str; 2],
    /// What tshark calls its packets.
    pub(crate) filter: &'a str,
}

/// Bonding with this method.
pub(crate) fn bonding_is_encrypted(test: &str, method: &Method<'_>) {
    let [agent, router] = method.keys;
    // On a busy machine probes are late, and an uplink whose probes are has no subflows.
    let (agent_keys, router_keys) = (format!("{agent}\n"), format!("{router}\nprobe.enabled = false\n"));
    let settings =
        Settings { agent_keys: &agent_keys, router_keys: &router_keys, captured: true, ..Settings::default() };
    let Some(mut bed) = Bed::with(test, &settings) else { return println!("skipped: {test}") };
    let links = ["visit0", "visit1"];
    for link in links {
        bed.testbed.agent.shell(&format!("tc qdisc add dev {link} root tbf rate 4mbit burst 16k latency 100ms"));
    }
    let (node, server) = bed.connect(6001);
    send_all(&node, b"question");
    expect(&server, b"question");
    bed.await_subflows(2);
    let before = method.devices.map(|device| received(&bed.testbed, device));
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&server, &octets_from(0, ALL)));
        read(&node, 0, BEFORE);
        // Killed: neither the relay nor the kernel notices.
        bed.running[ROUTER_DAEMON].0.kill().unwrap();
        bed.running[ROUTER_DAEMON].0.wait().unwrap();
        read(&node, BEFORE, ALL - BEFORE);
    });
    let carried: Vec<u64> =
        method.devices.iter().zip(before).map(|(device, before)| received(&bed.testbed, device) - before).collect();
    println!("figure: {carried:?} octets by {:?} of a download of {ALL}", method.devices);
    let by_subflows = subflow_addresses().map(|address| received_from(&bed, &address));
    println!("figure: {by_subflows:?} octets by the subflows of {:?}", subflow_addresses());
    for octets in carried.iter().chain(&by_subflows) {
        assert!(*octets >= ALL as u64 / 5, "{carried:?} {by_subflows:?}\n{}", story(&bed));
    }

    bed.running[ROUTER_DAEMON] = bed.testbed.router.roam6(&bed.testbed.file("mr.toml"));
    let answers = || !bed.testbed.show("mr", "links").is_empty();
    wait_or_report("the next daemon", answers, || bed.testbed.logs());
    send_all(&node, b"after");
    expect(&server, b"after");
    assert_others_are_refused(&bed, method);
    stop_amid_an_upload(&mut bed, &node);
    for capture in std::mem::take(&mut bed.captures) {
        let seen = capture.end();
        assert_eq!(seen.count("tcp"), 0, "neither relays nor hosts are in the clear, tunnelled or not");
        assert_eq!(seen.count("ipv6.addr == fd72:6f61:6d36::/48"), 0);
        let encrypted = seen.count(method.filter);
        assert!(encrypted >= 500, "{encrypted} packets");
        seen.check();
    }
}

fn story(bed: &Bed) -> String {
    let kernel = |who| bed.host(who).shell("ss -tin sport 4191 or dport 4191; wg show; ip -s link");
    format!("{}\n{}\n{}", kernel("ha"), kernel("mr"), bed.testbed.logs())
}

/// Stops the daemon, which removes its routes, while the relay, which goes on for a minute, has much to send. The host gets a default
/// route of the visited network then.
fn stop_amid_an_upload(bed: &mut Bed, node: &TcpStream) {
    let router = &bed.testbed.router;
    router.shell("for link in up0 up1; do tc qdisc add dev $link root tbf rate 200kbit burst 16k latency 100ms; done");
    send_all(node, &octets_from(0, 200_000));
    let daemon = nix::unistd::Pid::from_raw(bed.running[ROUTER_DAEMON].0.id().try_into().unwrap());
    nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGTERM).unwrap();
    bed.running[ROUTER_DAEMON].0.wait().unwrap();
    let has_route = || bed.testbed.router.shell("ip -6 route show default").contains("via");
    wait_or_report("a default route", has_route, || bed.testbed.logs());
    std::thread::sleep(Duration::from_secs(10));
}

fn read(mut stream: &TcpStream, place: usize, count: usize) {
    let mut octets = vec![0; count];
    stream.read_exact(&mut octets).unwrap();
    assert!(octets == octets_from(place, count), "octets from {place} on");
}

/// Octets that a device of the mobile router has received.
fn received(testbed: &Testbed, device: &str) -> u64 {
    let shown = testbed.router.shell(&format!("ip -s -j link show dev {device}"));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown[0]["stats64"]["rx"]["bytes"].as_u64().unwrap()
}

/// Octets that the relay of the mobile router has received by the subflow of this address.
fn received_from(bed: &Bed, address: &str) -> u64 {
    let flows = bed.flows();
    let local = |subflow: &serde_json::Value| subflow["local"].as_str().unwrap().parse::<SocketAddr>().unwrap();
    let mut subflows = flows["flows"][0]["subflows"].as_array().unwrap().iter();
    let found = subflows.find(|subflow| local(subflow).ip().to_string() == address);
    found.unwrap_or_else(|| panic!("{flows}"))["bytes_received"].as_u64().unwrap()
}

/// The addresses of subflows by the two uplinks.
fn subflow_addresses() -> [String; 2] {
    [1, 2].map(|bid| subflow_address("2001:db8:1::100".parse().unwrap(), Bid(bid)).unwrap().to_string())
}

/// Whether a connection from this address is established.
fn connects(testbed: &Testbed, from: &str, to: &str, port: u16) -> bool {
    let script = "import socket, sys
s = socket.socket(socket.AF_INET6)
s.settimeout(5)
s.bind((sys.argv[1], 0))
s.connect((sys.argv[2], int(sys.argv[3])))";
    let words = ["python3", "-c", script, from, to, &port.to_string()];
    testbed.router.command(&words).output().unwrap().status.success()
}

/// Segments of TCP that a host has received.
fn received_segments(place: &Namespace) -> u64 {
    place.shell("awk '$1 == \"Tcp:\" { value = $11 } END { print value }' /proc/net/snmp").trim().parse().unwrap()
}

/// The home agent accepts an address of subflows from the device of its path alone, and for its relay alone. Routes into the first
/// device keep the packets from the program of the mobile router, which drops them as well.
fn assert_others_are_refused(bed: &Bed, method: &Method<'_>) {
    let testbed = &bed.testbed;
    let [first, second] = &subflow_addresses();
    let _listener = testbed.agent.enter(|| std::net::TcpListener::bind("[::]:80").unwrap());
    for to in [CORRESPONDENT, SERVER] {
        assert!(!connects(testbed, first, to, 80), "{to}: only to the relay");
    }
    testbed.router.shell(&format!(
        "ip -6 route add default dev {} table 77 && ip -6 rule add from fd72:6f61:6d36::/48 iif lo lookup 77 priority 900",
        method.devices[0]
    ));
    // The daemon that was started may have registered the first uplink after the other one.
    let reaches_relay = || connects(testbed, first, AGENT, roam6_wire::relay::PORT);
    wait_or_report("the relay", reaches_relay, || testbed.logs());
    let before = received_segments(&bed.server);
    for (from, to, port) in [
        (first, AGENT, 80),
        (first, CORRESPONDENT, 80),
        (first, SERVER, roam6_wire::relay::PORT),
        (second, AGENT, roam6_wire::relay::PORT),
    ] {
        assert!(!connects(testbed, from, to, port), "{from} to {to} port {port}");
    }
    assert_eq!(received_segments(&bed.server), before, "nothing is forwarded");
    testbed.router.shell("ip -6 rule del from fd72:6f61:6d36::/48 iif lo lookup 77 priority 900");
}
