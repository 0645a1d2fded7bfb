//! Encryption by one switch: `encrypt` at each end. Nothing of the mobile network is readable on the visited network, over moves
//! and restarts, and a mobile router that does not encrypt gets no data. Needs a kernel with WireGuard.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

#[allow(clippy::indexing_slicing, clippy::panic, reason = "it is shared")]
#[path = "bonding/bed.rs"]
mod bed;
#[allow(clippy::indexing_slicing, clippy::panic, reason = "it is shared")]
#[path = "bonding/encrypted.rs"]
mod encrypted;
mod testbed;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};
use testbed::capture::Capture;
use testbed::nat::{self, NatTestbed, dissect};
use testbed::transfer::transfer_both_ways;
use testbed::wireguard::missing;
use testbed::{BINARY, INGRESS, ROUTER, SECOND_ROUTER, TWO_UPLINKS, Testbed, wait_for, wait_or_report};

/// Read by tests that use the kernel module, written by the one that unloads it.
static MODULE: RwLock<()> = RwLock::new(());

/// Packets of the mobile network in the devices, which are longer than probes.
const DATA: &str = "wg.type == 4 && udp.length > 80";

/// Sends again what a capture has of UDP to the devices of the home agent: file, interface. Prints how many frames.
const REPLAY: &str = "import socket, struct, sys
data = open(sys.argv[1], 'rb').read()
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[2], 0))
at, count = 24, 0
while at + 16 <= len(data):
    length = struct.unpack('=I', data[at + 8:at + 12])[0]
    frame = data[at + 16:at + 16 + length]
    at += 16 + length
    if len(frame) > 62 and frame[12:14] == b'\\x86\\xdd' and frame[20] == 17 and 4192 <= struct.unpack('!H', frame[56:58])[0] < 4256:
        s.send(frame)
        count += 1
print(count)
";

const NODE: &str = "2001:db8:100::2";
const CORRESPONDENT: &str = "2001:db8:9::9";

fn testbed(test: &str) -> Option<Testbed> {
    if let Some(why) = missing() {
        println!("skipped: {test}: {why}");
        return None;
    }
    let testbed = Testbed::new(test)?;
    testbed.enroll(&[]);
    Some(testbed)
}

fn answers(testbed: &Testbed, size: &str) -> bool {
    testbed.node.ping(2, size, CORRESPONDENT).contains(" 0% packet loss")
}

fn await_answer(testbed: &Testbed, when: &str) {
    wait_or_report(when, || answers(testbed, "56"), || testbed.logs());
}

/// Pings, a number of times, that must all be answered.
fn answered(testbed: &Testbed, count: &str) {
    let words = ["ping", "-nq", "-i0.05", "-W2", "-c", count, CORRESPONDENT];
    let shown = testbed.node.command(&words).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(" 0% packet loss"), "{shown}\n{}", testbed.logs());
}

#[test]
fn nothing_is_readable_over_moves_and_restarts() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("nothing_is_readable_over_moves_and_restarts") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let mut agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let mut radvd = testbed.advertise("2001:db8:2::/64");
    let mut router = testbed.start_router("encrypt = true\n");
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "a session");
    answered(&testbed, "20");
    assert!(answers(&testbed, "1372"), "1420 octets fit");
    let longer = testbed.node.ping(2, "1373", CORRESPONDENT);
    assert!(longer.contains("mtu") && longer.contains("1420"), "{longer}");
    // Buffers of several segments too, which a device makes of what it has decrypted.
    transfer_both_ways(&testbed);
    // The route of outer packets follows those of others, and not itself.
    let changes = testbed.router.shell("timeout 2 ip -6 monitor route; true");
    assert!(changes.lines().count() < 20, "{changes}");
    for (prefix, care_of) in [("2001:db8:3::/64", "2001:db8:3:"), ("2001:db8:2::/64", "2001:db8:2:")] {
        drop(radvd);
        radvd = testbed.advertise(prefix);
        testbed.router.shell("ip link set up0 down; ip link set up0 up");
        testbed.await_binding(care_of);
        await_answer(&testbed, "a move");
        answered(&testbed, "20");
    }
    // Killed: the kernel goes on, and the next daemon takes over.
    for _ in 0..2 {
        drop(router);
        answered(&testbed, "20");
        router = testbed.start_router("encrypt = true\n");
        answered(&testbed, "40");
        drop(agent);
        answered(&testbed, "20");
        agent = testbed.start_agent_more("encrypt = \"required\"\n");
        answered(&testbed, "40");
    }
    let seen = capture.end();
    assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
    assert!(seen.count("wg") >= 400, "all of it is there: {}", seen.count("wg"));
    seen.check();
    drop((agent, router, radvd));
}

