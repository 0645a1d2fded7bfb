//! Encryption by ESP: `encrypt = "esp"` at each end. Nothing of the mobile network is readable on the visited network, over moves
//! and kills, data goes on while no daemon runs, and what does not encrypt alike gets no data. Needs a kernel with ESP for IPv6
//! and xfrm devices.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

#[allow(clippy::indexing_slicing, clippy::panic, reason = "it is shared")]
#[path = "bonding/bed.rs"]
mod bed;
#[allow(clippy::indexing_slicing, clippy::panic, reason = "it is shared")]
#[path = "bonding/encrypted.rs"]
mod encrypted;
mod testbed;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::capture::Capture;
use testbed::transfer::transfer_both_ways;
use testbed::{BINARY, INGRESS, Namespace, ROUTER, TWO_UPLINKS, Testbed, wait_or_report};

const NODE: &str = "2001:db8:100::2";
const CORRESPONDENT: &str = "2001:db8:9::9";
const ESP: &str = "encrypt = \"esp\"\n";

/// Sends again what a capture has of ESP to the home agent: file, interface. Prints how many frames.
const REPLAY: &str = "import socket, struct, sys
data = open(sys.argv[1], 'rb').read()
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[2], 0))
at, count = 24, 0
agent = socket.inet_pton(socket.AF_INET6, '2001:db8:1::1')
while at + 16 <= len(data):
    length = struct.unpack('=I', data[at + 8:at + 12])[0]
    frame = data[at + 16:at + 16 + length]
    at += 16 + length
    if frame[12:14] == b'\\x86\\xdd' and frame[20] == 50 and frame[38:54] == agent:
        s.send(frame)
        count += 1
print(count)
";

/// Why the kernel has no ESP, or no device for it.
fn missing() -> Option<String> {
    let place = Namespace::new()?;
    let tries = [
        "ip link add probe type xfrm if_id 7",
        "ip xfrm state add src ::1 dst ::1 proto esp spi 0x1000 mode tunnel \
         aead 'rfc4106(gcm(aes))' 0x0000000000000000000000000000000000000000 128",
    ];
    tries.iter().find_map(|script| {
        let made = place.command(&["sh", "-c", script]).output().unwrap();
        (!made.status.success()).then(|| String::from_utf8_lossy(&made.stderr).trim().to_owned())
    })
}

fn testbed(test: &str) -> Option<Testbed> {
    testbed_with(test, &[])
}

/// The same; `more` are arguments of `roam6 enroll`.
fn testbed_with(test: &str, more: &[&str]) -> Option<Testbed> {
    if let Some(why) = missing() {
        println!("skipped: {test}: {why}");
        return None;
    }
    let testbed = Testbed::new(test)?;
    testbed.enroll(more);
    Some(testbed)
}

fn answers(testbed: &Testbed, size: &str) -> bool {
    testbed.node.ping(2, size, CORRESPONDENT).contains(" 0% packet loss")
}

fn await_answer(testbed: &Testbed, when: &str) {
    wait_or_report(when, || answers(testbed, "56"), || story(testbed));
}

fn story(testbed: &Testbed) -> String {
    let shown = |place: &Namespace| {
        place.shell(
            "ip -s -d link show type xfrm; ip xfrm policy; ip -s xfrm state | grep -v aead; cat /proc/net/xfrm_stat",
        )
    };
    format!("{}\n{}\n{}", shown(&testbed.agent), shown(&testbed.router), testbed.logs())
}

/// Pings, a number of times, that must all be answered.
fn answered(testbed: &Testbed, count: &str) {
    let words = ["ping", "-nq", "-i0.05", "-W2", "-c", count, CORRESPONDENT];
    let shown = testbed.node.command(&words).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(" 0% packet loss"), "{shown}\n{}", story(testbed));
}

/// The associations of a daemon.
fn associations(testbed: &Testbed, who: &str) -> Vec<Value> {
    let place = if who == "ha" { &testbed.agent } else { &testbed.router };
    let mut show = place.command(&[BINARY, "show", "keys", "--json", "--run-dir"]);
    let shown = show.arg(testbed.file(who).join("run")).output().unwrap();
    serde_json::from_slice(&shown.stdout).unwrap_or_default()
}

fn spis(testbed: &Testbed, who: &str) -> Vec<u64> {
    let mut spis: Vec<u64> = associations(testbed, who).iter().filter_map(|one| one["spi"].as_u64()).collect();
    spis.sort_unstable();
    spis
}

fn packets(associations: &[Value]) -> u64 {
    associations.iter().filter_map(|one| one["packets"].as_u64()).sum()
}