#[test]
fn router_that_does_not_encrypt_is_refused_if_it_has_to() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("router_that_does_not_encrypt_is_refused_if_it_has_to") else { return };
    let _agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    let cure = "write encrypt = true in [mobile_router]";
    wait_or_report("a refusal", || testbed.logs().contains(cure), || testbed.logs());
    assert!(!answers(&testbed, "56"));
}

#[test]
fn home_agent_that_does_not_encrypt_gets_no_data() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("home_agent_that_does_not_encrypt_gets_no_data") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("encrypt = true\n");
    let cure = "write encrypt = true in its [home_agent]";
    wait_or_report("a refusal", || testbed.logs().contains(cure), || testbed.logs());
    assert!(!answers(&testbed, "56"));
    assert_eq!(capture.end().count(&format!("ipv6.addr == {NODE}")), 0);
}

#[test]
fn unencrypted_router_is_served_beside_an_encrypted_one_if_it_may() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("unencrypted_router_is_served_beside_an_encrypted_one_if_it_may") else { return };
    let _agent = testbed.start_agent_more("encrypt = true\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let plain = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "unencrypted");
    drop(plain);
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _router = testbed.start_router("encrypt = true\n");
    wait_for("encrypted", || testbed.router.shell("ip -br link").contains("roam6-wg"));
    await_answer(&testbed, "encrypted");
    answered(&testbed, "20");
    assert_eq!(capture.end().count(&format!("ipv6.addr == {NODE}")), 0, "not even after the start");
}

/// A ping with a flow label, which its answer has too: those between two hosts are one flow without (RFC 6437). The kernel keeps
/// a label for its user for some seconds, so none is used again.
fn assert_flow_answered(testbed: &Testbed, label: u32) {
    let label = label.to_string();
    let words = ["ping", "-nc1", "-W2", "-F", &label, CORRESPONDENT];
    let ping = testbed.node.command(&words).output().unwrap();
    assert!(said(&ping).contains(" 0% packet loss"), "flow label {label}: {}\n{}", said(&ping), testbed.logs());
}

/// Echo requests that this host has received.
fn echoes_at(testbed: &Testbed) -> u64 {
    let shown = testbed.agent.shell("awk '$1 == \"Icmp6InEchos\" { print $2 }' /proc/net/snmp6");
    shown.trim().parse().unwrap()
}