#[test]
fn nothing_is_readable_over_a_start_moves_and_kills() {
    let Some(testbed) = testbed("nothing_is_readable_over_a_start_moves_and_kills") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let mut agent = testbed.start_agent_more(ESP);
    let mut radvd = testbed.advertise("2001:db8:2::/64");
    let mut router = testbed.start_router(ESP);
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "associations");
    answered(&testbed, "20");
    assert!(answers(&testbed, "1378"), "1426 octets fit\n{}", story(&testbed));
    let longer = testbed.node.ping(2, "1379", CORRESPONDENT);
    assert!(longer.contains("mtu") && longer.contains("1426"), "{longer}");
    // Buffers of several segments too, which a device makes of what it has decrypted.
    transfer_both_ways(&testbed);
    let first = associations(&testbed, "mr");
    assert!(packets(&first) >= 40, "an association carries the data: {first:?}");
    assert_eq!(spis(&testbed, "mr"), spis(&testbed, "ha"), "both ends have the same two");
    assert!(testbed.show("mr", "keys").contains("REPLAYED"), "{}", testbed.show("mr", "keys"));
    for (prefix, care_of) in [("2001:db8:3::/64", "2001:db8:3:"), ("2001:db8:2::/64", "2001:db8:2:")] {
        let before = spis(&testbed, "mr");
        drop(radvd);
        radvd = testbed.advertise(prefix);
        testbed.router.shell("ip link set up0 down; ip link set up0 up");
        testbed.await_binding(care_of);
        await_answer(&testbed, "a move");
        answered(&testbed, "20");
        assert!(spis(&testbed, "mr").iter().any(|spi| !before.contains(spi)), "a move has keys of its own");
    }
    // Killed: the kernel goes on, and the next daemon takes over.
    drop(router);
    answered(&testbed, "20");
    let before = spis(&testbed, "mr");
    router = testbed.start_router(ESP);
    answered(&testbed, "40");
    let renewed = || spis(&testbed, "mr").iter().any(|spi| !before.contains(spi));
    wait_or_report("a pair of the next daemon", renewed, || story(&testbed));
    answered(&testbed, "40");
    drop(agent);
    answered(&testbed, "20");
    let before = spis(&testbed, "ha");
    agent = testbed.start_agent_more(ESP);
    answered(&testbed, "40");
    let renewed = || spis(&testbed, "ha").iter().any(|spi| !before.contains(spi));
    wait_or_report("a pair of the next home agent", renewed, || story(&testbed));
    answered(&testbed, "40");
    let seen = capture.end();
    assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
    assert!(seen.count("esp") >= 400, "all of it is there: {}", seen.count("esp"));
    seen.check();
    drop((agent, router, radvd));
}

#[test]
fn inner_ipv4_is_encrypted_too() {
    let Some(testbed) = testbed_with("inner_ipv4_is_encrypted_too", &["--prefix", "10.77.1.0/24"]) else { return };
    testbed.agent.shell("sysctl -qw net.ipv4.ip_forward=1 && ip address add 198.51.100.9/32 dev lo");
    testbed.node.shell("ip address add 10.77.1.2/24 dev eth0 && ip route add default via 10.77.1.1");
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _agent = testbed.start_agent_more(ESP);
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let router = ROUTER.replace("/56\"]", "/56\", \"10.77.1.0/24\"]");
    let config = format!("{router}{ESP}{}{INGRESS}", testbed::UPLINK);
    let _router = testbed.router.roam6(&testbed.write_config("mr", &config));
    testbed.await_binding("2001:db8:2:");
    testbed.router.shell("sysctl -qw net.ipv4.ip_forward=1 && ip address add 10.77.1.1/24 dev in0");
    let ping = |size: &str| testbed.node.ping(2, size, "198.51.100.9");
    wait_or_report("IPv4 from inside", || ping("56").contains(" 0% packet loss"), || story(&testbed));
    assert!(ping("1000").contains(" 0% packet loss"), "{}", story(&testbed));
    let seen = capture.end();
    assert_eq!(seen.count("ip.addr == 10.77.1.2"), 0, "nothing is in the clear");
    assert!(seen.count("esp") >= 4, "{}", seen.count("esp"));
    seen.check();
}

#[test]
fn router_of_another_method_is_refused() {
    let Some(testbed) = testbed("router_of_another_method_is_refused") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _agent = testbed.start_agent_more(ESP);
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    let cures = ["encrypt = \"esp\" in its [mobile_router]", "encrypt = \"esp\" if its [home_agent] has that"];
    wait_or_report("a refusal", || cures.iter().all(|cure| testbed.logs().contains(cure)), || testbed.logs());
    assert!(!answers(&testbed, "56"));
    assert_eq!(capture.end().count(&format!("ipv6.addr == {NODE}")), 0, "it has no tunnel");
}

#[test]
fn home_agent_that_does_not_encrypt_gets_no_data() {
    let Some(testbed) = testbed("home_agent_that_does_not_encrypt_gets_no_data") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router(ESP);
    let cure = "write encrypt = \"esp\" in its [home_agent]";
    wait_or_report("a refusal", || testbed.logs().contains(cure), || testbed.logs());
    assert!(!answers(&testbed, "56"));
    assert_eq!(capture.end().count(&format!("ipv6.addr == {NODE}")), 0);
}