fn replay(testbed: &Testbed, file: &Path, interface: &str) -> u64 {
    let output =
        testbed.router.command(&["python3", "-c", REPLAY, file.to_str().unwrap(), interface]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

#[test]
fn two_uplinks_share_encrypted_flows_and_replays_are_refused() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("two_uplinks_share_encrypted_flows_and_replays_are_refused") else { return };
    let captures = ["visit0", "visit1"];
    let (_radvd, _other) = (testbed.advertise("2001:db8:2::/64"), testbed.add_other_network());
    let captures = captures.map(|link| Capture::begin(&testbed, &testbed.agent, link, link));
    let _agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let _router =
        testbed.router.roam6(&testbed.write_config("mr", &format!("{ROUTER}encrypt = true\n{TWO_UPLINKS}{INGRESS}")));
    testbed.await_binding("2001:db8:2:");
    testbed.await_binding("2001:db8:4:");
    await_answer(&testbed, "a session");
    // Without probes flows are given to a path that has no session yet, and WireGuard repeats a lost handshake after 5 s.
    ["roam6-wg1", "roam6-wg2"].iter().for_each(|device| await_device(&testbed, device));
    testbed.agent.shell("echo 4 > /proc/sys/net/ipv6/flowlabel_reflect");
    let mut labels = 1..;
    let has_data_on_both = || {
        labels.by_ref().take(20).for_each(|label| assert_flow_answered(&testbed, label));
        captures.iter().all(|capture| capture.so_far().count(DATA) >= 4)
    };
    let story = || format!("{}\n{}\n{}", show_json(&testbed, "mr"), testbed.show("mr", "links"), testbed.logs());
    wait_or_report("data on both uplinks", has_data_on_both, story);

    let keys: serde_json::Value = serde_json::from_str(&show_json(&testbed, "mr")).unwrap();
    let sessions = keys.as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{keys}");
    assert!(sessions.iter().all(|session| session["handshake_age"].as_u64().is_some_and(|age| age < 600)), "{keys}");
    let theirs: serde_json::Value = serde_json::from_str(&show_json(&testbed, "ha")).unwrap();
    let pairs = |sessions: &serde_json::Value, ours: &str, peer: &str| {
        let both = |session: &serde_json::Value| (session[ours].to_string(), session[peer].to_string());
        sessions.as_array().unwrap().iter().map(both).collect::<Vec<_>>()
    };
    assert_eq!(pairs(&keys, "public_key", "peer"), pairs(&theirs, "peer", "public_key"));
    let table = testbed.show("mr", "keys");
    assert!(table.contains("HANDSHAKE") && table.matches(" ago").count() == 2, "{table}");
    assert!(testbed.show("mr", "counters").contains("dropped_no_session"), "{}", testbed.show("mr", "counters"));

    let captured = captures.map(Capture::end);
    for seen in &captured {
        assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
        seen.check();
    }
    let before = echoes_at(&testbed);
    let sent: u64 = captured.iter().zip(["up0", "up1"]).map(|(seen, link)| replay(&testbed, &seen.0, link)).sum();
    assert!(sent >= 20, "{sent}");
    // What was sent before has been handled when this is answered.
    assert!(answers(&testbed, "56"));
    assert_eq!(echoes_at(&testbed), before + 1, "of {sent} packets sent again none is accepted");
}

fn show_json(testbed: &Testbed, who: &str) -> String {
    let place = if who == "ha" { &testbed.agent } else { &testbed.router };
    let mut show = place.command(&[BINARY, "show", "keys", "--json", "--run-dir"]);
    String::from_utf8(show.arg(testbed.file(who).join("run")).output().unwrap().stdout).unwrap()
}

/// The sessions of a daemon: device, public key, and whether there was a handshake.
fn sessions(testbed: &Testbed, who: &str) -> Vec<(String, String, bool)> {
    let shown: serde_json::Value = serde_json::from_str(&show_json(testbed, who)).unwrap_or_default();
    let text = |session: &serde_json::Value, key: &str| session[key].as_str().unwrap_or_default().to_owned();
    let sessions = shown.as_array().into_iter().flatten();
    let one = |one: &serde_json::Value| (text(one, "device"), text(one, "public_key"), one["handshake_age"].is_u64());
    sessions.map(one).collect()
}

/// `roam6 keygen --renew`.
fn renew(testbed: &Testbed, who: &str) -> Output {
    let place = if who == "ha" { &testbed.agent } else { &testbed.router };
    place.command(&[BINARY, "keygen", "--renew", "--run-dir"]).arg(testbed.file(who).join("run")).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// Waits until both ends have a session on this device.
fn await_device(testbed: &Testbed, device: &str) {
    let has = |who| sessions(testbed, who).iter().any(|(name, _, has_session)| name == device && *has_session);
    let story = || format!("{}\n{}\n{}", show_json(testbed, "ha"), show_json(testbed, "mr"), testbed.logs());
    wait_or_report(device, || has("ha") && has("mr"), story);
}

#[test]
fn renewed_keys_take_over_without_a_loss() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("renewed_keys_take_over_without_a_loss") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let mut agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    // Updates every few seconds, so that the home agent's acknowledgements are not waited for.
    let _router = testbed.start_router("encrypt = true\nlifetime = \"20s\"\n");
    testbed.await_binding("2001:db8:2:");
    await_device(&testbed, "roam6-wg0");
    await_answer(&testbed, "a session");
    let words = ["ping", "-n", "-i0.02", CORRESPONDENT];
    let traffic = testbed.node.command(&words).stdout(Stdio::piped()).spawn().unwrap();

    // The keys cannot be written, as on a full disk: nothing changes.
    let (file, obstacle) = (testbed.file("mr/state/wireguard.keys"), testbed.file("mr/state/wireguard.new"));
    let before = fs::read(&file).unwrap();
    fs::create_dir(&obstacle).unwrap();
    let refused = renew(&testbed, "mr");
    assert!(!refused.status.success() && said(&refused).contains("make state_dir writable"), "{}", said(&refused));
    assert_eq!(fs::read(&file).unwrap(), before);
    fs::remove_dir(&obstacle).unwrap();

    let first = sessions(&testbed, "mr");
    assert!(renew(&testbed, "mr").status.success(), "{}", testbed.logs());
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    await_device(&testbed, "roam6-wg16");
    let second = sessions(&testbed, "mr");
    assert!(second.iter().any(|session| first.contains(session)), "packets under way are accepted: {second:?}");
    assert!(second.iter().all(|(device, key, _)| device == "roam6-wg0" || *key != first[0].1), "{second:?}");
    let table = testbed.show("mr", "keys");
    assert!(table.contains("AGE") && table.contains("roam6-wg16"), "{table}");
    let refused = renew(&testbed, "mr");
    assert!(!refused.status.success() && said(&refused).contains("before the last renewal"), "{}", said(&refused));

    assert!(renew(&testbed, "ha").status.success(), "{}", testbed.logs());
    await_device(&testbed, "roam6-wg48");
    std::thread::sleep(std::time::Duration::from_secs(2));
    Command::new("kill").args(["-INT", &traffic.id().to_string()]).status().unwrap();
    let shown = String::from_utf8(traffic.wait_with_output().unwrap().stdout).unwrap();
    // Those after the last answer may have been under way at the end.
    let number = |word: &str| word.strip_prefix("icmp_seq=")?.parse::<usize>().ok();
    let answered_ones: Vec<usize> = shown.split_whitespace().filter_map(number).collect();
    let lost: Vec<usize> = (1..=answered_ones.len()).filter(|number| !answered_ones.contains(number)).collect();
    assert!(answered_ones.len() >= 100 && lost.is_empty(), "lost: {lost:?}\n{}", testbed.logs());

    // The next daemon has the renewed keys, and those of sessions from before.
    drop(agent);
    answered(&testbed, "20");
    agent = testbed.start_agent_more("encrypt = \"required\"\n");
    answered(&testbed, "40");
    let seen = capture.end();
    assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
    for port in [4192, 4208, 4240] {
        let data = seen.count(&format!("wg.type == 4 && udp.port == {port} && udp.length > 80"));
        assert!(data >= 10, "{data} packets of data by port {port}");
    }
    seen.check();
    drop(agent);
}

#[test]
fn keys_are_renewed_by_a_daemon_that_encrypts_only() {
    let Some(testbed) = Testbed::new("keys_are_renewed_by_a_daemon_that_encrypts_only") else { return };
    let refused = renew(&testbed, "ha");
    assert_eq!(refused.status.code(), Some(3), "no daemon: {}", said(&refused));
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    wait_or_report("a daemon", || !testbed.show("ha", "counters").is_empty(), || testbed.logs());
    let refused = renew(&testbed, "ha");
    let why = "encrypt is not in the configuration";
    assert!(refused.status.code() == Some(1) && said(&refused).contains(why), "{}", said(&refused));
    assert!(!testbed.file("ha/state/wireguard.keys").exists());
}

#[test]
fn ipv4_uplink_behind_a_nat_is_encrypted_and_outlives_its_mapping() {
    let test = "ipv4_uplink_behind_a_nat_is_encrypted_and_outlives_its_mapping";
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = missing() {
        return println!("skipped: {test}: {why}");
    }
    let Some(nat_testbed) = NatTestbed::new(test, true) else { return };
    let testbed = &nat_testbed.testbed;
    let (file, listener) = nat_testbed.capture();
    let _agent = testbed.start_agent_more(&format!("encrypt = \"required\"\n{}", nat::AGENT));
    let _router = testbed.start_router(&format!("encrypt = true\n{}", nat::ROUTER));
    nat_testbed.await_ipv4();
    await_answer(testbed, "a session over IPv4");
    answered(testbed, "20");
    assert!(answers(testbed, "1388"), "1436 octets fit");
    let longer = testbed.node.ping(2, "1389", CORRESPONDENT);
    assert!(longer.contains("mtu") && longer.contains("1436"), "{longer}");
    nat_testbed.forget();
    await_answer(testbed, "another mapping");
    answered(testbed, "20");
    drop(listener);
    assert_eq!(dissect(&file, &format!("ipv6.addr == {NODE}"), "frame.number"), "", "nothing is in the clear");
    assert!(dissect(&file, "wg.type == 4", "frame.number").lines().count() >= 80);
    assert_eq!(dissect(&file, "ip.flags.mf == 1", "frame.number"), "", "no fragments");
}

#[test]
fn second_mobile_router_with_the_same_wireguard_key_is_refused() {
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(testbed) = testbed("second_mobile_router_with_the_same_wireguard_key_is_refused") else { return };
    testbed.enroll_second();
    let _agent = testbed.start_agent_more("encrypt = true\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let first = testbed.start_router("encrypt = true\n");
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "a session");
    drop(first);
    let state = testbed.file("mr2").join("state");
    fs::create_dir_all(&state).unwrap();
    fs::copy(testbed.file("mr").join("state/wireguard.keys"), state.join("wireguard.keys")).unwrap();
    let uplink = "encrypt = true\n[[mobile_router.uplink]]\ninterface = \"up0\"\n";
    let _second = testbed.router.roam6(&testbed.write_config("mr2", &format!("{SECOND_ROUTER}{uplink}")));
    let refused = "another mobile router has the WireGuard key";
    let story = || format!("{}{}", testbed.logs(), fs::read_to_string(testbed.file("mr2.log")).unwrap_or_default());
    wait_or_report("a refusal", || testbed.logs().contains(refused), story);
    let bindings = testbed.show("ha", "bindings");
    assert!(bindings.contains("2001:db8:1::100") && !bindings.contains("2001:db8:1::200"), "{bindings}");
}

#[test]
fn kernel_without_wireguard_is_named_at_the_start() {
    let test = "kernel_without_wireguard_is_named_at_the_start";
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    if missing().is_none() {
        return println!("skipped: {test}: this kernel has WireGuard");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    for _daemon in [testbed.start_agent_more("encrypt = true\n"), testbed.start_router("encrypt = true\n")] {
        let log = || testbed.logs();
        wait_or_report("the module", || log().matches("load the module wireguard").count() == 2, log);
    }
}

#[test]
fn encryption_without_authentication_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mr.toml");
    let router = ROUTER.replace("key_file = \"mr.key\"", "auth = \"none\"\nencrypt = true");
    fs::write(&path, format!("{router}{}{INGRESS}", testbed::UPLINK)).unwrap();
    let output = Command::new(BINARY).args(["check", "--config"]).arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && text.contains("encrypt needs authentication"), "{text}");
}