/// A ping with a flow label, which its answer has too: those between two hosts are one flow without (RFC 6437). The kernel keeps
/// a label for its user for some seconds, so none is used again.
fn assert_flow_answered(testbed: &Testbed, label: u32) {
    let label = label.to_string();
    let words = ["ping", "-nc1", "-W2", "-F", &label, CORRESPONDENT];
    let ping = testbed.node.command(&words).output().unwrap();
    let shown = String::from_utf8_lossy(&[ping.stdout, ping.stderr].concat()).into_owned();
    assert!(shown.contains(" 0% packet loss"), "flow label {label}: {shown}\n{}", story(testbed));
}

fn replay(testbed: &Testbed, file: &Path, interface: &str) -> u64 {
    let output =
        testbed.router.command(&["python3", "-c", REPLAY, file.to_str().unwrap(), interface]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

/// Packets that associations have refused because they were replayed.
fn replayed(testbed: &Testbed) -> u64 {
    associations(testbed, "ha").iter().filter_map(|one| one["replayed"].as_u64()).sum()
}

#[test]
fn two_uplinks_share_encrypted_flows_and_replays_are_refused() {
    let Some(testbed) = testbed("two_uplinks_share_encrypted_flows_and_replays_are_refused") else { return };
    let (_radvd, _other) = (testbed.advertise("2001:db8:2::/64"), testbed.add_other_network());
    let captures = ["visit0", "visit1"].map(|link| Capture::begin(&testbed, &testbed.agent, link, link));
    let _agent = testbed.start_agent_more(ESP);
    let _router = testbed.router.roam6(&testbed.write_config("mr", &format!("{ROUTER}{ESP}{TWO_UPLINKS}{INGRESS}")));
    testbed.await_binding("2001:db8:2:");
    testbed.await_binding("2001:db8:4:");
    await_answer(&testbed, "associations");
    testbed.agent.shell("echo 4 > /proc/sys/net/ipv6/flowlabel_reflect");
    let mut labels = 1..;
    let has_data_on_both = || {
        labels.by_ref().take(20).for_each(|label| assert_flow_answered(&testbed, label));
        captures.iter().all(|capture| capture.so_far().count("esp") >= 8)
    };
    wait_or_report("data on both uplinks", has_data_on_both, || story(&testbed));
    let devices = testbed.router.shell("ip -br link show type xfrm");
    assert!(devices.contains("roam6-esp11@up0") && devices.contains("roam6-esp12@up1"), "{devices}");
    assert!(testbed.show("mr", "counters").contains("dropped_no_session"), "{}", testbed.show("mr", "counters"));
    let captured = captures.map(Capture::end);
    for seen in &captured {
        assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
        seen.check();
    }
    let before = replayed(&testbed);
    let sent: u64 = captured.iter().zip(["up0", "up1"]).map(|(seen, link)| replay(&testbed, &seen.0, link)).sum();
    assert!(sent >= 20, "{sent}");
    // What was sent before has been handled when this is answered.
    assert!(answers(&testbed, "56"));
    let refused = replayed(&testbed) - before;
    assert_eq!(refused, sent, "of {sent} packets sent again none is accepted\n{}", story(&testbed));
}

#[test]
fn kernel_without_esp_is_named_at_the_start() {
    let test = "kernel_without_esp_is_named_at_the_start";
    if missing().is_none() {
        return println!("skipped: {test}: this kernel has ESP");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    for _daemon in [testbed.start_agent_more(ESP), testbed.start_router(ESP)] {
        let log = || testbed.logs();
        wait_or_report("the modules", || log().matches("load the modules esp6 and xfrm_interface").count() == 2, log);
    }
}

#[test]
fn what_esp_does_not_encrypt_is_refused_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mr.toml");
    let check = |router: &str| {
        fs::write(&path, router).unwrap();
        let output = Command::new(BINARY).args(["check", "--config"]).arg(&path).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let anonymous = ROUTER.replace("key_file = \"mr.key\"", "auth = \"none\"\nencrypt = \"esp\"");
    let text = check(&format!("{anonymous}{}{INGRESS}", testbed::UPLINK));
    assert!(text.contains("encrypt needs authentication"), "{text}");
    let over_ipv4 = ROUTER.replace("key_file", "encrypt = \"esp\"\nhome_agents_ipv4 = [\"192.0.2.1\"]\nkey_file");
    let text = check(&format!("{over_ipv4}{}transport = \"udp\"\n{INGRESS}", testbed::UPLINK));
    assert!(text.contains("ESP does not encrypt paths over IPv4"), "{text}");
    assert!(text.contains("ESP does not encrypt paths in UDP"), "{text}");
}

#[test]
fn bonding_is_encrypted() {
    let test = "bonding_is_encrypted";
    if let Some(why) = missing() {
        return println!("skipped: {test}: {why}");
    }
    let devices = ["roam6-esp11", "roam6-esp12"];
    encrypted::bonding_is_encrypted(test, &encrypted::Method { keys: [ESP.trim(); 2], devices, filter: "esp" });
}