#[test]
fn unloaded_module_stops_the_data_and_its_return_resumes_it() {
    let test = "unloaded_module_stops_the_data_and_its_return_resumes_it";
    let _module = MODULE.write().unwrap_or_else(PoisonError::into_inner);
    if !testbed::has_own_machine() {
        return println!("skipped: {test}: it unloads a module of the machine: make test-vm");
    }
    let Some(testbed) = testbed(test) else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("encrypt = true\n");
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "a session");
    let _traffic = testbed.node.start(&["ping", "-nq", "-i0.05", CORRESPONDENT]);
    // An alias to nothing keeps the kernel from loading it again by itself.
    let blocked = "/etc/modprobe.d/roam6-test.conf";
    fs::write(blocked, "install wireguard /bin/false\n").unwrap();
    testbed.agent.shell("rmmod wireguard");
    let gone = "a device of tunnels was removed, its packets are dropped";
    let story = || testbed.logs();
    wait_or_report("both say so", || testbed.logs().matches(gone).count() == 2, story);
    assert!(testbed.logs().contains("load the module wireguard"), "{}", testbed.logs());
    assert!(!answers(&testbed, "56"));
    fs::remove_file(blocked).unwrap();
    wait_or_report("both make it again", || testbed.logs().matches(": made again").count() == 2, story);
    await_answer(&testbed, "a new session");
    let seen = capture.end();
    assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
}

#[test]
fn bonding_is_encrypted() {
    let test = "bonding_is_encrypted";
    let _module = MODULE.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = missing() {
        return println!("skipped: {test}: {why}");
    }
    let (keys, devices) = (["encrypt = \"required\"", "encrypt = true"], ["roam6-wg1", "roam6-wg2"]);
    encrypted::bonding_is_encrypted(test, &encrypted::Method { keys, devices, filter: "wg.type == 4" });
}
